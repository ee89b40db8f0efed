//! A BOPT that takes no more writes: the origin does.

use std::collections::BTreeSet;

use super::*;
use crate::borg::options::Drain;

/// A BOPT that can be full, or gone.
#[derive(Default)]
struct Failing {
    /// Pages from this one on take no writes; 0 for none.
    full_from: Cell<u64>,
    /// Every request fails.
    gone: Cell<bool>,
    /// Writes are carried out all the same.
    late: Cell<bool>,
}

impl Failing {
    /// It is gone, and carries out writes all the same; or it is not.
    fn set_gone(&self, gone: bool) {
        self.gone.set(gone);
        self.late.set(gone);
    }
}

struct Bopt {
    below: Rc<dyn BlockDevice>,
    failing: Rc<Failing>,
}

impl Bopt {
    fn error(&self, at: Option<Extent>, write: bool) -> Option<IoError> {
        let Failing { full_from, gone, .. } = &*self.failing;
        let first = full_from.get();
        if gone.get() {
            return Some(IoError::new(ErrorKind::Gone, "bopt", at, "the server is gone"));
        }
        let is_full = write && first > 0 && at.is_some_and(|at| at.pages().end > first);
        is_full.then(|| IoError::new(ErrorKind::NoSpace, "bopt", at, "no space is left"))
    }
}

impl BlockDevice for Bopt {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        match self.error(Some(at), false) {
            Some(error) => io(ready(Err(error))),
            None => self.below.read(at, into, how),
        }
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        match self.error(Some(at), true) {
            Some(error) => io(async move {
                if self.failing.late.get() {
                    self.below.write(at, from, how).await?;
                }
                Err(error)
            }),
            None => self.below.write(at, from, how),
        }
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: seekless_core::Zeroes) -> IoFuture<'_, ()> {
        match self.error(Some(at), true) {
            Some(error) => io(ready(Err(error))),
            None => self.below.write_zeroes(at, how, zeroes),
        }
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        match self.error(None, true) {
            Some(error) => io(ready(Err(error))),
            None => self.below.flush(how),
        }
    }
}

struct Volume {
    borg: Rc<Borg>,
    origin: Rc<dyn BlockDevice>,
    /// The BOPT itself.
    bare: Rc<dyn BlockDevice>,
    failing: Rc<Failing>,
}

impl Volume {
    async fn new() -> Volume {
        let disk = disk();
        let (origin, bare) = (slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 512 * 8));
        let failing = Rc::<Failing>::default();
        let bopt = Rc::new(Bopt { below: bare.clone(), failing: failing.clone() });
        let options = Options { drain: Drain::All, rehearse: false, ..Options::default() };
        let borg = formatted(origin.clone(), bopt, options).await;
        Volume { borg, origin, bare, failing }
    }

    /// The volume after a crash of the program, with a BOPT that works again.
    async fn after_a_crash(&self) -> Rc<Borg> {
        let options = Options { rehearse: false, ..Options::default() };
        Borg::open(self.origin.clone(), self.bare.clone(), options, false).await.unwrap()
    }

    fn counter(&self, name: &str) -> u64 {
        self.borg.counters().into_iter().find(|(counter, _)| *counter == name).unwrap().1
    }

    /// Copies pages that are read to the read cache.
    async fn cache(&self, pages: &[u64]) {
        for _ in 0..60 {
            for page in pages {
                read(&*self.borg, Extent::of_pages(*page, 1)).await;
            }
        }
        self.borg.reconfigure_now(Account(1)).await.unwrap();
        for page in pages {
            assert!(self.borg.store.lookup(*page).is_some_and(|entry| !entry.dirty), "page {page}");
        }
    }
}

fn page(number: u64) -> Extent {
    Extent::of_pages(number, 1)
}

async fn flush(borg: &Borg) -> Result<(), IoError> {
    borg.flush(Hints::default()).await
}

