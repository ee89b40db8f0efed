//! Traces without queue events, and files without a request.

mod common;

use common::samples::row;
use common::{load_text, save};
use seekless_core::{Latency, Nanos, Op};
use seekless_trace::{ReadOptions, load};

const ISSUED: &str = "8,0 0 1 1.000000000 9 D WS 100 + 8 [git]\n8,0 0 2 1.000500000 0 C WS 100 + 8 [0]\n\
                      8,0 0 3 1.002000000 9 D R 200 + 16 [git]\n8,0 0 4 1.003000000 0 C R 200 + 16 [0]\n";

#[test]
fn issues_are_the_requests_where_nothing_was_queued() {
    let options = ReadOptions { latencies: true, ..ReadOptions::default() };
    let trace = load(&[save("issued", ISSUED.as_bytes())], &options).unwrap();
    let device = 8 << 20;
    let expected = [(0, device, Op::Write, 100, 8), (2_000_000, device, Op::Read, 200, 16)];
    assert_eq!(trace.records.iter().map(row).collect::<Vec<_>>(), expected);
    assert_eq!(trace.records[0].latency, Latency::of(Nanos(500_000)));
    assert!(
        trace.warnings.iter().any(|warning| warning.contains("issued to the drive (D)")),
        "{:?}",
        trace.warnings
    );
}

#[test]
fn completions_are_the_requests_where_nothing_was_issued() {
    let completed: Vec<&str> = ISSUED.split_inclusive('\n').filter(|line| line.contains(" C ")).collect();
    let trace = load_text("completed", &completed.concat());
    let device = 8 << 20;
    let expected = [(0, device, Op::Write, 100, 8), (2_500_000, device, Op::Read, 200, 16)];
    assert_eq!(trace.records.iter().map(row).collect::<Vec<_>>(), expected);
    assert!(
        trace.warnings.iter().any(|warning| warning.contains("those completed (C)")),
        "{:?}",
        trace.warnings
    );
}

#[test]
fn queue_events_alone_count_where_there_are_any() {
    let queued = "8,0 0 0 0.900000000 9 Q WS 100 + 8 [git]\n";
    // An earlier request is issued and completed first.
    let before = "8,0 0 1 0.100000000 9 D R 7 + 8 [git]\n8,0 0 1 0.200000000 9 C R 7 + 8 [0]\n";
    let trace = load_text("queued", &[before, queued, ISSUED].concat());
    assert_eq!(trace.records.iter().map(row).collect::<Vec<_>>(), [(0, 8 << 20, Op::Write, 100, 8)]);
    assert_eq!(trace.warnings, Vec::<String>::new());
}

/// Lines of a device, `action` by action.
fn lines(device: &str, action: &str, first: u64, count: u64) -> String {
    let line = |number: u64| format!("{device} 0 1 {number}.000000000 9 {action} R {number} + 8 [git]\n");
    (first..first + count).map(line).collect()
}

#[test]
fn each_device_has_what_it_was_traced_with() {
    let queued = lines("8,0", "Q", 1, 3);
    for (action, warning) in [
        ("D", "8,16: no request was queued (Q): those issued"),
        ("C", "8,16: no request was queued (Q) or issued (D)"),
    ] {
        for text in
            [[lines("8,16", action, 1, 2), queued.clone()], [queued.clone(), lines("8,16", action, 4, 2)]]
        {
            let trace = load_text(&format!("devices-{action}"), &text.concat());
            assert_eq!(trace.records.len(), 5, "{action}");
            assert!(trace.warnings.iter().any(|found| found.starts_with(warning)), "{:?}", trace.warnings);
        }
    }
    // What is remapped to a device was queued above it.
    let remapped = "8,16 0 1 1.000000000 9 A R 1 + 8 <- (8,0) 1\n".to_owned();
    let trace = load_text("remapped", &[queued, remapped, lines("8,16", "D", 4, 2)].concat());
    assert_eq!(trace.records.len(), 3);
    assert!(!trace.warnings.iter().any(|found| found.contains("(Q)")), "{:?}", trace.warnings);
}

#[test]
fn what_does_not_count_is_reported() {
    let trace = load_text("one-queued", &[lines("8,0", "Q", 1, 1), lines("8,0", "D", 1, 1_000)].concat());
    assert_eq!(trace.records.len(), 1);
    assert_eq!(
        trace.warnings,
        ["8,0: 1000 requests were issued (D) and 1 queued (Q): only those queued count"]
    );
    let trace =
        load_text("late-issues", &[lines("8,0", "C", 1, 70_000), lines("8,0", "D", 70_001, 100)].concat());
    assert_eq!(trace.records.len(), 70_000);
    assert!(
        trace.warnings.iter().any(|found| found.contains("100 requests were issued (D) long after")),
        "{:?}",
        trace.warnings
    );
    // A quiet device, of which one request was under way, is not decided by that one.
    let quiet =
        [lines("8,16", "C", 1, 1), lines("8,0", "Q", 2, 70_000), lines("8,16", "Q", 70_002, 5)].concat();
    let trace = load_text("quiet", &quiet);
    assert_eq!(trace.records.len(), 70_005);
    assert!(!trace.warnings.iter().any(|found| found.contains("(Q)")), "{:?}", trace.warnings);
    let passed = "8,0 0 1 1.000000000 9 D R 36 (12 00 00) [udev]\n8,0 0 1 1.100000000 9 Q N [udev]\n";
    let trace = load_text("passed", &[&lines("8,0", "Q", 1, 2), passed].concat());
    assert!(
        trace.warnings.iter().any(|found| found.contains("1 commands are neither reads")),
        "{:?}",
        trace.warnings
    );
}

