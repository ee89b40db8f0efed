//! The simpler binary formats, from handmade records and damaged ones.

mod common;

use common::binary::{COMMANDS, Sample, TEXT, oracle_general, samples, srt, vscsi_1, vscsi_2};
use common::samples::row;
use common::save;
use proptest::prelude::*;
use seekless_core::Flags;
use seekless_trace::{ReadOptions, Reader, load};

#[test]
fn each_format_is_detected_and_decoded() {
    for Sample { format, bytes, rows, .. } in samples() {
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
fn malformed_records_are_errors_with_byte_found_and_expected() {
    // Beyond the bytes used for detection.
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
        sample in 0_usize..6,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = samples()[sample].bytes.clone();
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
