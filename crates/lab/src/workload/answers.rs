//! What came back: how many requests of which kind, and how long they took.
//!
//! Response times are kept to three digits, so that a long run takes no more memory than a short one;
//! their sum and the longest are exact.

use hdrhistogram::Histogram;
use seekless_core::{Extent, Nanos, Op};
use serde::Serialize;

/// Requests that were answered.
#[derive(Debug)]
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
    /// Response times added up.
    pub sum: Nanos,
    /// Those of reads added up.
    pub sum_of_reads: Nanos,
    /// The longest response time.
    pub longest: Nanos,
    times: Histogram<u64>,
}

/// Response times that so many of the requests did not exceed, in milliseconds, to three digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResponseMs {
    /// Half of them.
    pub p50: f64,
    /// 90 per cent.
    pub p90: f64,
    /// 99 per cent.
    pub p99: f64,
    /// 99.9 per cent.
    pub p999: f64,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers {
            reads: 0,
            writes: 0,
            flushes: 0,
            discards: 0,
            failed: 0,
            bytes_read: 0,
            bytes_written: 0,
            sum: Nanos::ZERO,
            sum_of_reads: Nanos::ZERO,
            longest: Nanos::ZERO,
            times: Histogram::new(3).expect("three digits are within 0 to 5"),
        }
    }
}

impl Answers {
    /// One more.
    pub fn add(&mut self, op: Op, at: Extent, took: Nanos) {
        match op {
            Op::Read => {
                (self.reads, self.bytes_read) = (self.reads + 1, self.bytes_read + at.bytes());
                self.sum_of_reads += took;
            }
            Op::Write | Op::WriteZeroes => {
                (self.writes, self.bytes_written) = (self.writes + 1, self.bytes_written + at.bytes());
            }
            Op::Flush => self.flushes += 1,
            Op::Discard => self.discards += 1,
        }
        self.sum += took;
        self.longest = self.longest.max(took);
        // It grows as it needs to, so nothing is refused.
        let _ = self.times.record(took.0);
    }

    /// All of them.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.discards
    }

    /// How the response times are spread.
    pub fn response_ms(&self) -> ResponseMs {
        let ms = |part: f64| self.times.value_at_quantile(part).min(self.longest.0) as f64 / 1e6;
        ResponseMs { p50: ms(0.5), p90: ms(0.9), p99: ms(0.99), p999: ms(0.999) }
    }
}
