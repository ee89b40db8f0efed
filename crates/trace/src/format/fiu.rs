//! The text of the FIU traces in the SNIA repository (`.blkparse`):
//! `ts pid process lba size op major minor md5`.
//!
//! Units: time in nanoseconds; address and size in sectors of 512 bytes; op `W` or `R`. The hash of the
//! content is passed over. Faults: any text.

use seekless_core::ProcessId;

use super::fields::{self, Flaw, columns, device_of, direction, number, sectors};
use super::text::{Lines, Said, Text, plain, speaks};
use super::{Format, Queued, Sample};

/// How the table of formats knows this one.
pub const FORMAT: Format = Format {
    name: "fiu",
    summary: "SNIA/FIU .blkparse: ns, pid, process, sector, sectors, W/R, major, minor, md5",
    sample: Sample::Description,
    detect: |head| speaks(head, Fiu),
    open: |content| Ok(Text::open(content, Fiu)),
};

struct Fiu;

impl Lines for Fiu {
    fn line(&mut self, line: &str, said: &mut Said) -> Result<(), Flaw> {
        let [time, pid, name, lba, size, op, major, minor, _md5] =
            columns(line, line.split_whitespace(), "ts pid process lba size op major minor md5")?;
        let time = fields::time(time, 1, "a time in nanoseconds")?;
        let op = direction(op, "R", "W")?;
        let extent = sectors(number(lba, "a sector")?, number(size, "a number of sectors")?)?;
        let major: u32 = number(major, "a major number")?;
        let minor: u32 = number(minor, "a minor number")?;
        let process = ProcessId(number(pid, "the number of a process")?);
        said.process(time, process, name);
        said.request(time, Queued { process, ..plain(device_of(major, minor)?, op, extent) });
        Ok(())
    }
}
