//! Which request comes next: one file a scheduler, behind one trait.
//!
//! A scheduler sees the requests of one class at a time; classes are above it, in the queue. So is the
//! limit to how long a request waits, which holds for every scheduler. Where two requests are equal, the
//! one comes first that came first.

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

/// A request in line: its number in the queue.
pub type Slot = usize;

/// What a scheduler decides by, besides what waits.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// When it decides.
    pub now: Nanos,
    /// The sector behind the last command.
    pub head: Lba,
    /// Requests up to this arrival were in line while the last command was carried out.
    pub arrived_before: u64,
    /// The drive. Who ranks by position and has none goes by arrival.
    pub drive: Option<&'a dyn Positioning>,
}

impl Moment<'_> {
    /// What it takes to get to a request.
    pub fn reach(&self, drive: &dyn Positioning, waiter: &Waiter) -> Reach {
        drive.reach(waiter.place, waiter.write, waiter.arrival <= self.arrived_before)
    }
}

/// Picks the next request of a class.
pub trait Scheduler {
    /// Whether it ranks by where the head is, and needs places and a drive.
    fn by_position(&self) -> bool {
        false
    }

    /// Whether it ranks by when a request's first sector comes by. Then nothing that lies before the sector
    /// goes with it: the head would be too late for that.
    fn by_angle(&self) -> bool {
        false
    }

    /// The next one. `None` only if none waits.
    fn next(&mut self, waiting: &Waiting, moment: &Moment) -> Option<Slot>;
}

#[cfg(test)]
mod tests;
