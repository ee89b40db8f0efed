//! The volume and its two devices: what goes where, and what is refused. Crashes are explored in `tests/promises`.

use seekless_core::device::Place;
use seekless_core::runtime::Runtime;
use seekless_core::{Buffer, SECTOR_BYTES};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::Bytes;
use crate::under_test::{values, with_error, write};

mod clones;
mod crashes;
mod lost;
mod mirrored;
mod old;
mod snapshots;

/// Pages of the data device: eight ranges of 64 blocks.
const DATA: u64 = 512;
/// First page of the second range: the first one has the label.
const FIRST: u64 = 56;
/// Pages of the flash device.
const FLASH: u64 = 256;

fn options() -> Options {
    Options { range: Bytes(256 << 10), direct: Bytes(64 << 10), ..Options::default() }
}

fn device(number: u32, pages: u64) -> Rc<dyn BlockDevice> {
    let disk = Disk::new(number, &spec::find("wd2500aaks").unwrap(), QueueOptions::default());
    Rc::new(Slice::new(Rc::new(disk), Extent::of_pages(0, pages)).unwrap())
}

fn devices() -> (Rc<dyn BlockDevice>, Rc<dyn BlockDevice>) {
    (device(0, DATA), device(1, FLASH))
}

async fn open(devices: &(Rc<dyn BlockDevice>, Rc<dyn BlockDevice>)) -> Result<Rc<Proximal>, IoError> {
    Proximal::open(devices.0.clone(), devices.1.clone(), &options(), true, false).await
}

fn count(volume: &Proximal, name: &str) -> u64 {
    volume.counters().into_iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| count)
}

fn in_a_world<T>(work: impl Future<Output = T>) -> T {
    Runtime::new(1).run(work).unwrap()
}

#[test]
fn small_writes_are_staged_and_large_ones_are_not() {
    in_a_world(async {
        let volume = open(&devices()).await.unwrap();
        write(&*volume, 0, 8, 1).await.unwrap();
        write(&*volume, 80, 8, 2).await.unwrap();
        assert_eq!((count(&volume, "pages_staged"), count(&volume, "pages_placed")), (2, 0));
        write(&*volume, 800, 128, 3).await.unwrap();
        assert_eq!((count(&volume, "pages_staged"), count(&volume, "pages_placed")), (2, 16));
        let read = async |start| values(&*volume, Extent::new(start, 8)).await.unwrap()[0];
        assert_eq!([read(0).await, read(80).await, read(800).await, read(1_600).await], [1, 2, 3, 0]);
        volume.command("destage", Hints::default()).await.unwrap();
        assert_eq!((count(&volume, "pages_staged"), count(&volume, "pages_placed")), (0, 18));
        assert_eq!([read(0).await, read(80).await, read(800).await, read(1_600).await], [1, 2, 3, 0]);
        let unknown = volume.command("defragment", Hints::default()).await.unwrap_err();
        assert!(unknown.to_string().contains("expected destage"), "{unknown}");
    });
}

#[test]
fn updates_stay_near_their_neighbours_and_free_what_they_replace() {
    in_a_world(async {
        let volume = open(&devices()).await.unwrap();
        let pages = volume.geometry().sectors / PAGE_SECTORS;
        for first in (0..pages).step_by(32) {
            let at = Extent::of_pages(first, 32.min(pages - first));
            write(&*volume, at.start.0, at.sectors, 1).await.unwrap();
        }
        volume.flush(Hints::default()).await.unwrap();
        let free = count(&volume, "blocks_free");
        for round in 2..12 {
            for page in (round % 7..pages).step_by(7) {
                write(&*volume, page * PAGE_SECTORS, 8, round as u8).await.unwrap();
            }
            volume.command("destage", Hints::default()).await.unwrap();
        }
        assert_eq!(count(&volume, "blocks_free"), free);
        let mut far = 0;
        volume.versions.placed.places(Extent::of_pages(0, pages), &mut |part, place| {
            let Place::On { at: there, .. } = place else { panic!("a page has no block") };
            let range = there.0 / PAGE_SECTORS / 64;
            far = far.max(range.abs_diff(volume.versions.placed.shape.home(part.start.page())));
        });
        assert!(far <= 1, "found a page {far} ranges away");
    });
}

#[test]
fn a_volume_is_opened_with_both_of_its_devices_or_refused() {
    in_a_world(async {
        let (one, other) = (devices(), devices());
        for both in [&one, &other] {
            let volume = open(both).await.unwrap();
            write(&*volume, 8, 8, 7).await.unwrap();
            volume.stop().await.unwrap();
        }
        let again = open(&one).await.unwrap();
        assert_eq!(values(&*again, Extent::new(8, 8)).await.unwrap(), [7; 8]);
        let error = |opened: Result<Rc<Proximal>, IoError>| opened.map(drop).unwrap_err().to_string();
        let mixed = error(open(&(one.0.clone(), other.1.clone())).await);
        assert!(mixed.contains("without this volume's label"), "{mixed}");
        let blank = Proximal::open(one.0.clone(), device(1, FLASH), &options(), false, false).await;
        let blank = error(blank);
        assert!(blank.contains("volume create"), "{blank}");
        let part: Rc<dyn BlockDevice> = Rc::new(Slice::new(one.0.clone(), Extent::of_pages(0, 400)).unwrap());
        let short = error(open(&(part, one.1.clone())).await);
        assert!(short.contains("over: found a device of 3200 sectors"), "{short}");
        let tiny = error(open(&(device(0, 60), device(1, FLASH))).await);
        assert!(tiny.contains("a range of 256 KiB or more"), "{tiny}");
    });
}

