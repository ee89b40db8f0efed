//! The real gain of copies, measured on the devices: in short intervals, drawn at random, reads of clean copies go to
//! the origin, and in as many others the same kind of reads from copies is timed.
//!
//! Time is divided into periods, and a period into intervals, of which one of each kind is drawn. Nothing waits: a read
//! finds out by itself which interval it came in.
//!
//! Invariant: only reads are diverted whose pages all have a proven copy, not all of them dirty; dirty pages come from
//! their copies in any case.

use std::cell::RefCell;

use seekless_core::Nanos;
use seekless_core::history::Gain;
use seekless_core::runtime::{Rng, rng};

/// Length of an interval: some ten reads of a disk.
const INTERVAL: Nanos = Nanos::from_millis(250);

/// Where a timed read goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// To its copies, as usual.
    Copies,
    /// To the origin.
    Origin,
}

/// Reads of an interval, and the sum of their response times.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    count: u64,
    sum: Nanos,
}

/// See the file's header.
pub(super) struct Measuring {
    /// Intervals of a period; 0: nothing is measured.
    intervals: u64,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Created with the first read that is timed.
    rng: Option<Rng>,
    /// Number of the period, from 1.
    period: u64,
    /// The interval from which reads go to the origin, and the one in which reads of copies are timed.
    drawn: [u64; 2],
    /// Reads from copies and from the origin.
    reads: [Reads; 2],
}

impl Measuring {
    /// Reads go to the origin in `share_pct` per cent of the time, 0 to 50.
    pub fn new(share_pct: u8) -> Measuring {
        let intervals = if share_pct == 0 { 0 } else { 100 / u64::from(share_pct.min(50)) };
        Measuring { intervals, state: RefCell::default() }
    }

    /// Where a read that copies could serve goes if it is timed; `None` if it is not. Results of an earlier period are
    /// passed to `closed`.
    pub fn source(&self, now: Nanos, closed: impl FnOnce(&Gain)) -> Option<Source> {
        if self.intervals == 0 {
            return None;
        }
        let interval = now.0 / INTERVAL.0;
        let period = interval / self.intervals + 1;
        let state = &mut *self.state.borrow_mut();
        if state.period != period {
            state.period = period;
            let gain = state.close();
            state.draw(self.intervals);
            if gain != Gain::default() {
                closed(&gain);
            }
        }
        let [origin, copies] = state.drawn;
        match interval % self.intervals {
            at if at == origin => Some(Source::Origin),
            at if at == copies => Some(Source::Copies),
            _ => None,
        }
    }

    /// A timed read was answered.
    pub fn answered(&self, source: Source, took: Nanos) {
        let reads = &mut self.state.borrow_mut().reads[usize::from(source == Source::Origin)];
        reads.count += 1;
        reads.sum += took;
    }
}

impl State {
    /// Takes the results of a period.
    fn close(&mut self) -> Gain {
        let mut gain = Gain::default();
        let [copies, origin] = std::mem::take(&mut self.reads);
        gain.copies.add_interval(copies.count, copies.sum);
        gain.origin.add_interval(origin.count, origin.sum);
        gain
    }

    /// Draws two different intervals of a period.
    fn draw(&mut self, intervals: u64) {
        let rng = self.rng.get_or_insert_with(|| rng("measured intervals"));
        let origin = rng.below(intervals);
        let copies = (origin + 1 + rng.below(intervals - 1)) % intervals;
        self.drawn = [origin, copies];
    }
}

#[cfg(test)]
mod tests {
    use seekless_core::runtime::Runtime;

    use super::*;

    /// Sides of reads every 10 ms for as many periods.
    fn sources(share_pct: u8, periods: u64) -> (Vec<Option<Source>>, Vec<Gain>) {
        let run = async move {
            let measuring = Measuring::new(share_pct);
            let (mut sources, mut gains) = (Vec::new(), Vec::new());
            let intervals = 100 / u64::from(share_pct.clamp(1, 50));
            for read in 0..periods * intervals * 25 {
                let source = measuring.source(Nanos::from_millis(10 * read), |gain| gains.push(*gain));
                if let Some(source) = source {
                    let took = if source == Source::Origin { 9 } else { 3 };
                    measuring.answered(source, Nanos::from_millis(took));
                }
                sources.push(source);
            }
            (sources, gains)
        };
        Runtime::new(7).run(run).unwrap()
    }

    #[test]
    fn each_period_has_an_interval_of_each_kind() {
        for share in [1, 3, 10, 50] {
            let (sources, gains) = sources(share, 20);
            for source in [Source::Origin, Source::Copies] {
                let count = sources.iter().filter(|found| **found == Some(source)).count();
                assert_eq!(count, 20 * 25, "{share} %: {source:?}");
            }
            assert_eq!(gains.len(), 19, "the last period is open");
            let mut all = Gain::default();
            for gain in &gains {
                all.add(gain);
            }
            assert_eq!((all.copies.intervals, all.origin.reads), (19, 19 * 25));
            let (percent, error) = all.percent().unwrap();
            assert!((percent - 66.67).abs() < 0.01 && error < 1e-6, "{percent} ± {error}");
        }
    }

    #[test]
    fn intervals_are_at_other_places_in_other_periods() {
        let (sources, _) = sources(10, 30);
        let place =
            |period: &[Option<Source>]| period.iter().position(|source| *source == Some(Source::Origin));
        let places: std::collections::BTreeSet<_> = sources.chunks(250).map(place).collect();
        assert!(places.len() > 5, "{places:?}");
    }

    #[test]
    fn nothing_is_diverted_without_a_share() {
        assert!(sources(0, 3).0.iter().all(Option::is_none));
    }
}
