//! Orders of events in which something was lost once: overwriting what the map tells and the log does not,
//! withdrawing claims before those that take their place count.

use futures_util::future::join;

use super::*;

/// Pages of a BOPT with a log of three segments of 64 pages, and five of read cache.
const BOPT: u64 = 2 + 8 * 66;

struct Two {
    borg: Rc<Borg>,
    disk: Rc<Disk>,
    origin: Rc<Rig>,
    bopt: Rc<Rig>,
}

fn options() -> Options {
    let segment = crate::units::Bytes(64 << 12);
    Options { segment, drain_below: 0.0, placement: Placement::Planned, ..Options::default() }
}

async fn open(disk: &Rc<Disk>, options: Options) -> Two {
    let ((over, origin), (copies, bopt)) =
        (rigged(slice(disk, 0, ORIGIN)), rigged(slice(disk, ORIGIN, BOPT * 8)));
    Two { borg: formatted(over, copies, options).await, disk: disk.clone(), origin, bopt }
}

async fn new() -> Two {
    open(&disk(), options()).await
}

async fn write(borg: &Borg, page: u64, version: u64) -> Result<(), IoError> {
    let at = Extent::of_pages(page, 1);
    borg.write(at, stamped(at, version), Hints::default()).await
}

async fn version(borg: &Borg, page: u64) -> u64 {
    u64::from_le_bytes(read(borg, Extent::of_pages(page, 1)).await[8..16].try_into().unwrap())
}

/// What a mover does on its way: it invalidates older entries, and moves no anchor.
async fn withdraw(borg: &Borg) -> Result<(), IoError> {
    borg.store.persist_stale(&Hints::default()).await
}

#[test]
fn what_the_map_tells_may_be_overwritten_without_an_end_of_the_log() {
    run(1, async {
        let Two { borg, disk, .. } = new().await;
        write(&borg, 5, 1).await.unwrap();
        write(&borg, 6, 1).await.unwrap();
        write(&borg, 6, 2).await.unwrap();
        withdraw(&borg).await.unwrap();
        write(&borg, 9, 3).await.unwrap();
        let slot = borg.store.slot_of(5);
        let part = Extent::new(5 * 8, 1);
        super::write(&*borg, part, 4).await;
        assert_eq!(borg.store.slot_of(5), slot, "in place");
        borg.flush(Hints::default()).await.unwrap();
        drop(borg);
        let Two { borg, .. } = open(&disk, options()).await;
        assert_eq!((version(&borg, 5).await, version(&borg, 6).await, version(&borg, 9).await), (4, 2, 3));
    });
}

#[test]
fn batches_after_a_failed_one_are_persisted_before_older_entries_are_invalidated() {
    run(1, async {
        let Two { borg, disk, bopt, .. } = new().await;
        // Page 5 is in the read cache, dirty and durable.
        write(&borg, 5, 1).await.unwrap();
        version(&borg, 5).await;
        borg.reconfigure_now(Account(1)).await.unwrap();
        borg.flush(Hints::default()).await.unwrap();
        assert!(!borg.store.layout().is_logged(borg.store.slot_of(5).unwrap()));
        let anchor = borg.store.table().log.anchor();
        let page =
            borg.store.layout().page(borg.store.layout().slots_of(anchor.segment).start + anchor.offset);
        bopt.fails_at.set(Some(page));
        write(&borg, 7, 2).await.unwrap();
        assert_eq!(bopt.fails_at.get(), None, "it was not absorbed");
        borg.fallback.end();
        // The next segment knows nothing of the failure.
        let rest = Extent::of_pages(100, u64::from(borg.store.layout().segment - anchor.offset) - 3);
        super::write(&*borg, rest, 2).await;
        write(&borg, 5, 3).await.unwrap();
        withdraw(&borg).await.unwrap();
        drop(borg);
        let Two { borg, .. } = open(&disk, options()).await;
        assert!(version(&borg, 5).await > 0);
    });
}

#[test]
fn a_pending_entry_is_written_before_older_ones_are_invalidated() {
    run(1, async {
        let Two { borg, disk, bopt, .. } = new().await;
        write(&borg, 5, 1).await.unwrap();
        version(&borg, 5).await;
        borg.flush(Hints::default()).await.unwrap();
        // It is relocated, but the map page that would tell so cannot be written.
        bopt.fails_at.set(Some(borg.store.layout().map_page(0, 1)));
        borg.reconfigure_now(Account(1)).await.unwrap_err();
        assert_eq!(bopt.fails_at.get(), None);
        assert!(!borg.store.layout().is_logged(borg.store.slot_of(5).unwrap()));
        withdraw(&borg).await.unwrap();
        drop(borg);
        let Two { borg, .. } = open(&disk, options()).await;
        assert_eq!(version(&borg, 5).await, 1);
    });
}

