//! First come, first served (freeblock paper, section 3.3).

use super::{Moment, Scheduler, Slot, Waiting};

/// In order of arrival.
#[derive(Clone, Debug)]
pub struct Fcfs;

impl Scheduler for Fcfs {
    fn next(&mut self, waiting: &Waiting, _moment: &Moment) -> Option<Slot> {
        waiting.oldest().map(|waiter| waiter.slot)
    }
}
