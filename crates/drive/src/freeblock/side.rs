//! What is wanted of one kind, reads or writes: sets of blocks, and how much of them lies where.
//!
//! Invariants: `counts` is the sum of the sets' wanted pieces by track, each times its set's weight; a cylinder is
//! marked if one of its tracks counts more than nothing.

use slab::Slab;

use super::tracks::{Stretch, Tracks};
use super::wanted::Wanted;

/// One set: what a task wants.
#[derive(Debug)]
pub struct Set {
    /// Which pieces.
    pub wanted: Wanted,
    /// What a piece counts: its block's length in units of 8 sectors, at least 1.
    pub weight: u16,
    /// Pieces that may be taken now.
    pub room: u64,
    /// Pieces that are wanted.
    pub left: u64,
}

/// The sets of a kind.
#[derive(Debug, Default)]
pub struct Side {
    pub sets: Slab<Set>,
    counts: Vec<u16>,
    cylinders: Vec<u64>,
    /// The largest weight of a set so far.
    heaviest: u16,
}

impl Side {
    /// A set with nothing in it; its number.
    pub fn add_set(&mut self, tracks: &Tracks, block: u64, sectors: u64) -> usize {
        if self.counts.is_empty() {
            self.counts = vec![0; tracks.len()];
            self.cylinders = vec![0; (tracks.cylinders() as usize).div_ceil(64) + 1];
        }
        let weight = u16::try_from(block / 8).unwrap_or(u16::MAX).max(1);
        self.heaviest = self.heaviest.max(weight);
        let wanted = Wanted::new(block, sectors, tracks.stretches());
        self.sets.insert(Set { wanted, weight, room: u64::MAX, left: 0 })
    }

    /// Whether nothing is wanted, or may be taken.
    pub fn is_empty(&self) -> bool {
        self.sets.iter().all(|(_, set)| set.left == 0 || set.room == 0)
    }

    /// What counts on a track.
    pub fn count(&self, track: usize) -> u16 {
        self.counts[track]
    }

    /// By track.
    pub fn counts(&self) -> &[u16] {
        &self.counts
    }

    /// The most that can count for so many sectors.
    pub fn most_in(&self, sectors: u64, tracks: &Tracks) -> usize {
        let ends = u64::from(self.heaviest) * (1 + tracks.most_stretches());
        (sectors / 8 * self.sets.len().max(1) as u64 + ends) as usize
    }

    /// A piece is wanted; false if it was.
    pub fn want(&mut self, tracks: &Tracks, set: usize, track: usize, bit: usize) -> bool {
        let set = &mut self.sets[set];
        if !set.wanted.set(bit) {
            return false;
        }
        set.left += 1;
        self.counts[track] += set.weight;
        let cylinder = track / tracks.heads() as usize;
        self.cylinders[cylinder / 64] |= 1 << (cylinder % 64);
        true
    }

    /// A piece is not wanted any more; false if it was not.
    pub fn unwant(&mut self, tracks: &Tracks, set: usize, track: usize, bit: usize) -> bool {
        let set = &mut self.sets[set];
        if !set.wanted.clear(bit) {
            return false;
        }
        set.left -= 1;
        self.counts[track] -= set.weight;
        if self.counts[track] == 0 {
            let heads = tracks.heads() as usize;
            let cylinder = track / heads;
            if self.counts[cylinder * heads..(cylinder + 1) * heads].iter().all(|&count| count == 0) {
                self.cylinders[cylinder / 64] &= !(1 << (cylinder % 64));
            }
        }
        true
    }

    /// What counts of a stretch's ranges.
    pub fn counting(&self, stretch: &Stretch, ranges: [(u32, u32); 2]) -> usize {
        let mut sum = 0;
        for (_, set) in self.sets.iter().filter(|(_, set)| set.room > 0) {
            let count: u32 = ranges.iter().map(|&range| set.wanted.count(set.wanted.pieces(stretch, range))).sum();
            sum += count as usize * usize::from(set.weight);
        }
        sum
    }

    /// The next cylinder from `from` on, below `end`, with something wanted.
    pub fn up(&self, from: u32, end: u32) -> Option<u32> {
        if from >= end || self.cylinders.is_empty() {
            return None;
        }
        let mut word = from as usize / 64;
        let mut bits = self.cylinders[word] & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            if word * 64 >= end as usize {
                return None;
            }
            bits = self.cylinders[word];
        }
        let found = word as u32 * 64 + bits.trailing_zeros();
        (found < end).then_some(found)
    }

    /// The next cylinder from `from` downward, not below `end`, with something wanted.
    pub fn down(&self, from: u32, end: u32) -> Option<u32> {
        if from < end || self.cylinders.is_empty() {
            return None;
        }
        let mut word = from as usize / 64;
        let mut bits = self.cylinders[word] & (u64::MAX >> (63 - from % 64));
        while bits == 0 {
            if word * 64 <= end as usize {
                return None;
            }
            word -= 1;
            bits = self.cylinders[word];
        }
        let found = word as u32 * 64 + 63 - bits.leading_zeros();
        (found >= end).then_some(found)
    }
}
