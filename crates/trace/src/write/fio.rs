//! The I/O logs of `fio`, version 3, which `fio --read_iolog` replays from version 3.31 on.
//!
//! Units: times in whole microseconds, as `fio` itself writes them; offsets and lengths in bytes. A volume is a file,
//! added and opened before its first request and closed at the end. A flush is a `sync`, which has an offset and a
//! length too; without them `fio` parses the line as a file action.

use std::io::{self, Write};

use seekless_core::{Flags, Nanos, Op, Record, SECTOR_BYTES};

use super::names::Words;
use super::{Capabilities, Encoded, Encoder, Output, Tables, Target, VolumeIds};

/// The entry in the table of targets.
pub const TARGET: Target = Target {
    name: "fio",
    summary: "fio iolog, version 3 (microseconds)",
    endings: &[".fio", ".iolog"],
    holds: Capabilities {
        time_ns: MICROSECOND,
        ops: &[Op::Read, Op::Write, Op::Flush, Op::Discard],
        flags: Flags(0),
        flush_flags: Flags(0),
        processes: false,
        streams: false,
        latencies: false,
        volumes: VolumeIds::Names,
    },
    packs: true,
    open: |mut output, _| {
        writeln!(output, "fio version 3 iolog")?;
        Ok(Box::new(Fio { output, words: Words::new(NAME_BYTES), opened: Vec::new(), last: Nanos::ZERO }))
    },
};

const MICROSECOND: u64 = 1_000;
/// `fio` reads no more of a name.
const NAME_BYTES: usize = 255;

struct Fio {
    output: Output,
    words: Words,
    /// The devices whose file is open.
    opened: Vec<u32>,
    last: Nanos,
}

impl Encoder for Fio {
    fn record(&mut self, record: &Record, tables: Tables) -> io::Result<()> {
        let Fio { output, words, opened, last } = self;
        let time = record.time.0 / MICROSECOND;
        *last = record.time;
        if words.of(record.device).is_none() {
            words.add(record.device, &tables.volumes.name(record.device));
            opened.push(record.device);
            let file = words.of(record.device).unwrap_or_default();
            writeln!(output, "{time} {file} add\n{time} {file} open")?;
        }
        let file = words.of(record.device).unwrap_or_default();
        let action = match record.op {
            Op::Read => "read",
            Op::Write | Op::WriteZeroes => "write",
            Op::Flush => "sync",
            Op::Discard => "trim",
        };
        let (offset, length) = (record.extent.start.0 * SECTOR_BYTES, record.extent.bytes());
        writeln!(output, "{time} {file} {action} {offset} {length}")
    }

    fn finish(mut self: Box<Self>) -> io::Result<Encoded> {
        let time = self.last.0 / MICROSECOND;
        for device in &self.opened {
            writeln!(self.output, "{time} {} close", self.words.of(*device).unwrap_or_default())?;
        }
        let notes = self.words.notes();
        Ok(Encoded { output: self.output, notes, latencies_dropped: 0 })
    }
}
