//! Fetches of a layer that are ahead of its clients: each run of pages has a ticket and, if the layer wants it, a lock
//! that readers of its pages wait for.
//!
//! Invariants: a lock is held until its fetch has ended, however it ended. After [`Ahead::quiesce`] no fetch is in
//! flight, and none begins. Fault model: that of the dispatcher; a fetch that fails is skipped.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::lock::Guard;
use seekless_core::runtime;
use seekless_core::{Class, Extent, Hints, Mode, RangeLocks, Ticket};

use super::Dispatcher;
use crate::cache::Cache;

/// Fetches into a cache.
pub struct Ahead {
    cache: Rc<Cache>,
    /// Pages being fetched.
    fetching: RangeLocks,
    /// Held by dispatchers.
    dispatching: RangeLocks,
    /// Their tickets, by number.
    tickets: RefCell<BTreeMap<u64, Vec<Ticket>>>,
    /// Pages of the fetches that have not ended.
    in_flight: Cell<u64>,
}

/// Permission to fetch: fetching does not stop before it is dropped.
pub struct Working(#[allow(dead_code, reason = "held, not read")] Guard);

impl Ahead {
    /// No fetches yet.
    pub fn new(cache: Rc<Cache>) -> Ahead {
        let (fetching, dispatching) = (RangeLocks::new(), RangeLocks::new());
        Ahead { cache, fetching, dispatching, tickets: RefCell::default(), in_flight: Cell::new(0) }
    }

    /// Permission to fetch; `None` while the layer is stopping.
    pub fn begin(&self, class: Class) -> Option<Working> {
        self.dispatching.try_lock(Extent::new(0, 1), Mode::Shared, class, None).map(Working)
    }

    /// Whether readers of these pages have to wait for a fetch of one of them.
    pub fn is_fetching(&self, at: Extent, class: Class) -> bool {
        self.fetching.try_lock(at, Mode::Shared, class, None).is_none()
    }

    /// Pages of the fetches that have not ended.
    pub fn pages_in_flight(&self) -> u64 {
        self.in_flight.get()
    }

    /// Whether there are no fetches, and none of their locks and tickets.
    pub fn is_idle(&self) -> bool {
        self.in_flight.get() == 0 && self.fetching.is_empty() && self.tickets.borrow().is_empty()
    }

    /// Fetches these runs of whole pages in this order, `at_once` at a time. If it `holds` their readers, they wait.
    pub fn fetch(
        self: &Rc<Ahead>,
        working: Working,
        runs: Vec<Extent>,
        how: Hints,
        holds: bool,
        at_once: usize,
    ) {
        let runs: Vec<(Extent, Ticket)> = runs.into_iter().map(|run| (run, Ticket::new())).collect();
        let mut held = BTreeMap::new();
        if holds {
            for (run, ticket) in &runs {
                // What a client is reading already it need not wait for; and what it waits for is promoted.
                let guard = self.fetching.try_lock(*run, Mode::Exclusive, how.class, Some(ticket.clone()));
                held.extend(guard.map(|guard| (run.start, guard)));
            }
        }
        let number = self.tickets.borrow().last_key_value().map_or(0, |(last, _)| last + 1);
        self.tickets.borrow_mut().insert(number, runs.iter().map(|(_, ticket)| ticket.clone()).collect());
        let pages = runs.iter().map(|(run, _)| run.page_count()).sum::<u64>();
        self.in_flight.set(self.in_flight.get() + pages);
        let held = RefCell::new(held);
        let dispatcher = Dispatcher { stream: runs.into_iter(), how, at_once };
        let me = self.clone();
        runtime::spawn(async move {
            let done = |run: Extent| {
                me.in_flight.set(me.in_flight.get() - run.page_count());
                drop(held.borrow_mut().remove(&run.start));
            };
            dispatcher.run(&*me.cache, done).await;
            me.tickets.borrow_mut().remove(&number);
            drop(working);
        })
        .detach();
    }

    /// Waits until no page of these is being fetched, and promotes the fetches.
    pub async fn wait(&self, at: Extent, how: &Hints) {
        drop(self.fetching.shared(at, how).await);
    }

    /// Ends fetching, and waits for that.
    pub async fn quiesce(&self) {
        self.tickets.take().values().flatten().for_each(Ticket::abort);
        drop(self.dispatching.lock(Extent::new(0, 1), Mode::Exclusive, Class::Foreground, None).await);
    }
}
