//! The CSV form of the `CloudPhysics` traces, recognized by its first line: `version,time,op,size,lbn`.
//!
//! Units: time in whole seconds (the requests of a second are spread over it), size in bytes, address in
//! sectors of 512 bytes; op is the SCSI operation code in hexadecimal. Faults: any text.

use seekless_core::{Extent, Op, SECTOR_BYTES};

use super::fields::{self, Flaw, SECOND, columns, number, sectors, split};
use super::spread::Spread;
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample, scsi};

const HEADER: &str = "version,time,op,size,lbn";

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "cloudphysics",
    summary: "CloudPhysics CSV: version, whole seconds, SCSI operation, bytes, sector",
    sample: Sample::Real,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect: |head| recognizes(head, CloudPhysics::default()),
    open: |content| Ok(Spread::over(Text::open(content, CloudPhysics::default()))),
};

#[derive(Default)]
struct CloudPhysics {
    others: u64,
}

impl LineFormat for CloudPhysics {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        if events.line == 1 {
            let header = line == HEADER;
            return if header { Ok(()) } else { Err(Flaw::text(line, HEADER)) };
        }
        let [_version, time, op, size, lbn] = columns(line, split(line, b','), HEADER)?;
        let time = fields::time(time, SECOND, "a time in seconds")?;
        let expected = "a SCSI operation code in hexadecimal";
        let code = u16::from_str_radix(op, 16).map_err(|_| Flaw::text(op, expected))?;
        let (size, lbn): (u64, u64) = (number(size, "a size in bytes")?, number(lbn, "a sector")?);
        match scsi::operation(code) {
            Some(Op::Flush) => events.request(time, plain(0, Op::Flush, Extent::default())),
            Some(op) => events.request(time, plain(0, op, sectors(lbn, size.div_ceil(SECTOR_BYTES))?)),
            None => self.others += 1,
        }
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        scsi::others(self.others)
    }
}
