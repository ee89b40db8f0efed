//! Which request comes next: one file a scheduler, behind one trait.

mod c_look;
mod fcfs;

use std::collections::BTreeSet;
use std::str::FromStr;

use seekless_core::Lba;

pub use c_look::CLook;
pub use fcfs::Fcfs;

/// A request in line: its number in the queue.
pub type Slot = usize;

/// The requests of one class that wait.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    by_address: BTreeSet<(Lba, u64, Slot)>,
    /// Kept only for a scheduler that asks for it.
    by_arrival: Option<BTreeSet<(u64, Slot)>>,
}

impl Waiting {
    /// None, for this scheduler.
    pub fn new(scheduler: &dyn Scheduler) -> Waiting {
        let by_arrival = scheduler.by_arrival().then(BTreeSet::new);
        Waiting { by_address: BTreeSet::new(), by_arrival }
    }

    /// A request starts to wait.
    pub fn add(&mut self, start: Lba, arrival: u64, slot: Slot) {
        self.by_address.insert((start, arrival, slot));
        if let Some(by_arrival) = &mut self.by_arrival {
            by_arrival.insert((arrival, slot));
        }
    }

    /// A request waits no more.
    pub fn remove(&mut self, start: Lba, arrival: u64, slot: Slot) {
        self.by_address.remove(&(start, arrival, slot));
        if let Some(by_arrival) = &mut self.by_arrival {
            by_arrival.remove(&(arrival, slot));
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// The one that waits longest.
    pub fn oldest(&self) -> Option<Slot> {
        self.by_arrival.as_ref()?.first().map(|&(_, slot)| slot)
    }

    /// Those from `from` on, by address.
    pub fn from(&self, from: Lba) -> impl Iterator<Item = (Lba, Slot)> {
        self.by_address.range((from, 0, 0)..).map(|&(start, _, slot)| (start, slot))
    }

    /// Those below `to`, by descending address.
    pub fn below(&self, to: Lba) -> impl Iterator<Item = (Lba, Slot)> {
        self.by_address.range(..(to, 0, 0)).rev().map(|&(start, _, slot)| (start, slot))
    }
}

/// Picks the next request of a class.
pub trait Scheduler {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Whether it asks for the order of arrival.
    fn by_arrival(&self) -> bool {
        false
    }

    /// The next one, with the head behind sector `head`. `None` only if none waits.
    fn next(&self, waiting: &Waiting, head: Lba) -> Option<Slot>;
}

/// The schedulers by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// In order of arrival.
    Fcfs,
    /// In ascending order of address, then from the lowest again.
    #[default]
    CLook,
}

impl Policy {
    /// The scheduler of this name.
    pub fn scheduler(self) -> Box<dyn Scheduler> {
        match self {
            Policy::Fcfs => Box::new(Fcfs),
            Policy::CLook => Box::new(CLook),
        }
    }
}

impl FromStr for Policy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Policy::Fcfs, Policy::CLook];
        all.into_iter()
            .find(|policy| policy.scheduler().name() == text)
            .ok_or_else(|| format!("found '{text}', expected fcfs or c-look"))
    }
}
