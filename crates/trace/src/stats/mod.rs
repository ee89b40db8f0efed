//! What a workload is like: Table 1 and Figure 1 of the BORG paper, and what people ask for besides.
//!
//! Definitions, which hold throughout: a *request* is a record that covers bytes; flushes are counted
//! apart. A *page* is 4 KiB, and counts whole when it is touched; an *access* is one request touching
//! one page. Discards are requests, and take part in sequences; they move no data, so that they touch
//! no page. A write of zeroes is a write. GiB are 2^30 bytes. Volumes keep their own pages; where there
//! is one picture for all of them, they are laid end to end.
//!
//! Invariants: the same records give the same figures, bit for bit: sums are integers, and what comes
//! out of a hash map is sorted. Memory is bounded by [`StatsOptions::memory`]; below it all is exact,
//! above it what concerns single pages and pairs of requests is a sample, whose error is told.
//!
//! Nothing can fail. No records give zeroes, not NaN.

mod analysis;
mod arrivals;
mod buckets;
mod depth;
mod heat_map;
mod pages;
mod processes;
mod reuse;
mod sample;
mod sequence;
mod sizes;
mod slices;
mod stack;
mod survey;
mod volume_use;
mod working_sets;

use seekless_core::{Op, Record};
use serde::Serialize;

pub use analysis::{Analysis, characterise};
pub use arrivals::{Arrivals, IdlePeriods};
pub use buckets::{Buckets, Doubling};
pub use depth::{DepthShare, Latencies, QueueDepth};
pub use heat_map::{HEAT_LEVELS, HeatMap};
pub use pages::RankPoint;
pub use processes::{ProcessUse, family};
pub use reuse::{MissPoint, MissRatio, MissRatioCurve};
pub use sample::Sampling;
pub use sequence::{PairRepeats, RunLength};
pub use sizes::SizeBucket;
pub use slices::Slice;
pub use survey::Survey;
pub use volume_use::VolumeUse;
pub use working_sets::{Intervals, MAX_INTERVALS, WorkingSet};

/// What can be chosen about the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsOptions {
    /// The device's size; `None` takes the end of the last access.
    pub device_sectors: Option<u64>,
    /// Columns of the heat map.
    pub heat_columns: u32,
    /// Rows of the heat map.
    pub heat_rows: u32,
    /// How the trace is cut for its working sets; the paper has seven days.
    pub intervals: Intervals,
    /// How many bytes may be used: above it, pages and pairs are sampled. Less than 1 MiB counts as that.
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

/// What a workload is like. Percentages are 0 to 100.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Records that cover bytes.
    pub requests: u64,
    /// Of them, reads.
    pub reads: u64,
    /// Of them, writes.
    pub writes: u64,
    /// Records that cover no bytes.
    pub flushes: u64,
    /// Of the requests, discards.
    pub discards: u64,
    /// Read, over all requests.
    pub read_gib_total: f64,
    /// In the pages that were read.
    pub read_gib_unique: f64,
    /// Written, over all requests.
    pub write_gib_total: f64,
    /// In the pages that were written.
    pub write_gib_unique: f64,
    /// In the pages that were read or written.
    pub total_gib_unique: f64,
    /// The size of the device, or of all volumes together: as it was told, and at least as far as accesses go.
    pub device_gib: f64,
    /// Of its pages, those that were read or written.
    pub device_accessed_pct: f64,
    /// Of all page accesses, those to the fifth of the accessed pages that is accessed most.
    pub top20_share_pct: f64,
    /// The same of reads and the pages that were read.
    pub top20_read_share_pct: f64,
    /// The same of writes and the pages that were written.
    pub top20_write_share_pct: f64,
    /// Of the pairs of consecutive requests, those whose second does not start where the first ends.
    pub nonsequential_pct: f64,
    /// Of those pairs, the ones whose (start sector, start sector) occurs at least twice.
    pub partial_determinism_pct: f64,
    /// The same with the predecessor of the same process, whichever process repeats the pair.
    pub partial_determinism_per_process_pct: f64,
    /// From the first request to the last.
    pub seconds: f64,
    /// Pages read or written.
    pub accessed_pages: u64,
    /// Different process numbers among the requests; 0 if the trace tells none.
    pub processes: u64,
    /// Accesses of the k-th most read page: Figure 1, top.
    pub read_rank_frequency: Vec<RankPoint>,
    /// Accesses of the k-th most written page: Figure 1, top.
    pub write_rank_frequency: Vec<RankPoint>,
    /// Where on the device accesses go: Figure 1, middle.
    pub heat_map: HeatMap,
    /// How the working set changes: Figure 1, bottom.
    pub working_sets: Vec<WorkingSet>,
    /// Who makes the most requests.
    pub top_processes: Vec<ProcessUse>,
    /// How large requests are.
    pub request_sizes: Vec<SizeBucket>,
    /// How often non-sequential pairs occur.
    pub pair_repeats: Vec<PairRepeats>,
    /// How many requests follow each other without a gap.
    pub sequential_runs: Vec<RunLength>,
    /// When requests come.
    pub arrivals: Arrivals,
    /// When nobody asks for anything.
    pub idle_periods: Vec<IdlePeriods>,
    /// How long requests took, where the trace tells.
    pub latencies: Option<Latencies>,
    /// How many were under way, where the trace tells.
    pub queue_depth: Option<QueueDepth>,
    /// How many different pages were accessed since a page was; `up_to` in pages.
    pub reuse_distances: Vec<Doubling>,
    /// What an LRU cache would miss, by its size.
    pub miss_ratio_curve: MissRatioCurve,
    /// How long between two writes of a page; `up_to` in seconds.
    pub overwrite_intervals: Vec<Doubling>,
    /// The mix and the footprint over time.
    pub over_time: Vec<Slice>,
    /// What each volume saw.
    pub volumes: Vec<VolumeUse>,
    /// How exact what concerns pages is.
    pub page_sampling: Sampling,
    /// How exact partial determinism is.
    pub pair_sampling: Sampling,
}

/// Whether a request moves data, and so touches pages.
fn moves_data(record: &Record) -> bool {
    matches!(record.op, Op::Read | Op::Write | Op::WriteZeroes)
}

fn is_request(record: &Record) -> bool {
    record.extent.sectors > 0
}

/// `part` of `whole` in per cent; zero of nothing.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
mod tests;
