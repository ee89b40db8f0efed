//! The vocabulary of seekless (addresses, requests, buffers, errors), block devices and the layers
//! made of them, and the deterministic runtime that they all run on.
//!
//! Nothing in here does I/O, reads a wall clock, starts a thread or draws an unseeded number.

pub mod error;
pub mod record;
pub mod request;
pub mod units;

pub use error::{ErrorKind, IoError};
pub use record::{Flags, Names, Record};
pub use request::{Account, Class, Hints, NameId, Op, Origin, ProcessId, StreamId, Ticket};
pub use units::{Extent, Lba, Nanos, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, Size};
