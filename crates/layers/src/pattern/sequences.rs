//! Launch sequences, mined from repeated starts (section 6.2 of the IOLab paper): which pages a program reads when it
//! starts, and by which requests it is recognized.
//!
//! A start is a list of reads. It belongs to the known sequence that it shares most of its pages with, or is the first
//! of a new one. A page belongs to a sequence if at least half of its starts read it; counts are halved from time to
//! time, so that a program may change. Three consecutive reads of a process are a trigger: they name all sequences in
//! which they were seen. What these have in common is certain to be read, whichever of them it is.
//!
//! Reads that touch the same pages again and again are no start: what a program has read is in its host's memory.
//!
//! Invariants: at most 64 sequences, a bit each; at most `pages` pages, and triggers, of all of them. When there are
//! more, the sequences that were seen longest ago are forgotten, first those that were not seen often enough to be
//! used: these take at most half of the bounds from the others.

mod encoding;

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_core::ProcessId;

/// Most sequences: one bit each.
const MOST: usize = 64;
/// Most reads of a start for each page that it touches.
pub const MOST_READS: u64 = 2;
/// The number of starts at which counts are halved.
const HALVED_AT: u32 = 16;

/// A read: of a process, from its first page to before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The process; all the same where processes are not known.
    pub process: ProcessId,
    /// The first page.
    pub first: u64,
    /// The page after the last one.
    pub end: u64,
}

/// A set of sequences, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Programs(u64);

impl Programs {
    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of sequences in the set.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    fn numbers(self) -> impl Iterator<Item = usize> {
        (0..MOST).filter(move |number| self.0 >> number & 1 == 1)
    }
}

/// Bounds of what is learned.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Pages of all sequences.
    pub pages: u64,
    /// Pages of the smallest start that is learned.
    pub least: u64,
    /// Starts of a sequence before it is used.
    pub starts: u32,
}

/// What programs read when they start.
pub struct Sequences {
    bounds: Bounds,
    known: Vec<Option<Sequence>>,
    /// The sequences that each page belongs to.
    holders: FxHashMap<u64, u64>,
    /// The sequences in which three reads followed each other.
    triggers: FxHashMap<[u64; 3], u64>,
    learned: u64,
}

/// A sequence.
#[derive(Default)]
struct Sequence {
    /// The pages that its starts read.
    pages: BTreeMap<u64, Page>,
    /// Its starts, as counted in `pages`; and all of them.
    counted: u32,
    starts: u32,
    /// Number of pages that belong to it.
    members: u64,
    /// The number of its last start.
    last: u64,
}

/// A page of a sequence.
#[derive(Default)]
struct Page {
    /// How many starts read it.
    count: u32,
    /// Its place among the pages of the last one that did.
    rank: u32,
}

impl Sequences {
    /// Nothing is known yet.
    pub fn new(bounds: Bounds) -> Sequences {
        Sequences {
            bounds,
            known: Vec::new(),
            holders: FxHashMap::default(),
            triggers: FxHashMap::default(),
            learned: 0,
        }
    }

    /// Number of sequences; of pages that are counted in them; and of triggers.
    pub fn size(&self) -> (u64, u64, u64) {
        let known = self.known.iter().flatten();
        let pages = known.clone().map(|sequence| sequence.pages.len() as u64).sum();
        (known.count() as u64, pages, self.triggers.len() as u64)
    }

    /// The sequences in which these reads followed each other, of those that have been seen often enough.
    pub fn triggered(&self, by: [u64; 3]) -> Programs {
        let found = Programs(self.triggers.get(&by).copied().unwrap_or(0));
        let usable = |number: &usize| {
            self.known[*number].as_ref().is_some_and(|sequence| sequence.starts >= self.bounds.starts)
        };
        Programs(found.numbers().filter(usable).fold(0, |all, number| all | 1 << number))
    }

    /// The pages that belong to each of these sequences, in the order in which one of them last read them.
    pub fn common(&self, programs: Programs) -> Vec<u64> {
        let Some(first) = programs.numbers().next().and_then(|number| self.known[number].as_ref()) else {
            return Vec::new();
        };
        let held = |page: &u64| self.holders.get(page).is_some_and(|held| held & programs.0 == programs.0);
        let mut pages: Vec<(u32, u64)> =
            first.pages.iter().filter(|(page, _)| held(page)).map(|(page, of)| (of.rank, *page)).collect();
        pages.sort_unstable();
        pages.into_iter().map(|(_, page)| page).collect()
    }

    /// Pages that belong to sequences, evenly spaced: `most` of them.
    pub fn sample(&self, most: usize) -> Vec<u64> {
        let mut pages: Vec<u64> = self.holders.keys().copied().collect();
        pages.sort_unstable();
        let step = pages.len().div_ceil(most.max(1)).max(1);
        pages.into_iter().step_by(step).collect()
    }

    /// Learns from a start; returns whether it was large enough.
    pub fn learn(&mut self, start: &[Touched]) -> bool {
        let mut seen = FxHashSet::default();
        let pages: Vec<u64> =
            start.iter().flat_map(|read| read.first..read.end).filter(|page| seen.insert(*page)).collect();
        let (reads, touched) = (start.len() as u64, pages.len() as u64);
        if touched < self.bounds.least || touched > self.bounds.pages || reads > MOST_READS * touched {
            return false;
        }
        self.learned += 1;
        let number = self.most_alike(&pages).unwrap_or_else(|| self.free_number());
        self.count(number, &pages);
        for trigger in triggers(start) {
            *self.triggers.entry(trigger).or_default() |= 1 << number;
        }
        self.bound(number);
        true
    }

