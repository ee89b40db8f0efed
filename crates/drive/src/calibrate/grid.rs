//! A zone's tracks as arithmetic: the angle of every block of them.
//!
//! Tracks are counted from an *anchor*, a block with which a cylinder begins; to both sides, so that a grid also
//! says what the angle of a block would be that lies outside of its zone.

use super::stats::forward;

/// Cylinders behind which some blocks are kept in reserve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// How many.
    pub cylinders: u64,
    /// Blocks that they hold, less than all.
    pub blocks: u64,
    /// Turns that the next range begins later than its cylinders alone would make it.
    pub skew: f64,
}

/// Tracks that go on evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// The first block of a cylinder; of a range, if there are any.
    pub anchor: u64,
    /// Its angle, in turns.
    pub angle: f64,
    /// Blocks of a track.
    pub per_track: u64,
    /// Tracks of a cylinder; 1 if cylinders cannot be told.
    pub heads: u64,
    /// Turns that the next track begins later.
    pub track_skew: f64,
    /// The same where a cylinder begins.
    pub cylinder_skew: f64,
    /// Whether spares are kept by ranges of cylinders.
    pub range: Option<Range>,
}

impl Grid {
    /// Blocks of a cylinder.
    pub fn cylinder(&self) -> u64 {
        self.per_track * self.heads
    }

    /// Turns that the next cylinder begins later.
    pub fn step(&self) -> f64 {
        (self.heads - 1) as f64 * self.track_skew + self.cylinder_skew
    }

    /// The angle of a block.
    pub fn angle(&self, block: u64) -> f64 {
        self.angle_of(block as i64)
    }

    /// The same, also of a block before the disk's first.
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

    /// The cylinder of a block, from the anchor's on.
    pub fn cylinder_of(&self, block: u64) -> i64 {
        let (ranges, within) = self.split(block as i64);
        let cylinders = self.range.map_or(0, |range| range.cylinders as i64);
        ranges * cylinders + within.div_euclid(self.cylinder() as i64)
    }

    /// The first block of a cylinder; one before the disk's first if it would begin there.
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

    /// The same, of the disk if it would begin before that.
    pub fn start_of(&self, cylinder: i64) -> u64 {
        self.start_at(cylinder).max(0) as u64
    }

    /// Skews that lie between the anchor and a block, where there are no ranges: of heads, of cylinders.
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
