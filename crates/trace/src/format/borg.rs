//! The text format of the BORG paper's profiler, as shown on its slides: `timestamp pid executable start size mode`.
//!
//! Units: time in nanoseconds, which the slides do not give but which makes their values plausible (a desktop's
//! requests some tens of milliseconds apart); address and size in sectors of 512 bytes; mode `R` or `W`. Faults: any
//! text.

use seekless_core::ProcessId;

use super::fields::{self, Flaw, columns, direction, number, sectors};
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample, TracedRequest};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "borg",
    summary: "the BORG paper's profiler: nanoseconds, pid, executable, sector, sectors, R/W",
    sample: Sample::Description,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect: |head| recognizes(head, Borg),
    open: |content| Ok(Text::open(content, Borg)),
};

struct Borg;

impl LineFormat for Borg {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        let [time, pid, name, start, size, mode] =
            columns(line, line.split_ascii_whitespace(), "timestamp pid executable start size mode")?;
        let time = fields::time(time, 1, "a time in nanoseconds")?;
        let op = direction(mode, "R", "W")?;
        let extent = sectors(number(start, "a sector")?, number(size, "a number of sectors")?)?;
        let process = ProcessId(number(pid, "the number of a process")?);
        events.process(time, process, name);
        events.request(time, TracedRequest { process, ..plain(0, op, extent) });
        Ok(())
    }
}
