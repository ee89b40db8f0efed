//! The binary format of `blktrace` and of the kernel's `blk` tracer, versions 7 and 8, of either byte
//! order.
//!
//! A file is records back to back, each 48 bytes (64 in version 8) and a payload of up
//! to 64 KiB; `blktrace` writes a
//! file per CPU, `blkparse -d` and the raw kernel stream one for all. A record is a [`Queued`]
//! request only at its queue event (Q): later events are the same request, merged, dispatched or
//! completed, and a completion carries the process that happened to run.
//!
//! What the format cannot say: a write of zeroes is a write in it, a secure erase a discard. An
//! ordinary queue event of no bytes is a flush.
//!
//! Invariant: [`exact`] looks at no byte beyond the slice it is given. Faults: any bytes at all. A
//! file that ends inside a record has been cut short: a warning. Bytes that cannot be a record are
//! an error that says where: after them, nothing can be trusted.

use std::fmt::Write;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use seekless_core::{Extent, Latency, Nanos, Op, ProcessId, SECTOR_BYTES, record::Flags};

use super::{
    Completed, Content, Decoder, Event, EventKind, Format, LeavesOpen, Naming, Queued, Remapped, Sample,
};
use crate::compressed::fill;
use crate::error::TraceError;
use crate::options::ReadOptions;

/// How the table of formats knows this one.
pub const FORMAT: Format = Format {
    name: "blktrace",
    summary: "what blktrace, blkparse -d and the kernel's blk tracer write (binary, version 7; version 8 from its description)",
    sample: Sample::Real,
    volumes: Naming::Linux,
    leaves_open: LeavesOpen::NOTHING,
    // Of any version: one that cannot be read is named by its number.
    detect: |head| byte_order(head).is_some(),
    open,
};

fn open(content: Content) -> Result<Box<dyn Decoder>, TraceError> {
    if !content.options.skip_bad {
        check_magic(&content.head).map_err(|flaw| flaw.at(&content.file, 0))?;
    }
    Ok(Box::new(Blktrace::new(content.input, content.file, &content.options)))
}

/// How many bytes tell whether a file is of this format.
pub const MAGIC_BYTES: usize = 4;
/// Bytes in a record of version 7 before its payload; the fewest a record has.
pub const HEADER_BYTES: usize = 48;
/// Bytes in a record of version 8 before its payload: a wider action, and room.
pub const HEADER_BYTES_8: usize = 64;
/// The magic number, its lowest byte for the version.
const MAGIC: u32 = 0x6561_7400;
const EXPECTED: &str = "a blktrace record (magic 0x65617407 or 0x65617408, in either byte order)";

/// An address past this would not fit a u64 in bytes.
const MAX_SECTORS: u64 = u64::MAX / SECTOR_BYTES;

/// What happened: the low byte of the action.
mod what {
    pub const QUEUED: u64 = 1;
    pub const COMPLETED: u64 = 8;
    pub const REMAPPED: u64 = 15;
    /// Among notes: the name of a process.
    pub const PROCESS: u64 = 0;
    /// A cgroup's number stands before the payload.
    pub const CGROUP: u64 = 1 << 8;
}

/// Of which kind: the action above its low 16 bits.
mod category {
    pub const READ: u64 = 1;
    pub const WRITE: u64 = 1 << 1;
    pub const FLUSH: u64 = 1 << 2;
    pub const SYNC: u64 = 1 << 3;
    /// Commands passed through to the device; their sector is no address.
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

/// A record as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// How its numbers are written.
    pub order: ByteOrder,
    /// 7 or 8.
    pub version: u8,
    /// Its number on its CPU; zero throughout in a raw kernel stream.
    pub sequence: u32,
    /// When, in nanoseconds of the machine's monotonic clock.
    pub time_ns: u64,
    /// Its first sector.
    pub sector: u64,
    /// Its length.
    pub bytes: u32,
    /// What happened (low 16 bits), of which kind (the bits above).
    pub action: u64,
    /// The process that ran; at a queue event, the one that asked.
    pub pid: u32,
    /// The device: `major << 20 | minor`.
    pub device: u32,
    /// The CPU it was recorded on.
    pub cpu: u32,
    /// The request's error, at its completion.
    pub error: u16,
    /// What follows the header.
    pub payload: &'a [u8],
}

