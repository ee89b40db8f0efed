//! Binary records of fixed length, back to back, given their fields: `u32le-page`, or
//! `u64le-time:us,u64le-offset:bytes,u32le-size:bytes,u8-op:0=read,skip3`.
//!
//! A field is its type, a dash, and a [`column`](super::column): types are `u8`, `u16le`, `u32le`, `u64le`, and `u16be`
//! and so on; `skipN` passes over N bytes. `page` and `sector` are addresses in pages and sectors. Faults: any
//! specification, any bytes.

use std::str::FromStr;

use super::binary::{Binary, RecordFormat, START_BYTES};
use super::column::{self, Column, Rows};
use super::fields::Flaw;
use super::text::EventQueue;
use super::{Content, Decoder, Format, Naming, OpenUnits, Sample, TimeUnit};
use crate::error::TraceError;

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "record",
    summary: "binary records of fixed length with any fields; needs --record",
    sample: Sample::Description,
    volumes: Naming::Named,
    open_units: OpenUnits { time: Some(TimeUnit::Second), sector: Some(512) },
    // It cannot be detected: an option has to name it.
    detect: |_| false,
    open,
};

/// Longest record, in bytes.
const MAX_BYTES: usize = 4096;

fn open(content: Content) -> Result<Box<dyn Decoder>, TraceError> {
    let fixed = content.options.record.clone().unwrap_or_default();
    let rows = Rows::new(fixed.columns.clone(), &content).map_err(|Flaw { found, expected }| {
        TraceError::Malformed { file: content.file.clone(), offset: 0, found, expected }
    })?;
    Ok(Binary::open(content, 0, Records { fixed, rows }))
}

/// The fields of a binary record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// Where the value of each column lies.
    places: Vec<Place>,
    columns: column::ColumnList,
    bytes: usize,
}

/// A number in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    at: usize,
    bytes: usize,
    big: bool,
}

impl Place {
    fn value(self, record: &[u8]) -> u64 {
        let bytes = record.get(self.at..self.at + self.bytes).unwrap_or_default();
        let digits = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        if self.big { bytes.iter().fold(0, digits) } else { bytes.iter().rev().fold(0, digits) }
    }
}

/// A field, before its place is known.
enum Field {
    Skip(usize),
    Number { bytes: usize, big: bool, column: Column },
}

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Field, String> {
        if let Some(bytes) = text.strip_prefix("skip") {
            let bytes = bytes.parse().ok().filter(|bytes| (1..=MAX_BYTES).contains(bytes));
            return bytes
                .map(Field::Skip)
                .ok_or_else(|| format!("found '{text}', expected skip1 to skip{MAX_BYTES}"));
        }
        let (kind, column) = text
            .split_once('-')
            .ok_or_else(|| format!("found '{text}', expected a type and a column, such as u32le-page"))?;
        let (bytes, big) = match kind {
            "u8" => (1, false),
            "u16le" => (2, false),
            "u32le" => (4, false),
            "u64le" => (8, false),
            "u16be" => (2, true),
            "u32be" => (4, true),
            "u64be" => (8, true),
            _ => {
                return Err(format!(
                    "found the type '{kind}', expected u8, u16le, u32le, u64le, u16be, u32be or u64be"
                ));
            }
        };
        let column = match column {
            "page" => "offset:pages",
            "sector" => "offset:sectors",
            column => column,
        };
        Ok(Field::Number { bytes, big, column: column.parse()? })
    }
}

impl FromStr for Fixed {
    type Err = String;

    fn from_str(spec: &str) -> Result<Fixed, String> {
        let mut fixed = Fixed::default();
        for field in column::parse::<Field>(spec.split(',').map(str::trim))? {
            match field {
                Field::Skip(bytes) => fixed.bytes += bytes,
                Field::Number { bytes, big, column } => {
                    fixed.places.push(Place { at: fixed.bytes, bytes, big });
                    fixed.columns.0.push(column);
                    fixed.bytes += bytes;
                }
            }
        }
        if !(START_BYTES..=MAX_BYTES).contains(&fixed.bytes) {
            let bytes = fixed.bytes;
            return Err(format!("found a record of {bytes} bytes, expected {START_BYTES} to {MAX_BYTES}"));
        }
        Ok(Fixed { columns: fixed.columns.check()?, ..fixed })
    }
}

struct Records {
    fixed: Fixed,
    rows: Rows,
}

impl RecordFormat for Records {
    fn length(&self, _: &[u8]) -> Result<usize, Flaw> {
        Ok(self.fixed.bytes)
    }

    fn record(&mut self, bytes: &[u8], events: &mut EventQueue) -> Result<(), Flaw> {
        self.rows.record(self.fixed.places.iter().map(|place| place.value(bytes)), false, events)
    }

    fn warnings(&self) -> Vec<String> {
        self.rows.warnings()
    }
}
