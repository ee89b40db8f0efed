//! The CSV of the MSR Cambridge traces: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Units: time in 100 ns since 1601 (Windows filetime), when the request was issued; offset and size in
//! bytes; type `Read` or `Write`. A device is `host << 20 | disk`, hosts numbered as they appear.
//! Faults: any text; more than [`MAX_HOSTS`] hosts are an error.

use super::fields::{self, Flaw, bytes, columns, direction, number};
use super::text::{Lines, Said, Text, plain, speaks};
use super::{Format, Sample};

/// Nanoseconds in a unit of Windows filetime.
const FILETIME: u64 = 100;
/// Far more than the 13 that were traced.
const MAX_HOSTS: usize = 256;

/// How the table of formats knows this one.
pub const FORMAT: Format = Format {
    name: "msr",
    summary: "MSR Cambridge CSV: filetime, host, disk, Read/Write, byte offset and size",
    sample: Sample::Description,
    detect: |head| speaks(head, Msr::default()),
    open: |content| Ok(Text::open(content, Msr::default())),
};

#[derive(Default)]
struct Msr {
    hosts: Vec<Box<str>>,
}

impl Msr {
    fn device(&mut self, host: &str, disk: u32) -> Result<u32, Flaw> {
        let known = self.hosts.iter().position(|known| **known == *host);
        let host_number = known.unwrap_or(self.hosts.len());
        if disk >= 1 << 20 || host_number >= MAX_HOSTS {
            let found = format!("disk {disk} of host number {host_number}");
            return Err(Flaw { found, expected: format!("disks below 2^20 of at most {MAX_HOSTS} hosts") });
        }
        if known.is_none() {
            self.hosts.push(host.into());
        }
        Ok((host_number as u32) << 20 | disk)
    }
}

impl Lines for Msr {
    fn line(&mut self, line: &str, said: &mut Said) -> Result<(), Flaw> {
        if said.line == 1 && line.starts_with("Timestamp,Hostname") {
            return Ok(());
        }
        let [time, host, disk, kind, offset, size, _response] =
            columns(line, line.split(','), "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime")?;
        let time = fields::time(time, FILETIME, "a Windows filetime")?;
        let op = direction(kind, "Read", "Write")?;
        let extent = bytes(number(offset, "an offset in bytes")?, number(size, "a size in bytes")?)?;
        let device = self.device(host, number(disk, "the number of a disk")?)?;
        said.request(time, plain(device, op, extent));
        Ok(())
    }
}
