//! What was found, each figure with its interval.

use serde::Serialize;

use super::ahead::Ahead;
use super::map::Map;
use super::overhead::Overhead;
use super::probe::Probe;
use super::seeks::Seek;
use super::settle::Settle;
use super::stats::Estimate;
use super::zones::Zone;

/// A drive as timed reads show it. Sectors are of 512 bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// Capacity.
    pub sectors: u64,
    /// Sectors of a block, in which the device was read.
    pub block_sectors: u64,
    /// A turn.
    pub turn_us: Estimate,
    /// Revolutions a minute.
    pub rpm: Estimate,
    /// Tracks of a cylinder, if they can be told.
    pub heads: Option<u64>,
    /// To another head of the same cylinder, without the handling of the command, if heads can be told.
    pub head_switch_us: Option<Estimate>,
    /// From the outer edge inwards.
    pub zones: Vec<FoundZone>,
    /// The arm, with the handling of a command that is not found in the cache.
    pub seeks: Vec<Seek>,
    /// How much longer a write waits than a read after a seek or a head switch, in microseconds; if writes were
    /// allowed, and if it could be told.
    pub write_settle_us: Option<Estimate>,
    /// What a write costs but for the seek, the wait and the passing, in microseconds; as above.
    pub write_handling_us: Option<Estimate>,
    /// What commands cost.
    pub overhead: Overhead,
    /// Segments that reads can use; 0: there is no cache, or it cannot be seen.
    pub segments: usize,
    /// Whether there may be more than were looked for.
    pub more_segments: bool,
    /// Whether what passes before a block is kept with it.
    pub keeps_before: bool,
    /// What is kept of a read, in sectors.
    pub ahead: Option<Ahead>,
    /// Reads that were timed.
    pub reads: u64,
    /// Whether writes were allowed.
    pub destructive: bool,
    /// Writes that were timed.
    pub writes: u64,
    /// What all took, in seconds.
    pub seconds: f64,
}

/// A zone as it was found, or a piece of one: defects cut zones.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FoundZone {
    /// Its first sector.
    pub first: u64,
    /// Behind its last.
    pub end: u64,
    /// Cylinders that hold them.
    pub cylinders: u64,
    /// Sectors a track.
    pub sectors_per_track: u64,
    /// From track to track of a cylinder, in sectors.
    pub track_skew: Estimate,
    /// From cylinder to cylinder, in sectors.
    pub cylinder_skew: Estimate,
    /// From range to range of cylinders besides, in sectors.
    pub range_skew: f64,
    /// Sectors from the index to its first cylinder's first sector; the index is where that of the first zone is.
    pub offset: f64,
    /// Sectors of its first cylinder before its first.
    pub front: u64,
    /// Sectors at its end that hold nothing, or at the end of each range of cylinders.
    pub spares: u64,
    /// Cylinders of a range, where spares are by range.
    pub range_cylinders: Option<u64>,
}

/// What the parts have found.
pub(super) struct Parts {
    pub turn: Estimate,
    pub zones: Vec<Zone>,
    pub heads: Option<u64>,
    pub switch: Option<Estimate>,
    pub seeks: Vec<Seek>,
    pub destructive: bool,
    pub settle: Option<Settle>,
    pub overhead: Overhead,
    pub segments: usize,
    pub more_segments: bool,
    pub ahead: Option<Ahead>,
}

impl Found {
    /// Puts together what was found.
    pub(super) fn new(probe: &Probe<'_>, map: &Map, parts: Parts) -> Found {
        let unit = probe.unit();
        let index = map
            .parts
            .first()
            .map_or(0.0, |part| part.grid.angle(part.first) - 1.0 / part.grid.per_track as f64);
        let zone = |(part, zone): (&super::map::Part, &Zone)| {
            let grid = part.grid;
            let start = part.first as i64 - part.front as i64;
            let angle = grid.angle_of(start) - 1.0 / grid.per_track as f64 - index;
            let sectors = |skew: Estimate, best: f64| {
                let all = (grid.per_track * unit) as f64;
                let value = grid.in_blocks(best) * unit as f64;
                let off = |turns: f64| super::stats::around(turns - best) * all;
                let (low, high) = (value + off(skew.low), value + off(skew.high));
                Estimate { value, low: low.min(value), high: high.max(value) }
            };
            let holds = part.front + (part.end - part.first);
            let spares = match grid.range {
                Some(range) => range.cylinders * grid.cylinder() - range.blocks,
                None => part.cylinders * grid.cylinder() - holds,
            };
            FoundZone {
                first: part.first * unit,
                end: part.end * unit,
                cylinders: part.cylinders,
                sectors_per_track: grid.per_track * unit,
                track_skew: sectors(zone.fitted.track_skew, grid.track_skew),
                cylinder_skew: sectors(zone.fitted.cylinder_skew, grid.cylinder_skew),
                range_skew: grid.range.map_or(0.0, |range| grid.in_blocks(range.skew) * unit as f64),
                offset: super::stats::forward(angle) * (grid.per_track * unit) as f64,
                front: part.front * unit,
                spares: spares * unit,
                range_cylinders: grid.range.map(|range| range.cylinders),
            }
        };
        Found {
            sectors: probe.blocks() * unit,
            block_sectors: unit,
            turn_us: parts.turn.times(1e-3),
            rpm: Estimate {
                value: 60e9 / parts.turn.value,
                low: 60e9 / parts.turn.high,
                high: 60e9 / parts.turn.low,
            },
            heads: parts.heads,
            head_switch_us: parts.switch.map(|switch| switch.times(1e-3)),
            zones: map.parts.iter().zip(&parts.zones).map(zone).collect(),
            seeks: parts.seeks,
            write_settle_us: parts.settle.map(|settle| settle.settle_us),
            write_handling_us: parts.settle.map(|settle| settle.handling_us),
            overhead: parts.overhead,
            segments: parts.segments,
            more_segments: parts.more_segments,
            keeps_before: probe.keeps_before,
            ahead: parts.ahead.map(|ahead| Ahead {
                blocks: ahead.blocks * unit,
                segment: ahead.segment * unit,
                ..ahead
            }),
            reads: probe.reads,
            destructive: parts.destructive,
            writes: probe.writes,
            seconds: probe.spent(),
        }
    }

    /// What a read off the media costs but for the seek, the wait and the passing; what a read costs that the cache
    /// answers, if the former cannot be seen.
    pub fn handling_us(&self) -> f64 {
        self.overhead.media_us.map_or(self.overhead.hit_us.value, |media| media.value)
    }
}
