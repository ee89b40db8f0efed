//! Which copies there are, which of them is read, and what writes, errors, stops and damage do to them. Crashes are
//! explored in `tests/promises`.

use proptest::prelude::*;
use seekless_core::runtime::{Runtime, sleep};
use seekless_core::{Account, Class, ErrorKind, Hints, Layer, Nanos, Op, PAGE_SECTORS, Slice};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::under_test::{PAGES, SECTORS, Step, Versions, filled, steps, values, with_error, write};

/// 40 units of a page, and 3 bands of 8 slots.
const DISK: u64 = 4 + 40 + 24;

fn device(pages: u64) -> Rc<dyn BlockDevice> {
    let disk = Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default());
    Rc::new(Slice::new(Rc::new(disk), Extent::of_pages(0, pages)).unwrap())
}

async fn open(device: &Rc<dyn BlockDevice>, options: &str) -> Result<Rc<Replicas>, IoError> {
    let zone = if options.contains("zone") { "" } else { "zone = '96KiB'" };
    let at = "at = 'apart'";
    let text = format!("unit = '4KiB'\nleast = 2\nidle = '1ms'\n{at}\n{zone}\n{options}");
    let options: Options = toml::from_str(&text).unwrap();
    options.check().unwrap();
    Replicas::open(device.clone(), &options, true, false).await
}

fn count(volume: &Replicas, name: &str) -> u64 {
    volume.counters().into_iter().find(|(known, _)| *known == name).expect(name).1
}

async fn read(volume: &Replicas, page: u64) {
    // Nearly all of the page, so that no read goes on where another one ended.
    let found = values(volume, Extent::new(page * PAGE_SECTORS, 7)).await.unwrap();
    assert_eq!(found, [page as u8; 7], "page {page}");
}

async fn fill(volume: &Replicas) {
    for page in 0..40 {
        // Not counted: it is in class background.
        let how = Hints { class: Class::Background, ..Hints::default() };
        volume.write(Extent::of_pages(page, 1), filled(page as u8, 8), how).await.unwrap();
    }
}

/// Reads pages as often as is needed for copies, and waits for those.
async fn heat(volume: &Replicas, pages: &[u64]) {
    for _ in 0..2 {
        for page in pages {
            read(volume, *page).await;
        }
    }
    sleep(Nanos::from_millis(5_000)).await;
    assert!(!volume.is_copying());
}

fn in_a_world<T>(work: impl Future<Output = T>) -> T {
    Runtime::new(1).run(work).unwrap()
}

#[test]
fn copies_are_in_bands_between_the_parts_of_the_volume() {
    for (at, before) in [("apart", [6, 19, 32]), ("middle", [20, 20, 20])] {
        let options: Options =
            toml::from_str(&format!("unit = '4KiB'\nzone = '96KiB'\nat = '{at}'")).unwrap();
        let shape = options.shape(DISK * PAGE_SECTORS).unwrap();
        assert_eq!((shape.units(), shape.bands, shape.band()), (40, 3, 8));
        let page = |slot| shape.place(slot).1.0 / PAGE_SECTORS - 4;
        for (band, before) in (0..3).zip(before) {
            assert_eq!(page(band * 8), before + u64::from(band) * 8, "{at}, band {band}");
        }
        for unit in 0..40_u32 {
            let bands = before.iter().filter(|before| **before <= u64::from(unit)).count() as u64;
            assert_eq!(page(shape.first_slot(unit)), u64::from(unit) + 8 * bands, "{at}, unit {unit}");
        }
    }
}

