//! Live volumes: components of files, block devices, memory and other servers; what a server of a volume file does, and
//! how its recorded inputs are replayed.

mod build;
mod component;
mod control;
mod create;
mod environment;
mod error;
pub mod inputs;
mod names;
mod pairs;
mod server;

pub use component::{Live, Probed};
pub use control::{LayerStatus, Question, ServedExport, Status, control_path};
pub use create::{create, upgrade};
pub use environment::{Environment, Program};
pub use error::LiveError;
pub use server::{Address, Request, Serving, addresses, serve_volume};
