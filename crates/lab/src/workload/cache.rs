//! The page cache of the model of a file system: which blocks need not be read, and which have to be written.
//!
//! The least recently used block is evicted first. Dirty blocks stay until they are written.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

/// Blocks in memory.
pub struct Cache {
    capacity: u64,
    /// Limit of dirty blocks.
    dirty: u64,
    clock: u64,
    /// Time of each clean block's last use.
    used: FxHashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
    /// File data to be written.
    pub data: BTreeSet<u64>,
    /// Metadata to be written, through the journal.
    pub meta: BTreeSet<u64>,
}

impl Cache {
    /// A cache of `capacity` blocks, of which `dirty` may be dirty.
    pub fn new(capacity: u64, dirty: u64) -> Cache {
        Cache {
            capacity,
            dirty,
            clock: 0,
            used: FxHashMap::default(),
            by_use: BTreeMap::new(),
            data: BTreeSet::new(),
            meta: BTreeSet::new(),
        }
    }

    /// Whether a block is cached; it counts as used.
    pub fn has(&mut self, block: u64) -> bool {
        if self.data.contains(&block) || self.meta.contains(&block) {
            return true;
        }
        let there = self.used.contains_key(&block);
        if there {
            self.keep(block);
        }
        there
    }

    /// A clean block was used.
    pub fn keep(&mut self, block: u64) {
        self.clock += 1;
        if let Some(before) = self.used.insert(block, self.clock) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.clock, block);
        while self.used.len() as u64 + self.dirty() > self.capacity {
            let Some((_, oldest)) = self.by_use.pop_first() else { return };
            self.used.remove(&oldest);
        }
    }

    /// Drops a block.
    pub fn forget(&mut self, block: u64) {
        self.data.remove(&block);
        if let Some(before) = self.used.remove(&block) {
            self.by_use.remove(&before);
        }
    }

    /// Number of dirty blocks.
    pub fn dirty(&self) -> u64 {
        (self.data.len() + self.meta.len()) as u64
    }

    /// Whether writers have to wait.
    pub fn is_full(&self) -> bool {
        self.dirty() >= self.dirty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_leaves_and_dirty_ones_stay() {
        let mut cache = Cache::new(3, 2);
        cache.data.insert(9);
        cache.keep(1);
        cache.keep(2);
        assert!(cache.has(1));
        cache.keep(3);
        assert_eq!([1, 2, 3, 9].map(|block| cache.has(block)), [true, false, true, true]);
        cache.forget(9);
        assert!(!cache.has(9));
    }
}
