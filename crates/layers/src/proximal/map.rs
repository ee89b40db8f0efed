//! The map: the block of each page, in map pages of which each has its own generation and current copy.

use std::collections::BTreeSet;

use seekless_core::Buffer;

use super::format::{self, ENTRIES, Leaf, NONE, Shape};

/// Blocks of all pages.
pub struct Map {
    leaves: Vec<MapPage>,
    /// Map pages with changes that are not being written.
    changed: BTreeSet<u64>,
    /// Map pages whose other copy is older.
    single: BTreeSet<u64>,
}

/// A map page.
struct MapPage {
    /// Blocks of its pages; `None` if none has one.
    blocks: Option<Leaf>,
    /// The current copy.
    copy: usize,
    /// The newest generation of any sector of both copies.
    generation: u64,
}

/// A map page to be written.
pub struct MapWrite {
    /// Number of the map page.
    pub map: u64,
    /// Copy that is overwritten.
    pub copy: usize,
    /// Its bytes.
    pub bytes: Buffer,
}

impl Map {
    /// No page has a block. `generation` counts as the one before the first.
    pub fn new(shape: &Shape, generation: u64) -> Map {
        let blank = || MapPage { blocks: None, copy: 0, generation };
        let leaves = std::iter::repeat_with(blank).take(shape.maps as usize).collect();
        Map { leaves, changed: BTreeSet::new(), single: BTreeSet::new() }
    }

    /// Sets a map page as it was read: its blocks, the current copy, the newest generation of any sector, and whether
    /// both copies hold it.
    pub fn set(&mut self, map: u64, blocks: Leaf, copy: usize, generation: u64, copied: bool) {
        self.leaves[map as usize] = MapPage { blocks: Some(blocks), copy, generation };
        if !copied {
            self.single.insert(map);
        }
    }

    /// Sets the newest generation of any sector of a map page that is not whole in either copy.
    pub fn set_blank(&mut self, map: u64, generation: u64) {
        self.leaves[map as usize].generation = generation;
    }

    /// The block of a page, or [`NONE`].
    pub fn block(&self, page: u64) -> u32 {
        let leaf = &self.leaves[page as usize / ENTRIES];
        leaf.blocks.as_ref().map_or(NONE, |blocks| blocks[page as usize % ENTRIES])
    }

    /// Maps a page, or unmaps it with [`NONE`]; returns what was there.
    pub fn set_block(&mut self, page: u64, block: u32) -> u32 {
        let map = page as usize / ENTRIES;
        let blocks = self.leaves[map].blocks.get_or_insert_with(|| Box::new([NONE; ENTRIES]));
        let old = std::mem::replace(&mut blocks[page as usize % ENTRIES], block);
        if old != block {
            self.changed.insert(map as u64);
        }
        old
    }

    /// The changed map pages as they are now, each for its older copy: the next generation. For a known bug, `over` the
    /// current copy instead.
    pub fn changes(&mut self, identity: u128, over: bool) -> Vec<MapWrite> {
        let changed = std::mem::take(&mut self.changed);
        changed
            .into_iter()
            .map(|map| {
                let leaf = &mut self.leaves[map as usize];
                leaf.generation += 1;
                let copy = if over { leaf.copy } else { 1 - leaf.copy };
                leaf.encoded(map, copy, identity)
            })
            .collect()
    }

    /// Records that these are durable: they are current.
    pub fn written(&mut self, writes: &[MapWrite]) {
        for write in writes {
            self.leaves[write.map as usize].copy = write.copy;
            self.single.insert(write.map);
        }
    }

    /// The map pages whose other copy is older, for that copy; none of those that have changed since.
    pub fn duplicates(&self, identity: u128) -> Vec<MapWrite> {
        let unchanged = self.single.iter().filter(|map| !self.changed.contains(map));
        unchanged
            .map(|&map| {
                let leaf = &self.leaves[map as usize];
                leaf.encoded(map, 1 - leaf.copy, identity)
            })
            .collect()
    }

    /// Records that both copies of these hold them.
    pub fn duplicated(&mut self, writes: &[MapWrite]) {
        for write in writes {
            self.single.remove(&write.map);
        }
    }
}

impl MapPage {
    fn encoded(&self, map: u64, copy: usize, identity: u128) -> MapWrite {
        const BLANK: [u32; ENTRIES] = [NONE; ENTRIES];
        let blocks = self.blocks.as_deref().unwrap_or(&BLANK);
        let at = format::map_at(map, copy).start;
        let bytes = Buffer::from_vec(format::encode_map(blocks, identity, at, self.generation));
        MapWrite { map, copy, bytes }
    }
}
