//! Live volumes: real devices as components, on the machine's clock, and over them a server for NBD clients and virtual
//! machines. Linux only.
//!
//! A volume is one thread: the lab's runtime, under a [`reactor`] that waits for the kernel. Its [`component`]s are at
//! the bottom, its layers in between; on top a [`server`] serves clients with the [`nbd`] codec, and virtual
//! machines with that of `vhost`. [`DirectFile`] is for
//! measurements, a request at a time, with [`Clock`] to keep its clock in step with the machine's.

#[cfg(target_os = "linux")]
mod admit;
mod clock;
#[cfg(target_os = "linux")]
pub mod component;
#[cfg(target_os = "linux")]
pub mod descriptors;
#[cfg(target_os = "linux")]
mod direct;
#[cfg(target_os = "linux")]
pub mod mounted;
pub mod nbd;
#[cfg(target_os = "linux")]
pub mod notify;
#[cfg(target_os = "linux")]
pub mod place;
#[cfg(target_os = "linux")]
pub mod reactor;
#[cfg(target_os = "linux")]
mod retry;
#[cfg(target_os = "linux")]
pub mod server;
#[cfg(target_os = "linux")]
pub mod signals;
#[cfg(target_os = "linux")]
pub mod uri;
#[cfg(all(target_os = "linux", feature = "vhost"))]
pub mod vhost;
#[cfg(target_os = "linux")]
pub mod wire;

#[cfg(target_os = "linux")]
pub use admit::{Admission, AdmissionError, Target};
pub use clock::Clock;
#[cfg(target_os = "linux")]
pub use direct::DirectFile;
