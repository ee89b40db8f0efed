//! State shared by movers and requests: copies in progress, locks that a mover holds, and waiters.

use std::cell::RefCell;

use rustc_hash::FxHashMap;
use seekless_core::lock::Guard;
use seekless_core::{Extent, Hints, Nanos, RangeLocks, Ticket, invariant};

/// State shared by movers and requests.
#[derive(Default)]
pub struct Movers {
    /// Lock of the running mover.
    pub(super) one: RangeLocks,
    pub(super) state: RefCell<Moving>,
}

/// State of [`Movers`].
#[derive(Default)]
pub(super) struct Moving {
    /// Pages with an optimistic copy in progress; whether they were written meanwhile.
    pub(super) optimistic: FxHashMap<u64, bool>,
    /// Extents locked by a mover, in ascending order.
    pub(super) locked: Vec<Extent>,
    /// The longest that a request waited for pages locked by a mover.
    longest_wait: Nanos,
    /// Stop requests to movers.
    stop_requests: u32,
    /// The ticket of a mover that copies in the class `Free`.
    pub(super) free_ticket: Option<Ticket>,
    /// Whether its copies may be aborted, since nothing waits for them.
    pub(super) abortable: bool,
    /// Pages that reached their maximum age while a mover runs.
    overdue: Vec<u64>,
}

impl Movers {
    /// The longest that a request waited for pages locked by a mover.
    pub fn longest_wait(&self) -> Nanos {
        self.state.borrow().longest_wait
    }

    /// Whether a mover runs, or waits for another.
    pub fn is_running(&self) -> bool {
        !self.one.is_empty()
    }

    /// Waits for the running mover to end, and keeps others from starting.
    pub async fn alone(&self, how: &Hints) -> Guard {
        self.one.exclusive(Extent::new(0, 1), how).await
    }

    /// Whether a mover holds some of these sectors.
    pub fn holds_any(&self, at: Extent) -> bool {
        let locked = &self.state.borrow().locked;
        let first = locked.partition_point(|held| held.end() <= at.start);
        locked.get(first).is_some_and(|held| held.overlaps(at))
    }

    /// Records a request's wait for a mover.
    pub fn waited(&self, wait: Nanos) {
        let state = &mut *self.state.borrow_mut();
        state.longest_wait = state.longest_wait.max(wait);
    }

    /// Invalidates optimistic copies of these pages; returns whether there were any.
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

    /// Whether there is a stop request ([`Movers::add_stop_request`]).
    pub fn is_stop_requested(&self) -> bool {
        self.state.borrow().stop_requests > 0
    }

    /// Adds a stop request.
    pub fn add_stop_request(&self) {
        self.state.borrow_mut().stop_requests += 1;
    }

    /// Removes a stop request.
    pub fn remove_stop_request(&self) {
        let stop_requests = &mut self.state.borrow_mut().stop_requests;
        invariant!("no count wraps", *stop_requests > 0);
        *stop_requests -= 1;
    }

    /// The ticket of the mover that copies in the class `Free`, if any.
    pub fn free_ticket(&self) -> Option<Ticket> {
        self.state.borrow().free_ticket.clone()
    }

    /// The same, if its copies may be aborted.
    pub fn ticket_to_abort(&self) -> Option<Ticket> {
        let state = self.state.borrow();
        state.free_ticket.clone().filter(|_| state.abortable)
    }

    /// Sets the pages that reached their maximum age: a mover that waits for its turn drains them.
    pub fn set_overdue(&self, pages: Vec<u64>) {
        self.state.borrow_mut().overdue = pages;
    }

    /// Whether there are any.
    pub fn has_overdue(&self) -> bool {
        !self.state.borrow().overdue.is_empty()
    }

    /// Takes them.
    pub fn take_overdue(&self) -> Vec<u64> {
        std::mem::take(&mut self.state.borrow_mut().overdue)
    }

    /// Records that the mover released its locks.
    pub fn locks_released(&self) {
        self.state.borrow_mut().locked.clear();
    }
}
