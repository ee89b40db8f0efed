//! Drives: described in TOML with the source of every figure, as arithmetic that can be asked what
//! an access would take, and as simulated components that obey it.

pub mod calibrate;
pub mod component;
pub mod disk;
pub mod fit;
pub mod flash;
pub mod freeblock;
pub mod import;
pub mod machine;
pub mod power;
pub mod queue;
pub mod scheduler;
pub mod shingled;
mod simulated;
pub mod spec;
pub mod validate;
pub mod work;

pub use component::{Component, Disk, FlashDrive, Simulated};
pub use queue::QueueOptions;
pub use scheduler::Policy;
pub use simulated::simulated;
pub use spec::{FlashSpec, Model, Spec, SpecError};
pub use work::Work;
