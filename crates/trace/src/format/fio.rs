//! The I/O logs of `fio` (`write_iolog`), versions 2 and 3, known by their first line.
//!
//! Version 2: `file add|open|close`, `file action offset length`, where the offset of a `wait` is the time
//! in microseconds since the wait before it. Version 3: a time in front of each line; `fio` writes it in
//! microseconds. Offsets and lengths are in bytes; `sync` and `datasync` are flushes. A device is a
//! file, numbered as they appear. Faults: any text; other versions are an error.

use rustc_hash::FxHashMap;
use seekless_core::{Extent, Nanos, Op};

use super::fields::{self, Flaw, MICROSECOND, at_least, bytes, columns, number};
use super::text::{Lines, Said, Text, plain};
use super::{Format, Sample};

/// A bound for hostile input.
const MAX_FILES: usize = 1 << 16;

/// How the table of formats knows this one.
pub const FORMAT: Format = Format {
    name: "fio",
    summary: "fio iolog, versions 2 and 3 (microseconds)",
    sample: Sample::Description,
    detect: |head| head.starts_with(b"fio version "),
    open: |content| Ok(Text::open(content, Fio::default())),
};

#[derive(Default)]
struct Fio {
    version: u8,
    files: FxHashMap<Box<str>, u32>,
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

    fn device(&mut self, file: &str) -> Result<u32, Flaw> {
        if let Some(&device) = self.files.get(file) {
            return Ok(device);
        }
        if self.files.len() >= MAX_FILES {
            return Err(Flaw::text(file, "fewer files"));
        }
        let device = self.files.len() as u32;
        self.files.insert(file.into(), device);
        Ok(device)
    }
}

impl Lines for Fio {
    fn line(&mut self, line: &str, said: &mut Said) -> Result<(), Flaw> {
        if self.version == 0 {
            return self.first_line(line);
        }
        let mut words = line.split_whitespace();
        let mut time = self.now;
        if self.version == 3 {
            let word = words.next().unwrap_or_default();
            time = fields::time(word, MICROSECOND, "a time in microseconds")?;
        }
        let [file, action] = at_least(line, &mut words, "file action")?;
        let device = self.device(file)?;
        let op = match action {
            "add" | "open" | "close" => return Ok(()),
            "sync" | "datasync" => {
                said.request(time, plain(device, Op::Flush, Extent::default()));
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
        said.request(time, plain(device, op, extent));
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let timeless = self.version == 2 && self.now == Nanos::ZERO && self.requests > 1;
        let told = "the log has no waits, hence no times: all requests come at once".to_owned();
        if timeless { vec![told] } else { Vec::new() }
    }
}
