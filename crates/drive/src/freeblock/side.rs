//! What is wanted of one kind, reads or writes: sets of blocks, and how much of them lies where.
//!
//! Invariants: `counts` is the sum of the sets' wanted pieces by track, each times its set's weight; `fullest` is
//! the largest of a cylinder's tracks, `fullest_of` the largest of a group of cylinders.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use slab::Slab;

use super::tracks::{Stretch, Tracks};
use super::wanted::Wanted;

/// More than ever are wanted.
pub const NO_LIMIT: u64 = u64::MAX / 2;

/// The most that a piece counts. So what counts on a track fits: the pieces of a set count no more there than its
/// sectors by 8, and two of the heaviest; and there are a few dozen sets at most.
const HEAVIEST: u64 = 64;

/// Cylinders of a group.
const GROUP: usize = 32;

/// One set: what a task wants.
#[derive(Debug)]
pub struct Set {
    /// Which pieces: those of units, of which so many make a block.
    pub wanted: Wanted,
    units: u64,
    /// What a piece counts: the length of a unit, by 8 sectors, 1 to `HEAVIEST`.
    pub weight: u16,
    /// Pieces that may be taken now.
    pub room: u64,
    /// Blocks of which a part was taken and a part was not, with the sectors that were not; and how many of them
    /// there may be. Kept only where they are bounded.
    pub begun: BTreeMap<u64, u64>,
    most_begun: Option<usize>,
    /// Pieces that are wanted.
    pub left: u64,
}

impl Set {
    /// So many pieces may be taken. Blocks that wait for their rest may not take all of it, or no rest could come.
    pub fn bound(&mut self, room: u64) {
        self.room = room;
        self.most_begun = Some(room as usize / 2);
    }

    /// So many sectors of a block are taken; false if it would wait for its rest and may not.
    fn begin(&mut self, block: u64, sectors: u64) -> bool {
        let whole = self.wanted.unit() * self.units;
        let Some(most) = self.most_begun.filter(|_| sectors < whole) else { return true };
        let full = self.begun.len() >= most;
        match self.begun.entry(block) {
            Entry::Occupied(left) if *left.get() == sectors => {
                left.remove();
            }
            Entry::Occupied(mut left) => *left.get_mut() -= sectors,
            Entry::Vacant(_) if full => return false,
            Entry::Vacant(entry) => {
                entry.insert(whole - sectors);
            }
        }
        true
    }

    /// So many sectors of a block were not taken after all.
    fn unbegin(&mut self, block: u64, sectors: u64) {
        let whole = self.wanted.unit() * self.units;
        if self.most_begun.is_none() || sectors == whole {
            return;
        }
        let left = self.begun.entry(block).or_default();
        *left += sectors;
        if *left == whole {
            self.begun.remove(&block);
        }
    }

    /// How many of these are wanted and would begin a block that may not be begun.
    fn not_now(&self, stretch: &Stretch, (from, to): (usize, usize)) -> u32 {
        if from >= to || self.most_begun.is_none_or(|most| self.begun.len() < most) {
            return 0;
        }
        let begins = |&bit: &usize| {
            let (first, end) = self.wanted.part(stretch, stretch.unit_at(bit));
            self.wanted.is_set(bit)
                && (self.units > 1 || u64::from(end - first) < self.wanted.unit())
                && !self.begun.contains_key(&self.block_at(stretch, bit))
        };
        // Only at the ends of a stretch there are parts of units.
        let within = if self.units > 1 { from + 1..to - 1 } else { 0..0 };
        let ends = [from, to - 1].into_iter().take(to - from);
        within.chain(ends).filter(begins).count() as u32
    }

    /// The block of a piece.
    pub fn block_at(&self, stretch: &Stretch, bit: usize) -> u64 {
        stretch.unit_at(bit) / self.units
    }
}

/// A piece of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Of which set.
    pub set: usize,
    /// Of which block.
    pub block: u64,
    /// Which of the set's pieces.
    pub bit: usize,
}

/// The sets of a kind.
#[derive(Debug, Default)]
pub struct Side {
    pub sets: Slab<Set>,
    counts: Vec<u16>,
    /// By cylinder: the most that counts on one of its tracks.
    fullest: Vec<u16>,
    /// The same by groups of `GROUP` cylinders: what a search skips as one.
    fullest_of: Vec<u16>,
    /// The largest weight of a set so far, and the fewest sectors that count one.
    heaviest: u16,
    lightest: u64,
}

impl Side {
    /// A set with nothing in it, of blocks of so many units of so many sectors; its number.
    pub fn add_set(&mut self, tracks: &Tracks, (unit, units): (u64, u64), sectors: u64) -> usize {
        if self.counts.is_empty() {
            self.counts = vec![0; tracks.len()];
            self.fullest = vec![0; tracks.cylinders() as usize];
            self.fullest_of = vec![0; self.fullest.len().div_ceil(GROUP)];
        }
        let weight = (unit / 8).clamp(1, HEAVIEST) as u16;
        self.heaviest = self.heaviest.max(weight);
        self.lightest = (unit / u64::from(weight)).min(if self.lightest == 0 { 8 } else { self.lightest });
        let wanted = Wanted::new(unit, sectors, tracks.stretches());
        self.sets.insert(Set {
            wanted,
            units,
            weight,
            room: NO_LIMIT,
            begun: BTreeMap::new(),
            most_begun: None,
            left: 0,
        })
    }

    /// Whether nothing is wanted, or may be taken.
    pub fn is_empty(&self) -> bool {
        self.sets.iter().all(|(_, set)| set.left == 0 || set.room == 0)
    }

