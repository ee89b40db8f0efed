//! The format of a file of inputs.
//!
//! The file: `SEEKLESS INPUTS` and a version byte, then frames: length (u32), CRC-32C of the payload (u32), payload.
//! The first payload is text that describes the run; all others are consecutive whole records. A record is a type byte,
//! then numbers of 8 bytes, and data preceded by its length. All little-endian.

use std::io::{self, Read, Write};

use seekless_core::device::{Content, ExtentState};
use seekless_core::{Extent, SECTOR_BYTES, checksum};

use crate::reactor::{Job, Op};

/// Magic of a file; the last byte is the version.
const MAGIC: &[u8; 16] = b"SEEKLESS INPUTS\x02";
/// A frame is written when it has this many bytes; the last record may exceed it.
pub const FRAME: usize = 64 << 10;
/// Bytes of a frame, at most: two of the largest requests.
const LONGEST: u32 = 64 << 20;

/// Number of a job's operation.
pub type OpCode = u8;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A job was submitted; jobs are numbered in order.
    Submitted {
        /// Its operation.
        op: OpCode,
        /// Its file or socket.
        handle: u32,
        /// First byte.
        at: u64,
        /// Length in bytes.
        len: u64,
        /// CRC-32C of data written or sent; 0 otherwise.
        digest: u32,
    },
    /// The last submitted job completed immediately.
    Immediate(Completion),
    /// A job completed in this turn.
    Completed {
        /// Number of the job.
        job: u64,
        /// Its result.
        completion: Completion,
    },
    /// The extents of a file were queried.
    Extents {
        /// Range of the query.
        at: Extent,
        /// The result.
        states: Vec<ExtentState>,
    },
    /// End of a turn, at this time in nanoseconds.
    Turn(u64),
    /// End of the run; the hash of its events.
    End(u64),
    /// An observation of the system outside jobs; its meaning is the caller's.
    Observed(Vec<u8>),
}

/// Result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Bytes or a descriptor; an error's number, negated.
    pub result: i64,
    /// Data read or received.
    pub data: Vec<u8>,
}

impl Completion {
    /// The completion of a job with this result.
    pub fn of(result: &io::Result<usize>, job: &Job) -> Completion {
        let number = match result {
            Ok(done) => i64::try_from(*done).unwrap_or(i64::MAX),
            Err(error) => -i64::from(error.raw_os_error().unwrap_or(EIO)),
        };
        let part = job.memory.part();
        let data = match job.op {
            Op::Read(_) | Op::Receive => &part[..part.len().min(number.max(0) as usize)],
            _ => &[],
        };
        Completion { result: number, data: data.to_vec() }
    }

    /// The result as the job's caller gets it.
    pub fn result(&self) -> io::Result<usize> {
        usize::try_from(self.result).map_err(|_| {
            let number = self.result.checked_neg().and_then(|number| i32::try_from(number).ok());
            io::Error::from_raw_os_error(number.unwrap_or(EIO))
        })
    }
}

/// `EIO`: for an error without a number.
const EIO: i32 = 5;

impl Record {
    /// The record of a submitted job.
    pub fn submitted(job: &Job, handle: u32) -> Record {
        let moves = job.memory.part().len() as u64;
        let (op, at, len) = match job.op {
            Op::Read(at) => (0, at, moves),
            Op::Write(at) => (1, at, moves),
            Op::WriteThrough(at) => (2, at, moves),
            Op::Sync => (3, 0, 0),
            Op::Punch { at, len } => (4, at, len),
            Op::Zero { at, len } => (5, at, len),
            Op::Receive => (6, 0, moves),
            Op::Send => (7, 0, moves),
            Op::Accept => (8, 0, 0),
            Op::Ready => (9, 0, 0),
        };
        let digest = if matches!(op, 1 | 2 | 7) { checksum::crc32c(job.memory.part()) } else { 0 };
        Record::Submitted { op, handle, at, len, digest }
    }

    /// A description for people.
    pub fn describe(&self) -> String {
        match self {
            Record::Submitted { op, handle, at, len, digest } => {
                let names = [
                    "read",
                    "write",
                    "write through",
                    "sync",
                    "punch",
                    "zero",
                    "receive",
                    "send",
                    "accept",
                    "wait",
                ];
                let name = names.get(usize::from(*op)).unwrap_or(&"?");
                format!("{name} of {len} bytes at {at} of handle {handle} (checksum {digest:08x})")
            }
            Record::Immediate(completion) => format!("an immediate completion: {}", completion.result),
            Record::Completed { job, completion } => {
                format!("the completion of job {job}: {}", completion.result)
            }
            Record::Extents { at, .. } => format!("a query for the extents of {at}"),
            Record::Turn(time) => format!("the end of the turn at {time} ns"),
            Record::End(_) => "the end of the run".to_owned(),
            Record::Observed(bytes) => format!("an observation of {} bytes", bytes.len()),
        }
    }

