//! The volume and its two devices: what is where, what moves, and what is refused. Crashes are explored in
//! `tests/promises`.

use proptest::prelude::*;
use seekless_core::device::Place;
use seekless_core::runtime::{Runtime, sleep};
use seekless_core::{Buffer, Class, ErrorKind, Hints, Nanos, PAGE_SECTORS, SECTOR_BYTES, Slice};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::under_test::{PAGES, SECTORS, Step, Versions, copied, filled, steps, values, with_error, write};

type Devices = (Rc<dyn BlockDevice>, Rc<dyn BlockDevice>);

fn device(number: u32, pages: u64) -> Rc<dyn BlockDevice> {
    let disk = Disk::new(number, &spec::find("wd2500aaks").unwrap(), QueueOptions::default());
    Rc::new(Slice::new(Rc::new(disk), Extent::of_pages(0, pages)).unwrap())
}

/// Eight slots of a page on the fast device (0), and 64 on the other (1).
fn devices() -> Devices {
    (device(0, 4 + 8), device(1, 1 + 64))
}

async fn open((fast, over): &Devices, options: &str) -> Result<Rc<Placed>, IoError> {
    let options: Options = toml::from_str(&format!("unit = '4KiB'\nidle = '1ms'\n{options}")).unwrap();
    options.check().unwrap();
    super::open(fast.clone(), over.clone(), &options, true, false).await
}

fn count(volume: &Placed, name: &str) -> u64 {
    volume.counters().into_iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| count)
}

/// The component that holds each page.
fn components(volume: &Placed) -> Vec<u32> {
    let mut all = Vec::new();
    volume.places(Extent::new(0, volume.geometry().sectors), &mut |part, place| {
        let Place::On { component, .. } = place else { panic!("a page is nowhere") };
        all.extend(part.pages().map(|_| component));
    });
    all
}

async fn read_pages(volume: &Placed, pages: impl Iterator<Item = u64>) {
    for page in pages {
        values(volume, Extent::of_pages(page, 1)).await.unwrap();
    }
}

fn in_a_world<T>(work: impl Future<Output = T>) -> T {
    Runtime::new(1).run(work).unwrap()
}

#[test]
fn by_address_the_first_pages_are_on_the_fast_device_and_stay_there() {
    in_a_world(async {
        let volume = open(&devices(), "placement = 'static'").await.unwrap();
        assert_eq!(volume.geometry().sectors, 70 * PAGE_SECTORS);
        let expected: Vec<u32> = (0..70).map(|page| u32::from(page >= 7)).collect();
        assert_eq!(components(&volume), expected);
        write(&*volume, 6 * PAGE_SECTORS, 2 * PAGE_SECTORS, 5).await.unwrap();
        for _ in 0..10 {
            read_pages(&volume, 40..50).await;
            sleep(Nanos::from_millis(100)).await;
        }
        assert_eq!(components(&volume), expected);
        assert_eq!(values(&*volume, Extent::of_pages(5, 4)).await.unwrap()[8..24], [5; 16]);
        assert_eq!((count(&volume, "reads"), count(&volume, "reads_fast")), (101, 0));
        read_pages(&volume, 0..7).await;
        assert_eq!(count(&volume, "reads_fast"), 7);
    });
}

#[test]
fn the_hottest_and_the_pinned_pages_move_to_the_fast_device_with_their_data() {
    in_a_world(async {
        let devices = devices();
        let pinned = "pin = [{ at = '240KiB', size = '8KiB' }]";
        let volume = open(&devices, pinned).await.unwrap();
        for page in 0..70 {
            // Not counted: it is in class background.
            let how = Hints { class: Class::Background, ..Hints::default() };
            volume.write(Extent::of_pages(page, 1), filled(page as u8, 8), how).await.unwrap();
        }
        for _ in 0..4 {
            read_pages(&volume, 20..23).await;
        }
        sleep(Nanos::from_millis(5_000)).await;
        let check = async |volume: &Placed, hot: &[usize]| {
            let on = components(volume);
            assert!(hot.iter().all(|page| on[*page] == 0), "{on:?}");
            for page in 0..70 {
                assert_eq!(
                    values(volume, Extent::of_pages(page, 1)).await.unwrap(),
                    [page as u8; 8],
                    "page {page}"
                );
            }
        };
        assert_eq!(count(&volume, "units_promoted"), 5);
        check(&volume, &[20, 21, 22, 60, 61]).await;
        // Others become hotter; the pinned ones stay.
        for _ in 0..9 {
            read_pages(&volume, 30..35).await;
        }
        sleep(Nanos::from_millis(5_000)).await;
        check(&volume, &[30, 31, 32, 33, 34, 60, 61]).await;
        volume.stop().await.unwrap();
        drop(volume);
        let again = open(&devices, pinned).await.unwrap();
        check(&again, &[30, 31, 32, 33, 34, 60, 61]).await;
        assert_eq!(count(&again, "units_promoted"), 0);
        // Large requests do not count.
        let volume = open(&devices, "sequential = '16KiB'").await.unwrap();
        for _ in 0..9 {
            values(&*volume, Extent::of_pages(40, 6)).await.unwrap();
        }
        sleep(Nanos::from_millis(5_000)).await;
        assert_eq!(count(&volume, "units_promoted"), 0);
    });
}

