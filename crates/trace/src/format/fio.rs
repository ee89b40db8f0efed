//! The I/O logs of `fio` (`write_iolog`), versions 2 and 3, recognized by their first line.
//!
//! Version 2: `file add|open|close`, `file action offset length`, where the offset of a `wait` is the time in
//! microseconds since the wait before it. Version 3: a time at the start of each line; `fio` writes it in microseconds,
//! its manual gives no unit, and other programs use others: there is an option. Offsets and lengths are in bytes;
//! `sync` and `datasync` are flushes. A volume is a file. Faults: any text; other versions are an error.

use seekless_core::{Extent, Nanos, Op};

use super::fields::{self, Flaw, MICROSECOND, at_least, bytes, columns, number, volume};
use super::text::{EventQueue, LineFormat, Text, plain};
use super::{Format, Naming, OpenUnits, Sample, TimeUnit};
use crate::volumes::Volumes;

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "fio",
    summary: "fio iolog, version 3 (microseconds by default); version 2 from its description",
    sample: Sample::Real,
    volumes: Naming::Named,
    open_units: OpenUnits { time: Some(TimeUnit::Micro), sector: None },
    detect: |head| head.starts_with(b"fio version "),
    open: |content| {
        let (volumes, unit_ns) = (content.volumes.clone(), content.time_unit.nanos());
        Ok(Text::open(content, Fio { version: 0, volumes, unit_ns, now: Nanos::ZERO, requests: 0 }))
    },
};

struct Fio {
    version: u8,
    volumes: Volumes,
    /// The unit of version 3, which the file does not give.
    unit_ns: u64,
    /// Version 2: the sum of the waits so far.
    now: Nanos,
    requests: u64,
}

impl Fio {
    fn first_line(&mut self, line: &str) -> Result<(), Flaw> {
        self.version = match line {
            "fio version 2 iolog" => 2,
            "fio version 3 iolog" => 3,
            _ => return Err(Flaw::text(line, "fio version 2 iolog, or fio version 3 iolog")),
        };
        Ok(())
    }
}

impl LineFormat for Fio {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        if self.version == 0 {
            return self.first_line(line);
        }
        let mut words = line.split_ascii_whitespace();
        let mut time = self.now;
        if self.version == 3 {
            let word = words.next().unwrap_or_default();
            time = fields::time(word, self.unit_ns, "a time")?;
        }
        let [file, action] = at_least(line, &mut words, "file action")?;
        let device = volume(&self.volumes, file)?;
        let op = match action {
            "add" | "open" | "close" => return Ok(()),
            "sync" | "datasync" => {
                events.request(time, plain(device, Op::Flush, Extent::default()));
                return Ok(());
            }
            "read" => Some(Op::Read),
            "write" => Some(Op::Write),
            "trim" => Some(Op::Discard),
            "wait" if self.version == 2 => None,
            _ => {
                return Err(Flaw::text(
                    action,
                    "read, write, trim, sync, datasync, wait, add, open or close",
                ));
            }
        };
        let [offset, length] = columns(line, words, "file action offset length")?;
        let Some(op) = op else {
            let wait = fields::time(offset, MICROSECOND, "a wait in microseconds")?;
            self.now = Nanos(self.now.0.saturating_add(wait.0));
            return Ok(());
        };
        let extent = bytes(number(offset, "an offset in bytes")?, number(length, "a length in bytes")?)?;
        self.requests += 1;
        events.request(time, plain(device, op, extent));
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let timeless = self.version == 2 && self.now == Nanos::ZERO && self.requests > 1;
        let warning = "the log has no waits, hence no times: all requests arrive at once".to_owned();
        if timeless { vec![warning] } else { Vec::new() }
    }
}
