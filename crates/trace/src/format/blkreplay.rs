//! The load files of `blkreplay`: `seconds ; sector ; sectors ; R|W`, and optionally a delay and a latency.
//!
//! Units: time in seconds with a fraction, address and size in sectors of 512 bytes. `RA` is read-ahead: the letters
//! are those of `blkparse`. A write of no sectors is a flush. Lines before the first record are a preamble of any
//! content, before and after the line that names the columns, unless they have a record's parts. Faults: any text.

use seekless_core::{Latency, Nanos, Op};

use super::blkparse::{flags, operation};
use super::fields::{self, Flaw, SECOND, at_least, number, sectors, split};
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample, TracedRequest};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "blkreplay",
    summary: "blkreplay load: seconds ; sector ; sectors ; R or W",
    sample: Sample::Real,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect: |head| recognizes(head, Blkreplay::default()),
    open: |content| Ok(Text::open(content, Blkreplay::default())),
};

#[derive(Default)]
struct Blkreplay {
    /// Whether a record has been read: the preamble has ended.
    started: bool,
    /// Whether the names of the columns have been read.
    named: bool,
}

impl LineFormat for Blkreplay {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        match record(line) {
            Ok((time, request)) => {
                self.started = true;
                events.request(time, request);
                Ok(())
            }
            Err(_) if line.starts_with("start ;") => {
                self.named = true;
                Ok(())
            }
            Err(flaw) if self.started && !line.starts_with('#') => Err(flaw),
            // A record that is malformed, rather than a part of the preamble.
            Err(flaw) if is_like_a_record(line) => Err(flaw),
            Err(_) => Ok(()),
        }
    }

    fn end(&self) -> Result<(), Flaw> {
        let flaw = || Flaw { found: "a preamble only".into(), expected: "a line \"start ; ...\"".into() };
        (self.started || self.named).then_some(()).ok_or_else(flaw)
    }
}

/// Whether a line has the parts of a record, and begins with a number.
fn is_like_a_record(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with(|first: char| first.is_ascii_digit() || first == '-') && line.matches(';').count() >= 3
}

fn record(line: &str) -> Result<(Nanos, TracedRequest), Flaw> {
    let mut parts = split(line, b';');
    let [time, start, count, op] = at_least(line, &mut parts, "seconds ; sector ; sectors ; R|W")?;
    let time = fields::time(time, SECOND, "a time in seconds")?;
    let extent = sectors(number(start, "a sector")?, number(count, "a number of sectors")?)?;
    let known = op.bytes().all(|letter| b"RWDFSMAB".contains(&letter));
    let parsed = if known { operation(op) } else { None };
    let written = parsed.ok_or_else(|| Flaw::text(op, "R (a read) or W (a write), and flags perhaps"))?;
    let flush = written == Op::Write && extent.sectors == 0;
    let request = if flush { Op::Flush } else { written };
    // A delay, then a latency: a replayed load has both.
    let latency = match parts.nth(1).map(str::trim) {
        None | Some("") => Latency::UNKNOWN,
        Some(latency) => fields::latency(latency, SECOND, "a latency in seconds")?,
    };
    Ok((time, TracedRequest { flags: flags(op, request), latency, ..plain(0, request, extent) }))
}
