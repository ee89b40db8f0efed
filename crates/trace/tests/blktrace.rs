//! The blktrace reader on handmade traces: the meaning of each kind of record, and the error of each kind of damage.

mod common;

use common::*;
use seekless_core::{Extent, Nanos, Op, Record, record::Flags};
use seekless_trace::{ReadOptions, Reader, Trace, TraceError, load};

fn rows(trace: &Trace) -> Vec<(u64, Op, u64, u64)> {
    trace.records.iter().map(|r| (r.time.0, r.op, r.extent.start.0, r.extent.sectors)).collect()
}

fn names(trace: &Trace) -> Vec<&str> {
    trace.records.iter().map(|r| trace.names.get(r.origin.name)).collect()
}

fn error(trace: &Builder, name: &str) -> String {
    load(&[trace.save(name)], &ReadOptions::default()).unwrap_err().to_string()
}

#[test]
fn both_byte_orders_read_the_same() {
    let build = |empty: Builder| {
        empty.name(90, 7, "git").read(100, 800, 4096, 7).write(350, 1 << 33, 512, 7).action(
            400,
            (0, 0),
            QUEUED | WRITE | FLUSH,
            7,
            DISK,
        )
    };
    let little = load(&[build(Builder::default()).save("little")], &ReadOptions::default()).unwrap();
    let big = load(&[build(Builder::big_endian()).save("big")], &ReadOptions::default()).unwrap();
    assert_eq!(little.records, big.records);
    assert_eq!(rows(&big), [(0, Op::Read, 800, 8), (250, Op::Write, 1 << 33, 1), (300, Op::Flush, 0, 0)]);
    assert_eq!(names(&big), ["git"; 3]);
    assert_eq!((big.reads(), big.writes(), big.flushes(), big.discards()), (1, 1, 1, 0));
    assert_eq!(big.end_sector(), (1 << 33) + 1);
    assert_eq!(big.devices()[0].device, DISK);
}

#[test]
fn only_queue_events_are_requests() {
    let trace = Builder::default()
        .read(1, 8, 4096, 1)
        .action(2, (8, 4096), COMPLETED | READ, 0, DISK)
        .action(3, (0, 36), QUEUED | PASSTHROUGH | READ, 1, DISK)
        .action(4, (8, 4096), QUEUED, 1, DISK)
        .action(5, (16, 8192), QUEUED | WRITE | DISCARD, 1, DISK);
    let trace = load(&[trace.save("only-queue")], &ReadOptions::default()).unwrap();
    assert_eq!(rows(&trace), [(0, Op::Read, 8, 8), (4, Op::Discard, 16, 16)]);
}

#[test]
fn flags_come_from_the_category() {
    let all = QUEUED | WRITE | FLUSH | SYNC | META | AHEAD | FUA;
    let trace = Builder::default().action(1, (8, 512), all, 1, DISK).action(
        2,
        (8, 0),
        QUEUED | WRITE | FLUSH | SYNC,
        1,
        DISK,
    );
    let trace = load(&[trace.save("flags")], &ReadOptions::default()).unwrap();
    let every = [Flags::SYNC, Flags::META, Flags::AHEAD, Flags::FUA, Flags::PREFLUSH];
    assert_eq!(trace.records[0].flags, every.iter().fold(Flags::default(), |all, flag| all.with(*flag)));
    assert_eq!((trace.records[1].flags, trace.records[1].extent), (Flags::SYNC, Extent::default()));
}

#[test]
fn a_name_noted_on_another_cpu_counts_from_its_instant() {
    let one = Builder::default()
        .read(100, 0, 512, 7)
        .read(200, 0, 512, 7)
        .read(300, 0, 512, 7)
        .read(400, 0, 512, 9);
    let other = Builder::default().name(200, 7, "sh").name(250, 7, "git").name(500, 9, "late");
    let paths = [one.save("names.blktrace.0"), other.save("names.blktrace.1")];
    let trace = load(&paths, &ReadOptions::default()).unwrap();
    // A later name may be another program's: it does not apply backwards.
    assert_eq!(names(&trace), ["?", "sh", "git", "?"]);
    let alone = load(&paths[..1], &ReadOptions::default()).unwrap();
    assert_eq!(names(&alone), ["?"; 4]);
}

#[test]
fn a_note_without_a_time_counts_from_its_place() {
    let trace =
        Builder::default().name(0, 7, "sh").read(100, 0, 512, 7).name(0, 7, "git\x1b").read(200, 0, 512, 7);
    let trace = load(&[trace.save("timeless")], &ReadOptions::default()).unwrap();
    assert_eq!(names(&trace)[1], "git?", "and no control characters");
    // The second note has the first request's time, and names come first within an instant.
    assert_eq!(names(&trace)[0], "git?");
}

