//! The pages of a part of a trace: their counts, and the order of their first and of their last accesses.
//!
//! Invariants: pages ascend; each order has each page once; times are zero where a page was not written.

use rustc_hash::FxHashMap;
use seekless_core::{Buckets, Nanos};
use serde::{Deserialize, Serialize};

use crate::stats::buckets::{counted, plain};
use crate::stats::pages::{Firsts, Known, Page, Pages};
use crate::stats::reuse::Reuse;
use crate::stats::sample::mix;
use crate::stats::stack::Stack;

/// The sampled pages of a part. Columns have a value for each page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Columns {
    #[serde(with = "counted::steps")]
    pages: Vec<u64>,
    reads: Vec<u32>,
    writes: Vec<u32>,
    /// When each was first written, and last, in nanoseconds.
    first_written: Vec<u64>,
    last_written: Vec<u64>,
    /// The places in `pages`, in the order of the first accesses, and of the last.
    by_first: Vec<u32>,
    by_last: Vec<u32>,
    reuse: Reuse,
    /// Intervals between two writes of a page, in nanoseconds.
    #[serde(with = "plain")]
    overwrites: Buckets,
    /// Accesses of all pages, in the sample or not.
    #[serde(deserialize_with = "counted::one")]
    accesses: u64,
}

/// Most sampled pages: their places are numbers of 32 bits.
const MOST: usize = u32::MAX as usize;

impl Columns {
    /// The columns of a part; `None` if there were more pages than memory may hold.
    pub fn of(known: Known) -> Option<Columns> {
        let Known { table, firsts, reuse, overwrites, accesses } = known;
        if firsts.overflowed || table.len() > MOST {
            return None;
        }
        let mut pages: Vec<u64> = table.keys().copied().collect();
        pages.sort_unstable();
        let place = |page: u64| pages.binary_search(&page).unwrap_or(0);
        let mut first_written = vec![0; pages.len()];
        for &(page, at) in &firsts.written {
            first_written[place(page)] = at.0;
        }
        let by_first = firsts.pages.iter().map(|&page| place(page) as u32).collect();
        let mut by_last: Vec<(u32, u32)> = Vec::with_capacity(pages.len());
        let (mut reads, mut writes, mut last_written) = (Vec::new(), Vec::new(), Vec::new());
        for (place, page) in (0..).zip(&pages) {
            let state = table.get(page).copied().unwrap_or_default();
            reads.push(state.reads);
            writes.push(state.writes);
            last_written.push(if state.writes > 0 { state.written.0 } else { 0 });
            by_last.push((state.position, place));
        }
        by_last.sort_unstable();
        let by_last = by_last.into_iter().map(|(_, place)| place).collect();
        Some(Columns {
            pages,
            reads,
            writes,
            first_written,
            last_written,
            by_first,
            by_last,
            reuse,
            overwrites,
            accesses,
        })
    }

    /// Number of sampled pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether all columns belong together.
    pub fn is_sound(&self) -> bool {
        let len = self.pages.len();
        let is_order = |places: &[u32]| {
            let mut seen = vec![false; len];
            let is_new = |&place: &u32| {
                seen.get_mut(place as usize).is_some_and(|seen| !std::mem::replace(seen, true))
            };
            places.len() == len && places.iter().all(is_new)
        };
        let lengths =
            [self.reads.len(), self.writes.len(), self.first_written.len(), self.last_written.len()];
        lengths.iter().all(|&column| column == len)
            && self.pages.is_sorted_by(|a, b| a < b)
            && is_order(&self.by_first)
            && is_order(&self.by_last)
            && self.reuse.is_sound()
            && self.overwrites.bits() == 4
    }

