//! On-disk structures that layers share: metadata in sealed sectors, in two copies; and records of a log.
//!
//! A device writes a sector whole or not at all, and any subset of unflushed sectors may survive a power failure. So a
//! *torn* copy has sectors of several writes, each of them whole; a sector that is not whole is *rotten*: its contents
//! changed after it was written. The two must be distinguished: a torn write was never acknowledged, and may be
//! dropped; rotten data may have been acknowledged.

pub mod blob;
pub mod pair;
pub mod parity;
pub mod quiet;
pub mod region;
pub mod sector;
pub mod session;
pub mod table;
pub mod walk;

pub use pair::{Choice, CopyState, Pair};
pub use quiet::Quiet;

use seekless_core::{ErrorKind, Extent, IoError};

/// Fails if a layer is read-only, because it was opened in an earlier state.
///
/// # Errors
/// `ReadOnly`.
pub fn writable(layer: &'static str, older: bool) -> Result<(), IoError> {
    let why = "found a write to a volume opened in an earlier state (`older`), expected reads";
    if older { Err(IoError::new(ErrorKind::ReadOnly, layer, None, why)) } else { Ok(()) }
}

/// The error for zeroes where metadata should be, or for what an interrupted creation left there.
pub fn not_created(layer: &'static str, at: Extent) -> IoError {
    let why = "found a device that was not initialised, expected metadata: if it is the right one and new, `seekless \
               volume create` initialises it";
    IoError::new(ErrorKind::Invalid, layer, Some(at), why)
}

/// Begins the first sector of a device of which the creation has begun and not ended.
const UNFINISHED: [u8; 8] = *b"SKLUNFIN";

/// The sector that marks an unfinished creation.
pub fn unfinished() -> Vec<u8> {
    let mut sector = vec![0; seekless_core::SECTOR_BYTES as usize];
    sector[..UNFINISHED.len()].copy_from_slice(&UNFINISHED);
    sector
}

/// Whether a copy, or a sector, is that of an unfinished creation.
pub fn is_unfinished(bytes: &[u8]) -> bool {
    bytes.starts_with(&unfinished())
}
