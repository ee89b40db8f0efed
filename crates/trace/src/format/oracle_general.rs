//! The binary format `oracleGeneral` of cache simulators, for block traces.
//!
//! Records of 24 bytes back to back, little-endian: time u32, object u64, bytes u32, next access i64. Units: time in
//! whole seconds (the requests of a second are spread over it); the object is the request's first sector of 512 bytes.
//!
//! Limits of the format: reads and writes are not distinguished (all become reads, with a warning), and an object has
//! one size: converters give all requests that start at a sector the size of the first of them. It has no magic number:
//! a file is recognized if every whole record at its start is plausible: sizes of whole sectors, times that do not go
//! back, next accesses in the future. Faults: any bytes.

use seekless_core::{Nanos, Op, SECTOR_BYTES};

use super::binary::{Binary, RecordFormat, array, le32, le64};
use super::fields::{Flaw, SECOND, sectors};
use super::spread::Spread;
use super::text::{EventQueue, plain};
use super::{Format, Naming, OpenUnits, Sample};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "oracleGeneral",
    summary: "oracleGeneral of a block trace: whole seconds, sector, bytes, next access (binary)",
    sample: Sample::Real,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect,
    open: |content| Ok(Spread::over(Binary::open(content, 0, OracleGeneral))),
};

const RECORD_BYTES: usize = 24;

fn detect(head: &[u8]) -> bool {
    let mut before = 0;
    let makes_sense = |(index, record): (usize, &[u8])| {
        let (time, bytes) = (le32(record, 0), u64::from(le32(record, 12)));
        let next = i64::from_le_bytes(array(record, 16));
        let ahead = next == -1
            || next == i64::MAX
            || i64::try_from(index).is_ok_and(|index| (index + 1..1 << 48).contains(&next));
        let forward = time >= before;
        before = time;
        forward && ahead && bytes > 0 && bytes % SECTOR_BYTES == 0 && le64(record, 4) < 1 << 48
    };
    head.len() >= RECORD_BYTES && head.chunks_exact(RECORD_BYTES).enumerate().all(makes_sense)
}

struct OracleGeneral;

impl RecordFormat for OracleGeneral {
    fn length(&self, _: &[u8]) -> Result<usize, Flaw> {
        Ok(RECORD_BYTES)
    }

    fn record(&mut self, bytes: &[u8], events: &mut EventQueue) -> Result<(), Flaw> {
        let time = Nanos(u64::from(le32(bytes, 0)) * SECOND);
        let length = u64::from(le32(bytes, 12)).div_ceil(SECTOR_BYTES);
        events.request(time, plain(0, Op::Read, sectors(le64(bytes, 4), length)?));
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        vec![
            "the format does not tell writes from reads: all requests are taken for reads; \
             requests that start at the same sector may have been given one size"
                .into(),
        ]
    }
}
