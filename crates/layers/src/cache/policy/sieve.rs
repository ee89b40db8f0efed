//! SIEVE: a hand moves from old pages to new ones and evicts the first that was not used since it passed; used ones
//! stay in their place.

use super::{Access, Policy, Queue};

/// The count of a page is 1 if it was used since the hand passed it.
#[derive(Default)]
pub struct Sieve {
    queue: Queue,
    /// The place from which the hand goes on; `None` for the oldest page.
    hand: Option<u64>,
}

impl Policy for Sieve {
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
            let at = self.hand.and_then(|hand| self.queue.first_from(hand));
            let (place, page) = at.or_else(|| self.queue.first_from(0))?;
            // A page that enters after the hand has reached the end is not next.
            self.hand = self.queue.first_from(place + 1).map(|(place, _)| place);
            let used = self.queue.count(page).is_some_and(|count| std::mem::take(count) == 1);
            if !used {
                self.queue.take(page);
                return Some(page);
            }
        }
    }

    fn remove(&mut self, page: u64) {
        self.queue.take(page);
    }

    fn pin(&mut self, page: u64, pinned: bool) {
        self.queue.pin(page, pinned);
    }
}
