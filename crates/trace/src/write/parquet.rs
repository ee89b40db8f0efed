//! Parquet: a row per request, in typed columns for polars, pandas and `DuckDB`; zstd.
//!
//! The columns and their units are in `schema`, beside the reader. The file's key-value metadata record its provenance:
//! the program, its options, the source files and their format, the units.
//!
//! Bounds: a row group of [`ROWS`] rows is buffered until it is full. The same records give the same bytes. Faults,
//! besides those of the output: a time of 2^63 ns (292 years) or more, which the column cannot represent; such a
//! latency is left out and counted.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use ::parquet::schema::types::ColumnPath;
use seekless_core::{NameId, Op, Record};
use serde_json::json;

use super::holds::ALL_FLAGS;
use super::{Capabilities, Encoded, Encoder, Output, Provenance, Tables, Target, VolumeIds};
use crate::format::parquet::schema;

/// The entry in the table of targets.
pub const TARGET: Target = Target {
    name: "parquet",
    summary: "Parquet, for polars, pandas and DuckDB (nanoseconds, sectors)",
    endings: &[".parquet"],
    holds: Capabilities {
        time_ns: 1,
        ops: &[Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes],
        flags: ALL_FLAGS,
        flush_flags: ALL_FLAGS,
        processes: true,
        streams: true,
        latencies: true,
        volumes: VolumeIds::Names,
    },
    packs: false,
    open,
};

/// As many as readers like to take at once: 14 MiB in memory.
const ROWS: usize = 1 << 17;
/// The default of `zstd`.
const ZSTD_LEVEL: i32 = 3;
/// The pandas type of latencies: whole, though some are missing.
const NULLABLE: &str = "Int64";

fn open(output: Output, provenance: &Provenance) -> io::Result<Box<dyn Encoder>> {
    let message = parse_message_type(schema::MESSAGE).map_err(io_error)?;
    // Times hardly differ from those before them, and repeat no more than places do.
    let time = ColumnPath::from("time_ns");
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).map_err(io_error)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_data_page_row_count_limit(ROWS)
        .set_key_value_metadata(Some(metadata(provenance)))
        .set_column_encoding(time, Encoding::DELTA_BINARY_PACKED);
    for plain in ["time_ns", "sector", "latency_ns"] {
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(plain), false);
    }
    let properties = Arc::new(properties.build());
    let file = SerializedFileWriter::new(output, Arc::new(message), properties).map_err(io_error)?;
    let (rows, words) = (Rows::default(), Words::default());
    Ok(Box::new(Parquet { file, rows, words, latencies_dropped: 0, begun: false }))
}

/// The file's metadata.
fn metadata(provenance: &Provenance) -> Vec<KeyValue> {
    let Provenance { sources, format, program, options } = provenance;
    let source = |(path, bytes): &(String, Option<u64>)| json!({ "path": path, "bytes": bytes });
    let sources: Vec<_> = sources.iter().map(source).collect();
    let latency = json!({
        "name": "latency_ns", "field_name": "latency_ns",
        "pandas_type": "int64", "numpy_type": NULLABLE, "metadata": null,
    });
    let pandas = json!({ "index_columns": [], "column_indexes": [], "columns": [latency] });
    [
        ("seekless.program", program.clone()),
        ("seekless.command", options.clone()),
        ("seekless.sources", json!(sources).to_string()),
        ("seekless.format", format.clone()),
        ("seekless.columns", schema::UNITS.to_owned()),
        ("pandas", pandas.to_string()),
    ]
    .into_iter()
    .map(|(key, value)| KeyValue::new(key.to_owned(), value))
    .collect()
}

struct Parquet {
    file: SerializedFileWriter<Output>,
    rows: Rows,
    words: Words,
    latencies_dropped: u64,
    /// Whether the naming of volumes has been written.
    begun: bool,
}

/// The rows of a row group, by columns.
#[derive(Default)]
struct Rows {
    times: Vec<i64>,
    volumes: Vec<ByteArray>,
    devices: Vec<i32>,
    ops: Vec<ByteArray>,
    sectors: Vec<i64>,
    counts: Vec<i64>,
    flags: [Vec<bool>; schema::FLAGS.len()],
    pids: Vec<i32>,
    processes: Vec<ByteArray>,
    streams: Vec<i32>,
    /// The known ones, and for each row whether its latency is known.
    latencies: Vec<i64>,
    known: Vec<i16>,
}

