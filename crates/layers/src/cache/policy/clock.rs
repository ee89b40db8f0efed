//! CLOCK: first in, first out, except that a page used since it entered enters again.

use super::{Access, Policy, Queue};

/// The count of a page is 1 if it was used since it entered.
#[derive(Default)]
pub struct Clock {
    queue: Queue,
}

impl Policy for Clock {
    fn admit(&mut self, page: u64, _: Access) {
        self.queue.push(page, false);
    }

    fn hit(&mut self, page: u64, _: Access) {
        if let Some(count) = self.queue.count(page) {
            *count = 1;
        }
    }

    fn evict(&mut self) -> Option<u64> {
        loop {
            let (page, used) = self.queue.pop()?;
            if used == 0 {
                return Some(page);
            }
            self.queue.push(page, false);
        }
    }

    fn remove(&mut self, page: u64) {
        self.queue.take(page);
    }

    fn pin(&mut self, page: u64, pinned: bool) {
        self.queue.pin(page, pinned);
    }
}
