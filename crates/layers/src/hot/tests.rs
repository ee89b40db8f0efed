//! The volume and its zone: what is where, what moves when, and what is refused. Crashes are explored in
//! `tests/promises`.

use std::collections::BTreeSet;

use proptest::prelude::*;
use seekless_core::device::Place;
use seekless_core::runtime::{Runtime, sleep};
use seekless_core::{Account, Class, ErrorKind, Extent, Hints, Layer, Nanos, PAGE_SECTORS, Slice};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::under_test::{PAGES, SECTORS, Step, Versions, filled, steps, values, with_error, write};

fn device(pages: u64) -> Rc<dyn BlockDevice> {
    let disk = Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default());
    Rc::new(Slice::new(Rc::new(disk), Extent::of_pages(0, pages)).unwrap())
}

/// 56 slots of a page, half of them before the 8 of the zone and half behind.
const DISK: u64 = 4 + 64;

async fn open(device: &Rc<dyn BlockDevice>, options: &str) -> Result<Rc<Placed>, IoError> {
    let zone = if options.contains("zone") { "" } else { "zone = '32KiB'" };
    let text = format!("unit = '4KiB'\nleast = 2\nidle = '1ms'\n{zone}\n{options}");
    let options: Options = toml::from_str(&text).unwrap();
    options.check().unwrap();
    super::open(device.clone(), &options, true, false).await
}

fn count(volume: &Placed, name: &str) -> u64 {
    volume.counters().into_iter().find(|(known, _)| *known == name).expect(name).1
}

/// The slot of each page, in the order of the disk.
fn slots(volume: &Placed) -> Vec<u64> {
    let mut all = Vec::new();
    volume.places(Extent::new(0, volume.geometry().sectors), &mut |part, place| {
        let Place::On { at, .. } = place else { panic!("a page is nowhere") };
        all.extend((0..part.sectors / PAGE_SECTORS).map(|page| at.0 / PAGE_SECTORS + page - 4));
    });
    all
}

/// Reads nearly all of each page, so that no read goes on where another one ended.
async fn read_pages(volume: &Placed, pages: impl Iterator<Item = u64>) {
    for page in pages {
        values(volume, Extent::new(page * PAGE_SECTORS, 7)).await.unwrap();
    }
}

async fn fill(volume: &Placed, pages: u64) {
    for page in 0..pages {
        // Not counted: it is in class background.
        let how = Hints { class: Class::Background, ..Hints::default() };
        volume.write(Extent::of_pages(page, 1), filled(page as u8, 8), how).await.unwrap();
    }
}

async fn check(volume: &Placed) {
    for page in 0..56 {
        let found = values(volume, Extent::of_pages(page, 1)).await.unwrap();
        assert_eq!(found, [page as u8; 8], "page {page}");
    }
}

fn in_a_world<T>(work: impl Future<Output = T>) -> T {
    Runtime::new(1).run(work).unwrap()
}

#[test]
fn a_new_volume_is_in_order_around_its_zone() {
    for (at, before) in [("middle", 28), ("outer", 0)] {
        in_a_world(async {
            let volume = open(&device(DISK), &format!("at = '{at}'")).await.unwrap();
            assert_eq!(volume.geometry().sectors, 56 * PAGE_SECTORS);
            let expected: Vec<u64> =
                (0..56).map(|page| if page < before { page } else { page + 8 }).collect();
            assert_eq!(slots(&volume), expected);
            // A request on both sides of the zone.
            write(&*volume, 27 * PAGE_SECTORS, 2 * PAGE_SECTORS, 5).await.unwrap();
            let around = values(&*volume, Extent::of_pages(26, 4)).await.unwrap();
            assert_eq!(around, [[0; 8], [5; 8], [5; 8], [0; 8]].concat());
        });
    }
}

#[test]
fn hot_pages_move_next_to_each_other_and_return_to_their_places() {
    in_a_world(async {
        let device = device(DISK);
        let volume = open(&device, "").await.unwrap();
        fill(&volume, 56).await;
        let zone: BTreeSet<u64> = (28..36).collect();
        let far = [3, 4, 20, 50, 51, 55];
        for _ in 0..4 {
            read_pages(&volume, far.into_iter()).await;
        }
        sleep(Nanos::from_millis(5_000)).await;
        let now = slots(&volume);
        assert!(far.iter().all(|page| zone.contains(&now[*page as usize])), "{now:?}");
        assert_eq!(
            (now[3] + 1, now[50] + 1),
            (now[4], now[51]),
            "neighbours stay next to each other: {now:?}"
        );
        assert_eq!(count(&volume, "units_moved_in"), 6);
        check(&volume).await;
        assert_eq!(count(&volume, "reads_in_zone"), 6);
        volume.stop().await.unwrap();
        drop(volume);
        // Others become hot, and those return to their places.
        let volume = open(&device, "").await.unwrap();
        assert_eq!(slots(&volume), now);
        for _ in 0..6 {
            read_pages(&volume, 8..15).await;
        }
        sleep(Nanos::from_millis(5_000)).await;
        let then = slots(&volume);
        assert!((8..15).all(|page| zone.contains(&then[page])), "{then:?}");
        let places = |page: usize| page as u64 + if page < 28 { 0 } else { 8 };
        assert!(far.iter().all(|page| then[*page as usize] == places(*page as usize)), "{then:?}");
        assert_eq!(count(&volume, "units_moved_out"), 6);
        check(&volume).await;
    });
}

