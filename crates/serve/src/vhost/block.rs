//! The virtio block device: its features, its configuration space, and the headers of its requests. See section 5.2 of
//! the virtio specification.

use seekless_core::{Geometry, SECTOR_BYTES};

use super::chain::field;
use super::message::F_PROTOCOL_FEATURES;

/// Rings of a device, at most: guests have one for each processor.
pub const RINGS: usize = 64;
/// Bytes of a request's header.
pub const HEADER_BYTES: usize = 16;
/// Parts of a request's data, at most: with its header and its status they fit into the usual ring of 128 entries.
const SEGMENTS: u32 = 126;
/// Bytes of a part, at most: all of them are a request of less than 32 MiB.
const SEGMENT_BYTES: u32 = 256 << 10;
/// Bytes of a request's data, at most.
pub const MOST_BYTES: u64 = SEGMENTS as u64 * SEGMENT_BYTES as u64;
/// Ranges of a discard, at most, and sectors of each.
pub const RANGES: u32 = 64;
const RANGE_SECTORS: u32 = 1 << 16;
/// Bytes of a range.
pub const RANGE_BYTES: usize = 16;
/// Bytes of the device's name.
pub const NAME_BYTES: usize = 20;

/// Features of the device.
const F_SIZE_MAX: u64 = 1 << 1;
const F_SEG_MAX: u64 = 1 << 2;
const F_READ_ONLY: u64 = 1 << 5;
const F_BLOCK_SIZE: u64 = 1 << 6;
/// The guest may ask that writes be made durable.
pub const F_FLUSH: u64 = 1 << 9;
const F_TOPOLOGY: u64 = 1 << 10;
/// The guest may choose between write-back and write-through.
pub const F_CONFIG_WCE: u64 = 1 << 11;
const F_MQ: u64 = 1 << 12;
const F_DISCARD: u64 = 1 << 13;
const F_WRITE_ZEROES: u64 = 1 << 14;
/// Features of the rings.
const F_INDIRECT: u64 = 1 << 28;
/// Both sides say at which index they want to be notified.
pub const F_EVENT_INDEX: u64 = 1 << 29;
const F_VERSION_1: u64 = 1 << 32;

/// Offset of the only byte that the guest may write: whether the cache is write-back.
pub const WRITE_BACK_AT: u32 = 32;

/// The features that are offered.
pub fn features(read_only: bool) -> u64 {
    let always = F_SIZE_MAX | F_SEG_MAX | F_BLOCK_SIZE | F_FLUSH | F_TOPOLOGY | F_CONFIG_WCE | F_MQ;
    let rings = F_INDIRECT | F_EVENT_INDEX | F_VERSION_1 | F_PROTOCOL_FEATURES;
    always | rings | if read_only { F_READ_ONLY } else { F_DISCARD | F_WRITE_ZEROES }
}

/// Whether each write of a driver with these features must be durable when it is answered: it has no other way to make
/// it so, or has chosen write-through.
pub fn writes_through(features: u64, write_back: bool) -> bool {
    let (may_choose, may_flush) = (features & F_CONFIG_WCE != 0, features & F_FLUSH != 0);
    if may_choose { !write_back } else { !may_flush }
}

/// Configuration space.
pub fn config(geometry: &Geometry, write_back: bool) -> Vec<u8> {
    let discard = geometry.discard_sectors.clamp(1, RANGE_SECTORS.into()) as u32;
    let physical = geometry.physical_sectors.max(geometry.logical_sectors);
    let exponent = (physical / geometry.logical_sectors).max(1).ilog2();
    let mut space = Vec::with_capacity(60);
    space.extend(geometry.sectors.to_le_bytes());
    space.extend(SEGMENT_BYTES.to_le_bytes());
    space.extend(SEGMENTS.to_le_bytes());
    // Cylinders, heads and sectors: not offered.
    space.extend([0; 4]);
    space.extend(((geometry.logical_sectors * SECTOR_BYTES) as u32).to_le_bytes());
    // Physical block, alignment of the first, and the least and best sizes of requests in logical blocks.
    space.extend([exponent as u8, 0]);
    space.extend((1_u16 << exponent.min(15)).to_le_bytes());
    space.extend(0_u32.to_le_bytes());
    space.extend([u8::from(write_back), 0]);
    space.extend((RINGS as u16).to_le_bytes());
    for limit in [RANGE_SECTORS, RANGES, discard, RANGE_SECTORS, RANGES] {
        space.extend(limit.to_le_bytes());
    }
    // Zeroes may be unmapped.
    space.extend([1, 0, 0, 0]);
    space
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Read sectors.
    In,
    /// Write sectors.
    Out,
    /// Make all completed writes durable.
    Flush,
    /// The device's name.
    Name,
    /// Discard ranges.
    Discard,
    /// Zero ranges.
    WriteZeroes,
    /// A kind that is not offered.
    Unknown(u32),
}

/// A request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// See [`Kind`].
    pub kind: Kind,
    /// First sector.
    pub sector: u64,
}

impl Header {
    /// The header in these bytes.
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Header {
        let kind = match u32::from_le_bytes(field(bytes, 0)) {
            0 => Kind::In,
            1 => Kind::Out,
            4 => Kind::Flush,
            8 => Kind::Name,
            11 => Kind::Discard,
            13 => Kind::WriteZeroes,
            other => Kind::Unknown(other),
        };
        Header { kind, sector: u64::from_le_bytes(field(bytes, 8)) }
    }
}

/// A range of a discard or of zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First sector.
    pub sector: u64,
    /// Sectors.
    pub sectors: u32,
    /// Whether zeroes may be unmapped.
    pub unmap: bool,
    /// Whether other flags are set, which no driver may.
    pub has_unknown_flags: bool,
}

impl Range {
    /// The range in these bytes.
    pub fn read(bytes: &[u8; RANGE_BYTES]) -> Range {
        let flags = u32::from_le_bytes(field(bytes, 12));
        Range {
            sector: u64::from_le_bytes(field(bytes, 0)),
            sectors: u32::from_le_bytes(field(bytes, 8)),
            unmap: flags & 1 != 0,
            has_unknown_flags: flags & !1 != 0,
        }
    }

    /// Whether it is longer than the limit in configuration space.
    pub fn is_too_long(&self) -> bool {
        self.sectors > RANGE_SECTORS
    }
}

/// How a request ended, as the guest sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Carried out.
    Ok = 0,
    /// Failed.
    IoError = 1,
    /// Of a kind that is not offered.
    Unsupported = 2,
}
