//! A batch of rows of a trace, by columns, and the request of each.
//!
//! Faults: a missing column (its values are unknown), null, numbers out of range, unknown words.

use ::parquet::data_type::ByteArray;
use seekless_core::record::Flags;
use seekless_core::{Extent, Latency, Nanos, Op, ProcessId, StreamId};

use super::super::TracedRequest;
use super::super::fields::{self, Flaw, bytes, quoted, sectors};
use super::super::text::{EventQueue, plain};
use super::column::{Kind, Values};
use super::schema;
use crate::volumes::Volumes;

/// The known columns: name, kind, whether required. Those of flags follow.
const COLUMNS: [(&str, Kind, bool); FIRST_FLAG] = [
    ("time_ns", Kind::Number, true),
    ("op", Kind::Text, true),
    ("sector", Kind::Number, false),
    ("sectors", Kind::Number, false),
    ("volume", Kind::Text, false),
    ("device", Kind::Number, false),
    ("pid", Kind::Number, false),
    ("process", Kind::Text, false),
    ("stream", Kind::Number, false),
    ("latency_ns", Kind::Number, false),
    ("offset", Kind::Number, false),
    ("size", Kind::Number, false),
];
const TIME: usize = 0;
const OP: usize = 1;
const SECTOR: usize = 2;
const SECTORS: usize = 3;
/// The name of the volume.
pub const VOLUME: usize = 4;
/// The number of the volume.
pub const DEVICE: usize = 5;
const PID: usize = 6;
const PROCESS: usize = 7;
const STREAM: usize = 8;
const LATENCY: usize = 9;
/// The place in bytes, instead of in sectors.
const OFFSET: usize = 10;
const SIZE: usize = 11;
const FIRST_FLAG: usize = 12;

/// The columns of which one pair is required.
pub const PLACES: [[usize; 2]; 2] = [[SECTOR, SECTORS], [OFFSET, SIZE]];

/// Number of known columns.
pub const FIELDS: usize = FIRST_FLAG + schema::FLAGS.len();

/// The known column of this number: name, kind, whether required.
pub fn field(number: usize) -> (&'static str, Kind, bool) {
    let flag = || (schema::FLAGS[number - FIRST_FLAG].0, Kind::Bit, false);
    COLUMNS.get(number).copied().unwrap_or_else(flag)
}

/// The flaw of a row, and its column.
pub type RowFlaw = (usize, Flaw);

/// A batch of rows.
#[derive(Default)]
pub struct Batch {
    /// The values of each column that the file has.
    pub columns: [Option<Values>; FIELDS],
}

impl Batch {
    /// Decodes a row into `events`. Volumes are those in the column of numbers if they are `numbered`.
    pub fn row(
        &self,
        row: usize,
        events: &mut EventQueue,
        volumes: &Volumes,
        numbered: bool,
    ) -> Result<(), RowFlaw> {
        let time = Nanos(self.needed(TIME, row)?);
        let op = self.op(row)?;
        let extent = if op == Op::Flush {
            Extent::default()
        } else if self.columns[SECTOR].is_some() && self.columns[SECTORS].is_some() {
            sectors(self.needed(SECTOR, row)?, self.needed(SECTORS, row)?).map_err(|flaw| (SECTORS, flaw))?
        } else {
            bytes(self.needed(OFFSET, row)?, self.needed(SIZE, row)?).map_err(|flaw| (SIZE, flaw))?
        };
        let device = if numbered { self.small(DEVICE, row)? } else { self.volume(row, volumes)? };
        let process = ProcessId(self.small(PID, row)?);
        let stream = StreamId(self.small(STREAM, row)?);
        let latency = self.whole(LATENCY, row, i64::MAX)?;
        let latency = latency.map_or(Latency::UNKNOWN, |took| Latency::of(Nanos(took)));
        if let Some(name) = self.text(PROCESS, row) {
            events.process(time, process, &String::from_utf8_lossy(name));
        }
        let flags = self.flags(row);
        events.request(time, TracedRequest { flags, process, stream, latency, ..plain(device, op, extent) });
        Ok(())
    }

    fn needed(&self, field: usize, row: usize) -> Result<u64, RowFlaw> {
        let null = || (field, Flaw { found: "null".into(), expected: "a whole number".into() });
        self.whole(field, row, i64::MAX)?.ok_or_else(null)
    }

    /// A number from 0 to `most`.
    fn whole(&self, field: usize, row: usize, most: i64) -> Result<Option<u64>, RowFlaw> {
        let Some(Values::Numbers(numbers)) = &self.columns[field] else { return Ok(None) };
        match numbers.get(row).copied().flatten() {
            Some(number) if !(0..=most).contains(&number) => {
                Err((field, Flaw { found: number.to_string(), expected: format!("0 to {most}") }))
            }
            number => Ok(number.map(|number| number as u64)),
        }
    }

    /// A number of 32 bits; zero where there is none.
    fn small(&self, field: usize, row: usize) -> Result<u32, RowFlaw> {
        Ok(self.whole(field, row, i64::from(u32::MAX))?.unwrap_or(0) as u32)
    }

    fn text(&self, field: usize, row: usize) -> Option<&[u8]> {
        let Some(Values::Texts(texts)) = &self.columns[field] else { return None };
        texts.get(row)?.as_ref().map(ByteArray::data)
    }

    fn volume(&self, row: usize, volumes: &Volumes) -> Result<u32, RowFlaw> {
        let name = String::from_utf8_lossy(self.text(VOLUME, row).unwrap_or_default());
        fields::volume(volumes, &name).map_err(|flaw| (VOLUME, flaw))
    }

    fn op(&self, row: usize) -> Result<Op, RowFlaw> {
        let word = self.text(OP, row);
        let known = schema::OPS.iter().find(|(known, _)| Some(known.as_bytes()) == word);
        known.map(|(_, op)| *op).ok_or_else(|| {
            let found = word.map_or("null".to_owned(), |word| quoted(&String::from_utf8_lossy(word)));
            (OP, Flaw { found, expected: schema::OPS.map(|(word, _)| word).join(", ") })
        })
    }

    fn flags(&self, row: usize) -> Flags {
        let columns = schema::FLAGS.iter().zip(&self.columns[FIRST_FLAG..]);
        let set = columns.filter(|(_, column)| match column {
            Some(Values::Bits(bits)) => bits.get(row).copied().flatten() == Some(true),
            _ => false,
        });
        set.fold(Flags::default(), |all, ((_, flag), _)| all.with(*flag))
    }
}
