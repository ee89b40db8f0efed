//! What it is like to its clients, and what an opening refuses.

use seekless_core::runtime::{self, sleep};
use seekless_core::{ErrorKind, Lba, Nanos, PAGE_BYTES};

use super::*;
use crate::bytes::{put, sum_but};
use crate::durable::{parity, sector::Part};

#[test]
fn blocks_are_found_where_they_lie() {
    world(async || {
        let lld = open(&disk(14, 4)).await.unwrap();
        write(&*lld, 8, 8, 1).await.unwrap();
        let places = |at| {
            let mut places = Vec::new();
            lld.places(at, &mut |part, place| places.push((part, place)));
            places
        };
        assert_eq!(places(Extent::new(8, 4)), [(Extent::new(8, 4), Place::Unknown)], "it is in memory");
        flush(&*lld).await.unwrap();
        let on = Place::On { component: 0, at: Lba(24) };
        assert_eq!(places(Extent::new(6, 6)), [(Extent::new(6, 2), Place::Nowhere), (Extent::new(8, 4), on)]);
        let found = lld.extents(Extent::new(6, 14)).await.unwrap();
        let state = |start, sectors, content| ExtentState { extent: Extent::new(start, sectors), content };
        let expected = [state(6, 2, Content::Hole), state(8, 8, Content::Data), state(16, 4, Content::Hole)];
        assert_eq!(found, expected);
    });
}

#[test]
fn what_is_not_a_checkpoint_is_reported() {
    world(async || {
        let below = disk(14, 4);
        write(&*below, 1, 1, 7).await.unwrap();
        let error = open(&below).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("neither a checkpoint nor zeroes"), "{error}");
        write(&*below, 0, 1, 7).await.unwrap();
        let error = open(&below).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("what is no head of a checkpoint"), "{error}");
    });
}

#[test]
fn another_size_is_refused_and_reported() {
    world(async || {
        let below = disk(14, 4);
        let lld = open(&below).await.unwrap();
        write(&*lld, 0, 8, 1).await.unwrap();
        flush(&*lld).await.unwrap();
        let other = Lld::open(below.clone(), options(BLOCKS - 1, 4, ""), true)
            .await
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(other.contains("found 12 blocks") && other.contains("expected 11 blocks"), "{other}");
        let large = Lld::open(below, options(21, 4, ""), true).await.map(drop).unwrap_err();
        assert_eq!(large.kind(), ErrorKind::Invalid);
        assert!(large.to_string().contains("at most 20"), "{large}");
    });
}

/// Any byte of the newest checkpoint: the other copy holds the same if no write came for a while; else the volume
/// does not open.
#[test]
fn a_damaged_checkpoint_is_made_up_for_or_named() {
    world(async || {
        let below = disk(14, 4);
        let lld = open(&below).await.unwrap();
        let (mut same, mut named) = (0, 0);
        for value in 1..60_u8 {
            write(&*lld, u64::from(value) % BLOCKS * 8, 8, value).await.unwrap();
            write(&*lld, 0, 16, value).await.unwrap();
            flush(&*lld).await.unwrap();
            if value % 2 == 0 {
                runtime::sleep(Nanos::from_millis(3_000)).await;
            }
            let message = values(&*lld, Extent::new(0, SECTORS)).await.unwrap();
            let newest = Extent::of_pages(lld.state.borrow().disk.generation % 2, 1);
            let sound = below.read(newest, Buffer::zeroed(4096), Hints::default()).await.unwrap().to_vec();
            for byte in (0..4_096).step_by(37) {
                let mut damaged = sound.clone();
                damaged[byte] ^= 4;
                below.write(newest, Buffer::from_vec(damaged), Hints::default()).await.unwrap();
                match open(&below).await {
                    Ok(lld) => {
                        assert_eq!(
                            values(&*lld, Extent::new(0, SECTORS)).await.unwrap(),
                            message,
                            "byte {byte}"
                        );
                        same += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {byte}: {error}");
                        assert!(error.to_string().contains("expected"), "byte {byte}: {error}");
                        named += 1;
                    }
                }
            }
            below.write(newest, Buffer::from_vec(sound), Hints::default()).await.unwrap();
        }
        println!("{same} made up for, {named} named");
        assert!(same > 100 && named > 100);
    });
}

