//! Aged SPTF: the shortest positioning time, less a part of the time that a request has waited.
//!
//! Requests are scanned from two ends at once, nearest first and oldest first, until no other could be better: it would
//! be no nearer than the one and no older than the other.

use seekless_core::Nanos;

use super::{Moment, Scheduler, Slot, Waiter, Waiting};

/// The shortest positioning time first, less `weight` thousandths of the waiting time.
#[derive(Clone, Debug)]
pub struct AgedSptf {
    weight: i128,
}

impl AgedSptf {
    /// The weight in thousandths: milliseconds of positioning time per second of waiting.
    pub fn new(weight: u32) -> AgedSptf {
        AgedSptf { weight: i128::from(weight) }
    }

    /// The score to minimize, in thousandths of a nanosecond.
    fn score(&self, time: Nanos, waited: Nanos) -> i128 {
        1_000 * i128::from(time.0) - self.weight * i128::from(waited.0)
    }
}

impl Scheduler for AgedSptf {
    fn by_position(&self) -> bool {
        true
    }

    fn by_angle(&self) -> bool {
        true
    }

    fn next(&mut self, waiting: &Waiting, moment: &Moment) -> Option<Slot> {
        let Some(drive) = moment.drive else { return waiting.oldest().map(|waiter| waiter.slot) };
        let mut best = (i128::MAX, u64::MAX, None);
        let mut consider = |waiter: &Waiter| {
            let waited = moment.now.since(waiter.since);
            let score = self.score(moment.reach(drive, waiter).total(), waited);
            best = best.min((score, waiter.arrival, Some(waiter.slot)));
            best.0
        };
        let bounds = drive.bounds();
        let mut by_age = waiting.by_age();
        waiting.outward(drive.cylinder(), |distance, near| {
            // Once the scan by age is done, there is no other.
            let Some(old) = by_age.next() else { return false };
            let least = self.score(bounds.seek(distance), moment.now.since(old.since));
            least <= consider(old) && least <= consider(near)
        });
        best.2
    }
}
