//! Statistics of each volume of a fleet, and their distribution over the volumes.
//!
//! Definitions: times are those of the whole trace, so that rates of all volumes are over the same time, and a volume
//! is idle before its first request and after its last one, as long as the trace has others. A percentile of the fleet
//! is the value of the volume at that rank (nearest rank), each volume counting once, whatever its requests.
//!
//! Invariants: there is a row for each volume with a request; the busiest is the first. All volumes share the
//! memory: when it is full, the largest tables of pages and of pairs are halved, and the rows of these volumes give the
//! error. About 24 KiB for each volume are taken in any case.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use seekless_core::Record;
use serde::Serialize;

use super::one_volume::{FIXED, FIXED_COARSE, LEAST, OneVolume};
use super::{StatsOptions, is_request, percent};
use crate::volumes::Volumes;

/// Idle periods that count, in milliseconds.
const IDLE_MS: u64 = 100;

/// Bytes a volume below which their latencies are kept to 3 %.
const COARSE: u64 = 512 << 10;

/// Statistics of a volume. Percentages are 0 to 100.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct VolumeStats {
    /// Name.
    pub name: String,
    /// Requests that cover bytes.
    pub requests: u64,
    /// Share of all requests of the fleet.
    pub share_pct: f64,
    /// Share of its requests that are reads.
    pub reads_pct: f64,
    /// Mean requests per second.
    pub mean_per_s: f64,
    /// Requests in its busiest second.
    pub peak_per_s: u64,
    /// Variance over mean of requests per second: 1 for random arrivals.
    pub burstiness: f64,
    /// Share of the time in idle periods of 100 ms or longer.
    pub idle_pct: f64,
    /// Median latency in microseconds, where the trace has any; to 0.4 %, or to 3 % if there are many volumes for the
    /// memory.
    pub latency_us: Option<f64>,
    /// Data read.
    pub read_gib: f64,
    /// Data written.
    pub write_gib: f64,
    /// Different pages read or written.
    pub unique_gib: f64,
    /// Share of page accesses to the most accessed fifth of its pages.
    pub top20_share_pct: f64,
    /// Share of its requests that do not start where the one before ends.
    pub nonsequential_pct: f64,
    /// Share of these jumps that occur at least twice.
    pub partial_determinism_pct: f64,
    /// Share of page accesses that an LRU cache of a tenth of its pages misses, of at least one page; from 64 pages on
    /// the cache is up to 3 % smaller.
    pub miss_tenth_pct: f64,
    /// Error of numbers of its pages in per cent, at 95 % confidence; zero if exact.
    pub error_pct: f64,
}

/// A statistic over the volumes of a fleet.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Spread {
    /// The key of the statistic in a volume's row.
    pub statistic: &'static str,
    /// Volumes that have it.
    pub volumes: u64,
    /// The least.
    pub least: f64,
    /// 10th percentile.
    pub p10: f64,
    /// 25th percentile.
    pub p25: f64,
    /// Median.
    pub median: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The largest.
    pub most: f64,
    /// Mean.
    pub mean: f64,
}

/// A fleet of volumes.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Fleet {
    /// The volumes, the busiest first; equals by number.
    pub volumes: Vec<VolumeStats>,
    /// The distribution of each statistic.
    pub distribution: Vec<Spread>,
}

