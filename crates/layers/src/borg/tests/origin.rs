//! The origin that is written without this layer, while the BOPT lies by.

use futures_util::future::join;
use seekless_core::device::Mark;

use super::*;

/// Pages that have clean copies.
const COPIES: u64 = 40;

fn page(number: u64) -> Extent {
    Extent::of_pages(number * 3, 1)
}

/// The origin as a file is, which has a mark.
struct File {
    below: Rc<Slice>,
    mark: Cell<Option<Mark>>,
}

impl BlockDevice for File {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        self.below.read(at, into, how)
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        let later = |mark: Mark| Mark { modified: mark.modified + 1, changed: mark.changed + 1, ..mark };
        self.mark.set(self.mark.get().map(later));
        self.below.write(at, from, how)
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.below.flush(how)
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.below.discard(at, how)
    }

    fn mark(&self) -> IoFuture<'_, Option<Mark>> {
        io(ready(Ok(self.mark.get())))
    }
}

struct Volume {
    disk: Rc<Disk>,
    origin: Rc<File>,
}

impl Volume {
    /// Pages that say 1.
    async fn new(mark: Option<Mark>) -> Volume {
        let disk = disk();
        let origin = Rc::new(File { below: slice(&disk, 0, ORIGIN), mark: Cell::new(mark) });
        for number in 0..COPIES + 10 {
            write(&*disk, page(number), 1).await;
        }
        Volume { disk, origin }
    }

    async fn open(&self, options: Options) -> Result<Rc<Borg>, IoError> {
        Borg::open_creating(self.origin.clone(), slice(&self.disk, ORIGIN, 1_000 * 8), options, false).await
    }

    /// BORG with clean copies of the first pages.
    async fn used(&self, options: Options) -> Rc<Borg> {
        let borg = self.open(options).await.unwrap();
        for number in 0..COPIES {
            read(&*borg, page(number)).await;
        }
        borg.reconfigure_now(Account(1)).await.unwrap();
        assert_eq!(borg.store.mapped() as u64, COPIES);
        borg
    }
}

fn file() -> Mark {
    Mark { inode: 7, bytes: ORIGIN * 512, modified: 1_000, changed: 1_000 }
}

async fn holds(device: &dyn BlockDevice, number: u64, version: u64) {
    let found = read(device, page(number)).await;
    assert_eq!(found, stamped(page(number), version).to_vec(), "page {number}");
}

fn counter(borg: &Borg, name: &str) -> u64 {
    borg.counters().into_iter().find(|(counter, _)| *counter == name).unwrap().1
}

#[test]
fn what_was_written_without_it_after_a_kill_is_neither_hidden_nor_overwritten() {
    for (options, reads) in [(Options::default(), true), (Options::default(), false), (in_place(), true)] {
        run(1, async {
            let volume = Volume::new(None).await;
            let borg = volume.used(options.clone()).await;
            // A session that may make pages newer than the origin, and has drained those.
            write(&*borg, page(COPIES), 2).await;
            borg.drain_all(Account(1)).await.unwrap();
            drop(borg);
            write(&*volume.disk, page(5), 50).await;
            write(&*volume.origin, page(30), 51).await;
            let borg = volume.open(options).await.unwrap();
            assert_eq!(counter(&borg, "copies_not_compared"), COPIES);
            if reads {
                holds(&*borg, 5, 50).await;
                holds(&*borg, 6, 1).await;
                assert_eq!(counter(&borg, "copies_not_compared"), COPIES - 2);
                assert_eq!(borg.store.mapped() as u64, COPIES - 1, "one is dropped");
            }
            borg.drain_all(Account(1)).await.unwrap();
            borg.detach().await.unwrap();
            for (number, version) in [(5, 50), (30, 51), (6, 1), (COPIES, 2)] {
                holds(&*volume.disk, number, version).await;
            }
        });
    }
}