#[test]
fn a_staging_area_of_zeroes_is_not_taken_for_a_new_one() {
    in_a_world(async {
        let both = devices();
        let volume = open(&both).await.unwrap();
        write(&*volume, 8, 8, 7).await.unwrap();
        volume.stop().await.unwrap();
        let lost = Extent::of_pages(volume.versions.placed.shape.staging(), 2);
        both.1.write(lost, Buffer::zeroed(lost.bytes()), Hints::default()).await.unwrap();
        let error = open(&both).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    });
}

#[test]
fn a_rotten_sector_of_the_map_is_repaired_from_the_other_copy_or_named() {
    in_a_world(async {
        let both = devices();
        let volume = open(&both).await.unwrap();
        write(&*volume, 0, 256, 9).await.unwrap();
        volume.stop().await.unwrap();
        let damage = async |copy: usize| {
            let at = Extent { start: format::map_at(0, copy).start + 3, sectors: 1 };
            let bytes =
                both.1.read(at, Buffer::zeroed(SECTOR_BYTES), Hints::default()).await.unwrap().to_vec();
            let changed = Buffer::from_vec(bytes.iter().map(|byte| byte ^ 4).collect());
            both.1.write(at, changed, Hints::default()).await.unwrap();
            at
        };
        damage(0).await;
        let again = open(&both).await.unwrap();
        assert_eq!(
            values(&*again, Extent::new(0, 256)).await.unwrap(),
            [9; 256],
            "both copies were the same"
        );
        let second = damage(1).await;
        let error = open(&both).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("not as it was written"), "{error} {second:?}");
    });
}

#[test]
fn a_write_that_fails_leaves_its_pages_and_a_failed_flush_fails_all_later_ones() {
    in_a_world(async {
        let both = devices();
        let volume = open(&both).await.unwrap();
        write(&*volume, 0, 256, 1).await.unwrap();
        volume.stop().await.unwrap();
        let failing = with_error(&both.0, "ops = ['write']\nfor_ever = true");
        let volume = open(&(failing, both.1.clone())).await.unwrap();
        assert!(write(&*volume, 0, 256, 2).await.is_err());
        assert_eq!(values(&*volume, Extent::new(0, 256)).await.unwrap(), [1; 256]);
        volume.stop().await.unwrap();
        let failing = with_error(&both.0, "ops = ['flush']\nnth = 6\nfor_ever = true");
        let volume = open(&(failing, both.1.clone())).await.unwrap();
        let mut flushed = Vec::new();
        for value in 3..9 {
            write(&*volume, 0, 256, value).await.unwrap();
            flushed.push(volume.flush(Hints::default()).await.is_ok());
        }
        assert!(flushed.contains(&false) && flushed.is_sorted_by(|one, next| *one || !*next), "{flushed:?}");
        assert_eq!(values(&*volume, Extent::new(0, 256)).await.unwrap(), [8; 256]);
    });
}

#[test]
fn large_writes_leave_free_blocks_for_updates_near_them() {
    in_a_world(async {
        let volume = open(&devices()).await.unwrap();
        let all = Extent::of_pages(FIRST, 40);
        write(&*volume, all.start.0, all.sectors, 1).await.unwrap();
        let free = count(&volume, "blocks_free");
        let places = async || {
            let mut found = Vec::new();
            volume.versions.placed.places(all, &mut |part, place| {
                let Place::On { at, .. } = place else { panic!("a page has no block") };
                found.extend((0..part.sectors / PAGE_SECTORS).map(|page| at.0 / PAGE_SECTORS + page));
            });
            found
        };
        let before = places().await;
        assert_eq!(before.last().unwrap() - before[0] + 1, 45, "five free blocks among them");
        for page in [7, 20, 33] {
            write(&*volume, (FIRST + page) * PAGE_SECTORS, 8, 2).await.unwrap();
        }
        volume.command("destage", Hints::default()).await.unwrap();
        let after = places().await;
        let moved: Vec<u64> = before.iter().zip(&after).map(|(one, other)| one.abs_diff(*other)).collect();
        assert_eq!(moved.iter().filter(|far| **far > 0).count(), 3);
        assert!(moved.iter().all(|far| *far <= 8), "{moved:?}");
        assert_eq!(count(&volume, "blocks_free"), free);
        let read = values(&*volume, all).await.unwrap();
        let expected = |page: u64| if [7, 20, 33].contains(&page) { 2 } else { 1 };
        assert!((0..40).all(|page| read[(page * PAGE_SECTORS) as usize] == expected(page)));
    });
}

#[test]
fn contents_are_refused_or_replaced_by_a_new_volume() {
    in_a_world(async {
        let both = devices();
        let create = async |replace| {
            Proximal::create(both.0.clone(), Flash::of(both.1.clone()), &options(), replace).await
        };
        let first = create(false).await.unwrap();
        let volume = open(&both).await.unwrap();
        assert_eq!(volume.identity(), first);
        write(&*volume, 0, 256, 9).await.unwrap();
        write(&*volume, 800, 8, 9).await.unwrap();
        volume.stop().await.unwrap();
        let refused = create(false).await.unwrap_err().to_string();
        assert!(refused.contains("--replace"), "{refused}");
        let second = create(true).await.unwrap();
        assert_ne!(first, second);
        let volume = open(&both).await.unwrap();
        assert_eq!(values(&*volume, Extent::new(0, 1_000)).await.unwrap(), [0; 1_000]);
    });
}
