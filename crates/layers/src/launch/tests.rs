//! Starts on a simulated disk: learned pages are in memory before a client reads them, and data stays right.

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_core::runtime::{Runtime, now, sleep};
use seekless_core::{Nanos, Origin, ProcessId, SECTOR_BYTES, Slice};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::cdp::CDP;
use crate::fault::{Faulty, error};
use crate::under_test::with_error;

fn disk(sectors: u64) -> Rc<dyn BlockDevice> {
    let disk = Disk::new(0, &spec::find("wd6400aaks").unwrap(), QueueOptions::default());
    Rc::new(Slice::new(Rc::new(disk), Extent::new(0, sectors)).unwrap())
}

async fn layer(below: &Rc<dyn BlockDevice>, options: &str, manner: Manner) -> Rc<Launch> {
    keeping(below, None, options, manner).await.unwrap()
}

async fn keeping(
    below: &Rc<dyn BlockDevice>,
    area: Option<&Rc<dyn BlockDevice>>,
    options: &str,
    manner: Manner,
) -> Result<Rc<Launch>, IoError> {
    let options: Options = toml::from_str(options).unwrap();
    options.check().unwrap();
    Launch::open(below.clone(), area.cloned(), options, manner, false).await
}

fn counted(layer: &Launch, name: &str) -> u64 {
    layer.counters().iter().find(|(key, _)| *key == name).unwrap().1
}

/// Pages of a program, scattered.
fn program(base: u64) -> Vec<u64> {
    (0..100).map(|number| base + number * 7_919 % 100_000).collect()
}

/// A process reads them one after the other; returns how long it took.
async fn start(device: &dyn BlockDevice, pages: &[u64], process: u32) -> Nanos {
    let begin = now();
    let how =
        Hints { origin: Origin { process: ProcessId(process), ..Origin::default() }, ..Hints::default() };
    for page in pages {
        let at = Extent::of_pages(*page, 1);
        device.read(at, Buffer::zeroed(at.bytes()), how.clone()).await.unwrap();
        // It computes.
        sleep(Nanos::from_millis(5)).await;
    }
    let took = now() - begin;
    sleep(Nanos::from_millis(5_000)).await;
    took
}

#[test]
fn a_program_that_was_started_twice_starts_faster() {
    for manner in [LAUNCH, CDP] {
        Runtime::new(1)
            .run(async {
                let layer = layer(&disk(1 << 24), "least = '64KiB'", manner).await;
                let pages = program(1_000);
                let cold = start(&*layer, &pages, 1).await;
                let second = start(&*layer, &pages, 2).await;
                assert_eq!(counted(&layer, "launches"), 0, "learned from one start only");
                let third = start(&*layer, &pages, 3).await;
                assert!(second.0 > cold.0 / 10 * 9);
                assert!(third.0 < cold.0 / 4 * 3, "{manner:?}: {third} instead of {cold}");
                let fetched = counted(&layer, "pages_fetched");
                assert_eq!(
                    (counted(&layer, "launches"), fetched),
                    (1, 97),
                    "all but the first three; there are no gaps"
                );
                assert_eq!(counted(&layer, "pages_fetched_used"), 97);
                assert_eq!(counted(&layer, "reads_prefetched"), 97);
                assert_eq!(counted(&layer, "reads_waited") > 0, manner.holds, "{manner:?}");
                // Without holding, some are read by the client first, and then fetched for nothing.
                let held = counted(&layer, "pages_held");
                assert!(held == 0 || !manner.holds, "{held} pages did not leave when they were read");
                layer.detach().await.unwrap();
            })
            .unwrap();
    }
}

#[test]
fn other_reads_and_other_orders_fetch_nothing() {
    Runtime::new(1)
        .run(async {
            let layer = layer(&disk(1 << 24), "least = '64KiB'", LAUNCH).await;
            let (pages, mut other) = (program(1_000), program(1_000));
            start(&*layer, &pages, 1).await;
            start(&*layer, &pages, 2).await;
            other.reverse();
            start(&*layer, &other, 3).await;
            start(&*layer, &program(500_000), 4).await;
            assert_eq!(counted(&layer, "launches"), 0);
        })
        .unwrap();
}

#[test]
fn what_cannot_be_fetched_is_read_by_the_client() {
    Runtime::new(1)
        .run(async {
            let failing = error::Error::new(&toml::from_str("rate_pct = 30.0\nops = ['read']").unwrap());
            let below: Rc<dyn BlockDevice> = Rc::new(Faulty::new(disk(1 << 24), failing));
            let layer = layer(&below, "least = '64KiB'", LAUNCH).await;
            let pages = program(1_000);
            for process in 0..6 {
                for page in &pages {
                    let at = Extent::of_pages(*page, 1);
                    let origin = Origin { process: ProcessId(process), ..Origin::default() };
                    // A client tries again; in the end it has its page.
                    while layer
                        .read(at, Buffer::zeroed(at.bytes()), Hints { origin, ..Hints::default() })
                        .await
                        .is_err()
                    {}
                }
                sleep(Nanos::from_millis(5_000)).await;
            }
            assert!(counted(&layer, "launches") > 0);
            layer.stop().await.unwrap();
            assert!(layer.ahead.is_idle());
        })
        .unwrap();
}

