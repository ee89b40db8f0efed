//! SPTF-SW n % (freeblock paper, section 3.3): of the requests whose positioning times are within n % of the shortest
//! one, the one with the shortest seek. It leaves more rotational wait, which freeblock scheduling can use.
//!
//! One pass: the shortest time is known only at its end, so all requests that are the answer for some shortest time are
//! kept as candidates. The shortest seek is no longer than that of the shortest positioning time, so the pass ends
//! where that of SPTF does.

use seekless_core::Nanos;

use super::{Moment, Scheduler, Slot, Waiting};

/// The shortest seek among the short positioning times.
#[derive(Clone, Debug)]
pub struct SptfSw {
    percent: u32,
    /// In ascending order of seek, then arrival; in strictly descending order of time.
    candidates: Vec<Candidate>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    seek: Nanos,
    arrival: u64,
    time: Nanos,
    slot: Slot,
}

impl SptfSw {
    /// Within this many per cent of the shortest positioning time.
    pub fn new(percent: u32) -> SptfSw {
        SptfSw { percent, candidates: Vec::new() }
    }

    /// The longest time within the margin of the shortest.
    fn margin(&self, shortest: Nanos) -> Nanos {
        Nanos(shortest.0.saturating_mul(100 + u64::from(self.percent)) / 100)
    }

    /// Adds a candidate unless another one is better whatever the shortest time turns out to be.
    fn add_candidate(&mut self, this: Candidate) {
        let key = |candidates: &Candidate| (candidates.seek, candidates.arrival);
        let place = self.candidates.partition_point(|candidates| key(candidates) < key(&this));
        if self.candidates[..place].last().is_some_and(|better| better.time <= this.time) {
            return;
        }
        let worse =
            self.candidates[place..].iter().take_while(|candidates| candidates.time >= this.time).count();
        self.candidates.splice(place..place + worse, [this]);
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
        self.candidates.clear();
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
                    self.add_candidate(Candidate { seek, arrival: waiter.arrival, time, slot: waiter.slot });
                }
            }
            true
        });
        self.candidates.iter().find(|candidates| candidates.time <= margin).map(|candidates| candidates.slot)
    }
}
