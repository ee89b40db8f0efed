//! One volume of a fleet in progress: what its row needs, and no more, since there may be thousands.
//!
//! Bound: its histograms take at most [`FIXED`] or [`FIXED_COARSE`] bytes. Its tables, of pages and of pairs of
//! requests, grow until they are halved, which makes samples of them (see `sample`).

use seekless_core::{Buckets, Nanos, Op, Record};

use super::analysis::Counts;
use super::arrivals::Clock;
use super::pages::Pages;
use super::sequence::{Pairs, Span, nonsequential, repeated_pct};
use super::{Stats, is_request, moves_data, percent};

/// Bytes of a volume besides its tables, at most.
pub(super) const FIXED: u64 = 112 << 10;
/// As [`FIXED`], where latencies are kept to 3 %.
pub(super) const FIXED_COARSE: u64 = 24 << 10;
/// Tables of fewer bytes are not halved.
pub(super) const LEAST: u64 = 2 << 10;
/// Latencies are kept to 0.4 %, or to 3 %: 256 or 32 buckets per doubling.
const BITS: u32 = 8;
const BITS_COARSE: u32 = 5;

/// A volume in progress.
pub(super) struct OneVolume {
    pub counts: Counts,
    clock: Clock,
    /// Known latencies, in nanoseconds.
    latencies: Buckets,
    pages: Pages,
    previous: Option<Span>,
    nonsequential: u64,
    pairs: Pairs,
}

impl OneVolume {
    /// No records yet; its tables take at most `memory` bytes, also while they grow.
    pub fn new(memory: u64, coarse: bool) -> OneVolume {
        OneVolume {
            counts: Counts::default(),
            clock: Clock::coarse(),
            latencies: Buckets::new(if coarse { BITS_COARSE } else { BITS }),
            pages: Pages::small(memory / 2),
            previous: None,
            nonsequential: 0,
            pairs: Pairs::new(memory / 4),
        }
    }

    /// Adds its next record.
    pub fn follow(&mut self, record: &Record) {
        self.counts.add(record);
        if !is_request(record) {
            return;
        }
        self.clock.follow(record);
        record.latency.known().into_iter().for_each(|latency| self.latencies.add(latency.0, 1));
        let here = Span { volume: 0, start: record.extent.start.0, end: record.extent.end().0 };
        if let Some(pair) = nonsequential(self.previous.replace(here), here) {
            self.nonsequential += 1;
            self.pairs.count(pair);
        }
        if moves_data(record) {
            let write = record.op != Op::Read;
            for page in record.extent.pages() {
                self.pages.access(page, write, record.time);
            }
        }
    }

    /// Bytes of its tables.
    pub fn bytes(&self) -> u64 {
        self.pages.bytes() + self.pairs.bytes()
    }

    /// Bytes of the larger of its tables.
    pub fn largest(&self) -> u64 {
        self.pages.bytes().max(self.pairs.bytes())
    }

    /// Halves its tables of more than `bytes` bytes.
    pub fn halve_above(&mut self, bytes: u64) {
        if self.pages.bytes() > bytes {
            self.pages.halve();
        }
        if self.pairs.bytes() > bytes {
            self.pairs.halve();
        }
    }

    /// Its figures, and the miss ratio of a cache of a tenth of its pages; `whole` are the times of the first request
    /// of the whole trace and of the last, in nanoseconds. Other statistics are not filled in.
    pub fn finish(mut self, whole: (u64, u64)) -> (Stats, f64) {
        self.pages.settle();
        let mut stats = Stats::default();
        self.counts.summarise(&mut stats);
        self.pages.summarise(&mut stats);
        if let Some((first, _)) = self.counts.times {
            self.clock.extend(first, whole);
        }
        let time = Nanos(whole.1.saturating_sub(whole.0)).seconds();
        (stats.arrivals, stats.idle_periods) = (self.clock.arrivals(time), self.clock.idle());
        stats.nonsequential_pct = percent(self.nonsequential, self.counts.requests.saturating_sub(1));
        stats.partial_determinism_pct = repeated_pct(&self.pairs.powers());
        (stats, self.pages.miss_ratio_of_a_tenth())
    }

    /// The median of its known latencies, in microseconds; `None` if it has none.
    pub fn latency_us(&self) -> Option<f64> {
        (self.latencies.total() > 0).then(|| self.latencies.quantile(0.5) as f64 / 1e3)
    }
}
