//! A sample of a trace that is too large for memory: everything about a key (a page, a pair of addresses) or nothing of
//! it, by its hash; the sampling rate halves whenever memory is full.
//!
//! This is spatial sampling as in SHARDS (Waldspurger et al., FAST 2015): a sampled key has all its accesses, so its
//! counts are exact, and the sampled keys stand for `2^halvings` times as many.
//!
//! Invariant: the keys in the table are exactly those seen whose hash is low enough. Without halving, everything is
//! exact.

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
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
    /// The sampled keys.
    pub table: FxHashMap<u64, V>,
    most: usize,
    halvings: u32,
}

/// The precision of counts by key.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Sampling {
    /// Sampling rate, 1 down to 0; 1: everything is exact.
    pub kept: f64,
    /// Number of sampled keys.
    pub keys: u64,
    /// Error of a count of keys in per cent, at 95 % confidence.
    pub error_pct: f64,
    /// Error of shares of accesses, or of occurrences, in percentage points at 95 % confidence: of the top 20 % of
    /// pages, and of partial determinism.
    pub share_error_pct: f64,
}

impl<V> Sample<V> {
    /// A table of at most `memory` bytes, also while it grows.
    pub fn new(memory: u64) -> Sample<V> {
        // A table holds 7/8 of a power of two, with a byte more for each; it grows by half of itself.
        let entry = size_of::<(u64, V)>() as u64 + 1;
        let largest = (memory * 2 / 3 / entry).max(16).checked_ilog2().unwrap_or(4);
        Sample { table: FxHashMap::default(), most: (1 << largest) / 8 * 7, halvings: 0 }
    }

    /// As `new`, of a fixed sampling rate: `1 / 2^halvings`.
    pub fn fixed(memory: u64, halvings: u32) -> Sample<V> {
        Sample { halvings, ..Sample::new(memory) }
    }

    /// Whether a key with this hash is sampled.
    pub fn keeps(&self, hash: u64) -> bool {
        hash <= u64::MAX >> self.halvings
    }

    /// Whether the table is full.
    pub fn is_full(&self) -> bool {
        self.table.len() >= self.most
    }

    /// Drops half of the keys, and calls `dropped` for each.
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

    /// Bytes of the table.
    pub fn bytes(&self) -> u64 {
        // The capacity is 7/8 of a power of two, but for the smallest tables.
        let places =
            if self.table.capacity() == 0 { 0 } else { (self.table.capacity() * 8 / 7).next_power_of_two() };
        places as u64 * (size_of::<(u64, V)>() as u64 + 1)
    }

    /// How many keys each sampled one stands for, as a power of two.
    pub fn halvings(&self) -> u32 {
        self.halvings
    }

    /// Scales a count of sampled keys to all keys.
    pub fn scaled(&self, kept: u64) -> u64 {
        kept << self.halvings
    }

    /// The precision.
    pub fn sampling(&self) -> Sampling {
        Sampling::of(self.halvings, self.table.len() as u64)
    }
}

impl Sampling {
    /// The precision of `keys` keys left after `halvings`.
    pub(super) fn of(halvings: u32, keys: u64) -> Sampling {
        let kept = 1.0 / (1_u64 << halvings) as f64;
        // The sampled number of n keys is binomial: relative deviation sqrt((1 - p) / kept).
        let deviation = ((1.0 - kept) / keys.max(1) as f64).sqrt();
        Sampling { kept, keys, error_pct: 196.0 * deviation, share_error_pct: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_all() {
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
        let Sampling { kept, keys, error_pct, .. } = sample.sampling();
        assert!(dropped > 0 && kept < 0.02, "{kept}");
        let estimate = sample.scaled(keys) as f64;
        assert!(
            (estimate - 200_000.0).abs() <= 2.0 * error_pct / 100.0 * 200_000.0,
            "{estimate} within {error_pct} %"
        );
        assert!(sample.table.keys().all(|&key| sample.keeps(mix(key))));
    }
}
