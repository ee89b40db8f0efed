//! What is done when no client asks, and of pages that are old.

use super::*;

const SECOND: Nanos = Nanos::from_millis(1_000);

fn dirty(borg: &Borg) -> usize {
    borg.store.dirty()
}

async fn write_some(borg: &Borg, pages: std::ops::Range<u64>, version: u64) {
    for page in pages {
        write(borg, Extent::of_pages(page * 7, 1), version).await;
    }
}

#[test]
fn in_idle_time_all_dirty_pages_are_drained() {
    for options in [Options::default(), in_place(), Options { write_buffer: 1.0, ..Options::default() }] {
        run(1, async {
            let World { borg, disk } = world(options, 1_000).await;
            write_some(&borg, 0..60, 1).await;
            sleep(Nanos(29 * SECOND.0)).await;
            assert_eq!(dirty(&borg), 60);
            sleep(Nanos(6 * SECOND.0)).await;
            assert_eq!(dirty(&borg), 0);
            for page in 0..60 {
                let at = Extent::of_pages(page * 7, 1);
                assert_eq!(read(&*disk, at).await, stamped(at, 1).to_vec(), "page {page}");
            }
            // And it ends: no task wakes up when there is nothing to do.
            let commands = disk.all().commands;
            sleep(Nanos(1_000 * SECOND.0)).await;
            assert_eq!(disk.all().commands, commands);
        });
    }
}

/// The longest of some reads, page by page, with a pause between.
async fn longest_read(borg: &Borg, pages: std::ops::Range<u64>) -> Nanos {
    let mut longest = Nanos::ZERO;
    for page in pages {
        let begin = runtime::now();
        read(borg, Extent::of_pages(page * 11 + 5, 1)).await;
        longest = longest.max(runtime::now().since(begin));
        sleep(Nanos::from_millis(7)).await;
    }
    longest
}

#[test]
fn a_client_waits_for_one_request_of_it_at_most() {
    run(1, async {
        let World { borg, .. } = world(Options::default(), 3_900).await;
        write_some(&borg, 0..280, 1).await;
        let alone = longest_read(&borg, 0..50).await;
        sleep(Nanos(30 * SECOND.0 + 100_000_000)).await;
        let before = dirty(&borg);
        let longest = longest_read(&borg, 50..100).await;
        assert!(before > 0 && dirty(&borg) > 0, "it was at work: {before}, {}", dirty(&borg));
        assert!(longest < alone + Nanos::from_millis(25), "{longest} against {alone}");
        // It has ended, and goes on when clients rest again.
        let left = dirty(&borg);
        for _ in 0..20 {
            longest_read(&borg, 0..1).await;
            sleep(SECOND).await;
        }
        assert_eq!(dirty(&borg), left);
        sleep(Nanos(60 * SECOND.0)).await;
        assert_eq!(dirty(&borg), 0);
    });
}

#[test]
fn no_page_stays_newer_for_longer_than_it_may_though_clients_never_rest() {
    run(1, async {
        let slow = crate::units::Bytes(4096);
        let options = Options { dirty_max_age: Nanos(60 * SECOND.0), move_rate: slow, ..Options::default() };
        let World { borg, .. } = world(options, 1_000).await;
        write_some(&borg, 0..50, 1).await;
        let old = || (0..50).filter(|page| borg.store.slot_of(page * 7).is_some()).count();
        for second in 0..60_u64 {
            // What is written anew is as young as that.
            write(&*borg, Extent::of_pages(1_900 - second, 1), 1).await;
            sleep(SECOND).await;
            if second < 19 {
                assert_eq!(old(), 50, "after {second} s");
            }
        }
        assert_eq!(old(), 0);
        assert!((19..45).contains(&dirty(&borg)), "{}", dirty(&borg));
    });
}

/// The version of a page that the origin holds.
async fn version_below(disk: &Disk, page: u64, versions: std::ops::Range<u64>) -> Option<u64> {
    let at = Extent::of_pages(page, 1);
    let found = read(disk, at).await;
    versions.into_iter().find(|version| found == stamped(at, *version).to_vec())
}

/// A page that is written again has another slot of the log; its origin is as old as before.
#[test]
fn a_page_that_is_written_again_and_again_is_drained_in_time_too() {
    run(1, async {
        let options = Options { dirty_max_age: Nanos(60 * SECOND.0), ..Options::default() };
        let World { borg, disk } = world(options, 1_000).await;
        for second in 1..300_u64 {
            write(&*borg, Extent::of_pages(7, 1), second).await;
            sleep(SECOND).await;
            let oldest = second.saturating_sub(60);
            let below = version_below(&disk, 7, 1..second + 1).await.unwrap_or(0);
            assert!(below >= oldest, "after {second} s the origin has what was written in second {below}");
        }
    });
}

/// A plan that is carried out slowly does not keep pages from being drained.
#[test]
fn a_slow_plan_keeps_no_page_dirty_for_longer() {
    for (move_rate, move_idle) in [(4096, 0), (0, 1_000)] {
        run(1, async {
            let options = Options {
                dirty_max_age: Nanos(60 * SECOND.0),
                move_rate: crate::units::Bytes(move_rate),
                move_idle: Nanos::from_millis(move_idle),
                ..Options::default()
            };
            let World { borg, disk } = world(options, 1_000).await;
            for page in 0..200 {
                read(&*borg, Extent::of_pages(page * 7 + 3, 1)).await;
            }
            write_some(&borg, 0..50, 1).await;
            let (begun, mover) = (runtime::now(), borg.clone());
            let moving = runtime::spawn(async move {
                mover.reconfigure_now(Account(1)).await.unwrap();
                runtime::now()
            });
            // Clients never rest.
            for _ in 0..600 {
                sleep(Nanos::from_millis(100)).await;
                read(&*borg, Extent::of_pages(1_900, 1)).await;
            }
            assert_eq!(dirty(&borg), 0, "of a minute ago");
            for page in 0..50 {
                assert_eq!(version_below(&disk, page * 7, 1..2).await, Some(1), "page {page}");
            }
            assert!(moving.await.since(begun) > Nanos(60 * SECOND.0), "the plan took longer");
            for page in 0..200 {
                assert!(borg.store.slot_of(page * 7 + 3).is_some(), "page {page} was placed");
            }
        });
    }
}

