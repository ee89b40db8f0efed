//! On-disk structures that layers share: metadata in sealed sectors, in two copies; and records of a log.
//!
//! A device writes a sector whole or not at all, and any subset of unflushed sectors may survive a power failure. So a
//! *torn* copy has sectors of several writes, each of them whole; a sector that is not whole is *rotten*: its contents
//! changed after it was written. The two must be distinguished: a torn write was never acknowledged, and may be
//! dropped; rotten data may have been acknowledged.

pub mod pair;
pub mod parity;
pub mod quiet;
pub mod region;
pub mod sector;
pub mod walk;

pub use pair::{Choice, CopyState, Pair};
pub use quiet::Quiet;

use seekless_core::{ErrorKind, IoError};

/// Fails if a layer is read-only, because it was opened in an earlier state.
///
/// # Errors
/// `ReadOnly`.
pub fn writable(layer: &'static str, older: bool) -> Result<(), IoError> {
    let why = "found a write to a volume opened in an earlier state (`older`), expected reads";
    if older { Err(IoError::new(ErrorKind::ReadOnly, layer, None, why)) } else { Ok(()) }
}
