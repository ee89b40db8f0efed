//! All zones together: the placement and angle of each block.

use seekless_core::Nanos;

use super::Unknown;
use super::grid::Grid;
use super::probe::Probe;
use super::stats::{around, median_angle};
use super::zones::Zone;

/// How long the clock stays in step with the disk, and how many reads set it.
const IN_STEP: Nanos = Nanos::from_millis(4_000);
const LOOKS: usize = 11;

/// A zone's place among the cylinders.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// First block.
    pub first: u64,
    /// One past the last block.
    pub end: u64,
    /// Tracks.
    pub grid: Grid,
    /// The cylinder that holds its first block.
    pub first_cylinder: u64,
    /// Number of cylinders that hold its blocks.
    pub cylinders: u64,
    /// Blocks of the first cylinder before its first block.
    pub front: u64,
}

/// The placement of a drive's blocks.
#[derive(Clone, Debug)]
pub struct Map {
    /// The zones, from the first block to the last.
    pub parts: Vec<Part>,
    /// Tracks per cylinder.
    pub heads: u64,
}

impl Map {
    /// The map of these zones.
    pub fn new(zones: &[Zone]) -> Map {
        let heads = zones.first().map_or(1, |zone| zone.fitted.grid.heads);
        let mut parts: Vec<Part> = Vec::new();
        let mut first_cylinder = 0;
        for zone in zones {
            let grid = zone.fitted.grid;
            let (low, high) = (grid.cylinder_of(zone.first), grid.cylinder_of(zone.end - 1));
            let cylinders = (high - low + 1) as u64;
            let front = (zone.first as i64 - grid.start_at(low)) as u64;
            parts.push(Part { first: zone.first, end: zone.end, grid, first_cylinder, cylinders, front });
            first_cylinder += cylinders;
        }
        Map { parts, heads }
    }

    /// Number of cylinders.
    pub fn cylinders(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.first_cylinder + part.cylinders)
    }

    /// The zone of a block.
    pub fn part(&self, block: u64) -> &Part {
        &self.parts[self.parts.partition_point(|part| part.end <= block).min(self.parts.len() - 1)]
    }

    /// The angle of a block.
    pub fn angle(&self, block: u64) -> f64 {
        self.part(block).grid.angle(block)
    }

    /// The first block of a cylinder's track, if all of the track exists.
    pub fn track(&self, cylinder: u64, head: u64) -> Option<u64> {
        let after = self.parts.partition_point(|part| part.first_cylinder <= cylinder);
        let part = &self.parts[after.checked_sub(1)?];
        let low = part.grid.cylinder_of(part.first);
        let of = low + (cylinder - part.first_cylinder) as i64;
        let start = u64::try_from(part.grid.start_at(of)).ok()? + head * part.grid.per_track;
        let end = start + part.grid.per_track;
        // The last track of a range may be cut short.
        let whole = end <= part.grid.start_of(of + 1);
        (whole && start >= part.first && end <= part.end).then_some(start)
    }

    /// The block of the track at `start` that passes under the head at an angle, or next after it.
    pub fn at_angle(&self, start: u64, angle: f64) -> u64 {
        let grid = &self.part(start).grid;
        let into = super::stats::forward(angle - grid.angle(start)) * grid.per_track as f64;
        start + (into - 1e-6).ceil() as u64 % grid.per_track
    }

    /// Sets the clock by the disk, if that was not done for some time: the turn is known with an error.
    pub async fn keep_in_step(&self, probe: &mut Probe<'_>) -> Result<(), Unknown> {
        if probe.since_set() < IN_STEP {
            return Ok(());
        }
        let mut off = Vec::new();
        while off.len() < LOOKS {
            let block = probe.anywhere();
            if !probe.may_be_cached(block) {
                off.push(probe.angle(block).await? - self.angle(block));
            }
        }
        probe.set_back(around(median_angle(&off)));
        Ok(())
    }

    /// The first block of a random track of the first zone.
    pub fn first_zones_track(&self, probe: &mut Probe<'_>) -> Option<u64> {
        let cylinder = probe.rng.below(self.parts.first()?.cylinders);
        self.track(cylinder, probe.rng.below(self.heads))
    }

    /// A random track and a block in its first half.
    pub fn random_track(&self, probe: &mut Probe<'_>, cylinder: u64) -> Option<(u64, u64)> {
        let head = probe.rng.below(self.heads);
        let start = self.track(cylinder, head)?;
        let into = probe.rng.below(self.part(start).grid.per_track / 2);
        Some((head, start + into))
    }
}
