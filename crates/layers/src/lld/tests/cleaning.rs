//! The cleaner: it always gets on, it loses nothing, and it chooses as Sprite LFS does.

use seekless_core::runtime::{self, Rng};
use seekless_drive::freeblock::FreeOptions;

use super::*;

/// Writes single blocks all over, and reads them all in the end.
async fn overwrite(lld: &Lld, blocks: u64, writes: u64, seed: u64) {
    let mut rng = Rng::seeded(seed);
    let mut last = vec![1_u8; blocks as usize];
    for start in (0..blocks).step_by(16) {
        write(lld, start * 8, 8 * 16.min(blocks - start), 1).await.unwrap();
    }
    for number in 0..writes {
        let block = rng.below(blocks);
        last[block as usize] = number as u8;
        write(lld, block * 8, 8, number as u8).await.unwrap();
        if rng.below(40) == 0 {
            flush(lld).await.unwrap();
        }
    }
    lld.take_over_all().await;
    agrees(lld);
    let found = values(lld, Extent::of_pages(0, blocks)).await.unwrap();
    let expected: Vec<u8> = last.iter().flat_map(|value| [*value; 8]).collect();
    assert!(found == expected, "something was lost");
}

/// As full as it can be, however small: each write finds a segment.
#[test]
fn a_volume_as_full_as_can_be_never_stops() {
    for (segments, segment) in [(8, 4), (10, 4), (9, 8), (40, 4), (33, 8), (12, 64)] {
        for cleaner in [
            "cleaner = 'original'",
            "cleaner = 'freeblock'\nfree_threshold = 4",
            "cleaner = 'freeblock'\nfree_threshold = 4\nplug = '32KiB'",
        ] {
            world(async || {
                let blocks = (segments - 4) * (segment - 2);
                let below = disk(segments, segment);
                let lld = Lld::open(below.clone(), options(blocks, segment, cleaner), true).await.unwrap();
                overwrite(&lld, blocks, 1_500, segments).await;
                lld.stop().await.unwrap();
                let again = Lld::open(below, options(blocks, segment, cleaner), true).await.unwrap();
                overwrite(&again, blocks, 200, segments).await;
            });
        }
    }
}

/// Blocks go into holes, also into those of a volume that was opened; reads see them in memory and there; a flush
/// covers those that wait; and their segments are not freed.
#[test]
fn dead_slots_are_filled_again() {
    let plugs = "cleaner = 'freeblock'\nfree_threshold = 4\nplug = '64KiB'";
    let plugged = |lld: &Lld| lld.state.borrow().holes.plugged;
    world(async || {
        let below = disk(40, 8);
        let lld = Lld::open(below.clone(), options(200, 8, plugs), true).await.unwrap();
        let mut rng = Rng::seeded(5);
        write(&*lld, 0, 200 * 8, 1).await.unwrap();
        for number in 0..400 {
            write(&*lld, rng.below(200) * 8, 8, number as u8).await.unwrap();
            // Without a pause no class below clients' has time on the drive.
            runtime::sleep(seekless_core::Nanos::from_millis(20)).await;
        }
        assert!(plugged(&lld) > 200, "{}", plugged(&lld));
        lld.stop().await.unwrap();
        let again = Lld::open(below.clone(), options(200, 8, plugs), true).await.unwrap();
        write(&*again, 0, 8, 7).await.unwrap();
        // The first write begins a session, and is staged.
        assert_eq!(
            again.state.borrow().holes.staged(0).is_some(),
            again.state.borrow().holes.numbers().1 > 0
        );
        assert_eq!(values(&*again, Extent::new(0, 8)).await.unwrap(), [7; 8]);
        runtime::sleep(seekless_core::Nanos::from_millis(1_000)).await;
        write(&*again, 8, 8, 8).await.unwrap();
        runtime::sleep(seekless_core::Nanos::from_millis(1_000)).await;
        assert!(plugged(&again) > 0, "the holes of an opened volume are used");
        write(&*again, 16, 8, 9).await.unwrap();
        flush(&*again).await.unwrap();
        assert!(again.state.borrow().holes.all_staged().is_empty());
        drop(again);
        let last = Lld::open(below, options(200, 8, ""), true).await.unwrap();
        for (block, value) in [7, 8, 9].into_iter().enumerate() {
            let found = values(&*last, Extent::new(block as u64 * 8, 8)).await.unwrap();
            assert_eq!(found, [value; 8]);
        }
    });
}

