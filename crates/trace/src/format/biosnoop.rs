//! The output of `biosnoop` of bcc and of libbpf-tools, recognized by its first line: `TIME(s) COMM PID DISK T SECTOR
//! BYTES [QUE(ms)] LAT(ms)`.
//!
//! Units: the time of completion in seconds from the first one; address in sectors of 512 bytes, size in bytes; `LAT`
//! milliseconds from the driver to completion, `QUE` those in the queue before. A request arrives that much before its
//! completion; since the first may have arrived before the clock starts, the clock is set to [`BEFORE`]. `T` is R or W,
//! in libbpf-tools all letters of RWBS. Unknown columns are ignored, unless they precede the command, which may contain
//! blanks: columns after it are counted from the right. The process may be unknown (`?`), and the disk left blank. A
//! command passed through to a disk has the sector 2^64 - 1 and is left out. Faults: any text.

use seekless_core::{Latency, Nanos, Op, ProcessId};

use super::blkparse::{flags, operation};
use super::fields::{self, Flaw, MILLISECOND, SECOND, blocks, number, volume};
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample, TracedRequest};
use crate::volumes::Volumes;

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "biosnoop",
    summary: "bcc biosnoop: seconds, command, pid, disk, R/W, sector, bytes, latency",
    sample: Sample::Description,
    volumes: Naming::Named,
    open_units: OpenUnits::NONE,
    detect: |head| recognizes(head, Biosnoop::new(Volumes::default())),
    open: |content| {
        let biosnoop = Biosnoop::new(content.volumes.clone());
        Ok(Text::open(content, biosnoop))
    },
};

/// The clock at the completion of the first request.
const BEFORE: u64 = 3_600 * SECOND;
const HEADER: &str = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)";

struct Biosnoop {
    /// The names of the columns after the command.
    columns: Vec<Box<str>>,
    volumes: Volumes,
    /// Commands without an address.
    passed_through: u64,
}

impl Biosnoop {
    fn new(volumes: Volumes) -> Biosnoop {
        Biosnoop { columns: Vec::new(), volumes, passed_through: 0 }
    }

    fn header(&mut self, line: &str) -> Result<(), Flaw> {
        let mut names = line.split_ascii_whitespace();
        if (names.next(), names.next()) != (Some("TIME(s)"), Some("COMM")) {
            return Err(Flaw::text(line, HEADER));
        }
        self.columns = names.map(Into::into).collect();
        let needed = ["PID", "DISK", "T", "SECTOR", "BYTES"];
        match needed.iter().find(|needed| !self.columns.iter().any(|name| **name == ***needed)) {
            Some(missing) => Err(Flaw::text(line, &format!("a column {missing}"))),
            None => Ok(()),
        }
    }

    fn value<'a>(&self, words: &[&'a str], name: &str) -> Option<&'a str> {
        let place = self.columns.iter().position(|column| **column == *name)?;
        words.get(words.len() - self.columns.len() + place).copied()
    }

    fn place(&self, name: &str) -> usize {
        self.columns.iter().position(|column| **column == *name).unwrap_or_default()
    }

    /// Puts a dash for a disk that is left blank: the process is then where the disk would be.
    fn complete<'a>(&self, mut words: Vec<&'a str>) -> Vec<&'a str> {
        let (process, disk) = (self.place("PID"), self.place("DISK"));
        let is_process = |word: &str| word == "?" || word.bytes().all(|byte| byte.is_ascii_digit());
        let before = words.len() + 1 - self.columns.len().min(words.len() + 1);
        let shifted = disk == process + 1
            && before > 0
            && words.get(before + process).is_some_and(|word| is_process(word))
            && words.get(before + disk).is_some_and(|word| {
                operation(word).is_some() && word.bytes().all(|byte| byte.is_ascii_uppercase())
            });
        if shifted {
            words.insert(before + disk, "-");
        }
        words
    }

    fn request(&mut self, words: &[&str], time: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        let value = |name| self.value(words, name).unwrap_or_default();
        let milliseconds = |name| match self.value(words, name) {
            None | Some("-") => Ok(Nanos::ZERO),
            Some(text) => fields::time(text, MILLISECOND, "a time in milliseconds"),
        };
        let answered = fields::time(time, SECOND, "a time in seconds")?;
        let (served, queued) = (milliseconds("LAT(ms)")?, milliseconds("QUE(ms)")?);
        let took = Nanos(served.0.saturating_add(queued.0));
        let arrived = Nanos(answered.0.saturating_add(BEFORE).saturating_sub(took.0));
        let rwbs = value("T");
        let size: u64 = number(value("BYTES"), "a size in bytes")?;
        let op = match operation(rwbs) {
            _ if size == 0 && rwbs.contains('F') => Op::Flush,
            Some(op) => op,
            None => return Err(Flaw::text(rwbs, "R (a read) or W (a write)")),
        };
        let sector: u64 = number(value("SECTOR"), "a sector")?;
        if sector == u64::MAX && op != Op::Flush {
            self.passed_through += 1;
            return Ok(());
        }
        let extent = if op == Op::Flush {
            seekless_core::Extent::default()
        } else {
            blocks(sector, size, seekless_core::SECTOR_BYTES)?
        };
        let process = match value("PID") {
            "?" => ProcessId::default(),
            text => ProcessId(number(text, "the number of a process")?),
        };
        let device = volume(&self.volumes, value("DISK"))?;
        let name = words[..words.len() - self.columns.len()].join(" ");
        events.process(arrived, process, &name);
        let latency =
            if self.value(words, "LAT(ms)").is_some() { Latency::of(took) } else { Latency::UNKNOWN };
        events.request(
            arrived,
            TracedRequest { flags: flags(rwbs, op), process, latency, ..plain(device, op, extent) },
        );
        Ok(())
    }
}

impl LineFormat for Biosnoop {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        if self.columns.is_empty() {
            // Some versions first print that they are tracing.
            return if events.line < 3 && line.starts_with("Tracing ") { Ok(()) } else { self.header(line) };
        }
        let mut words = line.split_ascii_whitespace();
        let time = words.next().unwrap_or_default();
        let words = self.complete(words.collect());
        if words.len() < self.columns.len() {
            return Err(Flaw::text(line, HEADER));
        }
        self.request(&words, time, events)
    }

    fn warnings(&self) -> Vec<String> {
        let count = self.passed_through;
        let warning =
            format!("{count} commands were passed through to a disk, without an address; they were left out");
        if count > 0 { vec![warning] } else { Vec::new() }
    }
}
