//! Pending blocks of one direction, reads or writes: sets of blocks, and their counts by track.
//!
//! Invariants: `counts` is the sum of the sets' pending pieces by track, each times its set's weight; `fullest` is the
//! largest of a cylinder's tracks, `fullest_of` the largest of a group of cylinders.

use slab::Slab;

use super::partial::PartialBlocks;
use super::pending::PendingMap;
use super::tracks::{TrackExtent, Tracks};

/// No limit of sectors.
pub const NO_LIMIT: i64 = i64::MAX / 2;

/// The largest weight of a piece. It bounds a track's count: the pieces of a set count no more there than its sectors
/// by 8, plus two of the heaviest; and there are a few dozen sets at most.
const HEAVIEST: u64 = 64;

/// Cylinders of a group.
const GROUP: usize = 32;

/// One set: the pending blocks of a task.
#[derive(Debug)]
pub struct Set {
    /// Pending pieces of units; a block is `units` of them.
    pub pending: PendingMap,
    units: u64,
    /// Weight of a piece: the length of a unit in units of 8 sectors, 1 to `HEAVIEST`.
    pub weight: u16,
    /// Sectors that may be taken now; below zero if more were than there is room for.
    room: i64,
    /// Blocks of which only a part was taken.
    pub partial: PartialBlocks,
    /// Number of pending pieces.
    pub left: u64,
}

impl Set {
    /// Limits the set's buffers to `room` sectors: three blocks at least.
    pub fn bound(&mut self, room: u64) {
        let room = room.clamp(3 * self.units * self.pending.unit(), NO_LIMIT.unsigned_abs());
        self.room = 0_i64.saturating_add_unsigned(room);
        self.partial.bound(room);
    }

    /// Whether there is no room for more.
    pub fn full(&self) -> bool {
        self.room < 0 || self.room.unsigned_abs() < self.pending.unit()
    }

    /// Adds room for `sectors`.
    pub fn give_room(&mut self, sectors: u64) {
        self.room = self.room.saturating_add_unsigned(sectors);
    }

    /// See [`Set::give_room`].
    pub fn take_room(&mut self, sectors: u64) {
        self.room = self.room.saturating_sub_unsigned(sectors);
    }

    /// Weight of the pending ones of these pieces.
    fn counting(&self, extent: &TrackExtent, (from, to): (usize, usize)) -> u32 {
        let count = self.pending.count((from, to));
        if count == 0 || !self.partial.short() {
            return count;
        }
        if self.units > 1 {
            return (from..to).map(|bit| self.counts(extent, bit)).sum();
        }
        // Only the ends of a track extent hold parts of blocks.
        let ends = [from, to - 1].into_iter().take(to - from);
        ends.fold(count, |count, bit| count + self.counts(extent, bit) - u32::from(self.pending.is_set(bit)))
    }

    /// Weight of a piece while buffers run short.
    pub fn counts(&self, extent: &TrackExtent, bit: usize) -> u32 {
        if !self.pending.is_set(bit) {
            return 0;
        }
        let (first, end) = self.pending.part(extent, extent.unit_at(bit));
        let sectors = u64::from(end - first);
        if sectors == self.pending.unit() && self.units == 1 {
            return 1;
        }
        // The pieces of a block are adjacent.
        let adjacent = if first == 0 { bit.checked_sub(1) } else { Some(bit + 1) };
        let pending = adjacent.is_some_and(|adjacent| self.pending.is_set(adjacent));
        self.partial.counts(self.block_at(extent, bit), sectors, pending)
    }

    /// The block that begins at the end of a track extent and ends on the next one, if all of it is pending and may be
    /// taken in one go.
    fn across(&self, set: usize, extent: &TrackExtent) -> Option<Across> {
        let bit = self.pending.pieces(extent, (0, extent.sectors)).1.checked_sub(1)?;
        let block = extent.unit_at(bit);
        let (first, end) = self.pending.part(extent, block);
        let sectors = u64::from(end - first);
        let begins = first > 0 && self.units == 1 && sectors < self.pending.unit();
        let all = begins && self.pending.is_set(bit) && self.pending.is_set(bit + 1);
        let remainder = (self.pending.unit() - sectors) as u32;
        (all && self.partial.may_take(block, sectors, true)).then_some(Across {
            set,
            block,
            first,
            remainder,
        })
    }

