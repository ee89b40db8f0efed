//! Trace formats, one file each. A format turns bytes into [`Event`]s; everything after that (order
//! in time, names, layered devices) is common to all and lives in the reader.
//!
//! The first bytes of a file decide its format, never its name. To add a format: a file here with a
//! type that implements [`Decoder`] and a constant that says how it is known, and a line in [`FORMATS`].

mod alibaba;
mod binary;
mod biosnoop;
mod blkparse;
mod blkreplay;
pub mod blktrace;
mod borg;
mod byte_ascii;
mod cloudphysics;
mod columns;
mod disksim;
mod disksim_validate;
pub(crate) mod fields;
mod fio;
mod fiu;
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

pub use crate::options::{LeavesOpen, TimeUnit};
pub use crate::volumes::Naming;
pub use columns::Columns;
pub use table::{BLKPARSE_F, FORMATS, Format, Sample};
pub(crate) use table::{Content, Opened, open, opened};

/// Something a trace says, at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, by the clock of the trace.
    pub time: Nanos,
    /// Where in the uncompressed file it stands, for messages.
    pub offset: u64,
    /// What.
    pub kind: EventKind,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// From here on the process has this name.
    Named(ProcessId, Box<str>),
    /// A request was queued at a device.
    Queued(Queued),
    /// A request was passed from one device to another below it.
    Remapped(Remapped),
    /// Requests queued earlier are answered.
    Completed(Completed),
}

/// A request, before its process has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The device.
    pub device: u32,
    /// What was asked.
    pub op: Op,
    /// Where; empty for a flush.
    pub extent: Extent,
    /// How.
    pub flags: Flags,
    /// Who asked.
    pub process: ProcessId,
    /// For which of a workload's clients.
    pub stream: StreamId,
    /// How long it took, where the format tells it with the request.
    pub latency: Latency,
}

/// A request that was passed on: from a volume or partition to what it lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remapped {
    /// The traced device at which this was seen.
    pub device: u32,
    /// The device it now goes to; differs from `device` where that is a partition of it.
    pub to_device: u32,
    /// Where it lies there; empty for a flush.
    pub extent: Extent,
    /// The device it comes from.
    pub from_device: u32,
    /// The sector at which it started there.
    pub from_start: u64,
}

/// What a device has done, of one request or of several that were merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The device.
    pub device: u32,
    /// Where; not empty.
    pub extent: Extent,
}

/// Reads the events of one file, in the order in which they stand there.
pub trait Decoder {
    /// The next event; `None` at the end. Not called again after an error or the end.
    fn next_event(&mut self) -> Result<Option<Event>, TraceError>;

    /// What a person should know about the file though it could be read; asked for at the end.
    fn warnings(&mut self) -> Vec<String>;

    /// How many records made no sense and were passed over so far.
    fn skipped(&self) -> u64 {
        0
    }

    /// Whether an event that stands too late in the file to be put in its place counts at the time
    /// of the one before it, with a warning, rather than being an error.
    fn clamps(&self) -> bool {
        false
    }
}
