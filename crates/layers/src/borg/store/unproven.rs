//! Unproven copies: clean ones that were not compared with the origin since the BOPT was opened.
//!
//! Invariant: no count wraps. `left` is the number of bits set.

use seekless_core::{invariant, mutant};

use super::Store;
use super::map::Slot;

/// One bit per slot.
pub struct Unproven {
    bits: Vec<u64>,
    left: usize,
}

impl Unproven {
    /// No unproven copies in this many slots.
    pub fn new(slots: u32) -> Unproven {
        Unproven { bits: vec![0; slots.div_ceil(64) as usize], left: 0 }
    }

    /// Whether the copy in a slot is unproven.
    pub fn has(&self, slot: Slot) -> bool {
        self.bits[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    /// Sets whether the copy in a slot is unproven.
    pub fn set(&mut self, slot: Slot, unproven: bool) {
        let was = self.has(slot);
        self.bits[slot as usize / 64] ^= u64::from(was != unproven) << (slot % 64);
        invariant!("no count wraps", !was || self.left > 0);
        self.left = self.left + usize::from(unproven) - usize::from(was);
    }

    /// Number of unproven copies.
    pub fn left(&self) -> usize {
        self.left
    }
}

impl Store {
    /// Makes all clean copies unproven.
    pub fn doubt_all(&self) {
        let table = &mut *self.table.borrow_mut();
        let skips = mutant::is("borg: every second clean copy is trusted");
        for (slot, _, _) in
            table.map.iter().filter(|(_, _, dirty)| !dirty).filter(|(slot, ..)| !skips || slot % 2 == 0)
        {
            table.unproven.set(slot, true);
        }
    }

    /// Records that the copy in a slot equals the origin.
    pub fn prove(&self, slot: Slot) {
        self.table.borrow_mut().unproven.set(slot, false);
    }
}
