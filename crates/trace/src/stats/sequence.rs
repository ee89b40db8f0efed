//! Sequences of requests: how often the head has to move, and how often such moves repeat.
//!
//! A pair of consecutive requests is *non-sequential* if the second does not start where the first ends, on its volume.
//! It is *partially deterministic* (section 2.3 of the BORG paper) if the same pair of start sectors occurs at least
//! twice in the trace. Interleaving hides the behaviour of single processes, and common behaviour is not that of one
//! process: hence both measures, by time over all processes, and with the predecessor of the same process. The pairs
//! themselves count across processes: a restarted program is another process.
//!
//! A pair is a hash of 64 bits: among a hundred million pairs, two different ones collide in 3 of 10,000 traces. Above
//! their memory limit, pairs are sampled by that hash (see `sample`).

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use seekless_core::{Buckets, ProcessId, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

use super::buckets::{Powers, counted, plain};
use super::sample::{Sampling, mix};
use super::share_error::Parts;
use super::{Stats, gib, percent};

/// The most processes that are distinguished: a bound for hostile input.
pub(super) const MAX_PROCESSES: usize = 1 << 20;

/// No pair is left after more.
const MOST_HALVINGS: u32 = 63;

/// Distances of jumps are known to 3 %: 32 sizes per doubling.
const BITS: u32 = 5;

/// Non-sequential pairs by number of occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PairRepeats {
    /// Most occurrences of a pair in this class, above the class before.
    pub up_to_times: u64,
    /// Different pairs.
    pub pairs: u64,
    /// Their occurrences.
    pub occurrences: u64,
}

/// Sequential runs by length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RunLength {
    /// Most requests of a run in this class, above the class before.
    pub up_to_requests: u64,
    /// Number of runs.
    pub runs: u64,
    /// Their requests.
    pub requests: u64,
}

/// Sectors of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Span {
    /// The volume, by index.
    pub volume: usize,
    /// First sector, in the joined space of all volumes.
    pub start: u64,
    /// The sector after the last.
    pub end: u64,
}

impl Span {
    /// Whether a request starts where this one ends.
    pub fn is_followed_by(self, next: Span) -> bool {
        self.volume == next.volume && self.end == next.start
    }

    /// Sectors from the end of this one to the start of another, if it is on the same volume.
    fn distance(self, next: Span) -> Option<u64> {
        (self.volume == next.volume).then(|| self.end.abs_diff(next.start))
    }
}

/// What came before a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Before {
    /// The request before.
    pub previous: Option<Span>,
    /// The last request of each process.
    pub previous_of: FxHashMap<ProcessId, Span>,
    /// Requests of the sequential run that has not ended.
    pub run: u64,
}

/// Sums of sequences, of a trace or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SequenceSums {
    #[serde(deserialize_with = "counted::one")]
    requests: u64,
    #[serde(deserialize_with = "counted::one")]
    nonsequential: u64,
    /// Distances of jumps within a volume, in sectors.
    #[serde(with = "plain")]
    jumps: Buckets,
    runs: Powers,
    /// Different processes from the trace's start to the end of the part; 0 if it has none.
    #[serde(deserialize_with = "counted::one")]
    processes: u64,
    pairs: CountedPairs,
    pairs_per_process: CountedPairs,
}

/// Follows the requests of a trace.
pub(super) struct Sequences {
    previous: Option<Span>,
    previous_of: FxHashMap<ProcessId, Span>,
    requests: u64,
    nonsequential: u64,
    jumps: Buckets,
    /// Requests of the current run.
    run: u64,
    runs: Powers,
    pairs: Pairs,
    pairs_per_process: Pairs,
}

impl Sequences {
    /// No requests yet; `memory` in bytes.
    pub fn new(memory: u64) -> Sequences {
        Sequences {
            previous: None,
            previous_of: FxHashMap::default(),
            requests: 0,
            nonsequential: 0,
            jumps: Buckets::new(BITS),
            run: 0,
            runs: Powers::default(),
            pairs: Pairs::new(memory / 2),
            pairs_per_process: Pairs::new(memory / 2),
        }
    }

