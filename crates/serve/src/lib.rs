//! Live: real devices as components, on the clock of the machine. Linux only.
//!
//! Today there is one component, [`DirectFile`]: a device or file that is read directly, a request at a time.
//! [`Clock`] holds the runtime's clock to the machine's.

#[cfg(target_os = "linux")]
mod admit;
mod clock;
#[cfg(target_os = "linux")]
mod direct;

#[cfg(target_os = "linux")]
pub use admit::{Admission, Refused, Target};
pub use clock::Clock;
#[cfg(target_os = "linux")]
pub use direct::DirectFile;
