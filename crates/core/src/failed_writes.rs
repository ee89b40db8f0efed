//! Pages of which a write failed. Their device may still carry that write out, until the same sectors are written
//! again: data read from there now may be other data later.
//!
//! What copies such pages, or keeps what it read of them, would show clients the new data and then the old. So it
//! leaves them out, or rewrites them first with the data that are there.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::mutant;
use crate::units::{Extent, PAGE_SECTORS};

/// Numbers of such pages.
#[derive(Debug, Default)]
pub struct FailedWrites(RefCell<BTreeSet<u64>>);

impl FailedWrites {
    /// Adds pages of which a write failed.
    pub fn add(&self, pages: impl IntoIterator<Item = u64>) {
        self.0.borrow_mut().extend(pages);
    }

    /// Removes the pages of which all was written by this write.
    pub fn written(&self, at: Extent) {
        if !self.is_empty() {
            let parts = mutant::is("failed writes: part of a page is enough");
            let whole = at.split(PAGE_SECTORS).filter(|part| parts || part.sectors == PAGE_SECTORS);
            whole.for_each(|part| self.remove(part.start.page()));
        }
    }

    /// Removes a page.
    pub fn remove(&self, page: u64) {
        self.0.borrow_mut().remove(&page);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Whether this page is one of them.
    pub fn contains(&self, page: u64) -> bool {
        self.0.borrow().contains(&page)
    }

    /// Whether one of the pages that this touches is.
    pub fn any_of(&self, at: Extent) -> bool {
        self.0.borrow().range(at.pages()).next().is_some()
    }

    /// All of them, in ascending order.
    pub fn pages(&self) -> Vec<u64> {
        self.0.borrow().iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_write_of_all_of_a_page_settles_it() {
        let failed = FailedWrites::default();
        failed.add(Extent::new(4, 24).pages());
        assert_eq!(failed.pages(), [0, 1, 2, 3]);
        failed.written(Extent::new(4, 13));
        assert_eq!(failed.pages(), [0, 2, 3]);
        assert!(!failed.any_of(Extent::new(8, 8)) && failed.any_of(Extent::new(15, 2)));
        failed.remove(2);
        assert!(!failed.contains(2) && failed.contains(3) && !failed.is_empty());
    }
}
