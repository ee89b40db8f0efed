//! The value of taking blocks from a track.
//!
//! The paper counts blocks (section 4). The better measure considers what is left: a few blocks on a track cost as much
//! of a detour as many, so the last ones of a track are worth more than the first ones of another; and a region with a
//! larger share of blocks left is worth more.

use super::tracks::Tracks;

/// Fixed-point units of a block's value.
const PART: u32 = 256;

/// Number of regions, of equally many cylinders.
pub const REGIONS: usize = 256;

/// The value of blocks.
#[derive(Clone, Debug)]
pub struct BlockValue {
    /// By number of blocks on a track: their total value. Monotonic and concave.
    of_track: Vec<u32>,
    /// By region: its weight.
    regions: Vec<u32>,
    /// By region: capacity in units of 8 sectors.
    whole: Vec<u64>,
    /// Cylinders of a region.
    width: u32,
    max_region_weight: u32,
}

/// Weights of the better measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Extra value of finishing a track, in blocks.
    pub done: f64,
    /// How few last blocks it lies in: all but 1/e of it in the last 1/`steep` of a track.
    pub steep: f64,
    /// Exponent of a region's share of blocks left, relative to the disk's.
    pub region: f64,
}

impl Weights {
    /// The weights that a whole scan was fastest with.
    pub fn usual() -> Weights {
        Weights { done: 16.0, steep: 16.0, region: 4.0 }
    }
}

impl BlockValue {
    /// Each block has the same value; a track has at most `most`.
    pub fn blocks(most: usize, tracks: &Tracks) -> BlockValue {
        let width = tracks.cylinders().div_ceil(REGIONS as u32).max(1);
        let mut whole = vec![0; REGIONS];
        for track in 0..tracks.len() {
            let sectors: u64 = tracks.on(track).iter().map(|extent| u64::from(extent.sectors)).sum();
            whole[tracks.head(track).cylinder as usize / width as usize] += sectors / 8;
        }
        let of_track = (0..=most as u32).map(|blocks| blocks * PART).collect();
        BlockValue { of_track, regions: vec![PART; REGIONS], whole, width, max_region_weight: PART }
    }

    /// Applies the extra value of finishing tracks, on a disk of `tracks` tracks.
    pub fn weigh(&mut self, weights: &Weights, tracks: usize) {
        let usual = self.whole.iter().sum::<u64>() as f64 / tracks as f64;
        let after = |blocks: f64| weights.done * (1.0 - (-weights.steep * blocks / usual).exp());
        for (blocks, value) in self.of_track.iter_mut().enumerate() {
            *value = (f64::from(PART) * (blocks as f64 + after(blocks as f64))).round() as u32;
        }
    }

    /// Weighs regions by the work that is left in them.
    pub fn weigh_regions(&mut self, left: &[u64; REGIONS], power: f64) {
        let share = |left: u64, whole: u64| (left as f64 + 1.0) / (whole as f64 + 1.0);
        let usual = share(left.iter().sum(), self.whole.iter().sum());
        for ((value, &left), &whole) in self.regions.iter_mut().zip(left).zip(&self.whole) {
            let more = if whole == 0 { 1.0 } else { (share(left, whole) / usual).powf(power) };
            *value = (f64::from(PART) * more.clamp(0.25, 4.0)).round() as u32;
        }
        self.max_region_weight = self.regions.iter().copied().max().unwrap_or(PART);
    }

    /// The region of a cylinder.
    pub fn region(&self, cylinder: u32) -> usize {
        ((cylinder / self.width) as usize).min(REGIONS - 1)
    }

    /// The cylinders of a region: the first, and one past the last.
    pub fn cylinders(&self, region: usize) -> (u32, u32) {
        (region as u32 * self.width, (region as u32 + 1) * self.width)
    }

    /// The region with the largest share of work left.
    pub fn fullest(&self, left: &[u64; REGIONS]) -> usize {
        let share = |region: usize| left[region] as f64 / (self.whole[region] as f64).max(1.0);
        // The first one of several.
        (0..REGIONS).rev().max_by(|&a, &b| share(a).total_cmp(&share(b))).unwrap_or(0)
    }

    /// The value of taking `taken` blocks from a track that has `left`.
    pub fn of(&self, left: usize, taken: usize, cylinder: u32) -> u64 {
        let most = self.of_track.len() - 1;
        let (left, after) = (left.min(most), left.saturating_sub(taken).min(most));
        let blocks = self.of_track[left] - self.of_track[after];
        u64::from(blocks) * u64::from(self.regions[self.region(cylinder)])
    }

    /// The most blocks of a track.
    pub fn counts(&self) -> usize {
        self.of_track.len() - 1
    }

    /// An upper bound of the value of `taken` blocks of a track.
    pub fn most(&self, taken: usize) -> u64 {
        u64::from(self.of_track[taken]) * u64::from(self.max_region_weight)
    }

    /// The fewest blocks of a track whose value may exceed `value`.
    pub fn least_for(&self, value: u64) -> usize {
        let max_region_weight = u64::from(self.max_region_weight);
        self.of_track.partition_point(|&blocks| u64::from(blocks) * max_region_weight <= value)
    }
}