/// Neither a write nor zeroes, also of a part of a block.
#[test]
fn nothing_that_is_durable_when_answered_waits_for_a_hole() {
    let plugs = "cleaner = 'freeblock'\nfree_threshold = 4\nplug = '64KiB'";
    for zeroes in [false, true] {
        world(async || {
            let below = disk(40, 8);
            let lld = Lld::open(below.clone(), options(200, 8, plugs), true).await.unwrap();
            write(&*lld, 0, 200 * 8, 1).await.unwrap();
            flush(&*lld).await.unwrap();
            write(&*lld, 0, 50 * 8, 2).await.unwrap();
            lld.settle().await.unwrap();
            write(&*lld, 400, 8, 3).await.unwrap();
            assert!(lld.state.borrow().holes.staged(50).is_some(), "holes are in use");
            let (at, fua) = (Extent::new(802, 4), Hints { fua: true, ..Hints::default() });
            if zeroes {
                lld.write_zeroes(at, fua, Zeroes::default()).await.unwrap();
            } else {
                lld.write(at, Buffer::zeroed(at.bytes()), fua).await.unwrap();
            }
            // A crash would lose the blocks that are in memory alone.
            let again = Lld::open(below, options(200, 8, plugs), true).await.unwrap();
            assert_eq!(values(&*again, Extent::new(800, 8)).await.unwrap(), [1, 1, 0, 0, 0, 0, 1, 1]);
        });
    }
}

#[test]
fn what_waits_for_holes_is_whole_blocks_and_of_the_freeblock_cleaner() {
    let error = toml::from_str::<Options>("plug = '64KiB'").unwrap().check().unwrap_err();
    assert_eq!((error.key, error.found.as_str()), ("plug", "65536 bytes"));
    let error =
        toml::from_str::<Options>("plug = '5KiB'\ncleaner = 'freeblock'").unwrap().check().unwrap_err();
    assert_eq!(error.expected, "whole blocks of 4 KiB, at most 1 GiB of them");
}

/// Of two segments that are as full, the older one; of two that are as old, the emptier one; and a cold one that is
/// rather full before a hot one that is less so.
#[test]
fn segments_are_chosen_by_cost_and_benefit() {
    world(async || {
        let lld = Lld::open(disk(32, 8), options(160, 8, ""), true).await.unwrap();
        // Segments of seven blocks, one after the other.
        for segment in 0..12 {
            write(&*lld, segment * 56, 56, 1).await.unwrap();
        }
        lld.stop().await.unwrap();
        let kill = async |blocks: &[u64]| {
            for &block in blocks {
                lld.discard(Extent::of_pages(block, 1), Hints::default()).await.unwrap();
            }
        };
        // Of the second and the eighth one block, of the fourth two, of the ninth three.
        kill(&[7, 49, 21, 22, 56, 57, 58]).await;
        let state = lld.state.borrow();
        let value = |segment: u32| {
            let segment = state.segments.get(segment);
            let (u, age) = (f64::from(segment.live) / 7.0, (state.log.sequence - segment.written) as f64);
            (1.0 - u) * age / (1.0 + u)
        };
        assert!(value(3) > value(8) && value(8) > value(1) && value(1) > value(7));
        assert_eq!(state.worth_cleaning(4, 100, false), Some(vec![3, 8, 1, 7]));
        assert_eq!(state.worth_cleaning(2, 100, false), Some(vec![3, 8]));
        assert_eq!(state.worth_cleaning(4, 10, false), Some(vec![3, 8]), "what does not fit is left");
        assert_eq!(state.worth_cleaning(1, 100, true), None, "one block is no gain");
    });
}

/// Live blocks on bad sectors: the others of their segments are moved, and these stay what they are.
#[test]
fn what_cannot_be_read_stays_and_stops_nothing() {
    let ((), edges) = world(async || {
        let below = disk(40, 8);
        let (blocks, more) = (120, "");
        let lld = Lld::open(below.clone(), options(blocks, 8, more), true).await.unwrap();
        for start in 0..blocks {
            write(&*lld, start * 8, 8, 3).await.unwrap();
        }
        lld.stop().await.unwrap();
        drop(lld);
        // The block in the third slot of the second segment.
        let bad = Layout::new(below.geometry().sectors, 8, 2, Some(blocks)).unwrap().extent(8 + 3, 1);
        let failing = format!("for_ever = true\nops = ['read']\nat = '{}'\nsize = '4KiB'", bad.start.0 * 512);
        let lld = Lld::open(with_error(&below, &failing), options(blocks, 8, more), true).await.unwrap();
        let lost = (0..blocks).find(|block| lld.state.borrow().slots[*block as usize] == 8 + 3).unwrap();
        let mut rng = Rng::seeded(1);
        for number in 0..1_500 {
            let block = rng.below(blocks);
            if block != lost {
                write(&*lld, block * 8, 8, number as u8).await.unwrap();
            }
        }
        assert!(values(&*lld, Extent::of_pages(lost, 1)).await.is_err(), "it is not forgotten");
        assert_eq!(lld.state.borrow().slots[lost as usize], 8 + 3);
        flush(&*lld).await.unwrap();
        write(&*lld, lost * 8, 8, 9).await.unwrap();
        assert_eq!(values(&*lld, Extent::of_pages(lost, 1)).await.unwrap(), [9; 8]);
        agrees(&lld);
    });
    assert!(reached(&edges, "a segment cannot be read at once: block by block"));
}

