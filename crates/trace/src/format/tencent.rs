//! The CSV of Tencent's cloud disks: `Timestamp,Offset,Size,IOType,VolumeID`.
//!
//! Units: time in whole seconds since 1970 (the requests of a second are spread over it), offset and size
//! in sectors of 512 bytes; type 0 is a read, 1 a write. Faults: any text.

use super::fields::{self, Flaw, SECOND, columns, direction, number, sectors, split};
use super::spread::Spread;
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample};

/// In 2001: earlier numbers are not times of such a trace; five numbers per line alone do not identify it.
const EARLIEST: u64 = 1_000_000_000;

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "tencent",
    summary: "Tencent cloud disks: whole seconds, sector, sectors, 0 (read) or 1 (write), volume",
    sample: Sample::Description,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect: |head| recognizes(head, Tencent),
    open: |content| Ok(Spread::over(Text::open(content, Tencent))),
};

struct Tencent;

impl LineFormat for Tencent {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        if events.line == 1 && line.starts_with("Timestamp,") {
            return Ok(());
        }
        let [time, offset, size, kind, volume] =
            columns(line, split(line, b','), "Timestamp,Offset,Size,IOType,VolumeID")?;
        let seconds: u64 = number(time, "a time in whole seconds")?;
        let time = fields::time(time, SECOND, "a time in whole seconds")?;
        if seconds < EARLIEST {
            return Err(Flaw::text(line, "a time in seconds since 1970, after 2001"));
        }
        let op = direction(kind, "0", "1")?;
        let extent = sectors(number(offset, "a sector")?, number(size, "a number of sectors")?)?;
        events.request(time, plain(number(volume, "the number of a volume")?, op, extent));
        Ok(())
    }
}
