//! Parquet: row groups, metadata, files of other programs, and damage.

#![cfg(feature = "parquet")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{folder, save};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use proptest::collection::vec;
use proptest::prelude::*;
use seekless_core::record::Flags;
use seekless_core::{Extent, Latency, Names, Nanos, Op, Origin, ProcessId, Record};
use seekless_trace::write::{Output, Provenance, Tables, Target, Writer};
use seekless_trace::{Naming, ReadOptions, Reader, Trace, TraceError, Volumes, load};

fn path(name: &str) -> PathBuf {
    folder().join(name)
}

fn record(number: u64) -> Record {
    Record {
        time: Nanos(number * 1000),
        device: 8 << 20 | (number % 3) as u32,
        op: if number % 4 == 0 { Op::Write } else { Op::Read },
        extent: Extent::new(number * 7919 % 1_000_000, 8),
        flags: Flags((number % 32) as u8),
        origin: Origin { process: ProcessId(number as u32 % 50), ..Origin::default() },
        latency: if number % 5 == 0 { Latency::UNKNOWN } else { Latency::of(Nanos(number)) },
    }
}

fn write(name: &str, records: u64, naming: Naming) -> PathBuf {
    let path = path(name);
    let provenance = Provenance {
        sources: vec![("data/mail".into(), Some(7)), ("-".into(), None)],
        format: "blktrace".into(),
        program: "seekless 1".into(),
        options: "trace convert".into(),
    };
    let (names, volumes) = (Names::default(), Volumes::new(naming));
    let target = Target::named("parquet").unwrap();
    let mut writer = Writer::new(target, Output::file(&path, true).unwrap(), &provenance).unwrap();
    for number in 0..records {
        writer.record(&record(number), Tables { names: &names, volumes: &volumes }).unwrap();
    }
    assert_eq!(writer.finish().unwrap().records, records);
    path
}

fn read(path: &Path) -> Result<Trace, TraceError> {
    load(&[path], &ReadOptions::default())
}

#[test]
fn row_groups_are_bounded_and_the_file_has_its_provenance() {
    const RECORDS: u64 = 300_000;
    let path = write("groups.parquet", RECORDS, Naming::Linux);
    let trace = read(&path).unwrap();
    assert!(trace.records.iter().copied().eq((0..RECORDS).map(record)), "{:?}", trace.records.first());
    assert_eq!(trace.volumes.name(trace.records[1].device), "8,1");
    let file = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    let rows: Vec<i64> = file.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).collect();
    assert_eq!(rows, [131_072, 131_072, 37_856]);
    let said = file.metadata().file_metadata().key_value_metadata().unwrap();
    let said =
        |key: &str| said.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone()).unwrap();
    assert_eq!(said("seekless.sources"), r#"[{"bytes":7,"path":"data/mail"},{"bytes":null,"path":"-"}]"#);
    assert_eq!([said("seekless.format"), said("seekless.volumes")], ["blktrace", "linux"]);
    assert_eq!([said("seekless.program"), said("seekless.command")], ["seekless 1", "trace convert"]);
    assert!(said("seekless.columns").contains("latency_ns: from arrival to answer"));
    let again = write("again.parquet", RECORDS, Naming::Linux);
    assert!(fs::read(again).unwrap() == fs::read(path).unwrap(), "the same records give the same bytes");
}

#[test]
fn compressed_files_are_read_too() {
    let plain = write("plain.parquet", 1000, Naming::Numbered);
    let packed = save("whole.parquet.zst", &zstd::encode_all(&*fs::read(&plain).unwrap(), 1).unwrap());
    assert_eq!(read(&packed).unwrap().records, read(&plain).unwrap().records);
}

#[test]
fn files_of_one_recording_name_volumes_alike() {
    let linux = write("linux.parquet", 10, Naming::Linux);
    let numbered = write("numbered.parquet", 10, Naming::Numbered);
    assert_eq!(load(&[&linux, &path("linux.parquet")], &ReadOptions::default()).unwrap().records.len(), 10);
    let error = load(&[&linux, &numbered], &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("found volumes that are numbered, expected linux"), "{error}");
}

type Group<'a, 'b> = &'a mut SerializedRowGroupWriter<'b, fs::File>;

fn column<T: DataType>(group: Group, values: &[T::T], levels: Option<&[i16]>) {
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, levels, None).unwrap();
    column.close().unwrap();
}

