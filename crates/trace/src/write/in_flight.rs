//! Selects the completions that can be written, where a format has arrivals and completions apart: those that a reader
//! assigns to the right request.
//!
//! A reader knows only a completion's place and time: it completes all requests queued within that place and not yet
//! completed, the earlier of two at the same sectors (see the crate's `latency`). So a completion is left out if it
//! would complete another request too, or instead.
//!
//! Invariant: a request that counts as completed or given up here does so for the reader, too. Bounds: those of the
//! reader; requests in flight when they are reached lose their latency.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use seekless_core::{Nanos, Op, Record};

use crate::latency::{MAX_WAITING, TIMEOUT};

/// A completion that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Time.
    pub at: Nanos,
    /// The completed request.
    pub record: Record,
}

/// A request that a reader keeps.
struct Waiting {
    arrived: Nanos,
    device: u32,
    start: u64,
    /// Whether its completion is still to come.
    open: bool,
}

/// The requests written, as far as a reader still waits for their completions.
#[derive(Default)]
pub struct InFlight {
    /// In order of arrival.
    waiting: VecDeque<Waiting>,
    /// Number of requests before the first of them.
    released: u64,
    /// Those without a completion: device, first sector and number, with the sector after the last.
    open: BTreeMap<(u32, u64, u64), u64>,
    /// Completions to come, the next one first: time and number of the request.
    due: BinaryHeap<Reverse<(Nanos, u64)>>,
    /// The requests of those completions.
    records: BTreeMap<u64, Record>,
    /// Latencies that could not be written.
    pub dropped: u64,
}

impl InFlight {
    /// Adds a request that is written. All completions up to its time have been taken.
    pub fn arrived(&mut self, record: &Record) {
        let number = self.released + self.waiting.len() as u64;
        let open = record.op != Op::Flush;
        let (device, start) = (record.device, record.extent.start.0);
        self.waiting.push_back(Waiting { arrived: record.time, device, start, open });
        if open {
            self.open.insert((device, start, number), record.extent.end().0);
        }
        if let Some(took) = record.latency.known() {
            let at = record.time.0.checked_add(took.0).map(Nanos);
            match at.filter(|_| open && took <= TIMEOUT && self.due.len() < MAX_WAITING) {
                Some(at) => {
                    self.due.push(Reverse((at, number)));
                    self.records.insert(number, *record);
                }
                None => self.dropped += 1,
            }
        }
        self.settle(record.time);
    }

    /// The next completion that can be written and is due by this time; at the end, the next one.
    pub fn due(&mut self, now: Option<Nanos>) -> Option<Due> {
        loop {
            let &Reverse((at, number)) = self.due.peek()?;
            if now.is_some_and(|now| at > now) {
                return None;
            }
            self.due.pop();
            let record = self.records.remove(&number)?;
            if !self.is_unambiguous(&record, number) {
                self.dropped += 1;
                continue;
            }
            self.open.remove(&(record.device, record.extent.start.0, number));
            if let Some(waiting) = self.waiting.get_mut((number - self.released) as usize) {
                waiting.open = false;
            }
            self.settle(at);
            return Some(Due { at, record });
        }
    }

    /// Whether a completion of this request completes it and no other.
    fn is_unambiguous(&self, record: &Record, number: u64) -> bool {
        let (first, end) = (record.extent.start.0, record.extent.end().0);
        if number < self.released {
            return false;
        }
        let inside = self.open.range((record.device, first, 0)..(record.device, end, 0));
        let mut answered = inside.filter(|(_, its_end)| **its_end <= end);
        answered.all(|(&(_, start, its), _)| its == number || (start == first && its > number))
    }

    /// Follows a reader up to this time: it gives up at most one request per line.
    fn settle(&mut self, now: Nanos) {
        let Some(first) = self.waiting.front() else { return };
        if first.open && now.since(first.arrived) <= TIMEOUT && self.waiting.len() <= MAX_WAITING {
            return;
        }
        if first.open {
            self.open.remove(&(first.device, first.start, self.released));
        }
        self.waiting.pop_front();
        self.released += 1;
    }
}
