//! What a layer did and gained in the past, for the status of a served volume: its reconfigurations, the one that is
//! going on, its hits, and its gain as measured on the device itself.

use crate::measure::Reconfigured;
use crate::units::Nanos;

/// The past of a layer; empty for one that keeps none.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Its latest reconfigurations, the oldest first.
    pub past: Vec<Past>,
    /// The stage of the one that is going on.
    pub progress: Option<Progress>,
    /// Hits and gain of the last hour, day and week.
    pub spans: Vec<Span>,
}

/// A reconfiguration that has ended, also without a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// Its number since the layer was opened, from 1.
    pub number: u64,
    /// Reason for it.
    pub why: String,
    /// What it decided.
    pub decided: String,
    /// Its start, stages and pages.
    pub report: Reconfigured,
    /// Its duration.
    pub took: Nanos,
    /// What its decision was expected to save.
    pub predicted: Option<Predicted>,
    /// How well the model predicted the requests before it.
    pub model: Option<Checked>,
    /// Measured gain from its end to the end of the next one.
    pub gain: Gain,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// Busy time of the devices for the requests of a rehearsal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predicted {
    /// Requests that were played.
    pub requests: u64,
    /// Busy time for them if nothing changes.
    pub present: Nanos,
    /// Busy time for them as decided.
    pub chosen: Nanos,
    /// Busy time of the change itself.
    pub moves: Nanos,
}

impl Predicted {
    /// The busy time that is saved, in per cent, without that of the change.
    pub fn saved_percent(&self) -> f64 {
        let (present, chosen) = (self.present.0 as f64, self.chosen.0 as f64);
        if present > 0.0 { 100.0 * (1.0 - chosen / present) } else { 0.0 }
    }
}

/// Mean response time of the same requests, as the model has it and as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// On the model.
    pub predicted: Nanos,
    /// As measured.
    pub measured: Nanos,
}

impl Checked {
    /// Error of the model in per cent of what was measured; above 0 if the model is slower.
    pub fn error_percent(&self) -> f64 {
        100.0 * (self.predicted.0 as f64 / (self.measured.0 as f64).max(1.0) - 1.0)
    }
}

/// The stage of a reconfiguration that is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Name of the stage.
    pub stage: &'static str,
    /// Pages that it has moved.
    pub moved: u64,
    /// Pages that all stages together are to move, as far as is known.
    pub of: u64,
    /// When the first page was to be moved.
    pub moving_since: Nanos,
}

impl Progress {
    /// The time that it will still take at the rate so far; unknown before the first page has moved.
    pub fn left(&self, now: Nanos) -> Option<Nanos> {
        let took = u128::from(now.since(self.moving_since).0);
        let left = u128::from(self.of.saturating_sub(self.moved));
        (self.moved > 0).then(|| Nanos((took * left / u128::from(self.moved)) as u64))
    }
}

/// Hits and gain over the latest time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// Its length, less if the layer was opened later.
    pub length: Nanos,
    /// Pages that clients read and wrote.
    pub pages: u64,
    /// Those of them that the layer's copies served.
    pub hits: u64,
    /// The gain.
    pub gain: Gain,
}

/// Response times of reads that copies could serve: of those that they served, and of those that went to the origin to
/// be compared with them. Both were timed in short intervals, drawn at random.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// Those from copies.
    pub copies: Timed,
    /// Those from the origin.
    pub origin: Timed,
}

/// Response times in intervals: sums over intervals of what is in each, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timed {
    /// Intervals with any read.
    pub intervals: u64,
    /// Reads.
    pub reads: u64,
    /// Sum of response times.
    sum: f64,
    /// Sums of the squares of times and reads of an interval, and of their product.
    squares: [f64; 3],
}

/// With fewer intervals a mean has no known error.
const FEWEST_INTERVALS: u64 = 8;

impl Timed {
    /// Adds an interval with `reads` reads, whose response times have this sum.
    pub fn add_interval(&mut self, reads: u64, sum: Nanos) {
        if reads == 0 {
            return;
        }
        let (count, sum) = (reads as f64, sum.0 as f64 / 1e6);
        self.intervals += 1;
        self.reads += reads;
        self.sum += sum;
        let [times, reads, both] = &mut self.squares;
        *times += sum * sum;
        *reads += count * count;
        *both += sum * count;
    }

