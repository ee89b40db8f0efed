//! Common parts of text formats: lines from a stream, and their events.
//!
//! Invariants: a line is at most [`MAX_LINE_BYTES`] long, lines are counted from one, and an error names the line. A
//! request of no bytes, other than a flush, is left out and counted.
//!
//! Faults: bytes that are not UTF-8 (replaced), lines without an end (an error), a truncated last line or compressed
//! stream (warnings). Records that are too late in their file are clamped: the tools that wrote these traces sorted by
//! completion, or not at all.

use std::collections::VecDeque;
use std::io::{self, BufRead, ErrorKind, Read};
use std::path::PathBuf;

use rustc_hash::FxHashMap;
use seekless_core::{Extent, Latency, Nanos, Op, ProcessId, StreamId, record::Flags};

use super::fields::Flaw;
use super::{Content, Decoder, Event, EventKind, TracedRequest, scsi};
use crate::error::TraceError;

/// Many times the longest line of any format.
pub const MAX_LINE_BYTES: usize = 16 << 10;

/// A format of one record per line.
pub(super) trait LineFormat {
    /// Decodes a line, without its end and never blank, into `events`.
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw>;

    /// Checks at the end whether the lines can be a whole trace.
    fn end(&self) -> Result<(), Flaw> {
        Ok(())
    }

    /// Warnings about the file, though it could be read.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Events decoded from a file and not yet returned.
#[derive(Default)]
pub(super) struct EventQueue {
    events: VecDeque<(Nanos, EventKind)>,
    /// The latest name of each process.
    names: FxHashMap<ProcessId, Box<str>>,
    /// Number of requests of no bytes.
    empty: u64,
    /// Number of commands that are no requests, such as those passed through to the device.
    pub others: u64,
    /// The number of the current line, from one.
    pub line: u64,
    /// Whether nothing of interest follows.
    pub ended: bool,
}

/// A request without a process.
pub(super) fn plain(device: u32, op: Op, extent: Extent) -> TracedRequest {
    let (flags, process, latency) = (Flags::default(), ProcessId::default(), Latency::UNKNOWN);
    TracedRequest { device, op, extent, flags, process, stream: StreamId::default(), latency }
}

impl EventQueue {
    /// Adds a request.
    pub fn request(&mut self, time: Nanos, request: TracedRequest) {
        if request.extent.sectors == 0 && request.op != Op::Flush {
            self.empty += 1;
        } else {
            self.event(time, EventKind::Queued(request));
        }
    }

    /// Adds the name of a process, if it is new.
    pub fn process(&mut self, time: Nanos, process: ProcessId, name: &str) {
        if self.names.get(&process).is_some_and(|known| **known == *name) {
            return;
        }
        self.names.insert(process, name.into());
        let shown = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>();
        self.event(time, EventKind::Named(process, shown.into()));
    }

    /// Adds another event.
    pub fn event(&mut self, time: Nanos, kind: EventKind) {
        self.events.push_back((time, kind));
    }

    /// Takes the next event.
    pub fn next(&mut self) -> Option<(Nanos, EventKind)> {
        self.events.pop_front()
    }

    /// Warnings about the events.
    pub fn warnings(&self, file: &std::path::Path) -> Vec<String> {
        let empty = format!("{} requests of no bytes were left out", self.empty);
        let empty = (self.empty > 0).then_some(empty);
        let all = empty.into_iter().chain(scsi::others(self.others));
        all.map(|warning| format!("{}: {warning}", file.display())).collect()
    }
}

/// Whether `format` can read a file that starts with `head`: no line up to the first with an event is malformed.
pub(super) fn recognizes(head: &[u8], mut format: impl LineFormat) -> bool {
    let mut events = EventQueue::default();
    for line in whole_lines(head) {
        let Ok(text) = std::str::from_utf8(line) else { return false };
        events.line += 1;
        let text = text.trim_end();
        if text.is_empty() {
            continue;
        }
        if text.contains('\0') || format.line(text, &mut events).is_err() {
            return false;
        }
        if events.next().is_some() || events.empty > 0 {
            return true;
        }
    }
    false
}

/// The lines of `head`, except a last one that continues after it.
pub(super) fn whole_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = head.iter().rposition(|&byte| byte == b'\n').unwrap_or(head.len());
    head[..end].split(|&byte| byte == b'\n')
}

