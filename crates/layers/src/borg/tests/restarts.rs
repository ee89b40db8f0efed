//! A BOPT that is opened again: after a clean stop, after none, by another volume, with damage.

use super::*;

async fn reopen(disk: &Rc<Disk>, options: Options) -> Result<Rc<Borg>, IoError> {
    Borg::open_creating(slice(disk, 0, ORIGIN), slice(disk, ORIGIN, 400 * 8), options, false).await
}

async fn write(device: &dyn BlockDevice, page: u64, version: u64) {
    super::write(device, Extent::of_pages(page, 1), version).await;
}

async fn holds(borg: &Borg, page: u64, version: u64) {
    let at = Extent::of_pages(page, 1);
    assert_eq!(read(borg, at).await, stamped(at, version).to_vec(), "page {page}");
}

/// Page 3 is in the read cache and clean, page 5 in the write buffer, page 7 in the read cache and dirty.
async fn used() -> World {
    let world = world(in_place(), 400).await;
    for page in [3, 5, 7] {
        write(&*world.disk, page, 1).await;
        if page != 5 {
            holds(&world.borg, page, 1).await;
        }
    }
    world.borg.reconfigure_now(Account(1)).await.unwrap();
    write(&*world.borg, 5, 2).await;
    write(&*world.borg, 7, 2).await;
    world
}

#[test]
fn after_a_clean_stop_it_is_as_it_was() {
    run(1, async {
        let World { borg, disk } = used().await;
        borg.stop().await.unwrap();
        let before: Vec<_> = borg.store.table().map.iter().collect();
        assert_eq!(
            before.iter().map(|(_, page, dirty)| (*page, *dirty)).collect::<Vec<_>>(),
            [(3, false), (7, true), (5, true)]
        );
        let commands = disk.all().blocks_written;
        let again = reopen(&disk, Options::default()).await.unwrap();
        assert_eq!(again.store.table().map.iter().collect::<Vec<_>>(), before);
        assert_eq!(disk.all().blocks_written, commands, "opening writes nothing");
        for (page, version) in [(3, 1), (5, 2), (7, 2)] {
            holds(&again, page, version).await;
        }
        // A second stop and start, with the log going on.
        write(&*again, 9, 4).await;
        again.stop().await.unwrap();
        let third = reopen(&disk, Options::default()).await.unwrap();
        holds(&third, 9, 4).await;
        holds(&third, 5, 2).await;
    });
}

#[test]
fn without_a_clean_stop_what_is_dirty_is_known() {
    run(1, async {
        let World { disk, .. } = used().await;
        let again = reopen(&disk, Options::default()).await.unwrap();
        let found: Vec<_> = again.store.table().map.iter().map(|(_, page, dirty)| (page, dirty)).collect();
        assert_eq!(found, [(3, false), (7, true), (5, true)]);
        for (page, version) in [(3, 1), (5, 2), (7, 2)] {
            holds(&again, page, version).await;
        }
        write(&*again, 11, 1).await;
        again.stop().await.unwrap();
        let third = reopen(&disk, Options::default()).await.unwrap();
        assert_eq!(third.store.dirty(), 3);
    });
}

/// A program that did not keep dirty bits as it went along says so by a feature that is not there.
#[test]
fn a_crash_of_an_older_program_lets_every_copy_pass_for_dirty() {
    run(1, async {
        let World { borg, disk } = used().await;
        let how = Hints::default();
        borg.store.change_super(|disk| disk.exact = false, &how).await.unwrap();
        borg.store.change_super(|_| (), &how).await.unwrap();
        drop(borg);
        let dirty = |borg: &Borg| -> Vec<_> {
            borg.store.table().map.iter().map(|(_, page, dirty)| (page, dirty)).collect()
        };
        let again = reopen(&disk, Options::default()).await.unwrap();
        assert_eq!(dirty(&again), [(3, true), (7, true), (5, true)]);
        // From the first change on these bits are on disk, and no others are dirty after a crash.
        write(&*again, 11, 1).await;
        again.flush(how).await.unwrap();
        drop(again);
        let third = reopen(&disk, Options::default()).await.unwrap();
        assert!(third.store.disk().super_page.exact);
        assert_eq!(dirty(&third), [(3, true), (7, true), (5, true), (11, true)]);
    });
}

#[test]
fn copies_that_were_never_dirty_are_clean_after_a_crash() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), 400).await;
        read(&*borg, Extent::of_pages(3, 1)).await;
        borg.reconfigure_now(Account(1)).await.unwrap();
        drop(borg);
        let again = reopen(&disk, Options::default()).await.unwrap();
        let store = &again.store;
        assert_eq!((store.mapped(), store.dirty(), store.disk().super_page.require), (1, 0, false));
    });
}

/// The analyzer's history is not on disk: soon after a start it is short, which is no reason to remove pages.
#[test]
fn a_reconfiguration_soon_after_a_restart_leaves_what_is_placed() {
    run(1, async {
        for (clean, placement) in
            [(true, Placement::Kept), (false, Placement::Kept), (true, Placement::Planned)]
        {
            let options = Options { placement, ..Options::default() };
            let World { borg, disk } = world(options.clone(), 400).await;
            let pages = || (0..100).map(|page| page * 3);
            for page in pages() {
                read(&*borg, Extent::of_pages(page, 1)).await;
            }
            borg.reconfigure_now(Account(1)).await.unwrap();
            if clean {
                borg.stop().await.unwrap();
            }
            drop(borg);
            let again = reopen(&disk, options).await.unwrap();
            read(&*again, Extent::of_pages(1_501, 1)).await;
            for _ in 0..2 {
                again.reconfigure_now(Account(1)).await.unwrap();
            }
            let mapped = again.store.mapped();
            assert_eq!(mapped, if placement == Placement::Kept { 101 } else { 100 });
            // Once it knows as much, what is not planned goes.
            for page in 0..150 {
                read(&*again, Extent::of_pages(page * 3 + 1, 1)).await;
            }
            again.reconfigure_now(Account(1)).await.unwrap();
            assert!(pages().all(|page| again.store.slot_of(page).is_none()));
        }
    });
}

