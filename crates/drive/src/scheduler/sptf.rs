//! Shortest positioning time first (freeblock paper, section 3.3): seek plus rotation.
//!
//! Requests are scanned from the head's cylinder outward, until the seek alone would take longer than the best
//! positioning time so far. The longer the queue, the sooner that is. Only requests that pass before then are examined
//! closely.

use seekless_core::Nanos;

use super::{Moment, Scheduler, Slot, Waiting};

/// The shortest positioning time first.
#[derive(Clone, Debug)]
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
        let bounds = drive.bounds();
        let mut best = (Nanos(u64::MAX), u64::MAX, None);
        waiting.outward(drive.cylinder(), |distance, waiter| {
            let seek = bounds.seek(distance);
            if seek > best.0 {
                return false;
            }
            if bounds.may_be_reached(waiter.place.angle, seek, best.0) {
                best = best.min((moment.reach(drive, waiter).total(), waiter.arrival, Some(waiter.slot)));
            }
            true
        });
        best.2
    }
}
