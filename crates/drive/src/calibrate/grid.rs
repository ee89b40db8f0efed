//! A zone's tracks as arithmetic: the angle of each of their blocks.
//!
//! Tracks are counted from an *anchor*, the first block of a cylinder, in both directions; so a grid also extrapolates
//! the angle of a block outside of its zone.

use super::stats::forward;

/// Cylinders followed by spare blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Number of cylinders.
    pub cylinders: u64,
    /// Blocks that they hold, without the spares.
    pub blocks: u64,
    /// Extra skew of the next range, in turns.
    pub skew: f64,
}

/// Evenly skewed tracks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// The first block of a cylinder; of a range, if there are any.
    pub anchor: u64,
    /// Angle, in turns.
    pub angle: f64,
    /// Blocks per track.
    pub per_track: u64,
    /// Tracks per cylinder; 1 if unknown.
    pub heads: u64,
    /// Skew of the next track, in turns.
    pub track_skew: f64,
    /// Skew of the next track where a cylinder begins, in turns.
    pub cylinder_skew: f64,
    /// The ranges of cylinders, if spares are by range.
    pub range: Option<Range>,
}

impl Grid {
    /// Blocks of a cylinder.
    pub fn cylinder(&self) -> u64 {
        self.per_track * self.heads
    }

    /// Skew from cylinder to cylinder, in turns.
    pub fn step(&self) -> f64 {
        (self.heads - 1) as f64 * self.track_skew + self.cylinder_skew
    }

    /// The angle of a block.
    pub fn angle(&self, block: u64) -> f64 {
        self.angle_of(block as i64)
    }

    /// As `angle`, also for a block before the disk's first.
    pub fn angle_of(&self, block: i64) -> f64 {
        let (ranges, within) = self.split(block);
        let (tracks, into) =
            (within.div_euclid(self.per_track as i64), within.rem_euclid(self.per_track as i64));
        let cylinders = tracks.div_euclid(self.heads as i64);
        let head = tracks.rem_euclid(self.heads as i64) as f64;
        let before = self
            .range
            .map_or(0.0, |range| ranges as f64 * (range.cylinders as f64 * self.step() + range.skew));
        let turns = before + cylinders as f64 * self.step() + head * self.track_skew;
        forward(self.angle + forward(turns) + into as f64 / self.per_track as f64)
    }

    /// Ranges from the anchor on, and blocks from that range's first on; without ranges all blocks.
    fn split(&self, block: i64) -> (i64, i64) {
        let from = block - self.anchor as i64;
        match self.range {
            Some(range) => (from.div_euclid(range.blocks as i64), from.rem_euclid(range.blocks as i64)),
            None => (0, from),
        }
    }

    /// The cylinder of a block, relative to the anchor's.
    pub fn cylinder_of(&self, block: u64) -> i64 {
        let (ranges, within) = self.split(block as i64);
        let cylinders = self.range.map_or(0, |range| range.cylinders as i64);
        ranges * cylinders + within.div_euclid(self.cylinder() as i64)
    }

    /// The first block of a cylinder; may lie before the disk's first.
    pub fn start_at(&self, cylinder: i64) -> i64 {
        let (ranges, within, blocks) = match self.range {
            Some(Range { cylinders, blocks, .. }) => {
                let cylinders = cylinders as i64;
                (cylinder.div_euclid(cylinders), cylinder.rem_euclid(cylinders), blocks as i64)
            }
            None => (0, cylinder, 0),
        };
        self.anchor as i64 + ranges * blocks + within * self.cylinder() as i64
    }

    /// As `start_at`, but not before the disk's first block.
    pub fn start_of(&self, cylinder: i64) -> u64 {
        self.start_at(cylinder).max(0) as u64
    }

    /// Skews between the anchor and a block, without ranges: of heads, of cylinders.
    pub fn steps_to(&self, block: u64) -> (i64, i64) {
        let tracks = (block as i64 - self.anchor as i64).div_euclid(self.per_track as i64);
        let cylinders = tracks.div_euclid(self.heads as i64);
        (tracks - cylinders, cylinders)
    }

    /// A skew, in blocks.
    pub fn in_blocks(&self, turns: f64) -> f64 {
        let blocks = forward(turns) * self.per_track as f64;
        if (blocks - blocks.round()).abs() < 1e-3 { blocks.round() } else { blocks }
    }
}