    /// The block of a piece.
    pub fn block_at(&self, extent: &TrackExtent, bit: usize) -> u64 {
        extent.unit_at(bit) / self.units
    }
}

/// Identity of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceId {
    /// Set.
    pub set: usize,
    /// Block.
    pub block: u64,
    /// Bit in the set.
    pub bit: usize,
}

/// A block of which one part lies at the end of a track extent and the other at the beginning of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Across {
    /// Set.
    pub set: usize,
    /// Number.
    pub block: u64,
    /// Where it begins on the first track extent, and how many sectors it has on the second one.
    pub first: u32,
    pub remainder: u32,
}

/// The sets of one direction.
#[derive(Debug, Default)]
pub struct Direction {
    pub sets: Slab<Set>,
    counts: Vec<u16>,
    /// By cylinder: the highest count of its tracks.
    fullest: Vec<u16>,
    /// By group of `GROUP` cylinders: the highest count, so that a search can skip the group.
    fullest_of: Vec<u16>,
    /// The largest weight of a set so far, and the fewest sectors that count one.
    heaviest: u16,
    lightest: u64,
}

impl Direction {
    /// Adds an empty set, of blocks of `units` units of `unit` sectors; returns its number.
    pub fn add_set(&mut self, tracks: &Tracks, (unit, units): (u64, u64), sectors: u64) -> usize {
        if self.counts.is_empty() {
            self.counts = vec![0; tracks.len()];
            self.fullest = vec![0; tracks.cylinders() as usize];
            self.fullest_of = vec![0; self.fullest.len().div_ceil(GROUP)];
        }
        let weight = (unit / 8).clamp(1, HEAVIEST) as u16;
        self.heaviest = self.heaviest.max(weight);
        self.lightest = (unit / u64::from(weight)).min(if self.lightest == 0 { 8 } else { self.lightest });
        let pending = PendingMap::new(unit, sectors, tracks.extents());
        self.sets.insert(Set {
            pending,
            units,
            weight,
            room: NO_LIMIT,
            partial: PartialBlocks::new(unit, units),
            left: 0,
        })
    }

    /// Removes a set, with everything that is pending in it.
    pub fn remove_set(&mut self, tracks: &Tracks, set: usize) {
        let set = self.sets.remove(set);
        if set.left == 0 {
            return;
        }
        for track in 0..tracks.len() {
            for extent in tracks.on(track) {
                let pending = set.pending.count(set.pending.pieces(extent, (0, extent.sectors)));
                self.counts[track] -= set.weight * pending as u16;
            }
        }
        let by_cylinder = self.counts.chunks(tracks.heads() as usize).map(most);
        self.fullest.iter_mut().zip(by_cylinder).for_each(|(fullest, now)| *fullest = now);
        let by_group = self.fullest.chunks(GROUP).map(most);
        self.fullest_of.iter_mut().zip(by_group).for_each(|(fullest, now)| *fullest = now);
    }

    /// Whether nothing is pending, or nothing may be taken.
    pub fn is_empty(&self) -> bool {
        self.sets.iter().all(|(_, set)| set.left == 0 || set.full())
    }

    /// Memory of the counts, in bits.
    #[cfg(test)]
    pub fn memory_bits(&self) -> u64 {
        (self.counts.len() + self.fullest.len() + self.fullest_of.len()) as u64 * 16
    }

    /// Count of a track.
    pub fn count(&self, track: usize) -> u16 {
        self.counts[track]
    }

    /// Counts by track.
    pub fn counts(&self) -> &[u16] {
        &self.counts
    }

    /// The fewest sectors that pass while pieces of this count do, on a track of `extents` track extents.
    pub fn least_for(&self, count: usize, extents: u64) -> u64 {
        // At both ends of a track extent there may be parts of blocks, which count as whole ones.
        let (sets, ends) = (self.sets.len().max(1) as u64, 2 * u64::from(self.heaviest) * extents);
        (count as u64).saturating_sub(ends * sets) * self.lightest / sets
    }

