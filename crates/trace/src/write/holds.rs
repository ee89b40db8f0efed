//! What a target can represent of a record, and its losses: one function decides it for the writers, for their reports,
//! and for the tests that read the output back.
//!
//! Invariant: [`Capabilities::keep`] is idempotent. No faults: it is arithmetic.

use schemars::JsonSchema;
use seekless_core::{Extent, Flags, Latency, NameId, Nanos, Op, Origin, ProcessId, Record, StreamId};
use serde::Serialize;

/// How a target identifies volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeIds {
    /// By their names.
    Names,
    /// By their numbers.
    Numbers,
    /// Not at all.
    Nothing,
}

/// What a target can represent of a record. All represent place and size.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// The unit of its times, in nanoseconds; finer parts are dropped.
    pub time_ns: u64,
    /// Operations; other requests are left out, except that a write of zeroes becomes a write.
    pub ops: &'static [Op],
    /// Flags of a request with an address.
    pub flags: Flags,
    /// Flags of a flush.
    pub flush_flags: Flags,
    /// The number and the name of the process.
    pub processes: bool,
    /// The stream.
    pub streams: bool,
    /// The latency, where known.
    pub latencies: bool,
    /// The volume.
    pub volumes: VolumeIds,
}

/// All flags of records.
pub const ALL_FLAGS: Flags =
    Flags(Flags::SYNC.0 | Flags::META.0 | Flags::AHEAD.0 | Flags::FUA.0 | Flags::PREFLUSH.0);

impl Capabilities {
    /// The part of `record` that is kept; `None` if it is left out. Requests of no bytes always are.
    pub fn keep(&self, record: &Record) -> Option<Record> {
        let flush = record.op == Op::Flush;
        let op = match record.op {
            op if self.ops.contains(&op) => op,
            Op::WriteZeroes => Op::Write,
            _ => return None,
        };
        if record.extent.sectors == 0 && !flush {
            return None;
        }
        let flags = if flush { self.flush_flags } else { self.flags };
        let Origin { process, name, stream } = record.origin;
        Some(Record {
            time: Nanos(record.time.0 - record.time.0 % self.time_ns),
            device: if self.volumes == VolumeIds::Nothing { 0 } else { record.device },
            op,
            extent: if flush { Extent::default() } else { record.extent },
            flags: Flags(record.flags.0 & flags.0),
            origin: Origin {
                process: if self.processes { process } else { ProcessId::default() },
                name: if self.processes { name } else { NameId::default() },
                stream: if self.streams { stream } else { StreamId::default() },
            },
            latency: if self.latencies { record.latency } else { Latency::UNKNOWN },
        })
    }
}

/// Losses of a conversion, in records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Losses {
    /// Flushes left out.
    pub flushes_left_out: u64,
    /// Discards left out.
    pub discards_left_out: u64,
    /// Requests of no bytes left out.
    pub empty_left_out: u64,
    /// Writes of zeroes written as writes.
    pub write_zeroes_as_writes: u64,
    /// Times rounded down to the target's unit.
    pub times_rounded: u64,
    /// Records that lost a flag.
    pub flags_dropped: u64,
    /// Records that lost their process.
    pub processes_dropped: u64,
    /// Records that lost their stream.
    pub streams_dropped: u64,
    /// Records that lost their latency.
    pub latencies_dropped: u64,
}

impl Losses {
    /// Counts the losses of a record.
    pub(super) fn count(&mut self, was: &Record, is: Option<&Record>) {
        let Some(is) = is else {
            match was.op {
                Op::Flush => self.flushes_left_out += 1,
                Op::Discard if was.extent.sectors > 0 => self.discards_left_out += 1,
                _ => self.empty_left_out += 1,
            }
            return;
        };
        let who = |record: &Record| (record.origin.process, record.origin.name);
        self.write_zeroes_as_writes += u64::from(was.op != is.op);
        self.times_rounded += u64::from(was.time != is.time);
        self.flags_dropped += u64::from(was.flags != is.flags);
        self.processes_dropped += u64::from(who(was) != who(is));
        self.streams_dropped += u64::from(was.origin.stream != is.origin.stream);
        self.latencies_dropped += u64::from(was.latency != is.latency);
    }

    /// The losses in words, one line for each that is not zero.
    pub fn words(&self, target: &str, time_ns: u64) -> Vec<String> {
        let rounded = format!("times were rounded down to {}", Nanos(time_ns));
        let losses: [(u64, &str); 9] = [
            (self.flushes_left_out, "flushes were left out"),
            (self.discards_left_out, "discards were left out"),
            (self.empty_left_out, "requests of no bytes were left out"),
            (self.write_zeroes_as_writes, "writes of zeroes became writes"),
            (self.times_rounded, &rounded),
            (self.flags_dropped, "requests lost flags"),
            (self.processes_dropped, "requests lost their process"),
            (self.streams_dropped, "requests lost their stream"),
            (self.latencies_dropped, "requests lost their latency"),
        ];
        let losses = losses.iter().filter(|(number, _)| *number > 0);
        losses.map(|(number, what)| format!("{target}: {number} {what}")).collect()
    }
}
