//! Changes of the working set: Figure 1 of the BORG paper, bottom row.
//!
//! The trace is divided into intervals of equal request count, unless a length is given: recordings are compressed in
//! time, and a pause would make an interval without requests. The *top* of an interval is the most accessed fifth of
//! its pages (among equals, those at lower addresses). An overlap is the share of an interval's pages that an earlier
//! interval accessed too.

use std::cmp::Reverse;

use schemars::JsonSchema;
use seekless_core::Nanos;
use serde::{Deserialize, Serialize};

use super::buckets::counted;
use super::pages::{Pages, top20};
use super::percent;

/// One interval.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct WorkingSet {
    /// The number of its first request, from zero.
    pub first_request: u64,
    /// Begin, in seconds from the start of the trace.
    pub from_s: f64,
    /// Requests.
    pub requests: u64,
    /// Different pages accessed.
    pub pages: u64,
    /// Share of them that the first interval accessed too.
    pub overlap_first_pct: f64,
    /// Share of them that the interval before accessed too; 100 in the first interval.
    pub overlap_previous_pct: f64,
    /// Pages in its top.
    pub top20_pages: u64,
    /// Share of them in the first interval's top.
    pub top20_overlap_first_pct: f64,
    /// Share of them in the top of the interval before; 100 in the first interval.
    pub top20_overlap_previous_pct: f64,
}

/// The sets that contain a page: bits of `Page::sets`.
const FIRST: u8 = 1;
const FIRST_TOP: u8 = 2;
const PREVIOUS: u8 = 4;
const PREVIOUS_TOP: u8 = 8;
/// The most intervals: each costs a walk over all pages.
pub const MAX_INTERVALS: u32 = 1_000;

/// Division of a trace into intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intervals {
    /// Into `n` intervals of equal request count.
    Count(u32),
    /// Into intervals of this time; those without requests are left out. What comes after [`MAX_INTERVALS`] with
    /// requests is one more: see [`StatsOptions::check`](super::StatsOptions::check).
    Every(Nanos),
}

/// More intervals than [`MAX_INTERVALS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--interval: found {found} intervals, expected at most {MAX_INTERVALS}")]
pub struct TooManyIntervals {
    /// Intervals from the begin of the trace to its end.
    pub found: u64,
}

impl Intervals {
    /// Checks them for a trace that ends at `end`.
    pub(super) fn check(self, end: Nanos) -> Result<(), TooManyIntervals> {
        let Intervals::Every(length) = self else { return Ok(()) };
        let found = (end.0 / length.0.max(1)).saturating_add(1);
        if found > u64::from(MAX_INTERVALS) { Err(TooManyIntervals { found }) } else { Ok(()) }
    }
}

/// Follows the requests of a trace.
pub(super) struct WorkingSets {
    intervals: Intervals,
    /// Requests of the trace.
    requests: u64,
    done: Vec<WorkingSet>,
    /// Number of the next request.
    next: u64,
    /// The first request of the current interval, and when it began.
    first: u64,
    from: Nanos,
    /// The first request of the next one, if all have equal request counts.
    bound: u64,
    /// For a part of a trace: its intervals so far, instead of `done`.
    part: Option<Part>,
}

/// Intervals of a part of a trace.
#[derive(Default)]
struct Part {
    /// The number of the current interval, if all have equal request counts.
    number: u64,
    uses: Vec<SetUse>,
}

/// Pages of an interval, or of a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SetUse {
    /// The interval: its number, or its time in lengths of an interval.
    pub number: u64,
    /// The number of its first request, from zero.
    #[serde(deserialize_with = "counted::one")]
    pub first_request: u64,
    /// The time of that request, in nanoseconds.
    pub from: u64,
    /// Requests.
    #[serde(deserialize_with = "counted::one")]
    pub requests: u64,
    /// Its sampled pages, in ascending order.
    pub pages: Vec<u64>,
    /// Accesses of each.
    pub accesses: Vec<u32>,
}

impl WorkingSets {
    /// For a trace of `requests` requests.
    pub fn new(intervals: Intervals, requests: u64) -> WorkingSets {
        let (done, from) = (Vec::new(), Nanos::ZERO);
        let mut sets =
            WorkingSets { intervals, requests, done, next: 0, first: 0, from, bound: 0, part: None };
        sets.bound = sets.bound();
        sets
    }

    /// For a part of such a trace, whose first request has this number.
    pub fn part(intervals: Intervals, requests: u64, first: u64) -> WorkingSets {
        let part = Some(Part::default());
        let mut sets = WorkingSets { next: first, first, part, ..WorkingSets::new(intervals, requests) };
        while sets.bound <= first && first < requests && matches!(intervals, Intervals::Count(1..)) {
            sets.part.iter_mut().for_each(|part| part.number += 1);
            sets.bound = sets.bound();
        }
        sets
    }

    /// The intervals of a part, after the last has ended.
    pub fn into_uses(self) -> Vec<SetUse> {
        self.part.map(|part| part.uses).unwrap_or_default()
    }

