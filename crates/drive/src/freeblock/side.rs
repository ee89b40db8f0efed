//! What is wanted of one kind, reads or writes: sets of blocks, and how much of them lies where.
//!
//! Invariants: `counts` is the sum of the sets' wanted pieces by track, each times its set's weight; `fullest` is
//! the largest of a cylinder's tracks, `fullest_of` the largest of a group of cylinders.

use slab::Slab;

use super::begun::Begun;
use super::tracks::{Stretch, Tracks};
use super::wanted::Wanted;

/// More than ever are wanted.
pub const NO_LIMIT: i64 = i64::MAX / 2;

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
    /// Sectors that may be taken now; below zero if more was than there is room for.
    room: i64,
    /// Blocks of which a part was taken and a part was not.
    pub begun: Begun,
    /// Pieces that are wanted.
    pub left: u64,
}

impl Set {
    /// So many sectors may be taken: three blocks at least.
    pub fn bound(&mut self, room: u64) {
        let room = room.clamp(3 * self.units * self.wanted.unit(), NO_LIMIT.unsigned_abs());
        self.room = 0_i64.saturating_add_unsigned(room);
        self.begun.bound(room);
    }

    /// Whether there is no room for more.
    pub fn full(&self) -> bool {
        self.room < 0 || self.room.unsigned_abs() < self.wanted.unit()
    }

    /// There is room for so many sectors more, or less.
    pub fn give_room(&mut self, sectors: u64) {
        self.room = self.room.saturating_add_unsigned(sectors);
    }

    /// See [`Set::give_room`].
    pub fn take_room(&mut self, sectors: u64) {
        self.room = self.room.saturating_sub_unsigned(sectors);
    }

    /// What the wanted ones of these count, in pieces.
    fn counting(&self, stretch: &Stretch, (from, to): (usize, usize)) -> u32 {
        let count = self.wanted.count((from, to));
        if count == 0 || !self.begun.short() {
            return count;
        }
        if self.units > 1 {
            return (from..to).map(|bit| self.counts(stretch, bit)).sum();
        }
        // Only at the ends of a stretch there are parts of blocks.
        let ends = [from, to - 1].into_iter().take(to - from);
        ends.fold(count, |count, bit| count + self.counts(stretch, bit) - u32::from(self.wanted.is_set(bit)))
    }

    /// What a piece counts while buffers run short.
    pub fn counts(&self, stretch: &Stretch, bit: usize) -> u32 {
        if !self.wanted.is_set(bit) {
            return 0;
        }
        let (first, end) = self.wanted.part(stretch, stretch.unit_at(bit));
        let sectors = u64::from(end - first);
        if sectors == self.wanted.unit() && self.units == 1 {
            return 1;
        }
        // The pieces of a block follow each other.
        let beside = if first == 0 { bit.checked_sub(1) } else { Some(bit + 1) };
        let wanted = beside.is_some_and(|beside| self.wanted.is_set(beside));
        self.begun.counts(self.block_at(stretch, bit), sectors, wanted)
    }

    /// The block that begins at the end of a stretch and ends on the next one, if all of it is wanted and it may be
    /// taken in one go.
    fn across(&self, set: usize, stretch: &Stretch) -> Option<Across> {
        let bit = self.wanted.pieces(stretch, (0, stretch.sectors)).1.checked_sub(1)?;
        let block = stretch.unit_at(bit);
        let (first, end) = self.wanted.part(stretch, block);
        let sectors = u64::from(end - first);
        let begins = first > 0 && self.units == 1 && sectors < self.wanted.unit();
        let all = begins && self.wanted.is_set(bit) && self.wanted.is_set(bit + 1);
        let rest = (self.wanted.unit() - sectors) as u32;
        (all && self.begun.may_take(block, sectors, true)).then_some(Across { set, block, first, rest })
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

/// A block of which one part lies at the end of a stretch and the other at the beginning of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Across {
    /// Of which set.
    pub set: usize,
    /// Which.
    pub block: u64,
    /// Where it begins on its first stretch, and how many sectors it has on the second one.
    pub first: u32,
    pub rest: u32,
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
            begun: Begun::new(unit, units),
            left: 0,
        })
    }

    /// Whether nothing is wanted, or may be taken.
    pub fn is_empty(&self) -> bool {
        self.sets.iter().all(|(_, set)| set.left == 0 || set.full())
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
    /// gets them with the range of their own sectors. Of the one `across` the end of the stretch both parts are taken
    /// one after the other.
    pub fn take(
        &mut self,
        tracks: &Tracks,
        track: usize,
        stretch: &Stretch,
        range: (u32, u32),
        across: Option<Across>,
        mut each: impl FnMut(Taken, (u32, u32)),
    ) {
        let mut number = 0;
        while let Some((set, _)) = self.sets.iter().find(|&(set, _)| set >= number) {
            number = set + 1;
            let (mut from, to) = self.sets[set].wanted.pieces(stretch, range);
            while let Some(bit) = self.sets[set].wanted.next((from, to)).filter(|_| !self.sets[set].full()) {
                from = bit + 1;
                let block = self.sets[set].block_at(stretch, bit);
                let part = self.sets[set].wanted.part(stretch, stretch.unit_at(bit));
                let sectors = u64::from(part.1 - part.0);
                let both = across.is_some_and(|across| (across.set, across.block) == (set, block));
                if !self.sets[set].begun.may_take(block, sectors, both) {
                    continue;
                }
                self.sets[set].begun.take(block, sectors);
                self.sets[set].take_room(sectors);
                self.unwant(tracks, set, track, bit);
                each(Taken { set, block, bit }, part);
            }
        }
    }

    /// Whether buffers run short.
    pub fn short(&self) -> bool {
        self.sets.iter().any(|(_, set)| set.begun.short())
    }

    /// Blocks that lie across the end of a stretch, of sets whose buffers run short.
    pub fn across(&self, stretch: &Stretch) -> impl Iterator<Item = Across> {
        let short = self.sets.iter().filter(|(_, set)| set.begun.short() && !set.full());
        short.filter_map(|(number, set)| set.across(number, stretch))
    }

    /// By how much more the pieces of a track may count of which so many are rests.
    pub fn most_more(&self, rests: usize) -> usize {
        let more = |set: &Set| set.begun.most_more() as usize * usize::from(set.weight);
        rests * self.sets.iter().map(|(_, set)| more(set)).sum::<usize>()
    }

    /// How much more taking both parts of one in one go counts than its second part alone does.
    pub fn more_for_both(&self, across: Across, second: &Stretch) -> usize {
        let set = &self.sets[across.set];
        let alone = set.counting(second, set.wanted.pieces(second, (0, across.rest)));
        (Begun::counts_both() - alone) as usize * usize::from(set.weight)
    }

    /// A piece was not taken after all.
    pub fn give_back(&mut self, taken: Taken, sectors: u64) {
        let set = &mut self.sets[taken.set];
        set.give_room(sectors);
        set.begun.give_back(taken.block, sectors);
    }

    /// What counts of a stretch's ranges.
    pub fn counting(&self, stretch: &Stretch, ranges: [(u32, u32); 2]) -> usize {
        let mut sum = 0;
        for (_, set) in self.sets.iter().filter(|(_, set)| !set.full()) {
            let count: u32 =
                ranges.iter().map(|&range| set.counting(stretch, set.wanted.pieces(stretch, range))).sum();
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
