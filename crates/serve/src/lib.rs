//! Live: real devices as components, on the clock of the machine. Linux only.
//!
//! Today there is one component, [`DirectFile`]: a device or file that is read directly, a request at a time.

#[cfg(target_os = "linux")]
mod admit;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod direct;

#[cfg(target_os = "linux")]
pub use admit::{Admission, Refused, Target};
#[cfg(target_os = "linux")]
pub use direct::DirectFile;