/// Or sectors of the one that failed, and of the next one, torn, could make up one that seems whole.
#[test]
fn a_checkpoint_that_failed_leaves_its_generation_to_no_other() {
    world(async || {
        // The first two begin the volume; the writes of segments lie behind the copies.
        let below = with_error(&disk(14, 4), "nth = 3\nops = ['write']\nsize = '8KiB'");
        let lld = open(&below).await.unwrap();
        write(&*lld, 0, 8, 1).await.unwrap();
        flush(&*lld).await.unwrap();
        let before = lld.state.borrow().disk.generation;
        lld.checkpoint(&Hints::default()).await.unwrap_err();
        assert_eq!(lld.state.borrow().disk.generation, before);
        lld.checkpoint(&Hints::default()).await.unwrap();
        assert_eq!(lld.state.borrow().disk.generation, before + 3, "in the same copy");
    });
}

#[test]
fn a_clean_stop_leaves_no_log_to_follow() {
    let ((), edges) = world(async || {
        let below = disk(14, 4);
        let lld = open(&below).await.unwrap();
        for value in 1..30 {
            write(&*lld, 0, SECTORS, value).await.unwrap();
        }
        lld.stop().await.unwrap();
        let again = open(&below).await.unwrap();
        assert_eq!(values(&*again, Extent::new(0, SECTORS)).await.unwrap(), [29; SECTORS as usize]);
    });
    assert!(!reached(&edges, "records behind a checkpoint are replayed"));
}

/// A segment of 128 blocks is written with one request, summary and all.
#[test]
fn a_full_segment_is_one_write() {
    world(async || {
        let below = disk(32, 128);
        let whole = Layout::new(below.geometry().sectors, 128, 2, Some(2_000)).unwrap();
        let lld = Lld::open(below, options(2_000, 128, ""), true).await.unwrap();
        for block in 0..127 * 4 {
            write(&*lld, block * 8, 8, 1).await.unwrap();
        }
        let counted = lld.state.borrow().counted;
        assert_eq!((counted.summaries, counted.written), (4, 4 * 128 + counted.checkpoint_blocks));
        assert_eq!(whole.room(), 127);
    });
}

#[test]
fn more_deletions_than_a_summary_holds_take_several() {
    world(async || {
        let below = disk(64, 128);
        let lld = Lld::open(below.clone(), options(4_000, 128, ""), true).await.unwrap();
        for start in (0..4_000).step_by(100) {
            write(&*lld, start * 8, 800, 5).await.unwrap();
        }
        for block in (0..4_000).step_by(2) {
            lld.discard(Extent::of_pages(block, 1), Hints::default()).await.unwrap();
        }
        flush(&*lld).await.unwrap();
        agrees(&lld);
        let again = Lld::open(below, options(4_000, 128, ""), true).await.unwrap();
        let found = values(&*again, Extent::of_pages(0, 4_000)).await.unwrap();
        for (block, found) in found.chunks(8).enumerate() {
            assert_eq!(found, [if block % 2 == 0 { 0 } else { 5 }; 8], "block {block}");
        }
    });
}

