//! Scheduling of requests: one file per scheduler, one trait.
//!
//! A scheduler sees the requests of one class at a time; the queue above it handles classes and the starvation limit.
//! Of two equal requests the older one is chosen.

mod aged_sptf;
mod c_look;
mod fcfs;
mod look;
mod policy;
pub mod positioning;
mod sptf;
mod sptf_sw;
mod sstf;
mod waiting;
mod window;

use std::fmt::Debug;

use seekless_core::{Lba, Nanos};

pub use aged_sptf::AgedSptf;
pub use c_look::CLook;
pub use fcfs::Fcfs;
pub use look::Look;
pub use policy::Policy;
pub use positioning::{Place, Places, Positioning, Reach};
pub use sptf::Sptf;
pub use sptf_sw::SptfSw;
pub use sstf::Sstf;
pub use waiting::{Waiter, Waiting};
pub use window::{Limits, Window};

/// A queued request's number.
pub type Slot = usize;

/// Inputs of a decision, besides the waiting requests.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// Time of the decision.
    pub now: Nanos,
    /// One past the last command's last sector.
    pub head: Lba,
    /// Requests up to this arrival were queued while the last command was served.
    pub arrived_before: u64,
    /// Positioning estimates. Without them, position-aware schedulers go by arrival.
    pub drive: Option<&'a dyn Positioning>,
}

impl Moment<'_> {
    /// Positioning time of a request.
    pub fn reach(&self, drive: &dyn Positioning, waiter: &Waiter) -> Reach {
        drive.reach(waiter.place, waiter.write, waiter.arrival <= self.arrived_before)
    }
}

/// Copies of a scheduler, which have its state.
pub trait Copied {
    /// A copy.
    fn copied(&self) -> Box<dyn Scheduler>;
}

impl<S: Scheduler + Clone + 'static> Copied for S {
    fn copied(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Scheduler> {
    fn clone(&self) -> Self {
        // Of what is in the box, not of the box.
        (**self).copied()
    }
}

/// Picks the next request of a class.
pub trait Scheduler: Debug + Copied + Send + Sync {
    /// Whether it depends on the head's position, and needs places and a drive.
    fn by_position(&self) -> bool {
        false
    }

    /// Whether it ranks by the angle of a request's first sector. Then no earlier sectors are merged into the command:
    /// the head would miss them.
    fn by_angle(&self) -> bool {
        false
    }

    /// The next request. `None` only if none waits.
    fn next(&mut self, waiting: &Waiting, moment: &Moment) -> Option<Slot>;
}

#[cfg(test)]
mod tests;
