//! Sequences of requests: how often the head has to move, and how often such moves repeat.
//!
//! A pair of consecutive requests is *non-sequential* if the second does not start where the first ends. It is
//! *partially deterministic* (section 2.3 of the BORG paper) if the same pair of start sectors occurs at least twice in
//! the trace. Interleaving hides the behaviour of single processes, and common behaviour is not that of one process:
//! hence both measures, by time over all processes, and with the predecessor of the same process. The pairs themselves
//! count across processes: a restarted program is another process.
//!
//! A pair is a hash of 64 bits: among a hundred million pairs, two different ones collide in 3 of 10,000 traces. Above
//! their memory limit, pairs are sampled by that hash (see `sample`).

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use seekless_core::ProcessId;
use serde::Serialize;

use super::buckets::Powers;
use super::sample::{Sampling, mix};
use super::{Stats, percent};

/// The most processes that are distinguished: a bound for hostile input.
const MAX_PROCESSES: usize = 1 << 20;

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

/// First sector and end of a request, in the joined space of all volumes.
pub(super) type Span = (u64, u64);

/// Follows the requests of a trace.
pub(super) struct Sequences {
    previous: Option<Span>,
    previous_of: FxHashMap<ProcessId, Span>,
    requests: u64,
    nonsequential: u64,
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
            run: 0,
            runs: Powers::default(),
            pairs: Pairs::new(memory / 2),
            pairs_per_process: Pairs::new(memory / 2),
        }
    }

    /// Adds the next request.
    pub fn follow(&mut self, process: ProcessId, here: Span) {
        self.requests += 1;
        let pair = nonsequential(self.previous.replace(here), here);
        if let Some(pair) = pair {
            self.nonsequential += 1;
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
        // Zero is an unknown process.
        let unknown_processes = self.previous_of.keys().all(|&process| process == ProcessId::default());
        stats.processes = if unknown_processes { 0 } else { self.previous_of.len() as u64 };
        stats.nonsequential_pct = percent(self.nonsequential, self.requests.saturating_sub(1));
        let (all, each) = (self.pairs.powers(), self.pairs_per_process.powers());
        stats.partial_determinism_pct = repeated_pct(&all);
        stats.partial_determinism_per_process_pct = repeated_pct(&each);
        let halvings = self.pairs.halvings;
        let row = |(up_to_times, pairs, occurrences)| PairRepeats {
            up_to_times,
            pairs: pairs << halvings,
            occurrences: occurrences << halvings,
        };
        stats.pair_repeats = all.iter().map(row).collect();
        let (all, each) = (self.pairs.sampling(), self.pairs_per_process.sampling());
        stats.pair_sampling = if all.kept < each.kept { all } else { each };
        stats.sequential_runs = self.run_lengths();
    }

    /// Lengths of runs.
    fn run_lengths(&mut self) -> Vec<RunLength> {
        if self.run > 0 {
            self.runs.add(self.run);
            self.run = 0;
        }
        let row = |(up_to_requests, runs, requests)| RunLength { up_to_requests, runs, requests };
        self.runs.iter().map(row).collect()
    }
}

fn nonsequential(before: Option<Span>, here: Span) -> Option<u64> {
    before.filter(|before| before.1 != here.0).map(|before| mix(mix(before.0).wrapping_add(here.0)))
}

/// Every occurrence of every sampled pair: sorting them at the end is many times faster than table lookups, and takes
/// eight bytes each.
struct Pairs {
    hashes: Vec<u64>,
    most: usize,
    halvings: u32,
}

impl Pairs {
    fn new(memory: u64) -> Pairs {
        // While it grows, the old one exists too.
        let most = (memory / 8 * 2 / 3).max(16).checked_ilog2().map_or(16, |power| 1 << power);
        Pairs { hashes: Vec::new(), most, halvings: 0 }
    }

    fn count(&mut self, pair: u64) {
        if pair > u64::MAX >> self.halvings {
            return;
        }
        while self.hashes.len() >= self.most && self.halvings < 63 {
            self.halvings += 1;
            let limit = u64::MAX >> self.halvings;
            self.hashes.retain(|&pair| pair <= limit);
        }
        // Where halving does not help, one pair fills it all: more of it adds no information.
        if self.hashes.len() < self.most && pair <= u64::MAX >> self.halvings {
            self.hashes.push(pair);
        }
    }

    /// Counts of pairs by occurrences, up to 1, 2, 4, 8 and so on.
    fn powers(&mut self) -> Powers {
        self.hashes.sort_unstable();
        let mut powers = Powers::default();
        for pair in self.hashes.chunk_by(|a, b| a == b) {
            powers.add(pair.len() as u64);
        }
        powers
    }

    fn sampling(&self) -> Sampling {
        Sampling::of(self.halvings, self.hashes.len() as u64)
    }
}

/// Share of occurrences of pairs that occur more than once.
fn repeated_pct(powers: &Powers) -> f64 {
    let all = powers.iter().map(|(_, _, occurrences)| occurrences).sum();
    let repeated =
        powers.iter().filter(|&(times, _, _)| times > 1).map(|(_, _, occurrences)| occurrences).sum();
    percent(repeated, all)
}
