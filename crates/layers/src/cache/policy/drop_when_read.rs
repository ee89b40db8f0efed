//! Drop when read: a page leaves as soon as a client has read it, since the client has it then (IOLab, section 5.3).
//! The others, written or prefetched, leave by their last use.

use super::{Access, Policy, Queue};

#[derive(Default)]
pub struct DropWhenRead {
    read: Queue,
    others: Queue,
}

impl DropWhenRead {
    fn put(&mut self, page: u64, by: Access, pinned: bool) {
        let queue = if by == Access::Read { &mut self.read } else { &mut self.others };
        queue.push(page, pinned);
    }
}

impl Policy for DropWhenRead {
    fn admit(&mut self, page: u64, by: Access) {
        self.put(page, by, false);
    }

    fn hit(&mut self, page: u64, by: Access) {
        let pinned = self.read.take(page).or_else(|| self.others.take(page));
        if let Some(pinned) = pinned {
            self.put(page, by, pinned);
        }
    }

    fn evict(&mut self) -> Option<u64> {
        self.next_spent().or_else(|| self.others.pop().map(|(page, _)| page))
    }

    fn remove(&mut self, page: u64) {
        self.read.take(page);
        self.others.take(page);
    }

    fn pin(&mut self, page: u64, pinned: bool) {
        self.read.pin(page, pinned);
        self.others.pin(page, pinned);
    }

    fn next_spent(&mut self) -> Option<u64> {
        self.read.pop().map(|(page, _)| page)
    }
}
