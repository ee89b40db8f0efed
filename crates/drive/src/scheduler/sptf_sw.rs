//! SPTF-SW n % (freeblock paper, section 3.3): of the requests whose positioning times are within n % of the
//! shortest one, the one with the shortest seek. What it leaves of the positioning time is rotation, in which
//! freeblock scheduling can work.
//!
//! One pass: the shortest time is known only at the end of it, so that all those are kept that are the answer
//! for some shortest time. The shortest seek is no longer than that of the shortest positioning time, so that
//! the pass ends where that of SPTF does.

use seekless_core::Nanos;

use super::{Moment, Scheduler, Slot, Waiting};

/// The shortest seek among the short positioning times.
pub struct SptfSw {
    percent: u32,
    /// In ascending order of seek, then arrival; in strictly descending order of time.
    kept: Vec<Kept>,
}

#[derive(Clone, Copy)]
struct Kept {
    seek: Nanos,
    arrival: u64,
    time: Nanos,
    slot: Slot,
}

impl SptfSw {
    /// Within so many per cent of the shortest positioning time.
    pub fn new(percent: u32) -> SptfSw {
        SptfSw { percent, kept: Vec::new() }
    }

    /// The longest time within the margin of the shortest.
    fn margin(&self, shortest: Nanos) -> Nanos {
        Nanos(shortest.0.saturating_mul(100 + u64::from(self.percent)) / 100)
    }

    /// Keeps a request unless one that is kept is better whatever the shortest time turns out to be.
    fn keep(&mut self, this: Kept) {
        let key = |kept: &Kept| (kept.seek, kept.arrival);
        let place = self.kept.partition_point(|kept| key(kept) < key(&this));
        if self.kept[..place].last().is_some_and(|better| better.time <= this.time) {
            return;
        }
        let worse = self.kept[place..].iter().take_while(|kept| kept.time >= this.time).count();
        self.kept.splice(place..place + worse, [this]);
    }
}

impl Scheduler for SptfSw {
    fn by_position(&self) -> bool {
        true
    }

    fn by_angle(&self) -> bool {
        true
    }

    fn next(&mut self, waiting: &Waiting, moment: &Moment) -> Option<Slot> {
        let Some(drive) = moment.drive else { return waiting.oldest().map(|waiter| waiter.slot) };
        self.kept.clear();
        let bounds = drive.bounds();
        let (mut shortest, mut margin) = (Nanos(u64::MAX), Nanos(u64::MAX));
        waiting.outward(drive.cylinder(), |distance, waiter| {
            let seek = bounds.seek(distance);
            if seek > shortest {
                return false;
            }
            if bounds.may_be_reached(waiter.place.angle, seek, margin) {
                let reach = moment.reach(drive, waiter);
                let (seek, time) = (reach.seek, reach.total());
                if time < shortest {
                    (shortest, margin) = (time, self.margin(time));
                }
                if time <= margin {
                    self.keep(Kept { seek, arrival: waiter.arrival, time, slot: waiter.slot });
                }
            }
            true
        });
        self.kept.iter().find(|kept| kept.time <= margin).map(|kept| kept.slot)
    }
}