    /// Adds an interval: its pages have to be in the table.
    pub fn add(&mut self, set: &SetUse, pages: &mut Pages) {
        for (number, &accesses) in set.pages.iter().zip(&set.accesses) {
            pages.sample.table.entry(*number).or_default().here = accesses;
        }
        (self.first, self.next) = (set.first_request, set.first_request + set.requests);
        self.from = Nanos(set.from);
        self.end(pages);
    }

    /// Whether the next request, at `now`, begins an interval.
    pub fn begins(&self, now: Nanos) -> bool {
        if self.next == self.first || self.done.len() as u32 >= MAX_INTERVALS {
            return false;
        }
        match self.intervals {
            Intervals::Count(_) => self.next == self.bound,
            Intervals::Every(length) => now.0 / length.0.max(1) != self.from.0 / length.0.max(1),
        }
    }

    /// The end of the current interval, if all have equal request counts.
    fn bound(&self) -> u64 {
        let Intervals::Count(count) = self.intervals else { return 0 };
        let count = u128::from(self.requests.min(u64::from(count.min(MAX_INTERVALS))));
        let done = self.part.as_ref().map_or(self.done.len() as u64, |part| part.number);
        (u128::from(self.requests) * (u128::from(done) + 1) / count.max(1)) as u64
    }

    /// Ends the interval of a part.
    fn end_of_part(&mut self, pages: &mut Pages) {
        let Some(part) = &mut self.part else { return };
        let number = match self.intervals {
            Intervals::Count(_) => part.number,
            Intervals::Every(length) => self.from.0 / length.0.max(1),
        };
        let table = pages.sample.table.iter_mut().filter(|(_, page)| page.here > 0);
        let mut here: Vec<(u64, u32)> =
            table.map(|(&number, page)| (number, std::mem::take(&mut page.here))).collect();
        here.sort_unstable();
        let (first_request, from, requests) = (self.first, self.from.0, self.next - self.first);
        let (pages, accesses) = here.into_iter().unzip();
        part.uses.push(SetUse { number, first_request, from, requests, pages, accesses });
        part.number += 1;
        self.first = self.next;
        self.bound = self.bound();
    }

    /// Counts a request.
    pub fn follow(&mut self, now: Nanos) {
        if self.next == self.first {
            self.from = now;
        }
        self.next += 1;
    }

    /// Ends the current interval.
    pub fn end(&mut self, pages: &mut Pages) {
        if self.intervals == Intervals::Count(0) || self.next == self.first {
            return;
        }
        pages.settle();
        if self.part.is_some() {
            return self.end_of_part(pages);
        }
        let table = &mut pages.sample.table;
        let here = table.iter().filter(|(_, page)| page.here > 0);
        let mut order: Vec<(Reverse<u32>, u64)> =
            here.map(|(&number, page)| (Reverse(page.here), number)).collect();
        let top = top20(order.len());
        let least = (top > 0).then(|| *order.select_nth_unstable(top - 1).1);
        let in_top = |page: u32, number: u64| least.is_some_and(|least| (Reverse(page), number) <= least);
        // Pages of this interval, and of its top, by the earlier sets that contain them.
        let (mut shared, mut shared_top) = ([0_u64; 16], [0_u64; 16]);
        let first = self.done.is_empty();
        for (&number, page) in table.iter_mut() {
            let sets = page.sets;
            page.sets &= FIRST | FIRST_TOP;
            if page.here == 0 {
                continue;
            }
            shared[usize::from(sets)] += 1;
            page.sets |= PREVIOUS | if first { FIRST } else { 0 };
            if in_top(page.here, number) {
                shared_top[usize::from(sets)] += 1;
                page.sets |= PREVIOUS_TOP | if first { FIRST_TOP } else { 0 };
            }
            page.here = 0;
        }
        let with = |counts: &[u64; 16], set: u8| -> u64 {
            counts.iter().zip(0_u8..).filter(|(_, sets)| sets & set != 0).map(|(count, _)| count).sum()
        };
        let (all, top) = (order.len() as u64, top as u64);
        let overlap = |common, of| if first { percent(of, of) } else { percent(common, of) };
        self.done.push(WorkingSet {
            first_request: self.first,
            from_s: self.from.seconds(),
            requests: self.next - self.first,
            pages: pages.sample.scaled(all),
            overlap_first_pct: overlap(with(&shared, FIRST), all),
            overlap_previous_pct: overlap(with(&shared, PREVIOUS), all),
            top20_pages: pages.sample.scaled(top),
            top20_overlap_first_pct: overlap(with(&shared_top, FIRST_TOP), top),
            top20_overlap_previous_pct: overlap(with(&shared_top, PREVIOUS_TOP), top),
        });
        self.first = self.next;
        self.bound = self.bound();
    }

    /// All intervals.
    pub fn finish(self) -> Vec<WorkingSet> {
        self.done
    }
}
