//! One record of the binary format: its header in both byte orders and versions, and its event.
//!
//! Invariant: [`exact`] reads no byte beyond the slice it is given. Faults: any bytes at all; bytes that are no record
//! are a [`Flaw`].

use std::fmt::Write;
use std::path::Path;

use seekless_core::{Extent, Latency, Op, ProcessId, SECTOR_BYTES, StreamId, record::Flags};

use crate::error::TraceError;
use crate::format::{EventKind, Remapped, TracedRequest};

/// Bytes needed to recognize the format.
pub const MAGIC_BYTES: usize = 4;
/// Header size of version 7; the smallest size of a record.
pub const HEADER_BYTES: usize = 48;
/// Header size of version 8: a wider action, and padding.
pub const HEADER_BYTES_8: usize = 64;
/// The magic number, with its lowest byte for the version.
const MAGIC: u32 = 0x6561_7400;
const EXPECTED: &str = "a blktrace record (magic 0x65617407 or 0x65617408, in either byte order)";

/// An address past this would not fit a u64 in bytes.
const MAX_SECTORS: u64 = u64::MAX / SECTOR_BYTES;

/// Actions: the low byte.
mod what {
    pub const QUEUED: u64 = 1;
    pub const ISSUED: u64 = 7;
    pub const COMPLETED: u64 = 8;
    pub const REMAPPED: u64 = 15;
    /// Note: the name of a process.
    pub const PROCESS: u64 = 0;
    /// A cgroup's number precedes the payload.
    pub const CGROUP: u64 = 1 << 8;
}

/// Categories: the action above its low 16 bits.
pub(super) mod category {
    pub const READ: u64 = 1;
    pub const WRITE: u64 = 1 << 1;
    pub const FLUSH: u64 = 1 << 2;
    pub const SYNC: u64 = 1 << 3;
    /// Commands passed through to the device; their sector is not an address.
    pub const PASSTHROUGH: u64 = 1 << 9;
    pub const NOTE: u64 = 1 << 10;
    pub const AHEAD: u64 = 1 << 11;
    pub const META: u64 = 1 << 12;
    pub const DISCARD: u64 = 1 << 13;
    pub const FUA: u64 = 1 << 15;
}

/// The byte order of the machine that wrote a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Lowest byte first.
    Little,
    /// Highest byte first.
    Big,
}

/// A decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Byte order.
    pub order: ByteOrder,
    /// Version, 7 or 8.
    pub version: u8,
    /// Sequence number on its CPU; zero throughout in a raw kernel stream.
    pub sequence: u32,
    /// Time, in nanoseconds of the machine's monotonic clock.
    pub time_ns: u64,
    /// First sector.
    pub sector: u64,
    /// Length.
    pub bytes: u32,
    /// Action (low 16 bits) and category (the bits above).
    pub action: u64,
    /// The current process; at a queue event, the issuing one.
    pub pid: u32,
    /// Device: `major << 20 | minor`.
    pub device: u32,
    /// The CPU it was recorded on.
    pub cpu: u32,
    /// The request's error, at its completion.
    pub error: u16,
    /// Payload.
    pub payload: &'a [u8],
}

/// Why some bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// They end before the record does.
    Short {
        /// Bytes available.
        have: usize,
        /// Bytes needed for a header, or for the record once its header is there.
        need: usize,
    },
    /// They do not match any record.
    Malformed {
        /// The value found.
        found: String,
        /// The value expected.
        expected: String,
    },
}

impl Flaw {
    /// The error for this flaw at byte `offset` of `file`.
    pub fn at(self, file: &Path, offset: u64) -> TraceError {
        let (found, expected) = match self {
            Flaw::Short { have, need } => (format!("{have} bytes"), format!("{need} bytes or more")),
            Flaw::Malformed { found, expected } => (found, expected),
        };
        TraceError::Malformed { file: file.to_owned(), offset, found, expected }
    }
}

/// The byte order and the magic number, if these are the first bytes of a record.
pub(super) fn byte_order(bytes: &[u8]) -> Option<(ByteOrder, u32)> {
    let head = *bytes.first_chunk::<MAGIC_BYTES>()?;
    let both = [(ByteOrder::Little, u32::from_le_bytes(head)), (ByteOrder::Big, u32::from_be_bytes(head))];
    both.into_iter().find(|(_, magic)| magic & !0xff == MAGIC)
}

