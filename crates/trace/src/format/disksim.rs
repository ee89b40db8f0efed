//! `DiskSim`'s ascii format: `time device blkno bcount flags`.
//!
//! Units: time in milliseconds with a fraction, address and size in sectors of 512 bytes, flags in
//! hexadecimal, of which bit 0 set is a read. Faults: any text.

use seekless_core::Op;

use super::fields::{self, Flaw, MILLISECOND, columns, number, sectors};
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample};

/// The flag of a read.
const READ: u32 = 1;

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "disksim",
    summary: "DiskSim ascii: milliseconds, device, sector, sectors, flags (bit 0: read)",
    sample: Sample::Real,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect: |head| recognizes(head, DiskSim),
    open: |content| Ok(Text::open(content, DiskSim)),
};

struct DiskSim;

impl LineFormat for DiskSim {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        let [time, device, start, count, flags] =
            columns(line, line.split_ascii_whitespace(), "time device blkno bcount flags")?;
        let expected = "a time in milliseconds, with a fraction";
        if !time.contains('.') {
            return Err(Flaw::text(time, expected));
        }
        let time = fields::time(time, MILLISECOND, expected)?;
        let extent = sectors(number(start, "a sector")?, number(count, "a number of sectors")?)?;
        let expected = "flags in hexadecimal";
        let flags = u32::from_str_radix(flags, 16).map_err(|_| Flaw::text(flags, expected))?;
        let op = if flags & READ == 0 { Op::Write } else { Op::Read };
        events.request(time, plain(number(device, "the number of a device")?, op, extent));
        Ok(())
    }
}
