//! The parts of a description. Times are in microseconds, with a fraction where it is known.

use schemars::JsonSchema;
use seekless_core::Nanos;
use serde::{Deserialize, Serialize};

use crate::scheduler::{Limits, Policy};

/// Seek time by distance, at most a second.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SeekCurve {
    /// Measured points (cylinders, microseconds), interpolated linearly and extrapolated after the last one.
    Table {
        /// In ascending order of distance, from 1.
        points: Vec<(u32, f64)>,
    },
    /// a + b sqrt(d) + c d through the three values that manufacturers publish (Lee and Katz).
    ThreePoint {
        /// To the next cylinder.
        track_us: f64,
        /// Over a third of the cylinders.
        average_us: f64,
        /// From edge to edge.
        full_us: f64,
    },
    /// Hewlett-Packard's: `short + short_root sqrt(d)` below `divide` cylinders, `long + long_each d` from there on;
    /// the first few distances may have times of their own.
    Hp {
        /// Where the two meet, in cylinders.
        divide: u32,
        /// Constant part of short seeks.
        short_us: f64,
        /// Part of short seeks per root of the distance.
        short_root_us: f64,
        /// Constant part of long seeks.
        long_us: f64,
        /// Part of long seeks per cylinder.
        long_each_us: f64,
        /// To the next cylinder, if the curve does not hold there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        single_us: Option<f64>,
        /// Over 1, 2, 3... cylinders, before the curve begins.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        first_us: Vec<f64>,
    },
    /// A settle time up to `flat` cylinders, then `settle + root sqrt(d - flat) + each (d - flat)`: modern drives,
    /// whose short seeks all take the same time.
    Settle {
        /// Distance up to which only settling counts, in cylinders.
        flat: u32,
        /// Settle time.
        settle_us: f64,
        /// Part per root of the distance beyond `flat`.
        root_us: f64,
        /// Part per cylinder beyond `flat`.
        each_us: f64,
    },
    /// The same for all distances.
    Constant {
        /// The time.
        us: f64,
    },
}

/// The order in which the tracks of a zone hold its sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// All heads of a cylinder, from the first to the last, then the next cylinder.
    #[default]
    Cylinder,
    /// As `Cylinder`, but every second cylinder of a zone from the last head to the first.
    SerpentineZone,
    /// As `Cylinder`, but every second cylinder of the drive from the last head to the first.
    Serpentine,
    /// All cylinders of a band under one head, then back to the first under the next; then the next band.
    Surface,
    /// As `Surface`, but every second head from the last cylinder to the first.
    SurfaceSerpentine,
}

impl Mapping {
    /// Whether it goes on under the same head before the next one.
    pub fn by_surface(self) -> bool {
        matches!(self, Mapping::Surface | Mapping::SurfaceSerpentine)
    }
}

/// Placement of spare sectors; defective ones are slipped (later sectors move on) within that unit. A unit with fewer
/// spares than slips and remaps holds fewer sectors. After a zone's last whole unit there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sparing {
    /// No spares.
    #[default]
    None,
    /// Whole tracks at the end of a zone; slips and defects count tracks.
    Tracks,
    /// Sectors at the end of each track.
    Track,
    /// Sectors at the end of each cylinder.
    Cylinder,
    /// Sectors at the end of each cylinder; slips push on to the end of the zone.
    CylinderToEnd,
    /// Sectors at the front of each cylinder.
    CylinderFront,
    /// Sectors at the front of each cylinder; slips push on to the end of the zone.
    CylinderFrontToEnd,
    /// Sectors at the end of each range of cylinders.
    Range,
    /// Sectors at the end of the zone.
    Zone,
}

/// Sector layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LayoutSpec {
    /// Order of tracks.
    pub mapping: Mapping,
    /// Width of a band of the mappings by surface, in cylinders; 0: the whole zone is one.
    #[serde(skip_serializing_if = "none")]
    pub band_cylinders: u32,
    /// Placement of spares.
    pub sparing: Sparing,
    /// Cylinders per range, where spares are by range.
    pub range_cylinders: u32,
}

impl Default for LayoutSpec {
    fn default() -> Self {
        LayoutSpec {
            mapping: Mapping::Cylinder,
            band_cylinders: 0,
            sparing: Sparing::None,
            range_cylinders: 1,
        }
    }
}

impl LayoutSpec {
    /// Width of a zone's bands, in cylinders; the last one may be narrower.
    pub(crate) fn band(&self, zone: &Zone) -> u32 {
        if self.band_cylinders == 0 { zone.cylinders } else { self.band_cylinders.min(zone.cylinders) }.max(1)
    }
}