/// The page of a checkpoint or a summary with its checksums made right again.
fn sealed(number: u64, page: &mut [u8]) {
    if page.starts_with(b"SKLLLDC2") {
        for (sector, at) in page.chunks_exact_mut(512).zip(number * PAGE_SECTORS..) {
            let generation = u64::from_le_bytes(sector[496..504].try_into().unwrap());
            Part::of(*b"SKLLLDC2", 0).seal(Lba(at), generation, sector);
        }
        return;
    }
    let sum = sum_but(&page[..parity::AT], 8);
    put(page, 8, &sum.to_le_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever checkpoints and summaries say, with checksums that are right: it opens, or tells what is wrong, and
    /// what opens can be read, written and stopped. Nothing panics.
    #[test]
    fn made_up_metadata_is_named_or_harmless(
        changes in proptest::collection::vec((0..58_u64, 0..160_usize, any::<u8>(), any::<bool>()), 1..12),
        writes in 1..40_u8,
    ) {
        Runtime::new(1).run(async {
            let below = disk(14, 4);
            let lld = open(&below).await.unwrap();
            for value in 0..writes {
                write(&*lld, u64::from(value) * 5 % BLOCKS * 8, 8, value).await.unwrap();
                if value % 5 == 3 {
                    flush(&*lld).await.unwrap();
                }
            }
            runtime::sleep(Nanos::from_millis(1_000)).await;
            for (page, at, value, in_head) in changes {
                let place = Extent::of_pages(page, 1);
                let old = below.read(place, Buffer::zeroed(4_096), Hints::default()).await.unwrap();
                let mut bytes = old.to_vec();
                if !bytes.starts_with(b"SKLLLD") {
                    continue;
                }
                // Behind magic and checksum; the entries of a checkpoint are behind its head.
                let at = if in_head || page > 1 { 16 + at } else { 128 + at };
                bytes[at] = value;
                sealed(page, &mut bytes);
                below.write(place, Buffer::from_vec(bytes), Hints::default()).await.unwrap();
            }
            let whole = Extent::new(0, SECTORS);
            if let Ok(lld) = open(&below).await {
                let _ = lld.read(whole, Buffer::zeroed(whole.bytes()), Hints::default()).await;
                for value in 0..20 {
                    let _ = write(&*lld, 0, SECTORS, value).await;
                }
                let _ = lld.stop().await;
            }
        }).unwrap();
    }
}

/// A block rots after a clean stop or a kill: reading it, or writing part of it, is an error that names it;
/// no cleaner moves it; the others are unchanged, and later writes are whole.
#[test]
fn a_block_that_rots_is_an_error_and_is_not_moved() {
    for (stopped, reopened) in [(false, false), (false, true), (true, true)] {
        Runtime::new(1)
            .run(async {
                let below = disk(40, 8);
                let more = "size = '320KiB'\nsegment = '32KiB'";
                let open =
                    async || Lld::open(below.clone(), toml::from_str(more).unwrap(), true).await.unwrap();
                let mut lld = open().await;
                for page in 0..30 {
                    write(&*lld, page * 8, 8, page as u8 + 1).await.unwrap();
                    if page % 5 == 2 {
                        flush(&*lld).await.unwrap();
                    }
                }
                flush(&*lld).await.unwrap();
                if stopped {
                    lld.stop().await.unwrap();
                }
                if reopened {
                    drop(lld);
                    lld = open().await;
                }
                let slot = lld.state.borrow().slots[3];
                let there = lld.layout.extent(slot, 1);
                let bytes = below.read(there, Buffer::zeroed(4096), Hints::default()).await.unwrap();
                let mut bytes = bytes.to_vec();
                bytes[1_000] ^= 1;
                below.write(there, Buffer::from_vec(bytes), Hints::default()).await.unwrap();
                let at = Extent::of_pages(3, 1);
                let error = lld.read(at, Buffer::zeroed(4096), Hints::default()).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert!(error.to_string().contains(&format!("block 3 in slot {slot}")), "{error}");
                for (first, sectors) in [(0, 1), (1, 1), (2, 6), (7, 1)] {
                    let part = Extent::new(3 * 8 + first, sectors);
                    let error =
                        lld.read(part, Buffer::zeroed(part.bytes()), Hints::default()).await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "a part of it: {part:?}");
                }
                assert!(write(&*lld, 3 * 8, 1, 9).await.is_err(), "part of it");
                let segment = lld.layout.segment_of(slot);
                let live = lld.state.borrow().live_blocks(segment);
                lld.pin([segment].into_iter(), 1);
                let read = lld.read_live(segment, &live, &Hints::default()).await;
                lld.pin([segment].into_iter(), -1);
                assert_eq!(read.len(), live.len() - 1);
                assert!(read.iter().all(|(block, ..)| *block != 3));
                assert!(lld.state.borrow().segments.get(segment).spared);
                for page in (0..30).filter(|page| *page != 3) {
                    let found = values(&*lld, Extent::of_pages(page, 1)).await.unwrap();
                    assert_eq!(found, [page as u8 + 1; 8]);
                }
                write(&*lld, 3 * 8, 8, 77).await.unwrap();
                flush(&*lld).await.unwrap();
                assert_eq!(values(&*lld, at).await.unwrap(), [77; 8]);
            })
            .unwrap();
    }
}

