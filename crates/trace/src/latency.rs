//! Latencies of requests, where a trace has arrivals and completions apart: requests wait here until their completion
//! is read, and continue in order of arrival.
//!
//! A completion covers merged requests: all queued for its device within its sectors. Of two for the same sectors the
//! earlier is completed first. Flushes have no address: their latency stays unknown.
//!
//! Bounds: at most [`MAX_WAITING`] requests wait, none longer than [`TIMEOUT`] by the trace's clock; then their
//! latency is unknown. After as many without any completion the trace is assumed to have none, and no request waits
//! until a completion is read.

use std::collections::{BTreeSet, VecDeque};

use seekless_core::{Latency, Nanos, Op, Record};

use crate::format::TracedRequest;

/// Many times the queue depth of any device; 4 MiB of records.
pub const MAX_WAITING: usize = 1 << 16;
/// Longer than a disk retries.
pub const TIMEOUT: Nanos = Nanos(60_000_000_000);

/// Requests that wait for their completions.
#[derive(Default)]
pub struct Completions {
    /// In order of arrival; completed ones wait for those before them.
    waiting: VecDeque<Waiting>,
    /// Number of requests before the first of them.
    released: u64,
    /// Those without a completion: device, first sector, number since the start.
    open: BTreeSet<(u32, u64, u64)>,
    /// Requests since the last completion.
    since_completion: usize,
    /// The time of the last event.
    now: Nanos,
}

struct Waiting {
    record: Record,
    /// From another origin than the record's own time.
    arrived: Nanos,
    open: bool,
}

impl Completions {
    /// Adds a request.
    pub fn arrived(&mut self, at: Nanos, record: Record) {
        self.now = at;
        self.since_completion += 1;
        let open = record.op != Op::Flush && record.latency.known().is_none() && !self.given_up();
        if open {
            let number = self.released + self.waiting.len() as u64;
            self.open.insert((record.device, record.extent.start.0, number));
        }
        self.waiting.push_back(Waiting { record, arrived: at, open });
    }

    /// Adds a completion.
    pub fn completed(&mut self, at: Nanos, done: &TracedRequest) {
        self.now = at;
        self.since_completion = 0;
        let (first, end) = (done.extent.start.0, done.extent.end().0);
        let within = self.open.range((done.device, first, 0)..(done.device, end, 0));
        let keys: Vec<(u32, u64, u64)> = within.copied().collect();
        let mut sector = None;
        for key in keys {
            // The earlier of two at the same place; the later has a completion of its own.
            if sector == Some(key.1) {
                continue;
            }
            let Some(waiting) = self.waiting.get_mut((key.2 - self.released) as usize) else { continue };
            if waiting.record.extent.end().0 <= end && waiting.arrived <= at {
                waiting.record.latency = Latency::of(at.since(waiting.arrived));
                waiting.open = false;
                sector = Some(key.1);
                self.open.remove(&key);
            }
        }
    }

    /// The next request that does not have to wait any more; once the trace has ended, the next one.
    pub fn next(&mut self, ended: bool) -> Option<Record> {
        let first = self.waiting.front()?;
        let patient = !ended && !self.given_up() && self.now.since(first.arrived) <= TIMEOUT;
        if first.open && patient && self.waiting.len() <= MAX_WAITING {
            return None;
        }
        let Waiting { record, open, .. } = self.waiting.pop_front()?;
        if open {
            self.open.remove(&(record.device, record.extent.start.0, self.released));
        }
        self.released += 1;
        Some(record)
    }

    fn given_up(&self) -> bool {
        self.since_completion > MAX_WAITING
    }
}