/// Cylinders with equally many sectors per track.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// First cylinder, if it does not follow the zone before: cylinders between hold no sectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cylinder: Option<u32>,
    /// Number of cylinders.
    pub cylinders: u32,
    /// Sectors per track.
    pub sectors_per_track: u32,
    /// Skew of the next head's first sector, in sectors.
    pub track_skew: f64,
    /// Skew of the next cylinder's first sector, in sectors.
    pub cylinder_skew: f64,
    /// Skew of each further range of cylinders, in sectors, where spares are by range.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub range_skew: f64,
    /// Sectors between the index mark and the zone's first sector.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: f64,
    /// Sectors at the zone's front that hold nothing.
    #[serde(default, skip_serializing_if = "none")]
    pub front: u32,
    /// Spare sectors in each unit of [`Sparing`] (tracks, if it is by tracks).
    #[serde(default, skip_serializing_if = "none")]
    pub spares: u32,
    /// Slipped sectors, or tracks, from the zone's start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u64>,
    /// Remapped sectors, or tracks: from, to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<(u64, u64)>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_false(value: &bool) -> bool {
    !*value
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
pub(super) fn none(value: &u32) -> bool {
    *value == 0
}

/// Command handling times.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandSpec {
    /// Any command, before anything else.
    pub each_us: f64,
    /// A read hit, after a read.
    pub read_hit_after_read_us: f64,
    /// A read hit, after a write.
    pub read_hit_after_write_us: f64,
    /// A read miss, after a read.
    pub read_miss_after_read_us: f64,
    /// A read miss, after a write.
    pub read_miss_after_write_us: f64,
    /// A write that is acknowledged before it is on the media, after a read.
    pub write_hit_after_read_us: f64,
    /// As above, after a write.
    pub write_hit_after_write_us: f64,
    /// A write that is acknowledged when it is on the media, after a read.
    pub write_miss_after_read_us: f64,
    /// As above, after a write.
    pub write_miss_after_write_us: f64,
    /// Acknowledging a read.
    pub read_completion_us: f64,
    /// Acknowledging a write.
    pub write_completion_us: f64,
    /// Preparation before data go over the bus.
    pub data_preparation_us: f64,
    /// The shortest seek of a write.
    pub minimum_write_seek_us: f64,
    /// The least time from the end of a command on the media to the start of the next one there, also on one track,
    /// except for a write that continues the one before. The arm moves meanwhile; it counts as seek.
    #[serde(skip_serializing_if = "is_zero")]
    pub turn_round_us: f64,
}

/// The interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BusSpec {
    /// Bandwidth in 10^6 bytes per second, unless the time of a sector is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mb_s: Option<f64>,
    /// Time of a sector to the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_sector_us: Option<f64>,
    /// Time of a sector from the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_sector_us: Option<f64>,
    /// Whether the drive holds the bus from the first sector of a read to the last.
    pub hold_read: bool,
    /// Whether it never releases the bus: then none of the times below passes.
    pub never_disconnect: bool,
    /// Taking the bus again, the first time.
    pub first_reselect_us: f64,
    /// Taking it again, further times.
    pub other_reselect_us: f64,
    /// Releasing it in a read, after a read.
    pub read_disconnect_after_read_us: f64,
    /// Releasing it in a read, after a write.
    pub read_disconnect_after_write_us: f64,
    /// Releasing it in a write.
    pub write_disconnect_us: f64,
    /// Further release in a write that follows a write elsewhere, on drives that do so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_write_disconnect: Option<ExtraDisconnect>,
}

impl BusSpec {
    /// Whether the bus is held from the first sector of a read to the last.
    pub fn holds_read(&self) -> bool {
        self.hold_read || self.never_disconnect
    }
}

/// Times of a write that releases the bus before its data arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtraDisconnect {
    /// Command handling.
    pub command_us: f64,
    /// Releasing the bus.
    pub disconnect_us: f64,
    /// Until the bus is taken again.
    pub between_us: f64,
    /// Releasing it after the data have arrived.
    pub second_disconnect_us: f64,
    /// From the command to the seek.
    pub seek_delay_us: f64,
}

/// Extent of read-ahead after a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAhead {
    /// No read-ahead.
    #[default]
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// To `read_ahead_sectors`, or the segment's size.
    Segment,
    /// To the end of the track, or of the next one if the segment began before this one.
    NextTrack,
}

/// Which writes are acknowledged before they are on the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBack {
    /// None.
    #[default]
    None,
    /// All.
    All,
}