    /// How much memory the counts take, in bits.
    #[cfg(test)]
    pub fn memory_bits(&self) -> u64 {
        (self.counts.len() + self.fullest.len() + self.fullest_of.len()) as u64 * 16
    }

    /// What counts on a track.
    pub fn count(&self, track: usize) -> u16 {
        self.counts[track]
    }

    /// By track.
    pub fn counts(&self) -> &[u16] {
        &self.counts
    }

    /// So many sectors pass at least while so much that counts does, on a track of so many stretches.
    pub fn least_for(&self, count: usize, stretches: u64) -> u64 {
        // At both ends of a stretch there may be parts of blocks, which count as whole ones.
        let (sets, ends) = (self.sets.len().max(1) as u64, 2 * u64::from(self.heaviest) * stretches);
        (count as u64).saturating_sub(ends * sets) * self.lightest / sets
    }

    /// Pieces of a track are wanted.
    pub fn want(&mut self, tracks: &Tracks, set: usize, track: usize, pieces: (usize, usize)) {
        let set = &mut self.sets[set];
        let new = set.wanted.set_all(pieces);
        set.left += u64::from(new);
        self.counts[track] += set.weight * new as u16;
        let cylinder = track / tracks.heads() as usize;
        let (fullest, of) = (&mut self.fullest[cylinder], &mut self.fullest_of[cylinder / GROUP]);
        *fullest = (*fullest).max(self.counts[track]);
        *of = (*of).max(*fullest);
    }

    /// A piece is not wanted any more; false if it was not.
    pub fn unwant(&mut self, tracks: &Tracks, set: usize, track: usize, bit: usize) -> bool {
        let set = &mut self.sets[set];
        if !set.wanted.clear(bit) {
            return false;
        }
        set.left -= 1;
        let before = self.counts[track];
        self.counts[track] -= set.weight;
        let heads = tracks.heads() as usize;
        let cylinder = track / heads;
        if before == self.fullest[cylinder] {
            self.fullest[cylinder] = most(&self.counts[cylinder * heads..(cylinder + 1) * heads]);
            let group = cylinder / GROUP;
            if before == self.fullest_of[group] {
                let end = ((group + 1) * GROUP).min(self.fullest.len());
                self.fullest_of[group] = most(&self.fullest[group * GROUP..end]);
            }
        }
        true
    }

    /// Takes the wanted pieces that lie wholly in a range of a stretch's sectors, as far as there is room: `each`
    /// gets them with the range of their own sectors.
    pub fn take(
        &mut self,
        tracks: &Tracks,
        track: usize,
        stretch: &Stretch,
        range: (u32, u32),
        mut each: impl FnMut(Taken, (u32, u32)),
    ) {
        let mut number = 0;
        while let Some((set, _)) = self.sets.iter().find(|&(set, _)| set >= number) {
            number = set + 1;
            let (mut from, to) = self.sets[set].wanted.pieces(stretch, range);
            while let Some(bit) = self.sets[set].wanted.next((from, to)).filter(|_| self.sets[set].room > 0) {
                from = bit + 1;
                let block = self.sets[set].block_at(stretch, bit);
                let part = self.sets[set].wanted.part(stretch, stretch.unit_at(bit));
                if !self.sets[set].begin(block, u64::from(part.1 - part.0)) {
                    continue;
                }
                self.sets[set].room -= 1;
                self.unwant(tracks, set, track, bit);
                each(Taken { set, block, bit }, part);
            }
        }
    }

    /// A piece was not taken after all.
    pub fn give_back(&mut self, taken: Taken, sectors: u64) {
        let set = &mut self.sets[taken.set];
        set.room += 1;
        set.unbegin(taken.block, sectors);
    }

    /// What counts of a stretch's ranges.
    pub fn counting(&self, stretch: &Stretch, ranges: [(u32, u32); 2]) -> usize {
        let mut sum = 0;
        for (_, set) in self.sets.iter().filter(|(_, set)| set.room > 0) {
            let count: u32 = ranges
                .iter()
                .map(|&range| {
                    let pieces = set.wanted.pieces(stretch, range);
                    set.wanted.count(pieces) - set.not_now(stretch, pieces)
                })
                .sum();
            sum += count as usize * usize::from(set.weight);
        }
        sum
    }

    /// The next cylinder from `from` on, below `end`, that has a track on which at least so much counts.
    pub fn up(&self, from: u32, end: u32, least: u16) -> Option<u32> {
        let (mut at, end) = (from as usize, (end as usize).min(self.fullest.len()));
        while at < end {
            let group = at / GROUP;
            let behind = ((group + 1) * GROUP).min(end);
            if self.fullest_of[group] >= least {
                if let Some(found) = self.fullest[at..behind].iter().position(|&count| count >= least) {
                    return Some((at + found) as u32);
                }
            }
            at = behind;
        }
        None
    }

    /// The same from `from` downward, not below `end`.
    pub fn down(&self, from: u32, end: u32, least: u16) -> Option<u32> {
        let (mut behind, end) = ((from as usize + 1).min(self.fullest.len()), end as usize);
        while behind > end {
            let group = (behind - 1) / GROUP;
            let first = (group * GROUP).max(end);
            if self.fullest_of[group] >= least {
                if let Some(found) = self.fullest[first..behind].iter().rposition(|&count| count >= least) {
                    return Some((first + found) as u32);
                }
            }
            behind = first;
        }
        None
    }
}

fn most(counts: &[u16]) -> u16 {
    counts.iter().copied().max().unwrap_or(0)
}
