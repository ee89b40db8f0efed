//! Drives: described in TOML with the source of every figure, modelled as arithmetic that estimates an access without
//! performing it, and simulated by components that obey the model.

pub mod calibrate;
pub mod check;
pub mod component;
pub mod device_model;
pub mod disk;
pub mod fit;
pub mod flash;
pub mod freeblock;
pub mod import;
pub mod power;
pub mod queue;
pub mod queued;
pub mod scheduler;
pub mod shingled;
mod simulated;
pub mod spec;
pub mod validate;
pub mod work;

pub use component::{Component, Disk, FlashDrive, Simulated};
pub use queue::QueueOptions;
pub use queued::QueuedDevice;
pub use scheduler::Policy;
pub use simulated::{Template, simulated};
pub use spec::{FlashSpec, Model, Spec, SpecError};
pub use work::Work;
