//! The baselines over a simulated disk with real bytes: where their pages are.

use std::collections::BTreeMap;
use std::ops::Range;

use seekless_core::device::Place;
use seekless_core::runtime::{Runtime, sleep};
use seekless_core::{Buffer, Extent, Hints, Nanos, PAGE_SECTORS, Slice};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::registry::{self, Built};
use crate::topmost;
use crate::under_test::{filled, values};

const BASELINES: [&str; 5] = ["alis", "dcd", "lru", "organpipe", "smq"];

/// First page of the BOPT on the disk, and its pages.
const BOPT: u64 = 4_096;
const PAGES: u64 = 2_048;

/// 16 MiB of a disk, and a BOPT of 8 MiB that begins at a page of it.
fn devices(disk: &Rc<dyn BlockDevice>, bopt: u64) -> Below {
    let slice = |first, pages| -> Rc<dyn BlockDevice> {
        Rc::new(Slice::new(disk.clone(), Extent::of_pages(first, pages)).unwrap())
    };
    Below {
        over: vec![slice(0, BOPT)],
        devices: BTreeMap::from([("bopt".to_owned(), vec![slice(bopt, PAGES)])]),
        create: false,
        timing_only: false,
    }
}

fn disk() -> Rc<dyn BlockDevice> {
    Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()))
}

/// A new baseline over these devices.
async fn created(name: &str, options: &str, below: Below) -> Built {
    let (entry, options) = (registry::find(name).unwrap(), toml::from_str::<toml::Table>(options).unwrap());
    entry.create.unwrap()(below.clone(), options.clone(), false).await.expect(name);
    entry.build(below, &options).await.expect(name)
}

async fn layer(name: &str, options: &str) -> Built {
    created(name, options, devices(&disk(), BOPT)).await
}

fn run<T>(work: impl Future<Output = T>) -> T {
    Runtime::new(1).run(work).unwrap()
}

/// The page on the disk where a page of the volume is.
fn place(built: &Built, page: u64) -> u64 {
    let mut found = None;
    built.device.places(Extent::of_pages(page, 1), &mut |_, place| found = Some(place));
    match found {
        Some(Place::On { at, .. }) => at.page(),
        other => panic!("page {page}: {other:?}"),
    }
}

async fn read(built: &Built, page: u64) {
    assert_eq!(values(&*built.device, Extent::of_pages(page, 1)).await.unwrap(), [0; PAGE_SECTORS as usize]);
}

async fn write(built: &Built, page: u64, value: u8) {
    let at = Extent::of_pages(page, 1);
    built.device.write(at, filled(value, PAGE_SECTORS), Hints::default()).await.unwrap();
}

async fn reconfigure(built: &Built) {
    built.layer.command("reconfigure", Hints::default()).await.unwrap();
}

#[test]
fn a_baseline_takes_its_options_of_borg_and_no_others() {
    let all = toml::Table::try_from(Options::default()).unwrap();
    for name in BASELINES {
        let entry = registry::find(name).unwrap();
        let taken = (entry.defaults)();
        for (key, value) in &all {
            let found = entry.check(&toml::Table::from_iter([(key.clone(), value.clone())]));
            assert_eq!(found.is_ok(), taken.contains_key(key), "{name}: {key}");
        }
        assert!(!taken.contains_key("planner") && !taken.contains_key("rehearse"), "{name}: {taken}");
        assert!(COMMON.iter().all(|key| taken.contains_key(*key)), "{name}: {taken}");
        let refused = entry.check(&toml::from_str("write_buffer = 0.4").unwrap()).unwrap_err().to_string();
        assert!(refused.contains("`write_buffer`") && refused.contains("`move_rate`"), "{refused}");
    }
    let values = [("placement", "planned"), ("segment", "0")].map(|(key, value)| {
        registry::find("organpipe").unwrap().check(&toml::Table::from_iter([(key.to_owned(), value.into())]))
    });
    assert!(values[0].is_ok() && values[1].is_err(), "{values:?}");
}

