//! The parts of a description. Times are in microseconds, with a fraction where it is known.

use serde::{Deserialize, Serialize};

use crate::scheduler::Policy;

/// How long the arm takes to move. None of them may be longer than a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SeekCurve {
    /// Measured points (cylinders, microseconds), straight lines in between and on behind the last one.
    Table {
        /// In ascending order of distance, from 1.
        points: Vec<(u32, f64)>,
    },
    /// a + b sqrt(d) + c d through the three figures that manufacturers publish (Lee and Katz).
    ThreePoint {
        /// To the next cylinder.
        track_us: f64,
        /// Over a third of the cylinders.
        average_us: f64,
        /// From edge to edge.
        full_us: f64,
    },
    /// Hewlett-Packard's: `short + short_root sqrt(d)` below `divide` cylinders, `long + long_each d` from
    /// there on; the first few distances may have times of their own.
    Hp {
        /// Where the two meet, in cylinders.
        divide: u32,
        /// Of short seeks.
        short_us: f64,
        /// Of short seeks, by the root of the distance.
        short_root_us: f64,
        /// Of long seeks.
        long_us: f64,
        /// Of long seeks, for each cylinder.
        long_each_us: f64,
        /// To the next cylinder, if that is another time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        single_us: Option<f64>,
        /// Over 1, 2, 3... cylinders, before the curve begins.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        first_us: Vec<f64>,
    },
    /// A time to settle up to `flat` cylinders, then `settle + root sqrt(d - flat) + each (d - flat)`: drives
    /// of today, whose short seeks all take the same time.
    Settle {
        /// How far settling is all there is.
        flat: u32,
        /// Settling.
        settle_us: f64,
        /// By the root of the distance beyond.
        root_us: f64,
        /// For each cylinder beyond.
        each_us: f64,
    },
    /// Always the same.
    Constant {
        /// That.
        us: f64,
    },
}

/// In which order the tracks of a zone hold its sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// All heads of a cylinder, from the first to the last, then the next cylinder.
    #[default]
    Cylinder,
    /// The same, but every second cylinder of a zone from the last head to the first.
    SerpentineZone,
    /// The same, but every second cylinder of the drive.
    Serpentine,
    /// All cylinders of a zone under one head, then back to the first under the next.
    Surface,
    /// The same, but every second head from the last cylinder to the first.
    SurfaceSerpentine,
}

/// Where sectors are kept in reserve; defective ones are slipped (everything behind moves on) within that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sparing {
    /// None.
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

/// How sectors are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LayoutSpec {
    /// The order of tracks.
    pub mapping: Mapping,
    /// Where spares are.
    pub sparing: Sparing,
    /// Cylinders of a range, where spares are by range.
    pub range_cylinders: u32,
}

impl Default for LayoutSpec {
    fn default() -> Self {
        LayoutSpec { mapping: Mapping::Cylinder, sparing: Sparing::None, range_cylinders: 1 }
    }
}

/// Cylinders with equally many sectors a track.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Its first cylinder, if that does not follow the zone before: cylinders between hold no sectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cylinder: Option<u32>,
    /// How many cylinders.
    pub cylinders: u32,
    /// How many sectors a track.
    pub sectors_per_track: u32,
    /// Sectors that the next head's first sector comes later.
    pub track_skew: f64,
    /// Sectors that the next cylinder's first sector comes later.
    pub cylinder_skew: f64,
    /// Sectors that each further range of cylinders comes later, where spares are by range.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub range_skew: f64,
    /// Sectors between the index mark and the zone's first sector.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: f64,
    /// Sectors at its front that hold nothing.
    #[serde(default, skip_serializing_if = "none")]
    pub front: u32,
    /// Spare sectors in each unit of [`Sparing`] (tracks, if it is by tracks).
    #[serde(default, skip_serializing_if = "none")]
    pub spares: u32,
    /// Defective sectors, or tracks, from the zone's start, that what follows has moved past.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u64>,
    /// Defective sectors, or tracks, and where what they held is now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<(u64, u64)>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn none(value: &u32) -> bool {
    *value == 0
}

/// What handling commands takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandSpec {
    /// Any command, before anything else.
    pub each_us: f64,
    /// A read that the cache can give, after a read.
    pub read_hit_after_read_us: f64,
    /// The same, after a write.
    pub read_hit_after_write_us: f64,
    /// A read that needs the media, after a read.
    pub read_miss_after_read_us: f64,
    /// The same, after a write.
    pub read_miss_after_write_us: f64,
    /// A write that is acknowledged before it is on the media, after a read.
    pub write_hit_after_read_us: f64,
    /// The same, after a write.
    pub write_hit_after_write_us: f64,
    /// A write that is acknowledged when it is on the media, after a read.
    pub write_miss_after_read_us: f64,
    /// The same, after a write.
    pub write_miss_after_write_us: f64,
    /// Acknowledging a read.
    pub read_completion_us: f64,
    /// Acknowledging a write.
    pub write_completion_us: f64,
    /// Before data go over the bus.
    pub data_preparation_us: f64,
    /// The shortest seek of a write.
    pub minimum_write_seek_us: f64,
    /// The shortest time from the end of a command on the media to the start of the next there, also on one
    /// track; not of a write that goes on where the one before ended. The arm moves meanwhile; it counts as
    /// seek.
    #[serde(skip_serializing_if = "is_zero")]
    pub turn_round_us: f64,
}

