//! A queue that its scheduler may reorder within limits: the drive's own queue, and its write buffer.
//!
//! Drives differ in how far they reorder. The limits are: a window of the oldest few, an age at which a request goes
//! next whatever the scheduler would choose, and a number of choices in a row that may pass the oldest over. Without
//! limits the scheduler chooses among all of them.
//!
//! Invariant: while some wait outside the window, the window is full, and those outside are younger than those in it.

use std::collections::BTreeMap;

use seekless_core::{Lba, Nanos};

use super::{Moment, Policy, Scheduler, Slot, Waiter, Waiting};

/// How far a queue may be reordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Number of the oldest to choose from; zero: all.
    pub window: usize,
    /// Waiting time after which the oldest goes next; zero: never.
    pub starvation: Nanos,
    /// How many choices in a row may pass the oldest over; zero: any number.
    pub overtakes: u32,
}

/// The waiting requests, and the scheduler that chooses among the oldest of them.
#[derive(Clone, Debug)]
pub struct Window {
    limits: Limits,
    scheduler: Box<dyn Scheduler>,
    waiting: Waiting,
    /// Requests younger than the window, by arrival, with their first sector.
    outside: BTreeMap<u64, (Lba, Waiter)>,
    /// How many choices in a row have passed the oldest over.
    passed_over: u32,
}

impl Default for Window {
    fn default() -> Window {
        Window::new(Policy::Fcfs, Limits::default())
    }
}

impl Window {
    /// An empty queue.
    pub fn new(policy: Policy, limits: Limits) -> Window {
        let scheduler = policy.scheduler();
        let waiting = Waiting::new(&*scheduler);
        Window { limits, scheduler, waiting, outside: BTreeMap::new(), passed_over: 0 }
    }

    /// Whether its scheduler depends on the head's position.
    pub fn by_position(&self) -> bool {
        self.scheduler.by_position()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a request, younger than all others; its first sector is `start`.
    pub fn add(&mut self, start: Lba, waiter: Waiter) {
        if self.limits.window == 0 || self.waiting.len() < self.limits.window {
            self.waiting.add(start, waiter);
        } else {
            self.outside.insert(waiter.arrival, (start, waiter));
        }
    }

    /// Removes a request; the oldest outside the window takes its place.
    pub fn remove(&mut self, start: Lba, waiter: &Waiter) {
        if self.outside.remove(&waiter.arrival).is_some() {
            return;
        }
        self.waiting.remove(start, waiter);
        if let Some((_, (start, waiter))) = self.outside.pop_first() {
            self.waiting.add(start, waiter);
        }
    }

    /// The request to serve next. `None` only if none waits.
    pub fn next(&mut self, moment: &Moment) -> Option<Slot> {
        let oldest = self.waiting.oldest()?;
        let Limits { starvation, overtakes, .. } = self.limits;
        let starves = starvation > Nanos::ZERO && moment.now.since(oldest.since) > starvation;
        let next = if starves || (overtakes > 0 && self.passed_over >= overtakes) {
            oldest.slot
        } else {
            self.scheduler.next(&self.waiting, moment)?
        };
        self.passed_over = if next == oldest.slot { 0 } else { self.passed_over.saturating_add(1) };
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Serves all of `starts`, which arrive at once, one a millisecond.
    fn served(policy: Policy, limits: Limits, starts: &[u64]) -> Vec<u64> {
        let mut window = Window::new(policy, limits);
        let waiter = |slot: usize| Waiter { slot, arrival: slot as u64 + 1, ..Waiter::default() };
        for (slot, &start) in starts.iter().enumerate() {
            window.add(Lba(start), waiter(slot));
        }
        let (mut head, mut order) = (Lba(0), Vec::new());
        for turn in 0..starts.len() as u64 {
            let now = Nanos::from_millis(turn);
            let moment = Moment { now, head, arrived_before: u64::MAX, drive: None };
            let slot = window.next(&moment).unwrap();
            window.remove(Lba(starts[slot]), &waiter(slot));
            head = Lba(starts[slot] + 1);
            order.push(starts[slot]);
        }
        assert!(window.is_empty());
        order
    }

    #[test]
    fn each_limit_holds_the_elevator_back() {
        let starts = [50, 10, 90, 20, 60, 30];
        let of = |limits| served(Policy::CLook, limits, &starts);
        let none = Limits::default();
        assert_eq!(of(none), [10, 20, 30, 50, 60, 90]);
        assert_eq!(of(Limits { window: 1, ..none }), starts);
        assert_eq!(of(Limits { window: 2, ..none }), [10, 50, 90, 20, 30, 60]);
        // The oldest, 50, goes after two others have; then 10 and 20 are done, and 90 is the oldest.
        assert_eq!(of(Limits { overtakes: 2, ..none }), [10, 20, 50, 60, 90, 30]);
        let starvation = Nanos::from_millis(1);
        assert_eq!(of(Limits { starvation, ..none }), [10, 20, 50, 90, 60, 30]);
    }

    #[test]
    fn an_elevator_keeps_its_direction_while_others_arrive() {
        let mut window = Window::new(Policy::Look, Limits::default());
        let waiter = |slot: usize| Waiter { slot, arrival: slot as u64 + 1, ..Waiter::default() };
        let moment =
            |head| Moment { now: Nanos::ZERO, head: Lba(head), arrived_before: u64::MAX, drive: None };
        for (slot, start) in [30, 10].into_iter().enumerate() {
            window.add(Lba(start), waiter(slot));
        }
        assert_eq!(window.next(&moment(40)), Some(0), "down, since none is above");
        window.remove(Lba(30), &waiter(0));
        window.add(Lba(50), waiter(2));
        assert_eq!(window.clone().next(&moment(31)), Some(1), "a copy goes on as well");
        assert_eq!(window.next(&moment(31)), Some(1), "further down, though one is above by now");
    }

    proptest! {
        /// Whatever the limits, each request is served once, and one is passed over no more often than they allow.
        #[test]
        fn all_are_served_within_the_limits(
            starts in proptest::collection::btree_set(0..1_000_u64, 1..40),
            window in 0..6_usize,
            overtakes in 0..6_u32,
            policy in prop_oneof![Just(Policy::Fcfs), Just(Policy::Look), Just(Policy::CLook)],
        ) {
            let starts: Vec<u64> = starts.into_iter().rev().collect();
            let limits = Limits { window, overtakes, ..Limits::default() };
            let order = served(policy, limits, &starts);
            let mut sorted = order.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            prop_assert_eq!(&sorted, &starts);
            let mut waiting: Vec<u64> = starts;
            let mut passed = 0;
            for start in order {
                let place = waiting.iter().position(|&other| other == start).unwrap();
                prop_assert!(window == 0 || place < window, "{} is not among the oldest {}", place, window);
                passed = if place == 0 { 0 } else { passed + 1 };
                prop_assert!(overtakes == 0 || passed <= overtakes);
                waiting.remove(place);
            }
        }
    }
}
