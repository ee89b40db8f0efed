//! Records: blocks that snapshots see and the volume does not, as it has written their pages since (section 3.2).
//!
//! A record says up to which snapshot a page is seen in a block: the first record of a page whose `last` is not before
//! a snapshot is what that one sees; without one, it sees the volume's. So a write adds one record at most, however
//! many snapshots there are, and the block of a record belongs to it alone.
//!
//! A page that was written in a clone has a record too, with the clone's number: only that one sees it.
//!
//! Records lie in any page of them, those of a map page together as far as there is room.
//!
//! Invariants: a page has one record for each `last`; each record is in one page of records, which has room for it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::format::{ENTRIES, NONE, RECORDS_OF_A_PAGE, Record};

/// A page and the last snapshot that sees it there, or the clone.
type Key = (u32, u32);

/// The records of a volume.
pub struct Records {
    all: BTreeMap<Key, Place>,
    /// What each page of records holds.
    pages: Vec<BTreeSet<Key>>,
    /// For each map page, the pages of records that hold some of its.
    of_maps: BTreeMap<u32, BTreeSet<u32>>,
    /// Pages of records that hold nothing.
    free: BTreeSet<u32>,
    changed: BTreeSet<u64>,
    /// Records with a block.
    blocks: u64,
}

#[derive(Clone, Copy)]
struct Place {
    block: u32,
    /// Page of records that holds it.
    on: u32,
}

fn map_of(page: u32) -> u32 {
    page / ENTRIES as u32
}

impl Records {
    /// No record, in this number of pages.
    pub fn new(pages: u64) -> Records {
        Records {
            all: BTreeMap::new(),
            pages: vec![BTreeSet::new(); pages as usize],
            of_maps: BTreeMap::new(),
            free: (0..pages as u32).collect(),
            changed: BTreeSet::new(),
            blocks: 0,
        }
    }

    /// Number of records that can be added.
    pub fn room(&self) -> u64 {
        (self.pages.len() * RECORDS_OF_A_PAGE - self.all.len()) as u64
    }

    /// Number of records with a block.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// What the snapshot that ended the first of these epochs sees of a page, if that is in a record: its last
    /// snapshot, which is one of them, and the block.
    pub fn holder(&self, page: u32, epochs: Range<u32>) -> Option<(u32, u32)> {
        let (&(_, last), place) = self.all.range((page, epochs.start)..(page, epochs.end)).next()?;
        Some((last, place.block))
    }

    /// The block of a page in the record that ends with this snapshot, or is of this clone, if there is one.
    pub fn block(&self, page: u32, last: u32) -> Option<u32> {
        self.all.get(&(page, last)).map(|place| place.block)
    }

    /// Pages of the records that end with this snapshot, or are of this clone.
    pub fn pages_of(&self, last: u32) -> Vec<u32> {
        self.all.keys().filter(|key| key.1 == last).map(|key| key.0).collect()
    }

    /// Whether a page has a record that ends with this snapshot.
    pub fn has(&self, page: u32, last: u32) -> bool {
        self.all.contains_key(&(page, last))
    }

    /// Whether something newer than `epoch` is known of a page, in epochs up to `view`.
    pub fn is_newer(&self, page: u32, epoch: u32, view: u32) -> bool {
        let first =
            epoch + u32::from(seekless_core::mutant::is("proximal: a record of the same epoch is not newer"));
        first <= view && self.all.range((page, first)..(page, view)).next().is_some()
    }

    /// All of them, by page.
    pub fn iter(&self) -> impl Iterator<Item = Record> {
        self.all.iter().map(|(&(page, last), place)| Record { page, last, block: place.block })
    }

    /// Those in a page of them.
    pub fn of_page(&self, on: u64) -> impl Iterator<Item = Record> {
        let keys = self.pages[on as usize].iter();
        keys.map(|key| Record { page: key.0, last: key.1, block: self.all[key].block })
    }

