//! Checksums of what the write buffer holds, as far as they are known: from batches that were committed, or found whole
//! at opening, and of pages that were not overwritten in place since.
//!
//! Invariant: what is known is that of what was written last. Whoever reads what is newer than the origin and finds
//! another has an error, that names it: it is given to no client, and goes nowhere.

use super::layout::Layout;
use super::map::Slot;

/// Four bytes and a bit a slot of the write buffer.
pub struct Sums {
    first: Slot,
    each: Vec<u32>,
    known: Vec<u64>,
}

impl Sums {
    /// None is known.
    pub fn new(layout: Layout) -> Sums {
        let (first, slots) = (layout.cached_slots(), layout.slots() - layout.cached_slots());
        Sums { first, each: vec![0; slots as usize], known: vec![0; slots.div_ceil(64) as usize] }
    }

    /// What a slot holds has this sum, or nobody knows it. Slots of the read cache have none.
    pub fn set(&mut self, slot: Slot, sum: Option<u32>) {
        let Some(index) = slot.checked_sub(self.first).map(|index| index as usize) else { return };
        self.each[index] = sum.unwrap_or(0);
        let bit = 1 << (index % 64);
        self.known[index / 64] = self.known[index / 64] & !bit | if sum.is_some() { bit } else { 0 };
    }

    /// The sum of what a slot holds.
    pub fn of(&self, slot: Slot) -> Option<u32> {
        let index = slot.checked_sub(self.first)? as usize;
        (self.known[index / 64] >> (index % 64) & 1 == 1).then(|| self.each[index])
    }
}
