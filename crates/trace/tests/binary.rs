//! The simpler binary formats from records made by hand, and from damaged ones.

mod common;

use common::save;
use proptest::prelude::*;
use seekless_core::{Flags, Op, Record};
use seekless_trace::{ReadOptions, Reader, load};

/// Time in nanoseconds, device, operation, first sector, sectors.
type Row = (u64, u32, Op, u64, u64);

fn row(record: &Record) -> Row {
    (record.time.0, record.device, record.op, record.extent.start.0, record.extent.sectors)
}

/// Each field its own little-endian bytes.
macro_rules! little {
    ($($field:expr),* $(,)?) => { [$(&$field.to_le_bytes()[..]),*].concat() };
}

/// Command, bytes, sector, microseconds.
type Command = (u16, u32, u64, u64);

const COMMANDS: [Command; 4] =
    [(0x2a, 512, 7, 100), (0x88, 4096, 80, 350), (0x12, 36, 0, 360), (0x35, 0, 0, 400)];

fn vscsi_1(commands: &[Command]) -> Vec<u8> {
    let record = |&(command, bytes, sector, time): &Command| {
        little!(9_u32, bytes, 1_u32, command, 0x0100_u16, sector, time)
    };
    commands.iter().flat_map(record).collect()
}

fn vscsi_2(commands: &[Command]) -> Vec<u8> {
    let record = |&(command, bytes, sector, time): &Command| {
        little!(command, 0x0200_u16, 9_u32, bytes, 1_u32, sector, time, 77_u64)
    };
    commands.iter().flat_map(record).collect()
}

fn oracle_general(records: &[(u32, u64, u32, i64)]) -> Vec<u8> {
    let record = |&(time, object, bytes, next): &(u32, u64, u32, i64)| little!(time, object, bytes, next);
    records.iter().flat_map(record).collect()
}

const TEXT: &str = "$$TR_IOREC-1.3 (made by hand)\ndisks = { 0 -> {\n\tsectorsize  = 256,\n} };\n\x0c";

/// Seconds, microseconds, bytes, sector, device, flags.
fn srt(records: &[[u32; 6]]) -> Vec<u8> {
    let mut bytes = TEXT.as_bytes().to_vec();
    for [seconds, micros, length, sector, device, flags] in records {
        let fields = [56, 0x4_0001, *seconds, *micros, 1, 2, *length, *sector, *device, 4, 0, *flags, 0, 1];
        bytes.extend(fields.iter().flat_map(|field: &u32| field.to_be_bytes()));
    }
    bytes
}

