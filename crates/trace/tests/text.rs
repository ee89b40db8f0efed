//! Every text format from a few handmade lines: units, directions, devices, and the errors of damaged ones.

mod common;

use common::samples::{Row, SAMPLES, Sample, row};
use common::{load_text, save};
use proptest::prelude::*;
use seekless_core::{Flags, Op, Record};
use seekless_trace::{ReadOptions, Reader, Trace, load};

#[test]
fn each_format_is_detected_and_decoded() {
    for (number, sample) in SAMPLES.iter().enumerate() {
        // The columns of blkparse -f cannot be detected.
        let reported = sample.options();
        let options = if reported.columns.is_some() { reported } else { ReadOptions::default() };
        let file = save(&format!("sample-{number}"), sample.content.as_bytes());
        let trace = load(&[file], &options).unwrap();
        assert_eq!(trace.format, sample.format, "{}", sample.content);
        let found: Vec<Row> = trace.records.iter().map(row).collect();
        assert_eq!(found, sample.rows, "{}: {}", sample.format, sample.content);
    }
}

fn named(trace: &Trace, record: &Record) -> String {
    trace.names.get(record.origin.name).to_owned()
}

#[test]
fn names_and_flags_come_with_the_requests() {
    let fiu = load_text("fiu-names", Sample::of("fiu").content);
    assert_eq!((named(&fiu, &fiu.records[0]), named(&fiu, &fiu.records[1])), ("sh".into(), "a/b".into()));
    let blkparse = load_text("blkparse-names", Sample::of("blkparse").content);
    assert_eq!(named(&blkparse, &blkparse.records[0]), "a b/c:1");
    assert_eq!(named(&blkparse, &blkparse.records[1]), "jbd2/sda-8");
    let all = [Flags::PREFLUSH, Flags::FUA, Flags::SYNC, Flags::META]
        .into_iter()
        .fold(Flags::default(), Flags::with);
    assert_eq!((blkparse.records[1].flags, blkparse.records[2].flags), (all, Flags::SYNC));
}

#[test]
fn a_stack_in_blkparse_text_counts_once() {
    let stack = "253,0 0 1 0.000000000 9 Q R 100 + 8 [git]\n\
                 8,0 0 2 0.000000001 9 A R 2100 + 8 <- (253,0) 100\n\
                 8,0 0 3 0.000000002 9 A R 9100 + 8 <- (8,2) 2100\n\
                 8,0 0 4 0.000000003 9 Q R 9100 + 8 [git]\n";
    let trace = load_text("stack", stack);
    assert_eq!(trace.records.iter().map(row).collect::<Vec<_>>(), [(0, 253 << 20, Op::Read, 100, 8)]);
}