    /// Adds other intervals.
    pub fn add(&mut self, other: &Timed) {
        self.intervals += other.intervals;
        self.reads += other.reads;
        self.sum += other.sum;
        for (sum, more) in self.squares.iter_mut().zip(other.squares) {
            *sum += more;
        }
    }

    /// Mean response time of a read in milliseconds; `None` without reads.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.reads > 0).then(|| self.sum / self.reads as f64)
    }

    /// Variance of the mean, as of a ratio of sums over intervals; `None` with fewer of them than say anything.
    fn variance(&self) -> Option<f64> {
        let mean = self.mean_ms().filter(|_| self.intervals >= FEWEST_INTERVALS)?;
        let [times, reads, both] = self.squares;
        let scatter = (times - 2.0 * mean * both + mean * mean * reads).max(0.0);
        let intervals = self.intervals as f64;
        Some(scatter / (self.reads as f64).powi(2) * intervals / (intervals - 1.0))
    }
}

impl Gain {
    /// Adds intervals of another time.
    pub fn add(&mut self, other: &Gain) {
        self.copies.add(&other.copies);
        self.origin.add(&other.origin);
    }

    /// The response time that copies save, in per cent of that from the origin, and half of its confidence interval of
    /// 95 %; `None` with too few intervals.
    pub fn percent(&self) -> Option<(f64, f64)> {
        let (copies, origin) = (self.copies.mean_ms()?, self.origin.mean_ms()?);
        let (of_copies, of_origin) = (self.copies.variance()?, self.origin.variance()?);
        if origin <= 0.0 {
            return None;
        }
        let ratio = copies / origin;
        let error = (of_copies + ratio * ratio * of_origin).sqrt() / origin;
        Some((100.0 * (1.0 - ratio), 100.0 * 1.96 * error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    #[test]
    fn a_gain_needs_intervals_and_has_an_error() {
        let mut gain = Gain::default();
        for number in 0..7 {
            gain.copies.add_interval(10, ms(40 + number % 2 * 20));
            gain.origin.add_interval(10, ms(100));
        }
        gain.copies.add_interval(0, ms(0));
        assert_eq!(gain.percent(), None, "seven intervals");
        let more = gain;
        gain.add(&more);
        let (percent, error) = gain.percent().unwrap();
        // Six of fourteen intervals have 60 ms, the others 40: a mean of 4.857 ms a read.
        assert!((percent - 51.43).abs() < 0.01, "{percent}");
        // Standard deviation of an interval's mean 1.027 ms, over the root of 14, times 1.96, of 10 ms.
        assert!((error - 5.38).abs() < 0.02, "{error}");
        assert_eq!((gain.copies.intervals, gain.copies.reads), (14, 140));
    }

    #[test]
    fn intervals_with_more_reads_weigh_more() {
        let mut timed = Timed::default();
        timed.add_interval(1, ms(10));
        timed.add_interval(9, ms(10));
        assert!((timed.mean_ms().unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(Timed::default().mean_ms(), None);
    }

    #[test]
    fn the_time_left_follows_from_the_pages_moved() {
        let progress = Progress { stage: "incoming", moved: 30, of: 90, moving_since: ms(100) };
        assert_eq!(progress.left(ms(1_100)), Some(ms(2_000)));
        assert_eq!(Progress { moved: 0, ..progress }.left(ms(1_100)), None);
        assert_eq!(
            Progress { of: 10, ..progress }.left(ms(1_100)),
            Some(Nanos::ZERO),
            "more than was planned"
        );
    }

    #[test]
    fn errors_of_a_model_are_relative_to_what_was_measured() {
        let checked = |predicted, measured| Checked { predicted: ms(predicted), measured: ms(measured) };
        assert!((checked(12, 10).error_percent() - 20.0).abs() < 1e-9);
        assert!((checked(5, 10).error_percent() + 50.0).abs() < 1e-9);
        assert!(checked(0, 0).error_percent().is_finite());
        let predicted = Predicted { requests: 1, present: ms(10), chosen: ms(4), moves: ms(1) };
        assert!((predicted.saved_percent() - 60.0).abs() < 1e-9);
        assert!(Predicted::default().saved_percent().abs() < 1e-9);
    }
}
