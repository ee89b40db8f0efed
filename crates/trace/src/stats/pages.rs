//! How often each page is read and written: working-set sizes, popularity, rank and frequency.
//!
//! Invariant: a page is in the table once it is touched, so that no count pair is (0, 0).

use rustc_hash::FxHashMap;
use seekless_core::{Op, PAGE_BYTES, Record};
use serde::Serialize;

use super::{Stats, gib, moves_data, percent};

/// A point of a rank-frequency curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankPoint {
    /// The page's rank: 1 is the most accessed.
    pub rank: u64,
    /// How often the page of that rank is accessed.
    pub accesses: u64,
}

/// At most so many points of a curve: more than a picture has pixels to tell apart.
const RANK_POINTS: u32 = 200;

#[derive(Clone, Copy, Default)]
struct Counts {
    reads: u32,
    writes: u32,
}

/// How often each page is accessed.
#[derive(Default)]
pub struct PageCounts {
    pages: FxHashMap<u64, Counts>,
}

impl PageCounts {
    /// Counts a request at each page it touches.
    pub fn count(&mut self, record: &Record) {
        if !moves_data(record) {
            return;
        }
        for page in record.extent.pages() {
            let counts = self.pages.entry(page).or_default();
            let one = if record.op == Op::Read { &mut counts.reads } else { &mut counts.writes };
            *one = one.saturating_add(1);
        }
    }

    /// Each page and how often it is accessed, in no particular order.
    pub fn accesses(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.pages.iter().map(|(&page, counts)| (page, u64::from(counts.reads) + u64::from(counts.writes)))
    }

    /// Fills in what pages tell.
    pub fn summarise(&self, stats: &mut Stats) {
        let all = sorted(self.accesses().map(|(_, accesses)| accesses));
        let read = sorted(self.pages.values().map(|counts| u64::from(counts.reads)));
        let written = sorted(self.pages.values().map(|counts| u64::from(counts.writes)));
        let size_gib = |pages: &[u64]| gib(pages.len() as u64 * PAGE_BYTES);
        stats.accessed_pages = all.len() as u64;
        stats.total_gib_unique = size_gib(&all);
        stats.read_gib_unique = size_gib(&read);
        stats.write_gib_unique = size_gib(&written);
        stats.top20_share_pct = top20_share_pct(&all);
        stats.top20_read_share_pct = top20_share_pct(&read);
        stats.top20_write_share_pct = top20_share_pct(&written);
        stats.read_rank_frequency = rank_frequency(&read);
        stats.write_rank_frequency = rank_frequency(&written);
    }
}

/// The counts that are not zero, the highest first.
fn sorted(counts: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut counts: Vec<u64> = counts.filter(|&count| count > 0).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

/// How many of `pages` pages are the top 20 %: rounded down, but one if there is any.
pub fn top20(pages: usize) -> usize {
    (pages / 5).max(1).min(pages)
}

/// The share that the top 20 % have in all; `counts` has the highest first.
fn top20_share_pct(counts: &[u64]) -> f64 {
    let top = counts[..top20(counts.len())].iter().sum();
    percent(top, counts.iter().sum())
}

/// The curve of `counts`, the highest first, at ranks that are evenly spaced on a log scale.
fn rank_frequency(counts: &[u64]) -> Vec<RankPoint> {
    let last = counts.len() as f64;
    let mut points: Vec<RankPoint> = Vec::new();
    for step in 0..RANK_POINTS {
        let rank = last.powf(f64::from(step) / f64::from(RANK_POINTS - 1)).round() as u64;
        let Some(&accesses) = counts.get((rank as usize).wrapping_sub(1)) else { continue };
        if points.last().is_none_or(|point| point.rank < rank) {
            points.push(RankPoint { rank, accesses });
        }
    }
    points
}
