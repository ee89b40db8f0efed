//! State of each page: its reads and writes, the last access, and its working sets. One table for all of it, since the
//! lookup is the main cost.
//!
//! Invariants: a page is in the table once it is touched; `position` is its place in the stack. Above its memory limit,
//! the table is a sample (see [`Sample`]).

use std::hint::black_box;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use seekless_core::{Buckets, Nanos, PAGE_BYTES};
use serde::Serialize;

use super::buckets::doublings;
use super::reuse::{MissRatioCurve, Reuse};
use super::sample::{Sample, Sampling, mix};
use super::share_error::Ranked;
use super::stack::Stack;
use super::{Stats, gib, percent};

/// A point of a rank-frequency curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RankPoint {
    /// The page's rank: 1 is the most accessed.
    pub rank: u64,
    /// Accesses of the page of that rank.
    pub accesses: u64,
}

/// Most points of a curve: more than the pixels of a picture.
const RANK_POINTS: u32 = 200;

/// State of a page.
#[derive(Clone, Copy, Default)]
pub(super) struct Page {
    pub reads: u32,
    pub writes: u32,
    /// Accesses in this interval.
    pub here: u32,
    /// Position in the stack.
    pub position: u32,
    /// Time of the last write, if any.
    pub written: Nanos,
    /// Earlier working sets that contain it (see `working_sets`).
    pub sets: u8,
}

impl Page {
    fn accesses(&self) -> u64 {
        u64::from(self.reads) + u64::from(self.writes)
    }
}

/// All pages.
pub(super) struct Pages {
    pub sample: Sample<Page>,
    stack: Stack,
    reuse: Reuse,
    /// Intervals between two writes of a page, in nanoseconds.
    overwrites: Buckets,
    /// Accesses of all pages, in the sample or not.
    accesses: u64,
    /// Accesses not counted yet: several pages are looked up before the first is changed, so that a processor waits for
    /// memory once for all of them.
    pending: Vec<Access>,
    /// For a part of a trace: what was first in it.
    firsts: Option<Firsts>,
}

/// First accesses of pages in a part of a trace.
#[derive(Default)]
pub(super) struct Firsts {
    /// Pages, in the order of their first accesses.
    pub pages: Vec<u64>,
    /// Pages that were written, and when that was first.
    pub written: Vec<(u64, Nanos)>,
    /// Whether there were more pages than memory may hold.
    pub overflowed: bool,
}

/// All that is known of the pages of a part of a trace.
pub(super) struct Known {
    pub table: FxHashMap<u64, Page>,
    pub firsts: Firsts,
    pub reuse: Reuse,
    pub overwrites: Buckets,
    pub accesses: u64,
}

/// A read or write of a page.
struct Access {
    number: u64,
    hash: u64,
    write: bool,
    at: Nanos,
}

/// No page is left after more.
const MOST_HALVINGS: u32 = 63;

/// Lookups that a processor can overlap.
const PENDING: usize = 32;

impl Pages {
    /// No pages yet; `memory` in bytes.
    pub fn new(memory: u64) -> Pages {
        // Eight positions per page, a bit each and a Fenwick node for 64: less than two bytes.
        let sample = Sample::new(memory / 20 * 19);
        let (stack, reuse) = (Stack::default(), Reuse::default());
        let pending = Vec::with_capacity(PENDING);
        Pages { sample, stack, reuse, overwrites: Buckets::new(4), accesses: 0, pending, firsts: None }
    }

    /// As `new`, with less room for what is not of single pages; without an error of the curve.
    pub fn small(memory: u64) -> Pages {
        let (reuse, overwrites) = (Reuse::of_one_group(), Buckets::new(0));
        Pages { reuse, overwrites, ..Pages::new(memory) }
    }

    /// For a part of a trace, at a fixed sampling rate.
    pub fn part(memory: u64, halvings: u32) -> Pages {
        // A third is for what was first.
        let sample = Sample::fixed(memory / 3 * 2, halvings);
        Pages { sample, firsts: Some(Firsts::default()), ..Pages::new(memory) }
    }

    /// Of all parts of a trace: what their statistics need.
    pub fn of(known: Known, halvings: u32) -> Pages {
        let Known { table, reuse, overwrites, accesses, .. } = known;
        let mut sample = Sample::fixed(0, halvings);
        sample.table = table;
        Pages { sample, reuse, overwrites, accesses, ..Pages::new(0) }
    }

    /// What is known of the pages of a part.
    pub fn into_known(mut self) -> Known {
        self.settle();
        let Pages { sample, reuse, overwrites, accesses, firsts, .. } = self;
        Known { table: sample.table, firsts: firsts.unwrap_or_default(), reuse, overwrites, accesses }
    }

    /// Adds an access. It counts at the next [`settle`](Pages::settle), at the latest.
    pub fn access(&mut self, number: u64, write: bool, at: Nanos) {
        self.accesses += 1;
        let hash = mix(number);
        if self.sample.keeps(hash) {
            self.pending.push(Access { number, hash, write, at });
            if self.pending.len() == PENDING {
                self.settle();
            }
        }
    }

    /// Counts pending accesses; required before any query.
    pub fn settle(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        let looked_up = pending.iter().filter_map(|access| self.sample.table.get(&access.number));
        black_box(looked_up.fold(0, |sum: u32, page| sum.wrapping_add(page.position)));
        for access in pending.drain(..) {
            self.count(&access);
        }
        self.pending = pending;
    }

