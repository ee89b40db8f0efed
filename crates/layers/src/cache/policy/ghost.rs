//! A cache without data: what one of this size and policy would hit.

use rustc_hash::FxHashSet;

use super::{Access, Kind, Policy};

/// Numbers of the pages that a cache would hold.
pub struct Ghost {
    pages: u64,
    policy: Box<dyn Policy>,
    resident: FxHashSet<u64>,
}

impl Ghost {
    /// An empty one, with room for this many pages.
    pub fn new(kind: Kind, pages: u64) -> Ghost {
        Ghost { pages, policy: kind.build(pages), resident: FxHashSet::default() }
    }

    /// The number of pages that it has room for.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The number of pages that it would hold.
    pub fn held(&self) -> u64 {
        self.resident.len() as u64
    }

    /// Whether it would hold this page.
    pub fn holds(&self, page: u64) -> bool {
        self.resident.contains(&page)
    }

    /// Accesses a page; returns whether it hits.
    pub fn access(&mut self, page: u64, by: Access) -> bool {
        let hit = self.holds(page);
        if hit {
            self.policy.hit(page, by);
        } else {
            self.policy.miss(page);
            if self.held() >= self.pages {
                self.policy.evict().map(|evicted| self.resident.remove(&evicted));
            }
            self.policy.admit(page, by);
            self.resident.insert(page);
        }
        while let Some(spent) = self.policy.next_spent() {
            self.resident.remove(&spent);
        }
        hit
    }

    /// A page would be dropped for another reason.
    pub fn drop_page(&mut self, page: u64) {
        if self.resident.remove(&page) {
            self.policy.remove(page);
        }
    }

    /// It has room for this many pages from now on.
    pub fn resize(&mut self, pages: u64) {
        self.pages = pages;
        self.policy.resize(pages);
        while self.held() > pages && self.policy.evict().is_some_and(|page| self.resident.remove(&page)) {}
    }
}