#[test]
fn cpus_are_merged_by_time_and_ties_by_their_order() {
    let zero = Builder::default().read(100, 0, 512, 1).read(300, 1, 512, 1).read(300, 2, 512, 1);
    let one = Builder::default().read(50, 3, 512, 1).read(300, 4, 512, 1);
    zero.save("merge.blktrace.0");
    save("merge.blktrace.1.xz", &xz(&one.bytes));
    save("merge.blktrace.2", b"");
    let base = folder().join("merge");
    let trace = load(&[&base], &ReadOptions::default()).unwrap();
    let starts: Vec<u64> = trace.records.iter().map(|r| r.extent.start.0).collect();
    assert_eq!(starts, [3, 0, 1, 2, 4]);
    assert_eq!(trace.sources.len(), 3);
    assert!(trace.warnings[0].contains("merge.blktrace.2") && trace.warnings[0].contains("empty"));
    assert_eq!(
        load(&[base.with_extension("blktrace")], &ReadOptions::default()).unwrap().records,
        trace.records
    );
}

fn stacked(volume_traced: bool) -> Builder {
    let mut trace = Builder::default();
    for n in 0..3 {
        let time = n * 100;
        if volume_traced {
            trace = trace.action(time, (n * 8, 4096), QUEUED | READ, 1, VOLUME);
        }
        trace = trace
            .remap(time + 1, (VOLUME, n * 8), (PARTITION, n * 8 + 384), 4096)
            .action(time + 1, (4, 512), COMPLETED | READ, 0, DISK)
            .remap(time + 2, (PARTITION, n * 8 + 384), (DISK, n * 8 + 2432), 4096)
            .action(time + 3, (n * 8 + 2432, 4096), QUEUED | READ, 1, DISK);
    }
    trace.read(1000, 9999, 512, 2)
}

#[test]
fn a_request_traced_at_two_levels_counts_at_the_upper() {
    let trace = load(&[stacked(true).save("stacked")], &ReadOptions::default()).unwrap();
    let where_to: Vec<(u32, u64)> = trace.records.iter().map(|r| (r.device, r.extent.start.0)).collect();
    assert_eq!(where_to, [(VOLUME, 0), (VOLUME, 8), (VOLUME, 16), (DISK, 9999)]);
    assert!(trace.warnings.iter().any(|warning| warning.contains("3 requests")), "{:?}", trace.warnings);
    assert!(trace.warnings.iter().any(|warning| warning.contains("2 devices (3 on 253,0, 1 on 8,0)")));
    let alone = load(&[stacked(false).save("disk-alone")], &ReadOptions::default()).unwrap();
    assert!(alone.records.iter().all(|r| r.device == DISK));
    assert_eq!((alone.records.len(), alone.warnings.len()), (4, 0));
}

#[test]
fn a_remap_may_carry_a_cgroup_and_must_carry_itself() {
    let mut payload = vec![0; 8];
    payload.extend(remap_payload((VOLUME, 8), DISK));
    let build = |payload: &[u8]| {
        Builder::default()
            .action(1, (8, 4096), QUEUED | READ | CGROUP, 1, VOLUME)
            .raw(0x6561_7407, 2, (80, 4096), REMAPPED | READ | CGROUP, 1, DISK, payload)
            .action(3, (80, 4096), QUEUED | READ, 1, DISK)
    };
    assert_eq!(load(&[build(&payload).save("cgroup")], &ReadOptions::default()).unwrap().records.len(), 1);
    let error = error(&build(&payload[..20]), "short-remap");
    assert!(error.contains("byte 48") && error.contains("20 bytes") && error.contains("24 bytes"), "{error}");
}

#[test]
fn a_little_back_in_time_is_put_right_a_lot_is_an_error() {
    let little = Builder::default().read(100, 0, 512, 1).read(50, 1, 512, 1).read(150, 2, 512, 1);
    let trace = load(&[little.save("back-little")], &ReadOptions::default()).unwrap();
    assert_eq!(rows(&trace)[0], (0, Op::Read, 1, 1));
    assert!(trace.records.is_sorted_by_key(|r| r.time));
    let mut long = Builder::default();
    for time in 1000..3000 {
        long = long.read(time, 0, 512, 1);
    }
    let error = error(&long.read(999, 0, 512, 1), "back-far");
    assert!(
        error.contains("byte 96000") && error.contains("999 ns") && error.contains("or later"),
        "{error}"
    );
}

#[test]
fn a_stream_gives_the_records_before_an_error_then_ends() {
    let trace =
        Builder::default().read(1, 0, 512, 1).read(2, 8, 512, 1).raw(0x1234_5678, 3, (0, 0), 0, 0, 0, &[]);
    let mut reader = Reader::open(&[trace.save("foreign-middle")], &ReadOptions::default()).unwrap();
    let times: Vec<Nanos> =
        reader.by_ref().take(2).map(|record: Result<Record, TraceError>| record.unwrap().time).collect();
    assert_eq!(times, [Nanos(0), Nanos(1)]);
    let error = reader.next().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("foreign-middle, byte 96: found bytes 0x78563412, expected a blktrace record"),
        "{error}"
    );
    assert!(reader.next().is_none());
}

