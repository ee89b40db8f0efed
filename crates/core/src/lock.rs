//! Range locks: overlapping requests are ordered by arrival at the layer.
//!
//! Invariants: a lock is granted when no earlier overlapping one conflicts with it, held or waiting; so it is fair, and
//! readers share. Locks are taken once per layer for the whole request; a request that needs several joins all queues
//! at once ([`lock_all`]). So every waiter waits for earlier arrivals only, and no cycle of waiters can form. (Taking
//! several one after the other, in ascending order, is not enough where a request locks a range: it may be queued for
//! both ends.) A waiter promotes all that it waits for to its own class, with all that their tickets reach.
//!
//! Fault model: a waiter may be dropped at any time; it leaves as if it had been granted and released.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::mutant;
use crate::request::{Class, Hints, Ticket};
use crate::units::Extent;

/// How a range is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Shared with others: readers, and movers that only read their source.
    Shared,
    /// Alone: writers.
    Exclusive,
}

/// The locks of one layer.
#[derive(Clone, Default)]
pub struct RangeLocks(Rc<RefCell<Table>>);

#[derive(Default)]
struct Table {
    /// By start and arrival.
    entries: BTreeMap<(u64, u64), Entry>,
    arrivals: u64,
    /// Entries that are not granted: if zero, no waiter has to be notified of a release.
    waiting: usize,
    /// Upper bound of the entries' lengths: how far before a range an overlapping one can start.
    longest: u64,
}

struct Entry {
    end: u64,
    mode: Mode,
    class: Class,
    /// Number of earlier conflicting entries; granted at zero.
    waits_for: u32,
    waker: Option<Waker>,
    ticket: Option<Ticket>,
}

impl Table {
    /// The entries that overlap `start..end`, as keys.
    fn overlapping(&mut self, start: u64, end: u64) -> impl Iterator<Item = ((u64, u64), &mut Entry)> {
        let from = start.saturating_sub(self.longest);
        self.entries
            .range_mut((from, 0)..(end, 0))
            .filter(move |(_, entry)| entry.end > start)
            .map(|(key, entry)| (*key, entry))
    }

    fn enter(&mut self, at: Extent, mode: Mode, class: Class, ticket: Option<Ticket>) -> (u64, u64) {
        let short = u64::from(at.sectors > 1 && mutant::is("lock: a range ends a sector early"));
        let (start, end) = (at.start.0, at.end().0 - short);
        let conflicts = self.overlapping(start, end).filter(|(_, other)| conflict(mode, other.mode)).count();
        self.longest = if mutant::is("lock: the longest range is forgotten") {
            at.sectors
        } else {
            self.longest.max(at.sectors)
        };
        self.waiting += usize::from(conflicts > 0);
        self.arrivals += 1;
        let key = (start, self.arrivals);
        self.entries
            .insert(key, Entry { end, mode, class, waits_for: conflicts as u32, waker: None, ticket });
        key
    }

    /// Raises all that `key` waits for to its class, and returns the tickets to promote.
    fn promote(&mut self, key: (u64, u64)) -> Vec<(Ticket, Class)> {
        let mut tickets = Vec::new();
        let mut todo = vec![key];
        while let Some(key) = todo.pop() {
            let Some(waiter) = self.entries.get(&key) else { continue };
            let (end, mode, class) = (waiter.end, waiter.mode, waiter.class);
            for (other, entry) in self.overlapping(key.0, end) {
                if other.1 < key.1 && conflict(mode, entry.mode) && entry.class > class {
                    entry.class = class;
                    tickets.extend(entry.ticket.clone().map(|ticket| (ticket, class)));
                    if entry.waits_for > 0 {
                        todo.push(other);
                    }
                }
            }
        }
        tickets
    }

    fn leave(&mut self, key: (u64, u64)) {
        let Some(removed) = self.entries.remove(&key) else { return };
        self.waiting -= usize::from(removed.waits_for > 0);
        if self.waiting == 0 {
            return;
        }
        let mut granted = 0;
        for (other, entry) in self.overlapping(key.0, removed.end) {
            if other.1 > key.1 && conflict(removed.mode, entry.mode) {
                entry.waits_for -= 1;
                if entry.waits_for == 0 {
                    granted += 1;
                    entry.waker.take().into_iter().for_each(Waker::wake);
                }
            }
        }
        self.waiting -= granted;
    }
}

