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