#[test]
fn a_clean_copy_is_made_of_durable_data_of_the_origin() {
    run(1, async {
        let Two { borg, origin, .. } = open(&disk(), Options { write_buffer: 0.0, ..options() }).await;
        version(&borg, 5).await;
        borg.reconfigure_now(Account(1)).await.unwrap();
        write(&borg, 9, 1).await.unwrap();
        assert_eq!(origin.unflushed.get(), 8);
        version(&borg, 9).await;
        borg.reconfigure_now(Account(1)).await.unwrap();
        assert!(borg.store.slot_of(9).is_some());
        assert_eq!(
            origin.unflushed.get(),
            0,
            "or the copy is newer than the origin after a crash, and passes for clean"
        );
    });
}

#[test]
fn a_stop_that_could_not_be_marked_is_marked_by_the_next_one_or_forgotten_by_the_next_change() {
    run(1, async {
        for changes in [false, true] {
            let Two { borg, disk, bopt, .. } = new().await;
            write(&borg, 5, 1).await.unwrap();
            // Its checkpoint writes the first super page, the mark of the clean stop the other one.
            let mark = borg.store.disk().super_page.generation % 2;
            bopt.fails_at.set(Some(mark));
            borg.stop().await.unwrap_err();
            assert_eq!(bopt.fails_at.get(), None);
            if changes {
                write(&borg, 5, 2).await.unwrap();
                borg.flush(Hints::default()).await.unwrap();
            } else {
                borg.stop().await.unwrap();
            }
            drop(borg);
            let Two { borg, .. } = open(&disk, options()).await;
            assert_eq!(borg.store.disk().super_page.clean, !changes);
            assert_eq!(version(&borg, 5).await, 1 + u64::from(changes));
        }
    });
}

#[test]
fn an_unstable_copy_is_not_overwritten_when_the_log_fills_meanwhile() {
    run(1, async {
        let options = Options { overwrite: Overwrite::InPlace, ..options() };
        let Two { borg, disk, .. } = open(&disk(), options.clone()).await;
        // Page 6 has a clean copy, of page 5 only the log tells.
        version(&borg, 6).await;
        borg.reconfigure_now(Account(1)).await.unwrap();
        write(&borg, 5, 1).await.unwrap();
        let slots = [5, 6].map(|page| borg.store.slot_of(page).unwrap());
        assert!(!borg.store.is_stable(slots[0]));
        assert!(!borg.store.table().map.is_dirty(slots[1]));
        // While the first waits until the map says that page 6 is newer, the other one fills the log.
        let (both, rest) = (Extent::of_pages(5, 2), Extent::of_pages(100, 300));
        join(super::write(&*borg, both, 2), super::write(&*borg, rest, 3)).await;
        borg.flush(Hints::default()).await.unwrap();
        drop(borg);
        let Two { borg, .. } = open(&disk, options).await;
        assert_eq!((version(&borg, 5).await, version(&borg, 6).await), (2, 2));
        for page in rest.pages() {
            assert_eq!(version(&borg, page).await, 3, "page {page}");
        }
    });
}

#[test]
fn a_dirty_bit_counts_when_it_is_durable_and_not_when_it_is_written() {
    run(1, async {
        let options = Options { overwrite: Overwrite::InPlace, ..options() };
        let Two { borg, bopt, .. } = open(&disk(), options).await;
        for page in [5, 6] {
            version(&borg, page).await;
        }
        borg.reconfigure_now(Account(1)).await.unwrap();
        write(&borg, 9, 1).await.unwrap();
        let slot = borg.store.slot_of(5).unwrap();
        // Page 5 is to be newer, but no map page can say so.
        bopt.fails.set(true);
        write(&borg, 5, 2).await.unwrap_err();
        bopt.fails.set(false);
        // The one that says so of page 6 says it too; it is on its way.
        bopt.seen.borrow_mut().clear();
        let (one, other) = join(write(&borg, 6, 3), write(&borg, 5, 3)).await;
        one.and(other).unwrap();
        let copy = Extent::of_pages(borg.store.layout().page(slot), 1);
        let seen = bopt.seen.borrow();
        let written = seen.iter().position(|(op, at)| *op == Op::Write && *at == copy).unwrap();
        let maps = Extent::of_pages(2, 2 * u64::from(borg.store.layout().segments()));
        let map = seen[..written].iter().position(|(op, at)| *op == Op::Write && maps.overlaps(*at)).unwrap();
        assert!(seen[map..written].iter().any(|(op, _)| *op == Op::Flush), "{seen:?}");
    });
}
