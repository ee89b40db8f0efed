//! Every text format from a few lines made by hand: units, directions, devices, and what is wrong with
//! damaged ones.

mod common;

use common::{load_text, save};
use proptest::prelude::*;
use seekless_core::{Flags, Op, Record};
use seekless_trace::{ReadOptions, Reader, Trace, load};

/// Time in nanoseconds, device, operation, first sector, sectors.
type Row = (u64, u32, Op, u64, u64);

fn row(record: &Record) -> Row {
    (record.time.0, record.device, record.op, record.extent.start.0, record.extent.sectors)
}

/// Format, content, what it says.
const SAMPLES: [(&str, &str, &[Row]); 15] = [
    (
        "msr",
        "128166372003061629,web,1,Write,10240,4096,52\n128166372003061634,db,0,Read,100,600,9\n",
        &[(0, 0, Op::Write, 20, 8), (500, 1, Op::Read, 0, 2)],
    ),
    (
        "fiu",
        "100 7 a/b 64 8 W 6 0 0123456789abcdef\n90 8 sh 0 16 R 6 0 0123456789abcdef\n",
        &[(0, 6 << 20, Op::Read, 0, 16), (10, 6 << 20, Op::Write, 64, 8)],
    ),
    (
        "borg",
        "700000000 57 screen 6914 32 R\n764000000 58 sh 2437 8 W\n",
        &[(0, 0, Op::Read, 6_914, 32), (64_000_000, 0, Op::Write, 2_437, 8)],
    ),
    (
        "fio",
        "fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x read 4096 512\n/dev/x wait 150 0\n\
         /dev/x write 0 4096\n/dev/y trim 0 1024\n/dev/x wait 200 0\n/dev/x datasync 0 0\n/dev/x close\n",
        &[
            (0, 0, Op::Read, 8, 1),
            (150_000, 0, Op::Write, 0, 8),
            (150_000, 1, Op::Discard, 0, 2),
            (350_000, 0, Op::Flush, 0, 0),
        ],
    ),
    (
        "fio",
        "fio version 3 iolog\n0 /dev/x add\n5 /dev/x open\n7 /dev/x read 0 512\n9 /dev/x sync\n",
        &[(0, 0, Op::Read, 0, 1), (2_000, 0, Op::Flush, 0, 0)],
    ),
    (
        "spc",
        "0,303567,3584,w,0.026214\n1, 12 ,512, R ,0.026682,extra\n",
        &[(0, 0, Op::Write, 303_567, 7), (468_000, 1, Op::Read, 12, 1)],
    ),
    (
        "blkreplay",
        "Made by hand.\n\nstart ; sector; length ; op\n 0.5 ; 64 ; 8 ; R ; 0.0 ; 0.0\n0.500000001 ; 8 ; 0 ; W\n0.6;16;8;RA\n",
        &[(0, 0, Op::Read, 64, 8), (1, 0, Op::Flush, 0, 0), (100_000_000, 0, Op::Read, 16, 8)],
    ),
    (
        "alibaba",
        "419,W,8192,4096,1577808144000360\n725,R,512,512,1577808144000361\n",
        &[(0, 419, Op::Write, 16, 8), (1_000, 725, Op::Read, 1, 1)],
    ),
    (
        "tencent",
        "1538323200,100,8,0,3\n1538323200,200,16,1,4\n1538323201,300,8,0,3\n",
        &[
            (0, 3, Op::Read, 100, 8),
            (500_000_000, 4, Op::Write, 200, 16),
            (1_000_000_000, 3, Op::Read, 300, 8),
        ],
    ),
    (
        "systor17",
        "Timestamp,Response,IOType,LUN,Offset,Size\n1455592511.5,0.1,R,2,1024,512\n1455592511.75,,W,0,0,4096\n",
        &[(0, 2, Op::Read, 2, 1), (250_000_000, 0, Op::Write, 0, 8)],
    ),
    (
        "cloudphysics",
        "version,time,op,size,lbn\n1,5,2a,512,7\n1,5,88,4096,80\n1,6,35,0,0\n1,6,12,36,0\n",
        &[(0, 0, Op::Write, 7, 1), (500_000_000, 0, Op::Read, 80, 8), (1_000_000_000, 0, Op::Flush, 0, 0)],
    ),
    (
        "disksim",
        "1.5 3 100 8 1\n2.25 4 512 16 10\n",
        &[(0, 3, Op::Read, 100, 8), (750_000, 4, Op::Write, 512, 16)],
    ),
    (
        "byte-ascii",
        "0.000 0 4096 512 1\n0.001 0 512 4096 0\n",
        &[(0, 0, Op::Read, 8, 1), (1_000, 0, Op::Write, 1, 8)],
    ),
    (
        "mqsim",
        "938513000 4 264 16 0\n938513007 3 8 8 1\n",
        &[(0, 4, Op::Write, 264, 16), (7, 3, Op::Read, 8, 8)],
    ),
    (
        "blkparse",
        "  8,0    1        1     0.000000000   697  Q   R 64 + 8 [a b/c:1]\n\
         \x20 8,0    1        2     0.000000100   697  D   R 64 + 8 [a b/c:1]\n\
         \x20 8,0    1        3     0.000000200     0  C   R 64 + 8 [0]\n\
         \x20 8,0    1        4     0.000000300    12  Q FWFSM 128 + 16 [jbd2/sda-8]\n\
         \x20 8,0    1        0     0.000000350     0  m   N cfq697 anything\n\
         \x20 8,0    1        5     0.000000400    12  Q FWS [jbd2/sda-8]\n\
         \x20 8,0    1        6     0.000000500    12  Q   N 0 (12 00 00) [smartd]\n\
         CPU0 (8,0):\n Reads Queued:           1,        4KiB\n",
        &[(0, 8 << 20, Op::Read, 64, 8), (300, 8 << 20, Op::Write, 128, 16), (400, 8 << 20, Op::Flush, 0, 0)],
    ),
];

