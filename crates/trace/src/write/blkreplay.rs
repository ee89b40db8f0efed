//! The load files of `blkreplay`: `seconds ; sector ; sectors ; R|W`, with a delay and a latency where that is known.
//!
//! Units: seconds with nine decimals, which `blkreplay` reads as nanoseconds after the point; sectors of 512 bytes.
//! Letters after the first (A, S, M, F) are flags as in `blkparse`; `blkreplay` ignores them. A flush is a write of no
//! sectors, as in the loads that come with `blkreplay`. It refuses other letters, hence no discards.

use std::io::{self, Write};

use seekless_core::{Flags, Op, Record};

use super::blkparse::letters;
use super::{Capabilities, Encoded, Encoder, Output, Tables, Target, VolumeIds};

/// The flags with a letter after that of the operation.
const FLAGS: Flags = Flags(Flags::SYNC.0 | Flags::META.0 | Flags::AHEAD.0 | Flags::FUA.0);
const SECOND: u64 = 1_000_000_000;

/// The entry in the table of targets.
pub const TARGET: Target = Target {
    name: "blkreplay",
    summary: "blkreplay load: seconds ; sector ; sectors ; R or W",
    endings: &[".load", ".blkreplay"],
    holds: Capabilities {
        time_ns: 1,
        ops: &[Op::Read, Op::Write, Op::Flush],
        flags: FLAGS,
        flush_flags: FLAGS,
        processes: false,
        streams: false,
        latencies: true,
        volumes: VolumeIds::Nothing,
    },
    packs: true,
    open: |mut output, provenance| {
        let formatted = if provenance.format.is_empty() { "" } else { ", a trace in the format " };
        writeln!(output, "written by {}{formatted}{}\n", provenance.program, provenance.format)?;
        writeln!(output, "start ; sector ; length ; op ; delay ; latency")?;
        Ok(Box::new(Blkreplay { output }))
    },
};

struct Blkreplay {
    output: Output,
}

impl Encoder for Blkreplay {
    fn record(&mut self, record: &Record, _: Tables) -> io::Result<()> {
        let Record { time, extent, .. } = record;
        let op = if record.op == Op::Read { 'R' } else { 'W' };
        let (seconds, nanos) = (time.0 / SECOND, time.0 % SECOND);
        let (start, sectors, flags) = (extent.start.0, extent.sectors, letters(record.flags));
        write!(self.output, "{seconds}.{nanos:09} ; {start} ; {sectors} ; {op}{flags}")?;
        match record.latency.known() {
            Some(took) => {
                let (seconds, nanos) = (took.0 / SECOND, took.0 % SECOND);
                writeln!(self.output, " ; 0.000000000 ; {seconds}.{nanos:09}")
            }
            None => writeln!(self.output),
        }
    }

    fn finish(self: Box<Self>) -> io::Result<Encoded> {
        Ok(Encoded { output: self.output, notes: Vec::new(), latencies_dropped: 0 })
    }
}