    /// The pages of this part and of the one that follows; and for each number of first accesses in that one, how many
    /// of them are first accesses of both.
    pub fn merge(&self, next: &Columns, halvings: u32) -> Option<(Columns, Vec<u32>)> {
        let pages = union(&self.pages, &next.pages);
        if pages.len() > MOST {
            return None;
        }
        let mut both = Columns {
            reads: vec![0; pages.len()],
            writes: vec![0; pages.len()],
            first_written: vec![0; pages.len()],
            last_written: vec![0; pages.len()],
            by_first: Vec::with_capacity(pages.len()),
            by_last: Vec::with_capacity(pages.len()),
            accesses: self.accesses + next.accesses,
            reuse: self.reuse.clone(),
            overwrites: self.overwrites.clone(),
            pages,
        };
        both.reuse.merge(&next.reuse);
        both.overwrites.merge(&next.overwrites);
        let here = both.add_counts(self, halvings);
        let there = both.add_counts(next, halvings);
        let fresh = both.follow(self, &here, next, &there, halvings);
        let mut again = vec![false; both.len()];
        for &place in &there {
            again[place as usize] = true;
        }
        let kept =
            self.by_last.iter().map(|&place| here[place as usize]).filter(|&place| !again[place as usize]);
        both.by_last = kept.chain(next.by_last.iter().map(|&place| there[place as usize])).collect();
        Some((both, fresh))
    }

    /// Adds the counts of a part, the earlier one first; returns the places of its pages.
    fn add_counts(&mut self, part: &Columns, halvings: u32) -> Vec<u32> {
        let mut places = Vec::with_capacity(part.len());
        let mut place = 0;
        for (at, page) in part.pages.iter().enumerate() {
            while self.pages[place] != *page {
                place += 1;
            }
            if part.writes[at] > 0 {
                if self.writes[place] > 0 {
                    let since = part.first_written[at].saturating_sub(self.last_written[place]);
                    self.overwrites.add(since, 1 << halvings);
                } else {
                    self.first_written[place] = part.first_written[at];
                }
                self.last_written[place] = part.last_written[at];
            }
            self.reads[place] = self.reads[place].saturating_add(part.reads[at]);
            self.writes[place] = self.writes[place].saturating_add(part.writes[at]);
            places.push(place as u32);
        }
        places
    }

    /// Resolves the first accesses of the next part in the stack of the part before it.
    fn follow(
        &mut self,
        part: &Columns,
        here: &[u32],
        next: &Columns,
        there: &[u32],
        halvings: u32,
    ) -> Vec<u32> {
        const NOWHERE: u32 = u32::MAX;
        let mut stack = Stack::default();
        let mut positions = vec![NOWHERE; self.len()];
        let mut push = |positions: &mut Vec<u32>, place: u32| {
            let known = positions[place as usize];
            let distance = (known != NOWHERE).then(|| stack.remove(known));
            positions[place as usize] = NOWHERE;
            if stack.is_full() {
                stack.renumber(positions.iter_mut().filter(|position| **position != NOWHERE));
            }
            positions[place as usize] = stack.push();
            distance
        };
        for &place in &part.by_last {
            push(&mut positions, here[place as usize]);
        }
        self.by_first = part.by_first.iter().map(|&place| here[place as usize]).collect();
        let mut fresh = vec![0];
        for &place in &next.by_first {
            let place = there[place as usize];
            let mut both = fresh.last().copied().unwrap_or(0);
            if let Some(distance) = push(&mut positions, place) {
                self.reuse.not_first(mix(self.pages[place as usize]), halvings, distance);
            } else {
                self.by_first.push(place);
                both += 1;
            }
            fresh.push(both);
        }
        fresh
    }

    /// The pages of a whole trace.
    pub fn into_pages(self, halvings: u32) -> Pages {
        let mut table = FxHashMap::default();
        for (at, &page) in self.pages.iter().enumerate() {
            let (reads, writes, written) = (self.reads[at], self.writes[at], Nanos(self.last_written[at]));
            table.insert(page, Page { reads, writes, written, ..Page::default() });
        }
        let Columns { reuse, overwrites, accesses, .. } = self;
        Pages::of(Known { table, reuse, overwrites, accesses, firsts: Firsts::default() }, halvings)
    }
}

/// All numbers of two ascending lists, ascending.
pub(super) fn union(a: &[u64], b: &[u64]) -> Vec<u64> {
    let mut all = Vec::with_capacity(a.len().max(b.len()));
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(&here), Some(&there)) => here.min(there),
            (Some(&only), None) | (None, Some(&only)) => only,
            (None, None) => return all,
        };
        a.next_if_eq(&next);
        b.next_if_eq(&next);
        all.push(next);
    }
}