#[test]
fn one_page_of_many_that_was_written_after_a_clean_stop_is_read_as_it_is() {
    run(1, async {
        let volume = Volume::new(None).await;
        let borg = volume.used(Options::default()).await;
        borg.stop().await.unwrap();
        drop(borg);
        write(&*volume.disk, page(17), 50).await;
        let borg = volume.open(Options::default()).await.unwrap();
        for number in 0..COPIES {
            holds(&*borg, number, if number == 17 { 50 } else { 1 }).await;
        }
        assert_eq!(
            (counter(&borg, "copies_not_compared"), counter(&borg, "copies_differing")),
            (0, 1),
            "each is compared once"
        );
        // For good: the old copy does not come back.
        write(&*borg, page(17), 51).await;
        borg.drain_all(Account(1)).await.unwrap();
        drop(borg);
        let borg = volume.open(Options { trust_origin: true, ..Options::default() }).await.unwrap();
        holds(&*borg, 17, 51).await;
    });
}

#[test]
fn a_page_written_after_an_edit_of_the_origin_does_not_make_the_edit_a_conflict() {
    run(1, async {
        let volume = Volume::new(Some(file())).await;
        volume.used(Options::default()).await.stop().await.unwrap();
        // Nothing is dirty: its owner may write it.
        volume.origin.mark.set(None);
        for number in 0..COPIES / 2 {
            write(&*volume.disk, page(number), 50).await;
        }
        let borg = volume.open(Options::default()).await.unwrap();
        write(&*borg, page(COPIES), 2).await;
        // Before the copies were compared, and after a crash as after a stop.
        borg.flush(Hints::default()).await.unwrap();
        drop(borg);
        let borg = volume.open(Options::default()).await.unwrap();
        write(&*borg, page(COPIES), 2).await;
        borg.stop().await.unwrap();
        assert_eq!(borg.store.dirty(), 1);
        drop(borg);
        let borg = volume.open(Options::default()).await.unwrap();
        for number in 0..=COPIES {
            let version = if number < COPIES / 2 { 50 } else { 1 + number / COPIES };
            holds(&*borg, number, version).await;
        }
        // Written again below the dirty page, it is a conflict.
        borg.stop().await.unwrap();
        drop(borg);
        write(&*volume.disk, page(COPIES), 51).await;
        assert_eq!(volume.open(Options::default()).await.err().unwrap().kind(), ErrorKind::Corrupt);
    });
}

#[test]
fn part_of_a_page_is_joined_with_the_origin() {
    for options in [Options::default(), in_place(), Options { write_buffer: 0.0, ..Options::default() }] {
        run(1, async {
            let volume = Volume::new(None).await;
            volume.used(options.clone()).await.stop().await.unwrap();
            write(&*volume.disk, page(9), 50).await;
            let borg = volume.open(options).await.unwrap();
            let part = Extent { sectors: 1, ..page(9) };
            write(&*borg, part, 60).await;
            let found = read(&*borg, page(9)).await;
            assert_eq!(found[..512], stamped(part, 60).to_vec());
            assert_eq!(found[512..], stamped(page(9), 50).to_vec()[512..]);
            borg.detach().await.unwrap();
            assert_eq!(read(&*volume.disk, page(9)).await, found);
        });
    }
}

#[test]
fn a_file_that_is_as_it_was_proves_its_copies_and_a_copy_of_it_does_not() {
    run(1, async {
        let volume = Volume::new(Some(file())).await;
        volume.used(Options::default()).await.stop().await.unwrap();
        let left = volume.origin.mark.get().unwrap();
        let unproven =
            async || counter(&volume.open(Options::default()).await.unwrap(), "copies_not_compared");
        assert_eq!(unproven().await, 0);
        for mark in [
            Some(Mark { inode: 8, changed: 2_000, ..left }),
            Some(Mark { changed: 2_000, ..left }),
            Some(Mark { modified: 2_000, ..left }),
            None,
        ] {
            volume.origin.mark.set(mark);
            assert_eq!(unproven().await, COPIES, "{mark:?}");
        }
        volume.origin.mark.set(Some(left));
        // Once something was changed through it, a crash proves nothing.
        let borg = volume.open(Options { write_buffer: 0.4, ..Options::default() }).await.unwrap();
        write(&*borg, page(COPIES), 2).await;
        drop(borg);
        volume.origin.mark.set(Some(left));
        assert!(unproven().await > COPIES / 2, "some are compared at opening, as a page is newer");
    });
}