/// A part of the log that cannot be read where it seems to end is no end: either all flushed writes are there, or
/// the volume is refused.
#[test]
fn a_log_that_cannot_be_read_is_not_cut_short() {
    let mut refused = 0;
    for page in 0..30 {
        world(async || {
            let below = disk(14, 4);
            let lld = open(&below).await.unwrap();
            write(&*lld, 0, 40, 1).await.unwrap();
            flush(&*lld).await.unwrap();
            write(&*lld, 16, 24, 2).await.unwrap();
            flush(&*lld).await.unwrap();
            // No clean stop.
            drop(lld);
            let expected = [[1; 16].as_slice(), &[2; 24]].concat();
            for pages in 1..3 {
                let bad = format!("until_written = true\nat = '{}KiB'\nsize = '{}KiB'", 4 * page, 4 * pages);
                let bad = with_error(&below, &bad);
                match open(&bad).await {
                    Ok(lld) => {
                        // Its blocks may be what cannot be read.
                        if let Ok(found) = values(&*lld, Extent::new(0, 40)).await {
                            assert_eq!(found, expected, "{page} {pages}");
                        }
                    }
                    Err(error) => {
                        refused += 1;
                        assert!(open_with(&bad, "older = true").await.is_ok() || page < 2, "{error}");
                        let error = error.to_string();
                        assert!(error.contains("cannot be read") || page < 2, "{error}");
                    }
                }
            }
        });
    }
    assert!(refused > 0, "{refused}");
}

/// A page of the log that became zeroes, as a whole: either all that was flushed is there or is known to be damaged, or
/// the volume is refused. Of the last record that takes a pause after its flush, also where the log has no room.
#[test]
fn a_log_of_which_a_page_is_zeroes_is_not_cut_short() {
    let mut refused = 0;
    for (flushes, page) in (0..8).flat_map(|flushes| (2..58).map(move |page| (flushes, page))) {
        world(async || {
            let below = disk(14, 4);
            let lld = open(&below).await.unwrap();
            let mut expected = vec![1; 40];
            write(&*lld, 0, 40, 1).await.unwrap();
            flush(&*lld).await.unwrap();
            for round in 0..flushes {
                let at = 8 * (round % 4);
                write(&*lld, at, 8, 2 + round as u8).await.unwrap();
                expected[at as usize..][..8].fill(2 + round as u8);
                flush(&*lld).await.unwrap();
            }
            sleep(Nanos::from_millis(3_000)).await;
            // No clean stop.
            drop(lld);
            let zeroes = Buffer::zeroed(PAGE_BYTES);
            below.write(Extent::of_pages(page, 1), zeroes, Hints::default()).await.unwrap();
            match open(&below).await {
                Ok(lld) => {
                    if let Ok(found) = values(&*lld, Extent::new(0, 40)).await {
                        assert_eq!(found, expected, "{flushes} {page}");
                    }
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().contains("expected record"), "{page}: {error}");
                    assert!(open_with(&below, "older = true").await.is_ok(), "{page}");
                }
            }
        });
    }
    assert!(refused > 20, "{refused}");
}
