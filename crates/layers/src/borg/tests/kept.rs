//! What was learned stays: over a stop, over a crash, in its area.

use seekless_core::Zeroes;

use super::*;
use crate::borg::course::Course;
use crate::borg::mover::Mover;
use crate::borg::pace::Throttle;
use crate::borg::policy::Verdict;

/// With an area of eight pages for each copy.
const PAGES: u64 = 1_024;

async fn reopen(disk: &Rc<Disk>, options: Options) -> Rc<Borg> {
    let (origin, bopt) = (slice(disk, 0, ORIGIN), slice(disk, ORIGIN, PAGES * 8));
    Borg::open_creating(origin, bopt, options, false).await.unwrap()
}

fn counter(borg: &Borg, name: &str) -> u64 {
    borg.counters().iter().find(|(known, _)| *known == name).unwrap().1
}

/// Pages that are read, in an order that a plan can keep.
async fn read_some(borg: &Borg, first: u64) {
    for page in (0..60).map(|page| first + page * 13 % 500) {
        read(borg, Extent::of_pages(page, 1)).await;
    }
}

/// Entries, and the plan.
fn placed(borg: &Borg) -> (Vec<(Slot, u64, bool)>, Plan) {
    let plan = borg.learned.borrow().saved().unwrap().last_plan;
    (borg.store.table().map.iter().collect(), plan)
}

/// How the layer ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    None,
    Stop,
    /// After what is kept in the background was written.
    Crash,
}

/// Reads, a reconfiguration, reads, an end, more reads, and a reconfiguration: what is placed then.
fn restarted(end: End, options: &Options) -> (Vec<(Slot, u64, bool)>, Plan) {
    run(1, async {
        let World { mut borg, disk } = world(options.clone(), PAGES).await;
        read_some(&borg, 0).await;
        borg.reconfigure_now(Account(1)).await.unwrap();
        sleep(Nanos::from_millis(1_000)).await;
        if end == End::Crash {
            drop(borg);
            borg = reopen(&disk, options.clone()).await;
        }
        read_some(&borg, 300).await;
        if end == End::Stop {
            borg.stop().await.unwrap();
            drop(borg);
            borg = reopen(&disk, options.clone()).await;
        }
        if end != End::None {
            assert_eq!(counter(&borg, "learned_before_was_damaged"), 0);
            assert_eq!(counter(&borg, "learned_requests_recalled"), if end == End::Stop { 120 } else { 60 });
        }
        read_some(&borg, 900).await;
        borg.reconfigure_now(Account(1)).await.unwrap();
        placed(&borg)
    })
}

#[test]
fn the_plan_after_a_restart_is_the_one_without_it() {
    for placement in [Placement::Kept, Placement::Planned] {
        for training in [Training::Cumulative, Training::Partial, Training::Decayed] {
            for full_plan_every in [1, 3] {
                let options = Options { placement, training, full_plan_every, ..Options::default() };
                let without = restarted(End::None, &options);
                assert!(without.0.len() >= 60, "something is placed");
                for end in [End::Stop, End::Crash] {
                    assert_eq!(restarted(end, &options), without, "{end:?} {options:?}");
                }
            }
        }
    }
}

#[test]
fn a_reconfiguration_at_once_leaves_what_is_placed() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), PAGES).await;
        read_some(&borg, 0).await;
        borg.reconfigure_now(Account(1)).await.unwrap();
        borg.stop().await.unwrap();
        let before = placed(&borg);
        let again = reopen(&disk, Options::default()).await;
        again.reconfigure_now(Account(1)).await.unwrap();
        assert_eq!(placed(&again), before);
        // A profile that knows all may also evict: what is no longer read goes.
        for page in 1_000..1_700 {
            for _ in 0..3 {
                read(&*again, Extent::of_pages(page, 1)).await;
            }
        }
        again.reconfigure_now(Account(1)).await.unwrap();
        assert_ne!(placed(&again).0, before.0);
    });
}

#[test]
fn a_profile_that_knows_less_than_what_is_placed_empties_nothing() {
    run(1, async {
        let World { borg, .. } = world(Options::default(), PAGES).await;
        read_some(&borg, 0).await;
        borg.reconfigure_now(Account(1)).await.unwrap();
        let before = placed(&borg).0;
        assert!(!before.is_empty());
        for verdict in [Verdict::Add, Verdict::Replace] {
            let mover = Mover::start(&borg, Account(1), Throttle::Unthrottled).await.unwrap().unwrap();
            let report = &mut Reconfigured::default();
            borg.carry_out(&mover, Course::OFF, None, verdict, report).await.unwrap();
            let after = placed(&borg).0;
            assert_eq!(after, if verdict == Verdict::Add { before.clone() } else { Vec::new() });
        }
    });
}