/// A statistic of a volume.
type Statistic = (&'static str, fn(&VolumeStats) -> Option<f64>);

const STATISTICS: [Statistic; 14] = [
    ("requests", |volume| Some(volume.requests as f64)),
    ("reads_pct", |volume| Some(volume.reads_pct)),
    ("mean_per_s", |volume| Some(volume.mean_per_s)),
    ("peak_per_s", |volume| Some(volume.peak_per_s as f64)),
    ("burstiness", |volume| Some(volume.burstiness)),
    ("idle_pct", |volume| Some(volume.idle_pct)),
    ("latency_us", |volume| volume.latency_us),
    ("read_gib", |volume| Some(volume.read_gib)),
    ("write_gib", |volume| Some(volume.write_gib)),
    ("unique_gib", |volume| Some(volume.unique_gib)),
    ("top20_share_pct", |volume| Some(volume.top20_share_pct)),
    ("nonsequential_pct", |volume| Some(volume.nonsequential_pct)),
    ("partial_determinism_pct", |volume| Some(volume.partial_determinism_pct)),
    ("miss_tenth_pct", |volume| Some(volume.miss_tenth_pct)),
];

/// The outline of a fleet.
#[derive(Default)]
pub struct FleetSurvey {
    volumes: BTreeSet<u32>,
    /// Times of the first request of all and of the last, in nanoseconds.
    times: Option<(u64, u64)>,
}

impl FleetSurvey {
    /// Adds a record.
    pub fn note(&mut self, record: &Record) {
        if is_request(record) {
            let (first, last) = self.times.unwrap_or((u64::MAX, 0));
            self.times = Some((first.min(record.time.0), last.max(record.time.0)));
        }
        self.volumes.insert(record.device);
    }
}

/// Statistics of all volumes in progress.
pub struct FleetAnalysis {
    volumes: BTreeMap<u32, OneVolume>,
    times: Option<(u64, u64)>,
    /// Bytes of all tables, and how many there may be.
    used: u64,
    most: u64,
}

impl FleetAnalysis {
    /// For the surveyed volumes, which share the memory.
    pub fn new(survey: FleetSurvey, options: &StatsOptions) -> FleetAnalysis {
        let count = (survey.volumes.len() as u64).max(1);
        let coarse = options.memory / count < COARSE;
        let fixed = count * if coarse { FIXED_COARSE } else { FIXED };
        let memory = options.memory.saturating_sub(fixed).max(count * 2 * LEAST).max(1 << 20);
        let volumes = survey.volumes.into_iter().map(|device| (device, OneVolume::new(memory, coarse)));
        // Half: the rest is for a table that grows, and for sorting at the end.
        FleetAnalysis { volumes: volumes.collect(), times: survey.times, used: 0, most: memory / 2 }
    }

    /// Adds the next record, which was surveyed.
    pub fn follow(&mut self, record: &Record) {
        let Some(volume) = self.volumes.get_mut(&record.device) else { return };
        let before = volume.bytes();
        volume.follow(record);
        self.used = self.used + volume.bytes() - before;
        if self.used > self.most {
            self.halve();
        }
    }

    /// Halves the largest tables until all fit.
    fn halve(&mut self) {
        while self.used > self.most {
            let largest = self.volumes.values().map(OneVolume::largest).max().unwrap_or(0);
            if largest <= LEAST {
                // Many volumes, each with hardly a page: they take what they need.
                self.most = self.used.saturating_mul(2);
                return;
            }
            self.volumes.values_mut().for_each(|volume| volume.halve_above((largest / 2).max(LEAST)));
            self.used = self.volumes.values().map(OneVolume::bytes).sum();
        }
    }

    /// The statistics, after all records; `volumes` are theirs.
    pub fn finish(self, volumes: &Volumes) -> Fleet {
        let all = self.volumes.values().map(|volume| volume.counts.requests).sum();
        let times = self.times.unwrap_or_default();
        // One by one: the tables of a volume are many times larger than its row.
        let with_requests = self.volumes.into_iter().filter(|(_, volume)| volume.counts.requests > 0);
        let finished = with_requests.map(|(device, volume)| row(volumes.name(device), volume, times, all));
        let mut rows: Vec<VolumeStats> = finished.collect();
        rows.sort_by_key(|volume| Reverse(volume.requests));
        let spread = |(name, value): &Statistic| Spread::of(name, rows.iter().filter_map(value).collect());
        let distribution = STATISTICS.iter().filter_map(spread).collect();
        Fleet { volumes: rows, distribution }
    }
}

/// The row of a volume, of `all` requests of the fleet.
fn row(name: String, volume: OneVolume, times: (u64, u64), all: u64) -> VolumeStats {
    let latency_us = volume.latency_us();
    let (stats, miss_tenth) = volume.finish(times);
    let idle = stats.idle_periods.iter().find(|class| class.at_least_ms == IDLE_MS);
    VolumeStats {
        name,
        requests: stats.requests,
        share_pct: percent(stats.requests, all),
        reads_pct: percent(stats.reads, stats.requests),
        mean_per_s: stats.arrivals.mean_per_s,
        peak_per_s: stats.arrivals.peak_per_s,
        burstiness: stats.arrivals.burstiness,
        idle_pct: idle.map_or(0.0, |class| class.share_pct),
        latency_us,
        read_gib: stats.read_gib_total,
        write_gib: stats.write_gib_total,
        unique_gib: stats.total_gib_unique,
        top20_share_pct: stats.top20_share_pct,
        nonsequential_pct: stats.nonsequential_pct,
        partial_determinism_pct: stats.partial_determinism_pct,
        miss_tenth_pct: 100.0 * miss_tenth,
        error_pct: stats.page_sampling.error_pct,
    }
}

impl Spread {
    /// The distribution of a statistic of this name; `None` if no volume has it.
    pub fn of(statistic: &'static str, values: Vec<f64>) -> Option<Spread> {
        let mut values = values;
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let rank = |share: f64| {
            let rank = (share * values.len() as f64).ceil() as usize;
            values.get(rank.saturating_sub(1)).copied().unwrap_or(most)
        };
        Some(Spread {
            statistic,
            volumes: values.len() as u64,
            least,
            p10: rank(0.1),
            p25: rank(0.25),
            median: rank(0.5),
            p75: rank(0.75),
            p90: rank(0.9),
            p99: rank(0.99),
            most,
            mean: values.iter().sum::<f64>() / values.len() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use seekless_core::record::Flags;
    use seekless_core::{Extent, Latency, Names, Nanos, Op, Origin};

    use super::*;
    use crate::stats::characterise;
    use crate::volumes::Naming;

    fn record(time_ms: u64, device: u32, op: Op, page: u64) -> Record {
        let (extent, origin) = (Extent::new(page * 8, 8), Origin::default());
        let (time, latency) =
            (Nanos::from_millis(time_ms), Latency::of(Nanos::from_millis(u64::from(device))));
        Record { time, device, op, extent, flags: Flags::default(), origin, latency }
    }

    fn fleet(records: &[Record]) -> Fleet {
        let mut survey = FleetSurvey::default();
        for record in records {
            survey.note(record);
        }
        let mut analysis = FleetAnalysis::new(survey, &StatsOptions::default());
        for record in records {
            analysis.follow(record);
        }
        analysis.finish(&Volumes::new(Naming::Numbered))
    }

    /// Volume n has 10 n requests, of which those of the even ones are writes.
    fn several() -> Vec<Record> {
        let of = |number: u32| {
            let op = if number % 2 == 0 { Op::Write } else { Op::Read };
            (0..10 * u64::from(number)).map(move |at| record(at * 20, number, op, at * at % 7 + at))
        };
        let mut all: Vec<Record> = (1..=10).flat_map(of).collect();
        all.sort_by_key(|record| record.time);
        all
    }

    #[test]
    fn each_volume_has_the_statistics_of_its_requests_alone() {
        let records = several();
        let found = fleet(&records);
        assert_eq!(found.volumes.len(), 10);
        for volume in &found.volumes {
            let own: Vec<Record> =
                records.iter().filter(|record| record.device.to_string() == volume.name).copied().collect();
            let alone = characterise(&own, &Names::default(), &Volumes::default(), &StatsOptions::default());
            let expected = VolumeStats {
                requests: alone.requests,
                share_pct: percent(alone.requests, records.len() as u64),
                reads_pct: percent(alone.reads, alone.requests),
                peak_per_s: alone.arrivals.peak_per_s,
                latency_us: alone.latencies.map(|latencies| latencies.median_us),
                read_gib: alone.read_gib_total,
                write_gib: alone.write_gib_total,
                unique_gib: alone.total_gib_unique,
                top20_share_pct: alone.top20_share_pct,
                nonsequential_pct: alone.nonsequential_pct,
                partial_determinism_pct: alone.partial_determinism_pct,
                error_pct: alone.page_sampling.error_pct,
                ..volume.clone()
            };
            assert_eq!(*volume, expected);
        }
        let names: Vec<&str> = found.volumes.iter().take(3).map(|volume| volume.name.as_str()).collect();
        assert_eq!(names, ["10", "9", "8"]);
        assert_eq!(found.volumes[0].latency_us, Some(9_994.24));
    }

    #[test]
    fn rates_and_idle_periods_are_over_the_time_of_the_whole_trace() {
        let one = |time, device| record(time, device, Op::Read, 0);
        let mut all: Vec<Record> = (0..10).map(|at| one(at * 50, 1)).collect();
        all.extend((0..=99).map(|second| one(second * 1_000, 2)));
        all.extend([one(89_900, 3), one(98_900, 3), one(49_500, 4)]);
        all.sort_by_key(|record| record.time);
        let found = fleet(&all);
        let of = |name: &str| found.volumes.iter().find(|volume| volume.name == name).unwrap();
        let near =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}, {expected}");
        near(of("1").mean_per_s, 10.0 / 99.0);
        near(of("2").mean_per_s, 100.0 / 99.0);
        near(of("4").mean_per_s, 1.0 / 99.0);
        // Idle from its last answer at 451 ms to the end at 99 s, and 4 ms less than all of it with answers at 4 ms.
        near(of("1").idle_pct, 100.0 * (99.0 - 0.451) / 99.0);
        near(of("4").idle_pct, 100.0 * (99.0 - 0.004) / 99.0);
        // Its last period is too short to count.
        near(of("3").idle_pct, 100.0 * (98.9 - 0.003) / 99.0);
        // All ten in one of a hundred seconds: the mean square over the mean, less the mean.
        near(of("1").burstiness, 100.0 / 10.0 - 0.1);
    }

    #[test]
    fn the_cache_of_a_tenth_has_the_misses_of_its_own_size() {
        let volume = |pages: Vec<u64>| {
            let record = |(at, page)| record(at, 1, Op::Read, page);
            let records: Vec<Record> = (0..).zip(pages).map(record).collect();
            let found = fleet(&records);
            (found.volumes[0].miss_tenth_pct * 1e6).round() as u64
        };
        // In millionths of a per cent. Each of 100 pages five times in a row; each once; each of five pages twice in a
        // row.
        assert_eq!(volume((0..500).map(|at| at / 5).collect()), 20_000_000);
        assert_eq!(volume((0..100).collect()), 100_000_000);
        assert_eq!(volume((0..10).map(|at| at / 2).collect()), 50_000_000);
        // Ten rounds of 10 pages, and then 90 others: ten pages are enough, to the page.
        let rounds = |pages: u64| (0..100).map(|at| at % pages).chain(100..200 - pages).collect();
        assert_eq!(volume(rounds(10)), 52_631_579);
        assert_eq!(volume(rounds(11)), 100_000_000);
    }

    #[test]
    fn all_volumes_share_the_memory() {
        // Three large volumes, and fifty of ten pages each that are read again and again.
        let large =
            |device: u32| (0..60_000).map(move |at| record(at, device, Op::Read, at * 7_919 % 50_000));
        let small = |device: u32| (0..100).map(move |at| record(at, device, Op::Read, at * 3 % 10));
        let mut records: Vec<Record> = (1..=3).flat_map(large).chain((4..54).flat_map(small)).collect();
        records.sort_by_key(|record| record.time);
        let with = |memory: u64| {
            let mut survey = FleetSurvey::default();
            for record in &records {
                survey.note(record);
            }
            let mut analysis =
                FleetAnalysis::new(survey, &StatsOptions { memory, ..StatsOptions::default() });
            let mut most = 0;
            for record in &records {
                analysis.follow(record);
                most = analysis.used.max(most);
            }
            (most, analysis.finish(&Volumes::new(Naming::Numbered)))
        };
        let (needed, exact) = with(1 << 30);
        assert!(needed > 8 << 20 && exact.volumes.iter().all(|volume| volume.error_pct == 0.0), "{needed}");
        let (used, sampled) = with(4 << 20);
        assert!(used <= 2 << 20, "{used}");
        for (volume, whole) in sampled.volumes.iter().zip(&exact.volumes) {
            let is_large = whole.requests > 100;
            assert_eq!(volume.error_pct > 0.0, is_large, "{volume:?}");
            let off = (volume.unique_gib / whole.unique_gib - 1.0).abs();
            assert!(off <= volume.error_pct / 100.0 * 2.0, "{volume:?} {whole:?}");
            // Latencies are coarser.
            let exact = VolumeStats { latency_us: whole.latency_us, ..volume.clone() };
            assert!(is_large || exact == *whole, "{volume:?} {whole:?}");
        }
        // Each of them has a page at least, whatever the memory.
        assert_eq!(with(0).1.volumes.len(), 53);
    }

    #[test]
    fn percentiles_are_over_volumes_not_requests() {
        let found = fleet(&several());
        let of =
            |statistic: &str| found.distribution.iter().find(|spread| spread.statistic == statistic).unwrap();
        let requests = of("requests");
        assert_eq!((requests.least, requests.p10, requests.median), (10.0, 10.0, 50.0));
        assert_eq!((requests.p90, requests.p99, requests.most, requests.mean), (90.0, 100.0, 100.0, 55.0));
        assert_eq!((of("reads_pct").p25, of("reads_pct").p75), (0.0, 100.0));
        assert_eq!(fleet(&[]), Fleet::default());
    }
}
