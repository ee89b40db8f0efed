//! Histories: the requests to a device and its answers, as text that can be checked again.
//!
//! A line is one event, in order:
//!
//! ```text
//! seekless history 1
//! # Request 12 writes 8 sectors from sector 800, FUA.
//! issue 12 write 800+8 fua
//! issue 13 read 800+4
//! issue 14 flush
//! done 12
//! failed 14
//! # The first two sectors hold data of write 12, the third its data of sector 807, the fourth bytes
//! # that are not a stamp; 0 stands for zeroes.
//! read 13 12*2 12@807 ?
//! crash
//! end
//! ```
//!
//! Other requests are `zeroes` and `discard`. Numbers of requests rise. `crash` is a power cut; `end` the
//! end of the run: unanswered requests stay unanswered. Empty lines and those that begin with `#` are skipped.
//!
//! Faults: any bytes are read as events or end in an error with the place, what was found and what was
//! expected; the memory of a line is bounded by the largest request.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read, Write};
use std::str::FromStr;

use rustc_hash::FxHashMap;
use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::{Extent, Op};

use super::stamp::{SectorContent, Stamp};

/// The first line.
const HEADER: &str = "seekless history 1";
/// Addresses and numbers are below this: they have to fit a stamp.
const LIMIT: u64 = 1 << 48;
/// Bytes of a line, at most: some for each sector of the largest answer.
const LONGEST_LINE: u64 = LARGEST_REQUEST_SECTORS * 64;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request was issued.
    Issue {
        /// Its number.
        id: u64,
        /// Operation.
        op: Op,
        /// Extent; empty for a flush.
        at: Extent,
        /// Whether it is FUA.
        fua: bool,
    },
    /// A request other than a read succeeded.
    Done {
        /// Its number.
        id: u64,
    },
    /// A request failed.
    Failed {
        /// Its number.
        id: u64,
    },
    /// A read succeeded.
    Read {
        /// Its number.
        id: u64,
        /// The content of each sector.
        found: Vec<SectorContent>,
    },
    /// Power was cut.
    Crash,
    /// The run ended.
    End,
}

/// Requests in flight, and their first sectors.
#[derive(Debug, Default)]
struct InFlight(FxHashMap<u64, (Op, u64)>);

impl InFlight {
    fn see(&mut self, event: &Event) {
        match event {
            Event::Issue { id, op, at, .. } => {
                self.0.insert(*id, (*op, at.start.0));
            }
            Event::Done { id } | Event::Failed { id } | Event::Read { id, .. } => {
                self.0.remove(id);
            }
            Event::Crash => self.0.clear(),
            Event::End => {}
        }
    }

    fn start(&self, id: u64) -> u64 {
        self.0.get(&id).map_or(0, |(_, start)| *start)
    }
}

/// Writes a history.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    in_flight: InFlight,
    line: String,
}

impl<W: Write> Writer<W> {
    /// Starts a history.
    pub fn new(mut out: W) -> io::Result<Writer<W>> {
        writeln!(out, "{HEADER}")?;
        Ok(Writer { out, in_flight: InFlight::default(), line: String::new() })
    }

    /// Writes the next event.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.line.clear();
        // Writing to a string cannot fail.
        let _ = match event {
            Event::Issue { id, op: Op::Flush, fua, .. } => {
                write!(self.line, "issue {id} flush{}", durable(*fua))
            }
            Event::Issue { id, op, at, fua } => {
                let (start, sectors) = (at.start.0, at.sectors);
                write!(self.line, "issue {id} {} {start}+{sectors}{}", word(*op), durable(*fua))
            }
            Event::Done { id } => write!(self.line, "done {id}"),
            Event::Failed { id } => write!(self.line, "failed {id}"),
            Event::Read { id, found } => {
                let _ = write!(self.line, "read {id}");
                runs(&mut self.line, self.in_flight.start(*id), found);
                Ok(())
            }
            Event::Crash => write!(self.line, "crash"),
            Event::End => write!(self.line, "end"),
        };
        self.line.push('\n');
        self.in_flight.see(event);
        self.out.write_all(self.line.as_bytes())
    }

    /// Writes a comment for people, which readers skip.
    pub fn remark(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "# {}", text.replace('\n', " "))
    }

    /// Writes what is buffered; returns the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

