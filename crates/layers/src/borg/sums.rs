//! Checksums of what the write buffer holds, as far as they are known: from runs that were settled, or found whole at
//! opening, and of pages that were not overwritten in place since.
//!
//! Invariant: what is known is that of what was written last. Whoever reads what is newer than home and finds another has
//! an error, that names it: it is given to no client, and goes nowhere.

use seekless_core::{Buffer, ErrorKind, Extent, IoError};

use super::layout::Layout;
use super::map::Slot;
use super::{Borg, State};
use crate::bytes::sum_of_page;

/// Four bytes and a bit a slot of the write buffer.
pub(super) struct Sums {
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

impl State {
    /// The slot of a page that is newer than home, and the sum of what it holds.
    pub(super) fn sum_of(&self, page: u64) -> Option<(Slot, u32)> {
        let slot = self.map.slot_of(page).filter(|slot| self.map.is_dirty(*slot))?;
        Some((slot, self.sums.of(slot)?))
    }
}

impl Borg {
    /// Whether a whole page was read from its slot as it was written; `told` is what was known of it before it was read.
    /// Who reads without a lock may read what is written meanwhile: then more is known now, or less.
    pub(super) fn unless_rotten(
        &self,
        page: u64,
        told: Option<(Slot, u32)>,
        data: &Buffer,
    ) -> Result<(), IoError> {
        let Some((slot, sum)) = told.filter(|_| !self.timing_only) else { return Ok(()) };
        if sum_of_page(data) == sum || self.state.borrow().sum_of(page) != told {
            return Ok(());
        }
        let why = format!(
            "found the copy of page {page} in slot {slot} not as it was written, expected it so: it is newer than home, \
             and there is no other; it is not written home"
        );
        Err(IoError::new(ErrorKind::Corrupt, "borg", Some(Extent::of_pages(self.layout.page(slot), 1)), why))
    }
}