#[test]
fn what_is_read_often_has_copies_which_stay_over_a_stop_and_end_with_a_write() {
    in_a_world(async {
        let device = device(DISK);
        let volume = open(&device, "").await.unwrap();
        fill(&volume).await;
        heat(&volume, &[3, 4, 20, 39]).await;
        assert_eq!(count(&volume, "copies_made"), 12);
        for _ in 0..20 {
            for page in [3, 4, 20, 39] {
                read(&volume, page).await;
            }
        }
        assert!(count(&volume, "reads_of_copies") > 20);
        volume.stop().await.unwrap();
        drop(volume);
        // A second opening without a stop: nothing was written, so the map still names them.
        drop(open(&device, "").await.unwrap());
        let volume = open(&device, "").await.unwrap();
        assert_eq!(volume.copies.borrow().slots(3), [0, 8, 16]);
        let run = volume.copies.borrow().run(3..5).unwrap();
        assert_eq!((run.count, run.bands), (2, 7), "neighbours lie next to each other");
        // A write to another page: on the disk none is named, in memory all others are.
        write(&*volume, 10 * PAGE_SECTORS, 8, 10).await.unwrap();
        assert!(volume.copies.borrow().is_void());
        assert!(volume.copies.borrow().has(3));
        write(&*volume, 3 * PAGE_SECTORS + 1, 1, 3).await.unwrap();
        assert!(!volume.copies.borrow().has(3));
        assert_eq!(count(&volume, "units_invalidated"), 1);
        drop(volume);
        // That was no stop.
        let volume = open(&device, "").await.unwrap();
        assert!(!volume.copies.borrow().has(4));
        for page in 0..40 {
            read(&volume, page).await;
        }
    });
}

#[test]
fn writes_update_copies_if_asked_to() {
    in_a_world(async {
        let device = device(DISK);
        let volume = open(&device, "writes = 'update'").await.unwrap();
        fill(&volume).await;
        heat(&volume, &[5, 30]).await;
        write(&*volume, 5 * PAGE_SECTORS + 2, 3, 77).await.unwrap();
        assert_eq!(count(&volume, "copies_updated"), 3);
        for _ in 0..8 {
            let found = values(&*volume, Extent::of_pages(5, 1)).await.unwrap();
            assert_eq!(found, [5, 5, 77, 77, 77, 5, 5, 5]);
            read(&volume, 30).await;
        }
        volume.discard(Extent::of_pages(30, 1), Hints::default()).await.unwrap();
        assert!(!volume.copies.borrow().has(30));
        volume.stop().await.unwrap();
        let volume = open(&device, "").await.unwrap();
        assert!(volume.copies.borrow().has(5));
        assert_eq!(values(&*volume, Extent::of_pages(5, 1)).await.unwrap(), [5, 5, 77, 77, 77, 5, 5, 5]);
    });
}

#[test]
fn the_copy_is_read_that_the_head_reaches_first() {
    in_a_world(async {
        let volume = open(&device(DISK), "").await.unwrap();
        fill(&volume).await;
        heat(&volume, &[0]).await;
        let at = Extent::new(0, 7);
        let least = volume.estimate(Op::Read, at, &Hints::default()).unwrap();
        let each = volume.copies.borrow().slots(0).into_iter().map(|slot| volume.slot(slot, at));
        let own = volume.slot(volume.copies.borrow().shape.first_slot(0), at);
        let all: Vec<Nanos> = each
            .chain([own])
            .map(|there| volume.below.estimate(Op::Read, there, &Hints::default()).unwrap())
            .collect();
        assert_eq!(all.iter().min(), Some(&least), "{all:?}");
        assert!(all.iter().max() > Some(&least), "{all:?}");
    });
}

/// A unit's own place that cannot be read is written again from a copy.
#[test]
fn a_copy_makes_up_for_the_own_place() {
    in_a_world(async {
        let device = device(DISK);
        let volume = open(&device, "").await.unwrap();
        fill(&volume).await;
        heat(&volume, &[1, 2]).await;
        let own = volume.slot(volume.copies.borrow().shape.first_slot(1), Extent::of_pages(0, 1));
        volume.stop().await.unwrap();
        let options = format!("until_written = true\nat = '{}KiB'\nsize = '4KiB'", own.start.0 / 2);
        let bad = with_error(&device, &options);
        let volume = open(&bad, "").await.unwrap();
        let whole = |volume: &Rc<Replicas>| {
            let volume = volume.clone();
            async move { values(&*volume, Extent::of_pages(1, 1)).await }
        };
        bad.read(own, filled(0, 8), Hints::default()).await.unwrap_err();
        for page in (3..40).rev() {
            read(&volume, page).await;
            assert_eq!(whole(&volume).await.unwrap(), [1; 8]);
        }
        bad.read(own, filled(0, 8), Hints::default()).await.unwrap();
        // Without copies it is an error.
        let plain = open(&with_error(&device, &options), "").await.unwrap();
        plain.copies.borrow_mut().remove(1);
        whole(&plain).await.unwrap_err();
    });
}