#[test]
fn organpipe_has_the_hottest_cylinder_in_the_middle_and_takes_its_writes_in_place() {
    run(async {
        let built = layer("organpipe", "").await;
        for (cylinder, reads) in [(1, 3), (5, 2), (3, 1)] {
            for _ in 0..reads {
                let at = Extent::of_pages(cylinder * 512, 512);
                built.device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
            }
        }
        reconfigure(&built).await;
        let pages = [5, 1, 3].into_iter().flat_map(|cylinder| cylinder * 512..(cylinder + 1) * 512);
        let places: Vec<u64> = pages.map(|page| place(&built, page)).collect();
        assert!(places[0] > BOPT && places.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{places:?}");
        for page in [512, 0] {
            write(&built, page, 7).await;
        }
        assert_eq!([512, 0].map(|page| place(&built, page)), [places[512], 0], "no other write is absorbed");
    });
}

#[test]
fn alis_has_what_came_again_in_its_order_and_then_the_hottest() {
    run(async {
        let built = layer("alis", "").await;
        for _ in 0..2 {
            for page in [500, 20, 310, 90] {
                read(&built, page).await;
            }
        }
        for page in [5, 700, 9, 9, 9] {
            read(&built, page).await;
        }
        write(&built, 800, 7).await;
        reconfigure(&built).await;
        let places = [500, 20, 310, 90, 9, 5, 700].map(|page| place(&built, page));
        assert!(places[0] > BOPT, "{places:?}");
        assert_eq!(places, [0, 1, 2, 3, 4, 5, 6].map(|behind| places[0] + behind));
        assert_eq!(place(&built, 800), 800, "it was never read");
    });
}

/// Both placements: a page that is planned again stays, or moves to its new place.
#[test]
fn a_page_moves_within_the_area_only_if_all_are_placed_as_planned() {
    for (placement, moves) in [("kept", false), ("planned", true)] {
        run(async {
            let built = layer("alis", &format!("placement = '{placement}'")).await;
            for page in [70, 70, 70, 10, 10, 300] {
                read(&built, page).await;
            }
            reconfigure(&built).await;
            let before = [70, 10, 300].map(|page| place(&built, page));
            for _ in 0..4 {
                read(&built, 300).await;
            }
            reconfigure(&built).await;
            let after = [300, 70, 10].map(|page| place(&built, page));
            assert_eq!(before == after, moves, "{placement}: {before:?}, {after:?}");
            let stayed = [70, 10, 300].map(|page| place(&built, page)) == before;
            assert_eq!(stayed, !moves, "{placement}");
        });
    }
}

#[test]
fn dcd_absorbs_writes_and_drains_them_and_copies_nothing_for_reads() {
    let entry = registry::find("dcd").unwrap();
    assert!(!entry.reconfigures() && !topmost::commands(entry).contains(&"reconfigure"));
    run(async {
        let built = layer("dcd", "").await;
        for (page, value) in [(70, 1), (10, 2), (300, 3)] {
            write(&built, page, value).await;
        }
        let places = [70, 10, 300].map(|page| place(&built, page));
        assert!(places[0] > BOPT && places.is_sorted() && places[2] - places[0] == 4, "a log: {places:?}");
        for _ in 0..9 {
            read(&built, 20).await;
        }
        assert_eq!(place(&built, 20), 20);
        sleep(Nanos::from_millis(60_000)).await;
        assert_eq!([70, 10, 300].map(|page| place(&built, page)), [70, 10, 300], "drained in idle time");
        let read = values(&*built.device, Extent::of_pages(10, 1)).await.unwrap();
        assert_eq!(read, [2; PAGE_SECTORS as usize]);
    });
}

/// BORG's tools work on a baseline's devices, which have no log, or nothing else.
#[test]
fn what_a_baseline_keeps_is_dumped_and_restored() {
    for name in BASELINES {
        run(async {
            let (entry, disk) = (registry::find(name).unwrap(), disk());
            let built = created(name, "", devices(&disk, BOPT)).await;
            read(&built, 70).await;
            if entry.reconfigures() {
                reconfigure(&built).await;
            }
            write(&built, 70, 7).await;
            built.layer.stop().await.unwrap();
            let (none, other) = (toml::Table::new, BOPT + PAGES);
            let dump = entry.tools.dump(devices(&disk, BOPT), none()).await.unwrap();
            assert!(dump.to_string().contains("70"), "{name}: {dump}");
            // A dump has no data.
            let all = Extent::of_pages(BOPT, PAGES);
            let data = disk.read(all, Buffer::zeroed(all.bytes()), Hints::default()).await.unwrap();
            disk.write(Extent::of_pages(other, PAGES), data, Hints::default()).await.unwrap();
            let supers = Extent::of_pages(other, 2);
            disk.write(supers, Buffer::zeroed(supers.bytes()), Hints::default()).await.unwrap();
            entry.tools.restore(devices(&disk, other), none(), dump.clone(), false).await.unwrap();
            assert_eq!(entry.tools.dump(devices(&disk, other), none()).await.unwrap(), dump, "{name}");
            let wrong = toml::Table::from_iter([("planner".to_owned(), "address".into())]);
            let refused = entry.tools.dump(devices(&disk, BOPT), wrong).await.unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains("`planner`"), "{refused}");
        });
    }
}

/// There is room for 1,364 pages: of the others LRU gives up what was used first, SMQ what was used least.
#[test]
fn lru_keeps_what_was_used_last_and_smq_what_was_used_most() {
    for (name, kept) in [("lru", [164, 1_200]), ("smq", [196, 1_168])] {
        run(async {
            let built = layer(name, "segment = '16KiB'").await;
            let copied = |pages: Range<u64>| pages.filter(|&page| place(&built, page) > BOPT).count();
            for page in (0..8).flat_map(|_| 0..200) {
                read(&built, page).await;
            }
            reconfigure(&built).await;
            assert_eq!(copied(0..200), 200, "{name}");
            for page in 1_000..2_200 {
                read(&built, page).await;
            }
            reconfigure(&built).await;
            assert_eq!([copied(0..200), copied(1_000..2_200)], kept, "{name}");
        });
    }
}