fn conflict(one: Mode, other: Mode) -> bool {
    if mutant::is("lock: a shared lock overtakes an exclusive one") {
        return one == Mode::Exclusive && other == Mode::Exclusive;
    }
    one == Mode::Exclusive || other == Mode::Exclusive
}

impl RangeLocks {
    /// No locks.
    pub fn new() -> RangeLocks {
        RangeLocks::default()
    }

    /// Queues for `at` now; resolves when the lock is granted. `class` and `ticket` are the holder's: a more urgent
    /// waiter raises both.
    pub fn lock(&self, at: Extent, mode: Mode, class: Class, ticket: Option<Ticket>) -> Locking {
        let key = self.0.borrow_mut().enter(at, mode, class, ticket);
        Locking(Some(Guard { table: self.0.clone(), key }))
    }

    /// As `lock`, without waiting: `None` if a conflicting lock is held or waits.
    pub fn try_lock(&self, at: Extent, mode: Mode, class: Class, ticket: Option<Ticket>) -> Option<Guard> {
        let mut table = self.0.borrow_mut();
        let conflicts =
            table.overlapping(at.start.0, at.end().0).any(|(_, other)| conflict(mode, other.mode));
        let takes = mutant::is("lock: a try takes a range that others hold");
        (!conflicts || takes)
            .then(|| Guard { key: table.enter(at, mode, class, ticket), table: self.0.clone() })
    }

    /// Locks `at` shared, for a request with these hints.
    pub fn shared(&self, at: Extent, how: &Hints) -> Locking {
        self.lock(at, Mode::Shared, how.class, how.ticket.clone())
    }

    /// Locks `at` exclusively, for a request with these hints.
    pub fn exclusive(&self, at: Extent, how: &Hints) -> Locking {
        self.lock(at, Mode::Exclusive, how.class, how.ticket.clone())
    }