#[test]
fn texts_of_blkparse_may_follow_each_other() {
    let summary = "CPU0 (sda):\n Reads Queued:           1,        4KiB\n\nTotal (sda):\n Reads Queued: 1\n\n\
                   Throughput (R/W): 0KiB/s / 0KiB/s\nEvents (sda): 3 entries\nSkips: 0 forward (0 -   0.0%)\n";
    let text = [&lines("8,0", "Q", 1, 3), summary, &lines("8,16", "Q", 4, 2), summary].concat();
    assert_eq!(load_text("texts", &text).records.len(), 5);
    let bad = [&text, "8,0 0 1 7.000000000 9\n"].concat();
    let error = load(&[save("texts-bad", bad.as_bytes())], &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("expected major,minor cpu"), "{error}");
}

#[test]
fn skipped_records_and_warnings_are_counted_once() {
    let options = ReadOptions { skip_bad: true, latencies: true, ..ReadOptions::default() };
    for action in ["Q", "D", "C"] {
        let text =
            [lines("8,0", action, 1, 9), "8,0 rubbish\n".to_owned(), lines("8,0", action, 10, 9)].concat();
        let trace = load(&[save("skipped", text.as_bytes())], &options).unwrap();
        let skipped: Vec<&String> = trace.warnings.iter().filter(|found| found.contains("skipped")).collect();
        assert_eq!(skipped, ["1 malformed records were skipped"], "{action}");
    }
}

#[test]
fn commands_of_a_column_that_are_no_request_are_counted() {
    let options = ReadOptions {
        columns: Some("time:s,op:scsi,offset:512B,size:512B".parse().unwrap()),
        ..ReadOptions::default()
    };
    let trace = load(&[save("columns", b"1,40,8,8\n2,18,0,1\n3,42,8,8\n")], &options).unwrap();
    assert_eq!(trace.records.len(), 2);
    assert!(
        trace.warnings.iter().any(|found| found.contains("1 commands are neither reads")),
        "{:?}",
        trace.warnings
    );
}

#[test]
fn the_files_of_a_recording_are_judged_together() {
    // The second CPU serves interrupts only.
    let queued = save("together.0", b"8,0 0 1 1.000000000 9 Q R 100 + 8 [git]\n");
    let completed =
        save("together.1", b"8,0 1 1 0.500000000 0 C R 100 + 8 [0]\n8,0 1 2 1.500000000 0 C R 100 + 8 [0]\n");
    let trace = load(&[queued, completed], &ReadOptions::default()).unwrap();
    assert_eq!(trace.records.len(), 1);
}

#[test]
fn a_file_with_lines_and_no_request_is_an_error() {
    for (name, content) in [
        ("remaps", "8,0 0 1 1.000000000 9 A R 100 + 8 <- (8,2) 36\n"),
        ("notes", "8,0 0 1 1.000000000 9 m N cfq22 Not idling\n"),
    ] {
        let error = load(&[save(name, content.as_bytes())], &ReadOptions::default()).unwrap_err().to_string();
        assert!(error.contains("found no request"), "{name}: {error}");
    }
}

#[test]
fn a_preamble_may_go_on_after_the_names_of_the_columns() {
    let preamble = "INFO: a replay\nstart ; sector ; length ; op\nINFO: of 2 requests\n";
    let trace = load_text("preamble", &format!("{preamble}1.5 ; 8 ; 8 ; R\n2.5 ; 16 ; 8 ; W\n"));
    assert_eq!(trace.records.len(), 2);
    let text = format!("{preamble}1.5 ; 8x ; 8 ; R\n");
    let options =
        ReadOptions { format: seekless_trace::Format::named("blkreplay"), ..ReadOptions::default() };
    let error = load(&[save("preamble-bad", text.as_bytes())], &options).unwrap_err().to_string();
    assert!(error.contains("line 4: found \"8x\", expected a sector"), "{error}");
    // Nor are records that are malformed a preamble.
    for text in [
        "0.1 ; 100 ; x ; R\n0.2 ; 8 ; 8 ; R\n",
        "start ; sector ; length ; op\n -1 ; 8 ; 8 ; R\n2 ; 8 ; 8 ; R\n",
    ] {
        load(&[save("preamble-records", text.as_bytes())], &options).unwrap_err();
    }
}

#[test]
fn biosnoop_may_know_neither_process_nor_disk() {
    let text = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.1 ? ? sda R 8 4096 0.5\n0.2 a b 77 R 16 4096 0.5\n\
                0.3 dd 77 sda W 18446744073709551615 512 0.5\n0.4 dd 77 sda WS 24 4096 0.5\n";
    let trace = load_text("biosnoop-unknown", text);
    let rows: Vec<(u64, u32)> =
        trace.records.iter().map(|record| (record.extent.start.0, record.origin.process.0)).collect();
    assert_eq!(rows, [(8, 0), (16, 77), (24, 77)]);
    assert_eq!(trace.volumes.name(trace.records[1].device), "-");
    assert_eq!(trace.names.get(trace.records[1].origin.name), "a b");
    assert!(
        trace
            .warnings
            .iter()
            .any(|warning| warning.starts_with("1 commands were") || warning.contains(": 1 commands were")),
        "{:?}",
        trace.warnings
    );
}
