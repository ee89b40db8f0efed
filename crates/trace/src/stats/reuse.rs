//! Reuse distances, and what they mean for caches: the miss-ratio curve of LRU at every size at once
//! (Mattson et al., 1970), sampled as SHARDS does where the pages are a sample.
//!
//! The distance of an access is how many different pages were accessed since its page was. A cache of so
//! many pages or fewer has lost it. At the sizes that are told the curve of an unsampled trace is exact.
//!
//! Of a sample, distances and counts are scaled by what each page stands for, and the difference between
//! the accesses that were expected in the sample and those that were there is counted as hits of the
//! smallest cache (SHARDS-adj). The error is estimated: the sample is eight samples, of different pages,
//! and the deviation of their curves is told.

use seekless_core::{Nanos, PAGE_BYTES};
use serde::Serialize;

use super::buckets::{Buckets, Doubling};
use super::pages::Pages;

/// Samples that the sample consists of.
const GROUPS: usize = 8;
/// Sizes at which the curve is told, at most.
const POINTS: usize = 160;
/// 32 sizes for each doubling.
const BITS: u32 = 5;

/// A point of the miss-ratio curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MissPoint {
    /// The size of the cache, in pages of 4 KiB.
    pub pages: u64,
    /// The same in GiB.
    pub gib: f64,
    /// Of all page accesses, those that miss; 0 to 1.
    pub miss_ratio: f64,
}

/// The miss ratio of an LRU cache of pages, by its size.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MissRatioCurve {
    /// By size.
    pub points: Vec<MissPoint>,
    /// Whether it was counted, rather than estimated from a sample.
    pub exact: bool,
    /// The standard deviation of its points, at most: in units of the miss ratio; zero if exact.
    pub error: f64,
}

/// Distances seen so far.
pub(super) struct Reuse {
    groups: Vec<Group>,
}

struct Group {
    distances: Buckets,
    first: u64,
}

impl Default for Reuse {
    fn default() -> Reuse {
        let group = || Group { distances: Buckets::new(BITS), first: 0 };
        Reuse { groups: (0..GROUPS).map(|_| group()).collect() }
    }
}

impl Reuse {
    fn group(&mut self, hash: u64) -> &mut Group {
        // The lowest bits: the highest say whether the page is kept.
        &mut self.groups[hash as usize % GROUPS]
    }

    /// A page is accessed for the first time.
    pub fn first(&mut self, hash: u64, halvings: u32) {
        self.group(hash).first += 1 << halvings;
    }

    /// A page is accessed again after so many others that are kept.
    pub fn again(&mut self, hash: u64, halvings: u32, distance: u32) {
        self.group(hash).distances.add(u64::from(distance) << halvings, 1 << halvings);
    }

    /// How many accesses had which distance, in pages.
    pub fn distances(&self) -> Vec<Doubling> {
        self.merged().doublings(1.0)
    }

    fn merged(&self) -> Buckets {
        let mut all = Buckets::new(BITS);
        for group in &self.groups {
            group
                .distances
                .iter()
                .filter(|&(_, count)| count > 0)
                .for_each(|(start, count)| all.add(start, count));
        }
        all
    }

    /// The curve of a trace of so many accesses in all.
    pub fn curve(&self, accesses: u64, exact: bool) -> MissRatioCurve {
        let all = self.merged();
        let mut sizes: Vec<u64> = all.iter().map(|(start, _)| start).filter(|&size| size > 0).collect();
        // A cache of this size has lost nothing.
        sizes.extend(sizes.last().map(|last| last + (last >> BITS) + 1));
        let step = sizes.len().div_ceil(POINTS).max(1);
        // From the last, which has to stay.
        let mut sizes: Vec<u64> = sizes.into_iter().rev().step_by(step).collect();
        sizes.reverse();
        let first: u64 = self.groups.iter().map(|group| group.first).sum();
        let ratios = ratios(&all, first, accesses, &sizes);
        let error = if exact { 0.0 } else { self.error(accesses, &sizes) };
        let point = |(&pages, miss_ratio): (&u64, f64)| MissPoint {
            pages,
            gib: super::gib(pages.saturating_mul(PAGE_BYTES)),
            miss_ratio,
        };
        MissRatioCurve { points: sizes.iter().zip(ratios).map(point).collect(), exact, error }
    }

    fn error(&self, accesses: u64, sizes: &[u64]) -> f64 {
        let each = accesses / GROUPS as u64;
        let curves: Vec<Vec<f64>> =
            self.groups.iter().map(|group| ratios(&group.distances, group.first, each, sizes)).collect();
        let groups = GROUPS as f64;
        let deviation = |at: usize| {
            let mean = curves.iter().map(|curve| curve[at]).sum::<f64>() / groups;
            let squares = curves.iter().map(|curve| (curve[at] - mean).powi(2)).sum::<f64>();
            (squares / (groups - 1.0) / groups).sqrt()
        };
        (0..sizes.len()).map(deviation).fold(0.0, f64::max)
    }
}

/// The miss-ratio curve alone, of pages as they are accessed.
pub struct MissRatio(Pages);

impl MissRatio {
    /// No accesses yet; in so many bytes.
    pub fn new(memory: u64) -> MissRatio {
        MissRatio(Pages::new(memory))
    }

    /// A page is accessed.
    pub fn access(&mut self, page: u64) {
        self.0.access(page, false, Nanos::ZERO);
    }

    /// The curve.
    pub fn finish(mut self) -> MissRatioCurve {
        self.0.settle();
        self.0.curve()
    }
}

/// The miss ratio at each size, which ascend.
fn ratios(distances: &Buckets, first: u64, accesses: u64, sizes: &[u64]) -> Vec<f64> {
    let all = accesses.max(1) as f64;
    // What was expected and not there hits; what was there and not expected does not.
    let mut hits = accesses as f64 - (distances.total() + first) as f64;
    let mut buckets = distances.iter().peekable();
    let ratio = |&size: &u64| {
        while let Some((_, count)) = buckets.next_if(|&(start, _)| start < size) {
            hits += count as f64;
        }
        (1.0 - hits / all).clamp(0.0, 1.0)
    };
    sizes.iter().map(ratio).collect()
}
