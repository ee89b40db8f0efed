//! Live: real devices as components, on the clock of the machine, and an NBD server over them. Linux only.
//!
//! A volume is one thread: the runtime that the lab has, under a [`reactor`] that waits for the kernel. Its
//! [`component`]s are at the bottom, its layers in between; on top a [`server`] answers clients by the [`nbd`] codec.
//! [`DirectFile`] is for measurements, a request at a time, with [`Clock`] to hold its clock to the machine's.

#[cfg(target_os = "linux")]
mod admit;
mod clock;
#[cfg(target_os = "linux")]
pub mod component;
#[cfg(target_os = "linux")]
pub mod descriptors;
#[cfg(target_os = "linux")]
mod direct;
pub mod nbd;
#[cfg(target_os = "linux")]
pub mod reactor;
#[cfg(target_os = "linux")]
mod retry;
#[cfg(target_os = "linux")]
pub mod server;
#[cfg(target_os = "linux")]
pub mod signals;

#[cfg(target_os = "linux")]
pub use admit::{Admission, AdmissionError, Target};
pub use clock::Clock;
#[cfg(target_os = "linux")]
pub use direct::DirectFile;
