//! The CSV of Alibaba's cloud disks: `device_id,opcode,offset,length,timestamp`.
//!
//! Units: offset and length in bytes, time in microseconds since 1970; opcode `R` or `W`. Faults: any
//! text.

use super::fields::{self, Flaw, MICROSECOND, bytes, columns, direction, number, split};
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "alibaba",
    summary: "Alibaba cloud disks: device, R/W, byte offset, bytes, microseconds",
    sample: Sample::Description,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect: |head| recognizes(head, Alibaba),
    open: |content| Ok(Text::open(content, Alibaba)),
};

struct Alibaba;

impl LineFormat for Alibaba {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        if events.line == 1 && line.starts_with("device_id,") {
            return Ok(());
        }
        let [device, opcode, offset, length, time] =
            columns(line, split(line, b','), "device_id,opcode,offset,length,timestamp")?;
        let time = fields::time(time, MICROSECOND, "a time in microseconds")?;
        let op = direction(opcode, "R", "W")?;
        let extent = bytes(number(offset, "an offset in bytes")?, number(length, "a length in bytes")?)?;
        events.request(time, plain(number(device, "the number of a device")?, op, extent));
        Ok(())
    }
}