#[test]
fn a_stop_ends_what_is_being_fetched() {
    Runtime::new(1)
        .run(async {
            let layer = layer(&disk(1 << 24), "least = '64KiB'\nat_once = 1", CDP).await;
            let pages = program(1_000);
            start(&*layer, &pages, 1).await;
            start(&*layer, &pages, 2).await;
            for page in &pages[..3] {
                let at = Extent::of_pages(*page, 1);
                layer.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
            }
            assert_eq!(counted(&layer, "launches"), 1);
            let begin = now();
            layer.detach().await.unwrap();
            assert!((now() - begin) < Nanos::from_millis(100), "not all of it is fetched");
            assert!(counted(&layer, "pages_held") < 50);
        })
        .unwrap();
}

#[test]
fn options_that_cannot_be_are_refused() {
    for (text, key) in [
        ("size = '4KiB'", "size"),
        ("size = '1048577B'", "size"),
        ("quiet = '1us'", "quiet"),
        ("starts = 0", "starts"),
        ("starts = 17", "starts"),
        ("at_once = 0", "at_once"),
        ("least = '512B'", "least"),
        ("learned = '4KiB'", "learned"),
        ("sweep = '0B'", "sweep"),
    ] {
        let refused = toml::from_str::<Options>(text).map_err(|error| error.to_string());
        let refused = refused.and_then(|options| options.check().map_err(|refused| refused.to_string()));
        assert!(refused.unwrap_err().contains(key), "{text}");
    }
}

