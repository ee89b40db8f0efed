//! Whatever the bytes, reading ends, does not panic, and guarantees hold for the records it returned.

mod common;

use std::io::Cursor;
use std::path::PathBuf;

use common::*;
use proptest::collection::vec;
use proptest::prelude::*;
use seekless_core::Nanos;
use seekless_trace::format::Decoder;
use seekless_trace::format::blktrace::{Blktrace, Flaw, HEADER_BYTES, exact};
use seekless_trace::{ReadOptions, Reader, StatsOptions, characterise, load};

fn decode(bytes: Vec<u8>) -> usize {
    let length = bytes.len();
    let mut decoder = Blktrace::new(Cursor::new(bytes), PathBuf::from("bytes"), &ReadOptions::default());
    let mut events = 0;
    while let Ok(Some(event)) = decoder.next_event() {
        assert!(event.offset as usize + HEADER_BYTES <= length);
        events += 1;
        assert!(events * HEADER_BYTES <= length, "more events than there can be records");
    }
    events
}

fn read(name: &str, bytes: &[u8]) {
    let Ok(reader) = Reader::open(&[save(name, bytes)], &ReadOptions::default()) else { return };
    let mut now = Nanos::ZERO;
    for record in reader.map_while(Result::ok) {
        assert!(record.time >= now, "time goes back");
        now = record.time;
        // Would overflow if the reader accepted an impossible address.
        let _ = record.extent.end().0 * 512;
    }
}

/// A trace with every kind of record.
fn genuine(big_endian: bool, v8: bool) -> Builder {
    let mut trace = Builder { big_endian, v8, ..Builder::default() };
    for n in 0..20_u64 {
        trace = trace
            .name(n * 100, n as u32, "git")
            .action(n * 100, (n * 8, 4096), QUEUED | READ | SYNC, n as u32, VOLUME)
            .remap(n * 100 + 1, (VOLUME, n * 8), (DISK, n * 8 + 2048), 4096)
            .action(n * 100 + 2, (n * 8 + 2048, 4096), QUEUED | READ | SYNC, n as u32, DISK)
            .action(n * 100 + 50, (0, 0), QUEUED | WRITE | FLUSH, 1, DISK)
            .action(n * 100 + 60, (n * 8, 4096), COMPLETED | READ, 0, DISK);
    }
    trace
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_a_record_or_a_flaw(bytes in vec(any::<u8>(), 0..200), magic in 0_u32..3) {
        let mut bytes = bytes;
        if magic > 0 && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(&(0x6561_7406 + magic).to_le_bytes());
        }
        match exact(&bytes) {
            Ok(record) => {
                prop_assert!(record.length_bytes() <= bytes.len());
                let _ = record.meaning();
            }
            Err(Flaw::Short { have, need }) => prop_assert!(have < need && have == bytes.len()),
            Err(Flaw::Malformed { found, expected }) => prop_assert!(!found.is_empty() && !expected.is_empty()),
        }
        decode(bytes);
    }

    #[test]
    fn mutated_and_cut_traces_end(
        (big_endian, v8) in any::<(bool, bool)>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = genuine(big_endian, v8).bytes;
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        decode(bytes.clone());
        read("mutated", &bytes);
    }

    #[test]
    fn a_cut_trace_gives_exactly_the_records_before_the_cut(cut in 4_usize..6000) {
        let trace = genuine(false, false);
        let cut = cut.min(trace.bytes.len());
        // The first request is the second record.
        let cut_trace = match load(&[save("cut-anywhere", &trace.bytes[..cut])], &ReadOptions::default()) {
            Err(error) if cut < trace.offsets[2] => {
                prop_assert!(error.to_string().contains("found no request"), "{}", error);
                return Ok(());
            }
            read => read.unwrap(),
        };
        let whole = load(&[trace.save("whole")], &ReadOptions::default()).unwrap();
        let given = cut_trace.records.len();
        prop_assert_eq!(&cut_trace.records[..], &whole.records[..given]);
        let clean = trace.offsets.contains(&cut) || cut == trace.bytes.len();
        let warned = cut_trace.warnings.iter().any(|warning| warning.contains("cut short"));
        prop_assert_eq!(warned, !clean);
        let stats = characterise(&cut_trace.records, &cut_trace.names, &cut_trace.volumes, &StatsOptions::default());
        prop_assert_eq!(stats.requests + stats.flushes, given as u64);
    }

    #[test]
    fn damaged_compression_ends(at in any::<prop::sample::Index>(), value: u8, cut in any::<prop::sample::Index>()) {
        let mut bytes = xz(&genuine(false, false).bytes);
        let at = at.index(bytes.len());
        bytes[at] = value;
        bytes.truncate(cut.index(bytes.len() + 1));
        read("damaged.xz", &bytes);
    }
}
