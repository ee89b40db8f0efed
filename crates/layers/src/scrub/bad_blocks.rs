//! Sectors that could not be read. The list is limited to what a usable drive may have; others are counted.

use std::collections::BTreeSet;

use seekless_core::{Extent, Lba};

/// Maximum number of listed sectors.
const MOST: usize = 1 << 16;

/// Unreadable logical blocks of the device.
#[derive(Debug, Default)]
pub struct BadBlocks {
    bad: BTreeSet<Lba>,
    /// Those of this pass for which there was no room.
    beyond: u64,
    so_far: u64,
}

impl BadBlocks {
    /// Resets the count of unlisted ones for a new pass.
    pub fn begin(&mut self) {
        self.beyond = 0;
    }

    /// Adds an unreadable block.
    pub fn bad(&mut self, at: Lba) {
        if self.bad.len() < MOST {
            self.so_far += u64::from(self.bad.insert(at));
        } else if !self.bad.contains(&at) {
            (self.beyond, self.so_far) = (self.beyond + 1, self.so_far + 1);
        }
    }

    /// Removes blocks that were read or written.
    pub fn well(&mut self, at: Extent) {
        while let Some(block) = self.bad.range(at.start..at.end()).next().copied() {
            self.bad.remove(&block);
        }
    }

    /// Number of bad blocks now.
    pub fn now(&self) -> u64 {
        self.bad.len() as u64 + self.beyond
    }

    /// Number of bad blocks ever found.
    pub fn so_far(&self) -> u64 {
        self.so_far
    }

    /// Splits `at` by whether blocks are known to be bad; a block of the device has `block` sectors.
    pub fn each(&self, at: Extent, block: u64, each: &mut dyn FnMut(Extent, bool)) {
        let mut next = at.start;
        let first = Lba(at.start.0 / block * block);
        for &bad in self.bad.range(first..at.end()) {
            let (from, end) = (bad.max(next), (bad + block).min(at.end()));
            if next < from {
                each(Extent { start: next, sectors: from.0 - next.0 }, false);
            }
            each(Extent { start: from, sectors: end.0 - from.0 }, true);
            next = end;
        }
        if next < at.end() {
            each(Extent { start: next, sectors: at.end().0 - next.0 }, false);
        }
    }

    /// The blocks that are known to be bad.
    #[cfg(test)]
    pub fn kept(&self) -> Vec<u64> {
        self.bad.iter().map(|block| block.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_an_extent_is_reported() {
        let mut found = BadBlocks::default();
        for block in [8, 16, 40] {
            found.bad(Lba(block));
        }
        let ranges = |start, sectors| {
            let mut ranges = Vec::new();
            found.each(Extent::new(start, sectors), 8, &mut |at, bad| {
                ranges.push((at.start.0, at.sectors, bad));
            });
            ranges
        };
        assert_eq!(ranges(0, 30), [(0, 8, false), (8, 8, true), (16, 8, true), (24, 6, false)]);
        assert_eq!(ranges(12, 32), [(12, 4, true), (16, 8, true), (24, 16, false), (40, 4, true)]);
        assert_eq!(ranges(100, 5), [(100, 5, false)]);
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let mut found = BadBlocks::default();
        (0..MOST as u64 + 5).for_each(|block| found.bad(Lba(block)));
        found.bad(Lba(3));
        assert_eq!((found.now(), found.so_far()), (MOST as u64 + 5, MOST as u64 + 5));
        found.well(Extent::new(10, 20));
        assert_eq!((found.now(), found.kept().len()), (MOST as u64 - 15, MOST - 20));
        found.begin();
        assert_eq!(found.now(), MOST as u64 - 20);
    }
}
