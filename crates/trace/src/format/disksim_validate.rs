//! `DiskSim`'s validation traces: requests made to a real drive one after the other, and their service times. `R|W
//! Hit|Miss|Doub|Trip blkno bcount service_us nextarrival_us`.
//!
//! Units: address and size in sectors of 512 bytes; the service time and the time from this request's arrival to the
//! next one's in microseconds, with a fraction. The second column is the result of the drive's cache, and is ignored.
//! Faults: any text.

use seekless_core::Nanos;

use super::fields::{self, Flaw, MICROSECOND, columns, direction, number, sectors};
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample, TracedRequest};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "disksim-validate",
    summary: "DiskSim validate: R/W, Hit/Miss, sector, sectors, service and next arrival in microseconds",
    sample: Sample::Real,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect: |head| recognizes(head, Validate::default()),
    open: |content| Ok(Text::open(content, Validate::default())),
};

#[derive(Default)]
struct Validate {
    /// Arrival of the next request.
    now: Nanos,
}

impl LineFormat for Validate {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        let [op, cache, start, count, service, next] = columns(
            line,
            line.split_ascii_whitespace(),
            "R|W Hit|Miss|Doub|Trip blkno bcount service_us nextarrival_us",
        )?;
        let op = direction(op, "R", "W")?;
        if !["hit", "miss", "doub", "trip"].iter().any(|known| cache.eq_ignore_ascii_case(known)) {
            return Err(Flaw::text(cache, "Hit, Miss, Doub or Trip"));
        }
        let extent = sectors(number(start, "a sector")?, number(count, "a number of sectors")?)?;
        let latency = fields::latency(service, MICROSECOND, "a service time in microseconds")?;
        let next = fields::time(next, MICROSECOND, "a time to the next arrival in microseconds")?;
        events.request(self.now, TracedRequest { latency, ..plain(0, op, extent) });
        self.now = Nanos(self.now.0.saturating_add(next.0));
        Ok(())
    }
}
