//! `borg_map` (section 4.6): where the copy of a page is, which page a slot holds, and whether the
//! copy is newer than home.
//!
//! Forward a radix tree of two levels, backward an array, and a bit a slot: 4 bytes each way and a
//! bit, 0.2 % of the BOPT when it is full. Invariants: `slot_of` and `page_at` are inverses; a slot
//! without a page is clean. Pages are numbered in 32 bits: volumes up to 16 TiB.

/// A page's place in the BOPT, counted over read cache and write buffer.
pub type Slot = u32;

/// Pages of a leaf: 2 KiB of slots.
const LEAF: usize = 512;
/// No slot, or no page.
const NONE: u32 = u32::MAX;

/// The indirection map.
pub struct BorgMap {
    forward: Vec<Option<Box<[Slot; LEAF]>>>,
    backward: Vec<u32>,
    dirty: Vec<u64>,
    dirty_slots: usize,
    mapped: usize,
}

impl BorgMap {
    /// An empty map of a volume of `pages` pages over `slots` slots.
    ///
    /// # Panics
    /// When either does not fit 32 bits; [`super::Borg::new`] has refused such volumes.
    pub fn new(pages: u64, slots: u32) -> BorgMap {
        assert!(
            pages < u64::from(NONE) && slots < NONE,
            "{pages} pages and {slots} slots do not fit 32 bits"
        );
        BorgMap {
            forward: vec![None; (pages as usize).div_ceil(LEAF)],
            backward: vec![NONE; slots as usize],
            dirty: vec![0; (slots as usize).div_ceil(64)],
            dirty_slots: 0,
            mapped: 0,
        }
    }

    /// Where the copy of a page is.
    pub fn slot_of(&self, page: u64) -> Option<Slot> {
        let leaf = self.forward.get(page as usize / LEAF)?.as_ref()?;
        let slot = leaf[page as usize % LEAF];
        (slot != NONE).then_some(slot)
    }

    /// Which page a slot holds.
    pub fn page_at(&self, slot: Slot) -> Option<u64> {
        let page = self.backward[slot as usize];
        (page != NONE).then_some(u64::from(page))
    }

    /// Whether the copy in a slot is newer than home.
    pub fn is_dirty(&self, slot: Slot) -> bool {
        self.dirty[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    /// Says whether the copy in a slot is newer than home.
    pub fn set_dirty(&mut self, slot: Slot, dirty: bool) {
        let bit = 1 << (slot % 64);
        let word = &mut self.dirty[slot as usize / 64];
        self.dirty_slots -= usize::from(*word & bit != 0);
        *word = if dirty { *word | bit } else { *word & !bit };
        self.dirty_slots += usize::from(dirty);
    }

    /// How many copies are newer than home.
    pub fn dirty(&self) -> usize {
        self.dirty_slots
    }

    /// Maps a page to a slot.
    ///
    /// # Panics
    /// When the slot holds another page: a page would be lost.
    pub fn insert(&mut self, page: u64, slot: Slot, dirty: bool) {
        assert_eq!(self.page_at(slot), None, "slot {slot} is taken");
        self.remove(page);
        let leaf = self.forward[page as usize / LEAF].get_or_insert_with(|| Box::new([NONE; LEAF]));
        leaf[page as usize % LEAF] = slot;
        self.backward[slot as usize] = page as u32;
        self.set_dirty(slot, dirty);
        self.mapped += 1;
    }

    /// Forgets the copy of a page, and says where it was.
    pub fn remove(&mut self, page: u64) -> Option<Slot> {
        let slot = self.slot_of(page)?;
        if let Some(leaf) = self.forward[page as usize / LEAF].as_mut() {
            leaf[page as usize % LEAF] = NONE;
        }
        self.backward[slot as usize] = NONE;
        self.set_dirty(slot, false);
        self.mapped -= 1;
        Some(slot)
    }

    /// How many pages have a copy.
    pub fn mapped(&self) -> usize {
        self.mapped
    }

    /// All copies as (slot, page, dirty), in order of slots.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, u64, bool)> {
        (0..)
            .zip(&self.backward)
            .filter(|(_, page)| **page != NONE)
            .map(|(slot, page)| (slot, u64::from(*page), self.is_dirty(slot)))
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> u64 {
        let leaves = self.forward.iter().flatten().count() * size_of::<[Slot; LEAF]>();
        let tables = self.forward.len() * size_of::<usize>() + self.backward.len() * 4 + self.dirty.len() * 8;
        (leaves + tables) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map_and_its_inverse(steps in prop::collection::vec((0..2_000_u64, 0..300_u32, any::<bool>()), 1..200)) {
            let mut map = BorgMap::new(2_000, 300);
            let mut model: BTreeMap<u64, (u32, bool)> = BTreeMap::new();
            for (page, slot, dirty) in steps {
                if map.page_at(slot).is_some() {
                    prop_assert_eq!(map.remove(page), model.remove(&page).map(|(slot, _)| slot));
                } else {
                    map.insert(page, slot, dirty);
                    model.insert(page, (slot, dirty));
                }
                prop_assert_eq!(map.mapped(), model.len());
                prop_assert_eq!(map.dirty(), model.values().filter(|(_, dirty)| *dirty).count());
                let mut all: Vec<_> = model.iter().map(|(page, (slot, dirty))| (*slot, *page, *dirty)).collect();
                all.sort_unstable();
                prop_assert_eq!(map.iter().collect::<Vec<_>>(), all);
                for (page, (slot, _)) in &model {
                    prop_assert_eq!((map.slot_of(*page), map.page_at(*slot)), (Some(*slot), Some(*page)));
                }
            }
        }
    }
}
