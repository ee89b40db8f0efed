//! Common parts of the simpler binary formats: records back to back in a stream.
//!
//! Invariants: a decoder reads whole records only; an error names the byte at which its record starts. Faults: a file
//! or a compressed stream that ends inside a record (a warning); records later than the window, which are clamped as
//! those of text are.

use std::io::{BufRead, ErrorKind};
use std::path::PathBuf;

use super::fields::Flaw;
use super::text::EventQueue;
use super::{Content, Decoder, Event};
use crate::compressed::fill;
use crate::error::TraceError;

/// Bytes that determine the length of a record.
pub(super) const START_BYTES: usize = 4;

/// A format of records back to back.
pub(super) trait RecordFormat {
    /// Length of the record with this start: at least [`START_BYTES`].
    fn length(&self, start: &[u8]) -> Result<usize, Flaw>;

    /// Decodes a whole record into `events`.
    fn record(&mut self, bytes: &[u8], events: &mut EventQueue) -> Result<(), Flaw>;

    /// Warnings about the file, though it could be read.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The events of a binary file.
pub(super) struct Binary<F> {
    input: Box<dyn BufRead>,
    file: PathBuf,
    format: F,
    events: EventQueue,
    record: Vec<u8>,
    /// Offset of the record.
    offset: u64,
    /// Whether malformed records are counted and skipped.
    skip_bad: bool,
    skipped: u64,
    warnings: Vec<String>,
}

impl<F: RecordFormat + 'static> Binary<F> {
    /// Reads `content`, of which `offset` bytes have been read.
    pub fn open(content: Content, offset: u64, format: F) -> Box<dyn Decoder> {
        let Content { input, file, options, .. } = content;
        let (events, record, skip_bad) = (EventQueue::default(), Vec::new(), options.skip_bad);
        Box::new(Binary {
            input,
            file,
            format,
            events,
            record,
            offset,
            skip_bad,
            skipped: 0,
            warnings: Vec::new(),
        })
    }

    /// Reads the next record into `self.record`; `false` at the end, clean or not.
    fn fetch(&mut self) -> Result<bool, TraceError> {
        self.offset += self.record.len() as u64;
        self.record.clear();
        if !self.extend(START_BYTES)? {
            return Ok(false);
        }
        let length = self.format.length(&self.record).map_err(|flaw| self.error_at(flaw))?;
        self.extend(length.max(START_BYTES))
    }

    /// Reads until the record is `length` bytes long; `false` if the file ends before.
    fn extend(&mut self, length: usize) -> Result<bool, TraceError> {
        let have = self.record.len();
        self.record.resize(length, 0);
        let (filled, stopped) = fill(&mut self.input, &mut self.record[have..]);
        let found = have + filled;
        let why = match stopped {
            Some(error) if error.kind() == ErrorKind::UnexpectedEof => "the compressed stream stops early",
            Some(source) => return Err(TraceError::Io { file: self.file.clone(), source }),
            None if found == length => return Ok(true),
            None if found == 0 => return Ok(false),
            None => "the file is cut short",
        };
        let (file, offset) = (self.file.display(), self.offset);
        self.warnings.push(format!(
            "{file}, byte {offset}: {why}: found {found} bytes of a record, expected {length} or more; earlier records were read"
        ));
        Ok(false)
    }

    fn error_at(&self, flaw: Flaw) -> TraceError {
        let Flaw { found, expected } = flaw;
        TraceError::Malformed { file: self.file.clone(), offset: self.offset, found, expected }
    }
}

impl<F: RecordFormat + 'static> Decoder for Binary<F> {
    fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            if let Some((time, kind)) = self.events.next() {
                return Ok(Some(Event { time, offset: self.offset, kind }));
            }
            if self.events.ended || !self.fetch()? {
                self.events.ended = true;
                return Ok(None);
            }
            let taken = self.format.record(&self.record, &mut self.events);
            match taken {
                Err(_) if self.skip_bad => self.skipped += 1,
                taken => taken.map_err(|flaw| self.error_at(flaw))?,
            }
        }
    }

    fn warnings(&mut self) -> Vec<String> {
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.extend(self.events.warnings(&self.file));
        let of_format = self.format.warnings().into_iter();
        warnings.extend(of_format.map(|warning| format!("{}: {warning}", self.file.display())));
        warnings
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn clamps(&self) -> bool {
        true
    }
}

/// The `N` bytes at `at`, zeroes where there are none: numbers of a record whose length was checked.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// The little-endian u16 at `at`.
pub(super) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

/// The little-endian u32 at `at`.
pub(super) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

/// The little-endian u64 at `at`.
pub(super) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}