#[test]
fn a_bopt_without_space_leaves_the_volume_writable() {
    run(1, async {
        let volume = Volume::new().await;
        let borg = &volume.borg;
        let told = Rc::<RefCell<Vec<String>>>::default();
        let list = told.clone();
        borg.on_trouble(Box::new(move |why| list.borrow_mut().push(why.to_owned())));
        write(&**borg, Extent::of_pages(10, 20), 1).await;
        flush(borg).await.unwrap();
        let used = borg.store.pages_where(|entry| entry.dirty);
        let last = used.iter().filter_map(|page| borg.store.slot_of(*page)).max().unwrap();
        volume.failing.full_from.set(borg.store.layout().page(last) + 1);
        let mut expected = BTreeMap::new();
        for (number, version) in (0..300).zip(2..) {
            let number = number * 7 % 100;
            write(&**borg, page(number), version).await;
            expected.insert(number, version);
            if version % 50 == 0 {
                flush(borg).await.unwrap();
                // A while later the BOPT is tried again.
                sleep(Nanos::from_millis(3_000)).await;
            }
        }
        flush(borg).await.unwrap();
        assert!(volume.counter("writes_not_absorbed_by_error") > 0);
        assert_eq!(told.borrow().len(), 1, "{:?}", told.borrow());
        assert!(borg.trouble().unwrap().contains("no space is left"), "{:?}", borg.trouble());
        let restarted = volume.after_a_crash().await;
        for (number, version) in &expected {
            let found = [read(&**borg, page(*number)).await, read(&*restarted, page(*number)).await];
            assert_eq!(found, [(); 2].map(|()| stamped(page(*number), *version).to_vec()), "page {number}");
        }
        // Once there is space, writes are absorbed again.
        volume.failing.full_from.set(0);
        sleep(Nanos::from_millis(200_000)).await;
        for number in 200..210 {
            write(&**borg, page(number), 1).await;
            sleep(Nanos::from_millis(20_000)).await;
        }
        assert!(borg.store.lookup(209).is_some_and(|entry| entry.dirty));
        assert_eq!(borg.trouble(), None);
    });
}

/// The BOPT is gone, but has carried out what it answered with an error.
#[test]
fn no_batch_that_failed_wins_over_a_later_write() {
    run(1, async {
        let volume = Volume::new().await;
        let borg = &volume.borg;
        write(&**borg, page(5), 1).await;
        borg.drain_all(Account(1)).await.unwrap();
        volume.failing.set_gone(true);
        // On the origin, and perhaps in a batch.
        write(&**borg, page(5), 2).await;
        flush(borg).await.unwrap();
        let restarted = volume.after_a_crash().await;
        assert_eq!(read(&*restarted, page(5)).await, stamped(page(5), 2).to_vec());
        drop(restarted);
        assert_eq!(volume.counter("pages_in_failed_batches"), 1);
        // A start may find the batch, so nothing else may be written; all other pages are.
        let error = borg.write(page(5), stamped(page(5), 3), Hints::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Gone);
        assert!(borg.discard(page(5), Hints::default()).await.is_err());
        write(&**borg, page(6), 3).await;
        flush(borg).await.unwrap();
        volume.failing.set_gone(false);
        assert!(borg.store.bopt_failed().is_some(), "a flush of the BOPT failed, so it is not used any more");
        let restarted = volume.after_a_crash().await;
        for (number, version) in [(5, 2), (6, 3)] {
            assert_eq!(read(&*restarted, page(number)).await, stamped(page(number), version).to_vec());
        }
    });
}

#[test]
fn a_page_of_a_failed_batch_is_written_once_metadata_overrules_the_batch() {
    run(1, async {
        let volume = Volume::new().await;
        let borg = &volume.borg;
        write(&**borg, page(5), 1).await;
        borg.drain_all(Account(1)).await.unwrap();
        volume.failing.late.set(true);
        volume.failing.full_from.set(1);
        write(&**borg, page(5), 2).await;
        volume.failing.late.set(false);
        volume.failing.full_from.set(0);
        write(&**borg, page(5), 3).await;
        assert_eq!(volume.counter("pages_in_failed_batches"), 0);
        assert_eq!(read(&*volume.origin, page(5)).await, stamped(page(5), 3).to_vec(), "not absorbed yet");
        flush(borg).await.unwrap();
        let restarted = volume.after_a_crash().await;
        assert_eq!(read(&*restarted, page(5)).await, stamped(page(5), 3).to_vec());
    });
}