#[test]
fn an_origin_written_without_the_layer_is_detected() {
    run(1, async {
        let World { borg, disk } = used().await;
        borg.stop().await.unwrap();
        write(&*disk, 7, 50).await;
        let error = reopen(&disk, Options::default()).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("it was written without this BOPT"), "{error}");
    });
}

#[test]
fn copies_of_a_changed_origin_are_dropped_if_none_is_dirty() {
    run(1, async {
        let World { borg, disk } = used().await;
        borg.drain_all(Account(1)).await.unwrap();
        borg.stop().await.unwrap();
        write(&*disk, 3, 50).await;
        let again = reopen(&disk, Options::default()).await.unwrap();
        holds(&again, 3, 50).await;
        // Also for good: what is on disk of the old copies does not come back.
        write(&*again, 9, 4).await;
        drop(again);
        let third = reopen(&disk, Options::default()).await.unwrap();
        holds(&third, 3, 50).await;
        holds(&third, 9, 4).await;
    });
}

#[test]
fn what_does_not_belong_together_is_refused() {
    run(1, async {
        let World { borg, disk } = used().await;
        borg.stop().await.unwrap();
        let options = Options { write_buffer: 0.5, ..Options::default() };
        let error = reopen(&disk, options).await.err().unwrap().to_string();
        assert!(error.contains("expected") && error.contains("as the options say"), "{error}");
        let (smaller, bopt) = (slice(&disk, 0, ORIGIN - 8), slice(&disk, ORIGIN, 400 * 8));
        let error =
            Borg::open_creating(smaller, bopt, Options::default(), false).await.err().unwrap().to_string();
        assert!(error.contains("it belongs to another volume, or the device below changed"), "{error}");
        let (origin, smaller) = (slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 399 * 8));
        let error =
            Borg::open_creating(origin, smaller, Options::default(), false).await.err().unwrap().to_string();
        assert!(error.contains("expected one of 399 pages") && error.contains("1638400 bytes"), "{error}");
        // A file system begins with zeroes, and its signature is behind them.
        let other = Extent::of_pages(5_000, 1);
        let data = Buffer::zeroed(4096);
        data.put(1024, b"\x53\xef");
        disk.write(other, data, Hints::default()).await.unwrap();
        let (origin, bopt) = (slice(&disk, 0, ORIGIN), slice(&disk, 40_000, 8_000));
        let opened = Borg::open_creating(origin, bopt, Options::default(), false).await;
        let error = opened.err().unwrap().to_string();
        assert!(error.contains("found data that is no BOPT"), "{error}");
    });
}

#[test]
fn damage_without_a_second_copy_is_named() {
    run(1, async {
        let World { borg, disk } = used().await;
        borg.stop().await.unwrap();
        let at = |page| Extent::of_pages(ORIGIN / 8 + page, 1);
        for origin in 0..2 {
            let page = at(borg.store.layout().map_page(0, origin));
            let bytes = disk.read(page, Buffer::zeroed(4096), Hints::default()).await.unwrap();
            bytes.put(600, &[0x55]);
            disk.write(page, bytes, Hints::default()).await.unwrap();
        }
        let error = reopen(&disk, Options::default()).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("a sector of the map page of segment 0"), "{error}");
        for page in 0..2 {
            disk.write(Extent { sectors: 1, ..at(page) }, Buffer::from_vec(vec![7; 512]), Hints::default())
                .await
                .unwrap();
        }
        let error = reopen(&disk, Options::default()).await.err().unwrap().to_string();
        assert!(error.contains("a sector of the super page"), "{error}");
        for page in 0..2 {
            disk.write(at(page), Buffer::from_vec(vec![7; 4096]), Hints::default()).await.unwrap();
        }
        let error = reopen(&disk, Options::default()).await.err().unwrap().to_string();
        assert!(error.contains("found data that is no BOPT"), "{error}");
    });
}

/// Detaching gives the BOPT up; a session that a write was beginning meanwhile does not begin on it.
#[test]
fn a_write_that_meets_a_detach_is_not_lost() {
    for delay in 0..80 {
        run(delay, async {
            let World { borg, disk } = world(Options::default(), 400).await;
            write(&*borg, 5, 1).await;
            borg.drain_all(Account(1)).await.unwrap();
            borg.stop().await.unwrap();
            let borg = reopen(&disk, Options::default()).await.unwrap();
            let writer = borg.clone();
            let written = spawn(async move {
                sleep(Nanos::from_micros(delay * 500)).await;
                write(&*writer, 7, 2).await;
            });
            let detached = borg.detach().await;
            written.await;
            borg.flush(Hints::default()).await.unwrap();
            holds(&borg, 7, 2).await;
            drop(borg);
            // As after a crash.
            let borg = reopen(&disk, Options::default()).await.unwrap();
            holds(&borg, 7, 2).await;
            assert!(detached.is_ok() || borg.store.slot_of(7).is_some(), "{detached:?}");
        });
    }
}
