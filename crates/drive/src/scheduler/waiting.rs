//! The waiting requests of one class, in the orders that schedulers need.
//!
//! Invariant: each order holds the same requests.

use std::collections::BTreeMap;

use seekless_core::{Lba, Nanos};

use super::{Place, Scheduler, Slot};

/// A waiting request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiter {
    /// Number in the queue.
    pub slot: Slot,
    /// Arrival number, counted from 1: unique.
    pub arrival: u64,
    /// Arrival time.
    pub since: Nanos,
    /// Whether it is a write.
    pub write: bool,
    /// Place of its first sector, for a position-aware scheduler.
    pub place: Place,
}

/// The waiting requests of one class.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    addresses: BTreeMap<(Lba, u64), Slot>,
    arrivals: BTreeMap<u64, Waiter>,
    /// Only for a position-aware scheduler.
    cylinders: Option<BTreeMap<(u32, u64), Waiter>>,
}

impl Waiting {
    /// No requests yet, in the orders that this scheduler needs.
    pub fn new(scheduler: &dyn Scheduler) -> Waiting {
        Waiting { cylinders: scheduler.by_position().then(BTreeMap::new), ..Waiting::default() }
    }

    /// Adds a request; its first sector is `start`.
    pub fn add(&mut self, start: Lba, waiter: Waiter) {
        self.addresses.insert((start, waiter.arrival), waiter.slot);
        self.arrivals.insert(waiter.arrival, waiter);
        if let Some(cylinders) = &mut self.cylinders {
            cylinders.insert((waiter.place.cylinder, waiter.arrival), waiter);
        }
    }

    /// Removes a request.
    pub fn remove(&mut self, start: Lba, waiter: &Waiter) {
        self.addresses.remove(&(start, waiter.arrival));
        self.arrivals.remove(&waiter.arrival);
        if let Some(cylinders) = &mut self.cylinders {
            cylinders.remove(&(waiter.place.cylinder, waiter.arrival));
        }
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    /// The oldest request.
    pub fn oldest(&self) -> Option<&Waiter> {
        self.arrivals.first_key_value().map(|(_, waiter)| waiter)
    }

    /// The requests, oldest first.
    pub fn by_age(&self) -> impl Iterator<Item = &Waiter> {
        self.arrivals.values()
    }

    /// The requests from `from` on, by address.
    pub fn from(&self, from: Lba) -> impl Iterator<Item = (Lba, Slot)> {
        self.addresses.range((from, 0)..).map(|(&(start, _), &slot)| (start, slot))
    }

    /// The requests below `to`, by descending address.
    pub fn below(&self, to: Lba) -> impl Iterator<Item = (Lba, Slot)> {
        self.addresses.range(..(to, 0)).rev().map(|(&(start, _), &slot)| (start, slot))
    }

    /// Calls `look` for the requests with their distance from this cylinder, outward from there. A direction ends where
    /// `look` returns false. Does nothing for a scheduler that is not position-aware.
    pub fn outward(&self, cylinder: u32, mut look: impl FnMut(u32, &Waiter) -> bool) {
        let Some(all) = &self.cylinders else { return };
        let mut up = all.range((cylinder, 0)..);
        let mut down = all.range(..(cylinder, 0)).rev();
        let (mut above, mut below) = (true, true);
        while above || below {
            above = above && up.next().is_some_and(|(at, waiter)| look(at.0 - cylinder, waiter));
            below = below && down.next().is_some_and(|(at, waiter)| look(cylinder - at.0, waiter));
        }
    }
}
