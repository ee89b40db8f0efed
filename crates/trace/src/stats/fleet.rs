//! Statistics of each volume of a fleet, and their distribution over the volumes.
//!
//! Definitions: times are those of the whole trace, so that rates of all volumes are over the same time, and a volume is
//! idle before its first request and after its last one, as long as the trace has others. A percentile of the fleet is the value of the volume at that rank (nearest rank), each volume counting once, whatever its requests.
//!
//! Invariants: there is a row for each volume with a request; the busiest is the first. Memory is divided evenly: a volume
//! whose pages do not fit its share is sampled, and its row gives the error.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use seekless_core::{Names, Record};
use serde::Serialize;

use super::analysis::Analysis;
use super::survey::Survey;
use super::{Intervals, StatsOptions, is_request, percent};
use crate::volumes::Volumes;

/// Idle periods that count, in milliseconds.
const IDLE_MS: u64 = 100;

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
    /// Median latency in microseconds, where the trace has any.
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
    /// Share of page accesses that an LRU cache of a tenth of its pages misses, of at least one page; from 64 pages on the
    /// cache is up to 3 % smaller.
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

/// The outlines of all volumes.
#[derive(Default)]
pub struct FleetSurvey {
    volumes: BTreeMap<u32, Survey>,
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
        self.volumes.entry(record.device).or_default().note(record);
    }
}

/// Statistics of all volumes in progress.
pub struct FleetAnalysis {
    volumes: BTreeMap<u32, Analysis>,
    times: Option<(u64, u64)>,
}

impl FleetAnalysis {
    /// For the surveyed volumes, which share the memory.
    pub fn new(survey: FleetSurvey, options: &StatsOptions) -> FleetAnalysis {
        let memory = options.memory / (survey.volumes.len() as u64).max(1);
        // Neither heat maps nor working sets are in the rows.
        let (heat_columns, heat_rows, intervals) = (1, 1, Intervals::Count(0));
        let options = StatsOptions { heat_columns, heat_rows, intervals, memory, ..*options };
        let analysis = |(device, survey)| (device, Analysis::new(survey, &options));
        FleetAnalysis { volumes: survey.volumes.into_iter().map(analysis).collect(), times: survey.times }
    }

    /// Adds the next record, which was surveyed.
    pub fn follow(&mut self, record: &Record) {
        if let Some(analysis) = self.volumes.get_mut(&record.device) {
            analysis.follow(record);
        }
    }

    /// The statistics, after all records.
    pub fn finish(self, names: &Names, volumes: &Volumes) -> Fleet {
        let all = self.volumes.values().map(|analysis| analysis.counts.requests).sum();
        let with_requests = self.volumes.into_iter().filter(|(_, analysis)| analysis.counts.requests > 0);
        // One by one: all that is known of a volume is many times larger than its row.
        let finished = with_requests.map(|(device, mut analysis)| {
            self.times.into_iter().for_each(|times| analysis.extend(times));
            row(volumes.name(device), analysis, (names, volumes), all)
        });
        let mut rows: Vec<VolumeStats> = finished.collect();
        rows.sort_by_key(|volume| Reverse(volume.requests));
        let distribution = STATISTICS.iter().filter_map(|statistic| spread(*statistic, &rows)).collect();
        Fleet { volumes: rows, distribution }
    }
}

/// The row of a volume, of `all` requests of the fleet.
fn row(name: String, mut analysis: Analysis, (names, volumes): (&Names, &Volumes), all: u64) -> VolumeStats {
    analysis.pages.settle();
    let miss_tenth_pct = 100.0 * analysis.pages.miss_ratio_of_a_tenth();
    let stats = analysis.finish(names, volumes);
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
        latency_us: stats.latencies.as_ref().map(|latencies| latencies.median_us),
        read_gib: stats.read_gib_total,
        write_gib: stats.write_gib_total,
        unique_gib: stats.total_gib_unique,
        top20_share_pct: stats.top20_share_pct,
        nonsequential_pct: stats.nonsequential_pct,
        partial_determinism_pct: stats.partial_determinism_pct,
        miss_tenth_pct,
        error_pct: stats.page_sampling.error_pct,
    }
}

/// The distribution of a statistic; `None` if no volume has it.
fn spread((statistic, value): Statistic, rows: &[VolumeStats]) -> Option<Spread> {
    let mut values: Vec<f64> = rows.iter().filter_map(value).collect();
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

#[cfg(test)]
mod tests {
    use seekless_core::record::Flags;
    use seekless_core::{Extent, Latency, Nanos, Op, Origin};

    use super::*;
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
        analysis.finish(&Names::default(), &Volumes::new(Naming::Numbered))
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
            let mut alone = Analysis::new(Survey::of(&own), &StatsOptions::default());
            own.iter().for_each(|record| alone.follow(record));
            let tables = (&Names::default(), &Volumes::default());
            let expected = row(volume.name.clone(), alone, tables, records.len() as u64);
            // Times are those of the whole trace.
            let VolumeStats { mean_per_s, burstiness, idle_pct, .. } = *volume;
            assert_eq!(*volume, VolumeStats { mean_per_s, burstiness, idle_pct, ..expected });
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
        near(of("1").mean_per_s, 0.1);
        near(of("2").mean_per_s, 1.0);
        near(of("4").mean_per_s, 0.01);
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
            (found.volumes[0].miss_tenth_pct * 1e6).round() / 1e6
        };
        // Each of 100 pages five times in a row; each once; each of five pages twice in a row.
        assert_eq!(volume((0..500).map(|at| at / 5).collect()), 20.0);
        assert_eq!(volume((0..100).collect()), 100.0);
        assert_eq!(volume((0..10).map(|at| at / 2).collect()), 50.0);
        // Ten rounds of 10 pages, and then 90 others: ten pages are enough, to the page.
        let rounds = |pages: u64| (0..100).map(|at| at % pages).chain(100..200 - pages).collect();
        assert_eq!(volume(rounds(10)), 52.631_579);
        assert_eq!(volume(rounds(11)), 100.0);
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
