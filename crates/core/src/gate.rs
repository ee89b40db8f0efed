//! A gate: many tasks pass concurrently, until one closes it; then those inside finish, and newcomers wait.
//!
//! Invariants: the task that closed the gate is alone inside. First come, first served, both to pass and to close:
//! waiting tasks are admitted in order of arrival, and later ones do not overtake them.
//!
//! Fault model: a task that waits or is inside may be dropped at any time; it leaves as if it had finished.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The gate.
#[derive(Default)]
pub struct Gate {
    inside: Cell<u64>,
    closed: Cell<bool>,
    line: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Waiter {
    alone: bool,
    waker: RefCell<Option<Waker>>,
}

/// Permission to be inside, until dropped.
pub struct GateGuard<'a> {
    gate: &'a Gate,
    alone: bool,
}

impl Gate {
    /// Waits until the gate is open, and enters with others.
    pub async fn pass(&self) -> GateGuard<'_> {
        self.enter(false).await
    }

    /// Waits until the gate is empty, and enters alone.
    pub async fn close(&self) -> GateGuard<'_> {
        self.enter(true).await
    }

    /// Whether a task waits.
    pub fn has_waiters(&self) -> bool {
        !self.line.borrow().is_empty()
    }

    async fn enter(&self, alone: bool) -> GateGuard<'_> {
        if self.line.borrow().is_empty() && self.admits(alone) {
            return self.entered(alone);
        }
        // The fast path, without waiting, carries no state for it.
        Box::pin(self.wait(alone)).await
    }

    async fn wait(&self, alone: bool) -> GateGuard<'_> {
        let waiter = Rc::new(Waiter { alone, waker: RefCell::default() });
        self.line.borrow_mut().push_back(waiter.clone());
        let place = QueueEntry { gate: self, waiter };
        poll_fn(|context| {
            if self.is_first(&place.waiter) && self.admits(alone) {
                return Poll::Ready(());
            }
            place.waiter.waker.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
        // Enter before leaving the queue, which lets the next waiter check.
        self.entered(alone)
    }

    fn admits(&self, alone: bool) -> bool {
        !self.closed.get() && (!alone || self.inside.get() == 0)
    }

    fn entered(&self, alone: bool) -> GateGuard<'_> {
        if alone {
            self.closed.set(true);
        } else {
            self.inside.set(self.inside.get() + 1);
        }
        GateGuard { gate: self, alone }
    }

    fn is_first(&self, waiter: &Rc<Waiter>) -> bool {
        self.line.borrow().front().is_some_and(|first| Rc::ptr_eq(first, waiter))
    }

    /// Wakes the first waiter in the queue.
    fn wake_first(&self) {
        let first = self.line.borrow().front().filter(|first| self.admits(first.alone)).cloned();
        first.and_then(|first| first.waker.take()).into_iter().for_each(Waker::wake);
    }
}

/// Leaves the queue when admitted or dropped.
struct QueueEntry<'a> {
    gate: &'a Gate,
    waiter: Rc<Waiter>,
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        self.gate.line.borrow_mut().retain(|waiter| !Rc::ptr_eq(waiter, &self.waiter));
        self.gate.wake_first();
    }
}

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        if self.alone {
            self.gate.closed.set(false);
        } else {
            self.gate.inside.set(self.gate.inside.get() - 1);
        }
        self.gate.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Runtime, now, sleep, spawn};
    use crate::units::Nanos;
    use proptest::prelude::*;

    /// Arrival time, whether alone, and duration.
    type Comes = (u64, bool, u64);

    /// Runs them all; returns (number, entry, exit) in order of entry.
    fn let_all_in(comes: &[Comes]) -> Vec<(usize, Nanos, Nanos)> {
        let entered: Rc<RefCell<Vec<_>>> = Rc::default();
        Runtime::new(1)
            .run(async {
                let gate: Rc<Gate> = Rc::default();
                let tasks = comes.iter().copied().enumerate().map(|(number, (at, alone, stays))| {
                    let (gate, entered) = (gate.clone(), entered.clone());
                    spawn(async move {
                        sleep(Nanos(at)).await;
                        let inside = if alone { gate.close().await } else { gate.pass().await };
                        entered.borrow_mut().push((number, now(), now() + Nanos(stays)));
                        sleep(Nanos(stays)).await;
                        drop(inside);
                    })
                });
                for task in tasks.collect::<Vec<_>>() {
                    task.await;
                }
                assert!(!gate.has_waiters() && gate.inside.get() == 0 && !gate.closed.get());
            })
            .expect("no task waits for ever");
        entered.take()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Exclusion, order and no idle waits, on random loads.
        #[test]
        fn tasks_enter_in_order_of_arrival_and_as_soon_as_possible(
            mut comes in prop::collection::vec((0..60_u64, prop::bool::weighted(0.3), 0..30_u64), 1..60)
        ) {
            comes.sort_by_key(|one| one.0);
            let entered = let_all_in(&comes);
            for (place, &(number, at, _)) in entered.iter().enumerate() {
                prop_assert_eq!(place, number, "in the order in which they came");
                let (came, alone, _) = comes[number];
                let before = &entered[..place];
                let free = before.iter().filter(|(other, ..)| alone || comes[*other].1).map(|other| other.2).max();
                let last = before.last().map(|other| other.1);
                prop_assert_eq!(at, Nanos(came).max(free.unwrap_or_default()).max(last.unwrap_or_default()));
            }
        }
    }

    #[test]
    fn a_dropped_waiter_leaves_the_queue_or_admits_others() {
        Runtime::new(1)
            .run(async {
                let gate: Rc<Gate> = Rc::default();
                let enter = |alone| {
                    let gate = gate.clone();
                    spawn(async move { drop(gate.enter(alone).await) })
                };
                let inside = gate.pass().await;
                let (closing, passing, other) = (enter(true), enter(false), enter(true));
                sleep(Nanos(1)).await;
                assert!(!passing.is_finished(), "a waiting close is not overtaken");
                drop(closing);
                passing.await;
                assert!(!other.is_finished());
                drop(inside);
                other.await;
                let closed = gate.close().await;
                let waits = enter(false);
                sleep(Nanos(1)).await;
                drop(closed);
                waits.await;
            })
            .unwrap();
    }
}
