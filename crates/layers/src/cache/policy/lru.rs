//! LRU: evicts the page that was used longest ago.

use super::{Access, Policy, Queue};

#[derive(Default)]
pub struct Lru {
    queue: Queue,
}

impl Policy for Lru {
    fn admit(&mut self, page: u64, _: Access) {
        self.queue.push(page, false);
    }

    fn hit(&mut self, page: u64, _: Access) {
        self.queue.renew(page);
    }

    fn evict(&mut self) -> Option<u64> {
        self.queue.pop().map(|(page, _)| page)
    }

    fn remove(&mut self, page: u64) {
        self.queue.take(page);
    }

    fn pin(&mut self, page: u64, pinned: bool) {
        self.queue.pin(page, pinned);
    }
}
