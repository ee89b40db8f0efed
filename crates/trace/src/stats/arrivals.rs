//! Arrivals: interarrival times, burstiness, and idle periods.
//!
//! Definitions: *burstiness* is the variance of requests per second over their mean (the index of dispersion: 1 for
//! random arrivals, more for bursts), over whole seconds of the trace, empty ones included. The device is *idle* from
//! the completion of the last request in flight to the next arrival; a request of unknown latency counts as completed
//! at once.

use schemars::JsonSchema;
use seekless_core::{Buckets, Nanos, Record};
use serde::{Deserialize, Serialize};

use super::buckets::{Doubling, counted, doublings, plain};

/// A second.
const SECOND: u64 = 1_000_000_000;
/// Classes of idle periods by least length, each ten times the one before except for minutes.
const IDLE_FROM_MS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000];

/// Interarrival times and burstiness.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Arrivals {
    /// Mean interarrival time, in microseconds.
    pub mean_us: f64,
    /// Median interarrival time, in microseconds.
    pub median_us: f64,
    /// 90th percentile, in microseconds.
    pub p90_us: f64,
    /// 99th percentile, in microseconds.
    pub p99_us: f64,
    /// Coefficient of variation: 1 for random arrivals.
    pub variation: f64,
    /// Requests in the busiest second.
    pub peak_per_s: u64,
    /// Mean requests per second of the time from the first request to the last; of one second if that is zero.
    pub mean_per_s: f64,
    /// Variance over mean of requests per second: 1 for random arrivals.
    pub burstiness: f64,
    /// Histogram of interarrival times; `up_to` in microseconds.
    pub histogram: Vec<Doubling>,
}

/// Idle periods of a length or longer.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct IdlePeriods {
    /// Least length, in milliseconds.
    pub at_least_ms: u64,
    /// Number of periods.
    pub periods: u64,
    /// Total time, in seconds.
    pub seconds: f64,
    /// Share of the trace's time, in per cent.
    pub share_pct: f64,
}

/// Collects the arrivals of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Clock {
    /// The time of the request before, in nanoseconds.
    latest: Option<u64>,
    #[serde(with = "plain")]
    gaps: Buckets,
    sum: u128,
    squares: u128,
    seconds: Seconds,
    #[serde(deserialize_with = "counted::one")]
    requests: u64,
    /// When all requests so far will have been completed, in nanoseconds.
    busy_until: u64,
    idle: [(u64, u64); IDLE_FROM_MS.len()],
}

impl Default for Clock {
    fn default() -> Clock {
        Clock {
            latest: None,
            gaps: Buckets::new(8),
            sum: 0,
            squares: 0,
            seconds: Seconds::default(),
            requests: 0,
            busy_until: 0,
            idle: Default::default(),
        }
    }
}

impl Clock {
    /// Adds the next request.
    pub fn follow(&mut self, record: &Record) {
        let now = record.time;
        self.requests += 1;
        if let Some(latest) = self.latest.replace(now.0) {
            let gap = now.0.saturating_sub(latest);
            self.gaps.add(gap, 1);
            self.sum += u128::from(gap);
            self.squares = self.squares.saturating_add(u128::from(gap) * u128::from(gap));
            self.note_idle(Nanos(now.0.saturating_sub(self.busy_until)));
        }
        self.seconds.add(now.0 / SECOND, 1);
        let answered = now.0.saturating_add(record.latency.known().unwrap_or_default().0);
        self.busy_until = self.busy_until.max(answered);
    }

    /// As the default, with interarrival times by powers of two only, in half a KiB.
    pub fn coarse() -> Clock {
        Clock { gaps: Buckets::new(0), ..Clock::default() }
    }

    /// As if requests came before, the last at `latest`, all of them completed at `busy_until`.
    pub fn resume(latest: Option<u64>, busy_until: u64) -> Clock {
        Clock { latest, busy_until, ..Clock::default() }
    }

    /// Whether its counts are those of a trace.
    pub fn is_sound(&self) -> bool {
        let ends = [self.seconds.first, self.seconds.last];
        ends.iter().flatten().all(|&(_, requests)| requests <= self.requests)
            && self.latest.is_none_or(|latest| latest < u64::MAX)
    }