#[test]
fn reads_alone_are_kept_at_a_stop_and_nothing_twice() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), PAGES).await;
        borg.stop().await.unwrap();
        let borg = reopen(&disk, Options::default()).await;
        read_some(&borg, 0).await;
        borg.stop().await.unwrap();
        let written = disk.all().blocks_written;
        let borg = reopen(&disk, Options::default()).await;
        assert_eq!(counter(&borg, "learned_requests_recalled"), 60);
        borg.stop().await.unwrap();
        assert_eq!(disk.all().blocks_written, written, "nothing was learned");
    });
}

#[test]
fn what_is_damaged_is_learned_anew() {
    for copies in [vec![0], vec![1], vec![0, 1]] {
        run(1, async {
            let World { borg, disk } = world(Options::default(), PAGES).await;
            for round in 0..2 {
                read_some(&borg, 100 * round).await;
                borg.reconfigure_now(Account(1)).await.unwrap();
                sleep(Nanos::from_millis(1_000)).await;
            }
            let area = borg.store.disk().super_page.learned.unwrap();
            drop(borg);
            for copy in &copies {
                let at = Extent::of_pages(ORIGIN / 8 + area.first + copy * area.pages / 2, 1);
                let bytes = disk.read(at, Buffer::zeroed(4096), Hints::default()).await.unwrap();
                bytes.put(40, &[0x55, 0xaa]);
                disk.write(at, bytes, Hints::default()).await.unwrap();
            }
            let again = reopen(&disk, Options::default()).await;
            let known = counter(&again, "learned_requests_recalled");
            assert_eq!(counter(&again, "learned_before_was_damaged"), u64::from(copies.len() == 2));
            match copies[..] {
                [_, _] => assert_eq!(known, 0),
                _ => assert!(known == 60 || known == 120, "{known}"),
            }
            // It writes over what was damaged, and is whole again.
            read_some(&again, 500).await;
            again.stop().await.unwrap();
            let third = reopen(&disk, Options::default()).await;
            assert_eq!(counter(&third, "learned_before_was_damaged"), 0);
            assert_eq!(counter(&third, "learned_requests_recalled"), known + 60);
        });
    }
}

/// Of two interrupted writes of one generation, some sectors of each may be on disk.
#[test]
fn a_mixture_of_two_writes_does_not_count() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), PAGES).await;
        let how = Hints::default();
        let area = borg.store.disk().super_page.learned.unwrap();
        let second = Extent::of_pages(ORIGIN / 8 + area.first + area.pages / 2, 1);
        let first = [1; 1_000];
        borg.store.write_learned(&[2; 1_000], &how).await.unwrap();
        let before = disk.read(second, Buffer::zeroed(4096), how.clone()).await.unwrap().to_vec();
        // As if that write had been interrupted: the next one has its generation.
        let borg = {
            let zeroes = Buffer::zeroed(4096);
            disk.write(second, zeroes, how.clone()).await.unwrap();
            drop(borg);
            reopen(&disk, Options::default()).await
        };
        borg.store.write_learned(&first, &how).await.unwrap();
        let mixed = disk.read(second, Buffer::zeroed(4096), how.clone()).await.unwrap();
        mixed.put(512, &before[512..1_024]);
        disk.write(second, mixed, how).await.unwrap();
        let again = reopen(&disk, Options::default()).await;
        assert_eq!(counter(&again, "learned_requests_recalled"), 0);
        assert_eq!(counter(&again, "learned_before_was_damaged"), 1);
    });
}

