//! Shortest seek time first (freeblock paper, section 3.3).

use seekless_core::Nanos;

use super::{Moment, Scheduler, Slot, Waiting};

/// The shortest seek first, by the drive's own seek times.
#[derive(Clone, Debug)]
pub struct Sstf;

impl Scheduler for Sstf {
    fn by_position(&self) -> bool {
        true
    }

    fn next(&mut self, waiting: &Waiting, moment: &Moment) -> Option<Slot> {
        let Some(drive) = moment.drive else { return waiting.oldest().map(|waiter| waiter.slot) };
        let mut best = (Nanos(u64::MAX), u64::MAX, None);
        let bounds = drive.bounds();
        waiting.outward(drive.cylinder(), |distance, waiter| {
            if bounds.seek(distance) > best.0 {
                return false;
            }
            best = best.min((moment.reach(drive, waiter).seek, waiter.arrival, Some(waiter.slot)));
            true
        });
        best.2
    }
}