    /// For a part of a trace, after what came before; pairs are sampled at this fixed rate.
    pub fn resume(memory: u64, halvings: u32, before: Before) -> Sequences {
        let Before { previous, previous_of, run } = before;
        let pairs = || Pairs { halvings, counted: Some(CountedPairs::default()), ..Pairs::new(memory / 2) };
        let (pairs, pairs_per_process) = (pairs(), pairs());
        Sequences { previous, previous_of, run, pairs, pairs_per_process, ..Sequences::new(memory) }
    }

    /// The sums of a part; after the last one, no run goes on. `None` if there were too many different pairs.
    pub fn sums(mut self, is_last: bool) -> Option<SequenceSums> {
        if is_last && self.run > 0 {
            self.runs.add(self.run);
        }
        let processes = self.processes();
        let Sequences { requests, nonsequential, jumps, runs, pairs, pairs_per_process, .. } = self;
        let (pairs, pairs_per_process) = (pairs.into_counted()?, pairs_per_process.into_counted()?);
        Some(SequenceSums { requests, nonsequential, jumps, runs, processes, pairs, pairs_per_process })
    }

    fn processes(&self) -> u64 {
        // Zero is an unknown process.
        let unknown_processes = self.previous_of.keys().all(|&process| process == ProcessId::default());
        if unknown_processes { 0 } else { self.previous_of.len() as u64 }
    }

    /// Adds the next request.
    pub fn follow(&mut self, process: ProcessId, here: Span) {
        self.requests += 1;
        let previous = self.previous.replace(here);
        let pair = nonsequential(previous, here);
        if let Some(pair) = pair {
            self.nonsequential += 1;
            if let Some(sectors) = previous.and_then(|before| before.distance(here)) {
                self.jumps.add(sectors, 1);
            }
            self.pairs.count(pair);
        }
        if pair.is_some() && self.run > 0 {
            self.runs.add(self.run);
            self.run = 0;
        }
        self.run += 1;
        let before = if self.previous_of.len() < MAX_PROCESSES {
            self.previous_of.insert(process, here)
        } else {
            self.previous_of.get_mut(&process).map(|before| std::mem::replace(before, here))
        };
        if let Some(pair) = nonsequential(before, here) {
            self.pairs_per_process.count(pair);
        }
    }

    /// Fills in the pairs' statistics.
    pub fn summarise(mut self, stats: &mut Stats) {
        if self.run > 0 {
            self.runs.add(self.run);
        }
        stats.processes = self.processes();
        stats.nonsequential_pct = percent(self.nonsequential, self.requests.saturating_sub(1));
        stats.jump_median_gib = median_gib(&self.jumps);
        stats.sequential_runs = run_lengths(&self.runs);
        let halvings = self.pairs.halvings;
        let [all, each] = [self.pairs, self.pairs_per_process].map(Pairs::counted);
        summarise_pairs(stats, &all, &each, halvings);
    }
}

impl SequenceSums {
    /// Adds the sums of the part that follows.
    pub fn merge(&mut self, next: SequenceSums) {
        self.requests += next.requests;
        self.nonsequential += next.nonsequential;
        self.jumps.merge(&next.jumps);
        self.runs.merge(&next.runs);
        self.processes = self.processes.max(next.processes);
        self.pairs.merge(next.pairs);
        self.pairs_per_process.merge(next.pairs_per_process);
    }

    /// Whether they can be sums.
    pub fn is_sound(&self) -> bool {
        self.jumps.bits() == BITS
            && self.runs.is_sound()
            && self.pairs.is_sound()
            && self.pairs_per_process.is_sound()
    }

