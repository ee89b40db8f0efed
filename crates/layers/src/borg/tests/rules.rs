//! Each rule of the indirector (sections 4.5 and 5.3). The contents of origin and BOPT show where a request went:
//! sectors read from the origin hold 99, which the test wrote there behind the layer's back.

use super::*;

const MAPPED: [u64; 4] = [10, 11, 12, 40];
const ORIGIN_SAYS: u64 = 99;

/// Pages 10 to 12 and 40 have clean copies that say 1; all of the origin says 99.
async fn mapped(options: Options) -> World {
    let world = world(options, 400).await;
    for page in MAPPED {
        let at = Extent::of_pages(page, 1);
        write(&*world.disk, at, 1).await;
        read(&*world.borg, at).await;
    }
    world.borg.reconfigure_now(Account(1)).await.unwrap();
    write(&*world.disk, Extent::of_pages(0, 100), ORIGIN_SAYS).await;
    world
}

/// The version of each sector that a read returns.
async fn versions_of_sectors(device: &dyn BlockDevice, at: Extent) -> Vec<u64> {
    let version = |sector: &[u8]| u64::from_le_bytes(sector[8..16].try_into().unwrap());
    read(device, at).await.chunks(512).map(version).collect()
}

/// The version of each page.
async fn versions(device: &dyn BlockDevice, at: Extent) -> Vec<u64> {
    versions_of_sectors(device, at).await.into_iter().step_by(8).collect()
}

#[test]
fn a_read_of_which_all_pages_are_mapped_goes_to_the_bopt() {
    run(1, async {
        let World { borg, .. } = mapped(in_place()).await;
        assert_eq!(versions(&*borg, Extent::of_pages(10, 3)).await, [1, 1, 1]);
    });
}

#[test]
fn a_read_without_mapped_pages_goes_to_the_origin_unchanged() {
    run(1, async {
        let World { borg, disk } = mapped(in_place()).await;
        let commands = disk.all().commands;
        assert_eq!(versions(&*borg, Extent::of_pages(20, 5)).await, [ORIGIN_SAYS; 5]);
        assert_eq!(disk.all().commands, commands + 1, "in one command");
    });
}

#[test]
fn a_write_of_which_no_page_is_mapped_is_absorbed() {
    run(1, async {
        let World { borg, disk } = mapped(in_place()).await;
        let at = Extent::of_pages(20, 5);
        write(&*borg, at, 7).await;
        assert_eq!(versions(&*disk, at).await, [ORIGIN_SAYS; 5]);
        assert_eq!(versions(&*borg, at).await, [7; 5]);
    });
}

#[test]
fn a_partly_mapped_clean_read_goes_to_the_origin() {
    run(1, async {
        let World { borg, .. } = mapped(in_place()).await;
        assert_eq!(versions(&*borg, Extent::of_pages(9, 3)).await, [ORIGIN_SAYS; 3]);
    });
}

#[test]
fn a_read_that_is_partly_mapped_and_dirty_is_joined() {
    run(1, async {
        let World { borg, .. } = mapped(in_place()).await;
        write(&*borg, Extent::of_pages(11, 1), 7).await;
        // Page 10 is mapped and clean, 13 is not mapped: both may come from the origin.
        assert_eq!(
            versions(&*borg, Extent::of_pages(10, 4)).await,
            [ORIGIN_SAYS, 7, ORIGIN_SAYS, ORIGIN_SAYS]
        );
    });
}

#[test]
fn a_write_that_is_partly_mapped_goes_in_place_and_is_absorbed() {
    run(1, async {
        let World { borg, disk } = mapped(in_place()).await;
        let at = Extent::of_pages(12, 2);
        let (slot, room) = (borg.store.slot_of(12), borg.store.room());
        write(&*borg, at, 7).await;
        assert_eq!(borg.store.slot_of(12), slot, "in place");
        assert_eq!(borg.store.room(), room - 2, "a page and its run's");
        assert_eq!(
            (versions(&*disk, at).await, versions(&*borg, at).await),
            (vec![ORIGIN_SAYS; 2], vec![7; 2])
        );
    });
}

