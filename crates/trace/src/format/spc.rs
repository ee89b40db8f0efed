//! The Storage Performance Council's trace format, as in the `UMass` traces: `ASU,LBA,Size,Opcode,Timestamp` and
//! optional columns, which are ignored.
//!
//! Units: address in sectors of 512 bytes (the specification allows other sizes per unit: an option), size in bytes,
//! time in seconds from the start; opcode `r` or `w`, either case. The application storage unit (ASU) is the device.
//! Faults: any text.

use seekless_core::SECTOR_BYTES;

use super::fields::{self, Flaw, SECOND, at_least, blocks, direction, number, split};
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "spc",
    summary: "SPC (UMass): ASU, sector, bytes, r/w, seconds",
    sample: Sample::Description,
    volumes: Naming::Numbered,
    open_units: OpenUnits { time: None, sector: Some(512) },
    detect: |head| recognizes(head, Spc { sector_bytes: SECTOR_BYTES }),
    open: |content| {
        let sector_bytes = content.sector_bytes;
        Ok(Text::open(content, Spc { sector_bytes }))
    },
};

struct Spc {
    sector_bytes: u64,
}

impl LineFormat for Spc {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        let [asu, lba, size, opcode, time] =
            at_least(line, &mut split(line, b','), "ASU,LBA,Size,Opcode,Timestamp")?;
        let time = fields::time(time, SECOND, "a time in seconds")?;
        let op = direction(opcode, "r", "w")?;
        let size: u64 = number(size, "a size in bytes")?;
        let extent = blocks(number(lba, "a sector")?, size, self.sector_bytes)?;
        events.request(time, plain(number(asu, "the number of a storage unit")?, op, extent));
        Ok(())
    }
}