/// Why some bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// They stop before the record does.
    Short {
        /// So many bytes are there.
        have: usize,
        /// So many would be a header, or a record once its header is there.
        need: usize,
    },
    /// They say what no record says.
    Malformed {
        /// What they say.
        found: String,
        /// What a record would say.
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

/// The byte order and the magic number of a record that starts so, if one does.
fn byte_order(bytes: &[u8]) -> Option<(ByteOrder, u32)> {
    let head = *bytes.first_chunk::<MAGIC_BYTES>()?;
    let both = [(ByteOrder::Little, u32::from_le_bytes(head)), (ByteOrder::Big, u32::from_be_bytes(head))];
    both.into_iter().find(|(_, magic)| magic & !0xff == MAGIC)
}

/// The byte order and the version that the first bytes of a record tell.
pub fn check_magic(bytes: &[u8]) -> Result<(ByteOrder, u8), Flaw> {
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

/// How some bytes that are no trace start, in words.
pub(super) fn first_bytes(bytes: &[u8]) -> String {
    match bytes.first_chunk::<MAGIC_BYTES>() {
        Some(head) => format!("bytes {}", hex(head)),
        None => format!("only {} bytes ({})", bytes.len(), hex(bytes)),
    }
}

/// The record that `bytes` starts with. Pure: nothing but the slice is looked at.
pub fn exact(bytes: &[u8]) -> Result<RawRecord<'_>, Flaw> {
    let short = |need| Flaw::Short { have: bytes.len(), need };
    if bytes.len() < MAGIC_BYTES {
        return Err(short(HEADER_BYTES));
    }
    let (order, version) = check_magic(bytes)?;
    let header_bytes = if version == 7 { HEADER_BYTES } else { HEADER_BYTES_8 };
    let header = bytes.get(..header_bytes).ok_or_else(|| short(header_bytes))?;
    let fields = Fields { header, order };
    let v7 = version == 7;
    // Version 8 has the process before the action, and the action twice as wide.
    let (pid, action, rest) = if v7 { (32, u64::from(fields.u32(28)), 36) } else { (28, fields.u64(32), 40) };
    let length = header_bytes + usize::from(fields.u16(rest + 10));
    let payload = bytes.get(header_bytes..length).ok_or_else(|| short(length))?;
    Ok(RawRecord {
        order,
        version,
        sequence: fields.u32(4),
        time_ns: fields.u64(8),
        sector: fields.u64(16),
        bytes: fields.u32(24),
        action,
        pid: fields.u32(pid),
        device: fields.u32(rest),
        cpu: fields.u32(rest + 4),
        error: fields.u16(rest + 8),
        payload,
    })
}

/// Numbers in a header; every offset above is a constant inside it.
struct Fields<'a> {
    header: &'a [u8],
    order: ByteOrder,
}

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.header[at..at + N]);
        if self.order == ByteOrder::Big {
            bytes.reverse();
        }
        bytes
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }
}