/// Words, each stored once: a clone of one is a pointer.
#[derive(Default)]
struct Words {
    volumes: BTreeMap<u32, ByteArray>,
    processes: BTreeMap<NameId, ByteArray>,
    ops: Vec<(Op, ByteArray)>,
}

impl Words {
    fn op(&mut self, op: Op) -> ByteArray {
        if self.ops.is_empty() {
            self.ops.extend(schema::OPS.map(|(word, op)| (op, ByteArray::from(word))));
        }
        self.ops.iter().find(|(known, _)| *known == op).map(|(_, word)| word.clone()).unwrap_or_default()
    }
}

impl Encoder for Parquet {
    fn record(&mut self, record: &Record, tables: Tables) -> io::Result<()> {
        let Parquet { rows, words, .. } = self;
        let Record { time, device, op, extent, flags, origin, latency } = *record;
        rows.times.push(signed("a time", time.0)?);
        let volume = || ByteArray::from(tables.volumes.name(device).into_bytes());
        rows.volumes.push(words.volumes.entry(device).or_insert_with(volume).clone());
        rows.devices.push(unsigned(device));
        rows.ops.push(words.op(op));
        rows.sectors.push(signed("a sector", extent.start.0)?);
        rows.counts.push(signed("a number of sectors", extent.sectors)?);
        for (column, (_, flag)) in rows.flags.iter_mut().zip(schema::FLAGS) {
            column.push(flags.has(flag));
        }
        rows.pids.push(unsigned(origin.process.0));
        let name = || ByteArray::from(tables.names.get(origin.name).as_bytes().to_vec());
        rows.processes.push(words.processes.entry(origin.name).or_insert_with(name).clone());
        rows.streams.push(unsigned(origin.stream.0));
        let took = latency.known().and_then(|took| i64::try_from(took.0).ok());
        self.latencies_dropped += u64::from(took.is_some() != latency.known().is_some());
        rows.known.push(i16::from(took.is_some()));
        rows.latencies.extend(took);
        if !self.begun {
            self.begun = true;
            let naming = tables.volumes.naming();
            let word =
                schema::NAMINGS.iter().find(|(_, known)| *known == naming).map_or("", |(word, _)| word);
            self.file.append_key_value_metadata(KeyValue::new(schema::VOLUMES.to_owned(), word.to_owned()));
        }
        if self.rows.times.len() == ROWS { self.group().map_err(io_error) } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> io::Result<Encoded> {
        if !self.rows.times.is_empty() {
            self.group().map_err(io_error)?;
        }
        let output = self.file.into_inner().map_err(io_error)?;
        Ok(Encoded { output, notes: Vec::new(), latencies_dropped: self.latencies_dropped })
    }
}

impl Parquet {
    /// Writes the rows as a row group.
    fn group(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows);
        let mut group = self.file.next_row_group()?;
        column::<Int64Type>(&mut group, &rows.times, None)?;
        column::<ByteArrayType>(&mut group, &rows.volumes, None)?;
        column::<Int32Type>(&mut group, &rows.devices, None)?;
        column::<ByteArrayType>(&mut group, &rows.ops, None)?;
        column::<Int64Type>(&mut group, &rows.sectors, None)?;
        column::<Int64Type>(&mut group, &rows.counts, None)?;
        for flags in &rows.flags {
            column::<BoolType>(&mut group, flags, None)?;
        }
        column::<Int32Type>(&mut group, &rows.pids, None)?;
        column::<ByteArrayType>(&mut group, &rows.processes, None)?;
        column::<Int32Type>(&mut group, &rows.streams, None)?;
        column::<Int64Type>(&mut group, &rows.latencies, Some(&rows.known))?;
        group.close()?;
        Ok(())
    }
}

/// A number in a signed column.
fn signed(what: &str, number: u64) -> io::Result<i64> {
    i64::try_from(number).map_err(|_| {
        let why = format!("found {what} of {number}, expected less than 2^63");
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// An unsigned number as Parquet stores it: its bits.
fn unsigned(number: u32) -> i32 {
    i32::from_le_bytes(number.to_le_bytes())
}

/// Writes the next column of a row group; for one with nulls, `known` gives the rows that have a value.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Output>,
    values: &[T::T],
    known: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let short = || ParquetError::General("the schema has fewer columns than are written".into());
    let mut column = group.next_column()?.ok_or_else(short)?;
    column.typed::<T>().write_batch(values, known, None)?;
    column.close()
}

/// The error of the output, where it is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    }
}