    /// Fills in the pairs' statistics.
    pub fn summarise(&self, stats: &mut Stats, halvings: u32) {
        stats.processes = self.processes;
        stats.nonsequential_pct = percent(self.nonsequential, self.requests.saturating_sub(1));
        stats.jump_median_gib = median_gib(&self.jumps);
        stats.sequential_runs = run_lengths(&self.runs);
        let [all, each] = [&self.pairs, &self.pairs_per_process].map(|pairs| pairs.counted(halvings));
        summarise_pairs(stats, &all, &each, halvings);
    }
}

/// The median of distances in sectors.
fn median_gib(distances: &Buckets) -> f64 {
    gib(distances.quantile(0.5).saturating_mul(SECTOR_BYTES))
}

/// Lengths of runs.
fn run_lengths(runs: &Powers) -> Vec<RunLength> {
    let row = |(up_to_requests, runs, requests)| RunLength { up_to_requests, runs, requests };
    runs.iter().map(row).collect()
}

fn summarise_pairs(stats: &mut Stats, all: &(Powers, Sampling), each: &(Powers, Sampling), halvings: u32) {
    stats.partial_determinism_pct = repeated_pct(&all.0);
    stats.partial_determinism_per_process_pct = repeated_pct(&each.0);
    let row = |(up_to_times, pairs, occurrences)| PairRepeats {
        up_to_times,
        pairs: pairs << halvings,
        occurrences: occurrences << halvings,
    };
    stats.pair_repeats = all.0.iter().map(row).collect();
    let fewer = if all.1.kept < each.1.kept { all.1 } else { each.1 };
    let share_error_pct = all.1.share_error_pct.max(each.1.share_error_pct);
    stats.pair_sampling = Sampling { share_error_pct, ..fewer };
}

/// The pair of a request and the one before, unless it starts where that ends.
pub(super) fn nonsequential(before: Option<Span>, here: Span) -> Option<u64> {
    let jumped = before.filter(|before| !before.is_followed_by(here));
    jumped.map(|before| mix(mix(before.start).wrapping_add(here.start)))
}

/// Sampled pairs and their occurrences, by hash: what a file holds of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CountedPairs {
    #[serde(with = "counted::steps")]
    hashes: Vec<u64>,
    #[serde(deserialize_with = "counted::list")]
    counts: Vec<u64>,
}

impl CountedPairs {
    /// Adds the pairs of another.
    fn merge(&mut self, other: CountedPairs) {
        let mine = std::mem::take(self);
        let mut mine = mine.hashes.into_iter().zip(mine.counts).peekable();
        let mut theirs = other.hashes.into_iter().zip(other.counts).peekable();
        loop {
            let (hash, count) = match (mine.peek().copied(), theirs.peek().copied()) {
                (Some(here), Some(there)) if here.0 == there.0 => {
                    mine.next();
                    theirs.next();
                    (here.0, here.1 + there.1)
                }
                (Some(here), there) if there.is_none_or(|there| here.0 < there.0) => {
                    mine.next();
                    here
                }
                (_, Some(there)) => {
                    theirs.next();
                    there
                }
                (_, None) => break,
            };
            self.hashes.push(hash);
            self.counts.push(count);
        }
    }

    /// The pairs by occurrences, and the precision at this sampling rate.
    fn counted(&self, halvings: u32) -> (Powers, Sampling) {
        sums(self.hashes.iter().copied().zip(self.counts.iter().copied()), halvings)
    }

    fn is_sound(&self) -> bool {
        self.hashes.len() == self.counts.len()
            && self.hashes.is_sorted_by(|a, b| a < b)
            && self.counts.iter().all(|&count| count > 0)
    }
}

/// Every occurrence of every sampled pair: sorting them at the end is many times faster than table lookups, and takes
/// eight bytes each.
pub(super) struct Pairs {
    hashes: Vec<u64>,
    most: usize,
    halvings: u32,
    /// For a fixed sampling rate: pairs that are counted already.
    counted: Option<CountedPairs>,
}

impl Pairs {
    /// No pairs yet; `memory` in bytes.
    pub fn new(memory: u64) -> Pairs {
        // While it grows, the old one exists too.
        let most = (memory / 8 * 2 / 3).max(16).checked_ilog2().map_or(16, |power| 1 << power);
        Pairs { hashes: Vec::new(), most, halvings: 0, counted: None }
    }