#[test]
fn slots_that_fail_are_not_used_again() {
    in_a_world(async {
        let device = device(DISK);
        open(&device, "").await.unwrap().stop().await.unwrap();
        // The first slot of the first band, in writes; of the second band, in reads.
        let fails = |op: &str, page: u64| {
            let at = (4 + page) * 4;
            format!("rate_pct = 100.0\nops = ['{op}']\nat = '{at}KiB'\nsize = '4KiB'")
        };
        let bad = with_error(&with_error(&device, &fails("write", 6)), &fails("read", 19 + 8));
        let volume = open(&bad, "").await.unwrap();
        fill(&volume).await;
        heat(&volume, &[1, 2]).await;
        assert_eq!(count(&volume, "copies_made"), 5);
        for _ in 0..30 {
            read(&volume, 1).await;
            read(&volume, 12).await;
            read(&volume, 2).await;
        }
        let slots = volume.copies.borrow().slots(1);
        assert!(!slots.contains(&0), "{slots:?}");
        assert!(slots == [16] || slots == [8, 16], "{slots:?}");
    });
}

#[test]
fn copies_are_made_when_asked_or_in_pauses_and_not_of_what_is_read_in_sequence() {
    in_a_world(async {
        let volume = open(&device(DISK), "when = 'asked'").await.unwrap();
        fill(&volume).await;
        heat(&volume, &[7]).await;
        assert_eq!(count(&volume, "copies_made"), 0);
        let made = volume.reconfigure(Account::default()).await.unwrap().unwrap();
        assert_eq!(made.copied_pages, 3);
        // A sequence begins there, again and again, and goes on in the next unit.
        for _ in 0..3 {
            for page in 7..10 {
                values(&*volume, Extent::of_pages(page, 1)).await.unwrap();
            }
        }
        assert!(!volume.copies.borrow().has(7));
        let error = volume.command("move", Hints::default()).await.unwrap_err();
        assert!(error.to_string().contains("reconfigure"), "{error}");
    });
}

#[test]
fn damaged_maps_and_options_are_refused() {
    in_a_world(async {
        let device = device(DISK);
        let volume = open(&device, "").await.unwrap();
        fill(&volume).await;
        heat(&volume, &[1, 2]).await;
        volume.stop().await.unwrap();
        let identity = volume.identity;
        drop(volume);
        let shape = { open(&device, "").await.unwrap().copies.borrow().shape };
        for (slot, unit, found) in
            [(9, 40, "unit 40"), (9, 1, "unit 1 in place 1"), (10, 1, "unit 1 in place 2")]
        {
            let site = shape.map_site(&KIND, identity);
            let mut table = crate::durable::table::Table::open(&*device, site).await.unwrap();
            let before = table.set(slot, unit);
            let write = async |table: &mut crate::durable::table::Table| {
                for (at, bytes) in table.take_changed() {
                    device.write(at, bytes, Hints::default()).await.unwrap();
                }
            };
            write(&mut table).await;
            let error = open(&device, "").await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains(found), "{error}");
            table.set(slot, before);
            write(&mut table).await;
        }
        open(&device, "").await.unwrap();
    });
    for (text, key) in
        [("unit = '2KiB'", "unit"), ("copies = 9", "copies"), ("least = 0", "least"), ("at = 'in'", "in")]
    {
        let refused = toml::from_str::<Options>(text).map_err(|error| error.to_string());
        let refused = refused.and_then(|options| options.check().map_err(|refused| refused.to_string()));
        assert!(refused.unwrap_err().contains(key), "{text}");
    }
    let small = Options { zone: Some(crate::Bytes(64 << 10)), ..Options::default() };
    assert!(small.shape(1 << 20).unwrap_err().to_string().contains("zone"));
}

/// Steps on a few pages, with pauses in which pages are copied, commands, and restarts.
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
    fn clients_read_what_was_written_last_from_any_copy(work in work(), updates: bool) {
        const { assert!(SECTORS == PAGES * PAGE_SECTORS, "the volume of the steps has as many pages or more") };
        in_a_world(async {
            let device = device(4 + 9 + PAGES);
            let mut versions = Versions::zeroes();
            let writes = if updates { "update" } else { "invalidate" };
            let options = format!("zone = '36KiB'\nwrites = '{writes}'");
            let open = async || open(&device, &options).await.unwrap();
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