/// The interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BusSpec {
    /// In 10^6 bytes a second, unless the time of a sector is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mb_s: Option<f64>,
    /// A sector to the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_sector_us: Option<f64>,
    /// A sector from the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_sector_us: Option<f64>,
    /// Whether the drive keeps the bus from the first sector of a read to the last.
    pub hold_read: bool,
    /// Whether it never lets the bus go: then none of the times below passes.
    pub never_disconnect: bool,
    /// Taking the bus again, the first time.
    pub first_reselect_us: f64,
    /// Taking it again, further times.
    pub other_reselect_us: f64,
    /// Letting it go in a read, after a read.
    pub read_disconnect_after_read_us: f64,
    /// The same, after a write.
    pub read_disconnect_after_write_us: f64,
    /// Letting it go in a write.
    pub write_disconnect_us: f64,
    /// Drives that let it go once more in a write that follows a write elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_write_disconnect: Option<ExtraDisconnect>,
}

/// A write that lets the bus go before its data come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtraDisconnect {
    /// Handling its command.
    pub command_us: f64,
    /// Letting the bus go.
    pub disconnect_us: f64,
    /// Until it is taken again.
    pub between_us: f64,
    /// Letting it go when the data have come.
    pub second_disconnect_us: f64,
    /// From the command to the seek.
    pub seek_delay_us: f64,
}

/// How far the head reads on behind a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAhead {
    /// Not at all.
    #[default]
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// As far as `read_ahead_sectors` says, or the segment holds.
    Segment,
    /// To the end of the track, or of the next one if the segment began before this one.
    NextTrack,
}

/// Which writes are acknowledged before they are on the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBack {
    /// None.
    #[default]
    None,
    /// All.
    All,
}

/// The memory on the drive. Sizes are in sectors.
#[allow(clippy::struct_excessive_bools)] // a table of figures, each with its key
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheSpec {
    /// Whether anything is kept after its request.
    pub enabled: bool,
    /// Streams that it keeps apart.
    pub segments: u32,
    /// What each segment holds.
    pub segment_sectors: u32,
    /// Whether one segment is for writes alone.
    pub separate_write_segment: bool,
    /// How far the head reads on.
    pub read_ahead: ReadAhead,
    /// At most so much behind a read; 0: as much as the segment holds.
    pub read_ahead_sectors: u32,
    /// So much before anything else is done.
    pub read_ahead_minimum_sectors: u32,
    /// Whether what was asked for may be overwritten by what is read ahead.
    pub read_ahead_over_request: bool,
    /// Whether what was asked for is forgotten when it has been sent: what was read ahead stays.
    pub forget_requested: bool,
    /// Whether it reads on after a read that the cache gave.
    pub read_ahead_on_hit: bool,
    /// Whether sectors that pass before the first that was asked for are kept.
    pub read_on_arrival: bool,
    /// Whether a read takes its sectors in the order in which they pass.
    pub zero_latency_read: bool,
    /// Whether a write does.
    pub zero_latency_write: bool,
    /// Whether reads find what was written.
    pub read_hits_on_writes: bool,
    /// Which writes are acknowledged early.
    pub write_back: WriteBack,
    /// Whether writes that continue each other go to the media as one.
    pub combine_writes: bool,
    /// What writes that were acknowledged early may hold of the memory in all; 0: one write at a time.
    pub write_buffer_sectors: u32,
    /// The part of that, 0 to 1, above which the head writes whenever it is free.
    pub destage_threshold: f64,
    /// Below it the head writes when nothing came for so long, in milliseconds.
    pub destage_after_ms: f64,
    /// In which order.
    pub destage_order: Policy,
    /// Whether reading on stops in the middle of a sector.
    pub stop_in_sector: bool,
    /// Whether a read of which the start is there begins at once.
    pub partial_hit_at_once: bool,
    /// Whether a read counts as found when the sector just being read on is its first.
    pub almost_hits: bool,
    /// The part of a read that has to be there before the bus is taken, 0 to 1.
    pub read_water_mark: f64,
    /// Whether that is a part of the request, rather than of a segment.
    pub water_mark_by_request: bool,
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
            zero_latency_write: false,
            read_hits_on_writes: true,
            write_back: WriteBack::None,
            combine_writes: true,
            write_buffer_sectors: 0,
            destage_threshold: 0.5,
            destage_after_ms: 10.0,
            destage_order: Policy::CLook,
            stop_in_sector: true,
            partial_hit_at_once: true,
            almost_hits: true,
            read_water_mark: 0.0,
            water_mark_by_request: true,
        }
    }
}
