//! Traces of public collections, in their formats. Skipped where they are missing.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::load_text;
use seekless_core::{Nanos, Op, Record};
use seekless_trace::format::EventKind;
use seekless_trace::format::blktrace::{RawRecord, exact};
use seekless_trace::{ReadOptions, Trace, load};

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

/// The trace, if it is available: in `format`, with its known number of records.
fn read(name: &str, format: &str, records: usize) -> Option<Trace> {
    let trace = load(&[shared(name)?], &ReadOptions::default()).unwrap();
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
fn ascii_traces_are_distinguished_by_their_numbers() {
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
fn the_first_record_of_each_has_its_place() {
    let Some(disksim) = read("disksim-ascii.trace.xz", "disksim", 100_000) else { return };
    let second = &disksim.records[1];
    assert_eq!((second.time, second.device), (Nanos(17_829_285 - 13_191_135), 20));
    assert_eq!((second.extent.start.0, second.extent.sectors, second.op), (576_560, 6, Op::Read));
    let Some(cut) = read("msr-cut-rw_20_80.trace.xz", "byte-ascii", 10_000) else { return };
    let second = &cut.records[1];
    assert_eq!((second.time, second.op), (Nanos(223_412_000), Op::Write));
    assert_eq!((second.extent.start.0, second.extent.sectors), (3_159_347_200 / 512, 72));
}

/// Every request without its time.
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
    // The third has an object's first size throughout.
    let mut first_sizes = BTreeMap::new();
    for (exact, oracle) in vscsi.records.iter().zip(&oracle.records) {
        let first = *first_sizes.entry(exact.extent.start).or_insert(exact.extent.sectors);
        assert_eq!((oracle.extent.start, oracle.extent.sectors), (exact.extent.start, first));
    }
    assert!(vscsi.warnings.is_empty(), "{:?}", vscsi.warnings);
    assert!(oracle.warnings.iter().any(|warning| warning.contains("does not tell writes from reads")));
    // Two of the three have whole seconds: never further apart than one, plus what the first lost.
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

/// The line that blkparse prints for this record, if it is relevant here.
fn blkparse_line(record: &RawRecord, names: &BTreeMap<u32, String>) -> Option<String> {
    let category = |bit: u64| (record.action >> 16) & bit != 0;
    let letter = |set: bool, letter: &'static str| if set { letter } else { "" };
    let direction = if category(2) { "W" } else { "R" };
    let rwbs = [
        letter(category(4), "F"),
        direction,
        letter(category(0x8000), "F"),
        letter(category(0x800), "A"),
        letter(category(8), "S"),
        letter(category(0x1000), "M"),
    ];
    let device = |number: u32| format!("{},{}", number >> 20, number & 0xf_ffff);
    let place = format!("{} + {}", record.sector, record.bytes / 512);
    let name = names.get(&record.pid).map_or("?", |name| name);
    let (action, tail) = match record.action & 0xff {
        _ if category(0x400) => return None,
        1 if record.bytes == 0 => ("Q", format!("[{name}]")),
        1 => ("Q", format!("{place} [{name}]")),
        15 => {
            let number = |at: usize| {
                record.payload[at..at + 4].iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte))
            };
            let start = u64::from(number(8)) << 32 | u64::from(number(12));
            ("A", format!("{place} <- ({}) {start}", device(number(0))))
        }
        8 => ("C", format!("{place} [0]")),
        _ => return None,
    };
    let (seconds, nanos) = (record.time_ns / 1_000_000_000, record.time_ns % 1_000_000_000);
    Some(format!(
        "{:>7} {:>2} {:>8} {seconds:>5}.{nanos:09} {:>5} {action:>2} {:>3} {tail}\n",
        device(record.device),
        record.cpu,
        record.sequence,
        record.pid,
        rwbs.concat()
    ))
}

#[test]
fn a_capture_reads_the_same_as_binary_and_as_text() {
    let (Some(first), Some(second)) = (shared("sda.blktrace.0"), shared("sda.blktrace.1")) else { return };
    let bytes = [first, second].map(|file| std::fs::read(file).unwrap());
    let mut records = Vec::new();
    for bytes in &bytes {
        let mut at = 0;
        while at < bytes.len() {
            let record = exact(&bytes[at..]).unwrap();
            at += record.length_bytes();
            records.push(record);
        }
    }
    assert_eq!(records.len(), 810);
    let mut names = BTreeMap::new();
    for record in &records {
        if let Ok(Some(EventKind::Named(process, name))) = record.meaning() {
            names.insert(process.0, name.to_string());
        }
    }
    records.sort_by_key(|record| record.time_ns);
    let text: String = records.iter().filter_map(|record| blkparse_line(record, &names)).collect();
    let text = load_text("sda.blkparse", &format!("{text}CPU0 (sda):\n"));
    let binary = load(
        &[shared("sda.blktrace.0").unwrap(), shared("sda.blktrace.1").unwrap()],
        &ReadOptions::default(),
    )
    .unwrap();
    assert_eq!((text.format, text.records.len(), text.warnings.len()), ("blkparse", 113, 0));
    for (text_record, binary_record) in text.records.iter().zip(&binary.records) {
        let name = text.names.get(text_record.origin.name);
        assert_eq!(name, binary.names.get(binary_record.origin.name));
        let origin = binary_record.origin;
        assert_eq!(Record { origin, ..*text_record }, *binary_record);
        assert_eq!(text_record.origin.process, origin.process);
    }
}
