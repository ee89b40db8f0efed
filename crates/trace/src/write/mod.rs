//! Traces out: what a [`Reader`](crate::Reader) gives, one record at a time, in formats that others read.
//!
//! A target says what it can hold of a record ([`Holds`]); what it cannot is dropped and counted
//! ([`Losses`]), never silently. To add a target: a file here with a type that implements [`Encoder`] and a
//! constant that says what it holds, and a line in [`TARGETS`].
//!
//! Always holds: reading back what was written gives exactly what was kept, times counted from the first
//! record that was; memory does not grow with the trace. Faults: those of the [`Output`].

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

pub use holds::{Holds, Losses, VolumesHeld};
pub use output::{Output, Packing};

/// More volumes than a trace should name in warnings.
const VOLUMES_TOLD: usize = 8;
/// More notes than a person would read.
const NOTES_TOLD: usize = 16;

/// A format that can be written.
#[derive(Debug)]
pub struct Target {
    /// What people call it; the same as that of the format that reads it.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// How the names of its files end, before that of a compression.
    pub endings: &'static [&'static str],
    /// What it can hold of a record.
    pub holds: Holds,
    /// Whether it can be compressed by its name's ending; else it compresses by itself.
    pub packs: bool,
    open: fn(Output, &Provenance) -> io::Result<Box<dyn Encoder>>,
}

/// Every format that can be written.
pub const TARGETS: &[&Target] = &[
    #[cfg(feature = "parquet")]
    &parquet::TARGET,
    &fio::TARGET,
    &blkreplay::TARGET,
    &blkparse::TARGET,
    &disksim::TARGET,
];

impl Target {
    /// The target that people call so.
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name).copied()
    }

    /// The target that a file's name asks for by its ending, which that of a compression may follow.
    pub fn of_file(name: &str) -> Option<&'static Target> {
        let (_, name) = Packing::of(name);
        let ends = |target: &&&Target| target.endings.iter().any(|ending| name.ends_with(ending));
        TARGETS.iter().find(ends).copied()
    }
}

/// Where a trace comes from, for targets that can say so.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// The files it was read from, each with its size in bytes where known.
    pub sources: Vec<(String, Option<u64>)>,
    /// The format they are in.
    pub format: String,
    /// The program that writes, with its version.
    pub program: String,
    /// How it was told to read and write.
    pub options: String,
}

/// What the numbers in records stand for.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    /// The names of processes.
    pub names: &'a Names,
    /// The names of volumes.
    pub volumes: &'a Volumes,
}

/// Turns records into bytes of one format.
pub trait Encoder {
    /// Takes in a record of which only what the target holds is left; by time.
    fn record(&mut self, record: &Record, tables: Tables) -> io::Result<()>;

    /// Writes what is left.
    fn finish(self: Box<Self>) -> io::Result<Encoded>;
}

/// What an encoder leaves behind.
pub struct Encoded {
    /// Where it wrote to.
    pub output: Output,
    /// What a person should know about what was written, besides what the target cannot hold.
    pub notes: Vec<String>,
    /// Latencies that it could not write though the target holds latencies.
    pub latencies_dropped: u64,
}

/// A trace being written.
pub struct Writer {
    target: &'static Target,
    encoder: Box<dyn Encoder>,
    losses: Losses,
    records: u64,
    devices: BTreeSet<u32>,
    /// Volumes whose name is more than their number, as far as they are told.
    named: Vec<String>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// How many records.
    pub records: u64,
    /// How many bytes, after compression.
    pub bytes: u64,
    /// What the target could not hold.
    pub losses: Losses,
    /// The same in words, and what else a person should know.
    pub warnings: Vec<String>,
}

impl Writer {
    /// Writes to `output` in the format of `target`.
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

    /// Writes a record, if the target can hold it. Records come by time.
    pub fn record(&mut self, record: &Record, tables: Tables) -> io::Result<()> {
        let kept = self.target.holds.keep(record);
        self.losses.count(record, kept.as_ref());
        let Some(kept) = kept else { return Ok(()) };
        self.records += 1;
        if self.devices.insert(record.device) && self.named.len() <= VOLUMES_TOLD {
            let name = tables.volumes.name(record.device);
            if !name.bytes().all(|byte| byte.is_ascii_digit() || byte == b',') {
                self.named.push(name);
            }
        }
        self.encoder.record(&kept, tables)
    }

    /// Writes what is left and closes the output.
    pub fn finish(self) -> io::Result<Written> {
        let Encoded { output, notes, latencies_dropped } = self.encoder.finish()?;
        let bytes = output.finish()?;
        let mut losses = self.losses;
        let (name, holds) = (self.target.name, &self.target.holds);
        let mut warnings = losses.words(name, holds.time_ns);
        losses.latencies_dropped += latencies_dropped;
        let volumes = self.devices.len();
        match holds.volumes {
            VolumesHeld::Nothing if volumes > 1 => {
                warnings.push(format!("{name}: requests of {volumes} volumes were written as of one"));
            }
            VolumesHeld::Numbers if !self.named.is_empty() => {
                let more = if self.named.len() > VOLUMES_TOLD { ", ..." } else { "" };
                let told = self.named.iter().take(VOLUMES_TOLD).cloned().collect::<Vec<_>>().join(", ");
                warnings.push(format!("{name}: volumes have numbers in place of their names ({told}{more})"));
            }
            _ => {}
        }
        let more = notes.len().saturating_sub(NOTES_TOLD);
        warnings.extend(notes.into_iter().take(NOTES_TOLD).map(|note| format!("{name}: {note}")));
        if more > 0 {
            warnings.push(format!("{name}: {more} more notes of that kind"));
        }
        Ok(Written { records: self.records, bytes, losses, warnings })
    }
}
