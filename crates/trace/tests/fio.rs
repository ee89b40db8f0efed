//! Logs written by fio itself: the requests are those that it reports. Skipped without fio.

use std::path::PathBuf;
use std::process::Command;

use seekless_core::Op;
use seekless_trace::{ReadOptions, load};
use serde_json::Value;

/// The log of a load that fio makes, and fio's report of it.
fn fio(name: &str, load: &[&str]) -> Option<(PathBuf, Value)> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let log = folder.join("log");
    // It would append to an existing one.
    let _ = std::fs::remove_file(&log);
    let reported = Command::new("fio")
        .current_dir(&folder)
        .args(["--name=x", "--filename=file", "--ioengine=psync", "--size=4M", "--output-format=json"])
        .arg(format!("--write_iolog={}", log.display()))
        .args(load)
        .output();
    let Ok(reported) = reported else {
        eprintln!("skipped: there is no fio here");
        return None;
    };
    assert!(reported.status.success(), "{}", String::from_utf8_lossy(&reported.stderr));
    let text = String::from_utf8_lossy(&reported.stdout);
    // There may be other output before the object.
    let json = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    Some((log, json))
}

#[test]
fn fios_log_matches_its_report() {
    let mixed = ["--rw=randrw", "--bsrange=4k-64k", "--number_ios=500", "--fsync=7"];
    let Some((log, reported)) = fio("fio-mixed", &mixed) else { return };
    let trace = load(&[log], &ReadOptions::default()).unwrap();
    assert_eq!((trace.format, trace.warnings.len()), ("fio", 0), "{:?}", trace.warnings);
    let job = &reported["jobs"][0];
    for (op, key) in [(Op::Read, "read"), (Op::Write, "write")] {
        let those = trace.records.iter().filter(|record| record.op == op);
        let bytes: u64 = those.clone().map(|record| record.extent.bytes()).sum();
        assert_eq!(Some(those.count() as u64), job[key]["total_ios"].as_u64(), "{key}");
        assert_eq!(Some(bytes), job[key]["io_bytes"].as_u64(), "{key}");
    }
    let flushes = trace.records.iter().filter(|record| record.op == Op::Flush).count() as u64;
    assert!(flushes > 0 && Some(flushes) >= job["sync"]["total_ios"].as_u64(), "{flushes}");
    // Milliseconds from fio's clock, microseconds in the log.
    let last = trace.records.last().unwrap().time.0 / 1_000_000;
    assert!(last <= job["job_runtime"].as_u64().unwrap() + 1_000, "{last} ms");
}