#[test]
fn a_move_that_fails_leaves_its_page_and_ends() {
    for (fast, over) in [("", "ops = ['read']"), ("ops = ['write']", "")] {
        in_a_world(async {
            let devices = devices();
            open(&devices, "").await.unwrap().stop().await.unwrap();
            let failing = |device: &Rc<dyn BlockDevice>, ops: &str| {
                if ops.is_empty() {
                    device.clone()
                } else {
                    with_error(device, &format!("rate_pct = 100.0\n{ops}"))
                }
            };
            let pinned = "pin = [{ at = '240KiB', size = '8KiB' }]";
            // The label is read when the volume is opened: the disk fails from then on.
            let over = if over.is_empty() {
                devices.1.clone()
            } else {
                with_error(&devices.1, "rate_pct = 100.0\nops = ['read']\nat = '4KiB'\nsize = '256KiB'")
            };
            let fast = failing(&devices.0, fast);
            let options: Options = toml::from_str(&format!("unit = '4KiB'\nidle = '1ms'\n{pinned}")).unwrap();
            let volume = super::open(fast, over, &options, false, false).await.unwrap();
            sleep(Nanos::from_millis(5_000)).await;
            assert_eq!((count(&volume, "units_promoted"), volume.is_moving()), (0, false));
            let expected: Vec<u32> = (0..70).map(|page| u32::from(page >= 7)).collect();
            assert_eq!(components(&volume), expected);
        });
    }
}

#[test]
fn a_volume_is_opened_with_both_of_its_devices_or_refused() {
    in_a_world(async {
        let (one, other) = (devices(), devices());
        for both in [&one, &other] {
            let volume = open(both, "").await.unwrap();
            write(&*volume, 8, 8, 7).await.unwrap();
            volume.stop().await.unwrap();
        }
        assert_eq!(values(&*open(&one, "").await.unwrap(), Extent::new(8, 8)).await.unwrap(), [7; 8]);
        let error = |opened: Result<Rc<Placed>, IoError>| opened.map(drop).unwrap_err().to_string();
        let mixed = error(open(&(one.0.clone(), other.1.clone()), "").await);
        assert!(mixed.contains("without this volume's label"), "{mixed}");
        let short: Rc<dyn BlockDevice> = Rc::new(Slice::new(one.1.clone(), Extent::of_pages(0, 50)).unwrap());
        let short = error(open(&(one.0.clone(), short), "").await);
        assert!(short.contains("over: found a device of 400 sectors, expected at least 520"), "{short}");
        let tiny = error(open(&(device(0, 5), device(1, 65)), "").await);
        assert!(tiny.contains("room for some units on each"), "{tiny}");
        let outside = error(open(&one, "pin = [{ at = '276KiB', size = '8KiB' }]").await);
        assert!(outside.contains("pin: found 8192 bytes at 282624"), "{outside}");
        let many = error(open(&one, "pin = [{ at = '0B', size = '32KiB' }]").await);
        assert!(many.contains("at most the 7 that fit on `fast`"), "{many}");
        let blank = super::open(device(0, 12), one.1.clone(), &Options::default(), false, false).await;
        let blank = error(blank);
        assert!(blank.contains("volume create"), "{blank}");
    });
}

/// A device with the same contents.
async fn copy_of(device: &Rc<dyn BlockDevice>, number: u32) -> Rc<dyn BlockDevice> {
    copied(device, self::device(number, device.geometry().sectors / PAGE_SECTORS)).await
}

/// A copy of either device from before a session is refused, also if it was the first one or was cut short, and a
/// session that only read changes nothing.
#[test]
fn a_device_from_before_a_session_is_refused() {
    for (sessions, stops, rots) in
        (0..3).flat_map(|sessions| [(sessions, true, 0), (sessions, false, 0), (sessions, true, 1)])
    {
        in_a_world(async {
            let devices = devices();
            open(&devices, "placement = 'static'").await.unwrap().stop().await.unwrap();
            let session = async |writes: bool, stops: bool| {
                let volume = open(&devices, "placement = 'static'").await.unwrap();
                values(&*volume, Extent::of_pages(0, 70)).await.unwrap();
                if writes {
                    write(&*volume, 8, 8, 7).await.unwrap();
                    volume.flush(Hints::default()).await.unwrap();
                }
                if stops {
                    volume.stop().await.unwrap();
                }
            };
            for _ in 0..sessions {
                session(true, stops).await;
            }
            let old = (copy_of(&devices.0, 0).await, copy_of(&devices.1, 1).await);
            session(false, stops).await;
            for mixed in [(&old.0, &devices.1), (&devices.0, &old.1)] {
                open(&(mixed.0.clone(), mixed.1.clone()), "").await.unwrap();
            }
            session(true, stops).await;
            // A rotten sector of the newest number costs nothing.
            for (device, sector) in [(&devices.0, 3), (&devices.1, 5)].into_iter().take(2 * rots) {
                device
                    .write(Extent::new(sector, 1), Buffer::from_vec(vec![9; 512]), Hints::default())
                    .await
                    .unwrap();
            }
            for (key, mixed) in [("fast", (&old.0, &devices.1)), ("over", (&devices.0, &old.1))] {
                let refused =
                    open(&(mixed.0.clone(), mixed.1.clone()), "").await.map(drop).unwrap_err().to_string();
                assert!(
                    refused.contains(&format!("{key}: found old contents")),
                    "{sessions} {stops}: {refused}"
                );
            }
            open(&devices, "").await.unwrap();
            open(&old, "").await.unwrap();
        });
    }
}

