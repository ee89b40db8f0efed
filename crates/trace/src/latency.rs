//! How long requests took, where a trace notes arrivals and answers apart: requests wait here until their
//! answer is read, and go on in the order in which they arrived.
//!
//! An answer covers the requests that were merged: all that were queued for its device inside of its
//! sectors. Of two for the same sectors the earlier is answered first. Flushes carry no address: theirs
//! stays unknown.
//!
//! Bounds: at most [`MAX_WAITING`] requests wait, none longer than [`PATIENCE`] by the trace's clock; what
//! is not answered by then is passed on as unknown. After as many without any answer the trace is taken for
//! one that notes none, and none waits until an answer is read.

use std::collections::{BTreeSet, VecDeque};

use seekless_core::{Latency, Nanos, Op, Record};

use crate::format::Completed;

/// Many times what any device holds; 4 MiB of records.
pub const MAX_WAITING: usize = 1 << 16;
/// Longer than a disk tries.
pub const PATIENCE: Nanos = Nanos(60_000_000_000);

/// Requests that wait for their answers.
#[derive(Default)]
pub struct Answers {
    /// In the order of their arrival; those that are answered wait for those before them.
    waiting: VecDeque<Waiting>,
    /// How many have gone before the first of them.
    gone: u64,
    /// Those without an answer: device, first sector, number since the start.
    open: BTreeSet<(u32, u64, u64)>,
    /// How many arrived since an answer was read.
    unanswered: usize,
    /// The time of the last event.
    now: Nanos,
}

struct Waiting {
    record: Record,
    /// Counted from another start than the record's own time.
    arrived: Nanos,
    open: bool,
}

impl Answers {
    /// A request arrived.
    pub fn arrived(&mut self, at: Nanos, record: Record) {
        self.now = at;
        self.unanswered += 1;
        let open = record.op != Op::Flush && record.latency.known().is_none() && !self.given_up();
        if open {
            let number = self.gone + self.waiting.len() as u64;
            self.open.insert((record.device, record.extent.start.0, number));
        }
        self.waiting.push_back(Waiting { record, arrived: at, open });
    }

    /// A device answered.
    pub fn answered(&mut self, at: Nanos, done: &Completed) {
        self.now = at;
        self.unanswered = 0;
        let (first, end) = (done.extent.start.0, done.extent.end().0);
        let within = self.open.range((done.device, first, 0)..(done.device, end, 0));
        let keys: Vec<(u32, u64, u64)> = within.copied().collect();
        let mut sector = None;
        for key in keys {
            // The earlier of two at the same place; the later has an answer of its own.
            if sector == Some(key.1) {
                continue;
            }
            let Some(waiting) = self.waiting.get_mut((key.2 - self.gone) as usize) else { continue };
            if waiting.record.extent.end().0 <= end && waiting.arrived <= at {
                waiting.record.latency = Latency::of(at.since(waiting.arrived));
                waiting.open = false;
                sector = Some(key.1);
                self.open.remove(&key);
            }
        }
    }

    /// The next request that need not wait any more; once the trace has ended, the next one.
    pub fn next(&mut self, ended: bool) -> Option<Record> {
        let first = self.waiting.front()?;
        let patient = !ended && !self.given_up() && self.now.since(first.arrived) <= PATIENCE;
        if first.open && patient && self.waiting.len() <= MAX_WAITING {
            return None;
        }
        let Waiting { record, open, .. } = self.waiting.pop_front()?;
        if open {
            self.open.remove(&(record.device, record.extent.start.0, self.gone));
        }
        self.gone += 1;
        Some(record)
    }

    fn given_up(&self) -> bool {
        self.unanswered > MAX_WAITING
    }
}
