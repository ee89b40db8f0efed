//! 2Q: new pages enter a first-in, first-out queue; a page that is accessed again after it left that queue enters an
//! LRU queue.
//!
//! The sizes are those that the paper recommends: a quarter of the cache for new pages (*Kin*), and as many remembered
//! ones as half of it has pages (*Kout*).

use super::evicted::Evicted;
use super::{Access, Policy, Queue};

#[derive(Default)]
pub struct TwoQ {
    /// New pages, A1in.
    new: Queue,
    /// Numbers of pages evicted from there, A1out.
    evicted: Evicted,
    /// Pages accessed again, Am.
    main: Queue,
    new_at_most: u64,
}

impl TwoQ {
    pub fn new(pages: u64) -> TwoQ {
        let mut empty = TwoQ::default();
        empty.resize(pages);
        empty
    }

    fn evict_new(&mut self) -> Option<u64> {
        let (page, _) = self.new.pop()?;
        self.evicted.add(page);
        Some(page)
    }
}

impl Policy for TwoQ {
    fn miss(&mut self, page: u64) {
        self.evicted.miss(page);
    }

    fn admit(&mut self, page: u64, _: Access) {
        let known = self.evicted.take(page);
        let queue = if known { &mut self.main } else { &mut self.new };
        queue.push(page, false);
    }

    fn hit(&mut self, page: u64, _: Access) {
        self.main.renew(page);
    }

    fn evict(&mut self) -> Option<u64> {
        let from_new = (self.new.pages() > self.new_at_most).then(|| self.evict_new()).flatten();
        let from_main = || self.main.pop().map(|(page, _)| page);
        from_new.or_else(from_main).or_else(|| self.evict_new())
    }

    fn remove(&mut self, page: u64) {
        self.new.take(page);
        self.main.take(page);
    }

    fn pin(&mut self, page: u64, pinned: bool) {
        self.new.pin(page, pinned);
        self.main.pin(page, pinned);
    }

    fn resize(&mut self, pages: u64) {
        self.new_at_most = pages / 4;
        self.evicted.resize(pages / 2);
    }
}