fn samples() -> [(&'static str, Vec<u8>, Vec<Row>); 4] {
    let commands =
        vec![(0, 0, Op::Write, 7, 1), (250_000, 0, Op::Read, 80, 8), (300_000, 0, Op::Flush, 0, 0)];
    [
        ("vscsi-1", vscsi_1(&COMMANDS), commands.clone()),
        ("vscsi-2", vscsi_2(&COMMANDS), commands),
        (
            "oracleGeneral",
            oracle_general(&[(5, 100, 512, 2), (5, 200, 4096, -1), (6, 100, 512, i64::MAX)]),
            vec![
                (0, 0, Op::Read, 100, 1),
                (500_000_000, 0, Op::Read, 200, 8),
                (1_000_000_000, 0, Op::Read, 100, 1),
            ],
        ),
        (
            "hp-srt",
            srt(&[[0, 5, 4096, 8, 0x0800_0107, 1], [1, 5, 1024, 4, 0x0800_000e, 0x100]]),
            vec![(0, 1, Op::Read, 4, 8), (1_000_000_000, 0, Op::Write, 2, 2)],
        ),
    ]
}

#[test]
fn each_format_is_known_by_its_content_and_says_what_it_says() {
    for (format, bytes, rows) in samples() {
        let trace = load(&[save(format, &bytes)], &ReadOptions::default()).unwrap();
        assert_eq!(trace.format, format);
        assert_eq!(trace.records.iter().map(row).collect::<Vec<_>>(), rows, "{format}");
        if format.starts_with("vscsi") {
            assert!(
                trace.warnings[0].contains("1 commands are neither reads nor writes"),
                "{:?}",
                trace.warnings
            );
        }
        if format == "hp-srt" {
            assert_eq!((trace.records[0].flags, trace.records[1].flags), (Flags::SYNC, Flags::default()));
        }
        let cut = load(&[save("cut-binary", &bytes[..bytes.len() - 1])], &ReadOptions::default()).unwrap();
        assert_eq!(cut.records.len(), rows.len() - 1, "{format}");
        assert!(
            cut.warnings.iter().any(|warning| warning.contains("cut short")),
            "{format}: {:?}",
            cut.warnings
        );
    }
}

fn error(name: &str, bytes: &[u8]) -> String {
    load(&[save(name, bytes)], &ReadOptions::default()).unwrap_err().to_string()
}

#[test]
fn what_no_format_allows_is_an_error_that_tells_byte_find_and_expectation() {
    // Beyond what decides the format.
    let many = vec![COMMANDS[0]; 200];
    let bytes = [vscsi_1(&many), vscsi_2(&[COMMANDS[0]])].concat();
    let mixed = error("mixed-vscsi", &bytes);
    assert!(mixed.contains("byte 6400: found a vSCSI record of version 0, expected version 1"), "{mixed}");
    let mut far = many.clone();
    far.push((0x2a, 512, u64::MAX, 100));
    let far = error("far-vscsi", &vscsi_1(&far));
    assert!(far.contains("byte 6400: found 1 sectors at sector 18446744073709551615, expected"), "{far}");
    let mut long = many;
    long.push((0x2a, 512, 0, u64::MAX));
    let long = error("long-vscsi", &vscsi_1(&long));
    assert!(long.contains("byte 6400: found time 18446744073709551615 us, expected"), "{long}");

    let record = srt(&[[0, 5, 4096, 8, 0, 1]]);
    let mut short = record.clone();
    short[TEXT.len() + 3] = 8;
    let short = error("short-srt", &short);
    assert!(
        short.contains(&format!("byte {}: found a record of 8 bytes, expected 52", TEXT.len())),
        "{short}"
    );
    let older = error("older-srt", TEXT.replace("1.3", "1.2").as_bytes());
    assert!(older.contains("found \"$$TR_IOREC-1.2") && older.contains("expected $$TR_IOREC-1.3"), "{older}");
    let endless = error("endless-srt", TEXT.replace('\x0c', "").as_bytes());
    assert!(endless.contains("without a form feed"), "{endless}");
    let sizeless = error("sizeless-srt", TEXT.replace("sectorsize", "size").as_bytes());
    assert!(sizeless.contains("found no sectorsize in the text"), "{sizeless}");
    let odd = error("odd-srt", TEXT.replace("256", "300").as_bytes());
    assert!(odd.contains("sectorsize  = 300"), "{odd}");
}

#[test]
fn numbers_that_make_no_sense_are_no_oracle_general() {
    for records in [
        [(5, 100, 512, 2), (4, 200, 4096, -1)],
        [(5, 100, 513, 2), (5, 200, 4096, -1)],
        [(5, 100, 512, 0), (5, 200, 4096, -1)],
        [(5, 1 << 60, 512, 2), (5, 200, 4096, -1)],
        [(0, 0, 0, 0), (0, 0, 0, 0)],
    ] {
        let error = error("no-oracle", &oracle_general(&records));
        assert!(error.contains("expected a trace in one of the formats blktrace, "), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_and_cut_files_end(
        sample in 0_usize..4,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = samples()[sample].1.clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let Ok(reader) = Reader::open(&[save("mutated-binary", &bytes)], &ReadOptions::default()) else { return Ok(()) };
        let mut now = 0;
        for record in reader.map_while(Result::ok) {
            prop_assert!(record.time.0 >= now);
            now = record.time.0;
            let _ = record.extent.end().0 * 512;
        }
    }
}