/// The drive's cache. Sizes are in sectors.
#[allow(clippy::struct_excessive_bools)] // a table of figures, each with its key
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheSpec {
    /// Whether data stay cached after their request.
    pub enabled: bool,
    /// Number of segments (streams).
    pub segments: u32,
    /// Size of a segment.
    pub segment_sectors: u32,
    /// Whether one segment is reserved for writes.
    pub separate_write_segment: bool,
    /// Extent of read-ahead.
    pub read_ahead: ReadAhead,
    /// Most read-ahead after a read; 0: the size of the segment.
    pub read_ahead_sectors: u32,
    /// Read-ahead that precedes anything else.
    pub read_ahead_minimum_sectors: u32,
    /// Whether read-ahead may overwrite the requested sectors.
    pub read_ahead_over_request: bool,
    /// Whether the requested sectors are dropped when they have been sent: read-ahead stays.
    pub forget_requested: bool,
    /// Whether it reads ahead after a read hit.
    pub read_ahead_on_hit: bool,
    /// Whether sectors that pass before the first requested one are stored.
    pub read_on_arrival: bool,
    /// Whether a read takes its sectors in the order in which they pass.
    pub zero_latency_read: bool,
    /// Whether it does not while the drive holds the bus for the whole read, as DiskSim has it.
    #[serde(skip_serializing_if = "is_false")]
    pub in_order_when_held: bool,
    /// Whether a write does.
    pub zero_latency_write: bool,
    /// Whether reads hit written data.
    pub read_hits_on_writes: bool,
    /// Which writes are acknowledged early.
    pub write_back: WriteBack,
    /// Whether sequential writes are combined.
    pub combine_writes: bool,
    /// Size of the write buffer; 0: one write at a time.
    pub write_buffer_sectors: u32,
    /// Most ranges that it holds, so that scattered writes fill it sooner; 0: any number.
    #[serde(skip_serializing_if = "none")]
    pub write_buffer_ranges: u32,
    /// Share of the buffer, 0 to 1, above which the head destages whenever it is free.
    pub destage_threshold: f64,
    /// Idle time after which the head destages below the threshold, in milliseconds.
    pub destage_after_ms: f64,
    /// Destage order.
    pub destage_order: Policy,
    /// How many of the oldest writes it may reorder; 0: all.
    #[serde(skip_serializing_if = "none")]
    pub destage_window: u32,
    /// A write that waited longer in the buffer goes next, in milliseconds; 0: never.
    #[serde(skip_serializing_if = "is_zero")]
    pub destage_starvation_ms: f64,
    /// How many writes in a row may overtake the oldest one, which then goes next; 0: any number.
    #[serde(skip_serializing_if = "none")]
    pub destage_overtakes: u32,
    /// Whether read-ahead stops in the middle of a sector.
    pub stop_in_sector: bool,
    /// Whether a read whose start is cached begins at once.
    pub partial_hit_at_once: bool,
    /// Whether a read hits if its first sector is just being read ahead.
    pub almost_hits: bool,
    /// Share of a read that has to arrive before the bus is taken, 0 to 1.
    pub read_water_mark: f64,
    /// Whether that is a share of the request, rather than of a segment.
    pub water_mark_by_request: bool,
}

impl CacheSpec {
    /// Whether a read takes sectors in the order in which they pass, on a drive whose bus is `held` meanwhile or not.
    pub fn reads_any_order(&self, held: bool) -> bool {
        (self.zero_latency_read || self.read_on_arrival) && !(self.in_order_when_held && held)
    }

    /// How far the write buffer is reordered.
    pub fn destage_limits(&self) -> Limits {
        Limits {
            window: self.destage_window as usize,
            starvation: Nanos((self.destage_starvation_ms * 1e6).round() as u64),
            overtakes: self.destage_overtakes,
        }
    }
}

impl Default for CacheSpec {
    fn default() -> Self {
        CacheSpec {
            enabled: true,
            segments: 0,
            segment_sectors: 0,
            separate_write_segment: false,
            read_ahead: ReadAhead::Segment,
            read_ahead_sectors: 0,
            read_ahead_minimum_sectors: 0,
            read_ahead_over_request: false,
            forget_requested: false,
            read_ahead_on_hit: false,
            read_on_arrival: false,
            zero_latency_read: false,
            in_order_when_held: false,
            zero_latency_write: false,
            read_hits_on_writes: true,
            write_back: WriteBack::None,
            combine_writes: true,
            write_buffer_sectors: 0,
            write_buffer_ranges: 0,
            destage_threshold: 0.5,
            destage_after_ms: 10.0,
            destage_order: Policy::CLook,
            destage_window: 0,
            destage_starvation_ms: 0.0,
            destage_overtakes: 0,
            stop_in_sector: true,
            partial_hit_at_once: true,
            almost_hits: true,
            read_water_mark: 0.0,
            water_mark_by_request: true,
        }
    }
}
