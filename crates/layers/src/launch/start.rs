//! The start that is going on: what it has read, what was fetched for it, and how much of that was read.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_core::runtime::now;
use seekless_core::{Counters, Extent, Hits, Nanos, ProcessId};

use super::Options;
use crate::pattern::{Lasts, MOST_READS, Programs, Sequences, Touched};

/// What the layer knows.
pub struct State {
    sequences: Sequences,
    /// Reads of this start, and the pages that they touched.
    reads: Vec<Touched>,
    seen: FxHashSet<u64>,
    lasts: Lasts,
    /// Sequences that were fetched in this start, and their pages: whether each was read.
    launched: BTreeSet<Programs>,
    fetched: FxHashMap<u64, bool>,
    /// Reads in flight, and the time of the last arrival or answer.
    in_flight: u64,
    last: Nanos,
    /// Whether something was learned since it was kept.
    unkept: bool,
    counted: Counted,
}

/// Counters.
#[derive(Clone, Copy, Default)]
struct Counted {
    reads: u64,
    hits: u64,
    waited: u64,
    starts: u64,
    launches: u64,
    fetched: u64,
    used: u64,
}

impl State {
    /// With the sequences that were kept, if there are any.
    pub fn new(options: &Options, kept: Option<Sequences>) -> State {
        State {
            sequences: kept.unwrap_or_else(|| Sequences::new(options.bounds())),
            reads: Vec::new(),
            seen: FxHashSet::default(),
            lasts: Lasts::default(),
            launched: BTreeSet::new(),
            fetched: FxHashMap::default(),
            in_flight: 0,
            last: Nanos::ZERO,
            unkept: false,
            counted: Counted::default(),
        }
    }

    /// A read arrives. Returns the pages to fetch, in the order of reading, if it completes a trigger.
    pub fn arrived(&mut self, at: Extent, process: ProcessId, options: &Options) -> Vec<u64> {
        let ended = self.in_flight == 0 && now().since(self.last) >= options.quiet;
        let most = options.pages();
        if ended || self.seen.len() as u64 >= most || self.reads.len() as u64 > MOST_READS * most {
            self.end();
        }
        (self.in_flight, self.last) = (self.in_flight + 1, now());
        let pages = at.pages();
        let read = Touched { process, first: pages.start, end: pages.end };
        self.counted.reads += 1;
        self.counted.hits += u64::from(pages.clone().all(|page| self.fetched.get(&page) == Some(&false)));
        for page in pages.clone() {
            let fetched = self.fetched.get_mut(&page).map(|read| std::mem::replace(read, true));
            self.counted.used += u64::from(fetched == Some(false));
        }
        self.seen.extend(pages);
        self.reads.push(read);
        let trigger = self.lasts.push(&read);
        trigger.map(|trigger| self.recognized(trigger)).unwrap_or_default()
    }

    pub fn answered(&mut self) {
        (self.in_flight, self.last) = (self.in_flight - 1, now());
    }

    /// A read waits for a page that is being fetched.
    pub fn waited(&mut self) {
        self.counted.waited += 1;
    }

    /// The pages that all programs with this trigger read, without those that are here or on their way.
    fn recognized(&mut self, trigger: [u64; 3]) -> Vec<u64> {
        let programs = self.sequences.triggered(trigger);
        if programs.is_empty() || !self.launched.insert(programs) {
            return Vec::new();
        }
        let mut pages = self.sequences.common(programs);
        pages.retain(|page| !self.seen.contains(page) && !self.fetched.contains_key(page));
        self.counted.launches += u64::from(!pages.is_empty());
        pages
    }

    /// These runs are going to be fetched.
    pub fn fetching(&mut self, runs: &[Extent]) {
        for page in runs.iter().flat_map(|run| run.pages()) {
            self.counted.fetched += u64::from(self.fetched.insert(page, self.seen.contains(&page)).is_none());
        }
    }

    /// Whether something was learned since it was kept.
    pub fn has_unkept(&self) -> bool {
        self.unkept
    }

    /// What was learned, encoded in at most `most` bytes, and pages that belong to it; until more is learned it counts
    /// as kept.
    pub fn keep(&mut self, most: u64, witnesses: usize) -> (Vec<u8>, Vec<u64>) {
        self.unkept = false;
        (self.sequences.encode(most), self.sequences.sample(witnesses))
    }

    /// It could not be kept.
    pub fn not_kept(&mut self) {
        self.unkept = true;
    }

    /// Ends the start, and learns from it.
    pub fn end(&mut self) {
        let learned = self.sequences.learn(&self.reads);
        self.unkept |= learned;
        self.counted.starts += u64::from(learned);
        self.reads.clear();
        self.seen.clear();
        self.lasts = Lasts::default();
        self.launched.clear();
        self.fetched.clear();
    }

    pub fn hits(&self) -> Hits {
        Hits { lookups: self.counted.reads, hit: self.counted.hits }
    }

    pub fn counters(&self) -> Counters {
        let Counted { reads, hits, waited, starts, launches, fetched, used } = self.counted;
        let (programs, pages, _) = self.sequences.size();
        vec![
            ("reads", reads),
            ("reads_prefetched", hits),
            ("reads_waited", waited),
            ("starts_learned", starts),
            ("sequences", programs),
            ("pages_learned", pages),
            ("launches", launches),
            ("pages_fetched", fetched),
            ("pages_fetched_used", used),
        ]
    }
}
