//! The workload over time: the trace in slices of equal time.

use schemars::JsonSchema;
use seekless_core::{Nanos, Op, PAGE_BYTES, Record};
use serde::{Deserialize, Serialize};

use super::buckets::counted;
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

/// Sums of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    #[serde(deserialize_with = "counted::one")]
    reads: u64,
    #[serde(deserialize_with = "counted::one")]
    writes: u64,
    #[serde(deserialize_with = "counted::one")]
    others: u64,
    #[serde(deserialize_with = "counted::one")]
    read_bytes: u64,
    #[serde(deserialize_with = "counted::one")]
    written_bytes: u64,
    /// Different pages from the trace's start to the slice's end.
    #[serde(deserialize_with = "counted::one")]
    pub pages: u64,
}

impl Part {
    /// A slice without requests.
    pub fn empty(pages: u64) -> Part {
        Part { pages, ..Part::default() }
    }

    /// Adds the requests of another; the pages stay.
    pub fn add(&mut self, other: &Part) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }
}

/// Follows a trace of known length.
pub(super) struct Slices {
    /// Length of a slice, not zero.
    length: Nanos,
    done: Vec<Part>,
    now: Part,
}

impl Slices {
    /// For a trace that ends at `end`.
    pub fn new(end: Nanos) -> Slices {
        let length = Nanos((end.0 / SLICES + 1).max(1));
        Slices { length, done: Vec::new(), now: Part::default() }
    }

    /// Of these sums.
    pub fn of(end: Nanos, parts: Vec<Part>) -> Slices {
        let mut slices = Slices { done: parts, ..Slices::new(end) };
        slices.now = slices.done.pop().unwrap_or_default();
        slices
    }

    /// Ends slices that end before `time`; `pages` gives the number of pages accessed so far.
    pub fn pass(&mut self, time: Nanos, mut pages: impl FnMut() -> u64) {
        while self.done.len() as u64 != time.0 / self.length.0 && (self.done.len() as u64) < SLICES {
            self.end(pages());
        }
    }

    /// Adds a record to the current slice.
    pub fn follow(&mut self, record: &Record) {
        match record.op {
            Op::Read => {
                self.now.reads += 1;
                self.now.read_bytes += record.extent.bytes();
            }
            Op::Write | Op::WriteZeroes => {
                self.now.writes += 1;
                self.now.written_bytes += record.extent.bytes();
            }
            Op::Flush | Op::Discard => self.now.others += 1,
        }
    }

    fn end(&mut self, pages: u64) {
        self.done.push(Part { pages, ..std::mem::take(&mut self.now) });
    }

    /// The sums of all slices; `pages` are accessed in all.
    pub fn parts(mut self, pages: u64) -> Vec<Part> {
        self.end(pages);
        self.done
    }

    /// All slices.
    pub fn finish(self, pages: u64) -> Vec<Slice> {
        let length = self.length;
        let row = |(number, part): (u64, Part)| Slice {
            from_s: Nanos(length.0.saturating_mul(number)).seconds(),
            reads: part.reads,
            writes: part.writes,
            others: part.others,
            read_gib: gib(part.read_bytes),
            write_gib: gib(part.written_bytes),
            footprint_gib: gib(part.pages.saturating_mul(PAGE_BYTES)),
        };
        (0..).zip(self.parts(pages)).map(row).collect()
    }
}

/// Whether sums are those of a trace's slices.
pub(super) fn are_sound(parts: &[Part]) -> bool {
    parts.len() as u64 <= SLICES + 1 && parts.is_sorted_by_key(|part| part.pages)
}
