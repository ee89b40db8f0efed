//! A trace as an Arrow stream: a batch at a time is made of the records when a reader asks for it, and is the reader's
//! own from then on.
//!
//! Units: nanoseconds and bytes. Words are dictionaries, so that a data frame has categories and no copies of texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int8Array, Int32Array, Int64Array, RecordBatch,
    RecordBatchReader, StringArray, UInt32Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use seekless_core::{Flags, NameId, Op, Record};
use seekless_trace::Trace;

/// Rows of a batch: as those of a row group in Parquet.
const ROWS: usize = 1 << 17;
/// Operations, in the order of their keys in [`Batches::op`].
const OPS: [&str; 5] = ["read", "write", "flush", "discard", "write_zeroes"];
/// The columns of flags.
const FLAGS: [(&str, Flags); 5] = [
    ("sync", Flags::SYNC),
    ("meta", Flags::META),
    ("ahead", Flags::AHEAD),
    ("fua", Flags::FUA),
    ("preflush", Flags::PREFLUSH),
];

/// The columns of a trace.
pub fn schema() -> SchemaRef {
    let words = |keys| DataType::Dictionary(Box::new(keys), Box::new(DataType::Utf8));
    let mut fields = vec![
        Field::new("time_ns", DataType::Int64, false),
        Field::new("volume", words(DataType::Int32), false),
        Field::new("device", DataType::UInt32, false),
        Field::new("op", words(DataType::Int8), false),
        Field::new("offset", DataType::Int64, false),
        Field::new("size", DataType::Int64, false),
    ];
    fields.extend(FLAGS.map(|(name, _)| Field::new(name, DataType::Boolean, false)));
    fields.extend([
        Field::new("pid", DataType::UInt32, false),
        Field::new("process", words(DataType::Int32), false),
        Field::new("stream", DataType::UInt32, false),
        Field::new("latency_ns", DataType::Int64, true),
    ]);
    Arc::new(Schema::new(fields))
}

/// The batches of a trace.
pub struct Batches {
    trace: Arc<Trace>,
    schema: SchemaRef,
    /// The key of each volume.
    volumes: BTreeMap<u32, i32>,
    volume_names: ArrayRef,
    process_names: ArrayRef,
    ops: ArrayRef,
    /// The next row.
    next: usize,
}

impl Batches {
    /// All batches of a trace.
    pub fn new(trace: Arc<Trace>) -> Batches {
        let mut volumes = BTreeMap::new();
        let (mut names, mut latest, mut key) = (Vec::new(), None, 0);
        let mut named = 0;
        for record in &trace.records {
            named = named.max(record.origin.name.0);
            if latest != Some(record.device) {
                latest = Some(record.device);
                volumes.entry(record.device).or_insert_with(|| {
                    names.push(trace.volumes.name(record.device));
                    key += 1;
                    key - 1
                });
            }
        }
        let processes = (0..=named).map(|id| trace.names.get(NameId(id)));
        Batches {
            volumes,
            volume_names: Arc::new(StringArray::from(names)),
            process_names: Arc::new(StringArray::from_iter_values(processes)),
            ops: Arc::new(StringArray::from_iter_values(OPS)),
            schema: schema(),
            next: 0,
            trace,
        }
    }

    fn batch(&self, records: &[Record]) -> Result<RecordBatch, ArrowError> {
        let mut columns: Vec<ArrayRef> = vec![
            whole(records, "time_ns", |record| record.time.0)?,
            self.volume(records)?,
            small(records, |record| record.device),
            self.op(records)?,
            whole(records, "offset", |record| record.extent.start.0.saturating_mul(SECTOR))?,
            whole(records, "size", |record| record.extent.sectors.saturating_mul(SECTOR))?,
        ];
        columns.extend(FLAGS.map(|(_, flag)| -> ArrayRef {
            let flags: Vec<bool> = records.iter().map(|record| record.flags.has(flag)).collect();
            Arc::new(BooleanArray::from(flags))
        }));
        let latency = |record: &Record| record.latency.known().and_then(|took| i64::try_from(took.0).ok());
        columns.extend([
            small(records, |record| record.origin.process.0),
            self.process(records)?,
            small(records, |record| record.origin.stream.0),
            Arc::new(records.iter().map(latency).collect::<Int64Array>()),
        ]);
        RecordBatch::try_new(self.schema.clone(), columns)
    }

    fn volume(&self, records: &[Record]) -> Result<ArrayRef, ArrowError> {
        let (mut latest, mut key) = (None, 0);
        let keys = records.iter().map(|record| {
            if latest != Some(record.device) {
                latest = Some(record.device);
                key = self.volumes.get(&record.device).copied().unwrap_or_default();
            }
            key
        });
        let keys = Int32Array::from_iter_values(keys);
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, self.volume_names.clone())?))
    }

    fn op(&self, records: &[Record]) -> Result<ArrayRef, ArrowError> {
        let key = |record: &Record| match record.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush => 2,
            Op::Discard => 3,
            Op::WriteZeroes => 4,
        };
        let keys = Int8Array::from_iter_values(records.iter().map(key));
        Ok(Arc::new(DictionaryArray::<Int8Type>::try_new(keys, self.ops.clone())?))
    }

    fn process(&self, records: &[Record]) -> Result<ArrayRef, ArrowError> {
        // A key beyond 2^31 would be that of a name beyond the table's end, which is an error.
        let key = |record: &Record| i32::try_from(record.origin.name.0).unwrap_or(i32::MAX);
        let keys = Int32Array::from_iter_values(records.iter().map(key));
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, self.process_names.clone())?))
    }
}

/// Bytes of a sector.
const SECTOR: u64 = seekless_core::SECTOR_BYTES;

/// A column of numbers that have to be less than 2^63.
fn whole(records: &[Record], name: &str, number: impl Fn(&Record) -> u64) -> Result<ArrayRef, ArrowError> {
    let numbers: Result<Vec<i64>, _> = records.iter().map(|record| number(record).try_into()).collect();
    let large = |_| {
        ArrowError::InvalidArgumentError(format!("{name}: found 2^63 or more, expected a smaller number"))
    };
    Ok(Arc::new(Int64Array::from(numbers.map_err(large)?)))
}

fn small(records: &[Record], number: impl Fn(&Record) -> u32) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(records.iter().map(number)))
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let end = (self.next + ROWS).min(self.trace.records.len());
        let records = self.trace.records.get(self.next..end).filter(|records| !records.is_empty())?;
        let batch = self.batch(records);
        self.next = end;
        Some(batch)
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
