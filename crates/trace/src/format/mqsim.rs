//! `MQSim`'s ascii format: `time device lba n op`.
//!
//! Units: time in whole nanoseconds (`MQSim`'s default; its own settings can say otherwise), address and size
//! in sectors of 512 bytes; op 0 is a write, 1 a read. Faults: any text.

use seekless_core::Nanos;

use super::fields::{Flaw, columns, direction, number, sectors};
use super::text::{Lines, Said, Text, plain, speaks};
use super::{Format, Sample};

/// How the table of formats knows this one.
pub const FORMAT: Format = Format {
    name: "mqsim",
    summary: "MQSim ascii: nanoseconds, device, sector, sectors, 0 (write) or 1 (read)",
    sample: Sample::Real,
    detect: |head| speaks(head, MqSim),
    open: |content| Ok(Text::open(content, MqSim)),
};

struct MqSim;

impl Lines for MqSim {
    fn line(&mut self, line: &str, said: &mut Said) -> Result<(), Flaw> {
        let [time, device, start, count, op] =
            columns(line, line.split_whitespace(), "time device lba n op")?;
        let time = Nanos(number(time, "a time in nanoseconds")?);
        let op = direction(op, "1", "0")?;
        let extent = sectors(number(start, "a sector")?, number(count, "a number of sectors")?)?;
        said.request(time, plain(number(device, "the number of a device")?, op, extent));
        Ok(())
    }
}
