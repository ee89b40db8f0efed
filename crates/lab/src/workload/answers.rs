//! Counts of answered requests by kind, and their response times.
//!
//! Response times are kept to three digits, so that a long run takes no more memory than a short one; their sum and the
//! longest are exact.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use seekless_core::{Account, Extent, Nanos, Op};
use seekless_layers::replay::Tally;
use serde::Serialize;

/// Answered requests.
#[derive(Debug, Default)]
pub struct Answers {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Requests that failed, which are in no other figure.
    pub failed: u64,
    /// Response times of all.
    pub all: Times,
    /// Response times of reads.
    pub of_reads: Times,
    /// Response times of writes, including zeroes.
    pub of_writes: Times,
}

/// A distribution of response times.
#[derive(Debug)]
pub struct Times {
    /// Number of requests.
    pub requests: u64,
    /// Their sum.
    pub sum: Nanos,
    /// The longest.
    pub longest: Nanos,
    spread: Histogram<u64>,
}

/// Response times in milliseconds; zero if there are none.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Response {
    /// Number of requests.
    pub requests: u64,
    /// Mean.
    pub mean: f64,
    /// Distribution.
    #[serde(flatten)]
    pub spread: ResponseMs,
    /// The longest.
    pub longest: f64,
    /// Bins: (longest time, number of requests that took at most that and more than the bin before).
    pub histogram: Vec<(f64, u64)>,
}

/// Response times by operation, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Responses {
    /// All requests, flushes and discards included.
    pub all: Response,
    /// Reads.
    pub reads: Response,
    /// Writes.
    pub writes: Response,
}

/// Percentiles of response times, in milliseconds, to three digits.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct ResponseMs {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
}

impl Default for Times {
    fn default() -> Times {
        let spread = Histogram::new(3).expect("three digits are within 0 to 5");
        Times { requests: 0, sum: Nanos::ZERO, longest: Nanos::ZERO, spread }
    }
}

impl Times {
    /// Adds a response time.
    pub fn add(&mut self, took: Nanos) {
        self.requests += 1;
        self.sum += took;
        self.longest = self.longest.max(took);
        // The histogram grows as needed, so this cannot fail.
        let _ = self.spread.record(took.0);
    }

    /// Mean, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.sum.seconds() * 1e3 / self.requests.max(1) as f64
    }

    /// Percentiles.
    pub fn spread_ms(&self) -> ResponseMs {
        let ms = |part: f64| self.spread.value_at_quantile(part).min(self.longest.0) as f64 / 1e6;
        ResponseMs { p50: ms(0.5), p90: ms(0.9), p99: ms(0.99), p999: ms(0.999) }
    }

    /// Bins that are not empty, four for each doubling of the time: the longest time in each, and its requests.
    fn histogram_ms(&self) -> Vec<(f64, u64)> {
        let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
        for step in self.spread.iter_recorded() {
            *bins.entry(bin_end(step.value_iterated_to())).or_default() += step.count_since_last_iteration();
        }
        bins.into_iter().map(|(end, count)| (end as f64 / 1e6, count)).collect()
    }

    /// All figures.
    pub fn response(&self) -> Response {
        let (mean, longest) = (self.mean_ms(), self.longest.seconds() * 1e3);
        let histogram = self.histogram_ms();
        Response { requests: self.requests, mean, spread: self.spread_ms(), longest, histogram }
    }
}

/// The smallest of 4, 5, 6 and 7 times a power of two that is not below a number.
fn bin_end(value: u64) -> u64 {
    let shift = value.saturating_sub(1).max(4).ilog2() - 2;
    value.div_ceil(1 << shift).max(4) << shift
}

impl Tally for Answers {
    fn answered(&mut self, _account: Account, op: Op, at: Extent, took: Nanos) {
        self.add(op, at, took);
    }

    fn failed(&mut self) {
        self.failed += 1;
    }
}

impl Answers {
    /// Adds a request.
    pub fn add(&mut self, op: Op, at: Extent, took: Nanos) {
        match op {
            Op::Read => {
                (self.reads, self.bytes_read) = (self.reads + 1, self.bytes_read + at.bytes());
                self.of_reads.add(took);
            }
            Op::Write | Op::WriteZeroes => {
                (self.writes, self.bytes_written) = (self.writes + 1, self.bytes_written + at.bytes());
                self.of_writes.add(took);
            }
            Op::Flush => self.flushes += 1,
            Op::Discard => self.discards += 1,
        }
        self.all.add(took);
    }

    /// Number of all requests.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.discards
    }

    /// Response times by operation.
    pub fn responses(&self) -> Responses {
        Responses {
            all: self.all.response(),
            reads: self.of_reads.response(),
            writes: self.of_writes.response(),
        }
    }
}