#[test]
fn a_write_to_the_origin_alone_invalidates_the_mark_of_the_clean_stop() {
    run(1, async {
        let options = Options { write_buffer: 0.0, ..Options::default() };
        let volume = Volume::new(Some(file())).await;
        volume.used(options.clone()).await.stop().await.unwrap();
        let left = volume.origin.mark.get();
        let borg = volume.open(options.clone()).await.unwrap();
        write(&*borg, page(COPIES + 1), 2).await;
        drop(borg);
        volume.origin.mark.set(left);
        let again = volume.open(options).await.unwrap();
        assert_eq!(counter(&again, "copies_not_compared"), COPIES);
    });
}

/// What an opening is refused with while pages are newer than the origin.
async fn refused(volume: &Volume) -> String {
    let error = volume.open(Options::default()).await.err().expect("the origin was written");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    error.to_string()
}

#[test]
fn an_origin_written_under_dirty_pages_is_refused_with_both_ways_out() {
    run(1, async {
        let volume = Volume::new(Some(file())).await;
        let borg = volume.used(Options::default()).await;
        write(&*borg, page(COPIES), 2).await;
        borg.stop().await.unwrap();
        drop(borg);
        let left = volume.origin.mark.get().unwrap();
        // A copy of the file with its time: nothing differs.
        volume.origin.mark.set(Some(Mark { inode: 8, changed: 2_000, ..left }));
        volume.open(Options::default()).await.unwrap();
        // Written, where nothing of the BOPT tells.
        volume.origin.mark.set(Some(left));
        write(&*volume.origin, Extent::of_pages(1_900, 1), 50).await;
        let message = refused(&volume).await;
        for way in ["1 pages in the BOPT are newer", "origin_changed = \"keep\"", "volume create --replace"] {
            assert!(message.contains(way), "{message}");
        }
        // A device without a mark, written where the newer page goes.
        volume.origin.mark.set(None);
        volume.open(Options::default()).await.unwrap();
        write(&*volume.disk, page(COPIES), 50).await;
        assert!(refused(&volume).await.contains("not as the last clean stop left it"));
        let keep = Options { origin_changed: OriginChanged::Keep, ..Options::default() };
        let borg = volume.open(keep).await.unwrap();
        holds(&*borg, COPIES, 2).await;
        borg.detach().await.unwrap();
        holds(&*volume.disk, COPIES, 2).await;
    });
}

#[test]
fn after_a_kill_a_clean_copy_that_differs_refuses_what_is_newer() {
    run(1, async {
        let volume = Volume::new(None).await;
        let borg = volume.used(Options::default()).await;
        write(&*borg, page(COPIES), 2).await;
        borg.flush(Hints::default()).await.unwrap();
        drop(borg);
        volume.open(Options::default()).await.unwrap();
        for number in 0..COPIES {
            write(&*volume.disk, page(number), 50).await;
        }
        assert!(refused(&volume).await.contains("differs from its clean copy"));
        let keep = Options { origin_changed: OriginChanged::Keep, ..Options::default() };
        let borg = volume.open(keep).await.unwrap();
        holds(&*borg, COPIES, 2).await;
        holds(&*borg, 3, 50).await;
        borg.detach().await.unwrap();
        holds(&*volume.disk, COPIES, 2).await;
        holds(&*volume.disk, 4, 50).await;
    });
}

#[test]
fn a_later_difference_fails_all_requests_before_anything_is_drained() {
    run(1, async {
        for reads in [false, true] {
            let volume = Volume::new(None).await;
            let borg = volume.used(Options::default()).await;
            write(&*borg, page(COPIES), 2).await;
            borg.flush(Hints::default()).await.unwrap();
            drop(borg);
            // The opening compares a few.
            write(&*volume.disk, page(3), 50).await;
            write(&*volume.disk, page(COPIES), 51).await;
            let borg = volume.open(Options::default()).await.unwrap();
            let how = Hints::default();
            let found = if reads {
                borg.read(page(3), Buffer::zeroed(4096), how.clone()).await.map(drop)
            } else {
                borg.drain_all(Account(1)).await
            };
            assert!(found.unwrap_err().to_string().contains("differs from its clean copy"));
            for failed in [
                borg.read(page(9), Buffer::zeroed(4096), how.clone()).await.map(drop),
                borg.write(page(9), stamped(page(9), 3), how.clone()).await,
                borg.flush(how.clone()).await,
                borg.discard(page(9), how).await,
                borg.drain_all(Account(1)).await,
            ] {
                assert_eq!(failed.unwrap_err().kind(), ErrorKind::Corrupt);
            }
            holds(&*volume.disk, COPIES, 51).await;
            holds(&*volume.disk, 3, 50).await;
        }
    });
}