/// The events of a text file.
pub(super) struct Text<F> {
    input: Box<dyn BufRead>,
    file: PathBuf,
    format: F,
    events: EventQueue,
    /// The line, and the bytes of the file before it.
    line: Vec<u8>,
    offset: u64,
    /// Whether malformed records are counted and skipped.
    skip_bad: bool,
    skipped: u64,
    warnings: Vec<String>,
}

impl<F: LineFormat + 'static> Text<F> {
    /// Reads `content` as `format`.
    pub fn open(content: Content, format: F) -> Box<dyn Decoder> {
        let Content { input, file, options, .. } = content;
        let (events, skip_bad) = (EventQueue::default(), options.skip_bad);
        let (line, warnings) = (Vec::new(), Vec::new());
        Box::new(Text { input, file, format, events, line, offset: 0, skip_bad, skipped: 0, warnings })
    }

    /// Reads the next line into `self.line`; `false` at the end, clean or not.
    fn fetch(&mut self) -> Result<bool, TraceError> {
        loop {
            self.offset += self.line.len() as u64;
            self.line.clear();
            self.events.line += 1;
            let mut bounded = self.input.by_ref().take(MAX_LINE_BYTES as u64 + 1);
            let read = bounded.read_until(b'\n', &mut self.line);
            let read = match read {
                Ok(bytes) if bytes > MAX_LINE_BYTES && self.skip_bad => {
                    self.skipped += 1;
                    self.skip_rest()
                }
                Ok(bytes) if bytes > MAX_LINE_BYTES => Err(self.error_at(Flaw {
                    found: format!("a line of more than {MAX_LINE_BYTES} bytes"),
                    expected: "shorter lines".into(),
                }))?,
                read => read,
            };
            match read {
                Ok(0) => return Ok(false),
                Ok(_) if self.line.is_empty() => {}
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    self.cut("the compressed stream stops early");
                    return Ok(false);
                }
                Err(source) => return Err(TraceError::Io { file: self.file.clone(), source }),
            }
        }
    }

    /// Skips the rest of a line that is too long.
    fn skip_rest(&mut self) -> io::Result<usize> {
        let rest = self.input.skip_until(b'\n')?;
        let bytes = self.line.len() + rest;
        self.offset += bytes as u64;
        self.line.clear();
        Ok(bytes)
    }

    fn cut(&mut self, why: &str) {
        let (file, line) = (self.file.display(), self.events.line);
        self.warnings.push(format!(
            "{file}, line {line}: {why}: found a part of a line, expected all of it; earlier records were read"
        ));
    }

    fn error_at(&self, flaw: Flaw) -> TraceError {
        let (file, line) = (self.file.clone(), self.events.line);
        TraceError::Line { file, line, found: flaw.found, expected: flaw.expected }
    }

    fn decode_next(&mut self) -> Result<(), TraceError> {
        let whole = self.line.ends_with(b"\n");
        let lossy;
        let text = if let Ok(text) = std::str::from_utf8(&self.line) {
            text
        } else {
            lossy = String::from_utf8_lossy(&self.line);
            &*lossy
        };
        let text = text.trim_ascii_end();
        if text.is_empty() {
            return Ok(());
        }
        match self.format.line(text, &mut self.events) {
            Err(_) if whole && self.skip_bad => {
                self.skipped += 1;
                Ok(())
            }
            Err(flaw) if whole => Err(self.error_at(flaw)),
            Err(_) => {
                self.cut("the file is cut short");
                self.events.ended = true;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

impl<F: LineFormat + 'static> Decoder for Text<F> {
    fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            if let Some((time, kind)) = self.events.next() {
                return Ok(Some(Event { time, offset: self.offset, kind }));
            }
            if self.events.ended {
                return Ok(None);
            }
            if self.fetch()? {
                self.decode_next()?;
            } else {
                self.events.ended = true;
                self.format.end().map_err(|flaw| self.error_at(flaw))?;
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