#[test]
fn a_trace_cut_short_is_read_with_a_warning() {
    let whole = Builder::default().read(1, 0, 512, 1).name(2, 1, "git").read(3, 8, 512, 1);
    for (cut, kept, need) in [
        (150, 1, "38 bytes of a record, expected 48"),
        (100, 1, "52 bytes of a record, expected 64"),
        (50, 1, "2 bytes of a record, expected 48"),
    ] {
        let trace =
            load(&[save(&format!("cut-{cut}"), &whole.bytes[..cut])], &ReadOptions::default()).unwrap();
        assert_eq!(trace.records.len(), kept);
        assert!(
            trace.warnings[0].contains("cut short") && trace.warnings[0].contains(need),
            "{:?}",
            trace.warnings
        );
    }
}

#[test]
fn a_compressed_trace_cut_short_is_read_with_a_warning() {
    let mut whole = Builder::default();
    for n in 0..20_000_u64 {
        whole = whole.read(n, n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20, 4096, 1);
    }
    let mut bytes = xz(&whole.bytes);
    bytes.truncate(bytes.len() / 2);
    let trace = load(&[save("cut.xz", &bytes)], &ReadOptions::default()).unwrap();
    assert!(!trace.records.is_empty() && trace.records.len() < 20_000);
    assert!(
        trace.warnings[0].contains("cut.xz, byte") && trace.warnings[0].contains("stops early"),
        "{:?}",
        trace.warnings
    );
}

#[test]
fn a_file_that_is_no_trace_is_an_error() {
    let text = load(&[save("text", b"foreign text\n")], &ReadOptions::default()).unwrap_err().to_string();
    assert!(
        text.contains("byte 0: found \"foreign text\", expected a trace in one of the formats blktrace"),
        "{text}"
    );
    let bytes = load(&[save("bytes", &[7; 64])], &ReadOptions::default()).unwrap_err().to_string();
    assert!(bytes.contains("byte 0: found bytes 0x07070707, expected a trace in one of"), "{bytes}");
    let empty = load(&[save("empty", b"")], &ReadOptions::default()).unwrap_err().to_string();
    assert!(empty.contains("found an empty file, expected a trace"), "{empty}");
    let tiny = load(&[save("tiny", b"\x07t")], &ReadOptions::default()).unwrap_err().to_string();
    assert!(tiny.contains("only 2 bytes (0x0774)"), "{tiny}");
    let newer = Builder::default().raw(0x6561_7409, 1, (0, 512), QUEUED | READ, 1, DISK, &[]);
    let newer = error(&newer, "newer");
    assert!(
        newer.contains("found blktrace version 9") && newer.contains("expected blktrace version 7 or 8"),
        "{newer}"
    );
    let mut mixed = Builder::default().read(1, 0, 512, 1);
    mixed.big_endian = true;
    let mixed = error(&mixed.read(2, 0, 512, 1), "mixed");
    assert!(mixed.contains("byte 48") && mixed.contains("byte order"), "{mixed}");
    let far = error(&Builder::default().read(1, u64::MAX, 4096, 1), "far");
    assert!(far.contains("sector 18446744073709551615") && far.contains("byte 0"), "{far}");
    let gone = load(&["/nonexistent/trace"], &ReadOptions::default()).unwrap_err().to_string();
    assert!(gone.contains("expected a file"), "{gone}");
    assert!(load(&Vec::<std::path::PathBuf>::new(), &ReadOptions::default()).is_err());
}

#[test]
fn version_8_decodes_like_version_7() {
    for big_endian in [false, true] {
        let build = |mut trace: Builder| {
            trace = trace.name(5, 7, "git").read(10, 100, 4096, 7).write(20, 200, 512, 7);
            trace = trace.action(25, (0, 0), QUEUED | WRITE | FLUSH | SYNC, 7, VOLUME);
            trace = trace.action(29, (8, 4096), QUEUED | READ, 7, VOLUME);
            trace.remap(30, (VOLUME, 8), (DISK, 2056), 4096).read(31, 2056, 4096, 7)
        };
        let old =
            load(&[build(Builder { big_endian, ..Builder::default() }).save("v7")], &ReadOptions::default())
                .unwrap();
        let bytes = build(Builder { big_endian, v8: true, ..Builder::default() });
        let new = load(&[bytes.save("v8")], &ReadOptions::default()).unwrap();
        assert_eq!(old.records.len(), 4);
        assert_eq!((&new.records, &new.warnings, new.format), (&old.records, &old.warnings, "blktrace"));
        let cut =
            load(&[save("v8-cut", &bytes.bytes[..bytes.bytes.len() - 10])], &ReadOptions::default()).unwrap();
        assert!(cut.warnings[0].contains("54 bytes of a record, expected 64"), "{:?}", cut.warnings);
    }
}
