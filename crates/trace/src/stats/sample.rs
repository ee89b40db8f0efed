//! What is kept of a trace that is too large to keep: all that concerns a key (a page, a pair of addresses)
//! or nothing of it, as its hash says; the share that is kept halves whenever memory is full.
//!
//! This is spatial sampling as in SHARDS (Waldspurger et al., FAST 2015): a key that is kept has all its
//! accesses, so that its counts are exact, and the kept ones stand for `2^halvings` times as many.
//!
//! Invariant: the keys in the table are exactly those, of all that were seen, whose hash is low enough.
//! While nothing was halved, everything is exact.

use rustc_hash::FxHashMap;
use serde::Serialize;

/// A hash whose every bit depends on every bit of `key`.
pub fn mix(key: u64) -> u64 {
    // The finalizer of SplitMix64.
    let key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

/// A table of values by key, of bounded size.
pub struct Sample<V> {
    /// The keys that are kept.
    pub table: FxHashMap<u64, V>,
    most: usize,
    halvings: u32,
}

/// How exact what was counted by keys is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sampling {
    /// The share of keys that was kept, 1 down to 0; 1: everything is exact.
    pub kept: f64,
    /// How many keys were kept.
    pub keys: u64,
    /// A count of keys is within this many per cent of the true one, in 95 of 100 traces.
    pub error_pct: f64,
}

impl<V> Sample<V> {
    /// A table of at most `memory` bytes, also while it grows.
    pub fn new(memory: u64) -> Sample<V> {
        // A table holds 7/8 of a power of two, with a byte more for each; it grows by half of itself.
        let entry = size_of::<(u64, V)>() as u64 + 1;
        let largest = (memory * 2 / 3 / entry).max(16).checked_ilog2().unwrap_or(4);
        Sample { table: FxHashMap::default(), most: (1 << largest) / 8 * 7, halvings: 0 }
    }

    /// Whether a key with this hash is kept.
    pub fn keeps(&self, hash: u64) -> bool {
        hash <= u64::MAX >> self.halvings
    }

    /// Whether one more key would be too many.
    pub fn is_full(&self) -> bool {
        self.table.len() >= self.most
    }

    /// Keeps half of the keys; `dropped` is told of each of the others.
    pub fn halve(&mut self, mut dropped: impl FnMut(&V)) {
        self.halvings += 1;
        let limit = u64::MAX >> self.halvings;
        self.table.retain(|&key, value| {
            let keep = mix(key) <= limit;
            if !keep {
                dropped(value);
            }
            keep
        });
    }

    /// How many keys each kept one stands for, as a power of two.
    pub fn halvings(&self) -> u32 {
        self.halvings
    }

    /// So many kept keys stand for how many.
    pub fn scaled(&self, kept: u64) -> u64 {
        kept << self.halvings
    }

    /// How exact it is.
    pub fn sampling(&self) -> Sampling {
        Sampling::of(self.halvings, self.table.len() as u64)
    }
}

impl Sampling {
    /// Of so many keys that are left after halving.
    pub(super) fn of(halvings: u32, keys: u64) -> Sampling {
        let kept = 1.0 / (1_u64 << halvings) as f64;
        // The kept number of n keys is binomial: relative deviation sqrt((1 - p) / kept).
        let deviation = ((1.0 - kept) / keys.max(1) as f64).sqrt();
        Sampling { kept, keys, error_pct: 196.0 * deviation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_stands_for_all() {
        let mut sample: Sample<u64> = Sample::new(64 << 10);
        let mut dropped = 0;
        for key in 0..200_000 {
            if sample.is_full() {
                sample.halve(|_| dropped += 1);
            }
            if sample.keeps(mix(key)) {
                sample.table.insert(key, key);
            }
        }
        let Sampling { kept, keys, error_pct } = sample.sampling();
        assert!(dropped > 0 && kept < 0.02, "{kept}");
        let told = sample.scaled(keys) as f64;
        assert!(
            (told - 200_000.0).abs() <= 2.0 * error_pct / 100.0 * 200_000.0,
            "{told} within {error_pct} %"
        );
        assert!(sample.table.keys().all(|&key| sample.keeps(mix(key))));
    }
}
