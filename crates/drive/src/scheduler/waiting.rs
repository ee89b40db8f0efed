//! The requests of one class that wait, in the orders that schedulers ask for.
//!
//! Invariant: each order holds the same requests.

use std::collections::{BTreeMap, btree_map};
use std::iter::Rev;

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
    /// Its first sector.
    pub start: Lba,
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
    cylinders: Option<BTreeMap<(u64, u64), Waiter>>,
}

impl Waiting {
    /// None, for this scheduler.
    pub fn new(scheduler: &dyn Scheduler) -> Waiting {
        Waiting { cylinders: scheduler.by_position().then(BTreeMap::new), ..Waiting::default() }
    }

    /// A request starts to wait.
    pub fn add(&mut self, waiter: Waiter) {
        self.addresses.insert((waiter.start, waiter.arrival), waiter.slot);
        self.arrivals.insert(waiter.arrival, waiter);
        if let Some(cylinders) = &mut self.cylinders {
            cylinders.insert((waiter.place.cylinder, waiter.arrival), waiter);
        }
    }

    /// A request waits no more.
    pub fn remove(&mut self, waiter: &Waiter) {
        self.addresses.remove(&(waiter.start, waiter.arrival));
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

    /// All of them with their distance from this cylinder, nearest first. None for a scheduler that does
    /// not rank by position.
    pub fn outward(&self, cylinder: u64) -> Outward<'_> {
        let (mut up, mut down) = match &self.cylinders {
            Some(all) => (all.range((cylinder, 0)..), all.range(..(cylinder, 0)).rev()),
            None => Default::default(),
        };
        let (above, below) = (up.next(), down.next());
        Outward { cylinder, up, down, above: above.map(second), below: below.map(second) }
    }
}

fn second<'a>((_, waiter): (&(u64, u64), &'a Waiter)) -> &'a Waiter {
    waiter
}

/// Requests by their distance from a cylinder.
pub struct Outward<'a> {
    cylinder: u64,
    up: btree_map::Range<'a, (u64, u64), Waiter>,
    down: Rev<btree_map::Range<'a, (u64, u64), Waiter>>,
    /// The next of each side.
    above: Option<&'a Waiter>,
    below: Option<&'a Waiter>,
}

impl<'a> Iterator for Outward<'a> {
    type Item = (u64, &'a Waiter);

    fn next(&mut self) -> Option<Self::Item> {
        let distance = |waiter: &Waiter| waiter.place.cylinder.abs_diff(self.cylinder);
        let up = match (self.above, self.below) {
            (Some(above), Some(below)) => distance(above) <= distance(below),
            (above, _) => above.is_some(),
        };
        let next = if up {
            std::mem::replace(&mut self.above, self.up.next().map(second))
        } else {
            std::mem::replace(&mut self.below, self.down.next().map(second))
        };
        next.map(|waiter| (waiter.place.cylinder.abs_diff(self.cylinder), waiter))
    }
}
