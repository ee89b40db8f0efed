//! Written traces are read back exactly as far as the target represents them: arbitrary records, a real trace, and
//! compressed ones.

mod common;

use std::fs;
use std::path::Path;

use common::*;
use proptest::collection::vec;
use proptest::prelude::*;
use seekless_core::{Extent, Flags, Latency, NameId, Names, Nanos, Op, Origin, ProcessId, Record, StreamId};
use seekless_trace::write::{Output, Provenance, TARGETS, Tables, Target, VolumeIds, Writer, Written};
use seekless_trace::{Naming, ReadOptions, Trace, Volumes, load};

const PROCESSES: [&str; 5] = ["git", "kworker/1:2", "a [b] c", "", "?"];

/// Records with values that no format represents; for each format's limits, see its target.
fn records() -> impl Strategy<Value = Vec<Record>> {
    let op = prop_oneof![
        4 => Just(Op::Read),
        4 => Just(Op::Write),
        1 => Just(Op::Flush),
        1 => Just(Op::Discard),
        1 => Just(Op::WriteZeroes)
    ];
    let gap = prop_oneof![Just(0_u64), 1..5_000_u64, 1..2_000_000_000_u64, Just(70_000_000_000)];
    // Few places, so that requests overlap in flight, and the far end of the address range.
    let start = prop_oneof![0_u64..40, any::<u64>().prop_map(|start| start % (u64::MAX / 512 - 40))];
    let latency = prop_oneof![
        Just(Latency::UNKNOWN),
        (0_u64..3_000_000_000).prop_map(|took| Latency::of(Nanos(took))),
        any::<u64>().prop_map(|took| Latency::of(Nanos(took)))
    ];
    let device = prop_oneof![Just(DISK), Just(VOLUME), 0_u32..3];
    let request = (gap, device, op, start, 1_u64..20);
    let how = (0_u8..32, 0_u32..4, 0_u32..5, 0_u32..2, latency);
    vec((request, how), 1..60).prop_map(|all| {
        let mut now = 0;
        let mut records: Vec<Record> = Vec::new();
        for ((gap, device, op, start, sectors), (flags, process, name, stream, latency)) in all {
            now += gap;
            // A process has one name at an instant; names are made in the order of their numbers below.
            let earlier = records.iter().rev().take_while(|earlier| earlier.time.0 == now);
            let same = earlier.filter(|earlier| earlier.origin.process.0 == process).last();
            let name = same.map_or(NameId(name), |same| same.origin.name);
            let extent = if op == Op::Flush { Extent::default() } else { Extent::new(start, sectors) };
            records.push(Record {
                time: Nanos(now),
                device,
                op,
                extent,
                flags: Flags(flags),
                origin: Origin { process: ProcessId(process), name, stream: StreamId(stream) },
                latency,
            });
        }
        records
    })
}

fn names() -> Names {
    let mut names = Names::default();
    for name in PROCESSES.iter().take(4) {
        names.intern(name);
    }
    names
}

fn write(path: &Path, target: &'static Target, records: &[Record], tables: Tables) -> Written {
    let output = Output::file(path, true).unwrap();
    let mut writer = Writer::new(target, output, &Provenance::default()).unwrap();
    for record in records {
        writer.record(record, tables).unwrap();
    }
    writer.finish().unwrap()
}

fn read(path: &Path) -> Trace {
    load(&[path], &ReadOptions { latencies: true, ..ReadOptions::default() }).unwrap()
}

/// The part of `records` that the target represents, with times from the first one.
fn kept(target: &Target, records: &[Record]) -> Vec<Record> {
    let mut kept: Vec<Record> = records.iter().filter_map(|record| target.holds.keep(record)).collect();
    let start = kept.first().map_or(Nanos::ZERO, |first| first.time);
    for record in &mut kept {
        record.time = record.time - start;
    }
    kept
}

