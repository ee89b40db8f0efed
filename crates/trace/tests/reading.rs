//! A reader's latencies, volumes, units, names, and standard streams.

mod common;

use std::io::Cursor;

use common::samples::{Sample, row};
use common::{Builder, COMPLETED, DISK, READ, VOLUME, WRITE, load_text, save};
use seekless_core::{Op, Record};
use seekless_trace::{ReadOptions, Reader, TimeUnit, Trace, load};

/// In nanoseconds, where known.
fn latency(record: &Record) -> Option<u64> {
    record.latency.known().map(|latency| latency.0)
}

fn latencies(trace: &Trace) -> Vec<Option<u64>> {
    trace.records.iter().map(latency).collect()
}

fn answered() -> ReadOptions {
    ReadOptions { latencies: true, ..ReadOptions::default() }
}

#[test]
fn latencies_that_stand_with_the_request_are_known_at_once() {
    let known: [(&str, &[Option<u64>]); 5] = [
        ("msr", &[Some(5_200), Some(900)]),
        ("blkreplay", &[Some(0), None, None]),
        ("systor17", &[Some(100_000_000), None]),
        ("biosnoop", &[Some(500_000), Some(250_000)]),
        ("disksim-validate", &[Some(663_000), Some(100_250)]),
    ];
    for (format, expected) in known {
        let trace = load_text("latency", Sample::of(format).content);
        assert_eq!(latencies(&trace), expected, "{format}");
    }
}

#[test]
fn latencies_from_completions_are_known_on_request() {
    let text = Sample::of("blkparse").content;
    let file = save("answers", text.as_bytes());
    assert_eq!(latencies(&load(&[&file], &ReadOptions::default()).unwrap()), [None; 3]);
    assert_eq!(latencies(&load(&[&file], &answered()).unwrap()), [Some(200), None, None]);
}

fn done(trace: Builder, time: u64, at: (u64, u32), kind: u32) -> Builder {
    trace.action(time, at, COMPLETED | kind, 0, DISK)
}

#[test]
fn an_answer_is_of_all_that_were_merged_and_of_the_earlier_of_two() {
    let mut trace = Builder::default().read(0, 0, 4096, 1).read(10, 8, 4096, 1).write(20, 100, 512, 2);
    trace = trace.write(30, 100, 512, 3).read(40, 4096, 4096, 4);
    trace = done(trace, 1_000, (0, 8192), READ);
    trace = done(trace, 2_000, (100, 512), WRITE);
    trace = done(trace, 5_000, (100, 512), WRITE);
    // Never requested.
    trace = done(trace, 6_000, (9_999, 512), WRITE);
    let read = load(&[trace.save("merged")], &answered()).unwrap();
    assert_eq!(latencies(&read), [Some(1_000), Some(990), Some(1_980), Some(4_970), None]);
    assert!(read.records.is_sorted_by_key(|record| record.time));
}

#[test]
fn a_trace_without_answers_is_the_same_with_and_without_waiting_for_them() {
    let requests =
        (0..200_000_u64).fold(Builder::default(), |trace, n| trace.read(n * 1_000, n * 8, 4096, 7));
    // One more, and its completion, after waiting was given up.
    let requests = done(requests.read(200_000_000, 0, 4096, 7), 200_000_500, (0, 4096), READ);
    let again = done(requests.read(200_001_000, 0, 4096, 7), 200_001_700, (0, 4096), READ);
    let file = again.save("no-answers");
    let [plain, waited] =
        [ReadOptions::default(), answered()].map(|options| load(&[&file], &options).unwrap());
    assert_eq!(plain.records.len(), 200_002);
    let rows = |trace: &Trace| trace.records.iter().map(row).collect::<Vec<_>>();
    assert_eq!(rows(&plain), rows(&waited));
    assert_eq!(latencies(&waited)[199_999..], [None, None, Some(700)]);
}

