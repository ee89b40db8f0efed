//! The requests of one class that wait, in the orders that schedulers ask for.
//!
//! Invariant: each order holds the same requests.

use std::collections::BTreeMap;

use seekless_core::{Lba, Nanos};

use super::{Place, Scheduler, Slot};

/// A request in line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiter {
    /// Its number in the queue.
    pub slot: Slot,
    /// Which one it was, counted from 1: no two have the same.
    pub arrival: u64,
    /// Since when it waits.
    pub since: Nanos,
    /// Whether it is a write.
    pub write: bool,
    /// Where it begins, for a scheduler that ranks by position.
    pub place: Place,
}

/// The requests of one class that wait.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    addresses: BTreeMap<(Lba, u64), Slot>,
    arrivals: BTreeMap<u64, Waiter>,
    /// Kept only for a scheduler that ranks by position.
    cylinders: Option<BTreeMap<(u32, u64), Waiter>>,
}

impl Waiting {
    /// None, for this scheduler.
    pub fn new(scheduler: &dyn Scheduler) -> Waiting {
        Waiting { cylinders: scheduler.by_position().then(BTreeMap::new), ..Waiting::default() }
    }

    /// A request starts to wait; its first sector is `start`.
    pub fn add(&mut self, start: Lba, waiter: Waiter) {
        self.addresses.insert((start, waiter.arrival), waiter.slot);
        self.arrivals.insert(waiter.arrival, waiter);
        if let Some(cylinders) = &mut self.cylinders {
            cylinders.insert((waiter.place.cylinder, waiter.arrival), waiter);
        }
    }

    /// A request waits no more.
    pub fn remove(&mut self, start: Lba, waiter: &Waiter) {
        self.addresses.remove(&(start, waiter.arrival));
        self.arrivals.remove(&waiter.arrival);
        if let Some(cylinders) = &mut self.cylinders {
            cylinders.remove(&(waiter.place.cylinder, waiter.arrival));
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    /// The one that waits longest.
    pub fn oldest(&self) -> Option<&Waiter> {
        self.arrivals.first_key_value().map(|(_, waiter)| waiter)
    }

    /// Who waits longest first.
    pub fn by_age(&self) -> impl Iterator<Item = &Waiter> {
        self.arrivals.values()
    }

    /// Those from `from` on, by address.
    pub fn from(&self, from: Lba) -> impl Iterator<Item = (Lba, Slot)> {
        self.addresses.range((from, 0)..).map(|(&(start, _), &slot)| (start, slot))
    }

    /// Those below `to`, by descending address.
    pub fn below(&self, to: Lba) -> impl Iterator<Item = (Lba, Slot)> {
        self.addresses.range(..(to, 0)).rev().map(|(&(start, _), &slot)| (start, slot))
    }

    /// Shows them to `look` with their distance from this cylinder, from there on upward and downward in
    /// turn. In a direction in which `look` says no it goes no farther. None for a scheduler that does not
    /// rank by position.
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
