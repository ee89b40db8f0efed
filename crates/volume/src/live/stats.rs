//! Requests answered by an export, a layer or a device, for status and metrics.

use schemars::JsonSchema;
use seekless_core::accesses::Counts;
use seekless_core::meter::Answered;
use seekless_core::{Accesses, Buckets, Meter};
use serde::{Deserialize, Serialize};

/// Requests since the server started, or since a layer was attached.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct IoStats {
    /// Requests in flight.
    pub in_flight: u64,
    /// Reads.
    pub read: KindStats,
    /// Writes.
    pub write: KindStats,
    /// Flushes.
    pub flush: KindStats,
    /// Discards and writes of zeroes.
    pub trim: KindStats,
}

/// Requests of a kind.
#[derive(Clone, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub struct KindStats {
    /// Number of answered requests.
    pub requests: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Bytes of those that did not.
    pub bytes: u64,
    /// Sum of response times, in milliseconds.
    pub sum_ms: f64,
    /// Median response time, in milliseconds: as all percentiles to an eighth, rounded down.
    pub p50_ms: f64,
    /// 99th percentile of response times, in milliseconds.
    pub p99_ms: f64,
    /// 99.9th percentile of response times, in milliseconds.
    pub p999_ms: f64,
    /// The longest response time, in milliseconds.
    pub longest_ms: f64,
    /// Response times: the least of each bucket in nanoseconds, with the number of requests; empty buckets are left
    /// out.
    pub histogram: Vec<(u64, u64)>,
}

/// Reads and writes by address since the server started: how many touched each part of the address space.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct AccessStats {
    /// Bytes of a part: a power of two, so that there are at most 256 parts; it doubles as the export grows.
    pub part_bytes: u64,
    /// Reads, part by part; parts at the end that were never read are left out.
    pub reads: Vec<u64>,
    /// Writes, likewise.
    pub writes: Vec<u64>,
}

impl AccessStats {
    /// What was counted.
    pub fn of(accesses: &Accesses) -> AccessStats {
        let Counts { part_bytes, reads, writes } = accesses.counts();
        AccessStats { part_bytes, reads, writes }
    }

    /// Reads and writes of each part between `before` and this; all of this without an earlier state.
    pub fn since(&self, before: Option<&AccessStats>) -> Vec<u64> {
        let mut earlier = Counts { part_bytes: self.part_bytes, reads: Vec::new(), writes: Vec::new() };
        if let Some(AccessStats { part_bytes, reads, writes }) = before.filter(|before| before.part_bytes > 0)
        {
            earlier = Counts { part_bytes: *part_bytes, reads: reads.clone(), writes: writes.clone() };
        }
        while earlier.part_bytes < self.part_bytes {
            earlier.double();
        }
        let sum = |reads: &[u64], writes: &[u64], part| {
            let at = |parts: &[u64]| parts.get(part).copied().unwrap_or(0);
            at(reads) + at(writes)
        };
        let parts = 0..self.reads.len().max(self.writes.len());
        let counts = parts.map(|part| {
            let now = sum(&self.reads, &self.writes, part);
            now.saturating_sub(sum(&earlier.reads, &earlier.writes, part))
        });
        counts.collect()
    }
}

impl IoStats {
    /// What a meter has counted.
    pub fn of(meter: &Meter) -> IoStats {
        let [read, write, flush, trim] = meter.answered().map(|(_, answered)| KindStats::of(&answered));
        IoStats { in_flight: meter.in_flight(), read, write, flush, trim }
    }

    /// The kinds, with their names.
    pub fn kinds(&self) -> [(&'static str, &KindStats); 4] {
        let [read, write, flush, trim] = seekless_core::meter::KINDS;
        [(read, &self.read), (write, &self.write), (flush, &self.flush), (trim, &self.trim)]
    }

    /// What was answered between `before` and this.
    pub fn since(&self, before: &IoStats) -> IoStats {
        IoStats {
            in_flight: self.in_flight,
            read: self.read.since(&before.read),
            write: self.write.since(&before.write),
            flush: self.flush.since(&before.flush),
            trim: self.trim.since(&before.trim),
        }
    }
}

impl KindStats {
    fn of(answered: &Answered) -> KindStats {
        let Answered { requests, failed, bytes, sum, longest, times } = answered;
        let histogram = times.iter().filter(|(_, count)| *count > 0).collect();
        KindStats {
            requests: *requests,
            failed: *failed,
            bytes: *bytes,
            sum_ms: sum.0 as f64 / 1e6,
            longest_ms: longest.0 as f64 / 1e6,
            ..KindStats::spread(times, histogram)
        }
    }

    /// Percentiles of a histogram.
    fn spread(times: &Buckets, histogram: Vec<(u64, u64)>) -> KindStats {
        let ms = |share| times.quantile(share) as f64 / 1e6;
        KindStats { p50_ms: ms(0.5), p99_ms: ms(0.99), p999_ms: ms(0.999), histogram, ..KindStats::default() }
    }

    /// What was answered between `before` and this; the longest response time is to a bucket's width. All of this, if
    /// `before` is of another server.
    fn since(&self, before: &KindStats) -> KindStats {
        if before.requests > self.requests {
            return self.clone();
        }
        let (mut times, mut histogram) = (Buckets::new(seekless_core::meter::BITS), Vec::new());
        for &(start, count) in &self.histogram {
            let earlier = before.histogram.iter().find(|(other, _)| *other == start);
            let count = count.saturating_sub(earlier.map_or(0, |(_, count)| *count));
            if count > 0 {
                times.add(start, count);
                histogram.push((start, count));
            }
        }
        KindStats {
            requests: self.requests - before.requests,
            failed: self.failed.saturating_sub(before.failed),
            bytes: self.bytes.saturating_sub(before.bytes),
            sum_ms: self.sum_ms - before.sum_ms,
            longest_ms: histogram.last().map_or(0.0, |(start, _)| *start as f64 / 1e6),
            ..KindStats::spread(&times, histogram)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use seekless_core::runtime::{Runtime, sleep};
    use seekless_core::{Nanos, Op};

    use super::*;

    #[test]
    fn accesses_of_an_interval_are_the_difference_also_when_the_space_has_grown() {
        let stats = |part_bytes, reads: &[u64], writes: &[u64]| AccessStats {
            part_bytes,
            reads: reads.to_vec(),
            writes: writes.to_vec(),
        };
        let (before, now) = (stats(4096, &[1, 0, 7], &[0, 2]), stats(8192, &[3, 7, 1], &[2]));
        assert_eq!(now.since(Some(&before)), [2, 0, 1]);
        assert_eq!(now.since(None), [5, 7, 1]);
    }

    #[test]
    fn the_difference_has_percentiles_of_its_own() {
        let run = async {
            let meter = Rc::new(Meter::default());
            let request = async |millis| {
                let timed = meter.begin(Op::Read, 512);
                sleep(Nanos::from_millis(millis)).await;
                timed.end(false);
            };
            request(1).await;
            let before = IoStats::of(&meter);
            for _ in 0..9 {
                request(100).await;
            }
            let after = IoStats::of(&meter);
            let since = after.since(&before).read;
            assert_eq!((since.requests, since.bytes), (9, 9 * 512));
            assert!(since.p50_ms > 87.0 && since.p999_ms <= 100.0, "{since:?}");
            assert!((since.sum_ms - 900.0).abs() < 1e-6 && after.read.longest_ms > 99.9);
            assert_eq!(before.since(&after).read.requests, 1, "of another server");
        };
        Runtime::new(1).run(run).unwrap();
    }
}
