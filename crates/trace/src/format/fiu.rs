//! The text of the FIU traces in the SNIA repository (`.blkparse`): `ts pid process lba size op major minor md5`.
//!
//! Units: time in nanoseconds; address and size in sectors of 512 bytes (addresses of some of the traces count larger
//! blocks: an option); op `W` or `R`. The hash of the content is ignored. Faults: any text.

use seekless_core::{ProcessId, SECTOR_BYTES};

use super::fields::{self, Flaw, blocks, columns, device_of, direction, number};
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample, TracedRequest};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "fiu",
    summary: "SNIA/FIU .blkparse: ns, pid, process, sector, sectors, W/R, major, minor, md5",
    sample: Sample::Description,
    volumes: Naming::Linux,
    open_units: OpenUnits { time: None, sector: Some(512) },
    detect: |head| recognizes(head, Fiu { sector_bytes: SECTOR_BYTES }),
    open: |content| {
        let sector_bytes = content.sector_bytes;
        Ok(Text::open(content, Fiu { sector_bytes }))
    },
};

struct Fiu {
    sector_bytes: u64,
}

impl LineFormat for Fiu {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        let [time, pid, name, lba, size, op, major, minor, _md5] =
            columns(line, line.split_ascii_whitespace(), "ts pid process lba size op major minor md5")?;
        let time = fields::time(time, 1, "a time in nanoseconds")?;
        let op = direction(op, "R", "W")?;
        let size: u64 = number(size, "a number of sectors")?;
        let extent = blocks(number(lba, "a sector")?, size.saturating_mul(SECTOR_BYTES), self.sector_bytes)?;
        let major: u32 = number(major, "a major number")?;
        let minor: u32 = number(minor, "a minor number")?;
        let process = ProcessId(number(pid, "the number of a process")?);
        events.process(time, process, name);
        events.request(time, TracedRequest { process, ..plain(device_of(major, minor)?, op, extent) });
        Ok(())
    }
}