fn durable(fua: bool) -> &'static str {
    if fua { " fua" } else { "" }
}

fn word(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        Op::Discard => "discard",
        Op::WriteZeroes => "zeroes",
    }
}

/// The content of sectors from `start` on, equal ones in a row as one word.
fn runs(line: &mut String, start: u64, found: &[SectorContent]) {
    let own = |(index, what): (u64, &SectorContent)| match what {
        // The sector is written only if it differs from the one that was read.
        SectorContent::Stamp(stamp) if stamp.sector == start + index => (stamp.write, None),
        SectorContent::Stamp(stamp) => (stamp.write, Some(stamp.sector)),
        SectorContent::Zeroes => (0, None),
        SectorContent::Foreign => (LIMIT, None),
    };
    let mut words = (0..).zip(found).map(own).peekable();
    while let Some(next) = words.next() {
        let mut count = 1;
        while words.next_if_eq(&next).is_some() {
            count += 1;
        }
        let _ = match next {
            (LIMIT, _) => write!(line, " ?"),
            (write, None) => write!(line, " {write}"),
            (write, Some(sector)) => write!(line, " {write}@{sector}"),
        };
        if count > 1 {
            let _ = write!(line, "*{count}");
        }
    }
}

/// Why a history cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A malformed line.
    #[error("line {line}: found {found}, expected {expected}")]
    Line {
        /// Line number, from 1.
        line: u64,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// Reading the file failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What was found on a line, and what was expected.
type Mismatch = (String, String);

fn mismatch<T>(found: impl Into<String>, expected: impl Into<String>) -> Result<T, Mismatch> {
    Err((found.into(), expected.into()))
}

/// A word as quoted in errors.
fn quoted(word: &str) -> String {
    let mut short: String = word.chars().take(40).collect();
    if short.len() < word.len() {
        short.push_str("...");
    }
    format!("'{}'", short.escape_debug())
}

/// Reads a history, event by event, up to the first error.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    line: u64,
    last: u64,
    in_flight: InFlight,
    over: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    pub fn new(from: R) -> Result<Reader<R>, HistoryError> {
        let mut reader = Reader { from, line: 0, last: 0, in_flight: InFlight::default(), over: false };
        let first = reader.next_line()?.unwrap_or_default();
        if first != HEADER {
            let version = first.starts_with("seekless history ");
            let expected =
                if version { format!("'{HEADER}', the version known") } else { format!("'{HEADER}'") };
            return Err(reader.mismatch((quoted(&first), expected)));
        }
        Ok(reader)
    }

    /// Number of the last line read, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    fn mismatch(&self, (found, expected): Mismatch) -> HistoryError {
        HistoryError::Line { line: self.line, found, expected }
    }

    fn next_line(&mut self) -> Result<Option<String>, HistoryError> {
        let mut bytes = Vec::new();
        self.line += 1;
        let mut limited = self.from.by_ref().take(LONGEST_LINE);
        if limited.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        if bytes.len() as u64 == LONGEST_LINE && bytes.last() != Some(&b'\n') {
            return Err(self.mismatch(("a longer line".into(), format!("at most {LONGEST_LINE} bytes"))));
        }
        match String::from_utf8(bytes) {
            Ok(line) => Ok(Some(line.trim().to_owned())),
            Err(_) => Err(self.mismatch(("bytes that are not UTF-8".into(), "text".into()))),
        }
    }

    fn next_event(&mut self) -> Result<Option<Event>, HistoryError> {
        while let Some(line) = self.next_line()? {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let event = self.event(&line).map_err(|mismatch| self.mismatch(mismatch))?;
            self.in_flight.see(&event);
            return Ok(Some(event));
        }
        Ok(None)
    }

    fn event(&mut self, line: &str) -> Result<Event, Mismatch> {
        let mut words = line.split_ascii_whitespace();
        let event = match words.next().unwrap_or_default() {
            "issue" => self.issue(&mut words)?,
            "done" => {
                let id = number(words.next(), "the number of a request")?;
                if let Some((Op::Read, _)) = self.in_flight.0.get(&id) {
                    return mismatch(
                        format!("read {id} done"),
                        format!("'read {id}' and what it found, or 'failed {id}'"),
                    );
                }
                Event::Done { id }
            }
            "failed" => Event::Failed { id: number(words.next(), "the number of a request")? },
            "read" => {
                let id = number(words.next(), "the number of a read")?;
                if let Some((op, _)) = self.in_flight.0.get(&id).filter(|(op, _)| *op != Op::Read) {
                    return mismatch(format!("what a {op} found"), format!("'done {id}' or 'failed {id}'"));
                }
                Event::Read { id, found: contents(self.in_flight.start(id), &mut words)? }
            }
            "crash" => Event::Crash,
            "end" => Event::End,
            other => return mismatch(quoted(other), "issue, done, failed, read, crash or end"),
        };
        match words.next() {
            Some(more) => mismatch(quoted(more), "the end of the line"),
            None => Ok(event),
        }
    }

    fn issue<'a>(&mut self, words: &mut impl Iterator<Item = &'a str>) -> Result<Event, Mismatch> {
        let id = number(words.next(), "the number of a request")?;
        if id <= self.last || id >= LIMIT {
            return mismatch(
                format!("request {id} after request {}", self.last),
                "rising numbers, from 1, below 2^48",
            );
        }
        let op = match words.next().unwrap_or_default() {
            "read" => Op::Read,
            "write" => Op::Write,
            "flush" => Op::Flush,
            "discard" => Op::Discard,
            "zeroes" => Op::WriteZeroes,
            other => return mismatch(quoted(other), "read, write, flush, discard or zeroes"),
        };
        let at = if op == Op::Flush { Extent::default() } else { extent(words.next().unwrap_or_default())? };
        let fua = match words.next() {
            None => false,
            Some("fua") => true,
            Some(other) => return mismatch(quoted(other), "fua or the end of the line"),
        };
        self.last = id;
        Ok(Event::Issue { id, op, at, fua })
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Event, HistoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let event = self.next_event().transpose();
        self.over = !matches!(event, Some(Ok(_)));
        event
    }
}

