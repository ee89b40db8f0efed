//! In what order requests come: how often the head has to move, and how often it has moved so before.
//!
//! A pair of consecutive requests is *non-sequential* if the second does not start where the first
//! ends. It is *partially deterministic* (section 2.3 of the BORG paper) if the same pair of start
//! sectors occurs at least twice in the trace. What one process does is hidden where several take
//! turns, and what several do alike is not one process's doing: hence both measures, by time over all
//! processes, and with the predecessor of the same process. The pairs themselves count across
//! processes: a program that is started again is another process.

use rustc_hash::FxHashMap;
use seekless_core::{Extent, ProcessId, Record};

use super::percent;

type Pair = (u64, u64);

/// Follows the requests of a trace.
#[derive(Default)]
pub struct Sequences {
    previous: Option<Extent>,
    previous_of: FxHashMap<ProcessId, Extent>,
    requests: u64,
    pairs: Vec<Pair>,
    pairs_per_process: Vec<Pair>,
}

impl Sequences {
    /// The next request.
    pub fn follow(&mut self, record: &Record) {
        self.requests += 1;
        let here = record.extent;
        let before = self.previous.replace(here);
        self.pairs.extend(nonsequential(before, here));
        let before = self.previous_of.insert(record.origin.process, here);
        self.pairs_per_process.extend(nonsequential(before, here));
    }

    /// How many processes there are.
    pub fn processes(&self) -> u64 {
        self.previous_of.len() as u64
    }

    /// Of all pairs, the non-sequential ones.
    pub fn nonsequential_pct(&self) -> f64 {
        percent(self.pairs.len() as u64, self.requests.saturating_sub(1))
    }

    /// Of the non-sequential pairs, those that are repeated: over all processes, and per process.
    pub fn partial_determinism_pct(self) -> (f64, f64) {
        (repeated_pct(self.pairs), repeated_pct(self.pairs_per_process))
    }
}

fn nonsequential(before: Option<Extent>, here: Extent) -> Option<Pair> {
    before.filter(|before| before.end() != here.start).map(|before| (before.start.0, here.start.0))
}

fn repeated_pct(mut pairs: Vec<Pair>) -> f64 {
    pairs.sort_unstable();
    let repeated: usize = pairs.chunk_by(|a, b| a == b).map(<[Pair]>::len).filter(|&times| times > 1).sum();
    percent(repeated as u64, pairs.len() as u64)
}
