//! Blocks that lie across the ends of tracks and were partially read: they occupy buffers until their remainder is
//! read.
//!
//! A disk of many tracks has more of these than the buffers hold. Once buffers run short, a new block is started only
//! by its shorter part, the remainder of a started one counts for more than other blocks do, and so do both parts of a
//! block in one go. Invariant: what partial blocks hold leaves room for a whole one, so that one can always be
//! completed. A block whose last part was taken counts until it is delivered, since the part may be given back.

use std::collections::BTreeMap;

/// Extra weight of a partial block's remainder, in blocks, once buffers run short; and of both parts of a new one. A
/// whole scan was fastest with these, of 1 to 30.
const REMAINDER_WEIGHT: u32 = 7;
const BOTH_WEIGHT: u32 = 4;

/// The partially read blocks of a set.
#[derive(Debug, Default)]
pub struct PartialBlocks {
    /// By block: sectors not yet taken.
    left: BTreeMap<u64, u64>,
    /// Sectors of a block, and whether blocks are split into several units because they are long.
    whole: u64,
    long: bool,
    /// Sectors that they hold, and that all buffers have room for; `None`: unlimited.
    held: u64,
    room: Option<u64>,
}

impl PartialBlocks {
    /// None yet, of blocks of `units` units of `unit` sectors.
    pub fn new(unit: u64, units: u64) -> PartialBlocks {
        PartialBlocks { whole: unit * units, long: units > 1, ..PartialBlocks::default() }
    }

    /// Limits the buffers to `room` sectors: three blocks at least.
    pub fn bound(&mut self, room: u64) {
        self.room = Some(room);
    }

    /// Sectors that they may hold; a block of which `both` parts come in one go may be started when others may not.
    fn most(&self, both: bool) -> Option<u64> {
        // The first one may hold one block more, and one has to have room still.
        let spare = 2 * self.whole;
        self.room.map(|room| room - if both { spare } else { spare.max(room / 20) })
    }

    /// Sectors held for a block of which `left` are not yet taken. A long one may come to hold all of it before it
    /// ends.
    fn holds(&self, left: u64) -> u64 {
        if self.long { self.whole } else { self.whole - left }
    }

    /// Whether buffers run short.
    pub fn short(&self) -> bool {
        self.most(false).is_some_and(|most| self.held > most / 10 * 9 || self.held + self.whole > most)
    }

    /// Whether `sectors` of a block may be taken; of a new one `both` parts, one after the other.
    pub fn may_take(&self, block: u64, sectors: u64, both: bool) -> bool {
        let Some(most) = self.most(both).filter(|_| sectors < self.whole) else { return true };
        match self.left.get(&block) {
            // The first one may always go on: if only partial blocks of several parts were held, none would be
            // completed.
            Some(&left) => {
                let first = self.left.first_key_value().is_some_and(|(&first, _)| first == block);
                self.long || left == sectors || self.held + sectors <= most || first
            }
            None => self.may_start(sectors, both, most),
        }
    }

    fn may_start(&self, sectors: u64, both: bool, most: u64) -> bool {
        let brief = both || self.long || 2 * sectors <= self.whole || !self.short();
        brief && self.held + self.holds(self.whole - sectors) <= most
    }

    /// Weight of taking `sectors` of a block, in blocks. If the adjacent part is pending too, the block is new, unless
    /// it has more than two parts.
    pub fn counts(&self, block: u64, sectors: u64, pending: bool) -> u32 {
        if pending && !self.long {
            return self.most(false).map_or(1, |most| u32::from(self.may_start(sectors, false, most)));
        }
        if !self.may_take(block, sectors, false) {
            return 0;
        }
        let remainder = self.short() && self.left.get(&block) == Some(&sectors);
        1 + if remainder { REMAINDER_WEIGHT } else { 0 }
    }

    /// The largest weight of a piece beyond one block.
    pub fn most_extra(&self) -> u32 {
        if self.short() { REMAINDER_WEIGHT } else { 0 }
    }

    /// Weight of taking both parts of a new block in one go.
    pub fn weight_of_both() -> u32 {
        1 + BOTH_WEIGHT
    }

    /// Takes `sectors` of a block.
    pub fn take(&mut self, block: u64, sectors: u64) {
        if sectors < self.whole {
            let left = self.left.get(&block).copied().unwrap_or(self.whole);
            self.leave(block, left - sectors);
        }
    }

    /// Undoes taking `sectors` of a block.
    pub fn give_back(&mut self, block: u64, sectors: u64) {
        if sectors < self.whole {
            let left = self.left.get(&block).copied().unwrap_or(0);
            self.leave(block, left + sectors);
        }
    }

    /// Drops a block that was delivered or is no longer pending; returns how many of its sectors were taken.
    pub fn forget(&mut self, block: u64) -> u64 {
        let left = self.left.get(&block).copied().unwrap_or(self.whole);
        self.leave(block, self.whole);
        self.whole - left
    }

    /// Sets how many sectors of a block are not yet taken.
    fn leave(&mut self, block: u64, left: u64) {
        if self.room.is_none() {
            return;
        }
        let partial = left < self.whole;
        let before = if partial { self.left.insert(block, left) } else { self.left.remove(&block) };
        self.held -= before.map_or(0, |left| self.holds(left));
        self.held += if partial { self.holds(left) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of one to three parts, taken in any order as far as allowed, some of them given back: all are completed,
    /// however small the buffers are, and there is always room for one block.
    #[test]
    fn partial_blocks_leave_room_for_one_to_end() {
        let mut state = 9_u64;
        let mut below = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((u128::from(state) * u128::from(end)) >> 64) as u64
        };
        for room in [24, 25, 32, 48, 200, 1_000] {
            let mut partial = PartialBlocks::new(8, 1);
            partial.bound(room);
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
                if !partial.may_take(block, sectors, both) {
                    continue;
                }
                partial.take(block, sectors);
                // Some did not pass, and another one was taken before that was known.
                let passed = below(5) > 0;
                let at = if passed { at } else { below(parts.len() as u64) as usize };
                let other = parts[at];
                let also = !passed && other.0 != block && partial.may_take(other.0, other.1, both);
                if also {
                    partial.take(other.0, other.1);
                }
                if !passed {
                    partial.give_back(block, sectors);
                }
                if !passed && !also {
                    continue;
                }
                let (block, sectors) = parts.swap_remove(at);
                in_vain = 0;
                *taken.entry(block).or_default() += sectors;
                if taken[&block] == 8 {
                    taken.remove(&block);
                    partial.forget(block);
                }
                assert_eq!(partial.held, taken.values().sum::<u64>());
            }
            assert!(partial.left.is_empty() && partial.held == 0);
        }
    }
}