    /// Appends the record to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        let put_completion = |out: &mut Vec<u8>, completion: &Completion| {
            number(out, completion.result as u64);
            number(out, completion.data.len() as u64);
            out.extend_from_slice(&completion.data);
        };
        match self {
            Record::Submitted { op, handle, at, len, digest } => {
                out.extend([1, *op]);
                for each in [u64::from(*handle), *at, *len, u64::from(*digest)] {
                    number(out, each);
                }
            }
            Record::Immediate(completion) => {
                out.push(2);
                put_completion(out, completion);
            }
            Record::Completed { job, completion } => {
                out.push(3);
                number(out, *job);
                put_completion(out, completion);
            }
            Record::Extents { at, states } => {
                out.push(4);
                for each in [at.start.0, at.sectors, states.len() as u64] {
                    number(out, each);
                }
                for state in states {
                    number(out, state.extent.start.0);
                    number(out, state.extent.sectors);
                    out.push(state.content as u8);
                }
            }
            Record::Turn(time) => {
                out.push(5);
                number(out, *time);
            }
            Record::End(hash) => {
                out.push(6);
                number(out, *hash);
            }
            Record::Observed(bytes) => {
                out.push(7);
                number(out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
        }
    }

    /// Takes the first record off `bytes`; `None` if there is no whole one.
    pub fn take(bytes: &mut &[u8]) -> Option<Record> {
        let record = match byte(bytes)? {
            1 => Record::Submitted {
                op: byte(bytes)?,
                handle: u32::try_from(word(bytes)?).ok()?,
                at: word(bytes)?,
                len: word(bytes)?,
                digest: u32::try_from(word(bytes)?).ok()?,
            },
            2 => Record::Immediate(completion(bytes)?),
            3 => Record::Completed { job: word(bytes)?, completion: completion(bytes)? },
            4 => {
                let at = extent(bytes)?;
                let count = word(bytes)?;
                let states = (0..count).map(|_| {
                    let extent = extent(bytes)?;
                    Some(ExtentState { extent, content: content(byte(bytes)?)? })
                });
                Record::Extents { at, states: states.collect::<Option<_>>()? }
            }
            5 => Record::Turn(word(bytes)?),
            6 => Record::End(word(bytes)?),
            7 => {
                let len = usize::try_from(word(bytes)?).ok()?;
                let (observed, rest) = bytes.split_at_checked(len)?;
                *bytes = rest;
                Record::Observed(observed.to_vec())
            }
            _ => return None,
        };
        Some(record)
    }
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn word(bytes: &mut &[u8]) -> Option<u64> {
    let (word, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*word))
}

/// An extent that ends within the range of sectors.
fn extent(bytes: &mut &[u8]) -> Option<Extent> {
    let (start, sectors) = (word(bytes)?, word(bytes)?);
    let end = start.checked_add(sectors)?;
    (end <= u64::MAX / SECTOR_BYTES).then(|| Extent::new(start, sectors))
}

fn completion(bytes: &mut &[u8]) -> Option<Completion> {
    let (result, len) = (i64::from_le_bytes(word(bytes)?.to_le_bytes()), usize::try_from(word(bytes)?).ok()?);
    let (data, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(Completion { result, data: data.to_vec() })
}

fn content(number: u8) -> Option<Content> {
    [Content::Data, Content::Hole, Content::Zero, Content::Unknown]
        .into_iter()
        .find(|content| *content as u8 == number)
}

/// Writes the header of a file, with the text that describes the run.
pub fn write_header(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(MAGIC)?;
    frame(out, text.as_bytes())
}

/// Writes a frame.
pub fn frame(out: &mut impl Write, payload: &[u8]) -> io::Result<()> {
    out.write_all(&(payload.len() as u32).to_le_bytes())?;
    out.write_all(&checksum::crc32c(payload).to_le_bytes())?;
    out.write_all(payload)
}

/// Reads the header of a file: its text.
pub fn read_header(input: &mut impl Read) -> Result<String, String> {
    let mut magic = [0; MAGIC.len()];
    let read = input.read_exact(&mut magic);
    if read.is_err() || magic[..MAGIC.len() - 1] != MAGIC[..MAGIC.len() - 1] {
        return Err("found other bytes, expected a file that volume serve --log-inputs wrote".to_owned());
    }
    if magic != *MAGIC {
        let (found, known) = (magic[MAGIC.len() - 1], MAGIC[MAGIC.len() - 1]);
        return Err(format!("found version {found}, expected {known}"));
    }
    let text = next_frame(input)?.ok_or("it ends before the description of the run")?;
    String::from_utf8(text).map_err(|_| "found no text in place of the description of the run".to_owned())
}

/// The next frame; `None` at the end, and where the file is cut short.
pub fn next_frame(input: &mut impl Read) -> Result<Option<Vec<u8>>, String> {
    let mut header = [0; 8];
    if input.read_exact(&mut header).is_err() {
        return Ok(None);
    }
    let [length, sum] =
        [0, 4].map(|at| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    if length > LONGEST {
        return Err(format!("found a frame of {length} bytes, expected at most {LONGEST}"));
    }
    // Grows with the data: the length may be wrong.
    let mut payload = Vec::new();
    let read = input.take(u64::from(length)).read_to_end(&mut payload).map_err(|error| error.to_string())?;
    if read < length as usize {
        return Ok(None);
    }
    let found = checksum::crc32c(&payload);
    if found != sum {
        return Err(format!("found a frame with checksum {found:08x}, expected {sum:08x}: it is damaged"));
    }
    Ok(Some(payload))
}