#[test]
fn a_write_to_a_mapped_page_is_logged_if_the_options_say_so() {
    run(1, async {
        let options = Options { overwrite: Overwrite::Logged, ..in_place() };
        let World { borg, .. } = mapped(options).await;
        write(&*borg, Extent::of_pages(12, 1), 7).await;
        let slot = borg.store.slot_of(12).unwrap();
        assert!(borg.store.layout().is_logged(slot));
        assert_eq!(versions(&*borg, Extent::of_pages(12, 1)).await, [7]);
    });
}

#[test]
fn without_a_free_slot_unmapped_pages_are_written_to_the_origin() {
    run(1, async {
        for options in
            [Options { write_buffer: 0.0, ..in_place() }, Options { drain_below: 0.0, ..in_place() }]
        {
            let full = options.write_buffer > 0.0;
            let World { borg, disk } = mapped(options).await;
            if full {
                write(&*borg, Extent::of_pages(100, 400), 3).await;
            }
            let at = Extent::of_pages(12, 2);
            write(&*borg, at, 7).await;
            assert_eq!(versions(&*disk, at).await, [ORIGIN_SAYS, 7]);
            assert_eq!(versions(&*borg, at).await, [7, 7]);
        }
    });
}

#[test]
fn parts_of_pages_go_where_the_page_is() {
    run(1, async {
        let World { borg, disk } = mapped(in_place()).await;
        // The end of page 9, which is not mapped, and the beginning of page 10, which is.
        let at = Extent::new(9 * 8 + 5, 6);
        write(&*borg, at, 7).await;
        let origin = versions_of_sectors(&*disk, Extent::of_pages(9, 2)).await;
        let seen = versions_of_sectors(&*borg, Extent::of_pages(9, 2)).await;
        let expected = |last: u64| [vec![ORIGIN_SAYS; 5], vec![7; 3], vec![last; 8]].concat();
        assert_eq!(origin, expected(ORIGIN_SAYS));
        let mut seen_expected = expected(1);
        seen_expected[8..11].fill(7);
        assert_eq!(seen, seen_expected);
    });
}

#[test]
fn part_of_a_page_that_was_absorbed_a_moment_ago_is_joined_with_the_rest() {
    run(1, async {
        let World { borg, .. } = mapped(in_place()).await;
        let page = Extent::of_pages(20, 1);
        write(&*borg, page, 7).await;
        let slot = borg.store.slot_of(20);
        write(&*borg, Extent::new(20 * 8 + 2, 1), 8).await;
        assert_ne!(borg.store.slot_of(20), slot, "its checksum stands in the log");
        assert_eq!(versions_of_sectors(&*borg, page).await, [7, 7, 8, 7, 7, 7, 7, 7]);
    });
}

/// A device that remembers the hints of writes.
struct Spy {
    below: Rc<dyn BlockDevice>,
    seen: RefCell<Vec<Hints>>,
    flushed: Cell<u64>,
    volatile_cache: bool,
}

impl BlockDevice for Spy {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: self.volatile_cache, ..self.below.geometry() }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        self.seen.borrow_mut().push(how.clone());
        self.below.read(at, into, how)
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.seen.borrow_mut().push(how.clone());
        self.below.write(at, from, how)
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.flushed.set(self.flushed.get() + 1);
        self.below.flush(how)
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.below.discard(at, how)
    }
}

