//! The seven recordings against statistics made independently of this project.

use std::path::{Path, PathBuf};

use seekless_core::Record;
use seekless_trace::{ReadOptions, Stats, StatsOptions, Trace, characterise, load};
use serde_json::Value;

/// Each recording, and its partial determinism per process, which only the recordings' own table has.
const RECORDINGS: [(&str, f64); 7] = [
    ("developer", 82.0),
    ("appstart2", 98.0),
    ("webserver2", 32.0),
    ("svnserver2", 20.0),
    ("oltp-xfs", 4.0),
    ("mail", 3.0),
    ("vmboot", 5.0),
];

fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("SEEKLESS_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from)
        .join("traces");
    if !folder.is_dir() {
        eprintln!("skipped: no shared traces");
        return None;
    }
    Some(folder)
}

fn expected(folder: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Each figure: ours, theirs, and the rounding of theirs.
fn figures(stats: &Stats, theirs: &Value, per_process_pct: f64) -> Vec<(&'static str, f64, f64, f64)> {
    let count = |key: &'static str, ours: u64| (key, ours as f64, theirs[key].as_f64().unwrap(), 0.0);
    let measure = |key: &'static str, ours: f64| (key, ours, theirs[key].as_f64().unwrap(), 0.000_5);
    vec![
        count("Q", stats.requests),
        count("reads", stats.reads),
        count("writes", stats.writes),
        count("flushes", stats.flushes),
        count("discards", stats.discards),
        count("uniq4k", stats.accessed_pages),
        measure("dev_GiB", stats.device_gib),
        measure("accessed_pct", stats.device_accessed_pct),
        count("pids", stats.processes),
        measure("GB_rd_tot", stats.read_gib_total),
        measure("GB_rd_uniq", stats.read_gib_unique),
        measure("GB_wr_tot", stats.write_gib_total),
        measure("GB_wr_uniq", stats.write_gib_unique),
        measure("GB_tot", stats.read_gib_total + stats.write_gib_total),
        measure("GB_uniq", stats.total_gib_unique),
        measure("top20_all", stats.top20_share_pct),
        measure("top20_rd", stats.top20_read_share_pct),
        measure("top20_wr", stats.top20_write_share_pct),
        measure("nonseq_pct", stats.nonsequential_pct),
        measure("pd_all", stats.partial_determinism_pct),
        ("seconds", stats.seconds, theirs["seconds"].as_f64().unwrap(), 0.05),
        ("pd per process", stats.partial_determinism_per_process_pct, per_process_pct, 0.5),
    ]
}

fn check(name: &str, trace: &Trace, theirs: &Value, per_process_pct: f64) {
    assert!(trace.warnings.is_empty(), "{name}: {:?}", trace.warnings);
    assert!(trace.records.is_sorted_by_key(|record| record.time), "{name}");
    let device_sectors = Some((theirs["dev_GiB"].as_f64().unwrap() * f64::from(1 << 21)) as u64);
    let options = StatsOptions { device_sectors, ..StatsOptions::default() };
    let stats = characterise(&trace.records, &trace.names, &trace.volumes, &options);
    for (key, ours, theirs, rounding) in figures(&stats, theirs, per_process_pct) {
        println!("{name:12} {key:16} {ours:14.3} {theirs:14.3}");
        assert!(
            (ours - theirs).abs() <= theirs * 0.01 + rounding,
            "{name}: {key}: {ours}, expected {theirs}"
        );
    }
    let readers = theirs["readers"].as_str().unwrap();
    let (most, share) = readers.split_once(':').unwrap();
    let reads_of =
        |wanted: &str| stats.top_processes.iter().find(|p| p.name == wanted).map_or(0, |p| p.reads);
    let share: f64 = share.split('%').next().unwrap().parse().unwrap();
    let ours = 100.0 * reads_of(most) as f64 / stats.reads as f64;
    println!("{name:12} reads by {most} {ours:.1} {share:.1}");
    assert!((ours - share).abs() <= share * 0.01 + 0.05, "{name}: reads by {most}: {ours}, expected {share}");
}

#[test]
fn the_recordings_have_the_figures_that_others_found() {
    let Some(folder) = shared() else { return };
    let folder = folder.join("recorded");
    for (name, per_process_pct) in RECORDINGS {
        let trace = load(&[folder.join(name)], &ReadOptions::default()).unwrap();
        assert_eq!(trace.sources.len(), 2, "{name}");
        check(name, &trace, &expected(&folder, name), per_process_pct);
    }
}

#[test]
fn one_cpu_is_read_if_one_cpu_is_named() {
    let Some(folder) = shared() else { return };
    let one = load(&[folder.join("recorded/vmboot.blktrace.0.xz")], &ReadOptions::default()).unwrap();
    assert_eq!(one.records.len(), 3881);
}

#[test]
fn a_raw_kernel_stream_is_a_trace() {
    let Some(folder) = shared() else { return };
    let raw = load(&[folder.join("recorded/raw-ftrace-blk-sample.bin.xz")], &ReadOptions::default()).unwrap();
    assert_eq!((raw.records.len(), raw.devices().len()), (31_627, 2));
    assert!(raw.records.is_sorted_by_key(|record| record.time));
}

#[test]
fn a_genuine_capture_with_remaps_counts_each_request_once() {
    let Some(folder) = shared() else { return };
    let disk = load(&[folder.join("public/sda")], &ReadOptions::default()).unwrap();
    assert_eq!((disk.records.len(), disk.writes(), disk.warnings.len()), (113, 113, 0));
    let name = |record: &Record| disk.names.get(record.origin.name);
    assert!(disk.records.iter().all(|record| name(record) != "?"));
}
