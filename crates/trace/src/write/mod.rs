//! Writing traces: the records of a [`Reader`](crate::Reader), one at a time, in formats of other programs.
//!
//! A target declares what it can represent of a record ([`Capabilities`]); the rest is dropped and counted
//! ([`Losses`]), never silently. To add a target: a file here with a type that implements [`Encoder`] and a constant
//! that describes it, and a line in [`TARGETS`].
//!
//! Invariants: reading the output back gives exactly what was kept, with times from the first record kept; memory does
//! not grow with the trace. Faults: those of the [`Output`].

mod blkparse;
mod blkreplay;
mod disksim;
mod fio;
mod holds;
mod in_flight;
mod names;
mod output;
#[cfg(feature = "parquet")]
mod parquet;

use std::collections::BTreeSet;
use std::io;

use seekless_core::{Names, Record};

use crate::volumes::Volumes;

pub use holds::{Capabilities, Losses, VolumeIds};
pub use output::{Output, Packing};

/// Most volumes named in a warning.
const MAX_LISTED_VOLUMES: usize = 8;
/// Most notes in the warnings.
const MAX_NOTES: usize = 16;

/// A format that can be written.
#[derive(Debug)]
pub struct Target {
    /// Name; the same as that of the format that reads it.
    pub name: &'static str,
    /// A one-line summary.
    pub summary: &'static str,
    /// Endings of its files' names, before that of a compression.
    pub endings: &'static [&'static str],
    /// What it can represent of a record.
    pub holds: Capabilities,
    /// Whether a compression ending applies; else it compresses by itself.
    pub packs: bool,
    open: fn(Output, &Provenance) -> io::Result<Box<dyn Encoder>>,
}

/// All formats that can be written.
pub const TARGETS: &[&Target] = &[
    #[cfg(feature = "parquet")]
    &parquet::TARGET,
    &fio::TARGET,
    &blkreplay::TARGET,
    &blkparse::TARGET,
    &disksim::TARGET,
];

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name).copied()
    }

    /// The target given by the ending of a file's name, which may be followed by that of a compression.
    pub fn of_file(name: &str) -> Option<&'static Target> {
        let (_, name) = Packing::of(name);
        let ends = |target: &&&Target| target.endings.iter().any(|ending| name.ends_with(ending));
        TARGETS.iter().find(ends).copied()
    }
}

/// Provenance of a trace, for targets that can record it.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// The source files, each with its size in bytes where known.
    pub sources: Vec<(String, Option<u64>)>,
    /// Their format.
    pub format: String,
    /// The writing program, with its version.
    pub program: String,
    /// Options.
    pub options: String,
}

/// The tables for the numbers in records.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    /// The names of processes.
    pub names: &'a Names,
    /// The names of volumes.
    pub volumes: &'a Volumes,
}

/// Encodes records in one format.
pub trait Encoder {
    /// Encodes a record, reduced to what the target represents; in order of time.
    fn record(&mut self, record: &Record, tables: Tables) -> io::Result<()>;

    /// Writes the rest.
    fn finish(self: Box<Self>) -> io::Result<Encoded>;
}

/// The result of an encoder.
pub struct Encoded {
    /// Output.
    pub output: Output,
    /// Notes about the output, besides the losses.
    pub notes: Vec<String>,
    /// Latencies that it could not write though the target has latencies.
    pub latencies_dropped: u64,
}

/// A trace being written.
pub struct Writer {
    target: &'static Target,
    encoder: Box<dyn Encoder>,
    losses: Losses,
    records: u64,
    devices: BTreeSet<u32>,
    /// Volumes whose name is more than their number, as far as they are listed.
    named: Vec<String>,
}

/// Result of writing a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Number of records.
    pub records: u64,
    /// Number of bytes, after compression.
    pub bytes: u64,
    /// Losses.
    pub losses: Losses,
    /// The losses in words, and other warnings.
    pub warnings: Vec<String>,
}

impl Writer {
    /// A writer to `output` in the format of `target`.
    pub fn new(target: &'static Target, output: Output, provenance: &Provenance) -> io::Result<Writer> {
        Ok(Writer {
            target,
            encoder: (target.open)(output, provenance)?,
            losses: Losses::default(),
            records: 0,
            devices: BTreeSet::new(),
            named: Vec::new(),
        })
    }

    /// Writes a record, if the target can represent it. Records are in order of time.
    pub fn record(&mut self, record: &Record, tables: Tables) -> io::Result<()> {
        let kept = self.target.holds.keep(record);
        self.losses.count(record, kept.as_ref());
        let Some(kept) = kept else { return Ok(()) };
        self.records += 1;
        if self.devices.insert(record.device) && self.named.len() <= MAX_LISTED_VOLUMES {
            let name = tables.volumes.name(record.device);
            if !name.bytes().all(|byte| byte.is_ascii_digit() || byte == b',') {
                self.named.push(name);
            }
        }
        self.encoder.record(&kept, tables)
    }

    /// Writes the rest and closes the output.
    pub fn finish(self) -> io::Result<Written> {
        let Encoded { output, notes, latencies_dropped } = self.encoder.finish()?;
        let bytes = output.finish()?;
        let mut losses = self.losses;
        let (name, holds) = (self.target.name, &self.target.holds);
        let mut warnings = losses.words(name, holds.time_ns);
        losses.latencies_dropped += latencies_dropped;
        let volumes = self.devices.len();
        match holds.volumes {
            VolumeIds::Nothing if volumes > 1 => {
                warnings.push(format!("{name}: requests of {volumes} volumes were written as of one"));
            }
            VolumeIds::Numbers if !self.named.is_empty() => {
                let more = if self.named.len() > MAX_LISTED_VOLUMES { ", ..." } else { "" };
                let listed =
                    self.named.iter().take(MAX_LISTED_VOLUMES).cloned().collect::<Vec<_>>().join(", ");
                warnings
                    .push(format!("{name}: volumes have numbers in place of their names ({listed}{more})"));
            }
            _ => {}
        }
        let more = notes.len().saturating_sub(MAX_NOTES);
        warnings.extend(notes.into_iter().take(MAX_NOTES).map(|note| format!("{name}: {note}")));
        if more > 0 {
            warnings.push(format!("{name}: {more} more notes of that kind"));
        }
        Ok(Written { records: self.records, bytes, losses, warnings })
    }
}
