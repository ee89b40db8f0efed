//! The memory that requests hold: a share for each client, and a common pool.
//!
//! The first [`OWN`] bytes that a client holds are its own share; what it holds beyond that is taken from the pool.
//!
//! Invariants: all clients together take at most [`COMMON`] from the pool, and the clients of one peer at most half of
//! that, so no peer takes all of it. Each client can always finish a request that fits its share, whatever others hold.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::task::Waker;

use super::peer::Peer;

/// A client's own share in bytes: a request of 1 MiB, and the headers of all its requests in flight.
pub const OWN: u64 = (1 << 20) + (64 << 10);
/// The common pool in bytes: eight of the largest requests.
const COMMON: u64 = 256 << 20;

/// See the file's header.
#[derive(Default)]
pub struct Budget {
    /// Bytes taken from the pool.
    used: Cell<u64>,
    /// The same for each peer that has taken any.
    by_peer: RefCell<BTreeMap<Peer, u64>>,
    waiting: RefCell<Vec<Waker>>,
}

impl Budget {
    /// Lets a client of `peer`, which holds `from` bytes, hold `to` bytes; false, and nothing changes, if the pool has
    /// too little room.
    pub fn grow(&self, peer: Peer, from: u64, to: u64) -> bool {
        let more = beyond(to) - beyond(from);
        if more == 0 {
            return true;
        }
        let (mut by_peer, used) = (self.by_peer.borrow_mut(), self.used.get() + more);
        let of_one = by_peer.get(&peer).copied().unwrap_or(0) + more;
        let fits = used <= COMMON && of_one <= COMMON / 2;
        if fits {
            self.used.set(used);
            by_peer.insert(peer, of_one);
        }
        fits
    }

    /// Records that a client of `peer`, which held `from` bytes, now holds `to` bytes; wakes those that wait for that.
    pub fn shrink(&self, peer: Peer, from: u64, to: u64) {
        let less = beyond(from) - beyond(to);
        if less == 0 {
            return;
        }
        self.used.set(self.used.get() - less);
        let mut by_peer = self.by_peer.borrow_mut();
        let left = by_peer.get(&peer).copied().unwrap_or(0) - less;
        if left == 0 {
            by_peer.remove(&peer);
        } else {
            by_peer.insert(peer, left);
        }
        drop(by_peer);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Wakes this waker once, when a client holds less.
    pub fn wake_on_shrink(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }
}

/// The part of `held` beyond the client's own share.
fn beyond(held: u64) -> u64 {
    held.saturating_sub(OWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_share_and_all_have_a_bound() {
        let (budget, [one, other, third]) = (Budget::default(), [1, 2, 3].map(Peer::Process));
        assert!(budget.grow(one, 0, OWN + COMMON / 2), "one peer may have half of what there is");
        assert!(budget.grow(one, 0, OWN), "and another client of it its share");
        assert!(!budget.grow(one, OWN, OWN + 1));
        assert!(budget.grow(other, 0, OWN + COMMON / 2), "another peer has as much");
        assert!(budget.grow(third, 0, OWN) && !budget.grow(third, OWN, OWN + 1));
        budget.shrink(one, OWN + COMMON / 2, OWN + COMMON / 2 - 10);
        assert!(budget.grow(third, OWN, OWN + 10) && !budget.grow(third, OWN + 10, OWN + 11));
        budget.shrink(one, OWN + COMMON / 2 - 10, 0);
        budget.shrink(other, OWN + COMMON / 2, 0);
        budget.shrink(third, OWN + 10, 0);
        assert!(budget.used.get() == 0 && budget.by_peer.borrow().is_empty());
    }
}
