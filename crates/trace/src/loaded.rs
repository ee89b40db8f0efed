//! A whole trace in memory, and what can be asked of it at once. 56 bytes a record.
//!
//! Invariant: what [`Reader`] promises of its records holds of these.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use seekless_core::{Names, Op, Record};

use crate::error::TraceError;
use crate::options::ReadOptions;
use crate::reader::Reader;
use crate::volumes::Volumes;

/// More devices than a person would read about in a warning.
const DEVICES_TOLD: usize = 8;

/// A trace that has been read.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Its requests, by time from zero.
    pub records: Vec<Record>,
    /// The names of the processes that made them.
    pub names: Names,
    /// The names of its volumes.
    pub volumes: Volumes,
    /// What a person should know about it.
    pub warnings: Vec<String>,
    /// The files it was read from.
    pub sources: Vec<PathBuf>,
    /// The name of the format they are in (see [`FORMATS`](crate::format::FORMATS)); empty for a trace
    /// that no file held.
    pub format: &'static str,
}

/// What a trace holds of one device. The device's own size is not in a trace: it is `end_sector`
/// at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceUse {
    /// The device, as in [`Record::device`].
    pub device: u32,
    /// Its records, flushes included.
    pub records: u64,
    /// The sector after the last one that was accessed.
    pub end_sector: u64,
}

/// Reads a whole recording: one or several files, or its name (see [`expand`](crate::expand)).
pub fn load(paths: &[impl AsRef<Path>], options: &ReadOptions) -> Result<Trace, TraceError> {
    let mut reader = Reader::open(paths, options)?;
    let format = reader.format().name;
    let records = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    let (names, volumes, warnings, sources) = reader.into_parts();
    let mut trace = Trace { records, names, volumes, warnings, sources, format };
    if trace.records.is_empty() {
        trace.warnings.push("the trace holds no requests".into());
    }
    let devices = trace.devices();
    if devices.len() > 1 {
        let told = devices.iter().take(DEVICES_TOLD);
        let each = told.map(|one| format!("{} on {}", one.records, trace.volumes.name(one.device)));
        let mut each = each.collect::<Vec<_>>().join(", ");
        if devices.len() > DEVICES_TOLD {
            each.push_str(", ...");
        }
        trace.warnings.push(format!("requests of {} devices ({each}) are read as one trace", devices.len()));
    }
    Ok(trace)
}

impl Trace {
    /// How many reads.
    pub fn reads(&self) -> usize {
        self.count(|op| op == Op::Read)
    }

    /// How many writes, writes of zeroes included.
    pub fn writes(&self) -> usize {
        self.count(|op| matches!(op, Op::Write | Op::WriteZeroes))
    }

    /// How many flushes.
    pub fn flushes(&self) -> usize {
        self.count(|op| op == Op::Flush)
    }

    /// How many discards.
    pub fn discards(&self) -> usize {
        self.count(|op| op == Op::Discard)
    }

    /// The sector after the last one that was accessed, on any device.
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

    /// Drops the records of all other devices. Times stay as they are.
    pub fn keep_device(&mut self, device: u32) {
        self.records.retain(|record| record.device == device);
    }

    fn count(&self, wanted: impl Fn(Op) -> bool) -> usize {
        self.records.iter().filter(|record| wanted(record.op)).count()
    }
}
