//! The text format that trace replayers extract from the MSR Cambridge traces: `ms disk offset bytes op`.
//!
//! Units: time in milliseconds with a fraction, offset and size in bytes; op 0 is a write, 1 a read. It looks like
//! `DiskSim`'s ascii format, whose numbers are sectors: a file is recognized as this one if every offset and size in
//! its first lines is a multiple of 512, which sectors are not. Faults: any text.

use seekless_core::SECTOR_BYTES;

use super::fields::{self, Flaw, MILLISECOND, bytes, columns, direction, number};
use super::text::{EventQueue, LineFormat, Text, plain, recognizes, whole_lines};
use super::{Format, Naming, OpenUnits, Sample};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "byte-ascii",
    summary: "replayer text cut from MSR: milliseconds, disk, byte offset, bytes, 0 (write) or 1 (read)",
    sample: Sample::Real,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect,
    open: |content| Ok(Text::open(content, ByteAscii)),
};

fn detect(head: &[u8]) -> bool {
    let in_bytes = |line: &[u8]| {
        let Ok(text) = std::str::from_utf8(line) else { return false };
        let sizes = text.split_whitespace().skip(2).take(2);
        sizes.map(str::parse::<u64>).all(|value| value.is_ok_and(|value| value % SECTOR_BYTES == 0))
    };
    recognizes(head, ByteAscii) && whole_lines(head).all(in_bytes)
}

struct ByteAscii;

impl LineFormat for ByteAscii {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        let [time, disk, offset, size, op] =
            columns(line, line.split_ascii_whitespace(), "ms disk offset bytes op")?;
        let expected = "a time in milliseconds, with a fraction";
        if !time.contains('.') {
            return Err(Flaw::text(time, expected));
        }
        let time = fields::time(time, MILLISECOND, expected)?;
        let op = direction(op, "1", "0")?;
        let extent = bytes(number(offset, "an offset in bytes")?, number(size, "a size in bytes")?)?;
        events.request(time, plain(number(disk, "the number of a disk")?, op, extent));
        Ok(())
    }
}