#[test]
fn malformed_lines_are_errors_with_line_found_and_expected() {
    for (content, words) in [
        ("fio version 1 iolog\n", "line 1: found \"fio version 1 iolog\", expected fio version 2 iolog"),
        ("1,W,0,4096,1\n1,X,0,4096,1\n", "line 2: found \"X\", expected R (a read) or W (a write)"),
        ("1,W,0,4096,1\n1,W,0,4294967296,1\n", "line 2: found 4294967296 bytes at byte 0, expected at most"),
        (
            "1,W,0,4096,1\n1,W,18446744073709551615,4096,1\n",
            "line 2: found 4096 bytes at byte 18446744073709551615",
        ),
        ("1 0 8 8 1\n1 0 8 -8 1\n", "line 2: found \"-8\", expected a number of sectors"),
    ] {
        let error =
            load(&[save("refused", content.as_bytes())], &ReadOptions::default()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let endless = format!("1 0 8 8 1\n{}", "7".repeat(1 << 20));
    let error =
        load(&[save("endless", endless.as_bytes())], &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("line 2: found a line of more than 16384 bytes"), "{error}");
}

#[test]
fn records_out_of_order_are_put_in_place_or_clamped_with_a_warning() {
    let mut near: Vec<u64> = (0..3_000).collect();
    near[500..].rotate_left(1_000);
    near.swap(10, 20);
    let text = |times: &[u64]| {
        let lines: Vec<String> = times.iter().map(|time| format!("{time} 0 8 8 1\n")).collect();
        lines.concat()
    };
    let late = load_text("late", &text(&near));
    assert_eq!(late.records.len(), 3_000);
    assert!(late.records.is_sorted_by_key(|record| record.time));
    assert!(late.warnings[0].contains("records late"), "{:?}", late.warnings);
    near.sort_unstable();
    near.swap(10, 900);
    assert!(load_text("near", &text(&near)).warnings.is_empty());
}

#[test]
fn whole_seconds_are_spread_evenly_in_the_order_of_the_file() {
    let lines: Vec<String> = (0..70_000).map(|n| format!("1538323200,{n},8,0,3\n")).collect();
    let many = load_text("one-second", &(lines.concat() + "1538323201,5,8,1,3\n"));
    assert!(many.records.is_sorted_by_key(|record| record.time));
    let starts = many.records[..70_000].iter().map(|record| record.extent.start.0);
    assert!(starts.eq(0..70_000));
    assert_eq!(many.records[65_535].time.0, 65_535 * 1_000_000_000 / 65_536);
    // More than are spread at once: the rest gets the second's end.
    assert_eq!(many.records[65_536].time.0, 999_999_999);
    assert_eq!((many.records[70_000].time.0, many.records[70_000].op), (1_000_000_000, Op::Write));
    assert!(many.warnings[0].contains("spread over it"), "{:?}", many.warnings);
}

#[test]
fn line_ends_and_blank_lines_do_not_matter() {
    for (number, sample) in SAMPLES.iter().enumerate() {
        let Sample { format, content, rows, .. } = sample;
        let read = |name: &str, text: &str| load(&[save(name, text.as_bytes())], &sample.options()).unwrap();
        let trace = read(&format!("crlf-{number}"), &content.replace('\n', "\r\n\r\n"));
        assert_eq!((trace.format, trace.records.len()), (*format, rows.len()));
        let endless = read(&format!("no-end-{number}"), content.trim_end());
        assert_eq!(
            (endless.records.len(), endless.warnings.len()),
            (rows.len(), trace.warnings.len()),
            "{format}"
        );
    }
}

#[test]
fn a_compressed_text_cut_short_is_read_with_a_warning() {
    let lines: Vec<String> = (0..50_000_u64).map(|n| format!("{n} 0 {} 8 1\n", n * n % 999_983)).collect();
    let mut bytes = common::xz(lines.concat().as_bytes());
    bytes.truncate(bytes.len() / 2);
    let trace = load(&[save("cut-text.xz", &bytes)], &ReadOptions::default()).unwrap();
    assert!(!trace.records.is_empty() && trace.records.len() < 50_000);
    assert!(trace.warnings[0].contains("the compressed stream stops early"), "{:?}", trace.warnings);
}

#[test]
fn requests_of_no_bytes_are_reported_and_left_out() {
    let trace = load_text("no-bytes", "1 0 8 0 1\n1 0 8 8 1\n");
    assert_eq!(trace.records.len(), 1);
    assert!(trace.warnings[0].contains("1 requests of no bytes"), "{:?}", trace.warnings);
}

#[test]
fn files_of_one_recording_are_in_one_format() {
    let files = [
        save("one-format", Sample::of("mqsim").content.as_bytes()),
        save("other-format", Sample::of("spc").content.as_bytes()),
    ];
    let error = load(&files, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("other-format, byte 0: found the format spc, expected mqsim"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_and_cut_text_ends(
        sample in 0..SAMPLES.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = SAMPLES[sample].content.as_bytes().to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let Ok(reader) = Reader::open(&[save("mutated-text", &bytes)], &SAMPLES[sample].options()) else { return Ok(()) };
        let mut now = 0;
        for record in reader.map_while(Result::ok) {
            prop_assert!(record.time.0 >= now);
            now = record.time.0;
            let _ = record.extent.end().0 * 512;
        }
    }
}