/// The first content in this format.
fn sample(format: &str) -> &'static str {
    SAMPLES.iter().find(|(name, ..)| *name == format).unwrap().1
}

#[test]
fn each_format_is_known_by_its_content_and_says_what_it_says() {
    for (number, (format, content, rows)) in SAMPLES.iter().enumerate() {
        let trace = load_text(&format!("sample-{number}"), content);
        assert_eq!(trace.format, *format, "{content}");
        let found: Vec<Row> = trace.records.iter().map(row).collect();
        assert_eq!(found, *rows, "{format}: {content}");
    }
}

#[test]
fn each_format_names_the_line_that_is_wrong() {
    for (number, (format, content, _)) in SAMPLES.iter().enumerate() {
        let name = format!("wrong-{number}");
        let head = content
            .split_inclusive('\n')
            .filter(|line| !line.starts_with("CPU0 ") && !line.starts_with(" Reads"));
        let head: String = head.collect();
        let lines = head.lines().count();
        let error =
            load(&[save(&name, format!("{head}this is, no ; record\n").as_bytes())], &ReadOptions::default())
                .unwrap_err();
        let error = error.to_string();
        let place = format!("{name}, line {}: found \"", lines + 1);
        assert!(error.contains(&place) && error.contains("expected "), "{format}: {error}");
        let cut = load_text(&format!("cut-{number}"), &format!("{head}this is"));
        assert!(cut.warnings.iter().any(|w| w.contains("cut short")), "{format}: {:?}", cut.warnings);
    }
}

fn named(trace: &Trace, record: &Record) -> String {
    trace.names.get(record.origin.name).to_owned()
}

#[test]
fn names_and_flags_come_with_the_requests() {
    let fiu = load_text("fiu-names", sample("fiu"));
    assert_eq!((named(&fiu, &fiu.records[0]), named(&fiu, &fiu.records[1])), ("sh".into(), "a/b".into()));
    let blkparse = load_text("blkparse-names", sample("blkparse"));
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
fn what_no_format_allows_is_an_error_that_tells_line_find_and_expectation() {
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
    assert!(late.warnings[0].contains("records too late"), "{:?}", late.warnings);
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
    // More than are spread at once: the rest of them at the second's end.
    assert_eq!(many.records[65_536].time.0, 999_999_999);
    assert_eq!((many.records[70_000].time.0, many.records[70_000].op), (1_000_000_000, Op::Write));
    assert!(many.warnings[0].contains("spread over it"), "{:?}", many.warnings);
}

#[test]
fn line_ends_and_blank_lines_do_not_matter() {
    for (number, (format, content, rows)) in SAMPLES.iter().enumerate() {
        let trace = load_text(&format!("crlf-{number}"), &content.replace('\n', "\r\n\r\n"));
        assert_eq!((trace.format, trace.records.len()), (*format, rows.len()));
        let endless = load_text(&format!("no-end-{number}"), content.trim_end());
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
fn requests_of_no_bytes_are_told_and_left_out() {
    let trace = load_text("no-bytes", "1 0 8 0 1\n1 0 8 8 1\n");
    assert_eq!(trace.records.len(), 1);
    assert!(trace.warnings[0].contains("1 requests of no bytes"), "{:?}", trace.warnings);
}

#[test]
fn files_of_one_recording_are_in_one_format() {
    let files =
        [save("one-format", sample("mqsim").as_bytes()), save("other-format", sample("spc").as_bytes())];
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
        let mut bytes = SAMPLES[sample].1.as_bytes().to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let Ok(reader) = Reader::open(&[save("mutated-text", &bytes)], &ReadOptions::default()) else { return Ok(()) };
        let mut now = 0;
        for record in reader.map_while(Result::ok) {
            prop_assert!(record.time.0 >= now);
            now = record.time.0;
            let _ = record.extent.end().0 * 512;
        }
    }
}