    fn count(&mut self, access: &Access) {
        let &Access { number, hash, write, at } = access;
        if !self.sample.keeps(hash) {
            return;
        }
        if self.stack.is_full() {
            self.stack.renumber(self.sample.table.values_mut().map(|page| &mut page.position));
        }
        if self.sample.is_full() && !self.sample.table.contains_key(&number) {
            if let Some(firsts) = &mut self.firsts {
                firsts.overflowed = true;
                return;
            }
            let stack = &mut self.stack;
            self.sample.halve(|page| {
                stack.remove(page.position);
            });
            if !self.sample.keeps(hash) {
                return;
            }
        }
        let halvings = self.sample.halvings();
        let page = self.sample.table.entry(number).or_default();
        if page.accesses() == 0 {
            self.reuse.first(hash, halvings);
            self.firsts.iter_mut().for_each(|firsts| firsts.pages.push(number));
        } else {
            self.reuse.again(hash, halvings, self.stack.remove(page.position));
        }
        page.position = self.stack.push();
        page.here = page.here.saturating_add(1);
        if write {
            if page.writes > 0 {
                self.overwrites.add(at.since(page.written).0, 1 << halvings);
            } else {
                self.firsts.iter_mut().for_each(|firsts| firsts.written.push((number, at)));
            }
            page.writes = page.writes.saturating_add(1);
            page.written = at;
        } else {
            page.reads = page.reads.saturating_add(1);
        }
    }

    /// Bytes of its tables.
    pub fn bytes(&self) -> u64 {
        self.sample.bytes() + self.stack.bytes()
    }

    /// Drops half of the pages, and gives back their memory.
    pub fn halve(&mut self) {
        self.settle();
        if self.sample.halvings() < MOST_HALVINGS {
            let stack = &mut self.stack;
            self.sample.halve(|page| {
                stack.remove(page.position);
            });
            self.sample.table.shrink_to_fit();
            self.stack.renumber(self.sample.table.values_mut().map(|page| &mut page.position));
            self.stack.shrink();
        }
    }

    /// Number of different pages so far.
    pub fn distinct(&mut self) -> u64 {
        self.settle();
        self.sample.scaled(self.sample.table.len() as u64)
    }

    /// Miss ratio of an LRU cache, for settled accesses.
    pub fn curve(&self) -> MissRatioCurve {
        self.reuse.curve(self.accesses, self.sample.halvings())
    }

    /// Miss ratio of an LRU cache of a tenth of the pages, rounded down to whole pages but at least one; for settled
    /// accesses.
    pub fn miss_ratio_of_a_tenth(&self) -> f64 {
        let pages = self.sample.scaled(self.sample.table.len() as u64);
        self.reuse.miss_ratio(self.accesses, (pages / 10).max(1))
    }

    /// The largest error of the shares of the top 20 %: of all accesses, of reads and of writes.
    fn share_error_pct(&self) -> f64 {
        let halvings = self.sample.halvings();
        let error = |count: fn(&Page) -> u64| {
            let pages = self.sample.table.iter().map(|(number, page)| (mix(*number), count(page)));
            Ranked::of(pages.filter(|(_, count)| *count > 0)).error(halvings, top20)
        };
        let counts =
            [Page::accesses, |page: &Page| u64::from(page.reads), |page: &Page| u64::from(page.writes)];
        if halvings == 0 { 0.0 } else { counts.into_iter().map(error).fold(0.0, f64::max) }
    }

    /// Fills in the pages' statistics, for settled accesses.
    pub fn summarise(&self, stats: &mut Stats) {
        let pages = self.sample.table.values();
        let all = sorted(pages.clone().map(Page::accesses));
        let read = sorted(pages.clone().map(|page| u64::from(page.reads)));
        let written = sorted(pages.map(|page| u64::from(page.writes)));
        let size_gib = |pages: &[u64]| gib(self.sample.scaled(pages.len() as u64).saturating_mul(PAGE_BYTES));
        stats.accessed_pages = self.sample.scaled(all.len() as u64);
        stats.total_gib_unique = size_gib(&all);
        stats.read_gib_unique = size_gib(&read);
        stats.write_gib_unique = size_gib(&written);
        stats.top20_share_pct = top20_share_pct(&all);
        stats.top20_read_share_pct = top20_share_pct(&read);
        stats.top20_write_share_pct = top20_share_pct(&written);
        stats.read_rank_frequency = rank_frequency(&read, self.sample.halvings());
        stats.write_rank_frequency = rank_frequency(&written, self.sample.halvings());
        stats.page_sampling = Sampling { share_error_pct: self.share_error_pct(), ..self.sample.sampling() };
        stats.reuse_distances = self.reuse.distances();
        stats.miss_ratio_curve = self.curve();
        stats.overwrite_intervals = doublings(&self.overwrites, 1e9);
    }
}

/// The counts that are not zero, the highest first.
fn sorted(counts: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut counts: Vec<u64> = counts.filter(|&count| count > 0).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

/// The number of pages in the top 20 %: rounded down, but one if there are any.
pub fn top20(pages: usize) -> usize {
    (pages / 5).max(1).min(pages)
}

/// Share of the top 20 % in all accesses; `counts` has the highest first.
fn top20_share_pct(counts: &[u64]) -> f64 {
    let top = counts[..top20(counts.len())].iter().sum();
    percent(top, counts.iter().sum())
}

/// The curve of `counts`, the highest first, at ranks evenly spaced on a log scale.
fn rank_frequency(counts: &[u64], halvings: u32) -> Vec<RankPoint> {
    let last = counts.len() as f64;
    let mut points: Vec<RankPoint> = Vec::new();
    for step in 0..RANK_POINTS {
        let rank = last.powf(f64::from(step) / f64::from(RANK_POINTS - 1)).round() as u64;
        let Some(&accesses) = counts.get((rank as usize).wrapping_sub(1)) else { continue };
        let rank = rank << halvings;
        if points.last().is_none_or(|point| point.rank < rank) {
            points.push(RankPoint { rank, accesses });
        }
    }
    points
}
