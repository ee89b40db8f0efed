//! The default output of `blkparse`: a line Q for each arrival and a line C for each known completion, in order of
//! time.
//!
//! Units: seconds with nine decimals, sectors of 512 bytes. All events are on CPU 0. A flush is a line Q without a
//! place (`FN`), so it has no completion. Completions that a reader would assign to another request are left out and
//! counted.
//!
//! A process has one name at an instant: of two within a nanosecond a reader uses the latter for both. A device is its
//! number, as Linux combines major and minor.

use std::io::{self, Write};

use seekless_core::{Flags, Nanos, Op, Record};

use super::holds::ALL_FLAGS;
use super::in_flight::InFlight;
use super::names::printable;
use super::{Capabilities, Encoded, Encoder, Output, Tables, Target, VolumeIds};

/// The entry in the table of targets.
pub const TARGET: Target = Target {
    name: "blkparse",
    summary: "what blkparse prints by default (text)",
    endings: &[".blkparse", ".txt"],
    holds: Capabilities {
        time_ns: 1,
        ops: &[Op::Read, Op::Write, Op::Flush, Op::Discard],
        flags: ALL_FLAGS,
        // The leading F implies it.
        flush_flags: Flags(ALL_FLAGS.0 & !Flags::PREFLUSH.0),
        processes: true,
        streams: false,
        latencies: true,
        volumes: VolumeIds::Numbers,
    },
    packs: true,
    open: |output, _| {
        Ok(Box::new(Blkparse { output, sequence: 0, in_flight: InFlight::default(), renamed: 0 }))
    },
};

const SECOND: u64 = 1_000_000_000;
/// Far more than the 15 that Linux has, and far less than the limit of a line.
const NAME_BYTES: usize = 4096;

struct Blkparse {
    output: Output,
    sequence: u64,
    in_flight: InFlight,
    /// Requests whose process name had to be changed.
    renamed: u64,
}

impl Blkparse {
    fn line(&mut self, at: Nanos, action: char, record: &Record, name: &str) -> io::Result<()> {
        self.sequence += 1;
        let (major, minor) = (record.device >> 20, record.device & 0x000f_ffff);
        let (seconds, nanos) = (at.0 / SECOND, at.0 % SECOND);
        let (sequence, process, rwbs) = (self.sequence, record.origin.process.0, rwbs(record));
        let output = &mut self.output;
        write!(
            output,
            "{major:>3},{minor:<3}  0 {sequence:>8} {seconds:>5}.{nanos:09} {process:>5} {action:>2} {rwbs:>3} "
        )?;
        if record.op != Op::Flush {
            write!(output, "{} + {} ", record.extent.start.0, record.extent.sectors)?;
        }
        writeln!(output, "[{name}]")
    }

    /// Writes the completions up to `now`, or all.
    fn complete(&mut self, now: Option<Nanos>) -> io::Result<()> {
        while let Some(due) = self.in_flight.due(now) {
            // The brackets of a completion hold its error.
            self.line(due.at, 'C', &due.record, "0")?;
        }
        Ok(())
    }
}

impl Encoder for Blkparse {
    fn record(&mut self, record: &Record, tables: Tables) -> io::Result<()> {
        self.complete(Some(record.time))?;
        let name = tables.names.get(record.origin.name);
        let changed = printable(name, NAME_BYTES);
        self.renamed += u64::from(changed.is_some());
        self.line(record.time, 'Q', record, changed.as_deref().unwrap_or(name))?;
        self.in_flight.arrived(record);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<Encoded> {
        self.complete(None)?;
        let mut notes = Vec::new();
        if self.renamed > 0 {
            let renamed = self.renamed;
            notes.push(format!("{renamed} requests have the name of their process shortened or cleaned"));
        }
        let dropped = self.in_flight.dropped;
        if dropped > 0 {
            notes.push(format!(
                "{dropped} completions were left out: a reader could not assign them to their requests"
            ));
        }
        Ok(Encoded { output: self.output, notes, latencies_dropped: dropped })
    }
}

/// The letters of a request: its operation, then its flags.
fn rwbs(record: &Record) -> String {
    let op = match record.op {
        Op::Read => "R",
        Op::Write | Op::WriteZeroes => "W",
        Op::Discard => "D",
        Op::Flush => "FN",
    };
    let before = if record.flags.has(Flags::PREFLUSH) { "F" } else { "" };
    format!("{before}{op}{}", letters(record.flags))
}

/// The letters of the flags that follow that of the operation.
pub(super) fn letters(flags: Flags) -> String {
    let known = [(Flags::FUA, 'F'), (Flags::AHEAD, 'A'), (Flags::SYNC, 'S'), (Flags::META, 'M')];
    known.into_iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, letter)| letter).collect()
}
