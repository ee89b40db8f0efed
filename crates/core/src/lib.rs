//! The vocabulary of seekless (addresses, requests, buffers, errors), block devices and the layers made of them, and
//! the deterministic runtime that they all run on.
//!
//! Nothing in here does I/O, reads a wall clock, starts a thread or draws an unseeded number.

pub mod accesses;
mod buckets;
pub mod buffer;
pub mod checksum;
pub mod device;
pub mod error;
pub mod failed_writes;
pub mod flush_guard;
pub mod gate;
pub mod history;
mod invariant;
pub mod limit;
pub mod lock;
pub mod measure;
pub mod meter;
pub mod model;
pub mod mutant;
pub mod names;
pub mod record;
pub mod request;
pub mod runtime;
pub mod slice;
pub mod switch;
mod top;
pub mod units;

pub use accesses::Accesses;
pub use buckets::Buckets;
pub use buffer::Buffer;
pub use device::{BlockDevice, Counters, Geometry, IoFuture, Layer, Zeroes};
pub use error::{ErrorKind, IoError};
pub use failed_writes::FailedWrites;
pub use flush_guard::FlushGuard;
pub use gate::{Gate, GateGuard};
pub use history::History;
pub use limit::Limits;
pub use lock::{Mode, RangeLocks};
pub use measure::{Cost, Hits, LayerTraffic, Readiness, Reconfigured, SnapshotSpace, Stage, Traffic};
pub use meter::Meter;
pub use model::{Model, Modelled, Twin, Twins};
pub use record::{Flags, Latency, Names, Record};
pub use request::{Account, Class, Hints, NameId, Op, Origin, ProcessId, StreamId, Ticket};
pub use slice::Slice;
pub use switch::Switch;
pub use top::Top;
pub use units::{Extent, Lba, Nanos, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, Size};
