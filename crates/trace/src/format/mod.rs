//! Trace formats, one file each. A format turns bytes into [`Event`]s; everything after that (order in time, names,
//! layered devices) is common to all and is in the reader.
//!
//! The first bytes of a file decide its format, never its name. To add a format: a file here with a type that
//! implements [`Decoder`] and a constant that describes it, and a line in [`FORMATS`].

mod alibaba;
mod binary;
mod biosnoop;
mod blkparse;
mod blkparse_f;
mod blkreplay;
pub mod blktrace;
mod borg;
mod byte_ascii;
mod cloudphysics;
mod column;
mod columns;
mod disksim;
mod disksim_validate;
pub(crate) mod fields;
mod fio;
mod fiu;
mod fixed;
mod hp_srt;
mod mqsim;
mod msr;
mod oracle_general;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod scsi;
mod spc;
mod spread;
mod systor;
mod table;
mod tencent;
mod text;
mod vscsi;

use seekless_core::{Extent, Latency, Nanos, Op, ProcessId, StreamId, record::Flags};

use crate::error::TraceError;

pub use crate::options::{OpenUnits, TimeUnit};
pub use crate::volumes::Naming;
pub use columns::Columns;
pub use fixed::Fixed;
pub(crate) use table::{Content, Opened, open, opened};
pub use table::{DESCRIBED, FORMATS, Format, Sample};

/// An event of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time, by the clock of the trace.
    pub time: Nanos,
    /// Offset in the uncompressed file, for messages.
    pub offset: u64,
    /// Kind.
    pub kind: EventKind,
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The process has this name from here on.
    Named(ProcessId, Box<str>),
    /// A request was queued at a device.
    Queued(TracedRequest),
    /// A request was passed from one device to another below it.
    Remapped(Remapped),
    /// A request was issued to the drive: an earlier one, or several merged ones.
    Issued(TracedRequest),
    /// A request was completed by the device: an earlier one, or several merged ones.
    Completed(TracedRequest),
}

/// A request, before its process has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// Device.
    pub device: u32,
    /// Operation.
    pub op: Op,
    /// Extent; empty for a flush.
    pub extent: Extent,
    /// Flags.
    pub flags: Flags,
    /// Issuing process.
    pub process: ProcessId,
    /// Client of the workload.
    pub stream: StreamId,
    /// Latency, where the format gives it with the request.
    pub latency: Latency,
}

/// A request that was remapped: from a volume or partition to the device below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remapped {
    /// The traced device at which the remap was recorded.
    pub device: u32,
    /// New device; differs from `device` if it is a partition of it.
    pub to_device: u32,
    /// Extent there; empty for a flush.
    pub extent: Extent,
    /// Old device.
    pub from_device: u32,
    /// First sector there.
    pub from_start: u64,
}

/// Decodes the events of one file, in file order.
pub trait Decoder {
    /// The next event; `None` at the end. Not called again after an error or the end.
    fn next_event(&mut self) -> Result<Option<Event>, TraceError>;

    /// Warnings about the file, though it could be read; called at the end.
    fn warnings(&mut self) -> Vec<String>;

    /// Number of malformed records skipped so far.
    fn skipped(&self) -> u64 {
        0
    }

    /// Whether an event that is too late in the file to be put in its place counts at the time of the one before it,
    /// with a warning, rather than being an error.
    fn clamps(&self) -> bool {
        false
    }
}
