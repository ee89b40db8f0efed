//! The binary form of the `CloudPhysics` traces, recorded below a hypervisor's virtual disks (vSCSI).
//!
//! Records back to back, little-endian. Version 1 (32 bytes): serial u32, bytes u32, segments u32, command
//! u16, version u16, sector u64, time u64. Version 2 (40 bytes): command u16, version u16, serial u32, bytes
//! u32, segments u32, sector u64, time u64, response time u64. The version is the high byte of its field.
//!
//! Units: sectors of 512 bytes, times in microseconds; the command is the SCSI operation code. A file is recognized if
//! every whole record at its start has its version. Faults: any bytes.

use seekless_core::{Extent, Latency, Nanos, Op, SECTOR_BYTES};

use super::binary::{Binary, RecordFormat, le16, le32, le64};
use super::fields::{Flaw, MICROSECOND, sectors};
use super::text::{EventQueue, plain};
use super::{Content, Decoder, Format, Naming, OpenUnits, Sample, TracedRequest, scsi};

/// The entry of version 1 in the table of formats.
pub const FORMAT_1: Format = Format {
    name: "vscsi-1",
    summary: "CloudPhysics vSCSI, version 1 (binary, 32 bytes a record)",
    sample: Sample::Real,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect: |head| V1.starts(head),
    open: |content| Ok(V1.open(content)),
};

/// The entry of version 2 in the table of formats.
pub const FORMAT_2: Format = Format {
    name: "vscsi-2",
    summary: "CloudPhysics vSCSI, version 2 (binary, 40 bytes a record)",
    sample: Sample::Description,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect: |head| V2.starts(head),
    open: |content| Ok(V2.open(content)),
};

/// The layout of a version.
#[derive(Clone, Copy)]
struct Layout {
    version: u16,
    record_bytes: usize,
    command: usize,
    length: usize,
}

const V1: Layout = Layout { version: 1, record_bytes: 32, command: 12, length: 4 };
const V2: Layout = Layout { version: 2, record_bytes: 40, command: 0, length: 8 };
/// Offset of the first sector, in both versions.
const SECTOR: usize = 16;
/// Offset of the time, in both versions.
const TIME: usize = 24;
/// Offset of the response time, in version 2 only.
const RESPONSE: usize = 32;

impl Layout {
    fn starts(self, head: &[u8]) -> bool {
        let mut whole = head.chunks_exact(self.record_bytes).peekable();
        // No command is wider than a byte, no disk larger than 2^48 sectors.
        let is = |record: &[u8]| {
            self.version_of(record) == self.version
                && le16(record, self.command) < 0x100
                && le64(record, SECTOR) < 1 << 48
        };
        whole.peek().is_some() && whole.all(is)
    }

    /// The version follows the command.
    fn version_of(self, record: &[u8]) -> u16 {
        le16(record, self.command + 2) >> 8
    }

    /// The latency; only version 2 has it.
    fn latency(self, record: &[u8]) -> Latency {
        let response = le64(record, RESPONSE).saturating_mul(MICROSECOND);
        if self.version == V2.version { Latency::of(Nanos(response)) } else { Latency::UNKNOWN }
    }

    fn open(self, content: Content) -> Box<dyn Decoder> {
        Binary::open(content, 0, Vscsi { layout: self, others: 0 })
    }
}

struct Vscsi {
    layout: Layout,
    others: u64,
}

impl RecordFormat for Vscsi {
    fn length(&self, _: &[u8]) -> Result<usize, Flaw> {
        Ok(self.layout.record_bytes)
    }

    fn record(&mut self, bytes: &[u8], events: &mut EventQueue) -> Result<(), Flaw> {
        let (layout, version) = (self.layout, self.layout.version_of(bytes));
        if version != layout.version {
            let found = format!("a vSCSI record of version {version}");
            return Err(Flaw { found, expected: format!("version {}", layout.version) });
        }
        let time = le64(bytes, TIME);
        let time = time.checked_mul(MICROSECOND).map(Nanos).ok_or_else(|| Flaw {
            found: format!("time {time} us"),
            expected: "a time below 2^64 ns".into(),
        })?;
        let sectors_long = u64::from(le32(bytes, layout.length)).div_ceil(SECTOR_BYTES);
        match scsi::operation(le16(bytes, layout.command)) {
            Some(Op::Flush) => events.request(time, plain(0, Op::Flush, Extent::default())),
            Some(op) => {
                let extent = sectors(le64(bytes, SECTOR), sectors_long)?;
                events
                    .request(time, TracedRequest { latency: layout.latency(bytes), ..plain(0, op, extent) });
            }
            None => self.others += 1,
        }
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        scsi::others(self.others)
    }
}