    /// Adds an occurrence of a pair.
    pub fn count(&mut self, pair: u64) {
        if pair > u64::MAX >> self.halvings {
            return;
        }
        if self.counted.is_some() {
            return self.count_fixed(pair);
        }
        while self.hashes.len() >= self.most && self.halvings < MOST_HALVINGS {
            self.drop_half();
        }
        // Where halving does not help, one pair fills it all: more of it adds no information.
        if self.hashes.len() < self.most && pair <= u64::MAX >> self.halvings {
            self.hashes.push(pair);
        }
    }

    fn drop_half(&mut self) {
        self.halvings += 1;
        let limit = u64::MAX >> self.halvings;
        self.hashes.retain(|&pair| pair <= limit);
    }

    /// Bytes of the list.
    pub fn bytes(&self) -> u64 {
        self.hashes.capacity() as u64 * 8
    }

    /// Drops half of the pairs, and gives back their memory.
    pub fn halve(&mut self) {
        if self.halvings < MOST_HALVINGS {
            self.drop_half();
            self.hashes.shrink_to_fit();
        }
    }

    /// Counts a pair at a fixed rate: where the list is full, its pairs are counted, and only different ones are kept.
    fn count_fixed(&mut self, pair: u64) {
        let most = self.most / 2;
        if self.hashes.len() >= most {
            self.fold();
        }
        // Once there are too many, which is an error at the end, no more are collected.
        if self.counted.as_ref().is_some_and(|counted| counted.hashes.len() <= most) {
            self.hashes.push(pair);
        }
    }

    fn fold(&mut self) {
        self.hashes.sort_unstable();
        let mut fresh = CountedPairs::default();
        for pair in self.hashes.chunk_by(|a, b| a == b) {
            fresh.hashes.push(pair[0]);
            fresh.counts.push(pair.len() as u64);
        }
        self.hashes.clear();
        if let Some(counted) = &mut self.counted {
            counted.merge(fresh);
        }
    }

    /// The counts; `None` if there were too many different pairs.
    fn into_counted(mut self) -> Option<CountedPairs> {
        self.fold();
        let most = self.most / 2;
        self.counted.filter(|counted| counted.hashes.len() <= most)
    }

    /// Counts of pairs by occurrences, up to 1, 2, 4, 8 and so on.
    pub fn powers(&mut self) -> Powers {
        self.hashes.sort_unstable();
        let mut powers = Powers::default();
        for pair in self.hashes.chunk_by(|a, b| a == b) {
            powers.add(pair.len() as u64);
        }
        powers
    }

    /// As `powers`, with the precision.
    fn counted(mut self) -> (Powers, Sampling) {
        self.hashes.sort_unstable();
        let pairs = self.hashes.chunk_by(|a, b| a == b).map(|pair| (pair[0], pair.len() as u64));
        sums(pairs, self.halvings)
    }
}

/// Pairs, each with its hash and its occurrences, by occurrences; and the precision of `2^halvings` to one.
fn sums(pairs: impl Iterator<Item = (u64, u64)>, halvings: u32) -> (Powers, Sampling) {
    let (mut powers, mut repeated, mut all) = (Powers::default(), Parts::default(), 0);
    for (hash, count) in pairs {
        powers.add(count);
        repeated.add(hash, count, count > 1);
        all += count;
    }
    let share_error_pct = repeated.error(halvings);
    (powers, Sampling { share_error_pct, ..Sampling::of(halvings, all) })
}

/// Share of occurrences of pairs that occur more than once.
pub(super) fn repeated_pct(powers: &Powers) -> f64 {
    let all = powers.iter().map(|(_, _, occurrences)| occurrences).sum();
    let repeated =
        powers.iter().filter(|&(times, _, _)| times > 1).map(|(_, _, occurrences)| occurrences).sum();
    percent(repeated, all)
}
