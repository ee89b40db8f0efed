//! Which completions can be written, where a format notes arrivals and answers apart: those that a reader
//! takes for the answer of the request that they are the answer of.
//!
//! A reader knows of a completion no more than its place and its time: it answers what was queued inside of
//! that place and has no answer yet, the earlier of two at the same sectors (see the crate's `latency`). So
//! a completion is left out if it would answer another request too, or in place of its own.
//!
//! Invariant: a request that counts as answered or given up here has been so for the reader, too. Bounds:
//! those of the reader; what is under way when they are reached loses its latency.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use seekless_core::{Nanos, Op, Record};

use crate::latency::{MAX_WAITING, PATIENCE};

/// A completion that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When.
    pub at: Nanos,
    /// The request that is complete.
    pub record: Record,
}

/// A request that a reader keeps.
struct Waiting {
    arrived: Nanos,
    device: u32,
    start: u64,
    /// Its answer is still to come.
    open: bool,
}

/// The requests that have been written, as far as a reader still waits for their answers.
#[derive(Default)]
pub struct InFlight {
    /// In the order of arrival.
    waiting: VecDeque<Waiting>,
    /// How many have gone before the first of them.
    gone: u64,
    /// Those without an answer: device, first sector and number, with the sector after the last.
    open: BTreeMap<(u32, u64, u64), u64>,
    /// Completions to come, the next one first: time and number of the request.
    due: BinaryHeap<Reverse<(Nanos, u64)>>,
    /// What those are the completions of.
    records: BTreeMap<u64, Record>,
    /// Latencies that could not be written.
    pub dropped: u64,
}

impl InFlight {
    /// A request is written. All completions up to its time have been asked for.
    pub fn arrived(&mut self, record: &Record) {
        let number = self.gone + self.waiting.len() as u64;
        let open = record.op != Op::Flush;
        let (device, start) = (record.device, record.extent.start.0);
        self.waiting.push_back(Waiting { arrived: record.time, device, start, open });
        if open {
            self.open.insert((device, start, number), record.extent.end().0);
        }
        if let Some(took) = record.latency.known() {
            let at = record.time.0.checked_add(took.0).map(Nanos);
            match at.filter(|_| open && took <= PATIENCE && self.due.len() < MAX_WAITING) {
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
            if !self.told_apart(&record, number) {
                self.dropped += 1;
                continue;
            }
            self.open.remove(&(record.device, record.extent.start.0, number));
            if let Some(waiting) = self.waiting.get_mut((number - self.gone) as usize) {
                waiting.open = false;
            }
            self.settle(at);
            return Some(Due { at, record });
        }
    }

    /// Whether a completion of this request answers it and no other.
    fn told_apart(&self, record: &Record, number: u64) -> bool {
        let (first, end) = (record.extent.start.0, record.extent.end().0);
        if number < self.gone {
            return false;
        }
        let inside = self.open.range((record.device, first, 0)..(record.device, end, 0));
        let mut answered = inside.filter(|(_, its_end)| **its_end <= end);
        answered.all(|(&(_, start, its), _)| its == number || (start == first && its > number))
    }

    /// A reader has come to this time: it gives up at most one request a line.
    fn settle(&mut self, now: Nanos) {
        let Some(first) = self.waiting.front() else { return };
        if first.open && now.since(first.arrived) <= PATIENCE && self.waiting.len() <= MAX_WAITING {
            return;
        }
        if first.open {
            self.open.remove(&(first.device, first.start, self.gone));
        }
        self.waiting.pop_front();
        self.gone += 1;
    }
}