#[test]
fn clean_copies_in_a_bopt_that_is_gone_are_not_served_after_a_crash() {
    for dirty in [false, true] {
        run(1, async {
            let volume = Volume::new().await;
            let borg = &volume.borg;
            let cached: BTreeSet<u64> = (40..60).step_by(2).collect();
            let cached: Vec<u64> = cached.into_iter().collect();
            borg.writes.set(Writes { absorbs: false, drains: false });
            for number in &cached {
                write(&**borg, page(*number), 1).await;
            }
            volume.cache(&cached).await;
            borg.writes.set(Writes { absorbs: true, drains: false });
            borg.store.begin_writing(&Hints::default()).await.unwrap();
            if dirty {
                write(&**borg, page(200), 1).await;
            }
            volume.failing.gone.set(true);
            // No batch is under way when this is noticed.
            let flushed = flush(borg).await;
            assert_eq!(flushed.is_err(), dirty);
            if let Err(error) = flushed {
                assert!(error.to_string().contains("4 KiB in the BOPT are newer"), "{error}");
            }
            let mut expected: BTreeMap<u64, u64> = cached.iter().map(|number| (*number, 1)).collect();
            for number in &cached[..5] {
                let written = borg.write(page(*number), stamped(page(*number), 2), Hints::default()).await;
                // With a dirty page beside it, a copy that differs would make the volume refuse to open.
                assert_eq!(written.is_err(), dirty, "page {number}");
                expected.insert(*number, if dirty { 1 } else { 2 });
            }
            write(&**borg, page(7), 9).await;
            assert_eq!(flush(borg).await.is_err(), dirty);
            for (number, version) in &expected {
                assert_eq!(read(&**borg, page(*number)).await, stamped(page(*number), *version).to_vec());
            }
            volume.failing.gone.set(false);
            let restarted = volume.after_a_crash().await;
            for (number, version) in &expected {
                assert_eq!(read(&*restarted, page(*number)).await, stamped(page(*number), *version).to_vec());
            }
        });
    }
}

#[test]
fn a_drain_shows_what_it_has_written_before_its_round_ends() {
    run(1, async {
        let volume = Volume::new().await;
        let borg = &volume.borg;
        for number in 0..7 {
            write(&**borg, page(number * 100), 1).await;
        }
        let draining = borg.clone();
        let drain = spawn(async move { draining.drain_all(Account(1)).await });
        let mut seen = BTreeSet::new();
        while borg.store.dirty() > 0 {
            if borg.store.dirty() == 7 {
                seen.insert(volume.counter("pages_done_in_round"));
            }
            sleep(Nanos::from_millis(1)).await;
        }
        drain.await.unwrap();
        assert!(seen.len() > 4 && seen.contains(&6), "{seen:?}");
        assert_eq!(volume.counter("pages_done_in_round"), 0);
    });
}

#[test]
fn a_bopt_that_is_gone_with_nothing_dirty_is_left() {
    for dirty in [false, true] {
        run(1, async {
            let volume = Volume::new().await;
            let borg = &volume.borg;
            write(&**borg, Extent::of_pages(5, 9), 1).await;
            borg.drain_all(Account(1)).await.unwrap();
            if dirty {
                write(&**borg, page(300), 1).await;
            }
            volume.failing.gone.set(true);
            for number in 0..40 {
                write(&**borg, page(number), 2).await;
            }
            assert_eq!(flush(borg).await.is_err(), dirty);
            assert_eq!(borg.write_back(Account(1)).await.is_err(), dirty);
            for number in 0..40 {
                assert_eq!(read(&*volume.origin, page(number)).await, stamped(page(number), 2).to_vec());
            }
        });
    }
}