fn number<T: FromStr>(word: Option<&str>, expected: &str) -> Result<T, Mismatch> {
    let word = word.unwrap_or_default();
    word.parse().or_else(|_| mismatch(quoted(word), expected))
}

/// Parses `800+8`.
fn extent(word: &str) -> Result<Extent, Mismatch> {
    const EXPECTED: &str = "where it is, as in 800+8, of 1 to 65536 sectors that end below 2^48";
    let read =
        word.split_once('+').and_then(|(start, sectors)| Some((start.parse().ok()?, sectors.parse().ok()?)));
    match read {
        Some((start, sectors @ 1..=LARGEST_REQUEST_SECTORS)) if start < LIMIT - sectors => {
            Ok(Extent::new(start, sectors))
        }
        _ => mismatch(quoted(word), EXPECTED),
    }
}

/// Parses the content that a read from sector `start` found: `17*3 0 17@812 ?`.
fn contents<'a>(
    start: u64,
    words: &mut impl Iterator<Item = &'a str>,
) -> Result<Vec<SectorContent>, Mismatch> {
    const EXPECTED: &str = "0, the number of a write, as in 17, 17*8 or 17@812, or ?";
    let mut found = Vec::new();
    for word in words {
        let (what, count) = word.split_once('*').unwrap_or((word, "1"));
        let count = number(Some(count), EXPECTED)?;
        if count == 0 || count > LARGEST_REQUEST_SECTORS - found.len() as u64 {
            return mismatch(quoted(word), "1 to 65536 sectors in all");
        }
        let (write, elsewhere) = match what.split_once('@') {
            Some((write, sector)) => (write, Some(number::<u64>(Some(sector), EXPECTED)?)),
            None => (what, None),
        };
        let write: u64 = if what == "?" { LIMIT } else { number(Some(write), EXPECTED)? };
        if what != "?" && (write.max(elsewhere.unwrap_or(0)) >= LIMIT || (write == 0 && elsewhere.is_some()))
        {
            return mismatch(quoted(word), EXPECTED);
        }
        for _ in 0..count {
            let sector = elsewhere.unwrap_or(start + found.len() as u64);
            found.push(match write {
                LIMIT => SectorContent::Foreign,
                0 => SectorContent::Zeroes,
                write => SectorContent::Stamp(Stamp { sector, write }),
            });
        }
    }
    Ok(found)
}