    /// Makes pieces of a track pending.
    pub fn add_pending(&mut self, tracks: &Tracks, set: usize, track: usize, pieces: (usize, usize)) {
        let set = &mut self.sets[set];
        let new = set.pending.set_all(pieces);
        set.left += u64::from(new);
        self.counts[track] += set.weight * new as u16;
        let cylinder = track / tracks.heads() as usize;
        let (fullest, of) = (&mut self.fullest[cylinder], &mut self.fullest_of[cylinder / GROUP]);
        *fullest = (*fullest).max(self.counts[track]);
        *of = (*of).max(*fullest);
    }

    /// Makes a piece not pending; false if it was not.
    pub fn remove_pending(&mut self, tracks: &Tracks, set: usize, track: usize, bit: usize) -> bool {
        let set = &mut self.sets[set];
        if !set.pending.clear(bit) {
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

    /// Takes the pending pieces that lie wholly in a range of a track extent's sectors, as far as there is room: `each`
    /// gets them with the range of their own sectors. Of the block `across` the end of the track extent both parts are
    /// taken one after the other.
    pub fn take(
        &mut self,
        tracks: &Tracks,
        track: usize,
        extent: &TrackExtent,
        range: (u32, u32),
        across: Option<Across>,
        mut each: impl FnMut(PieceId, (u32, u32)),
    ) {
        let mut number = 0;
        while let Some((set, _)) = self.sets.iter().find(|&(set, _)| set >= number) {
            number = set + 1;
            let (mut from, to) = self.sets[set].pending.pieces(extent, range);
            while let Some(bit) = self.sets[set].pending.next((from, to)).filter(|_| !self.sets[set].full()) {
                from = bit + 1;
                let block = self.sets[set].block_at(extent, bit);
                let part = self.sets[set].pending.part(extent, extent.unit_at(bit));
                let sectors = u64::from(part.1 - part.0);
                let both = across.is_some_and(|across| (across.set, across.block) == (set, block));
                if !self.sets[set].partial.may_take(block, sectors, both) {
                    continue;
                }
                self.sets[set].partial.take(block, sectors);
                self.sets[set].take_room(sectors);
                self.remove_pending(tracks, set, track, bit);
                each(PieceId { set, block, bit }, part);
            }
        }
    }

    /// Whether buffers run short.
    pub fn short(&self) -> bool {
        self.sets.iter().any(|(_, set)| set.partial.short())
    }

    /// Blocks that lie across the end of a track extent, of sets whose buffers run short.
    pub fn across(&self, extent: &TrackExtent) -> impl Iterator<Item = Across> {
        let short = self.sets.iter().filter(|(_, set)| set.partial.short() && !set.full());
        short.filter_map(|(number, set)| set.across(number, extent))
    }

    /// The largest extra weight of a track's pieces, of which `remainders` are remainders.
    pub fn most_extra(&self, remainders: usize) -> usize {
        let more = |set: &Set| set.partial.most_extra() as usize * usize::from(set.weight);
        remainders * self.sets.iter().map(|(_, set)| more(set)).sum::<usize>()
    }

    /// Extra weight of taking both parts of a block in one go, compared with its second part alone.
    pub fn extra_for_both(&self, across: Across, second: &TrackExtent) -> usize {
        let set = &self.sets[across.set];
        let alone = set.counting(second, set.pending.pieces(second, (0, across.remainder)));
        (PartialBlocks::weight_of_both() - alone) as usize * usize::from(set.weight)
    }

    /// Undoes taking a piece.
    pub fn give_back(&mut self, taken: PieceId, sectors: u64) {
        let set = &mut self.sets[taken.set];
        set.give_room(sectors);
        set.partial.give_back(taken.block, sectors);
    }

    /// Weight of the pending pieces in ranges of a track extent.
    pub fn counting(&self, extent: &TrackExtent, ranges: [(u32, u32); 2]) -> usize {
        let mut sum = 0;
        for (_, set) in self.sets.iter().filter(|(_, set)| !set.full()) {
            let count: u32 =
                ranges.iter().map(|&range| set.counting(extent, set.pending.pieces(extent, range))).sum();
            sum += count as usize * usize::from(set.weight);
        }
        sum
    }

    /// The next cylinder from `from` on, below `end`, with a track whose count is at least `least`.
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

    /// As `up`, from `from` downward, not below `end`.
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