#[test]
fn fua_and_classes_are_honoured() {
    run(1, async {
        for volatile_cache in [false, true] {
            let disk = disk();
            let spy = |start, sectors| {
                let below = slice(&disk, start, sectors);
                Rc::new(Spy { below, seen: RefCell::default(), flushed: Cell::default(), volatile_cache })
            };
            let (origin, bopt) = (spy(0, ORIGIN), spy(ORIGIN, 400 * 8));
            let borg = formatted(origin.clone(), bopt.clone(), in_place()).await;
            write(&*borg, Extent::of_pages(3, 1), 1).await;
            bopt.seen.take();
            let flushed = bopt.flushed.get();
            let how = Hints { fua: true, class: Class::Urgent, ..Hints::default() };
            let at = Extent::of_pages(5, 1);
            borg.write(at, stamped(at, 1), how.clone()).await.unwrap();
            let seen = bopt.seen.take();
            assert_eq!(seen.len(), 2, "the page and its run's");
            assert!(seen.iter().all(|hints| hints.class == Class::Urgent));
            // With a cache below, a flush makes the runs before durable too.
            assert!(seen.iter().all(|hints| hints.fua != volatile_cache));
            assert_eq!(bopt.flushed.get() > flushed, volatile_cache);
            let part = Extent::new(8 * 50, 1);
            borg.write(part, stamped(part, 1), how).await.unwrap();
            assert!(origin.seen.borrow().iter().all(|hints| hints.fua && hints.class == Class::Urgent));
            assert_eq!(origin.seen.borrow().len(), 1);
        }
    });
}

/// A device of which the first flush fails after 1 ms, while others that end after 2 ms succeed.
struct FailsOnce {
    below: Rc<dyn BlockDevice>,
    flushes: Cell<u64>,
    fails: Cell<bool>,
}

impl BlockDevice for FailsOnce {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        let number = self.flushes.replace(self.flushes.get() + 1);
        io(async move {
            if !self.fails.get() {
                return self.below.flush(how).await;
            }
            runtime::sleep(Nanos::from_millis(1 + number.min(1))).await;
            match number {
                0 => Err(IoError::new(ErrorKind::Medium, "fails once", None, "")),
                _ => self.below.flush(how).await,
            }
        })
    }
}

#[test]
fn a_flush_beside_one_that_failed_fails_too() {
    run(1, async {
        let disk = disk();
        let below = |start, sectors| {
            let below = slice(&disk, start, sectors);
            Rc::new(FailsOnce { below, flushes: Cell::new(0), fails: Cell::new(false) })
        };
        let (origin, bopt) = (below(0, ORIGIN), below(ORIGIN, 400 * 8));
        let borg = formatted(origin.clone(), bopt.clone(), in_place()).await;
        let how = Hints::default();
        for device in [&origin, &bopt] {
            device.flushes.set(0);
            device.fails.set(true);
        }
        let both = futures_util::future::join(borg.store.flush_bopt(&how), borg.store.flush_bopt(&how)).await;
        assert!(both.0.is_err() && both.1.is_err(), "{both:?}");
        let both =
            futures_util::future::join(borg.store.flush_origin(&how), borg.store.flush_origin(&how)).await;
        assert!(both.0.is_err() && both.1.is_err(), "{both:?}");
    });
}

#[test]
fn only_a_reconfiguration_has_its_own_share_of_the_head() {
    run(1, async {
        let disk = disk();
        let spy = |start, sectors| {
            let below = slice(&disk, start, sectors);
            Rc::new(Spy { below, seen: RefCell::default(), flushed: Cell::default(), volatile_cache: false })
        };
        let (origin, bopt) = (spy(0, ORIGIN), spy(ORIGIN, 400 * 8));
        let options = Options { reconfigure_share: 35, ..Options::default() };
        let borg = formatted(origin.clone(), bopt.clone(), options).await;
        let shares = || -> Vec<u8> {
            let seen = origin.seen.take().into_iter().chain(bopt.seen.take());
            seen.filter(|how| how.class == Class::Background).map(|how| how.share_pct).collect()
        };
        write(&*borg, Extent::of_pages(3, 1), 1).await;
        for _ in 0..2 {
            read(&*borg, Extent::of_pages(100, 20)).await;
        }
        shares();
        borg.reconfigure_now(Account(1)).await.unwrap();
        let moved = shares();
        assert!(moved.len() > 1 && moved.iter().all(|share| *share == 35), "{moved:?}");
        write(&*borg, Extent::of_pages(3, 1), 2).await;
        shares();
        borg.drain_all(Account(1)).await.unwrap();
        let drained = shares();
        assert!(drained.len() > 1 && drained.iter().all(|share| *share == 0), "{drained:?}");
    });
}
