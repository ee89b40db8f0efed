//! The binary format of `blktrace` and of the kernel's `blk` tracer, versions 7 and 8, of either byte order.
//!
//! A file is records back to back, each 48 bytes (64 in version 8) and a payload of up to 64 KiB; `blktrace` writes a
//! file per CPU, `blkparse -d` and the raw kernel stream one for all. Only a queue event (Q) is a request: later events
//! are the same request, merged, issued or completed; a completion (C) carries the process that happened to run, and
//! gives the latency. Issues (D) and completions are requests where nothing was queued.
//!
//! Limits of the format: a write of zeroes is recorded as a write, a secure erase as a discard. An ordinary queue event
//! of no bytes is a flush.
//!
//! Faults: any bytes at all. A file that ends inside a record has been cut short: a warning. Bytes that cannot be a
//! record are an error with their offset: after them, nothing can be trusted, unless an option says otherwise; then
//! reading continues at the next magic number.

mod record;

use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;

use seekless_core::Nanos;

use super::{Content, Decoder, Event, Format, Naming, OpenUnits, Sample, scsi};
use crate::compressed::fill;
use crate::error::TraceError;
use crate::options::ReadOptions;

pub(crate) use record::first_bytes;
pub use record::{ByteOrder, Flaw, HEADER_BYTES, HEADER_BYTES_8, MAGIC_BYTES, RawRecord, check_magic, exact};
use record::{byte_order, category};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "blktrace",
    summary: "what blktrace, blkparse -d and the kernel's blk tracer write (binary, version 7; version 8 from its description)",
    sample: Sample::Real,
    volumes: Naming::Linux,
    open_units: OpenUnits::NONE,
    // Any version: an unsupported one is reported by its number.
    detect: |head| byte_order(head).is_some(),
    open,
};

fn open(content: Content) -> Result<Box<dyn Decoder>, TraceError> {
    if !content.options.skip_bad {
        check_magic(&content.head).map_err(|flaw| flaw.at(&content.file, 0))?;
    }
    Ok(Box::new(Blktrace::new(content.input, content.file, &content.options)))
}

/// Devices that are kept in mind: more than are ever traced together.
const MOST_QUEUED: usize = 64;

/// Read size: many times the longest record.
const BUFFER_BYTES: usize = 256 << 10;

/// The events of a blktrace file.
pub struct Blktrace<R> {
    input: R,
    file: PathBuf,
    buffer: Vec<u8>,
    /// The part of the buffer that has been read and not decoded yet.
    ready: Range<usize>,
    /// Offset of the next record.
    offset: u64,
    /// Byte order of the first record; a file is written by one machine.
    order: Option<ByteOrder>,
    /// The latest time so far: the time of a note that has none.
    newest: Nanos,
    /// Whether completions are needed.
    completions: bool,
    /// Devices of which a queue event has been read: until then, issues and completions may be the requests.
    queued: Vec<u32>,
    /// Commands passed through to a device.
    others: u64,
    /// Whether bytes that are not a record are skipped; each run of them counts once.
    skip_bad: bool,
    skipped: u64,
    /// The error that stopped the stream, returned once what came before it has been decoded.
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
            queued: Vec::new(),
            others: 0,
            skip_bad: options.skip_bad,
            skipped: 0,
            stopped: None,
            warnings: Vec::new(),
        }
    }

    /// Reads until `need` bytes are ready; fewer at the end.
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

    /// Ends the trace, as no whole record follows: a warning gives the reason.
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
            "{file}, byte {offset}: {why}: found {have} bytes of a record, expected {need}; earlier records were read"
        ));
        Ok(None)
    }

    /// Skips bytes up to a possible record.
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

    /// The next record's event and length; `None` for a record without one.
    fn decode(&mut self) -> Result<(usize, Option<Event>), Flaw> {
        let record = exact(&self.buffer[self.ready.clone()])?;
        if *self.order.get_or_insert(record.order) != record.order {
            let found = format!("a record of {:?}-endian byte order", record.order);
            let expected = "the byte order of the file's first record".into();
            return Err(Flaw::Malformed { found, expected });
        }
        if record.is_queued() && self.queued.len() < MOST_QUEUED && !self.queued.contains(&record.device) {
            self.queued.push(record.device);
        }
        self.others += u64::from(record.is_issue() && record.is(category::PASSTHROUGH));
        let unneeded = (record.is_issue() || record.is_completion() && !self.completions)
            && self.queued.contains(&record.device);
        let meaning = if unneeded { None } else { record.meaning()? };
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
        let mut warnings = std::mem::take(&mut self.warnings);
        let others = scsi::others(self.others).into_iter();
        warnings.extend(others.map(|warning| format!("{}: {warning}", self.file.display())));
        warnings
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }
}