/// A session may be cut short at each of its writes: the devices are one volume all the same.
#[test]
fn a_session_that_could_not_begin_leaves_a_volume() {
    for nth in 1..9 {
        for second in [false, true] {
            in_a_world(async {
                let devices = devices();
                open(&devices, "").await.unwrap().stop().await.unwrap();
                let failing = |device: &Rc<dyn BlockDevice>, fails: bool| {
                    let options = format!("nth = {nth}\nfor_ever = true\nops = ['write']");
                    if fails { with_error(device, &options) } else { device.clone() }
                };
                let cut = (failing(&devices.0, !second), failing(&devices.1, second));
                for session in 1..3 {
                    let volume = open(&cut, "placement = 'static'").await.unwrap();
                    // On the other device than the one that fails.
                    let page = if second { 1 } else { 50 };
                    let written = write(&*volume, page * PAGE_SECTORS, 8, 7).await;
                    assert_eq!(written.is_ok(), nth > 3 * session, "{nth} {session}");
                }
                let volume = open(&devices, "placement = 'static'").await.unwrap();
                write(&*volume, 8, 8, 5).await.unwrap();
                volume.stop().await.unwrap();
                assert_eq!(
                    values(&*open(&devices, "").await.unwrap(), Extent::new(8, 8)).await.unwrap(),
                    [5; 8]
                );
            });
        }
    }
}

#[test]
fn one_rotten_copy_is_replaced_and_two_are_named() {
    in_a_world(async {
        let devices = devices();
        open(&devices, "").await.unwrap().stop().await.unwrap();
        let damage = async |sector: u64| {
            devices.0.write(Extent::new(sector, 1), filled(9, 1), Hints::default()).await.unwrap();
        };
        // A sector of the super page, and a copy of the map.
        damage(3).await;
        damage(2 * PAGE_SECTORS).await;
        open(&devices, "").await.unwrap();
        damage(3 * PAGE_SECTORS).await;
        open(&devices, "").await.unwrap();
        damage(2 * PAGE_SECTORS).await;
        damage(3 * PAGE_SECTORS).await;
        let error = open(&devices, "").await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("no copy of this sector of the map"), "{error}");
        damage(PAGE_SECTORS).await;
        let error = open(&devices, "").await.map(drop).unwrap_err();
        assert!(error.to_string().contains("no super page that is whole"), "{error}");
    });
}

#[test]
fn options_that_cannot_be_are_refused() {
    for (text, key) in [
        ("unit = '2KiB'", "unit"),
        ("unit = '2MiB'", "unit"),
        ("placement = 'static'\npin = [{ at = '0B', size = '4KiB' }]", "pin"),
        ("placement = 'lru'", "lru"),
        ("pin = [{ at = '0B' }]", "size"),
    ] {
        let refused = toml::from_str::<Options>(text).map_err(|error| error.to_string());
        let refused = refused.and_then(|options| options.check().map_err(|refused| refused.to_string()));
        assert!(refused.unwrap_err().contains(key), "{text}");
    }
}

/// Steps on a few pages, that begin on both devices, with pauses in which pages move, and restarts.
fn work() -> impl Strategy<Value = Vec<(Vec<Step>, bool)>> {
    // The disks below keep what is discarded: no discards.
    let steps = steps(12).prop_map(|steps: Vec<Step>| {
        steps
            .into_iter()
            .map(|(what, start, sectors)| (if what == 3 { 5 } else { what }, start, sectors))
            .collect()
    });
    prop::collection::vec((steps, any::<bool>()), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn clients_read_what_was_written_last_while_pages_move(work in work()) {
        in_a_world(async {
            let devices = (device(0, 4 + 5), device(1, 1 + PAGES));
            let mut versions = Versions::zeroes();
            let mut volume = open(&devices, "").await.unwrap();
            for (number, (steps, restart)) in (0_u8..).zip(work) {
                versions.carry_out(&*volume, &steps, number * 30 + 1).await.unwrap();
                sleep(Nanos::from_millis(20)).await;
                if restart {
                    volume.stop().await.unwrap();
                    volume = open(&devices, "").await.unwrap();
                }
                versions.agree(&*volume, "in the end").await;
            }
        });
    }
}

#[test]
fn a_sector_holds_the_entries_of_whole_units() {
    assert_eq!(crate::durable::table::ENTRIES * 4 + 16, SECTOR_BYTES as usize);
    const { assert!(SECTORS <= 15 * PAGE_SECTORS, "the volume of the steps has 15 pages") };
}