/// Nor does one whose copies wait for gaps that busy clients do not leave.
#[test]
fn a_plan_that_copies_for_free_keeps_no_page_dirty_for_longer() {
    run(1, async {
        let options = Options {
            dirty_max_age: Nanos(60 * SECOND.0),
            reconfigure_class: MoveClass::Free,
            ..Options::default()
        };
        let World { borg, .. } = world(options, 1_000).await;
        for page in 0..200 {
            read(&*borg, Extent::of_pages(page * 7 + 3, 1)).await;
        }
        write_some(&borg, 0..50, 1).await;
        let (end, client) = (runtime::now() + Nanos(60 * SECOND.0), borg.clone());
        let clients = (0..4).map(|number| {
            let client = client.clone();
            runtime::spawn(async move {
                let mut page = number;
                while runtime::now() < end {
                    page = (page + 997) % 2_000;
                    read(&*client, Extent::of_pages(page, 1)).await;
                }
            })
        });
        let clients: Vec<_> = clients.collect();
        let mover = borg.clone();
        let moving = runtime::spawn(async move { mover.reconfigure_now(Account(1)).await.unwrap() });
        for client in clients {
            client.await;
        }
        assert_eq!(dirty(&borg), 0, "of a minute ago");
        moving.await;
    });
}

#[test]
fn copies_are_compared_in_idle_time_and_a_clean_stop_stays_one() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), 1_000).await;
        for page in 0..30 {
            read(&*borg, Extent::of_pages(page * 7, 1)).await;
        }
        borg.reconfigure_now(Account(1)).await.unwrap();
        borg.stop().await.unwrap();
        drop(borg);
        write(&*disk, Extent::of_pages(7, 1), 9).await;
        let open = async || {
            let (origin, bopt) = (slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 8_000));
            Borg::open_creating(origin, bopt, Options::default(), false).await.unwrap()
        };
        let borg = open().await;
        assert_eq!(borg.store.unproven(), 30);
        sleep(Nanos(40 * SECOND.0)).await;
        assert_eq!(
            (borg.store.unproven(), borg.store.mapped(), borg.origin_state.borrow().differed),
            (0, 29, 1)
        );
        let clean = open().await;
        assert_eq!(clean.store.mapped(), 29);
    });
}

#[test]
fn after_a_stop_nothing_is_done_until_a_request() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), 1_000).await;
        write_some(&borg, 0..20, 1).await;
        borg.stop().await.unwrap();
        let commands = disk.all().commands;
        sleep(Nanos(100 * SECOND.0)).await;
        assert_eq!((disk.all().commands, dirty(&borg)), (commands, 20));
        assert!(borg.store.disk().super_page.clean);
        read(&*borg, Extent::of_pages(1_000, 1)).await;
        sleep(Nanos(100 * SECOND.0)).await;
        assert_eq!(dirty(&borg), 0);
    });
}

#[test]
fn a_stop_drains_until_its_deadline() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), 1_000).await;
        write_some(&borg, 0..60, 1).await;
        borg.drain_to_stop(Nanos(60 * SECOND.0)).await.unwrap();
        borg.stop().await.unwrap();
        assert_eq!((dirty(&borg), borg.store.disk().super_page.require), (0, false));
        let at = Extent::of_pages(59 * 7, 1);
        assert_eq!(read(&*disk, at).await, stamped(at, 1).to_vec());
        // In a tenth of a second a disk moves a few; the others stay, and what is written goes on.
        write_some(&borg, 0..60, 2).await;
        borg.drain_to_stop(Nanos::from_millis(100)).await.unwrap();
        let left = dirty(&borg);
        assert!((1..60).contains(&left), "{left}");
        borg.stop().await.unwrap();
        drop(borg);
        let keep = Options { at_stop: AtStop::Keep, ..Options::default() };
        let (origin, bopt) = (slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 8_000));
        let borg = Borg::open_creating(origin, bopt, keep, false).await.unwrap();
        borg.drain_to_stop(Nanos(60 * SECOND.0)).await.unwrap();
        assert_eq!(dirty(&borg), left, "they are to be kept");
        for page in 0..60 {
            let at = Extent::of_pages(page * 7, 1);
            assert_eq!(read(&*borg, at).await, stamped(at, 2).to_vec());
        }
    });
}

/// So that either may rot.
#[test]
fn in_idle_time_both_copies_get_one_generation() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), 1_000).await;
        let once =
            |borg: &Borg| (borg.store.table().segments.not_duplicated(), borg.store.disk().supers.twice);
        assert_eq!(once(&borg), (0, false), "what is new has both copies, but for the super page");
        write_some(&borg, 0..60, 1).await;
        borg.flush(Hints::default()).await.unwrap();
        borg.store.checkpoint(&Hints::default()).await.unwrap();
        assert!(once(&borg).0 > 0);
        sleep(Nanos(40 * SECOND.0)).await;
        assert_eq!(once(&borg), (0, true));
        drop(borg);
        let (origin, bopt) = (slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 1_000 * 8));
        let again = Borg::open(origin, bopt, Options::default(), false).await.unwrap();
        assert_eq!(once(&again), (0, true), "as it is on disk");
    });
}
