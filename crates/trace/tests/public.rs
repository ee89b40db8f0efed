//! Traces from public collections, in the formats they came in. Skipped where they are not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use seekless_core::{Nanos, Op, Record};
use seekless_trace::{Trace, load};

fn shared(name: &str) -> Option<PathBuf> {
    let file = std::env::var_os("SEEKLESS_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from)
        .join("traces/public")
        .join(name);
    if !file.is_file() {
        eprintln!("skipped: no {name}");
        return None;
    }
    Some(file)
}

/// The trace, if it is there: in `format`, with as many records as it should have.
fn read(name: &str, format: &str, records: usize) -> Option<Trace> {
    let trace = load(&[shared(name)?]).unwrap();
    println!("{name}: {} records, {:?}", trace.records.len(), trace.warnings);
    assert_eq!((trace.format, trace.records.len()), (format, records), "{name}");
    assert!(trace.records.is_sorted_by_key(|record| record.time), "{name}");
    Some(trace)
}

fn hours(trace: &Trace) -> f64 {
    trace.records.last().map_or(0.0, |last| last.time.0 as f64 / 3.6e12)
}

#[test]
fn load_files_hold_an_hour_each() {
    for (name, records, writes) in [
        ("linux-webserver-2.load.gz", 269_007, 119_989),
        ("linux-mysql.load.gz", 80_794, 73_607),
        ("windows-shared-server.load.gz", 1_371, 1_371),
    ] {
        let Some(trace) = read(name, "blkreplay", records) else { return };
        assert!((hours(&trace) - 1.0).abs() < 0.01, "{name}: {} hours", hours(&trace));
        assert_eq!(trace.writes() + trace.flushes(), writes, "{name}");
    }
}

#[test]
fn ascii_traces_are_told_apart_by_their_numbers() {
    for (name, format, records, reads) in [
        ("disksim-ascii.trace.xz", "disksim", 100_000, 79_634),
        ("tpcc-small.trace.xz", "mqsim", 6_999, 4_381),
        ("wsrch-small.trace.xz", "mqsim", 24_783, 24_779),
        ("msr-cut-rw_20_80.trace.xz", "byte-ascii", 10_000, 2_020),
    ] {
        let Some(trace) = read(name, format, records) else { return };
        assert_eq!(trace.reads(), reads, "{name}");
    }
}

#[test]
fn the_first_record_of_each_is_where_it_says() {
    let Some(disksim) = read("disksim-ascii.trace.xz", "disksim", 100_000) else { return };
    let second = &disksim.records[1];
    assert_eq!((second.time, second.device), (Nanos(17_829_285 - 13_191_135), 20));
    assert_eq!((second.extent.start.0, second.extent.sectors, second.op), (576_560, 6, Op::Read));
    let Some(cut) = read("msr-cut-rw_20_80.trace.xz", "byte-ascii", 10_000) else { return };
    let second = &cut.records[1];
    assert_eq!((second.time, second.op), (Nanos(223_412_000), Op::Write));
    assert_eq!((second.extent.start.0, second.extent.sectors), (3_159_347_200 / 512, 72));
}

/// Every request but for its time.
fn requests(trace: &Trace) -> Vec<(Op, u64, u64)> {
    let request = |record: &Record| (record.op, record.extent.start.0, record.extent.sectors);
    trace.records.iter().map(request).collect()
}

#[test]
fn a_disk_reads_the_same_in_each_of_its_encodings() {
    let Some(vscsi) = read("cloudPhysicsIO.vscsi.xz", "vscsi-1", 113_872) else { return };
    let Some(csv) = read("cloudPhysicsIO.csv.xz", "cloudphysics", 113_872) else { return };
    let Some(oracle) = read("cloudPhysicsIO.oracleGeneral.bin.xz", "oracleGeneral", 113_872) else { return };
    assert_eq!((vscsi.reads(), vscsi.writes()), (46_974, 66_898));
    // Not assert_eq: it would print a hundred thousand requests.
    assert!(requests(&vscsi) == requests(&csv));
    // The third has an object's first size for ever.
    let mut first_sizes = BTreeMap::new();
    for (exact, oracle) in vscsi.records.iter().zip(&oracle.records) {
        let first = *first_sizes.entry(exact.extent.start).or_insert(exact.extent.sectors);
        assert_eq!((oracle.extent.start, oracle.extent.sectors), (exact.extent.start, first));
    }
    assert!(vscsi.warnings.is_empty(), "{:?}", vscsi.warnings);
    assert!(oracle.warnings.iter().any(|warning| warning.contains("does not tell writes from reads")));
    // Two of the three tell whole seconds: never further apart than one, and what the first lost.
    let seconds = |record: &Record| record.time.0 as f64 / 1e9;
    for ((exact, csv), oracle) in vscsi.records.iter().zip(&csv.records).zip(&oracle.records) {
        assert!((seconds(exact) - seconds(csv)).abs() <= 2.0 && csv.time == oracle.time);
    }
}

#[test]
fn a_week_of_a_workstation_fits_its_disks() {
    let Some(week) = read("hplajw.1week.srt.xz", "hp-srt", 44_519) else { return };
    assert_eq!((week.reads(), week.writes()), (13_040, 31_479));
    assert!((hours(&week) / 24.0 - 6.98).abs() < 0.01, "{} hours", hours(&week));
    let devices = week.devices();
    let found: Vec<_> = devices.iter().map(|one| (one.device, one.records)).collect();
    assert_eq!(found, [(0, 42_252), (1, 2_267)]);
    // 1449 cylinders of 8 tracks of 113 sectors of 256 bytes.
    assert!(devices[0].end_sector <= 1449 * 8 * 113 / 2 && devices[0].end_sector > 600_000);
}
