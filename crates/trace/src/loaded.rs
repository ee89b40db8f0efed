//! A whole trace in memory, and simple queries. 56 bytes per record.
//!
//! Invariant: the guarantees of [`Reader`] hold for its records.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use seekless_core::{Names, Nanos, Op, Record};

use crate::error::TraceError;
use crate::options::ReadOptions;
use crate::reader::Reader;
use crate::volumes::Volumes;

/// Most devices named in a warning.
const MAX_LISTED: usize = 8;
/// Records between two calls of `goes_on`: some milliseconds.
const CHECKED: usize = 1 << 15;

/// A trace in memory.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Requests, by time from zero.
    pub records: Vec<Record>,
    /// The names of their processes.
    pub names: Names,
    /// The names of its volumes.
    pub volumes: Volumes,
    /// Warnings.
    pub warnings: Vec<String>,
    /// The files it was read from.
    pub sources: Vec<PathBuf>,
    /// The name of their format (see [`FORMATS`](crate::format::FORMATS)); empty for a trace without a file.
    pub format: &'static str,
    /// Records that were too late in their file to be put in their place, and count at the time of the one before them.
    pub late: u64,
}

/// A trace's use of one device. The device's own size is not in a trace: it is `end_sector` at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceUse {
    /// The device, as in [`Record::device`].
    pub device: u32,
    /// Records, flushes included.
    pub records: u64,
    /// The sector after the last accessed one.
    pub end_sector: u64,
}

/// Reads a whole recording: one or several files, or its name (see [`expand`](crate::expand)).
pub fn load(paths: &[impl AsRef<Path>], options: &ReadOptions) -> Result<Trace, TraceError> {
    load_while(Reader::open(paths, options)?, |_| true)
}

/// Reads the rest of a trace. `goes_on` is called with the number of records read, now and then; once it returns false
/// the trace ends there.
pub fn load_while(mut reader: Reader, mut goes_on: impl FnMut(usize) -> bool) -> Result<Trace, TraceError> {
    let format = reader.format().name;
    let mut records = Vec::new();
    for record in reader.by_ref() {
        records.push(record?);
        if records.len() % CHECKED == 0 && !goes_on(records.len()) {
            break;
        }
    }
    let late = reader.late();
    let (names, volumes, warnings, sources) = reader.into_parts();
    let mut trace = Trace { records, names, volumes, warnings, sources, format, late };
    if trace.records.is_empty() {
        trace.warnings.push("the trace holds no requests".into());
    }
    let devices = trace.devices();
    if devices.len() > 1 {
        let listed = devices.iter().take(MAX_LISTED);
        let each = listed.map(|one| format!("{} on {}", one.records, trace.volumes.name(one.device)));
        let mut each = each.collect::<Vec<_>>().join(", ");
        if devices.len() > MAX_LISTED {
            each.push_str(", ...");
        }
        trace.warnings.push(format!("requests of {} devices ({each}) are read as one trace", devices.len()));
    }
    Ok(trace)
}

impl Trace {
    /// Number of reads.
    pub fn reads(&self) -> usize {
        self.count(|op| op == Op::Read)
    }

    /// Number of writes, writes of zeroes included.
    pub fn writes(&self) -> usize {
        self.count(|op| matches!(op, Op::Write | Op::WriteZeroes))
    }

    /// Number of flushes.
    pub fn flushes(&self) -> usize {
        self.count(|op| op == Op::Flush)
    }

    /// Number of discards.
    pub fn discards(&self) -> usize {
        self.count(|op| op == Op::Discard)
    }

    /// The sector after the last accessed one, on any device.
    pub fn end_sector(&self) -> u64 {
        self.records.iter().map(|record| record.extent.end().0).max().unwrap_or(0)
    }

    /// The devices in the trace, the one with the most records first.
    pub fn devices(&self) -> Vec<DeviceUse> {
        let mut uses: BTreeMap<u32, DeviceUse> = BTreeMap::new();
        for record in &self.records {
            let device = record.device;
            let one = uses.entry(device).or_insert(DeviceUse { device, records: 0, end_sector: 0 });
            one.records += 1;
            one.end_sector = one.end_sector.max(record.extent.end().0);
        }
        let mut uses: Vec<DeviceUse> = uses.into_values().collect();
        uses.sort_by_key(|one| (std::cmp::Reverse(one.records), one.device));
        uses
    }

    /// The requests of each volume as a trace of its own, by the volume's name; times are from its first request.
    pub fn by_volume(&self) -> BTreeMap<String, Trace> {
        let mut parts: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
        for record in &self.records {
            let part = parts.entry(record.device).or_default();
            // Of the first request, until the end.
            let begin = part.first().map_or(Nanos::ZERO, |first| first.time);
            part.push(Record {
                time: if part.is_empty() { record.time } else { record.time.since(begin) },
                ..*record
            });
        }
        let whole = |(device, mut records): (u32, Vec<Record>)| {
            records.iter_mut().take(1).for_each(|first| first.time = Nanos::ZERO);
            let Trace { names, volumes, sources, format, .. } = self;
            let (names, volumes, sources) = (names.clone(), volumes.clone(), sources.clone());
            let part = Trace { records, names, volumes, warnings: Vec::new(), sources, format, late: 0 };
            (self.volumes.name(device), part)
        };
        parts.into_iter().map(whole).collect()
    }

    fn count(&self, wanted: impl Fn(Op) -> bool) -> usize {
        self.records.iter().filter(|record| wanted(record.op)).count()
    }
}