    /// Adds the arrivals that follow, which were counted as if they resumed these.
    pub fn merge(&mut self, next: &Clock) {
        self.latest = next.latest.or(self.latest);
        self.gaps.merge(&next.gaps);
        self.sum = self.sum.saturating_add(next.sum);
        self.squares = self.squares.saturating_add(next.squares);
        self.seconds.merge(&next.seconds);
        self.requests += next.requests;
        self.busy_until = self.busy_until.max(next.busy_until);
        for (class, other) in self.idle.iter_mut().zip(next.idle) {
            *class = (class.0.saturating_add(other.0), class.1.saturating_add(other.1));
        }
    }

    fn note_idle(&mut self, time: Nanos) {
        for (class, from_ms) in self.idle.iter_mut().zip(IDLE_FROM_MS) {
            if time.0 < from_ms * 1_000_000 {
                break;
            }
            class.0 += 1;
            class.1 += time.0;
        }
    }

    /// Extends the time of these requests, the first of which came at `first`, to that of a trace with others around
    /// them: from its first request to its last one.
    pub fn extend(&mut self, first: u64, (from, to): (u64, u64)) {
        self.note_idle(Nanos(first.saturating_sub(from)));
        self.note_idle(Nanos(to.saturating_sub(self.busy_until)));
        self.latest = self.latest.max(Some(to));
    }

    /// Statistics of arrivals, of which those of single seconds count the seconds of the clock; `time` is that of all
    /// of them, in seconds.
    pub fn arrivals(&self, time: f64) -> Arrivals {
        let (peak_per_s, squares_per_s) = self.seconds.total();
        if self.requests == 0 {
            return Arrivals::default();
        }
        let gaps = self.gaps.total().max(1);
        let mean = self.sum as f64 / gaps as f64;
        let variance = (self.squares as f64 / gaps as f64 - mean * mean).max(0.0);
        let seconds = (self.latest.unwrap_or_default() / SECOND + 1) as f64;
        let per_s = self.requests as f64 / seconds;
        let variance_per_s = (squares_per_s as f64 / seconds - per_s * per_s).max(0.0);
        let us = |share| self.gaps.quantile(share) as f64 / 1e3;
        Arrivals {
            mean_us: mean / 1e3,
            median_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            variation: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
            peak_per_s,
            mean_per_s: if time > 0.0 { self.requests as f64 / time } else { per_s },
            burstiness: variance_per_s / per_s,
            histogram: doublings(&self.gaps, 1e3),
        }
    }

    /// The classes of idle periods that occur.
    pub fn idle(&self) -> Vec<IdlePeriods> {
        let all = Nanos(self.latest.unwrap_or_default()).seconds();
        let row = |(&(periods, nanos), at_least_ms): (&(u64, u64), u64)| {
            let seconds = Nanos(nanos).seconds();
            let share_pct = if all > 0.0 { 100.0 * seconds / all } else { 0.0 };
            IdlePeriods { at_least_ms, periods, seconds, share_pct }
        };
        self.idle.iter().zip(IDLE_FROM_MS).filter(|((periods, _), _)| *periods > 0).map(row).collect()
    }
}

/// Requests of each second: the first and the last apart, since a part of a trace holds parts of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Seconds {
    /// The first second, by number, and its requests.
    first: Option<(u64, u64)>,
    /// The current one, if another.
    last: Option<(u64, u64)>,
    /// Most requests of a second between them.
    #[serde(deserialize_with = "counted::one")]
    peak: u64,
    /// Sum of squares of requests, of seconds between them.
    squares: u128,
}

impl Seconds {
    /// Adds requests of a second, which is not before the last one.
    fn add(&mut self, second: u64, requests: u64) {
        let current = if self.last.is_some() { &mut self.last } else { &mut self.first };
        match current {
            Some((number, count)) if *number == second => *count += requests,
            None => *current = Some((second, requests)),
            Some(_) => {
                if let Some((_, count)) = self.last.replace((second, requests)) {
                    self.close(count);
                }
            }
        }
    }

    fn close(&mut self, requests: u64) {
        self.peak = self.peak.max(requests);
        self.squares = self.squares.saturating_add(u128::from(requests) * u128::from(requests));
    }

    /// Adds the seconds that follow, the first of which may be the last one here.
    fn merge(&mut self, next: &Seconds) {
        for &(second, requests) in next.first.iter().chain(&next.last) {
            self.add(second, requests);
        }
        self.peak = self.peak.max(next.peak);
        self.squares = self.squares.saturating_add(next.squares);
    }

    /// Most requests of a second, and the sum of squares of all.
    fn total(&self) -> (u64, u128) {
        let mut all = self.clone();
        let ends = self.first.iter().chain(&self.last);
        ends.for_each(|&(_, requests)| all.close(requests));
        (all.peak, all.squares)
    }
}