    /// Number of locks held or waited for.
    pub fn len(&self) -> usize {
        self.0.borrow().entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A place in the queue for a lock.
pub struct Locking(Option<Guard>);

impl Future for Locking {
    type Output = Guard;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Guard> {
        let Some(guard) = self.0.as_ref() else { return Poll::Pending };
        let mut table = guard.table.borrow_mut();
        let entry = table.entries.get_mut(&guard.key);
        match entry {
            Some(entry) if entry.waits_for > 0 => {
                let first = entry.waker.replace(context.waker().clone()).is_none();
                let tickets = if first { table.promote(guard.key) } else { Vec::new() };
                drop(table);
                // Promotion reaches into queues, which may wake tasks: not under the table's borrow.
                for (ticket, class) in tickets {
                    ticket.promote(class);
                }
                Poll::Pending
            }
            _ => {
                drop(table);
                self.0.take().map_or(Poll::Pending, Poll::Ready)
            }
        }
    }
}

/// Waits for several locks whose queues were joined with nothing in between.
pub async fn lock_all(places: impl Iterator<Item = Locking>) -> Vec<Guard> {
    // Join all queues before the first wait.
    let places: Vec<Locking> = places.collect();
    let mut guards = Vec::with_capacity(places.len());
    for place in places {
        guards.push(place.await);
    }
    guards
}

/// A held range, released when dropped.
pub struct Guard {
    table: Rc<RefCell<Table>>,
    key: (u64, u64),
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.table.borrow_mut().leave(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Runtime, now, sleep, spawn};
    use crate::units::Nanos;
    use proptest::prelude::*;

    /// A request: arrival, range, whether it writes, and how long it holds.
    type Request = (u64, u64, u64, bool, u64);

    /// Runs them all, and returns (granted, released) of each.
    fn hold_all(requests: Vec<Request>) -> Vec<(Nanos, Nanos)> {
        let runtime = Runtime::new(1);
        runtime
            .run(async {
                let locks = RangeLocks::new();
                let mut tasks = Vec::new();
                for (at, start, sectors, write, hold) in requests {
                    let locks = locks.clone();
                    tasks.push(spawn(async move {
                        sleep(Nanos(at)).await;
                        let mode = if write { Mode::Exclusive } else { Mode::Shared };
                        let guard =
                            locks.lock(Extent::new(start, sectors), mode, Class::Foreground, None).await;
                        let granted = now();
                        sleep(Nanos(hold)).await;
                        drop(guard);
                        (granted, now())
                    }));
                }
                let mut held = Vec::new();
                for task in tasks {
                    held.push(task.await);
                }
                assert!(locks.is_empty());
                held
            })
            .expect("no deadlock")
    }

    proptest! {
        /// Exclusion, sharing, fairness and the absence of deadlock, on random loads.
        #[test]
        fn conflicting_holders_are_ordered_by_arrival(
            mut requests in prop::collection::vec((0..50_u64, 0..40_u64, 1..20_u64, any::<bool>(), 0..30_u64), 1..60)
        ) {
            requests.sort_by_key(|a| a.0);
            let held = hold_all(requests.clone());
            for (later, a) in requests.iter().enumerate() {
                // Granted exactly when the last earlier conflicting lock was released, never before.
                let free = (0..later)
                    .filter(|&earlier| {
                        let b = &requests[earlier];
                        (a.3 || b.3) && Extent::new(a.1, a.2).overlaps(Extent::new(b.1, b.2))
                    })
                    .map(|earlier| held[earlier].1)
                    .max();
                prop_assert_eq!(held[later].0, free.unwrap_or_default().max(Nanos(a.0)));
            }
        }
    }

    #[test]
    fn a_waiter_promotes_holders_and_those_they_wait_for() {
        let locks = RangeLocks::new();
        let tickets = [Ticket::new(), Ticket::new(), Ticket::new()];
        Runtime::new(1)
            .run(async {
                let lock = |start, sectors, i: usize| {
                    locks.lock(
                        Extent::new(start, sectors),
                        Mode::Exclusive,
                        Class::Background,
                        Some(tickets[i].clone()),
                    )
                };
                let first = lock(0, 8, 0).await;
                let second = lock(4, 8, 1);
                let _elsewhere = lock(100, 8, 2).await;
                let second = spawn(second);
                sleep(Nanos(1)).await;
                let reader = spawn(locks.lock(Extent::new(8, 2), Mode::Shared, Class::Foreground, None));
                sleep(Nanos(1)).await;
                assert_eq!(
                    tickets.each_ref().map(Ticket::class),
                    [Class::Foreground, Class::Foreground, Class::Free]
                );
                drop(first);
                drop(second.await);
                reader.await;
            })
            .unwrap();
    }

    /// A range over both of a pair's ends arrives while the pair waits for its second one.
    #[test]
    fn several_locks_and_a_range_over_them_do_not_deadlock() {
        let locks = RangeLocks::new();
        Runtime::new(1)
            .run(async {
                let lock = |start, sectors| {
                    locks.lock(Extent::new(start, sectors), Mode::Exclusive, Class::Foreground, None)
                };
                let first = lock(35, 10).await;
                let pair = spawn(lock_all([lock(10, 10), lock(30, 10)].into_iter()));
                sleep(Nanos(1)).await;
                let over = spawn(lock(15, 20));
                sleep(Nanos(1)).await;
                drop(first);
                drop(pair.await);
                drop(over.await);
            })
            .unwrap();
    }

    #[test]
    fn try_lock_does_not_wait() {
        let locks = RangeLocks::new();
        let take = |start, mode| locks.try_lock(Extent::new(start, 8), mode, Class::Background, None);
        let reader = take(0, Mode::Shared).unwrap();
        assert!(take(4, Mode::Exclusive).is_none() && take(4, Mode::Shared).is_some());
        let waits = locks.lock(Extent::new(4, 8), Mode::Exclusive, Class::Foreground, None);
        assert!(take(8, Mode::Shared).is_none(), "another request waits for it");
        drop((reader, waits));
        assert!(take(8, Mode::Exclusive).is_some() && locks.is_empty());
    }

    #[test]
    fn a_waiter_that_is_dropped_leaves_the_line() {
        let locks = RangeLocks::new();
        Runtime::new(1)
            .run(async {
                let whole = Extent::new(0, 100);
                let lock = |mode| locks.lock(whole, mode, Class::Foreground, None);
                let reader = lock(Mode::Shared).await;
                let writer = lock(Mode::Exclusive);
                let after = spawn(lock(Mode::Shared));
                sleep(Nanos(1)).await;
                assert!(!after.is_finished(), "a reader does not overtake a waiting writer");
                drop(writer);
                after.await;
                drop(reader);
            })
            .unwrap();
    }
}