#[test]
fn pages_move_when_asked_or_in_pauses() {
    in_a_world(async {
        let volume = open(&device(DISK), "when = 'asked'").await.unwrap();
        fill(&volume, 56).await;
        for _ in 0..4 {
            read_pages(&volume, 50..53).await;
        }
        sleep(Nanos::from_millis(5_000)).await;
        assert_eq!(count(&volume, "units_moved_in"), 0);
        let moved = volume.reconfigure(Account::default()).await.unwrap().unwrap();
        assert_eq!((count(&volume, "units_moved_in"), moved.copied_pages), (3, 3));
        assert_eq!(volume.reconfigure(Account::default()).await.unwrap().unwrap().copied_pages, 0);
        volume.command("reconfigure", Hints::default()).await.unwrap();
        check(&volume).await;
        // Requests that go on where another one ended do not count, nor do large ones.
        for _ in 0..9 {
            for page in 20..24 {
                values(&*volume, Extent::of_pages(page, 1)).await.unwrap();
            }
        }
        assert_eq!(
            volume.reconfigure(Account::default()).await.unwrap().unwrap().copied_pages,
            1,
            "the first"
        );
        let volume = open(&device(DISK), "sequential = '16KiB'").await.unwrap();
        for _ in 0..9 {
            values(&*volume, Extent::of_pages(40, 6)).await.unwrap();
        }
        sleep(Nanos::from_millis(5_000)).await;
        assert_eq!(count(&volume, "units_moved_in"), 0);
    });
}

#[test]
fn a_slot_that_cannot_be_written_is_avoided_and_moves_end() {
    in_a_world(async {
        let device = device(DISK);
        open(&device, "").await.unwrap().stop().await.unwrap();
        // The first slot of the zone.
        let bad = with_error(
            &device,
            "rate_pct = 100.0
ops = ['write']
at = '128KiB'
size = '4KiB'",
        );
        let volume = open(&bad, "").await.unwrap();
        for _ in 0..4 {
            read_pages(&volume, 50..53).await;
        }
        sleep(Nanos::from_millis(5_000)).await;
        assert!(!volume.is_moving());
        assert_eq!(count(&volume, "units_moved_in"), 2, "others take other slots");
        for _ in 0..4 {
            read_pages(&volume, 50..53).await;
        }
        sleep(Nanos::from_millis(5_000)).await;
        assert_eq!(count(&volume, "units_moved_in"), 3);
        assert!(!slots(&volume).contains(&28));
    });
}

#[test]
fn a_volume_is_refused_that_is_damaged_or_of_another_size() {
    in_a_world(async {
        let device = device(DISK);
        let volume = open(&device, "").await.unwrap();
        write(&*volume, 8, 8, 7).await.unwrap();
        volume.stop().await.unwrap();
        drop(volume);
        let error = |opened: Result<Rc<Placed>, IoError>| opened.map(drop).unwrap_err();
        let short: Rc<dyn BlockDevice> =
            Rc::new(Slice::new(device.clone(), Extent::of_pages(0, 50)).unwrap());
        let short = error(open(&short, "").await).to_string();
        assert!(short.contains("over: found a device of 400 sectors, expected at least 544"), "{short}");
        // Of another zone: that of the creation stays.
        let volume = open(&device, "at = 'outer'").await.unwrap();
        assert_eq!(values(&*volume, Extent::new(8, 8)).await.unwrap(), [7; 8]);
        let damage = async |sector: u64| {
            device.write(Extent::new(sector, 1), filled(9, 1), Hints::default()).await.unwrap();
        };
        damage(3).await;
        damage(2 * PAGE_SECTORS).await;
        open(&device, "").await.unwrap();
        damage(2 * PAGE_SECTORS).await;
        damage(3 * PAGE_SECTORS).await;
        let error = error(open(&device, "").await);
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("no copy of this sector of the map"), "{error}");
    });
    for (text, key) in [("unit = '2KiB'", "unit"), ("least = 0", "least"), ("at = 'inner'", "inner")] {
        let refused = toml::from_str::<Options>(text).map_err(|error| error.to_string());
        let refused = refused.and_then(|options| options.check().map_err(|refused| refused.to_string()));
        assert!(refused.unwrap_err().contains(key), "{text}");
    }
    let large = Options { zone: Some(crate::Bytes(1 << 30)), ..Options::default() };
    assert!(large.shape(1 << 20).unwrap_err().to_string().contains("zone"));
}

/// Steps on a few pages, with pauses in which pages move, commands, and restarts.
fn work() -> impl Strategy<Value = Vec<(Vec<Step>, u8)>> {
    // The disk below keeps what is discarded: no discards.
    let steps = steps(12).prop_map(|steps: Vec<Step>| {
        let kept = |what| if what == 3 { 5 } else { what };
        steps.into_iter().map(|(what, start, sectors)| (kept(what), start, sectors)).collect()
    });
    prop::collection::vec((steps, 0..3_u8), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn clients_read_what_was_written_last_while_pages_move(work in work()) {
        const { assert!(SECTORS == PAGES * PAGE_SECTORS, "the volume of the steps has as many pages or more") };
        in_a_world(async {
            let device = device(4 + 5 + PAGES);
            let mut versions = Versions::zeroes();
            let open = async || open(&device, "zone = '20KiB'").await.unwrap();
            let mut volume = open().await;
            for (number, (steps, then)) in (0_u8..).zip(work) {
                versions.carry_out(&*volume, &steps, number * 30 + 1).await.unwrap();
                match then {
                    0 => sleep(Nanos::from_millis(20)).await,
                    1 => volume.command("reconfigure", Hints::default()).await.unwrap(),
                    _ => {
                        volume.stop().await.unwrap();
                        volume = open().await;
                    }
                }
                versions.agree(&*volume, "in the end").await;
            }
        });
    }
}
