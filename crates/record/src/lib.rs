//! Records the requests of a block device on a running Linux, as a blktrace file.
//!
//! Two sources, one file: the kernel's `blk` tracer where it is free, its block events in a tracefs
//! instance of their own where it is not. What is parsed is in modules of its own, which no live system
//! is needed to test; what touches the system is under `live`.
//!
//! Invariant: whatever is switched on is switched off again, also after an error or a signal; after a
//! `kill -9` by the next recording. Faults: events that the kernel lost are counted, never hidden.

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

use seekless_core::Nanos;
use serde::Serialize;

pub use error::RecordError;

/// Where the events come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The `blk` tracer if it is free, else events.
    #[default]
    Auto,
    /// The `blk` tracer, or an error.
    Blk,
    /// Block events in an instance of their own, which disturbs nobody.
    Events,
}

/// What is to be recorded.
#[derive(Clone, Debug)]
pub struct Request {
    /// `/dev/sda`, `sda`, a partition, a device-mapper device.
    pub device: PathBuf,
    /// The file for the recording.
    pub output: PathBuf,
    /// Whether a file that is there is replaced.
    pub force: bool,
    /// Where tracefs is mounted, if not at a usual place.
    pub tracefs: Option<PathBuf>,
    /// Where the events come from.
    pub source: Choice,
    /// How long, if not until a signal.
    pub duration: Option<Nanos>,
    /// The file grows to this at most.
    pub max_bytes: Option<u64>,
    /// The kernel's buffer, per CPU.
    pub buffer_bytes: u64,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Since it began.
    pub seconds: f64,
    /// Block events in the file.
    pub events: u64,
    /// Those of them that are requests as they came in.
    pub requests: u64,
    /// Process names noted in the file.
    pub names: u64,
    /// The size of the file.
    pub bytes: u64,
    /// Events that the kernel had no room for.
    pub lost: u64,
}

/// What a recording tells while it runs.
#[derive(Debug)]
pub enum Told<'a> {
    /// It has begun: of which device, from which source.
    Began(&'a str, &'static str),
    /// How far it is.
    Tally(&'a Tally),
    /// What a person should know.
    Warning(String),
}

/// What ended a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
    /// The time that was asked for is over.
    Time,
    /// The file is as large as it may be.
    Size,
}

/// What was recorded.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The kernel's name of the device.
    pub device: String,
    /// Its number, `major,minor`.
    pub number: String,
    /// The recording.
    pub file: PathBuf,
    /// `blk` or `events`.
    pub source: &'static str,
    /// What ended it.
    pub end: End,
    /// How much it is.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Records a device until a signal, or until the time or the size asked for is reached.
#[cfg(target_os = "linux")]
pub fn record(request: &Request, tell: &mut dyn FnMut(Told)) -> Result<Summary, RecordError> {
    live::record(request, tell)
}

/// Records nothing: this is not Linux.
#[cfg(not(target_os = "linux"))]
pub fn record(_: &Request, _: &mut dyn FnMut(Told)) -> Result<Summary, RecordError> {
    Err(RecordError::NotLinux)
}