/// The byte order and the version in the first bytes of a record.
#[inline]
pub fn check_magic(bytes: &[u8]) -> Result<(ByteOrder, u8), Flaw> {
    if bytes.starts_with(&(MAGIC | 7).to_le_bytes()) {
        return Ok((ByteOrder::Little, 7));
    }
    let Some((order, magic)) = byte_order(bytes) else {
        return Err(Flaw::Malformed { found: first_bytes(bytes), expected: EXPECTED.into() });
    };
    let version = magic as u8;
    if version == 7 || version == 8 {
        return Ok((order, version));
    }
    let found = format!("blktrace version {version} (magic {magic:#010x})");
    Err(Flaw::Malformed { found, expected: "blktrace version 7 or 8".into() })
}

/// A description of the first bytes of a file that is not a trace.
pub(crate) fn first_bytes(bytes: &[u8]) -> String {
    match bytes.first_chunk::<MAGIC_BYTES>() {
        Some(head) => format!("bytes {}", hex(head)),
        None => format!("only {} bytes ({})", bytes.len(), hex(bytes)),
    }
}

/// Decodes the record at the start of `bytes`. Pure: reads only the slice.
pub fn exact(bytes: &[u8]) -> Result<RawRecord<'_>, Flaw> {
    let short = |need| Flaw::Short { have: bytes.len(), need };
    if bytes.len() < MAGIC_BYTES {
        return Err(short(HEADER_BYTES));
    }
    let (order, version) = check_magic(bytes)?;
    let header_bytes = if version == 7 { HEADER_BYTES } else { HEADER_BYTES_8 };
    let record = match (bytes.first_chunk(), version) {
        (Some(header), 7) => version_7(header, order),
        _ => version_8(bytes.first_chunk().ok_or_else(|| short(header_bytes))?, order),
    };
    let (record, payload_bytes) = record;
    let length = header_bytes + usize::from(payload_bytes);
    let payload = bytes.get(header_bytes..length).ok_or_else(|| short(length))?;
    Ok(RawRecord { payload, ..record })
}

/// A header of version 7, and its payload's length. The header's length is in the type, so that no offset is checked at
/// run time.
fn version_7(header: &[u8; HEADER_BYTES], order: ByteOrder) -> (RawRecord<'static>, u16) {
    let fields = Fields { header, order };
    let record = RawRecord {
        order,
        version: 7,
        sequence: fields.u32(4),
        time_ns: fields.u64(8),
        sector: fields.u64(16),
        bytes: fields.u32(24),
        action: u64::from(fields.u32(28)),
        pid: fields.u32(32),
        device: fields.u32(36),
        cpu: fields.u32(40),
        error: fields.u16(44),
        payload: &[],
    };
    (record, fields.u16(46))
}

/// A header of version 8: the process before the action, and the action twice as wide.
fn version_8(header: &[u8; HEADER_BYTES_8], order: ByteOrder) -> (RawRecord<'static>, u16) {
    let fields = Fields { header, order };
    let record = RawRecord {
        order,
        version: 8,
        sequence: fields.u32(4),
        time_ns: fields.u64(8),
        sector: fields.u64(16),
        bytes: fields.u32(24),
        pid: fields.u32(28),
        action: fields.u64(32),
        device: fields.u32(40),
        cpu: fields.u32(44),
        error: fields.u16(48),
        payload: &[],
    };
    (record, fields.u16(50))
}

/// Numbers in a header; every offset above is a constant inside it.
struct Fields<'a, const BYTES: usize> {
    header: &'a [u8; BYTES],
    order: ByteOrder,
}

impl<const BYTES: usize> Fields<'_, BYTES> {
    #[inline]
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.header[at..at + N]);
        bytes
    }

    #[inline]
    fn u16(&self, at: usize) -> u16 {
        let value = u16::from_le_bytes(self.bytes(at));
        if self.order == ByteOrder::Big { value.swap_bytes() } else { value }
    }

    #[inline]
    fn u32(&self, at: usize) -> u32 {
        let value = u32::from_le_bytes(self.bytes(at));
        if self.order == ByteOrder::Big { value.swap_bytes() } else { value }
    }

    #[inline]
    fn u64(&self, at: usize) -> u64 {
        let value = u64::from_le_bytes(self.bytes(at));
        if self.order == ByteOrder::Big { value.swap_bytes() } else { value }
    }
}

