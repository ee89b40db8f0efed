//! Writes that fail and that the device carries out later, up to the next write of the same sectors.

use seekless_core::Zeroes;

use super::*;
use crate::borg::options::Drain;

/// A device that may fail a write, and carry it out later.
struct Late {
    below: Rc<dyn BlockDevice>,
    /// Whether the next write fails.
    fails: Cell<bool>,
    /// Whether all writes fail, and are never carried out.
    broken: Cell<bool>,
    /// The one that failed.
    pending: RefCell<Option<(Extent, Buffer)>>,
}

impl Late {
    fn over(below: Rc<dyn BlockDevice>) -> Rc<Late> {
        Rc::new(Late { below, fails: Cell::default(), broken: Cell::default(), pending: RefCell::default() })
    }

    /// Carries out the write that failed.
    async fn land(&self) {
        let pending = self.pending.take();
        if let Some((at, from)) = pending {
            self.below.write(at, from, Hints::default()).await.unwrap();
        }
    }
}

impl BlockDevice for Late {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            if self.pending.borrow().as_ref().is_some_and(|(pending, _)| pending.overlaps(at)) {
                self.land().await;
            }
            if self.broken.get() {
                return Err(IoError::new(ErrorKind::Medium, "late", Some(at), "it is broken"));
            }
            if self.fails.take() {
                self.pending.replace(Some((at, from)));
                return Err(IoError::new(ErrorKind::Medium, "late", Some(at), "it fails"));
            }
            self.below.write(at, from, how).await
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.below.write_zeroes(at, how, zeroes)
    }
}

/// A volume whose devices may be late; pages are overwritten in place.
async fn late_world() -> (Rc<Borg>, [Rc<Late>; 2]) {
    let disk = disk();
    let devices = [slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 512 * 8)].map(|slice| Late::over(slice));
    let options = Options { overwrite: Overwrite::InPlace, rehearse: false, ..Options::default() };
    (formatted(devices[0].clone(), devices[1].clone(), options).await, devices)
}

const PAGE: Extent = Extent { start: Lba(80), sectors: 8 };

/// Writes the page, with a copy that may be overwritten in place; then a write of it fails.
async fn failed_over_a_copy(borg: &Borg, bopt: &Late) {
    write(borg, PAGE, 1).await;
    borg.store.checkpoint(&Hints::default()).await.unwrap();
    // The first one marks the copy, if it must.
    write(borg, PAGE, 2).await;
    bopt.fails.set(true);
    borg.write(PAGE, stamped(PAGE, 3), Hints::default()).await.unwrap_err();
    assert!(bopt.pending.borrow().as_ref().is_some_and(|(at, _)| at.sectors == 8), "it was in place");
}

#[test]
fn a_copy_of_which_a_write_failed_can_be_settled() {
    for settled in [false, true] {
        run(1, async {
            let (borg, [_, bopt]) = late_world().await;
            failed_over_a_copy(&borg, &bopt).await;
            if settled {
                borg.rewrite_failed_copies(&Hints::default()).await.unwrap();
            }
            let before = read(&*borg, PAGE).await;
            bopt.land().await;
            // Only an unsettled page may change after it was read.
            assert_eq!(read(&*borg, PAGE).await == before, settled);
        });
    }
}

#[test]
fn a_page_of_which_a_write_failed_is_the_same_after_it_was_drained() {
    run(1, async {
        let (borg, [_, bopt]) = late_world().await;
        failed_over_a_copy(&borg, &bopt).await;
        borg.drain_all(Account(1)).await.unwrap();
        assert!(borg.store.lookup(PAGE.start.page()).is_none());
        assert!(bopt.pending.borrow().is_none(), "the copy was rewritten before it was drained");
        let drained = read(&*borg, PAGE).await;
        assert!([stamped(PAGE, 2).to_vec(), stamped(PAGE, 3).to_vec()].contains(&drained));
    });
}

#[test]
fn a_page_of_which_a_write_to_the_origin_failed_is_rewritten_before_it_is_copied() {
    run(1, async {
        let (borg, [origin, _]) = late_world().await;
        borg.writes.set(Writes { absorbs: false, drains: false });
        write(&*borg, PAGE, 1).await;
        origin.fails.set(true);
        borg.write(PAGE, stamped(PAGE, 2), Hints::default()).await.unwrap_err();
        for _ in 0..60 {
            read(&*borg, PAGE).await;
            read(&*borg, Extent { start: Lba(800), ..PAGE }).await;
        }
        borg.reconfigure_now(Account(1)).await.unwrap();
        assert!(borg.store.lookup(PAGE.start.page()).is_some(), "it was copied");
        assert!(origin.pending.borrow().is_none(), "it was rewritten before");
    });
}

#[test]
fn a_write_buffer_that_could_not_be_drained_is_drained_once_the_origin_takes_writes() {
    run(1, async {
        let disk = disk();
        let [origin, bopt] =
            [slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 512 * 8)].map(|slice| Late::over(slice));
        let options = Options { drain: Drain::All, rehearse: false, ..Options::default() };
        let borg = formatted(origin.clone(), bopt, options).await;
        origin.broken.set(true);
        let mut page = 0;
        while borg.store.room() > 0 {
            // What is not absorbed fails, too.
            let at = Extent::of_pages(page, 1);
            let _ = borg.write(at, stamped(at, 1), Hints::default()).await;
            page += 1;
            assert!(page < 10_000, "the write buffer is never full");
        }
        // No maintenance is under way any more.
        runtime::sleep(Nanos::from_millis(10_000)).await;
        assert_eq!(borg.store.room(), 0);
        origin.broken.set(false);
        write(&*borg, Extent::of_pages(page, 1), 1).await;
        runtime::sleep(Nanos::from_millis(10_000)).await;
        assert!(borg.store.room() > 0, "the write buffer stays full");
    });
}
