//! Workload statistics: Table 1 and Figure 1 of the BORG paper, and further common ones.
//!
//! Definitions, which hold throughout: a *request* is a record that covers bytes; flushes are counted apart. A *page*
//! is 4 KiB, and counts whole when it is touched; an *access* is one request touching one page. Discards are requests,
//! and part of sequences; they move no data, so they touch no page. A write of zeroes is a write. GiB are 2^30 bytes.
//! Volumes have their own pages; where there is one picture for all of them, they are laid end to end.
//!
//! Invariants: the same records give the same figures, bit for bit: sums are integers, and output from a hash map is
//! sorted. Memory is bounded by [`StatsOptions::memory`]; below it everything is exact, above it statistics of single
//! pages and pairs of requests are from a sample, whose error is given.
//!
//! Nothing can fail. No records give zeroes, not NaN.

mod analysis;
mod arrivals;
mod buckets;
mod depth;
pub mod fleet;
mod heat_map;
mod one_volume;
mod pages;
mod processes;
mod reuse;
mod sample;
mod sequence;
pub mod shards;
mod share_error;
mod sizes;
mod slices;
mod stack;
mod summary;
mod survey;
mod volume_use;
mod working_sets;

use schemars::JsonSchema;
use seekless_core::{Nanos, Op, Record};
use serde::Serialize;

pub use analysis::{Analysis, characterise};
pub use arrivals::{Arrivals, IdlePeriods};
pub use buckets::Doubling;
pub use depth::{DepthShare, Latencies, QueueDepth};
pub use heat_map::{HEAT_LEVELS, HeatMap};
pub use pages::RankPoint;
pub use processes::{ProcessUse, family};
pub use reuse::{MissPoint, MissRatio, MissRatioCurve};
pub use sample::Sampling;
pub use sequence::{PairRepeats, RunLength};
pub use sizes::SizeBucket;
pub use slices::Slice;
pub use summary::SummaryLine;
pub use survey::Survey;
pub use volume_use::VolumeUse;
pub use working_sets::{Intervals, MAX_INTERVALS, TooManyIntervals, WorkingSet};

/// Options of the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsOptions {
    /// The device's size; `None`: the end of the last access.
    pub device_sectors: Option<u64>,
    /// Columns of the heat map.
    pub heat_columns: u32,
    /// Rows of the heat map.
    pub heat_rows: u32,
    /// Intervals of the working sets; the paper has seven days.
    pub intervals: Intervals,
    /// Memory limit in bytes: above it, pages and pairs are sampled. At least 1 MiB.
    pub memory: u64,
}

impl Default for StatsOptions {
    fn default() -> Self {
        StatsOptions {
            device_sectors: None,
            heat_columns: 64,
            heat_rows: 32,
            intervals: Intervals::Count(7),
            memory: 1 << 30,
        }
    }
}

impl StatsOptions {
    /// Checks that a trace that ends at `end` has no more intervals than working sets are computed of.
    pub fn check(&self, end: Nanos) -> Result<(), TooManyIntervals> {
        self.intervals.check(end)
    }
}

/// Statistics of a workload. Percentages are 0 to 100.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Stats {
    /// What matters most, in words: five lines.
    pub summary: Vec<SummaryLine>,
    /// Records that cover bytes.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Records that cover no bytes.
    pub flushes: u64,
    /// Discards among the requests.
    pub discards: u64,
    /// Data read, over all requests.
    pub read_gib_total: f64,
    /// Size of the pages read.
    pub read_gib_unique: f64,
    /// Data written, over all requests.
    pub write_gib_total: f64,
    /// Size of the pages written.
    pub write_gib_unique: f64,
    /// Size of the pages read or written.
    pub total_gib_unique: f64,
    /// The size of the device, or of all volumes together: as given, and at least up to the last access.
    pub device_gib: f64,
    /// Share of its pages that were read or written.
    pub device_accessed_pct: f64,
    /// Share of page accesses that go to the most accessed fifth of the accessed pages.
    pub top20_share_pct: f64,
    /// As above, for reads and the pages read.
    pub top20_read_share_pct: f64,
    /// As above, for writes and the pages written.
    pub top20_write_share_pct: f64,
    /// Share of pairs of consecutive requests whose second does not start where the first ends.
    pub nonsequential_pct: f64,
    /// Median distance from the end of the first request of such a pair to the start of the second, on one volume; to 3
    /// %.
    pub jump_median_gib: f64,
    /// Share of those pairs whose (start sector, start sector) occurs at least twice.
    pub partial_determinism_pct: f64,
    /// As above with the predecessor of the same process, whichever process repeats the pair.
    pub partial_determinism_per_process_pct: f64,
    /// Time from the first request to the last.
    pub seconds: f64,
    /// Pages read or written.
    pub accessed_pages: u64,
    /// Different process numbers among the requests; 0 if the trace has none.
    pub processes: u64,
    /// Accesses of the k-th most read page: Figure 1, top.
    pub read_rank_frequency: Vec<RankPoint>,
    /// Accesses of the k-th most written page: Figure 1, top.
    pub write_rank_frequency: Vec<RankPoint>,
    /// Accesses by place on the device: Figure 1, middle.
    pub heat_map: HeatMap,
    /// Changes of the working set: Figure 1, bottom.
    pub working_sets: Vec<WorkingSet>,
    /// Processes with the most requests.
    pub top_processes: Vec<ProcessUse>,
    /// Sizes of requests.
    pub request_sizes: Vec<SizeBucket>,
    /// Repetitions of non-sequential pairs.
    pub pair_repeats: Vec<PairRepeats>,
    /// Lengths of sequential runs.
    pub sequential_runs: Vec<RunLength>,
    /// Arrivals.
    pub arrivals: Arrivals,
    /// Idle periods.
    pub idle_periods: Vec<IdlePeriods>,
    /// Latencies, where the trace has them.
    pub latencies: Option<Latencies>,
    /// Number of requests in flight, where the trace has latencies.
    pub queue_depth: Option<QueueDepth>,
    /// Reuse distances; `up_to` in pages.
    pub reuse_distances: Vec<Doubling>,
    /// Miss ratio of an LRU cache, by its size.
    pub miss_ratio_curve: MissRatioCurve,
    /// Intervals between two writes of a page; `up_to` in seconds.
    pub overwrite_intervals: Vec<Doubling>,
    /// Mix and footprint over time.
    pub over_time: Vec<Slice>,
    /// Use of each volume.
    pub volumes: Vec<VolumeUse>,
    /// Sampling of the pages' statistics.
    pub page_sampling: Sampling,
    /// Sampling of pairs of requests, and of partial determinism.
    pub pair_sampling: Sampling,
}

/// Whether a request moves data, and so touches pages.
fn moves_data(record: &Record) -> bool {
    matches!(record.op, Op::Read | Op::Write | Op::WriteZeroes)
}

fn is_request(record: &Record) -> bool {
    record.extent.sectors > 0
}

/// `part` of `whole` in per cent; zero if `whole` is.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
mod tests;