/// Asserts that `back` is what `target` represents of `records`.
fn same(target: &Target, records: &[Record], tables: Tables, back: &Trace, written: &Written) {
    let kept = kept(target, records);
    assert_eq!(back.records.len(), kept.len());
    assert_eq!(written.records, kept.len() as u64);
    let mut unknown = 0;
    for (at, (is, was)) in back.records.iter().zip(&kept).enumerate() {
        let what = format!("{} record {at}: {is:?} was {was:?}", target.name);
        let plain = |record: &Record| (record.time, record.op, record.extent, record.flags);
        assert_eq!(plain(is), plain(was), "{what}");
        let numbers = |origin: Origin| (origin.process, origin.stream);
        assert_eq!(numbers(is.origin), numbers(was.origin), "{what}");
        assert_eq!(back.names.get(is.origin.name), tables.names.get(was.origin.name), "{what}");
        if is.latency != was.latency {
            assert_eq!(is.latency, Latency::UNKNOWN, "{what}");
            unknown += 1;
        }
        match target.holds.volumes {
            VolumeIds::Names => {
                assert_eq!(back.volumes.name(is.device), tables.volumes.name(was.device), "{what}");
            }
            VolumeIds::Numbers if target.name == "blkparse" => assert_eq!(is.device, was.device, "{what}"),
            VolumeIds::Numbers => {}
            VolumeIds::Nothing => assert_eq!(is.device, 0, "{what}"),
        }
    }
    // Other devices are other devices, whatever their numbers.
    if target.holds.volumes != VolumeIds::Nothing {
        let mut pairs: Vec<(u32, u32)> =
            back.records.iter().zip(&kept).map(|(is, was)| (is.device, was.device)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let distinct = |of: fn(&(u32, u32)) -> u32| {
            pairs.iter().map(of).collect::<std::collections::BTreeSet<u32>>().len()
        };
        assert_eq!((distinct(|pair| pair.0), distinct(|pair| pair.1)), (pairs.len(), pairs.len()));
    }
    let never = records.iter().filter_map(|record| Some((record, target.holds.keep(record)?)));
    let never = never.filter(|(record, kept)| record.latency != kept.latency).count() as u64;
    assert_eq!(written.losses.latencies_dropped, unknown + never);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_traces_are_read_back(records in records()) {
        let (names, volumes) = (names(), Volumes::default());
        let tables = Tables { names: &names, volumes: &volumes };
        for target in TARGETS {
            if kept(target, &records).is_empty() {
                continue;
            }
            let path = folder().join(format!("arbitrary{}", target.endings[0]));
            let written = write(&path, target, &records, tables);
            prop_assert_eq!(written.bytes, fs::metadata(&path).unwrap().len());
            let back = read(&path);
            prop_assert_eq!(back.format, target.name);
            same(target, &records, tables, &back, &written);
        }
    }
}

#[test]
fn a_real_trace_is_read_back() {
    let real = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/svnserver2");
    let trace = read(Path::new(real));
    let tables = Tables { names: &trace.names, volumes: &trace.volumes };
    for target in TARGETS {
        // One stands for all: they are compressed alike.
        let packings: &[&str] = if target.name == "disksim" { &["", ".gz", ".xz", ".zst"] } else { &[""] };
        let mut sizes = Vec::new();
        for packing in packings {
            let path = folder().join(format!("real{}{packing}", target.endings[0]));
            assert_eq!(Target::of_file(path.to_str().unwrap()).unwrap().name, target.name);
            let written = write(&path, target, &trace.records, tables);
            let back = read(&path);
            same(target, &trace.records, tables, &back, &written);
            sizes.push(written.bytes);
        }
        assert!(sizes.iter().skip(1).all(|size| *size * 2 < sizes[0]), "{sizes:?}");
    }
}

#[test]
fn losses_are_counted_and_reported() {
    let record = |op, sectors, flags, latency| Record {
        time: Nanos(1_234),
        device: DISK,
        op,
        extent: Extent::new(8, sectors),
        flags,
        origin: Origin { process: ProcessId(7), name: NameId(1), stream: StreamId::default() },
        latency,
    };
    let took = Latency::of(Nanos(5));
    let records = [
        record(Op::Read, 8, Flags::SYNC, took),
        record(Op::Discard, 8, Flags::default(), Latency::UNKNOWN),
        record(Op::Flush, 0, Flags::default(), Latency::UNKNOWN),
        record(Op::WriteZeroes, 8, Flags::default(), Latency::UNKNOWN),
        record(Op::Write, 0, Flags::default(), Latency::UNKNOWN),
    ];
    let (names, volumes) = (names(), Volumes::new(Naming::Linux));
    let tables = Tables { names: &names, volumes: &volumes };
    let reported = |name| {
        let path = folder().join(format!("losses-{name}"));
        write(&path, Target::named(name).unwrap(), &records, tables)
    };
    let disksim = reported("disksim");
    let losses = disksim.losses;
    assert_eq!((losses.flushes_left_out, losses.discards_left_out, losses.empty_left_out), (1, 1, 1));
    assert_eq!((losses.write_zeroes_as_writes, losses.flags_dropped, losses.latencies_dropped), (1, 1, 1));
    assert_eq!((losses.processes_dropped, losses.times_rounded, disksim.records), (2, 0, 2));
    let warned = |words: &str| disksim.warnings.iter().any(|warning| warning.contains(words));
    assert!(warned("1 flushes were left out") && warned("device 8,0 is device 0"), "{:?}", disksim.warnings);
    assert_eq!(reported("fio").losses.times_rounded, 4);
    let text = fs::read_to_string(folder().join("losses-fio")).unwrap();
    let expected = "fio version 3 iolog\n1 8,0 add\n1 8,0 open\n1 8,0 read 4096 4096\n1 8,0 trim 4096 4096\n1 8,0 sync 0 0\n1 8,0 write 4096 4096\n1 8,0 close\n";
    assert_eq!(text, expected);
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let folder = folder().join("whole");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("x.fio");
    let target = Target::named("fio").unwrap();
    let _ = fs::remove_file(&path);
    let listed = || fs::read_dir(&folder).unwrap().count();
    let writer = Writer::new(target, Output::file(&path, false).unwrap(), &Provenance::default()).unwrap();
    assert!(!path.exists() && listed() == 1);
    drop(writer);
    assert_eq!(listed(), 0);
    fs::write(&path, "mine").unwrap();
    let refused = Output::file(&path, false).err().unwrap();
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    let output = Output::file(&path, true).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    Writer::new(target, output, &Provenance::default()).unwrap().finish().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "fio version 3 iolog\n");
    assert_eq!(listed(), 1);
    // A destination that is not a file is written to, never replaced.
    Output::file(Path::new("/dev/null"), true).unwrap().finish().unwrap();
    assert!(!Path::new("/dev/null").is_file());
}