impl RawRecord<'_> {
    /// The record's event for a reader of requests; `None` if it has none.
    pub fn meaning(&self) -> Result<Option<EventKind>, Flaw> {
        let what = self.action & 0xff;
        if self.is(category::NOTE) {
            let named = what == what::PROCESS && !self.payload.is_empty();
            return Ok(named.then(|| EventKind::Named(ProcessId(self.pid), name(self.payload))));
        }
        match what {
            what::QUEUED => Ok(self.queued()?.map(EventKind::Queued)),
            what::ISSUED => Ok(self.queued()?.map(EventKind::Issued)),
            // A malformed completion matches no request.
            what::COMPLETED => Ok(self.queued().ok().flatten().map(EventKind::Completed)),
            what::REMAPPED => self.remapped().map(EventKind::Remapped).map(Some),
            _ => Ok(None),
        }
    }

    /// The length of the whole record.
    pub fn length_bytes(&self) -> usize {
        let header = if self.version == 7 { HEADER_BYTES } else { HEADER_BYTES_8 };
        header + self.payload.len()
    }

    pub(super) fn is_queued(&self) -> bool {
        self.action & 0xff == what::QUEUED && !self.is(category::NOTE)
    }

    pub(super) fn is_issue(&self) -> bool {
        self.action & 0xff == what::ISSUED && !self.is(category::NOTE)
    }

    pub(super) fn is_completion(&self) -> bool {
        self.action & 0xff == what::COMPLETED && !self.is(category::NOTE)
    }

    pub(super) fn is(&self, category: u64) -> bool {
        (self.action >> 16) & category != 0
    }

    fn queued(&self) -> Result<Option<TracedRequest>, Flaw> {
        if self.is(category::PASSTHROUGH) {
            return Ok(None);
        }
        let op = if self.bytes == 0 {
            Op::Flush
        } else if self.is(category::DISCARD) {
            Op::Discard
        } else if self.is(category::WRITE) {
            Op::Write
        } else if self.is(category::READ) {
            Op::Read
        } else {
            return Ok(None);
        };
        let extent = self.extent()?;
        Ok(Some(TracedRequest {
            device: self.device,
            op,
            extent,
            flags: self.flags(),
            process: ProcessId(self.pid),
            stream: StreamId::default(),
            latency: Latency::UNKNOWN,
        }))
    }

    fn flags(&self) -> Flags {
        let preflush = if self.bytes > 0 { category::FLUSH } else { 0 };
        let flags = [
            (category::SYNC, Flags::SYNC),
            (category::META, Flags::META),
            (category::AHEAD, Flags::AHEAD),
            (category::FUA, Flags::FUA),
            (preflush, Flags::PREFLUSH),
        ];
        flags
            .iter()
            .filter(|(category, _)| self.is(*category))
            .fold(Flags::default(), |all, (_, flag)| all.with(*flag))
    }

    fn remapped(&self) -> Result<Remapped, Flaw> {
        let skipped = if self.action & what::CGROUP == 0 { 0 } else { 8 };
        // Big-endian on every machine, as the kernel writes it: two devices and a sector.
        let payload = self.payload.get(skipped..).and_then(<[u8]>::first_chunk::<16>);
        let Some(payload) = payload else {
            let found = format!("a remap record with a payload of {} bytes", self.payload.len());
            return Err(Flaw::Malformed { found, expected: format!("{} bytes", skipped + 16) });
        };
        let number = u128::from_be_bytes(*payload);
        Ok(Remapped {
            device: self.device,
            to_device: (number >> 64) as u32,
            extent: self.extent()?,
            from_device: (number >> 96) as u32,
            from_start: number as u64,
        })
    }

    /// The sectors; empty for a flush, whose sector field has no meaning.
    fn extent(&self) -> Result<Extent, Flaw> {
        let sectors = u64::from(self.bytes).div_ceil(SECTOR_BYTES);
        if sectors == 0 {
            return Ok(Extent::default());
        }
        if self.sector > MAX_SECTORS - sectors {
            let found = format!("a request at sector {} of {} bytes", self.sector, self.bytes);
            return Err(Flaw::Malformed { found, expected: format!("an end below sector {MAX_SECTORS}") });
        }
        Ok(Extent::new(self.sector, sectors))
    }
}

/// A process name from a note. Control characters would reach a terminal.
fn name(payload: &[u8]) -> Box<str> {
    let end = payload.iter().position(|&byte| byte == 0).unwrap_or(payload.len());
    let text = String::from_utf8_lossy(&payload[..end]);
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("0x"), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
