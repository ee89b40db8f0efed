//! Shortest seek time first (freeblock paper, section 3.3).

use seekless_core::Nanos;

use super::{Moment, Scheduler, Slot, Waiting};

/// The shortest seek first, by the drive's own seek times.
pub struct Sstf;

impl Scheduler for Sstf {
    fn by_position(&self) -> bool {
        true
    }

    fn next(&mut self, waiting: &Waiting, moment: &Moment) -> Option<Slot> {
        let Some(drive) = moment.drive else { return waiting.oldest().map(|waiter| waiter.slot) };
        let mut best: Option<(Nanos, u64, Slot)> = None;
        for (distance, waiter) in waiting.outward(drive.cylinder()) {
            if best.is_some_and(|(seek, ..)| drive.at_least(distance) > seek) {
                break;
            }
            let this = (moment.reach(drive, waiter).seek, waiter.arrival, waiter.slot);
            best = Some(best.map_or(this, |best| best.min(this)));
        }
        best.map(|(_, _, slot)| slot)
    }
}