/// A program that knows no area writes super pages without one. The next session takes it, if its segments are free.
#[test]
fn one_of_before_gets_an_area_where_its_log_is_free() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), PAGES).await;
        let how = Hints::default();
        let area = borg.store.disk().super_page.learned.unwrap();
        let room = borg.store.room();
        borg.store.change_super(|page| page.learned = None, &how).await.unwrap();
        assert_eq!(read(&*disk, Extent::of_pages(ORIGIN / 8, 1)).await[120..136], [0; 16]);
        drop(borg);
        let borg = reopen(&disk, Options::default()).await;
        assert_eq!((borg.store.room(), counter(&borg, "learned_room_bytes")), (room + area.pages, 0));
        read_some(&borg, 0).await;
        write(&*borg, Extent::of_pages(7, 1), 1).await;
        assert_eq!(borg.store.disk().super_page.learned, Some(area));
        borg.stop().await.unwrap();
        let borg = reopen(&disk, Options::default()).await;
        assert_eq!(counter(&borg, "learned_requests_recalled"), 61);
        // What was learned before an older program came counts again, and the next state is newer.
        borg.store.change_super(|page| page.learned = None, &how).await.unwrap();
        drop(borg);
        let borg = reopen(&disk, Options::default()).await;
        write(&*borg, Extent::of_pages(8, 1), 1).await;
        borg.stop().await.unwrap();
        let borg = reopen(&disk, Options::default()).await;
        assert_eq!(counter(&borg, "learned_requests_recalled"), 1, "the newest counts");
        assert_eq!(read(&*borg, Extent::of_pages(8, 1)).await, stamped(Extent::of_pages(8, 1), 1).to_vec());
    });
}

/// The log is filled up to the area, and not further.
#[test]
fn a_full_log_ends_before_the_area() {
    run(1, async {
        let options = Options { drain_below: 0.0, write_buffer: 0.9, ..Options::default() };
        let World { borg, disk } = world(options.clone(), PAGES).await;
        let area = borg.store.disk().super_page.learned.unwrap();
        let mut borg = borg;
        let mut held = Vec::new();
        for page in 0..ORIGIN / 8 {
            let at = Extent::of_pages(page, 1);
            write(&*borg, at, 5).await;
            held.push(at);
        }
        borg.flush(Hints::default()).await.unwrap();
        assert!(borg.store.room() < 40, "{}", borg.store.room());
        assert_eq!(borg.store.disk().super_page.learned, Some(area), "and the area is none of the log's");
        borg.stop().await.unwrap();
        drop(borg);
        borg = reopen(&disk, options).await;
        for at in held {
            assert_eq!(read(&*borg, at).await, stamped(at, 5).to_vec());
        }
    });
}

/// As in the staging area of `proximal`: no plan places a page there.
#[test]
fn without_a_read_cache_there_is_no_area() {
    run(1, async {
        let World { borg, .. } = world(Options { write_buffer: 1.0, ..Options::default() }, PAGES).await;
        write(&*borg, Extent::of_pages(0, 1), 1).await;
        borg.stop().await.unwrap();
        assert_eq!((borg.store.disk().super_page.learned, counter(&borg, "learned_room_bytes")), (None, 0));
    });
}

/// What is written in the background does not reach a BOPT that was given up.
#[test]
fn nothing_is_written_after_a_detach() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), PAGES).await;
        read_some(&borg, 0).await;
        borg.keep_soon();
        borg.detach().await.unwrap();
        let written = disk.all().blocks_written;
        read_some(&borg, 0).await;
        borg.keep_soon();
        sleep(Nanos::from_millis(5_000)).await;
        borg.stop().await.unwrap();
        assert_eq!(disk.all().blocks_written, written);
    });
}

/// A device of which one write fails.
struct FailsOnce {
    below: Rc<dyn BlockDevice>,
    /// Writes until then, with the one that fails; 0 when it has failed.
    left: Cell<u32>,
}

impl BlockDevice for FailsOnce {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        if left == 1 {
            return io(async move { Err(IoError::new(ErrorKind::Medium, "once", Some(at), "it fails")) });
        }
        self.below.write(at, from, how)
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.below.write_zeroes(at, how, zeroes)
    }
}

#[test]
fn the_area_is_made_though_a_write_failed_before() {
    for fails in 1.. {
        let failed = run(1, async {
            let disk = disk();
            let bopt = FailsOnce { below: slice(&disk, ORIGIN, PAGES * 8), left: Cell::new(fails) };
            let bopt = Rc::new(bopt);
            let origin = slice(&disk, 0, ORIGIN);
            let borg = Borg::open_creating(origin, bopt.clone(), Options::default(), false).await.unwrap();
            while borg.store.begin_mapping(&Hints::default()).await.is_err() {}
            assert!(borg.store.learned_room() > 0, "write {fails} failed");
            bopt.left.get() == 0
        });
        if !failed {
            assert!(fails > 3, "formatting writes more");
            return;
        }
    }
}
