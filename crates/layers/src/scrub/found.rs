//! The sectors that could not be read. Kept are as many as a drive that is worth keeping has; the others are counted.

use std::collections::BTreeSet;

use seekless_core::{Extent, Lba};

/// Sectors that are kept at most.
const MOST: usize = 1 << 16;

/// What could not be read, by logical blocks of the device.
#[derive(Debug, Default)]
pub struct Found {
    bad: BTreeSet<Lba>,
    /// Those of this pass for which there was no room.
    beyond: u64,
    so_far: u64,
}

impl Found {
    /// A pass begins: what had no room is counted anew.
    pub fn begin(&mut self) {
        self.beyond = 0;
    }

    /// This block cannot be read.
    pub fn bad(&mut self, at: Lba) {
        if self.bad.len() < MOST {
            self.so_far += u64::from(self.bad.insert(at));
        } else if !self.bad.contains(&at) {
            (self.beyond, self.so_far) = (self.beyond + 1, self.so_far + 1);
        }
    }

    /// These can be read, or were written.
    pub fn well(&mut self, at: Extent) {
        while let Some(block) = self.bad.range(at.start..at.end()).next().copied() {
            self.bad.remove(&block);
        }
    }

    /// Known to be bad now.
    pub fn now(&self) -> u64 {
        self.bad.len() as u64 + self.beyond
    }

    /// Found ever.
    pub fn so_far(&self) -> u64 {
        self.so_far
    }

    /// The first block of `at` that is known to be bad.
    #[cfg(test)]
    pub fn kept(&self) -> Vec<u64> {
        self.bad.iter().map(|block| block.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_counted() {
        let mut found = Found::default();
        (0..MOST as u64 + 5).for_each(|block| found.bad(Lba(block)));
        found.bad(Lba(3));
        assert_eq!((found.now(), found.so_far()), (MOST as u64 + 5, MOST as u64 + 5));
        found.well(Extent::new(10, 20));
        assert_eq!((found.now(), found.kept().len()), (MOST as u64 - 15, MOST - 20));
        found.begin();
        assert_eq!(found.now(), MOST as u64 - 20);
    }
}
