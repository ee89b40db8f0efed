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
pub mod inputs;
mod names;
mod offered;
mod pairs;
mod replacement;
mod running;
mod server;
mod snapshots;
pub mod tools;

pub use attaching::Attach;
pub use component::{Live, Probed};
pub use control::{LayerStatus, OnSnapshot, Question, ServedExport, SnapshotStatus, Status, control_path};
pub use create::{create, upgrade};
pub use doing::Doing;
pub use environment::{Environment, Program};
pub use error::LiveError;
pub use events::Event;
pub use replacement::STEPS;
pub use server::{Address, Request, Serving, addresses, serve_volume};
