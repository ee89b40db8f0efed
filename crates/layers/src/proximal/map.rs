//! The map: the block of each page, in the volume and for its snapshots.

use seekless_core::{Buffer, Lba, runtime::first_number};

use super::format::{self, ENTRIES, Leaf, NONE, Shape};
use super::pairs::{PageWrite, Pairs, Target};
use super::records::Records;

/// Blocks of all pages.
pub struct Map {
    /// Blocks of the pages of each map page; `None` if none has one.
    leaves: Vec<Option<Leaf>>,
    /// Blocks that only snapshots see.
    pub records: Records,
    /// The pages of both: those of records follow the map pages.
    pub pages: Pairs,
    /// Pages with a block.
    mapped: u64,
}

impl Map {
    /// No page has a block.
    pub fn new(shape: &Shape) -> Map {
        let leaves = std::iter::repeat_with(|| None).take(shape.maps as usize).collect();
        let (records, pages) = (Records::new(shape.records), Pairs::new(shape.pairs(), first_number()));
        Map { leaves, records, pages, mapped: 0 }
    }

    /// Sets a map page as it was read.
    pub fn set(&mut self, map: u64, blocks: Leaf) {
        let mapped = blocks.iter().filter(|block| **block != NONE).count() as u64;
        self.mapped += mapped;
        self.leaves[map as usize] = (mapped > 0).then_some(blocks);
    }

    /// Pages with a block.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    /// The block of a page, or [`NONE`].
    pub fn block(&self, page: u64) -> u32 {
        let leaf = self.leaves.get(page as usize / ENTRIES).and_then(Option::as_ref);
        leaf.map_or(NONE, |blocks| blocks[page as usize % ENTRIES])
    }

    /// Maps a page, or unmaps it with [`NONE`]; returns what was there.
    pub fn set_block(&mut self, page: u64, block: u32) -> u32 {
        let map = page as usize / ENTRIES;
        let blocks = self.leaves[map].get_or_insert_with(|| Box::new([NONE; ENTRIES]));
        let old = std::mem::replace(&mut blocks[page as usize % ENTRIES], block);
        if old != block {
            self.pages.change(map as u64);
        }
        self.mapped = self.mapped + u64::from(block != NONE) - u64::from(old != NONE);
        old
    }

    /// Changes a record, and notes which of their pages has changed.
    pub fn record<T>(&mut self, change: impl FnOnce(&mut Records) -> T) -> T {
        let done = change(&mut self.records);
        for page in self.records.take_changed() {
            self.pages.change(self.leaves.len() as u64 + page);
        }
        done
    }

    /// Whether pages of records have changed.
    pub fn has_changed_records(&self) -> bool {
        self.pages.has_changes_from(self.leaves.len() as u64)
    }

    /// Encodes these pages as they are now.
    pub fn encoded(&self, targets: Vec<Target>, identity: u128) -> Vec<PageWrite> {
        targets
            .into_iter()
            .map(|target| PageWrite { target, bytes: self.encode(&target, identity) })
            .collect()
    }

    fn encode(&self, target: &Target, identity: u128) -> Buffer {
        let at = format::map_at(target.page, target.copy).start;
        self.encode_at(target.page, at, target.generation, identity)
    }

    /// Encodes a page as it is now, for its place.
    pub fn encode_at(&self, page: u64, at: Lba, generation: u64, identity: u128) -> Buffer {
        const BLANK: [u32; ENTRIES] = [NONE; ENTRIES];
        let rewrite = self.pages.is_written();
        let maps = self.leaves.len() as u64;
        let bytes = if let Some(page) = page.checked_sub(maps) {
            let part = format::records_part(identity).rewrite(rewrite);
            format::encode_records(self.records.of_page(page), part, at, generation)
        } else {
            let blocks = self.leaves[page as usize].as_deref().unwrap_or(&BLANK);
            format::encode_map(blocks, format::map_part(identity).rewrite(rewrite), at, generation)
        };
        Buffer::from_vec(bytes)
    }

    /// Pages of the volume of which a page of metadata tells: the first of a map page, since they are of one region, or
    /// those of records.
    pub fn pages_of(&self, page: u64, shape: &Shape) -> Vec<u64> {
        match page.checked_sub(shape.maps) {
            Some(page) => self.records.of_page(page).map(|record| u64::from(record.page)).collect(),
            None => vec![page * ENTRIES as u64],
        }
    }
}