/// A client's step: a start of one of three programs, or a write to one of their pages.
fn steps() -> impl Strategy<Value = Vec<(u8, u64)>> {
    prop::collection::vec((0_u8..5, 0_u64..12), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn clients_read_what_was_written_last(steps in steps(), holds: bool) {
        let manner = if holds { LAUNCH } else { CDP };
        Runtime::new(1).run(async {
            let options = "least = '16KiB'\nsize = '1MiB'\nstarts = 1\nquiet = '10ms'\nlearned = '1MiB'";
            let layer = layer(&disk(1 << 20), options, manner).await;
            let mut written: BTreeMap<u64, u8> = BTreeMap::new();
            for (number, (what, which)) in (1_u8..).zip(steps) {
                if what >= 3 {
                    let at = Extent::of_pages(which * 100, 1);
                    let data = Buffer::from_vec(vec![number; at.bytes() as usize]);
                    layer.write(at, data, Hints::default()).await.unwrap();
                    written.insert(which * 100, number);
                    continue;
                }
                // A write comes while the rest of the start is being fetched.
                for turn in 0..12 {
                    let page = (turn * 5 + u64::from(what)) % 12 * 100;
                    let at = Extent::of_pages(page, 1);
                    let read = layer.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
                    let expected = written.get(&page).copied().unwrap_or(0);
                    assert!(read.to_vec().iter().all(|byte| *byte == expected), "page {page}");
                    if turn == 3 + which % 4 {
                        let page = which * 100;
                        let data = Buffer::from_vec(vec![number; 8 * SECTOR_BYTES as usize]);
                        layer.write(Extent::of_pages(page, 1), data, Hints::default()).await.unwrap();
                        written.insert(page, number);
                    }
                }
                sleep(Nanos::from_millis(50)).await;
            }
        }).unwrap();
    }
}

/// Programs with contents of their own, on a disk of this size.
async fn filled(sectors: u64, value: u8) -> Rc<dyn BlockDevice> {
    let disk = disk(sectors);
    for page in program(1_000) {
        let at = Extent::of_pages(page, 1);
        let data = Buffer::from_vec(vec![value ^ page as u8; at.bytes() as usize]);
        disk.write(at, data, Hints::default()).await.unwrap();
    }
    disk
}

#[test]
fn sequences_are_kept_over_restarts() {
    for stops in [true, false] {
        Runtime::new(1)
            .run(async {
                let (below, area, pages) = (filled(1 << 24, 0).await, disk(1 << 11), program(1_000));
                let before = keeping(&below, Some(&area), "least = '64KiB'", LAUNCH).await.unwrap();
                start(&*before, &pages, 1).await;
                start(&*before, &pages, 2).await;
                // Another one begins: the second has ended.
                start(&*before, &program(2_000)[..20], 3).await;
                if stops {
                    before.stop().await.unwrap();
                } else {
                    sleep(Nanos::from_millis(20_000)).await;
                }
                drop(before);
                let again = keeping(&below, Some(&area), "least = '64KiB'", LAUNCH).await.unwrap();
                start(&*again, &pages, 4).await;
                assert_eq!((counted(&again, "launches"), counted(&again, "reads_prefetched")), (1, 97));
                again.stop().await.unwrap();
                again.give_up().await.unwrap();
                let anew = keeping(&below, Some(&area), "least = '64KiB'", LAUNCH).await.unwrap();
                assert_eq!(counted(&anew, "sequences"), 0);
            })
            .unwrap();
    }
}

#[test]
fn sequences_that_are_damaged_or_of_another_volume_are_not_used() {
    Runtime::new(1)
        .run(async {
            let (below, area, pages) = (filled(1 << 24, 0).await, disk(1 << 11), program(1_000));
            let open = async |below: &Rc<dyn BlockDevice>| keeping(below, Some(&area), "least = '64KiB'", CDP).await;
            for process in 0..2 {
                let layer = open(&below).await.unwrap();
                start(&*layer, &pages, process).await;
                layer.stop().await.unwrap();
            }
            assert_eq!(counted(&open(&below).await.unwrap(), "sequences"), 1);
            // Another disk, on which no page is the same; and another one of another size.
            assert_eq!(counted(&open(&filled(1 << 24, 99).await).await.unwrap(), "sequences"), 0);
            let error = open(&disk(1 << 23)).await.err().unwrap().to_string();
            let says = "found the sequences of another volume, of 16777216 sectors, expected those of this one, of 8388608";
            assert!(error.contains(says), "{error}");
            // Sectors of one copy, and of the programs, cannot be read.
            for (below_at, area_at) in [(None, Some("0B")), (None, Some("512KiB")), (None, Some("1KiB")), (Some("4000KiB"), None)] {
                let fails = |device: &Rc<dyn BlockDevice>, at: Option<&str>| match at {
                    Some(at) => with_error(device, &format!("ops = ['read']\nat = '{at}'\nsize = '1KiB'\nrate_pct = 100.0")),
                    None => device.clone(),
                };
                let layer = keeping(&fails(&below, below_at), Some(&fails(&area, area_at)), "least = '64KiB'", CDP).await.unwrap();
                assert_eq!(counted(&layer, "sequences"), 1, "{area_at:?}");
            }
            // One copy is damaged, then both.
            let damage = async |sector: u64| {
                let data = Buffer::from_vec(vec![7; SECTOR_BYTES as usize]);
                area.write(Extent::new(sector, 1), data, Hints::default()).await.unwrap();
            };
            damage(1).await;
            assert_eq!(counted(&open(&below).await.unwrap(), "sequences"), 1);
            damage(1_025).await;
            let anew = open(&below).await.unwrap();
            assert_eq!(counted(&anew, "sequences"), 0);
            // It is written again.
            start(&*anew, &pages, 9).await;
            anew.stop().await.unwrap();
            assert_eq!(counted(&open(&below).await.unwrap(), "sequences"), 1);
            // Something else is not overwritten.
            let files = disk(1 << 11);
            files.write(Extent::of_pages(0, 1), Buffer::from_vec(vec![9; 4_096]), Hints::default()).await.unwrap();
            let error = keeping(&below, Some(&files), "", CDP).await.err().unwrap().to_string();
            assert!(error.contains("found other data in the area of sequences"), "{error}");
            let marked = |at: u64, bytes: &[u8]| {
                let mut page = vec![0; 4_096];
                page[at as usize..][..bytes.len()].copy_from_slice(bytes);
                Buffer::from_vec(page)
            };
            // The first sector of these has nothing.
            for (page, at, mark) in [(0, 1_080, b"\x53\xef".as_slice()), (0, 512, b"LABELONE"), (16, 64, b"_BHRfS_M")] {
                let files = disk(1 << 11);
                files.write(Extent::of_pages(page, 1), marked(at, mark), Hints::default()).await.unwrap();
                let error = keeping(&below, Some(&files), "", CDP).await.err().unwrap().to_string();
                assert!(error.contains("found other data in the area of sequences"), "{error}");
            }
            // A first write that a crash cut short is no other data.
            let torn = disk(1 << 11);
            let layer = keeping(&below, Some(&torn), "least = '64KiB'", CDP).await.unwrap();
            start(&*layer, &pages, 1).await;
            layer.stop().await.unwrap();
            torn.write(Extent::new(0, 1), Buffer::zeroed(SECTOR_BYTES), Hints::default()).await.unwrap();
            assert!(crate::contents::found(&*torn).await.unwrap().is_some(), "it was written");
            assert_eq!(counted(&keeping(&below, Some(&torn), "", CDP).await.unwrap(), "sequences"), 0);
            let tiny = keeping(&below, Some(&disk(8)), "", CDP).await.err().unwrap().to_string();
            assert!(tiny.contains("found an area of 8 sectors, expected 16 or more"), "{tiny}");
        })
        .unwrap();
}
