//! Reuse distances, and the miss-ratio curve of LRU at every size at once (Mattson et al., 1970), sampled as in SHARDS
//! where the pages are a sample.
//!
//! The distance of an access is the number of different pages accessed since its page was. A cache of at most that many
//! pages misses. At the sizes listed the curve of an unsampled trace is exact.
//!
//! For a sample, distances and counts are scaled by the sampling rate, and the difference between the expected and the
//! actual accesses in the sample counts as hits of the smallest cache (SHARDS-adj). The error is estimated: the sample
//! consists of eight samples, of different pages, and the deviation of their curves is given.

use schemars::JsonSchema;
use seekless_core::{Buckets, Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};

use super::buckets::{Doubling, counted, doublings, plain};
use super::pages::Pages;

/// Number of subsamples.
const GROUPS: usize = 8;
/// Most sizes of the curve.
const POINTS: usize = 160;
/// 32 sizes per doubling.
const BITS: u32 = 5;

/// A point of the miss-ratio curve.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MissPoint {
    /// Size of the cache, in pages of 4 KiB.
    pub pages: u64,
    /// Size of the cache, in GiB.
    pub gib: f64,
    /// Share of page accesses that miss; 0 to 1.
    pub miss_ratio: f64,
}

/// The miss ratio of an LRU cache of pages, by its size.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct MissRatioCurve {
    /// Points by size.
    pub points: Vec<MissPoint>,
    /// Whether it is exact, rather than estimated from a sample.
    pub exact: bool,
    /// Largest standard deviation of its points, in units of the miss ratio; zero if exact.
    pub error: f64,
}

/// Distances seen so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reuse {
    groups: Vec<Group>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    #[serde(with = "plain")]
    distances: Buckets,
    #[serde(deserialize_with = "counted::one")]
    first: u64,
}

impl Default for Reuse {
    fn default() -> Reuse {
        Reuse::of_groups(GROUPS)
    }
}

impl Reuse {
    fn of_groups(groups: usize) -> Reuse {
        let group = |_| Group { distances: Buckets::new(BITS), first: 0 };
        Reuse { groups: (0..groups).map(group).collect() }
    }

    /// No distances yet, in less memory: the curve of a sample has no error.
    pub fn of_one_group() -> Reuse {
        Reuse::of_groups(1)
    }

    fn group(&mut self, hash: u64) -> &mut Group {
        // The lowest bits: the highest ones decide the sampling.
        let groups = self.groups.len();
        &mut self.groups[hash as usize % groups]
    }

    /// Adds the first access of a page.
    pub fn first(&mut self, hash: u64, halvings: u32) {
        self.group(hash).first += 1 << halvings;
    }

    /// Adds a further access of a page, after `distance` other sampled pages.
    pub fn again(&mut self, hash: u64, halvings: u32, distance: u32) {
        self.group(hash).distances.add(u64::from(distance) << halvings, 1 << halvings);
    }

    /// Adds the distances of the accesses that follow. First accesses there of pages that were accessed here are not among
    /// them: see [`not_first`](Reuse::not_first).
    pub fn merge(&mut self, next: &Reuse) {
        for (here, next) in self.groups.iter_mut().zip(&next.groups) {
            here.distances.merge(&next.distances);
            here.first += next.first;
        }
    }

    /// Corrects a first access, which was a further one, after `distance` other sampled pages.
    pub fn not_first(&mut self, hash: u64, halvings: u32, distance: u32) {
        let group = self.group(hash);
        group.first = group.first.saturating_sub(1 << halvings);
        self.again(hash, halvings, distance);
    }

    /// Whether it has all groups.
    pub fn is_sound(&self) -> bool {
        self.groups.len() == GROUPS && self.groups.iter().all(|group| group.distances.bits() == BITS)
    }

    /// Histogram of the distances, in pages.
    pub fn distances(&self) -> Vec<Doubling> {
        doublings(&self.merged(), 1.0)
    }

    fn merged(&self) -> Buckets {
        let mut all = Buckets::new(BITS);
        self.groups.iter().for_each(|group| all.merge(&group.distances));
        all
    }

    /// The curve of a trace of `accesses` accesses in all.
    pub fn curve(&self, accesses: u64, exact: bool) -> MissRatioCurve {
        let all = self.merged();
        let first: u64 = self.groups.iter().map(|group| group.first).sum();
        let mut sizes: Vec<u64> = all.iter().map(|(start, _)| start).filter(|&size| size > 0).collect();
        if all.total() + first > 0 {
            // A cache of this size misses no reuse: of one page, if each page is accessed again at once or never.
            let last = sizes.last().copied().unwrap_or(0);
            sizes.push(last + (last >> BITS) + 1);
        }
        let step = sizes.len().div_ceil(POINTS).max(1);
        // From the last, which has to stay.
        let mut sizes: Vec<u64> = sizes.into_iter().rev().step_by(step).collect();
        sizes.reverse();
        let ratios = ratios(&all, first, accesses, &sizes);
        let error = if exact || self.groups.len() < GROUPS { 0.0 } else { self.error(accesses, &sizes) };
        let point = |(&pages, miss_ratio): (&u64, f64)| MissPoint {
            pages,
            gib: super::gib(pages.saturating_mul(PAGE_BYTES)),
            miss_ratio,
        };
        MissRatioCurve { points: sizes.iter().zip(ratios).map(point).collect(), exact, error }
    }

    /// The miss ratio of a cache of `pages` pages, 0 to 1, among `accesses` accesses: for the nearest size of a bucket that
    /// is not larger, which is at most 3 % smaller.
    pub fn miss_ratio(&self, accesses: u64, pages: u64) -> f64 {
        let all = self.merged();
        let first: u64 = self.groups.iter().map(|group| group.first).sum();
        let largest = all.iter().map(|(start, _)| start).take_while(|&size| size <= pages).last();
        // Beyond the last bucket there is no reuse: a larger cache hits all of it.
        let beyond = all.iter().last().is_none_or(|(last, _)| pages > last + (last >> BITS));
        let size = if beyond { pages } else { largest.unwrap_or(0) };
        ratios(&all, first, accesses, &[size])[0]
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

/// The miss-ratio curve alone, of page accesses.
pub struct MissRatio(Pages);

impl MissRatio {
    /// No accesses yet; `memory` in bytes.
    pub fn new(memory: u64) -> MissRatio {
        MissRatio(Pages::new(memory))
    }

    /// Adds an access.
    pub fn access(&mut self, page: u64) {
        self.0.access(page, false, Nanos::ZERO);
    }

    /// The curve.
    pub fn finish(mut self) -> MissRatioCurve {
        self.0.settle();
        self.0.curve()
    }
}

/// The miss ratio at each size; sizes ascend.
fn ratios(distances: &Buckets, first: u64, accesses: u64, sizes: &[u64]) -> Vec<f64> {
    let all = accesses.max(1) as f64;
    // Expected accesses that are missing count as hits; surplus ones do not.
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