#[test]
fn a_fleets_volumes_are_distinguished_across_its_files() {
    let files = [
        save("fleet-a", b"1000,web,0,Read,0,512,1\n3000,web,1,Read,512,512,1\n"),
        save("fleet-b", b"2000,db,0,Write,1024,512,1\n4000,web,1,Read,0,512,1\n"),
    ];
    let trace = load(&files, &ReadOptions::default()).unwrap();
    let names: Vec<String> = trace.records.iter().map(|record| trace.volumes.name(record.device)).collect();
    assert_eq!(names, ["web_0", "db_0", "web_1", "web_1"]);
    let only = |volume: &str| ReadOptions { volume: Some(volume.into()), ..ReadOptions::default() };
    let one = load(&files, &only("web_1")).unwrap();
    assert_eq!(one.records.iter().map(|record| record.extent.start.0).collect::<Vec<_>>(), [1, 0]);
    let none = load(&files, &only("web_2")).unwrap_err().to_string();
    assert_eq!(none, "the volume: found \"web_2\", expected one of web_0, web_1, db_0");
}

#[test]
fn devices_of_linux_are_called_by_their_numbers() {
    let trace = Builder::default().read(0, 0, 512, 1).action(10, (0, 512), 1 | WRITE, 1, VOLUME);
    let read = load(&[trace.save("two-devices")], &ReadOptions::default()).unwrap();
    let names: Vec<String> = read.records.iter().map(|record| read.volumes.name(record.device)).collect();
    assert_eq!(names, ["8,0", "253,0"]);
    let only = ReadOptions { volume: Some("253,0".into()), ..ReadOptions::default() };
    let one = load(&[trace.save("one-device")], &only).unwrap();
    assert_eq!(one.records.iter().map(|record| record.op).collect::<Vec<_>>(), [Op::Write]);
}

#[test]
fn undefined_units_are_given_by_options() {
    let fio =
        "fio version 3 iolog\n0 /dev/x add\n5 /dev/x open\n7 /dev/x read 0 512\n9 /dev/x read 512 512\n";
    let gap = |time_unit| {
        let options = ReadOptions { time_unit, ..ReadOptions::default() };
        load(&[save("unit", fio.as_bytes())], &options).unwrap().records[1].time.0
    };
    assert_eq!((gap(None), gap(Some(TimeUnit::Milli)), gap(Some(TimeUnit::Nano))), (2_000, 2_000_000, 2));
    let spc = "0,10,4096,r,0\n";
    let start = |sector_bytes| {
        let options = ReadOptions { sector_bytes, ..ReadOptions::default() };
        load(&[save("sectors", spc.as_bytes())], &options).map(|trace| trace.records[0].extent.start.0)
    };
    assert_eq!((start(None).unwrap(), start(Some(4096)).unwrap()), (10, 80));
    let refused = start(Some(1000)).unwrap_err().to_string();
    assert!(refused.contains("found 1000, expected 512, 1024, 2048 or 4096"), "{refused}");
    let reported = ReadOptions { time_unit: Some(TimeUnit::Milli), ..ReadOptions::default() };
    let refused = load(&[save("told", b"1,W,0,4096,1\n")], &reported).unwrap_err().to_string();
    assert!(refused.contains("the unit of times: found ms, expected none"), "{refused}");
}

#[test]
fn a_stream_is_read_as_a_file_is() {
    let text = Sample::of("msr").content;
    let from_file = load_text("stream", text).records;
    for bytes in [text.as_bytes().to_vec(), common::xz(text.as_bytes())] {
        let stream = Reader::from_stream("stream", Cursor::new(bytes), &ReadOptions::default()).unwrap();
        assert_eq!(stream.map(Result::unwrap).collect::<Vec<_>>(), from_file);
    }
    let empty = Reader::from_stream("nothing", Cursor::new(Vec::new()), &ReadOptions::default());
    let error = empty.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("nothing, byte 0: found an empty file, expected a trace"), "{error}");
}
