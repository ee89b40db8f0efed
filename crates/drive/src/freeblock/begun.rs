//! Blocks that lie across the ends of tracks, of which a part was taken and a part was not: what waits for its
//! rest takes up buffers meanwhile.
//!
//! Once half of what they may hold is taken, blocks are begun by their shorter parts only, and the rest of one
//! counts for more than other blocks. Invariant: what they hold leaves room for a block, so that one can always
//! come to its end.

use std::collections::BTreeMap;

/// What the rest of a begun block counts beside itself, in blocks, once buffers run short.
const REST: u32 = 10;

/// The begun blocks of a set.
#[derive(Debug, Default)]
pub struct Begun {
    /// How many sectors of each were not taken.
    left: BTreeMap<u64, u64>,
    /// Sectors of a block, and whether it is wanted in more than the parts that lie on different tracks.
    whole: u64,
    in_units: bool,
    /// What they hold and what they may, in sectors; `None`: nobody counts.
    held: u64,
    most: Option<u64>,
}

impl Begun {
    /// None, of blocks of so many units of so many sectors.
    pub fn new(unit: u64, units: u64) -> Begun {
        Begun { whole: unit * units, in_units: units > 1, ..Begun::default() }
    }

    /// All buffers have room for so many sectors, two blocks at least.
    pub fn bound(&mut self, room: u64) {
        self.most = Some(room - (room / 8).max(self.whole));
    }

    /// What a block holds of which so much is left. Those of many parts may hold all of it soon.
    fn holds(&self, left: u64) -> u64 {
        if self.in_units { self.whole } else { self.whole - left }
    }

    /// Whether buffers run short.
    pub fn short(&self) -> bool {
        self.most.is_some_and(|most| self.held * 2 > most || self.held + self.whole > most)
    }

    /// Whether so many sectors of a block may be taken.
    pub fn may_take(&self, block: u64, sectors: u64) -> bool {
        let Some(most) = self.most.filter(|_| sectors < self.whole) else { return true };
        match self.left.get(&block) {
            // The first one may always go on: with nothing but begun ones of many parts none would end.
            Some(&left) => {
                self.in_units
                    || left == sectors
                    || self.held + sectors <= most
                    || self.left.first_key_value().is_some_and(|(&first, _)| first == block)
            }
            None => {
                let brief = self.in_units || 2 * sectors <= self.whole || !self.short();
                brief && self.held + self.holds(self.whole - sectors) <= most
            }
        }
    }

    /// What taking so many sectors of a block counts, in blocks.
    pub fn counts(&self, block: u64, sectors: u64) -> u32 {
        if !self.may_take(block, sectors) {
            return 0;
        }
        let rest = self.short() && self.left.get(&block).is_some_and(|&left| left == sectors);
        1 + if rest { REST } else { 0 }
    }

    /// So many sectors of a block are taken.
    pub fn take(&mut self, block: u64, sectors: u64) {
        if sectors < self.whole && self.most.is_some() {
            let left = self.left.get(&block).copied().unwrap_or(self.whole);
            self.leave(block, left - sectors);
        }
    }

    /// So many sectors of a block were not taken after all.
    pub fn give_back(&mut self, block: u64, sectors: u64) {
        if sectors < self.whole && self.most.is_some() {
            let left = self.left.get(&block).copied().unwrap_or(0);
            self.leave(block, left + sectors);
        }
    }

    /// A block is not wanted any more: so many sectors of it were taken.
    pub fn forget(&mut self, block: u64) -> u64 {
        let left = self.left.get(&block).copied().unwrap_or(self.whole);
        self.leave(block, self.whole);
        self.whole - left
    }

    fn leave(&mut self, block: u64, left: u64) {
        let before = if left % self.whole == 0 { self.left.remove(&block) } else { self.left.insert(block, left) };
        self.held -= before.map_or(0, |left| self.holds(left));
        self.held += if left % self.whole == 0 { 0 } else { self.holds(left) };
    }
}
