//! What layers keep on disk, beside the data: metadata in sealed sectors, in two copies; and records of a log.
//!
//! A device writes a sector whole or not at all, and any sectors of what was not flushed may survive a loss of power.
//! So a *torn* copy has sectors of several writes, each of them whole; a sector that is not whole is *rotten*: it was
//! written, and is not any more what it was. The two must not be mistaken for each other: what is torn was never
//! acknowledged, and may be dropped; what is rotten may hold what was.

pub mod pair;
pub mod parity;
pub mod quiet;
pub mod region;
pub mod sector;

pub use pair::{Choice, CopyState, Pair};
pub use quiet::Quiet;

use seekless_core::{ErrorKind, IoError};

/// Whether a layer takes writes: not, if it was opened as it was before what it wrote last.
///
/// # Errors
/// `ReadOnly`.
pub fn writable(layer: &'static str, older: bool) -> Result<(), IoError> {
    let why = "found a write to what was opened as it was before (`older`), expected reads";
    if older { Err(IoError::new(ErrorKind::ReadOnly, layer, None, why)) } else { Ok(()) }
}
