//! Live volumes: components of files, block devices, memory and other servers; what a server of a volume file does, and
//! how its recorded inputs are replayed.

mod answerer;
mod attaching;
mod build;
mod change;
mod component;
mod control;
mod create;
mod doing;
mod environment;
mod error;
mod events;
mod group;
mod history;
pub mod inputs;
mod machines;
mod metrics;
mod missing;
mod models;
mod names;
mod offered;
mod pairs;
mod replacement;
mod replacing;
mod resizing;
mod running;
mod server;
mod snapshots;
mod stats;
mod store;
pub mod tools;

pub use attaching::Attach;
pub use component::{Live, Probed};
pub use control::{
    DeviceStatus, HitStatus, LayerStatus, OnSnapshot, Question, QueueStatus, QueuedStatus, ServedExport,
    SnapshotStatus, Status, control_path,
};
pub use create::{create, upgrade};
pub use doing::Doing;
pub use environment::{Environment, Level, Program, is_root};
pub use error::LiveError;
pub use events::{Event, EventLine};
pub use group::{Member, serve_volumes};
pub use history::{GainStatus, ModelError, PastStatus, PredictedStatus, SpanStatus, StageStatus};
pub use metrics::metrics;
pub use models::{FoundBy, ModelStatus};
pub use replacement::STEPS;
pub use replacing::{Replace, Replaced};
pub use resizing::Resized;
pub use server::{Address, Request, Serving, addresses};
pub use stats::{AccessStats, IoStats, KindStats};
