//! `MQSim`'s ascii format: `time device lba n op`.
//!
//! Units: time in whole nanoseconds (`MQSim`'s default; its settings can differ, hence an option), address and size in
//! sectors of 512 bytes; op 0 is a write, 1 a read. Faults: any text.

use super::fields::{self, Flaw, columns, direction, number, sectors};
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample, TimeUnit};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "mqsim",
    summary: "MQSim ascii: nanoseconds, device, sector, sectors, 0 (write) or 1 (read)",
    sample: Sample::Real,
    volumes: Naming::Numbered,
    open_units: OpenUnits { time: Some(TimeUnit::Nano), sector: None },
    detect: |head| recognizes(head, MqSim { unit_ns: 1 }),
    open: |content| {
        let unit_ns = content.time_unit.nanos();
        Ok(Text::open(content, MqSim { unit_ns }))
    },
};

struct MqSim {
    unit_ns: u64,
}

impl LineFormat for MqSim {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        let [time, device, start, count, op] =
            columns(line, line.split_ascii_whitespace(), "time device lba n op")?;
        number::<u64>(time, "a time, a whole number")?;
        let time = fields::time(time, self.unit_ns, "a time")?;
        let op = direction(op, "1", "0")?;
        let extent = sectors(number(start, "a sector")?, number(count, "a number of sectors")?)?;
        events.request(time, plain(number(device, "the number of a device")?, op, extent));
        Ok(())
    }
}
