//! Components: the devices that a live volume stores its sectors on.
//!
//! Invariants: a component is in one volume at a time. Fault model: the device below fails, ends early or is full: each
//! is an error value with the component's name and the place.

mod emulated;
mod error;
mod file;
mod memory;
mod numbered;
mod remote;
mod timed;

pub use crate::nbd::client::ExportInfo;
pub use emulated::EmulatedComponent;
pub use error::{OpenError, kind_of};
pub use file::{FileComponent, FileProbe, Opened};
pub use memory::MemoryComponent;
pub use numbered::Numbered;
pub use remote::{Connected, Reconnect, RemoteComponent};
pub use timed::TimedComponent;
