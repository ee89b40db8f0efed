//! What movers and requests know of each other: which copies are under way, whose locks a mover holds, who waits.

use std::cell::RefCell;

use rustc_hash::FxHashMap;
use seekless_core::lock::Guard;
use seekless_core::{Extent, Hints, Nanos, RangeLocks, Ticket, invariant};

/// What movers and requests know of each other.
#[derive(Default)]
pub struct Movers {
    /// Held by the mover that is at work.
    pub(super) one: RangeLocks,
    pub(super) state: RefCell<Moving>,
}

/// See [`Movers`].
#[derive(Default)]
pub(super) struct Moving {
    /// Pages whose copies are under way, taken without a lock; whether they were written meanwhile.
    pub(super) optimistic: FxHashMap<u64, bool>,
    /// What a mover holds the locks of, in ascending order.
    pub(super) locked: Vec<Extent>,
    /// The longest that a request waited for its pages when a mover held some of them.
    longest_wait: Nanos,
    /// Waiters for movers to end.
    awaited: u32,
    /// The ticket of a mover that copies for free.
    pub(super) free: Option<Ticket>,
}

impl Movers {
    /// The longest that a request waited for its pages when a mover held some of them.
    pub fn longest_wait(&self) -> Nanos {
        self.state.borrow().longest_wait
    }

    /// Whether one is at work, or waits for another.
    pub fn is_one_at_work(&self) -> bool {
        !self.one.is_empty()
    }

    /// Keeps movers from beginning, when the one at work has ended.
    pub async fn alone(&self, how: &Hints) -> Guard {
        self.one.exclusive(Extent::new(0, 1), how).await
    }

    /// Whether a mover holds some of these sectors.
    pub fn hold(&self, at: Extent) -> bool {
        let locked = &self.state.borrow().locked;
        let first = locked.partition_point(|held| held.end() <= at.start);
        locked.get(first).is_some_and(|held| held.overlaps(at))
    }

    /// A request waited so long for a mover.
    pub fn waited(&self, wait: Nanos) {
        let state = &mut *self.state.borrow_mut();
        state.longest_wait = state.longest_wait.max(wait);
    }

    /// Copies of these pages that are under way are stale; whether there are any.
    pub fn invalidate(&self, at: Extent) -> bool {
        let optimistic = &mut self.state.borrow_mut().optimistic;
        let mut any = false;
        if !optimistic.is_empty() {
            for page in at.pages() {
                optimistic.entry(page).and_modify(|written| {
                    *written = true;
                    any = true;
                });
            }
        }
        any
    }

    /// Whether somebody waits for movers to end, so often as [`Movers::await_end`] says.
    pub fn are_awaited(&self) -> bool {
        self.state.borrow().awaited > 0
    }

    /// Somebody waits for movers to end, or does no more.
    pub fn await_end(&self, waits: bool) {
        let awaited = &mut self.state.borrow_mut().awaited;
        invariant!("no count wraps", waits || *awaited > 0);
        *awaited = if waits { *awaited + 1 } else { *awaited - 1 };
    }

    /// The ticket of the mover that copies for free, if one does.
    pub fn free_ticket(&self) -> Option<Ticket> {
        self.state.borrow().free.clone()
    }

    /// No mover holds locks any more.
    pub fn unlocked(&self) {
        self.state.borrow_mut().locked.clear();
    }
}