impl RawRecord<'_> {
    /// What the record means to a reader of requests; `None` if nothing.
    pub fn meaning(&self) -> Result<Option<EventKind>, Flaw> {
        let what = self.action & 0xff;
        if self.is(category::NOTE) {
            let named = what == what::PROCESS && !self.payload.is_empty();
            return Ok(named.then(|| EventKind::Named(ProcessId(self.pid), name(self.payload))));
        }
        match what {
            what::QUEUED => Ok(self.queued()?.map(EventKind::Queued)),
            what::COMPLETED => Ok(self.completed()),
            what::REMAPPED => self.remapped().map(EventKind::Remapped).map(Some),
            _ => Ok(None),
        }
    }

    /// The length of the whole record.
    pub fn length_bytes(&self) -> usize {
        let header = if self.version == 7 { HEADER_BYTES } else { HEADER_BYTES_8 };
        header + self.payload.len()
    }

    fn tells_completion(&self) -> bool {
        self.action & 0xff == what::COMPLETED && !self.is(category::NOTE)
    }

    fn is(&self, category: u64) -> bool {
        (self.action >> 16) & category != 0
    }

    fn queued(&self) -> Result<Option<Queued>, Flaw> {
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
        Ok(Some(Queued {
            device: self.device,
            op,
            extent,
            flags: self.flags(),
            process: ProcessId(self.pid),
            latency: Latency::UNKNOWN,
        }))
    }

    /// What was answered; nothing of what is malformed, which no request can match.
    fn completed(&self) -> Option<EventKind> {
        if self.bytes == 0 || self.is(category::PASSTHROUGH) {
            return None;
        }
        let (device, extent) = (self.device, self.extent().ok()?);
        Some(EventKind::Completed(Completed { device, extent }))
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
        // Big-endian whatever the machine, the kernel writes it so: two devices and a sector.
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

    /// The sectors; none of them for a flush, whose sector field means nothing.
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

/// A process name out of a note. Control characters would reach a person's terminal.
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

/// Read at once: many times the longest record.
const BUFFER_BYTES: usize = 256 << 10;

/// The events of a blktrace file.
pub struct Blktrace<R> {
    input: R,
    file: PathBuf,
    buffer: Vec<u8>,
    /// What of the buffer has been read from the file and not been decoded yet.
    ready: Range<usize>,
    /// Of the next record.
    offset: u64,
    /// As the first record has it; a file is written by one machine.
    order: Option<ByteOrder>,
    /// The latest time so far: the time of a note that has none.
    newest: Nanos,
    /// Whether completions are of interest.
    completions: bool,
    /// Bytes that are no record are passed over, and counted a run of them at a time.
    skip_bad: bool,
    skipped: u64,
    /// What stopped the stream, told once what came before it has been decoded.
    stopped: Option<io::Error>,
    warnings: Vec<String>,
}

impl<R: Read> Blktrace<R> {
    /// Reads `input`, the uncompressed content of `file`.
    pub fn new(input: R, file: PathBuf, options: &ReadOptions) -> Blktrace<R> {
        Blktrace {
            input,
            file,
            buffer: vec![0; BUFFER_BYTES],
            ready: 0..0,
            offset: 0,
            order: None,
            newest: Nanos::ZERO,
            completions: options.latencies,
            skip_bad: options.skip_bad,
            skipped: 0,
            stopped: None,
            warnings: Vec::new(),
        }
    }

    /// Reads on, so that `need` bytes are ready; fewer if there are no more.
    fn refill(&mut self, need: usize) {
        self.buffer.copy_within(self.ready.clone(), 0);
        self.ready = 0..self.ready.len();
        if self.buffer.len() < need {
            self.buffer.resize(need, 0);
        }
        if self.stopped.is_none() {
            let (filled, stopped) = fill(&mut self.input, &mut self.buffer[self.ready.end..]);
            self.ready.end += filled;
            self.stopped = stopped;
        }
    }

    /// Nothing follows that is a whole record: why.
    fn end(&mut self, need: usize) -> Result<Option<Event>, TraceError> {
        let have = self.ready.len();
        let cut = self.stopped.is_some();
        match self.stopped.take() {
            Some(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
                return Err(TraceError::Io { file: self.file.clone(), source });
            }
            _ if have == 0 && !cut => return Ok(None),
            _ => {}
        }
        let why = if cut { "the compressed stream stops early" } else { "the file is cut short" };
        let (file, offset) = (self.file.display(), self.offset);
        self.warnings.push(format!(
            "{file}, byte {offset}: {why}: found {have} bytes of a record, expected {need}; what comes before was read"
        ));
        Ok(None)
    }

    /// Passes over bytes up to what may be the next record.
    fn resynchronise(&mut self) {
        self.skipped += 1;
        loop {
            self.advance(1);
            if self.ready.len() < MAGIC_BYTES {
                self.refill(MAGIC_BYTES);
            }
            let rest = &self.buffer[self.ready.clone()];
            if rest.len() < MAGIC_BYTES || check_magic(rest).is_ok() {
                return;
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.ready.start = (self.ready.start + bytes).min(self.ready.end);
        self.offset += bytes as u64;
    }

    /// The next record that says something, and how long it is; `None` for one that does not.
    fn decode(&mut self) -> Result<(usize, Option<Event>), Flaw> {
        let record = exact(&self.buffer[self.ready.clone()])?;
        if *self.order.get_or_insert(record.order) != record.order {
            let found = format!("a record of {:?}-endian byte order", record.order);
            let expected = "the byte order of the file's first record".into();
            return Err(Flaw::Malformed { found, expected });
        }
        let meaning = if self.completions || !record.tells_completion() { record.meaning()? } else { None };
        let mut time = Nanos(record.time_ns);
        if record.time_ns == 0 && record.is(category::NOTE) {
            time = self.newest;
        }
        let (length, offset) = (record.length_bytes(), self.offset);
        self.newest = self.newest.max(time);
        Ok((length, meaning.map(|kind| Event { time, offset, kind })))
    }
}

impl<R: Read> Decoder for Blktrace<R> {
    fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            match self.decode() {
                Ok((length, event)) => {
                    self.advance(length);
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                Err(Flaw::Short { need, .. }) => {
                    let had = self.ready.len();
                    self.refill(need);
                    if self.ready.len() == had {
                        return self.end(need);
                    }
                }
                Err(_) if self.skip_bad => self.resynchronise(),
                Err(flaw) => return Err(flaw.at(&self.file, self.offset)),
            }
        }
    }

    fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }
}