/// A file with these columns, as written by another program.
fn foreign(name: &str, message: &str, columns: impl Fn(Group)) -> PathBuf {
    let path = path(name);
    let message = Arc::new(parse_message_type(message).unwrap());
    let file = fs::File::create(&path).unwrap();
    let mut writer =
        SerializedFileWriter::new(file, message, WriterProperties::builder().build().into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    columns(&mut group);
    group.close().unwrap();
    writer.close().unwrap();
    path
}

fn words<const N: usize>(words: [&str; N]) -> [ByteArray; N] {
    words.map(ByteArray::from)
}

#[test]
fn columns_may_be_nullable_of_other_widths_and_in_any_order() {
    let message =
        "message other { optional double latency_ns; optional binary op (STRING); optional boolean fua;
        required int32 sectors; optional float heat; optional int64 sector; optional int64 time_ns;
        optional binary volume (STRING); }";
    let path = foreign("foreign.parquet", message, |group| {
        column::<DoubleType>(group, &[1500.0, f64::NAN], Some(&[1, 1, 0]));
        column::<ByteArrayType>(group, &words(["read", "flush", "write"]), Some(&[1, 1, 1]));
        column::<BoolType>(group, &[true, false], Some(&[1, 0, 1]));
        column::<Int32Type>(group, &[8, 0, 16], None);
        column::<parquet::data_type::FloatType>(group, &[], Some(&[0, 0, 0]));
        column::<Int64Type>(group, &[64, 128], Some(&[1, 0, 1]));
        column::<Int64Type>(group, &[50, 60, 70], Some(&[1, 1, 1]));
        column::<ByteArrayType>(group, &words(["home"]), Some(&[1, 0, 0]));
    });
    let trace = read(&path).unwrap();
    let seen: Vec<_> =
        trace.records.iter().map(|r| (r.time.0, r.op, r.extent, r.latency.known(), r.flags)).collect();
    let none = Flags::default();
    let expected = [
        (0, Op::Read, Extent::new(64, 8), Some(Nanos(1500)), Flags::FUA),
        (10, Op::Flush, Extent::default(), None, none),
        (20, Op::Write, Extent::new(128, 16), None, none),
    ];
    assert_eq!(seen, expected);
    assert_eq!(trace.volumes.name(trace.records[0].device), "home");
}

#[test]
fn a_row_that_makes_no_sense_is_named_or_passed_over() {
    let message =
        "message other { required int64 time_ns; required binary op (STRING); required int64 sector;
        optional int64 sectors; }";
    let path = foreign("wrong.parquet", message, |group| {
        column::<Int64Type>(group, &[1, 2, -3, 4, 5], None);
        column::<ByteArrayType>(group, &words(["read", "erase", "read", "read", "write"]), None);
        column::<Int64Type>(group, &[8, 8, 8, 8, 8], None);
        column::<Int64Type>(group, &[8, 8, 8, 8], Some(&[1, 1, 1, 0, 1]));
    });
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("row 2, column op: found \"erase\", expected read, write, flush"), "{error}");
    let options = ReadOptions { skip_bad: true, ..ReadOptions::default() };
    let trace = load(&[&path], &options).unwrap();
    assert_eq!(trace.records.iter().map(|record| record.time.0).collect::<Vec<_>>(), [0, 4]);
    assert!(trace.warnings.iter().any(|warning| warning.contains("3 malformed records")));
}

#[test]
fn places_may_be_in_bytes() {
    let places = |message: &str| {
        foreign("bytes.parquet", message, |group| {
            column::<Int64Type>(group, &[1, 2], None);
            column::<ByteArrayType>(group, &words(["read", "write"]), None);
            column::<Int64Type>(group, &[4096, 1000], None);
            column::<Int64Type>(group, &[512, 100], None);
        })
    };
    let message = "message other { required int64 time_ns; required binary op (STRING); required int64 offset; required int64 size; }";
    let trace = read(&places(message)).unwrap();
    let extents: Vec<Extent> = trace.records.iter().map(|record| record.extent).collect();
    assert_eq!(extents, [Extent::new(8, 1), Extent::new(1, 2)]);
    let error = read(&places(&message.replace("size", "length"))).unwrap_err().to_string();
    assert!(error.contains("expected one called sector, or both offset and size, in bytes"), "{error}");
}

#[test]
fn a_table_that_is_no_trace_is_an_error_with_the_missing_column() {
    let reported =
        |name, message, columns: fn(Group)| read(&foreign(name, message, columns)).unwrap_err().to_string();
    let error = reported(
        "sales.parquet",
        "message sales { required int64 time_ns; required int64 price; }",
        |group| {
            column::<Int64Type>(group, &[1], None);
            column::<Int64Type>(group, &[1], None);
        },
    );
    assert!(error.contains("found the columns \"time_ns\", \"price\", expected one called op"), "{error}");
    let error = reported("lists.parquet", "message lists { repeated int64 time_ns; }", |group| {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[1], Some(&[1]), Some(&[0])).unwrap();
        column.close().unwrap();
    });
    assert!(error.contains("found column time_ns of type INT64 in lists, expected whole numbers"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_is_an_error_or_a_trace(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        near_the_end in any::<bool>(),
        cut in prop_oneof![4 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)],
    ) {
        let whole = path("damaged-not.parquet");
        if !whole.exists() {
            write("damaged-not.parquet", 500, Naming::Linux);
        }
        let mut bytes = fs::read(whole).unwrap();
        for (at, byte) in changes {
            let from = if near_the_end { bytes.len() - bytes.len() / 3 } else { 4 };
            let at = from + at.index(bytes.len() - from);
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(4 + cut.index(bytes.len() - 4));
        }
        match Reader::open(&[save("damaged.parquet", &bytes)], &ReadOptions::default()) {
            Err(error) => prop_assert!(error.to_string().contains("expected"), "{}", error),
            Ok(reader) => {
                let mut now = Nanos::ZERO;
                for record in reader {
                    match record {
                        Err(error) => prop_assert!(error.to_string().contains("expected"), "{}", error),
                        Ok(record) => {
                            prop_assert!(record.time >= now);
                            now = record.time;
                            let _ = record.extent.end().0 * 512;
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_dictionary_that_claims_more_than_it_holds_is_refused_before_room_is_made_for_it() {
    // Found by the fuzzer: the library allocated 671 million numbers.
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/hostile-dictionary.parquet");
    let error = read(&file).unwrap_err().to_string();
    assert!(error.contains("a dictionary of ") && error.contains(" values in "), "{error}");
}
