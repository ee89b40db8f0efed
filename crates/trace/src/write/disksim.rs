//! `DiskSim`'s ascii format: `time device blkno bcount flags`.
//!
//! Units: milliseconds with six decimals, hence whole nanoseconds; sectors of 512 bytes; flags in hexadecimal, of which
//! bit 0 set is a read. The flags have two digits, so that the file is not recognized as one in bytes, with a 0 or a 1
//! there.
//!
//! A device is its number, except that `DiskSim` counts devices from zero: a Linux device number (major and minor)
//! becomes the smallest free number when its first request arrives, with a note. `DiskSim` keeps addresses in 31 bits:
//! larger ones are written, with a note.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use seekless_core::{Flags, Op, Record};

use super::{Capabilities, Encoded, Encoder, Output, Tables, Target, VolumeIds};

/// The entry in the table of targets.
pub const TARGET: Target = Target {
    name: "disksim",
    summary: "DiskSim ascii: milliseconds, device, sector, sectors, flags (bit 0: read)",
    endings: &[".disksim", ".dsim"],
    holds: Capabilities {
        time_ns: 1,
        ops: &[Op::Read, Op::Write],
        flags: Flags(0),
        flush_flags: Flags(0),
        processes: false,
        streams: false,
        latencies: false,
        volumes: VolumeIds::Numbers,
    },
    packs: true,
    open: |output, _| Ok(Box::new(DiskSim { output, numbers: Numbers::default(), far: 0 })),
};

const MILLISECOND: u64 = 1_000_000;
/// The first sector that `DiskSim` cannot address.
const FAR: u64 = 1 << 31;

/// The smallest number of a device with a major number other than zero.
const LARGE: u32 = 1 << 20;

struct DiskSim {
    output: Output,
    numbers: Numbers,
    /// Requests that end beyond the addresses of `DiskSim`.
    far: u64,
}

/// The numbers of the devices in the file.
#[derive(Default)]
struct Numbers {
    of: BTreeMap<u32, u32>,
    taken: BTreeSet<u32>,
    /// No number below is free.
    free: u32,
    notes: Vec<String>,
}

impl Numbers {
    fn of(&mut self, device: u32, tables: Tables) -> u32 {
        if let Some(&number) = self.of.get(&device) {
            return number;
        }
        let own = Some(device).filter(|own| *own < LARGE && !self.taken.contains(own));
        let number = own.unwrap_or_else(|| {
            while self.taken.contains(&self.free) {
                self.free += 1;
            }
            self.free
        });
        self.taken.insert(number);
        self.of.insert(device, number);
        if number != device {
            let name = tables.volumes.name(device);
            self.notes.push(format!("device {name} is device {number} in the file"));
        }
        number
    }
}

impl Encoder for DiskSim {
    fn record(&mut self, record: &Record, tables: Tables) -> io::Result<()> {
        let DiskSim { output, numbers, far } = self;
        let number = numbers.of(record.device, tables);
        *far += u64::from(record.extent.end().0 > FAR);
        let (whole, part) = (record.time.0 / MILLISECOND, record.time.0 % MILLISECOND);
        let (start, sectors) = (record.extent.start.0, record.extent.sectors);
        let read = u8::from(record.op == Op::Read);
        writeln!(output, "{whole}.{part:06} {number} {start} {sectors} {read:02x}")
    }

    fn finish(self: Box<Self>) -> io::Result<Encoded> {
        let mut notes = self.numbers.notes;
        if self.far > 0 {
            let far = self.far;
            notes.push(format!("{far} requests end beyond sector {FAR}, further than DiskSim addresses"));
        }
        Ok(Encoded { output: self.output, notes, latencies_dropped: 0 })
    }
}
