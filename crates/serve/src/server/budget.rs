//! The memory that requests hold: a share for each client, and more that all of them have in common.
//!
//! Invariants: what clients hold beyond their own share is at most [`COMMON`]. Each can always finish a request that fits
//! its share, whatever the others hold.

use std::cell::{Cell, RefCell};
use std::task::Waker;

/// What each client may hold besides: a request of 1 MiB, and the headers of all requests that it may have in flight.
pub const OWN: u64 = (1 << 20) + (64 << 10);
/// What all may hold beyond that: eight of the largest requests.
const COMMON: u64 = 256 << 20;

/// See the file's header.
#[derive(Default)]
pub struct Budget {
    used: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Budget {
    /// Lets a client hold so many bytes, which held fewer, if there are so many.
    pub fn grow(&self, from: u64, to: u64) -> bool {
        let used = self.used.get() + beyond(to) - beyond(from);
        let fits = used <= COMMON || used == self.used.get();
        if fits {
            self.used.set(used);
        }
        fits
    }

    /// A client holds less than it did.
    pub fn shrink(&self, from: u64, to: u64) {
        let less = beyond(from) - beyond(to);
        if less > 0 {
            self.used.set(self.used.get() - less);
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Wakes who waits when somebody holds less.
    pub fn wake(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }
}

/// What of it is not the client's own share.
fn beyond(held: u64) -> u64 {
    held.saturating_sub(OWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_share_and_all_have_a_bound() {
        let budget = Budget::default();
        assert!(budget.grow(0, OWN + COMMON), "one may have all that there is");
        assert!(budget.grow(0, OWN), "and another its share");
        assert!(!budget.grow(OWN, OWN + 1));
        budget.shrink(OWN + COMMON, OWN + COMMON - 10);
        assert!(budget.grow(OWN, OWN + 10) && !budget.grow(OWN + 10, OWN + 11));
        budget.shrink(OWN + COMMON - 10, 0);
        budget.shrink(OWN + 10, 0);
        assert_eq!(budget.used.get(), 0);
    }
}
