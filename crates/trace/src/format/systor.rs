//! The CSV of the SYSTOR 2017 traces of a virtual desktop farm: `Timestamp,Response,IOType,LUN,Offset,Size`.
//!
//! Units: time in seconds, offset and size in bytes; type `R` or `W`. The response time, in
//! seconds, is often empty. Faults: any text.

use seekless_core::Latency;

use super::fields::{self, Flaw, SECOND, bytes, columns, direction, number, split};
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample, TracedRequest};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "systor17",
    summary: "SYSTOR 2017 (VDI): seconds, response, R/W, LUN, byte offset, bytes",
    sample: Sample::Description,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect: |head| recognizes(head, Systor),
    open: |content| Ok(Text::open(content, Systor)),
};

struct Systor;

impl LineFormat for Systor {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        if events.line == 1 && line.starts_with("Timestamp,") {
            return Ok(());
        }
        let [time, response, kind, lun, offset, size] =
            columns(line, split(line, b','), "Timestamp,Response,IOType,LUN,Offset,Size")?;
        let time = fields::time(time, SECOND, "a time in seconds")?;
        let op = direction(kind, "R", "W")?;
        let extent = bytes(number(offset, "an offset in bytes")?, number(size, "a size in bytes")?)?;
        let latency = match response.trim() {
            "" => Latency::UNKNOWN,
            response => fields::latency(response, SECOND, "a response time in seconds, or nothing")?,
        };
        let device = number(lun, "the number of a unit")?;
        events.request(time, TracedRequest { latency, ..plain(device, op, extent) });
        Ok(())
    }
}