/// What has a length only is moved as such: the memory of a run that measures time does not grow.
#[test]
fn what_is_hollow_stays_hollow() {
    world(async || {
        let lld = Lld::open(disk(40, 8), options(180, 8, ""), true).await.unwrap();
        let mut rng = Rng::seeded(1);
        for _ in 0..2_000 {
            let at = Extent::of_pages(rng.below(180), 1);
            lld.write(at, Buffer::hollow(4_096), Hints::default()).await.unwrap();
        }
        assert!(lld.state.borrow().counted.moved > 100);
        assert!(lld.state.borrow().segments.iter().all(|(_, segment)| segment.live == 0 || segment.hollow));
    });
}

/// On a drive that does free work, under reads that keep it busy: segments are cleaned for free, clients wait for
/// the cleaner less often, and what is moved apart they do not write either.
#[test]
fn the_freeblock_cleaner_saves_waits() {
    let measure = |cleaner: &'static str| {
        let (counted, _) = world(async || {
            let queue = QueueOptions { freeblock: Some(FreeOptions::default()), ..QueueOptions::default() };
            let spec = spec::find("quantum-atlas-10k").unwrap();
            let disk: Rc<dyn BlockDevice> = Rc::new(Disk::new(0, &spec, queue));
            let part = Slice::new(disk.clone(), Extent::of_pages(0, 40_000)).unwrap();
            let more = format!("cleaner = {cleaner}\nfree_threshold = 40\nat_once = 24");
            let lld = Lld::open(Rc::new(part), options(30_000, 128, &more), true).await.unwrap();
            let readers: Vec<_> = (0..4)
                .map(|reader| {
                    let disk = disk.clone();
                    runtime::spawn(async move {
                        let mut rng = Rng::seeded(reader);
                        loop {
                            let at = Extent::new(rng.below(40_000) * 8, 8);
                            disk.read(at, Buffer::hollow(4_096), Hints::default()).await.unwrap();
                        }
                    })
                })
                .collect();
            let mut rng = Rng::seeded(7);
            let write = async |block: u64, blocks: u64| {
                let at = Extent::of_pages(block, blocks);
                lld.write(at, Buffer::hollow(at.bytes()), Hints::default()).await.unwrap();
                runtime::sleep(Nanos::from_millis(if blocks > 1 { 100 } else { 5 })).await;
            };
            for block in (0..30_000).step_by(500) {
                write(block, 500).await;
            }
            for _ in 0..20_000 {
                write(rng.below(30_000), 1).await;
            }
            let counted = lld.state.borrow().counted;
            // Faster than anybody cleans: what is withdrawn then fails nothing.
            for _ in 0..5_000 {
                let at = Extent::of_pages(rng.below(30_000), 1);
                lld.write(at, Buffer::hollow(at.bytes()), Hints::default()).await.unwrap();
            }
            lld.stop().await.unwrap();
            drop(readers);
            counted
        });
        counted
    };
    let original = measure("'original'");
    let [joined, apart] = ["'freeblock'\nmoved = 'joined'", "'freeblock'"].map(measure);
    println!("{original:?}\n{joined:?}\n{apart:?}");
    assert!(original.cleaned > 50 && original.moved_free == 0 && original.waits > 20);
    for free in [joined, apart] {
        assert!(free.cleaned_free > 50 && free.moved_free > 1_000);
        assert!(free.waited_ns * 2 < original.waited_ns, "{} of {}", free.waited_ns, original.waited_ns);
    }
    assert!(joined.moved_apart == 0 && apart.moved_apart > 1_000);
    assert!(apart.written * 10 < joined.written * 9, "{} of {}", apart.written, joined.written);
}
