//! Recording of a block device's requests on a running Linux, as a blktrace file.
//!
//! Two sources, one file: the kernel's `blk` tracer where it is free, else its block events in a tracefs instance of
//! their own. Parsing is in modules that are tested without a live system; what touches the system is under `live`.
//!
//! Invariant: whatever is switched on is switched off again, also after an error or a signal; after a `kill -9` by the
//! next recording. Faults: events that the kernel lost are counted, never hidden.

mod disk;
pub mod encode;
pub mod error;
pub mod format;
#[cfg(target_os = "linux")]
mod live;
pub mod names;
pub mod order;
pub mod page;
pub mod stream;
pub mod translate;

use std::path::PathBuf;

use schemars::JsonSchema;
use seekless_core::Nanos;
use serde::Serialize;

pub use disk::Disk;
pub use error::RecordError;

/// Source of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The `blk` tracer if it is free, else events.
    #[default]
    Auto,
    /// The `blk` tracer, or an error.
    Blk,
    /// Block events in an instance of their own, which disturbs no other tracing.
    Events,
}

/// A request for a recording.
#[derive(Clone, Debug)]
pub struct Request {
    /// The device: `/dev/sda`, `sda`, a partition, a device-mapper device.
    pub device: PathBuf,
    /// The output file.
    pub output: PathBuf,
    /// Whether an existing file is replaced.
    pub force: bool,
    /// Mount point of tracefs, if not a usual one.
    pub tracefs: Option<PathBuf>,
    /// Source of the events.
    pub source: Choice,
    /// Duration, if not until a signal.
    pub duration: Option<Nanos>,
    /// Largest size of the file.
    pub max_bytes: Option<u64>,
    /// The kernel's buffer, per CPU.
    pub buffer_bytes: u64,
}

/// Progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Tally {
    /// Seconds since it began.
    pub seconds: f64,
    /// Block events in the file.
    pub events: u64,
    /// Queued requests among them.
    pub requests: u64,
    /// Process names in the file.
    pub names: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Events lost by the kernel.
    pub lost: u64,
}

/// Messages of a running recording.
#[derive(Debug)]
pub enum Message<'a> {
    /// It has begun: device, source.
    Began(&'a str, &'static str),
    /// Progress.
    Tally(&'a Tally),
    /// A warning for people.
    Warning(String),
}

/// Reason for the end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
    /// The requested duration is over.
    Time,
    /// The file has reached its largest size.
    Size,
}

/// Result of a recording.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Summary {
    /// The kernel's name of the device.
    pub device: String,
    /// Device number, `major,minor`.
    pub number: String,
    /// The output file.
    pub file: PathBuf,
    /// `blk` or `events`.
    pub source: &'static str,
    /// Reason for the end.
    pub end: End,
    /// When it began, in seconds since 1970 in UTC.
    pub began_unix_s: f64,
    /// The recorded disk.
    pub disk: Disk,
    /// Final counts.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Records a device until a signal, or until the requested duration or size is reached.
#[cfg(target_os = "linux")]
pub fn record(request: &Request, report: &mut dyn FnMut(Message)) -> Result<Summary, RecordError> {
    live::record(request, report)
}

/// Fails: this is not Linux.
#[cfg(not(target_os = "linux"))]
pub fn record(_: &Request, _: &mut dyn FnMut(Message)) -> Result<Summary, RecordError> {
    Err(RecordError::NotLinux)
}
