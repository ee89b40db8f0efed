//! The CSV of the MSR Cambridge traces: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Units: time in 100 ns since 1601 (Windows filetime), when the request was issued; offset and size in bytes; type
//! `Read` or `Write`; the response time in 100 ns. Volumes are named as in the traces' own file names: `web_0`. Faults:
//! any text.

use super::fields::{self, Flaw, bytes, columns, direction, number, split, volume};
use super::text::{EventQueue, LineFormat, Text, plain, recognizes};
use super::{Format, Naming, OpenUnits, Sample, TracedRequest};
use crate::volumes::Volumes;

/// Nanoseconds per unit of Windows filetime.
const FILETIME: u64 = 100;

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "msr",
    summary: "MSR Cambridge CSV: filetime, host, disk, Read/Write, byte offset and size",
    sample: Sample::Description,
    volumes: Naming::Named,
    open_units: OpenUnits::NONE,
    detect: |head| recognizes(head, Msr::new(Volumes::default())),
    open: |content| {
        let msr = Msr::new(content.volumes.clone());
        Ok(Text::open(content, msr))
    },
};

struct Msr {
    volumes: Volumes,
    /// Host and disk of the line before, and their volume: most files have only one.
    latest: Option<(Box<str>, u32, u32)>,
}

impl Msr {
    fn new(volumes: Volumes) -> Msr {
        Msr { volumes, latest: None }
    }

    fn volume(&mut self, host: &str, disk: u32) -> Result<u32, Flaw> {
        match &self.latest {
            Some((known, number, device)) if **known == *host && *number == disk => Ok(*device),
            _ => {
                let device = volume(&self.volumes, &format!("{host}_{disk}"))?;
                self.latest = Some((host.into(), disk, device));
                Ok(device)
            }
        }
    }
}

impl LineFormat for Msr {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        if events.line == 1 && line.starts_with("Timestamp,Hostname") {
            return Ok(());
        }
        let [time, host, disk, kind, offset, size, response] =
            columns(line, split(line, b','), "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime")?;
        let time = fields::time(time, FILETIME, "a Windows filetime")?;
        let op = direction(kind, "Read", "Write")?;
        let extent = bytes(number(offset, "an offset in bytes")?, number(size, "a size in bytes")?)?;
        let disk: u32 = number(disk, "the number of a disk")?;
        let device = self.volume(host, disk)?;
        let latency = fields::latency(response, FILETIME, "a response time in units of 100 ns")?;
        events.request(time, TracedRequest { latency, ..plain(device, op, extent) });
        Ok(())
    }
}