/// Its page is used while all are compared: it is compared all the same, before anything newer goes to the origin.
#[test]
fn a_copy_that_is_in_use_while_all_are_compared_is_not_passed_over() {
    run(1, async {
        let volume = Volume::new(None).await;
        let borg = volume.used(Options::default()).await;
        write(&*borg, page(COPIES), 2).await;
        borg.flush(Hints::default()).await.unwrap();
        drop(borg);
        // The opening compares a few.
        write(&*volume.disk, page(3), 50).await;
        write(&*volume.disk, page(COPIES), 51).await;
        let borg = volume.open(Options::default()).await.unwrap();
        let held = borg.lock_pages(page(3), Mode::Shared, &Hints::default()).await;
        let ends = async {
            sleep(Nanos::from_millis(10_000)).await;
            drop(held);
        };
        let (drained, ()) = join(borg.drain_all(Account(1)), ends).await;
        assert!(drained.unwrap_err().to_string().contains("differs from its clean copy"));
        holds(&*volume.disk, COPIES, 51).await;
        holds(&*volume.disk, 3, 50).await;
    });
}

/// Once it was to be so, and could not be written, it is not forgotten.
#[test]
fn a_copy_whose_dirty_bit_could_not_be_written_is_not_overwritten_before_it_is() {
    run(1, async {
        let disk = disk();
        let (bopt, rig) = rigged(slice(&disk, ORIGIN, 1_000 * 8));
        let borg = Borg::open_creating(slice(&disk, 0, ORIGIN), bopt, in_place(), false).await.unwrap();
        write(&*disk, page(3), 1).await;
        holds(&*borg, 3, 1).await;
        borg.reconfigure_now(Account(1)).await.unwrap();
        write(&*borg, page(9), 1).await;
        let copy = borg.store.slot_of(page(3).start.page()).unwrap();
        for _ in 0..2 {
            rig.fails.set(true);
            let how = Hints::default();
            borg.write(page(3), stamped(page(3), 2), how).await.unwrap_err();
            rig.fails.set(false);
            let there = Extent::of_pages(ORIGIN / 8 + borg.store.layout().page(copy), 1);
            assert_eq!(read(&*disk, there).await, stamped(page(3), 1).to_vec(), "it says that it is clean");
        }
        write(&*borg, page(3), 2).await;
        borg.flush(Hints::default()).await.unwrap();
        drop(borg);
        let borg =
            Borg::open_creating(slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 1_000 * 8), in_place(), false)
                .await;
        holds(&*borg.unwrap(), 3, 2).await;
    });
}

#[test]
fn trust_compares_nothing() {
    run(1, async {
        let volume = Volume::new(None).await;
        volume.used(Options::default()).await.stop().await.unwrap();
        write(&*volume.disk, page(5), 50).await;
        let borg = volume.open(Options { trust_origin: true, ..Options::default() }).await.unwrap();
        assert_eq!(counter(&borg, "copies_not_compared"), 0);
        holds(&*borg, 5, 1).await;
    });
}

#[test]
fn unproven_pages_move_with_the_data_of_the_origin() {
    run(1, async {
        let planned = Options { placement: Placement::Planned, ..Options::default() };
        let volume = Volume::new(None).await;
        volume.used(planned.clone()).await.stop().await.unwrap();
        write(&*volume.disk, page(5), 50).await;
        let borg = volume.open(planned).await.unwrap();
        // Another plan: all in the opposite order.
        {
            let mut learned = borg.learned.borrow_mut();
            let access = |number: u64| {
                let arrival = Arrival { paused: Nanos(number), depth: 0 };
                Access::new(arrival, seekless_core::Origin::default(), page(number), false)
            };
            for number in (0..COPIES).rev().chain((0..COPIES).rev()) {
                learned.note(page(number), &access(number));
            }
        }
        borg.reconfigure_now(Account(1)).await.unwrap();
        assert_eq!(borg.store.mapped() as u64, COPIES);
        for number in 0..COPIES {
            holds(&*borg, number, if number == 5 { 50 } else { 1 }).await;
        }
    });
}
