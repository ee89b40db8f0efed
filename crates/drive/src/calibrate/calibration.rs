//! The result of a calibration, each value with its interval.

use schemars::JsonSchema;
use serde::Serialize;

use super::ahead::Ahead;
use super::map::Map;
use super::overhead::Overhead;
use super::probe::Probe;
use super::seeks::Seek;
use super::settle::Settle;
use super::stats::Estimate;
use super::zones::Zone;

/// A drive as timed reads show it. Sectors have 512 bytes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Calibration {
    /// Capacity.
    pub sectors: u64,
    /// Sectors of a block, the unit of reads.
    pub block_sectors: u64,
    /// Time of a revolution.
    pub turn_us: Estimate,
    /// Revolutions per minute.
    pub rpm: Estimate,
    /// Tracks per cylinder, if known.
    pub heads: Option<u64>,
    /// Head switch without command handling, if heads are known.
    pub head_switch_us: Option<Estimate>,
    /// Zones, from the outer edge inwards.
    pub zones: Vec<MeasuredZone>,
    /// Seek times, including the handling of a read miss.
    pub seeks: Vec<Seek>,
    /// Extra settle time of a write after a seek or a head switch, in microseconds; if writes were allowed, and if it
    /// could be determined.
    pub write_settle_us: Option<Estimate>,
    /// Cost of a write without seek, rotation and media transfer, in microseconds; as above.
    pub write_handling_us: Option<Estimate>,
    /// Command overheads.
    pub overhead: Overhead,
    /// Segments usable by reads; 0: there is no cache, or it is not visible.
    pub segments: usize,
    /// Whether there may be more segments than the search limit.
    pub more_segments: bool,
    /// Whether the cache stores what passes before a block.
    pub keeps_before: bool,
    /// Read-ahead, in sectors.
    pub ahead: Option<Ahead>,
    /// Number of timed reads.
    pub reads: u64,
    /// Whether writes were allowed.
    pub destructive: bool,
    /// Number of timed writes.
    pub writes: u64,
    /// Duration of the calibration, in seconds.
    pub seconds: f64,
}

/// A zone, or a piece of one: defects split zones.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct MeasuredZone {
    /// First sector.
    pub first: u64,
    /// One past the last sector.
    pub end: u64,
    /// Number of cylinders.
    pub cylinders: u64,
    /// Sectors per track.
    pub sectors_per_track: u64,
    /// From track to track of a cylinder, in sectors.
    pub track_skew: Estimate,
    /// From cylinder to cylinder, in sectors.
    pub cylinder_skew: Estimate,
    /// Extra skew from range to range of cylinders, in sectors.
    pub range_skew: f64,
    /// Sectors from the index to the first cylinder's first sector; the index is at that of the first zone.
    pub offset: f64,
    /// Sectors of its first cylinder before its first sector.
    pub front: u64,
    /// Spare sectors at its end, or at the end of each range of cylinders.
    pub spares: u64,
    /// Cylinders per range, where spares are by range.
    pub range_cylinders: Option<u64>,
}

/// The results of the stages.
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

impl Calibration {
    /// Assembles the results.
    pub(super) fn new(probe: &Probe<'_>, map: &Map, parts: Parts) -> Calibration {
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
            MeasuredZone {
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
        Calibration {
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

    /// Cost of a read miss without seek, rotation and media transfer; that of a read hit if the former is not visible.
    pub fn handling_us(&self) -> f64 {
        self.overhead.media_us.map_or(self.overhead.hit_us.value, |media| media.value)
    }
}
