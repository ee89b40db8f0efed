//! Blocks that lie across the ends of tracks, of which a part was taken and a part was not: what waits for its
//! rest takes up buffers meanwhile.
//!
//! On a disk of many tracks these are more than buffers hold. Once they run short, a block of two parts is begun by the
//! shorter one only, its rest counts for more than other blocks do, and so do both of its parts in one go. Invariant:
//! what begun blocks hold leaves room for a whole one, so that one can always come to its end. A block whose last part
//! was taken counts until it is delivered, since that may be given back.

use std::collections::BTreeMap;

/// What the rest of a begun block counts beside itself, in blocks, once buffers run short; and what both parts of a
/// new one do. A whole scan was quickest with these, of 1 to 30.
const REST: u32 = 7;
const BOTH: u32 = 4;

/// The begun blocks of a set.
#[derive(Debug, Default)]
pub struct Begun {
    /// How many sectors of each were not taken.
    left: BTreeMap<u64, u64>,
    /// Sectors of a block, and whether it is longer than tracks, so that it is wanted in many parts.
    whole: u64,
    long: bool,
    /// What they hold, and what all buffers have room for, in sectors; `None`: nobody counts.
    held: u64,
    room: Option<u64>,
}

impl Begun {
    /// None, of blocks of so many units of so many sectors.
    pub fn new(unit: u64, units: u64) -> Begun {
        Begun { whole: unit * units, long: units > 1, ..Begun::default() }
    }

    /// Buffers have room for so many sectors: three blocks at least.
    pub fn bound(&mut self, room: u64) {
        self.room = Some(room);
    }

    /// What they may hold; a block of which both parts are to be had in one go may be begun when others may not.
    fn most(&self, both: bool) -> Option<u64> {
        // One block is what the first one may hold beyond, and one has room still.
        let spare = 2 * self.whole;
        self.room.map(|room| room - if both { spare } else { spare.max(room / 20) })
    }

    /// What a block holds of which so much is left. A long one may come to hold all of it before it ends.
    fn holds(&self, left: u64) -> u64 {
        if self.long { self.whole } else { self.whole - left }
    }

    /// Whether buffers run short.
    pub fn short(&self) -> bool {
        self.most(false).is_some_and(|most| self.held > most / 10 * 9 || self.held + self.whole > most)
    }

    /// Whether so many sectors of a block may be taken; of a new one `both` parts, one after the other.
    pub fn may_take(&self, block: u64, sectors: u64, both: bool) -> bool {
        let Some(most) = self.most(both).filter(|_| sectors < self.whole) else { return true };
        match self.left.get(&block) {
            // The first one may always go on: with nothing but begun ones of several parts none would end.
            Some(&left) => {
                let first = self.left.first_key_value().is_some_and(|(&first, _)| first == block);
                self.long || left == sectors || self.held + sectors <= most || first
            }
            None => self.may_begin(sectors, both, most),
        }
    }

    fn may_begin(&self, sectors: u64, both: bool, most: u64) -> bool {
        let brief = both || self.long || 2 * sectors <= self.whole || !self.short();
        brief && self.held + self.holds(self.whole - sectors) <= most
    }

    /// What taking so many sectors of a block counts, in blocks; the part beside it may be `wanted` too, and then the
    /// block is new, unless it is one of more than two parts.
    pub fn counts(&self, block: u64, sectors: u64, wanted: bool) -> u32 {
        if wanted && !self.long {
            return self.most(false).map_or(1, |most| u32::from(self.may_begin(sectors, false, most)));
        }
        if !self.may_take(block, sectors, false) {
            return 0;
        }
        let rest = self.short() && self.left.get(&block) == Some(&sectors);
        1 + if rest { REST } else { 0 }
    }

    /// By how much more one may count than a block.
    pub fn most_more(&self) -> u32 {
        if self.short() { REST } else { 0 }
    }

    /// What taking both parts of a new one in one go counts.
    pub fn counts_both() -> u32 {
        1 + BOTH
    }

    /// So many sectors of a block are taken.
    pub fn take(&mut self, block: u64, sectors: u64) {
        if sectors < self.whole {
            let left = self.left.get(&block).copied().unwrap_or(self.whole);
            self.leave(block, left - sectors);
        }
    }

    /// So many sectors of a block were not taken after all.
    pub fn give_back(&mut self, block: u64, sectors: u64) {
        if sectors < self.whole {
            let left = self.left.get(&block).copied().unwrap_or(0);
            self.leave(block, left + sectors);
        }
    }

    /// A block was delivered, or is not wanted any more: so many sectors of it were taken.
    pub fn forget(&mut self, block: u64) -> u64 {
        let left = self.left.get(&block).copied().unwrap_or(self.whole);
        self.leave(block, self.whole);
        self.whole - left
    }

    /// So much of a block is left.
    fn leave(&mut self, block: u64, left: u64) {
        if self.room.is_none() {
            return;
        }
        let begun = left < self.whole;
        let before = if begun { self.left.insert(block, left) } else { self.left.remove(&block) };
        self.held -= before.map_or(0, |left| self.holds(left));
        self.held += if begun { self.holds(left) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of one to three parts, taken in any order as far as they may be, some of them given back: all of them
    /// end, however small the buffers are, though there is never less room than for a block.
    #[test]
    fn begun_blocks_leave_room_for_one_to_end() {
        let mut state = 9_u64;
        let mut below = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((u128::from(state) * u128::from(end)) >> 64) as u64
        };
        for room in [24, 25, 32, 48, 200, 1_000] {
            let mut begun = Begun::new(8, 1);
            begun.bound(room);
            let mut parts = Vec::new();
            for block in 0..300 {
                let first = 1 + below(8);
                let second = below(9 - first);
                let three = [first, second, 8 - first - second];
                parts
                    .extend(three.into_iter().filter(|&sectors| sectors > 0).map(|sectors| (block, sectors)));
            }
            let (mut taken, mut in_vain) = (BTreeMap::<u64, u64>::new(), 0);
            while !parts.is_empty() {
                let (at, both) = (below(parts.len() as u64) as usize, below(4) == 0);
                let (block, sectors): (u64, u64) = parts[at];
                let held = taken.values().sum::<u64>();
                in_vain += 1;
                assert!(in_vain < 100_000, "{} parts are left, {held} of {room} held", parts.len());
                assert!(held + 8 <= room, "{held} of {room} held");
                if !begun.may_take(block, sectors, both) {
                    continue;
                }
                begun.take(block, sectors);
                // Some did not pass, and another one was taken before that was known.
                let passed = below(5) > 0;
                let at = if passed { at } else { below(parts.len() as u64) as usize };
                let other = parts[at];
                let also = !passed && other.0 != block && begun.may_take(other.0, other.1, both);
                if also {
                    begun.take(other.0, other.1);
                }
                if !passed {
                    begun.give_back(block, sectors);
                }
                if !passed && !also {
                    continue;
                }
                let (block, sectors) = parts.swap_remove(at);
                in_vain = 0;
                *taken.entry(block).or_default() += sectors;
                if taken[&block] == 8 {
                    taken.remove(&block);
                    begun.forget(block);
                }
                assert_eq!(begun.held, taken.values().sum::<u64>());
            }
            assert!(begun.left.is_empty() && begun.held == 0);
        }
    }
}
