//! What taking blocks off a track is worth.
//!
//! The paper counts blocks (section 4). The better measure looks at what is left to be done: a few blocks on a
//! track cost as much of a detour as many, so the last ones of a track are worth more than the first ones of
//! another; and where more is left than elsewhere on the disk it is worth more to go.

use super::tracks::Tracks;

/// Parts of a block.
const PART: u32 = 256;

/// Cylinders are looked at in so many regions of equal width.
pub const REGIONS: usize = 256;

/// The worth of blocks.
#[derive(Clone, Debug)]
pub struct Worth {
    /// What so many blocks on a track are worth all together: never falls, and grows ever less.
    of_track: Vec<u32>,
    /// By region, in parts.
    regions: Vec<u32>,
    /// By region: how many units of 8 sectors there are.
    whole: Vec<u64>,
    /// Cylinders of a region.
    width: u32,
    dearest: u32,
}

/// How the better measure weighs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// What it is worth beside its blocks, in blocks, that a track is done with.
    pub done: f64,
    /// In how few last blocks that lies: all but 1/e of it in the last 1/`steep` of a track.
    pub steep: f64,
    /// By which power of what is left there, compared with the disk, a region counts.
    pub region: f64,
}

impl Weights {
    /// Those that a whole scan was quickest with.
    pub fn usual() -> Weights {
        Weights { done: 16.0, steep: 16.0, region: 4.0 }
    }
}

impl Worth {
    /// Each block is worth the same; a track has at most so many.
    pub fn blocks(most: usize, tracks: &Tracks) -> Worth {
        let width = tracks.cylinders().div_ceil(REGIONS as u32).max(1);
        let mut whole = vec![0; REGIONS];
        for track in 0..tracks.len() {
            let sectors: u64 = tracks.on(track).iter().map(|stretch| u64::from(stretch.sectors)).sum();
            whole[tracks.head(track).cylinder as usize / width as usize] += sectors / 8;
        }
        let of_track = (0..=most as u32).map(|blocks| blocks * PART).collect();
        Worth { of_track, regions: vec![PART; REGIONS], whole, width, dearest: PART }
    }

    /// The same weighed, on a disk of so many tracks.
    pub fn weigh(&mut self, weights: &Weights, tracks: usize) {
        let usual = self.whole.iter().sum::<u64>() as f64 / tracks as f64;
        let rest = |blocks: f64| weights.done * (1.0 - (-weights.steep * blocks / usual).exp());
        for (blocks, worth) in self.of_track.iter_mut().enumerate() {
            *worth = (f64::from(PART) * (blocks as f64 + rest(blocks as f64))).round() as u32;
        }
    }

    /// Weighs regions by what counts in them still.
    pub fn weigh_regions(&mut self, left: &[u64; REGIONS], power: f64) {
        let share = |left: u64, whole: u64| (left as f64 + 1.0) / (whole as f64 + 1.0);
        let usual = share(left.iter().sum(), self.whole.iter().sum());
        for ((worth, &left), &whole) in self.regions.iter_mut().zip(left).zip(&self.whole) {
            let more = if whole == 0 { 1.0 } else { (share(left, whole) / usual).powf(power) };
            *worth = (f64::from(PART) * more.clamp(0.25, 4.0)).round() as u32;
        }
        self.dearest = self.regions.iter().copied().max().unwrap_or(PART);
    }

    /// The region of a cylinder.
    pub fn region(&self, cylinder: u32) -> usize {
        ((cylinder / self.width) as usize).min(REGIONS - 1)
    }

    /// The cylinders of a region: the first, and the one behind the last.
    pub fn cylinders(&self, region: usize) -> (u32, u32) {
        (region as u32 * self.width, (region as u32 + 1) * self.width)
    }

    /// The region of which most is left, of what there is in it.
    pub fn fullest(&self, left: &[u64; REGIONS]) -> usize {
        let share = |region: usize| left[region] as f64 / (self.whole[region] as f64).max(1.0);
        // Of several the first one.
        (0..REGIONS).rev().max_by(|&a, &b| share(a).total_cmp(&share(b))).unwrap_or(0)
    }

    /// Taking `taken` blocks off a track that has `left`.
    pub fn of(&self, left: usize, taken: usize, cylinder: u32) -> u64 {
        let most = self.of_track.len() - 1;
        let (left, rest) = (left.min(most), left.saturating_sub(taken).min(most));
        let blocks = self.of_track[left] - self.of_track[rest];
        u64::from(blocks) * u64::from(self.regions[self.region(cylinder)])
    }

    /// How many blocks a track may have.
    pub fn counts(&self) -> usize {
        self.of_track.len() - 1
    }

    /// No `taken` blocks of a track are worth more.
    pub fn most(&self, taken: usize) -> u64 {
        u64::from(self.of_track[taken]) * u64::from(self.dearest)
    }

    /// Fewer blocks of a track are never worth more than `worth`.
    pub fn least_for(&self, worth: u64) -> usize {
        let dearest = u64::from(self.dearest);
        self.of_track.partition_point(|&blocks| u64::from(blocks) * dearest <= worth)
    }
}
