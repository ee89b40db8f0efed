//! What a workload is like: Table 1 and Figure 1 of the BORG paper, counted exactly.
//!
//! Definitions, which hold throughout: a *request* is a record that covers bytes; flushes are counted
//! apart. A *page* is 4 KiB, and counts whole when it is touched; an *access* is one request touching
//! one page. Discards are requests, and take part in sequences; they move no data, so that they touch
//! no page. A write of zeroes is a write. GiB are 2^30 bytes.
//!
//! Invariant: the same records give the same figures, bit for bit: sums are integers, and what comes
//! out of a hash map is sorted. Memory grows with the pages touched, not with the requests, but for
//! one pair of sectors a request (16 bytes).
//!
//! Nothing can fail. No records give zeroes, not NaN.

mod heat_map;
mod pages;
mod processes;
mod sequence;
mod sizes;
mod working_sets;

use seekless_core::{Names, Op, Record};
use serde::Serialize;

pub use heat_map::{HEAT_LEVELS, HeatMap};
pub use pages::RankPoint;
pub use processes::{ProcessUse, family};
pub use sizes::SizeBucket;
pub use working_sets::WorkingSet;

use pages::PageCounts;
use sequence::Sequences;

/// What can be chosen about the pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsOptions {
    /// The device's size; `None` takes the end of the last access.
    pub device_sectors: Option<u64>,
    /// Columns of the heat map.
    pub heat_columns: u32,
    /// Rows of the heat map.
    pub heat_rows: u32,
    /// Into how many intervals the trace is cut for its working sets; the paper has seven days.
    pub intervals: u32,
}

impl Default for StatsOptions {
    fn default() -> Self {
        StatsOptions { device_sectors: None, heat_columns: 64, heat_rows: 32, intervals: 7 }
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
    /// Different process numbers among the requests.
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

/// Characterises `records`, which stand in the order of their times; `names` are theirs.
pub fn characterise(records: &[Record], names: &Names, options: &StatsOptions) -> Stats {
    let mut stats = Stats::default();
    let mut pages = PageCounts::default();
    let mut sequences = Sequences::default();
    let (mut read_bytes, mut written_bytes) = (0, 0);
    for record in records {
        if !is_request(record) {
            stats.flushes += 1;
            continue;
        }
        stats.requests += 1;
        match record.op {
            Op::Read => {
                stats.reads += 1;
                read_bytes += record.extent.bytes();
            }
            Op::Write | Op::WriteZeroes => {
                stats.writes += 1;
                written_bytes += record.extent.bytes();
            }
            Op::Discard => stats.discards += 1,
            Op::Flush => {}
        }
        pages.count(record);
        sequences.follow(record);
    }
    (stats.read_gib_total, stats.write_gib_total) = (gib(read_bytes), gib(written_bytes));
    stats.seconds = seconds(records);
    stats.processes = sequences.processes();
    stats.nonsequential_pct = sequences.nonsequential_pct();
    (stats.partial_determinism_pct, stats.partial_determinism_per_process_pct) =
        sequences.partial_determinism_pct();
    pages.summarise(&mut stats);
    let end = records.iter().map(|record| record.extent.end().0).max().unwrap_or(0);
    let device_sectors = options.device_sectors.unwrap_or(0).max(end);
    stats.heat_map = HeatMap::of(pages.accesses(), device_sectors, options.heat_columns, options.heat_rows);
    // The largest table of all; the working sets build their own.
    drop(pages);
    stats.working_sets = working_sets::working_sets(records, options.intervals);
    stats.top_processes = processes::top_processes(records, names);
    stats.request_sizes = sizes::request_sizes(records);
    stats
}

fn seconds(records: &[Record]) -> f64 {
    let mut requests = records.iter().filter(|record| is_request(record));
    let Some(first) = requests.next() else { return 0.0 };
    requests.next_back().map_or(0.0, |last| last.time.since(first.time).seconds())
}

#[cfg(test)]
mod tests;
