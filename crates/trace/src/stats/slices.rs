//! The workload over time: the trace in slices of equal time.

use schemars::JsonSchema;
use seekless_core::{Nanos, Op, Record};
use serde::Serialize;

use super::gib;

/// Most slices.
const SLICES: u64 = 120;

/// A slice of the trace's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Slice {
    /// Begin, in seconds from the start.
    pub from_s: f64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes and discards.
    pub others: u64,
    /// Data read.
    pub read_gib: f64,
    /// Data written.
    pub write_gib: f64,
    /// Different pages accessed from the trace's start to the slice's end, in GiB.
    pub footprint_gib: f64,
}

/// Follows a trace of known length.
pub(super) struct Slices {
    /// Length of a slice, not zero.
    length: Nanos,
    done: Vec<Slice>,
    now: Slice,
    read_bytes: u64,
    written_bytes: u64,
}

impl Slices {
    /// For a trace that ends at `end`.
    pub fn new(end: Nanos) -> Slices {
        let length = Nanos((end.0 / SLICES + 1).max(1));
        Slices { length, done: Vec::new(), now: Slice::default(), read_bytes: 0, written_bytes: 0 }
    }

    /// Ends slices that end before `time`; `footprint_gib` gives the pages accessed so far.
    pub fn pass(&mut self, time: Nanos, mut footprint_gib: impl FnMut() -> f64) {
        while self.done.len() as u64 != time.0 / self.length.0 && (self.done.len() as u64) < SLICES {
            self.end(footprint_gib());
        }
    }

    /// Adds a record to the current slice.
    pub fn follow(&mut self, record: &Record) {
        match record.op {
            Op::Read => {
                self.now.reads += 1;
                self.read_bytes += record.extent.bytes();
            }
            Op::Write | Op::WriteZeroes => {
                self.now.writes += 1;
                self.written_bytes += record.extent.bytes();
            }
            Op::Flush | Op::Discard => self.now.others += 1,
        }
    }

    fn end(&mut self, footprint_gib: f64) {
        let from_s = Nanos(self.length.0.saturating_mul(self.done.len() as u64)).seconds();
        let (read_gib, write_gib) = (gib(self.read_bytes), gib(self.written_bytes));
        self.done.push(Slice { from_s, read_gib, write_gib, footprint_gib, ..self.now });
        (self.now, self.read_bytes, self.written_bytes) = (Slice::default(), 0, 0);
    }

    /// All slices.
    pub fn finish(mut self, footprint_gib: f64) -> Vec<Slice> {
        self.end(footprint_gib);
        self.done
    }
}
