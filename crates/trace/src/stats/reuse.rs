//! Reuse distances, and the miss-ratio curve of LRU at every size at once (Mattson et al., 1970), sampled as in SHARDS
//! where the pages are a sample.
//!
//! The distance of an access is the number of different pages accessed since its page was. A cache of at most that many
//! pages misses. At the sizes listed the curve of an unsampled trace is exact.
//!
//! For a sample, distances and counts are scaled by the sampling rate, and the difference between the expected and the
//! actual accesses in the sample counts as hits of the smallest cache (SHARDS-adj). The error is estimated from two
//! parts. The share of accesses that miss depends on which pages were chosen: the sample consists of eight samples, of
//! different pages, whose curves deviate. And a size of the cache is itself a scaled number of pages: of `c` pages one
//! of N is chosen as a coin falls, so that it is off by sqrt(c (N - 1)), and by as much as the curve falls over that
//! distance, its height is. Caches of fewer pages than one in the sample stands for are not on the curve.

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
    /// Largest standard deviation of its points, in units of the miss ratio; zero if exact. Where the curve falls
    /// steeply, it is that of the place of the fall.
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

    /// Adds the distances of the accesses that follow. First accesses there of pages that were accessed here are not
    /// among them: see [`not_first`](Reuse::not_first).
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

    /// The curve of a trace of `accesses` accesses in all, of whose pages one of `2^halvings` is kept.
    pub fn curve(&self, accesses: u64, halvings: u32) -> MissRatioCurve {
        let exact = halvings == 0;
        let all = self.merged();
        let first: u64 = self.groups.iter().map(|group| group.first).sum();
        let mut sizes: Vec<u64> = all.iter().map(|(start, _)| start).filter(|&size| size > 0).collect();
        if all.total() + first > 0 {
            // A cache of this size misses no reuse: of one page, if each page is accessed again at once or never.
            let last = sizes.last().copied().unwrap_or(0);
            sizes.push(last + (last >> BITS) + 1);
        }
        // A sampled page stands for this many; distances from before the rate was halved may be shorter.
        let least = (1 << halvings.min(63)).min(sizes.last().copied().unwrap_or(0));
        sizes.retain(|&size| size >= least);
        let step = sizes.len().div_ceil(POINTS).max(1);
        // From the last, which has to stay.
        let mut sizes: Vec<u64> = sizes.into_iter().rev().step_by(step).collect();
        sizes.reverse();
        let ratios = ratios(&all, first, accesses, &sizes);
        let error = if exact || self.groups.len() < GROUPS {
            0.0
        } else {
            let places = displaced(&all, first, accesses, &sizes, halvings);
            let both = self.deviations(accesses, &sizes).into_iter().zip(places);
            both.map(|(share, place)| (share * share + place * place).sqrt()).fold(0.0, f64::max)
        };
        let point = |(&pages, miss_ratio): (&u64, f64)| MissPoint {
            pages,
            gib: super::gib(pages.saturating_mul(PAGE_BYTES)),
            miss_ratio,
        };
        MissRatioCurve { points: sizes.iter().zip(ratios).map(point).collect(), exact, error }
    }

    /// The miss ratio of a cache of `pages` pages, 0 to 1, among `accesses` accesses: for the nearest size of a bucket
    /// that is not larger, which is at most 3 % smaller.
    pub fn miss_ratio(&self, accesses: u64, pages: u64) -> f64 {
        let all = self.merged();
        let first: u64 = self.groups.iter().map(|group| group.first).sum();
        let largest = all.iter().map(|(start, _)| start).take_while(|&size| size <= pages).last();
        // Beyond the last bucket there is no reuse: a larger cache hits all of it.
        let beyond = all.iter().last().is_none_or(|(last, _)| pages > last + (last >> BITS));
        let size = if beyond { pages } else { largest.unwrap_or(0) };
        ratios(&all, first, accesses, &[size])[0]
    }

    /// The standard deviation of the share at each size.
    fn deviations(&self, accesses: u64, sizes: &[u64]) -> Vec<f64> {
        let each = accesses / GROUPS as u64;
        let curves: Vec<Vec<f64>> =
            self.groups.iter().map(|group| ratios(&group.distances, group.first, each, sizes)).collect();
        let groups = GROUPS as f64;
        let deviation = |at: usize| {
            let mean = curves.iter().map(|curve| curve[at]).sum::<f64>() / groups;
            let squares = curves.iter().map(|curve| (curve[at] - mean).powi(2)).sum::<f64>();
            (squares / (groups - 1.0) / groups).sqrt()
        };
        (0..sizes.len()).map(deviation).collect()
    }
}

/// By how much the curve changes over the standard deviation of each size.
fn displaced(distances: &Buckets, first: u64, accesses: u64, sizes: &[u64], halvings: u32) -> Vec<f64> {
    let others = ((1_u64 << halvings.min(63)) - 1) as f64;
    let off = |size: u64| (size as f64 * others).sqrt().round() as u64;
    // Ascending as the sizes are: a larger size is off by less in proportion.
    let at = |sizes: Vec<u64>| {
        let mut sizes: Vec<(usize, u64)> = sizes.into_iter().enumerate().collect();
        sizes.sort_by_key(|(_, size)| *size);
        let ascending: Vec<u64> = sizes.iter().map(|(_, size)| *size).collect();
        let mut found = vec![0.0; ascending.len()];
        for ((place, _), ratio) in sizes.iter().zip(ratios(distances, first, accesses, &ascending)) {
            found[*place] = ratio;
        }
        found
    };
    let here = ratios(distances, first, accesses, sizes);
    let smaller = at(sizes.iter().map(|&size| size.saturating_sub(off(size))).collect());
    let larger = at(sizes.iter().map(|&size| size.saturating_add(off(size))).collect());
    let each = here.into_iter().zip(smaller).zip(larger);
    each.map(|((here, smaller), larger)| (smaller - here).max(here - larger)).collect()
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

#[cfg(test)]
mod tests {
    use super::super::sample::mix;
    use super::*;

    /// The distances of a program that reads a number of pages in a loop, of which those of low hashes are kept.
    fn looped(pages: u64, rounds: u64, seed: u64, halvings: u32) -> Reuse {
        let mut reuse = Reuse::default();
        let kept = (0..pages).map(|page| mix(page ^ seed << 32)).filter(|hash| *hash <= u64::MAX >> halvings);
        let kept: Vec<u64> = kept.collect();
        for &hash in &kept {
            reuse.first(hash, halvings);
            (1..rounds).for_each(|_| reuse.again(hash, halvings, kept.len() as u32 - 1));
        }
        reuse
    }

    /// Where a loop fits into the cache its misses end at once: a sample has this cliff elsewhere.
    #[test]
    fn the_place_of_a_cliff_is_within_the_error() {
        let (pages, rounds) = (4_000, 5);
        let exact = |size: u64| if size < pages { 1.0 } else { 1.0 / rounds as f64 };
        let mut within = 0;
        for seed in 1..=20 {
            let curve = looped(pages, rounds, seed, 4).curve(pages * rounds, 4);
            assert!(!curve.exact && curve.points.iter().all(|point| point.pages >= 16));
            let off = |point: &MissPoint| (point.miss_ratio - exact(point.pages)).abs();
            let most = curve.points.iter().map(off).fold(0.0, f64::max);
            within += u32::from(most <= 2.0 * curve.error);
        }
        assert!(within >= 19, "{within} of 20");
        let curve = looped(pages, rounds, 1, 0).curve(pages * rounds, 0);
        assert!(curve.exact && curve.error == 0.0);
    }
}