    /// The sequence that shares most of its pages with a start, if that is at least two thirds of both together.
    fn most_alike(&self, pages: &[u64]) -> Option<usize> {
        let mut shared = [0_u64; MOST];
        for page in pages {
            let held = Programs(self.holders.get(page).copied().unwrap_or(0));
            held.numbers().for_each(|number| shared[number] += 1);
        }
        let alike = |number: usize| {
            let sequence = self.known[number].as_ref()?;
            let both = sequence.members + pages.len() as u64 - shared[number];
            (3 * shared[number] >= 2 * both).then_some((shared[number] * 1_000 / both.max(1), number))
        };
        (0..self.known.len())
            .filter_map(alike)
            .max_by_key(|&(share, number)| (share, MOST - number))
            .map(|best| best.1)
    }

    /// A number for a new sequence.
    fn free_number(&mut self) -> usize {
        if let Some(free) = self.known.iter().position(Option::is_none) {
            return free;
        }
        if self.known.len() < MOST {
            self.known.push(None);
            return self.known.len() - 1;
        }
        let (_, oldest) = self.oldest(usize::MAX).unwrap_or_default();
        self.forget(oldest);
        oldest
    }

    /// The sequence to forget, except one: whether it is used, and its number.
    fn oldest(&self, except: usize) -> Option<(bool, usize)> {
        let known = self.known.iter().enumerate().filter(|(number, _)| *number != except);
        let known = known.filter_map(|(number, sequence)| {
            let sequence = sequence.as_ref()?;
            Some((sequence.starts >= self.bounds.starts, sequence.last, number))
        });
        known.min().map(|(used, _, number)| (used, number))
    }

    /// Counts a start of a sequence.
    fn count(&mut self, number: usize, pages: &[u64]) {
        let mut sequence = self.known[number].take().unwrap_or_default();
        (sequence.starts, sequence.counted) = (sequence.starts.saturating_add(1), sequence.counted + 1);
        sequence.last = self.learned;
        for (page, rank) in pages.iter().zip(0..) {
            let page = sequence.pages.entry(*page).or_default();
            (page.count, page.rank) = (page.count + 1, rank);
        }
        if sequence.counted >= HALVED_AT {
            sequence.counted /= 2;
            sequence.pages.retain(|_, page| {
                page.count /= 2;
                page.count > 0
            });
        }
        self.known[number] = Some(sequence);
        self.release(number);
        self.hold(number);
    }

    /// Pages that at least half of a sequence's starts read belong to it.
    fn hold(&mut self, number: usize) {
        let Some(sequence) = self.known[number].as_mut() else { return };
        sequence.members = 0;
        for (page, of) in &sequence.pages {
            if 2 * of.count >= sequence.counted {
                *self.holders.entry(*page).or_default() |= 1 << number;
                sequence.members += 1;
            }
        }
    }

    /// No page belongs to a sequence any more.
    fn release(&mut self, number: usize) {
        self.holders.retain(|_, held| {
            *held &= !(1 << number);
            *held != 0
        });
    }

    fn forget(&mut self, number: usize) {
        self.known[number] = None;
        self.release(number);
        self.triggers.retain(|_, named| {
            *named &= !(1 << number);
            *named != 0
        });
    }

    /// Pages of a sequence or its triggers, whichever are more.
    fn size_of(&self, number: usize) -> u64 {
        let triggers = self.triggers.values().filter(|named| *named >> number & 1 == 1).count();
        self.known[number].as_ref().map_or(0, |sequence| sequence.pages.len().max(triggers) as u64)
    }

    /// Forgets sequences until the bound holds; the one that was just learned if it alone is too large, or others are
    /// used and it is not yet and takes more than half.
    fn bound(&mut self, number: usize) {
        while self.size().1.max(self.size().2) > self.bounds.pages {
            let learned = self.known.get(number).and_then(Option::as_ref);
            let is_new = learned.is_some_and(|sequence| sequence.starts < self.bounds.starts);
            let forgotten = match self.oldest(number) {
                Some((true, _)) if is_new && 2 * self.size_of(number) > self.bounds.pages => number,
                Some((_, oldest)) => oldest,
                None if learned.is_some() => number,
                None => return,
            };
            self.forget(forgotten);
        }
    }
}

/// The triggers of a start: three consecutive reads of a process, by their first pages.
fn triggers(start: &[Touched]) -> impl Iterator<Item = [u64; 3]> {
    let mut lasts = Lasts::default();
    start.iter().filter_map(move |read| lasts.push(read))
}

/// The last reads of each process.
#[derive(Default)]
pub struct Lasts(FxHashMap<ProcessId, Vec<u64>>);

impl Lasts {
    /// Adds a read; returns it and the two before it, of the same process, by their first pages.
    pub fn push(&mut self, read: &Touched) -> Option<[u64; 3]> {
        let last = self.0.entry(read.process).or_default();
        last.push(read.first);
        if last.len() > 3 {
            last.remove(0);
        }
        last.as_slice().try_into().ok()
    }
}

#[cfg(test)]
mod tests;
