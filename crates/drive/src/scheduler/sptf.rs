//! Shortest positioning time first (freeblock paper, section 3.3): seek and rotation together.
//!
//! Requests are looked at from the head's cylinder outward, until the seek alone would take longer than the
//! best one in all. The longer the queue, the sooner that is.

use seekless_core::Nanos;

use super::{Moment, Scheduler, Slot, Waiting};

/// The shortest positioning time first.
pub struct Sptf;

impl Scheduler for Sptf {
    fn by_position(&self) -> bool {
        true
    }

    fn by_angle(&self) -> bool {
        true
    }

    fn next(&mut self, waiting: &Waiting, moment: &Moment) -> Option<Slot> {
        let Some(drive) = moment.drive else { return waiting.oldest().map(|waiter| waiter.slot) };
        let mut best: Option<(Nanos, u64, Slot)> = None;
        for (distance, waiter) in waiting.outward(drive.cylinder()) {
            if best.is_some_and(|(time, ..)| drive.at_least(distance) > time) {
                break;
            }
            let this = (moment.reach(drive, waiter).total(), waiter.arrival, waiter.slot);
            best = Some(best.map_or(this, |best| best.min(this)));
        }
        best.map(|(_, _, slot)| slot)
    }
}
