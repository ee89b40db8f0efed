//! A medium with sectors that cannot be read until they are written again, as those of a drive are: the drive then
//! puts another one in their place, or finds that they are well. Nothing here can fail.

use std::cell::RefCell;
use std::collections::BTreeSet;

use seekless_core::Extent;

/// The sectors that cannot be read.
#[derive(Debug)]
pub struct Medium(RefCell<BTreeSet<u64>>);

impl Medium {
    /// One of which these cannot be.
    pub fn new(bad: Extent) -> Medium {
        Medium(RefCell::new((bad.start.0..bad.end().0).collect()))
    }

    /// From now on this one cannot be.
    pub fn spoil(&self, sector: u64) {
        self.0.borrow_mut().insert(sector);
    }

    /// These are written.
    pub fn written(&self, at: Extent) {
        let mut bad = self.0.borrow_mut();
        while let Some(sector) = bad.range(at.start.0..at.end().0).next().copied() {
            bad.remove(&sector);
        }
    }

    /// The first of these that cannot be read.
    pub fn first_bad(&self, at: Extent) -> Option<u64> {
        self.0.borrow().range(at.start.0..at.end().0).next().copied()
    }
}
