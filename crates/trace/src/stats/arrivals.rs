//! Arrivals: interarrival times, burstiness, and idle periods.
//!
//! Definitions: *burstiness* is the variance of requests per second over their mean (the index of dispersion: 1 for
//! random arrivals, more for bursts), over whole seconds of the trace, empty ones included. The device is *idle* from
//! the completion of the last request in flight to the next arrival; a request of unknown latency counts as completed
//! at once.

use schemars::JsonSchema;
use seekless_core::{Buckets, Nanos, Record};
use serde::Serialize;

use super::buckets::{Doubling, doublings};

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
    /// Mean requests per second.
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
pub(super) struct Clock {
    latest: Option<Nanos>,
    gaps: Buckets,
    sum: u128,
    squares: f64,
    /// The current second, and its requests so far.
    second: u64,
    in_second: u64,
    peak: u64,
    squares_per_s: u128,
    requests: u64,
    /// When all requests so far will have been completed.
    busy_until: Nanos,
    idle: [(u64, u64); IDLE_FROM_MS.len()],
}

impl Default for Clock {
    fn default() -> Clock {
        Clock {
            latest: None,
            gaps: Buckets::new(8),
            sum: 0,
            squares: 0.0,
            second: 0,
            in_second: 0,
            peak: 0,
            squares_per_s: 0,
            requests: 0,
            busy_until: Nanos::ZERO,
            idle: Default::default(),
        }
    }
}

impl Clock {
    /// Adds the next request.
    pub fn follow(&mut self, record: &Record) {
        let now = record.time;
        self.requests += 1;
        if let Some(latest) = self.latest.replace(now) {
            let gap = now.since(latest).0;
            self.gaps.add(gap, 1);
            self.sum += u128::from(gap);
            self.squares += gap as f64 * gap as f64;
            self.note_idle(now.since(self.busy_until));
        }
        if now.0 / SECOND != self.second {
            self.end_second();
            self.second = now.0 / SECOND;
        }
        self.in_second += 1;
        let answered = now.0.saturating_add(record.latency.known().unwrap_or_default().0);
        self.busy_until = self.busy_until.max(Nanos(answered));
    }

    fn end_second(&mut self) {
        self.peak = self.peak.max(self.in_second);
        self.squares_per_s += u128::from(self.in_second) * u128::from(self.in_second);
        self.in_second = 0;
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

    /// Statistics of arrivals.
    pub fn arrivals(&mut self) -> Arrivals {
        self.end_second();
        let gaps = self.gaps.total();
        if gaps == 0 {
            return Arrivals { peak_per_s: self.peak, ..Arrivals::default() };
        }
        let mean = self.sum as f64 / gaps as f64;
        let variance = (self.squares / gaps as f64 - mean * mean).max(0.0);
        let seconds = (self.latest.unwrap_or_default().0 / SECOND + 1) as f64;
        let per_s = self.requests as f64 / seconds;
        let variance_per_s = (self.squares_per_s as f64 / seconds - per_s * per_s).max(0.0);
        let us = |share| self.gaps.quantile(share) as f64 / 1e3;
        Arrivals {
            mean_us: mean / 1e3,
            median_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            variation: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
            peak_per_s: self.peak,
            mean_per_s: per_s,
            burstiness: variance_per_s / per_s,
            histogram: doublings(&self.gaps, 1e3),
        }
    }

    /// The classes of idle periods that occur.
    pub fn idle(&self) -> Vec<IdlePeriods> {
        let all = self.latest.unwrap_or_default().seconds();
        let row = |(&(periods, nanos), at_least_ms): (&(u64, u64), u64)| {
            let seconds = Nanos(nanos).seconds();
            let share_pct = if all > 0.0 { 100.0 * seconds / all } else { 0.0 };
            IdlePeriods { at_least_ms, periods, seconds, share_pct }
        };
        self.idle.iter().zip(IDLE_FROM_MS).filter(|((periods, _), _)| *periods > 0).map(row).collect()
    }
}