    /// Pages of records that have changed since this was asked last.
    pub fn take_changed(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.changed)
    }

    /// Adds a record where it was found; false if there is one like it, or no room.
    pub fn found(&mut self, record: Record, on: u32) -> bool {
        let fits = self.pages[on as usize].len() < RECORDS_OF_A_PAGE && !self.has(record.page, record.last);
        if fits {
            self.place(record, on);
        }
        fits
    }

    /// Adds a record; there is room for it.
    pub fn insert(&mut self, record: Record) {
        let Record { page, last, .. } = record;
        assert!(!self.has(page, last), "found a record of page {page} and snapshot {last}, expected none");
        if let Some(on) = self.choose(record.page) {
            self.place(record, on);
            self.changed.insert(u64::from(on));
        }
    }

    /// Replaces the block of a record; returns the old one.
    pub fn replace(&mut self, page: u32, last: u32, block: u32) -> u32 {
        let Some(place) = self.all.get_mut(&(page, last)) else { return NONE };
        let old = std::mem::replace(&mut place.block, block);
        self.blocks = self.blocks + u64::from(block != NONE) - u64::from(old != NONE);
        self.changed.insert(u64::from(place.on));
        old
    }

    /// Removes a record; returns its block.
    pub fn remove(&mut self, page: u32, last: u32) -> u32 {
        let Some(Place { block, on }) = self.all.remove(&(page, last)) else { return NONE };
        self.blocks -= u64::from(block != NONE);
        let left = &mut self.pages[on as usize];
        left.remove(&(page, last));
        let map = map_of(page);
        if left.is_empty() {
            self.free.insert(on);
        }
        if left.range((map * ENTRIES as u32, 0)..((map + 1) * ENTRIES as u32, 0)).next().is_none() {
            if let Some(pages) = self.of_maps.get_mut(&map) {
                pages.remove(&on);
            }
        }
        self.changed.insert(u64::from(on));
        block
    }

    fn place(&mut self, Record { page, last, block }: Record, on: u32) {
        self.all.insert((page, last), Place { block, on });
        self.pages[on as usize].insert((page, last));
        self.free.remove(&on);
        self.of_maps.entry(map_of(page)).or_default().insert(on);
        self.blocks += u64::from(block != NONE);
    }

    /// A page of records with room: one that holds others of the same map page, one that holds nothing, or any.
    fn choose(&self, page: u32) -> Option<u32> {
        let has_room = |on: &u32| self.pages[*on as usize].len() < RECORDS_OF_A_PAGE;
        let near = self.of_maps.get(&map_of(page)).into_iter().flatten().copied().find(has_room);
        near.or_else(|| self.free.first().copied()).or_else(|| (0..self.pages.len() as u32).find(has_room))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proximal::format::{decode_records, encode_records, map_at, records_part};

    proptest! {
        /// Whatever is added, replaced and removed: the index and the pages on flash hold the same, and what a snapshot
        /// sees is the first record that does not end before it.
        #[test]
        fn records_are_found_in_memory_and_on_flash(
            steps in proptest::collection::vec((0..4_u8, 0..3_000_u32, 0..5_u32, 0..9_u32), 1..200),
        ) {
            let mut records = Records::new(4);
            let mut model = BTreeMap::new();
            for (what, page, last, block) in steps {
                let block = if block == 0 { NONE } else { block };
                match (what, model.contains_key(&(page, last))) {
                    (0..2, false) => {
                        records.insert(Record { page, last, block });
                        model.insert((page, last), block);
                    }
                    (0..2, true) => {
                        let old = model.insert((page, last), block);
                        prop_assert_eq!(Some(records.replace(page, last, block)), old);
                    }
                    (_, true) => prop_assert_eq!(Some(records.remove(page, last)), model.remove(&(page, last))),
                    _ => {}
                }
                let seen = model.range((page, 2)..=(page, u32::MAX)).next().map(|(key, block)| (key.1, *block));
                prop_assert_eq!(records.holder(page, 2..u32::MAX), seen);
            }
            let on_flash = (0..4).flat_map(|page| {
                decode_records(&encode_records(records.of_page(page), records_part(1), map_at(page, 0).start, 9)).collect::<Vec<_>>()
            });
            let on_flash: BTreeMap<Key, u32> =
                on_flash.map(|Record { page, last, block }| ((page, last), block)).collect();
            prop_assert_eq!(&on_flash, &model);
            prop_assert_eq!(records.blocks(), model.values().filter(|block| **block != NONE).count() as u64);
            prop_assert_eq!(records.room(), 4 * RECORDS_OF_A_PAGE as u64 - model.len() as u64);
        }
    }

    #[test]
    fn records_of_a_map_page_are_together_until_there_is_no_room() {
        let mut records = Records::new(3);
        let most = 3 * RECORDS_OF_A_PAGE as u32;
        for page in 0..most - 1 {
            records.insert(Record { page: page % 500, last: page / 500, block: page });
        }
        records.insert(Record { page: 5_000, last: 1, block: 7 });
        assert_eq!((records.room(), records.holder(5_000, 0..u32::MAX)), (0, Some((1, 7))));
    }
}
