//! Limits of requests in flight: in a volume, which its top ([`crate::Top`]) enforces, and of background work at a real
//! device. Above them requests wait, fairly between clients. Background work has limits of its own, so neither starves
//! the other.
//!
//! Fault model: a request may be dropped while it waits or after it was admitted; nothing leaks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::request::{Class, Hints, StreamId};

/// Bytes in flight per volume, for each of foreground and background: two of the largest requests.
const IN_FLIGHT_BYTES: u64 = 64 << 20;
/// Requests in flight per volume, for each of foreground and background.
const IN_FLIGHT_REQUESTS: u64 = 1024;

/// Limits of requests in flight.
#[derive(Clone)]
pub struct Limits {
    foreground: Rc<Pool>,
    background: Rc<Pool>,
}

struct Pool {
    bytes: u64,
    bytes_free: Cell<u64>,
    requests_free: Cell<u64>,
    /// Waiting requests, by client; clients take turns.
    waiting: RefCell<BTreeMap<StreamId, VecDeque<Rc<Waiter>>>>,
    last: Cell<StreamId>,
}

struct Waiter {
    bytes: u64,
    waker: RefCell<Option<Waker>>,
    permit: RefCell<Option<Permit>>,
}

/// Permission to be in flight; returned when dropped.
pub struct Permit {
    pool: Rc<Pool>,
    bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits::new(IN_FLIGHT_BYTES, IN_FLIGHT_REQUESTS)
    }
}

impl Limits {
    /// Limits of `bytes` and `requests`, for each of foreground and background.
    pub fn new(bytes: u64, requests: u64) -> Limits {
        let pool = || {
            Rc::new(Pool {
                bytes,
                bytes_free: Cell::new(bytes),
                requests_free: Cell::new(requests),
                waiting: RefCell::default(),
                last: Cell::default(),
            })
        };
        Limits { foreground: pool(), background: pool() }
    }

    /// Waits until a request of `bytes` bytes fits; one above the limit, until nothing else is in flight.
    pub async fn admit(&self, how: &Hints, bytes: u64) -> Permit {
        let pool = if how.class <= Class::Foreground { &self.foreground } else { &self.background };
        let bytes = bytes.min(pool.bytes);
        if pool.waiting.borrow().is_empty() {
            if let Some(permit) = pool.take(bytes) {
                pool.last.set(how.origin.stream);
                return permit;
            }
        }
        let waiter = Rc::new(Waiter { bytes, waker: RefCell::default(), permit: RefCell::default() });
        pool.waiting.borrow_mut().entry(how.origin.stream).or_default().push_back(waiter.clone());
        let entry = QueueEntry { pool: pool.clone(), client: how.origin.stream, waiter };
        poll_fn(|context| {
            entry.waiter.permit.borrow_mut().take().map_or_else(
                || {
                    entry.waiter.waker.replace(Some(context.waker().clone()));
                    Poll::Pending
                },
                Poll::Ready,
            )
        })
        .await
    }
}

/// Leaves the queue when its request is dropped.
struct QueueEntry {
    pool: Rc<Pool>,
    client: StreamId,
    waiter: Rc<Waiter>,
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        let mut waiting = self.pool.waiting.borrow_mut();
        if let Some(queue) = waiting.get_mut(&self.client) {
            queue.retain(|waiter| !Rc::ptr_eq(waiter, &self.waiter));
            if queue.is_empty() {
                waiting.remove(&self.client);
            }
        }
    }
}

impl Pool {
    fn take(self: &Rc<Self>, bytes: u64) -> Option<Permit> {
        let bytes_left = self.bytes_free.get().checked_sub(bytes)?;
        let requests_left = self.requests_free.get().checked_sub(1)?;
        self.bytes_free.set(bytes_left);
        self.requests_free.set(requests_left);
        Some(Permit { pool: self.clone(), bytes })
    }

    /// Admits the next client's first waiter, and so on, as long as they fit. A large one blocks those after it, or
    /// small ones would pass it for ever.
    fn admit_waiting(self: &Rc<Self>) {
        let mut waiting = self.waiting.borrow_mut();
        while !waiting.is_empty() {
            let next =
                waiting.range((Excluded(self.last.get()), Unbounded)).next().map(|(client, _)| *client);
            let Some(client) = next.or_else(|| waiting.keys().next().copied()) else { return };
            let Some(queue) = waiting.get_mut(&client) else { return };
            let Some(permit) = queue.front().and_then(|waiter| self.take(waiter.bytes)) else { return };
            if let Some(waiter) = queue.pop_front() {
                waiter.permit.replace(Some(permit));
                waiter.waker.take().into_iter().for_each(Waker::wake);
            }
            if queue.is_empty() {
                waiting.remove(&client);
            }
            self.last.set(client);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.pool.bytes_free.set(self.pool.bytes_free.get() + self.bytes);
        self.pool.requests_free.set(self.pool.requests_free.get() + 1);
        self.pool.admit_waiting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Origin;
    use crate::runtime::{Runtime, now, sleep, spawn};
    use crate::units::Nanos;

    fn from_client(client: u32) -> Hints {
        Hints { origin: Origin { stream: StreamId(client), ..Origin::default() }, ..Hints::default() }
    }

    #[test]
    fn clients_take_turns_and_nothing_passes_a_large_request() {
        Runtime::new(1)
            .run(async {
                let limits = Limits::new(100, 2);
                let order: Rc<RefCell<Vec<(u32, u64)>>> = Rc::default();
                let mut tasks = Vec::new();
                // Client 1 submits four requests at once, client 2 two, one of them for everything.
                for (client, bytes) in [(1, 10), (1, 11), (1, 12), (1, 13), (2, 20), (2, 100)] {
                    let (limits, order) = (limits.clone(), order.clone());
                    tasks.push(spawn(async move {
                        let permit = limits.admit(&from_client(client), bytes).await;
                        order.borrow_mut().push((client, bytes));
                        sleep(Nanos(10)).await;
                        drop(permit);
                    }));
                }
                let background = Hints { class: Class::Background, ..Hints::default() };
                limits.admit(&background, 100).await;
                assert_eq!(now(), Nanos::ZERO, "background has a share of its own");
                for task in tasks {
                    task.await;
                }
                assert_eq!(*order.borrow(), [(1, 10), (1, 11), (2, 20), (1, 12), (2, 100), (1, 13)]);
            })
            .unwrap();
    }

    #[test]
    fn a_dropped_request_gives_its_place_back() {
        Runtime::new(1)
            .run(async {
                let limits = Limits::new(100, 1);
                let held = limits.admit(&from_client(1), 1).await;
                let ask = || {
                    let limits = limits.clone();
                    spawn(async move { drop(limits.admit(&from_client(2), 1).await) })
                };
                let (dropped, kept) = (ask(), ask());
                sleep(Nanos(1)).await;
                drop(dropped);
                sleep(Nanos(1)).await;
                drop(held);
                kept.await;
                assert!(limits.foreground.waiting.borrow().is_empty());
                assert_eq!(
                    (limits.foreground.bytes_free.get(), limits.foreground.requests_free.get()),
                    (100, 1)
                );
            })
            .unwrap();
    }
}
