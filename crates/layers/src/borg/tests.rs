//! BORG over a simulated disk with real bytes.

mod copy_on_read;
mod crashes;
mod eager;
mod emptied;
mod failed_writes;
mod fallback;
mod flips;
mod forks;
mod idle;
mod kept;
mod model;
mod orders;
mod origin;
mod pace;
mod repaired;
mod restarts;
mod return_on_read;
mod rules;
mod verified;
mod versions;

use std::cell::Cell;
use std::collections::BTreeMap;

use seekless_core::runtime::{Runtime, sleep, spawn};
use seekless_core::{Mode, Op, PAGE_SECTORS, Slice};
use seekless_drive::{Disk, QueueOptions, Simulated, spec};

use super::*;
use crate::fault::{Act, Fault, Faulty};
use crate::units::Bytes;

const ORIGIN: u64 = 8 * 2_000;

struct World {
    borg: Rc<Borg>,
    disk: Rc<Disk>,
}

fn disk() -> Rc<Disk> {
    Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()))
}

fn slice(disk: &Rc<Disk>, start: u64, sectors: u64) -> Rc<Slice> {
    Rc::new(Slice::new(disk.clone(), Extent::new(start, sectors)).unwrap())
}

async fn world(options: Options, bopt_pages: u64) -> World {
    let disk = disk();
    let (origin, bopt) = (slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, bopt_pages * 8));
    World { borg: formatted(origin, bopt, options).await, disk }
}

/// BORG on a BOPT that is formatted, also if it was blank: else the first writes would go to the origin.
async fn formatted(origin: Rc<dyn BlockDevice>, bopt: Rc<dyn BlockDevice>, options: Options) -> Rc<Borg> {
    let borg = Borg::open_creating(origin, bopt, options, false).await.unwrap();
    if borg.store.is_new() {
        borg.store.begin_mapping(&Hints::default()).await.unwrap();
    }
    borg
}

/// As in the paper.
fn in_place() -> Options {
    Options { overwrite: Overwrite::InPlace, ..Options::default() }
}

fn run<T>(seed: u64, work: impl Future<Output = T>) -> T {
    Runtime::new(seed).run(work).unwrap()
}

/// 512 bytes that say which sector they are and of which version.
fn stamp(sector: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..8].copy_from_slice(&sector.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes
}

fn stamped(at: Extent, version: u64) -> Buffer {
    Buffer::from_vec((at.start.0..at.end().0).flat_map(|sector| stamp(sector, version)).collect())
}

async fn write(device: &dyn BlockDevice, at: Extent, version: u64) {
    device.write(at, stamped(at, version), Hints::default()).await.unwrap();
}

async fn read(device: &dyn BlockDevice, at: Extent) -> Vec<u8> {
    device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap().to_vec()
}

/// What a test does to a device, and sees of it.
#[derive(Default)]
struct Rig {
    /// All writes fail.
    fails: Cell<bool>,
    /// The next write to this page fails.
    fails_at: Cell<Option<u64>>,
    /// Sectors written since the last flush.
    unflushed: Cell<u64>,
    /// What was asked for.
    seen: RefCell<Vec<(Op, Extent)>>,
}

impl Fault for Rc<Rig> {
    fn meet(&self, op: Op, at: Extent, _: u64) -> Act {
        self.seen.borrow_mut().push((op, at));
        match op {
            Op::Flush => self.unflushed.set(0),
            Op::Write => {
                let here = self.fails_at.get().is_some_and(|page| at.pages().contains(&page));
                if here || self.fails.get() {
                    self.fails_at.set(None);
                    return Act::Fail(IoError::new(ErrorKind::Medium, "test", Some(at), "made to fail"));
                }
                self.unflushed.set(self.unflushed.get() + at.sectors);
            }
            _ => {}
        }
        Act::Pass
    }

    fn geometry(&self, below: Geometry) -> Geometry {
        Geometry { volatile_cache: true, ..below }
    }
}

/// A device and what can be done to it.
fn rigged(below: Rc<dyn BlockDevice>) -> (Rc<dyn BlockDevice>, Rc<Rig>) {
    let rig = Rc::<Rig>::default();
    (Rc::new(Faulty::new(below, rig.clone())), rig)
}

#[test]
fn no_write_waits_for_a_bopt_to_be_formatted() {
    run(1, async {
        // 2 GiB.
        let (disk, sectors) = (disk(), 1 << 22);
        let (origin, bopt) = (slice(&disk, 0, sectors), slice(&disk, sectors, sectors));
        let borg = Borg::open_creating(origin.clone(), bopt, Options::default(), false).await.unwrap();
        let (mut longest, mut absorbed_after) = (Nanos::ZERO, None);
        for page in 0..200 {
            let (at, begin) = (Extent::of_pages(page * 7, 1), runtime::now());
            write(&*borg, at, 1).await;
            longest = longest.max(runtime::now().since(begin));
            sleep(Nanos::from_millis(10)).await;
            if borg.store.mapped() > 0 {
                absorbed_after.get_or_insert(page);
            }
        }
        assert!(longest < Nanos::from_millis(60), "{longest}");
        assert!(absorbed_after.is_some_and(|page| page > 0), "{absorbed_after:?}");
        assert_eq!(read(&*origin, Extent::of_pages(0, 1)).await, stamped(Extent::of_pages(0, 1), 1).to_vec());
        borg.stop().await.unwrap();
        for page in 0..200 {
            let at = Extent::of_pages(page * 7, 1);
            assert_eq!(read(&*borg, at).await, stamped(at, 1).to_vec(), "page {page}");
        }
    });
}

#[test]
fn with_a_full_write_buffer_writes_go_to_the_origin() {
    run(1, async {
        let World { borg, .. } =
            world(Options { write_buffer: 1.0, drain_below: 0.0, ..Options::default() }, 20).await;
        for page in 0..40 {
            write(&*borg, Extent::of_pages(page * 3, 1), 1).await;
            borg.flush(Hints::default()).await.unwrap();
        }
        let counters: BTreeMap<_, _> = borg.counters().into_iter().collect();
        // Three segments of four pages.
        assert_eq!((counters["write_buffer_free"], counters["pages_mapped"]), (0, 6), "a page and its run's");
    });
}

#[test]
fn pages_beyond_16_tib_are_absorbed_and_found() {
    run(1, async {
        let drive = spec::find("seagate-exos-x20-20tb").unwrap();
        let disk = Rc::new(Disk::new(0, &drive, QueueOptions::default()));
        let sectors = disk.geometry().sectors;
        let (origin, bopt) = (slice(&disk, 0, sectors - 8_000), slice(&disk, sectors - 8_000, 8_000));
        let borg = formatted(origin, bopt, Options::default()).await;
        // Of each pair the lower 32 bits of the page are the same.
        let pages = [5, (1 << 32) + 5, 77_000_000, (1 << 32) + 77_000_000, sectors / 8 - 1_001];
        for (page, version) in pages.into_iter().zip(1..) {
            write(&*borg, Extent::of_pages(page, 1), version).await;
        }
        assert_eq!(borg.store.mapped(), pages.len());
        for round in 0..2 {
            for (page, version) in pages.into_iter().zip(1..) {
                let at = Extent::of_pages(page, 1);
                assert_eq!(
                    read(&*borg, at).await,
                    stamped(at, version).to_vec(),
                    "page {page}, round {round}"
                );
            }
            borg.drain_all(Account(0)).await.unwrap();
            assert_eq!(borg.store.dirty(), 0);
        }
    });
}

#[test]
fn pages_beyond_16_tib_are_planned() {
    run(1, async {
        let drive = spec::find("seagate-exos-x20-20tb").unwrap();
        let disk = Rc::new(Disk::new(0, &drive, QueueOptions::default()));
        let sectors = disk.geometry().sectors - 8_000;
        let (origin, bopt) = (slice(&disk, 0, sectors), slice(&disk, sectors, 8_000));
        let borg = formatted(origin, bopt, Options::default()).await;
        let pages = [(1 << 32) + 5, 77_000_000, (1 << 32) + 77_000_011, sectors / 8 - 1];
        for page in pages.into_iter().chain(pages) {
            read(&*borg, Extent::of_pages(page, 1)).await;
        }
        let report = borg.reconfigure_now(Account(1)).await.unwrap();
        assert_eq!(report.planned_pages, 8, "each with the other of its pair");
        let mut mapped: Vec<u64> = borg.store.table().map.iter().map(|(_, page, _)| page).collect();
        mapped.sort_unstable();
        let mut pairs: Vec<u64> = pages.into_iter().flat_map(|page| [page & !1, page | 1]).collect();
        pairs.sort_unstable();
        pairs.retain(|page| *page < sectors.div_ceil(8));
        assert_eq!(mapped, pairs);
    });
}

#[test]
fn what_repeats_is_served_from_the_bopt_after_a_reconfiguration() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), 1_000).await;
        let scattered: Vec<Extent> = (0..50).map(|i| Extent::of_pages(i * 37 % 50 * 39, 1)).collect();
        let play = async |account| {
            for at in &scattered {
                let how = Hints { account: Account(account), ..Hints::default() };
                borg.read(*at, Buffer::hollow_sectors(8), how).await.unwrap();
            }
        };
        play(0).await;
        let report = borg.reconfigure_now(Account(1)).await.unwrap();
        assert_eq!(report.planned_pages, 50);
        let stages: Vec<_> = report.stages.iter().map(|stage| (stage.name, stage.pages)).collect();
        let expected = [("analyse", 50), ("plan", 50), ("outgoing", 0), ("relocate", 0), ("incoming", 50)];
        assert_eq!(stages, expected);
        play(2).await;
        let hits =
            |account| (borg.traffic_of(Account(account)).pages, borg.traffic_of(Account(account)).hits);
        assert_eq!((hits(0), hits(2)), ((50, 0), (50, 50)));
        let (before, after) = (disk.account(Account(0)).busy(), disk.account(Account(2)).busy());
        assert!(after.0 * 5 < before.0, "{after} against {before}");
        let both =
            futures_util::future::join(borg.reconfigure_now(Account(1)), borg.reconfigure_now(Account(1)))
                .await;
        assert!(both.0.is_ok() && both.1.is_ok(), "the second waits for the first");
    });
}

#[test]
fn both_sides_of_the_indirector_are_counted() {
    run(1, async {
        let World { borg, .. } = world(Options { drain_below: 0.0, ..Options::default() }, 1_000).await;
        for page in 0..20 {
            write(&*borg, Extent::of_pages(1_900 - page * 90, 1), 1).await;
        }
        let traffic = borg.traffic_of(Account(0));
        assert_eq!(
            (traffic.above.requests, traffic.above.seeks, traffic.above.blocks_written),
            (20, 19, 160)
        );
        assert_eq!(traffic.above.distance_blocks, 19 * 91 * PAGE_SECTORS);
        assert_eq!((traffic.pages, traffic.hits, traffic.absorbed, traffic.splits), (20, 20, 20, 0));
        assert!(traffic.below.distance_blocks * 2 < traffic.above.distance_blocks, "{:?}", traffic.below);
        read(&*borg, Extent::of_pages(1_899, 3)).await;
        let traffic = borg.traffic_of(Account(0));
        assert_eq!((traffic.splits, traffic.pages, traffic.hits, traffic.below.blocks_read), (1, 23, 21, 24));
        assert_eq!(traffic.background, Traffic::default());
        borg.drain_all(Account(1)).await.unwrap();
        let (foreground, mover) = (borg.traffic_of(Account(0)), borg.traffic_of(Account(1)));
        assert_eq!((mover.drained, mover.above, mover.below), (20, Traffic::default(), Traffic::default()));
        assert_eq!((mover.background.blocks_read, foreground.drained), (160, 0));
        assert!(mover.background.blocks_written >= 160);
    });
}

#[test]
fn volumes_and_options_that_make_no_sense_are_refused() {
    run(1, async {
        let disk = disk();
        let refused = async |bopt_sectors, options| {
            let (origin, bopt) = (slice(&disk, 0, ORIGIN), slice(&disk, 0, bopt_sectors));
            let opened = Borg::open_creating(origin, bopt, options, false).await;
            opened.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let with = |write_buffer| Options { write_buffer, ..Options::default() };
        assert!(refused(8, with(0.4)).await.contains("found a BOPT of 1 pages"));
        assert!(refused(8_000, with(1.5)).await.contains("write_buffer: found 1.5, expected 0 to 1"));
        assert_eq!(refused(8_000, with(0.4)).await, "");
        let never = Options { full_plan_every: 0, ..Options::default() };
        assert!(refused(8_000, never).await.contains("full_plan_every: found 0, expected at least 1"));
        let large = Options { segment: crate::units::Bytes(4 << 20), ..Options::default() };
        assert!(refused(8_000, large).await.contains("segment: found 4194304 bytes, expected 16KiB to 2MiB"));
    });
}

/// What a second reconfiguration plans of pages that were read three times, once, and since the first.
#[test]
fn a_training_window_holds_what_its_name_says() {
    let planned = |training| {
        run(1, async move {
            let World { borg, .. } = world(Options { training, ..Options::default() }, 1_000).await;
            let read_all = async |pages: std::ops::Range<u64>| {
                for page in pages {
                    read(&*borg, Extent::of_pages(page * 3, 1)).await;
                }
            };
            for _ in 0..3 {
                read_all(0..100).await;
            }
            read_all(100..110).await;
            assert_eq!(borg.reconfigure_now(Account(1)).await.unwrap().planned_pages, 110);
            read_all(200..201).await;
            let planned = borg.reconfigure_now(Account(1)).await.unwrap().planned_pages;
            (planned, borg.store.cached())
        })
    };
    assert_eq!(planned(Training::Cumulative), (111, 111));
    assert_eq!(planned(Training::Decayed), (101, 111), "what is known less well than before stays");
    assert_eq!(planned(Training::Partial), (1, 1), "pages that were not used in the last interval leave");
}

#[test]
fn a_plan_that_is_extended_keeps_what_it_had() {
    run(1, async {
        let World { borg, .. } = world(Options { full_plan_every: 3, ..Options::default() }, 1_000).await;
        let mut planned = Vec::new();
        for round in 0..4 {
            for page in [0, 3, 7, 5] {
                read(&*borg, Extent::of_pages(round * 100 + page, 1)).await;
            }
            let report = borg.reconfigure_now(Account(1)).await.unwrap();
            planned.push((report.vertices, report.planned_pages));
        }
        assert_eq!(planned, [(4, 4), (4, 8), (4, 12), (16, 16)], "the fourth is of all again");
    });
}

#[test]
fn a_profile_without_memory_plans_the_same() {
    let planned = |bytes| {
        let profile_memory = crate::units::Bytes(bytes);
        run(1, async move {
            let World { borg, .. } = world(Options { profile_memory, ..Options::default() }, 1_000).await;
            for step in 0..600 {
                read(&*borg, Extent::of_pages(step * step * 7 % 1_000, 1 + step % 3)).await;
            }
            let report = borg.reconfigure_now(Account(1)).await.unwrap();
            let copies: Vec<_> = borg.store.table().map.iter().collect();
            (report.vertices, report.edges, copies)
        })
    };
    assert_eq!(planned(0), planned(64 << 20));
}

#[test]
fn a_reconfiguration_that_fails_loses_neither_data_nor_room() {
    run(1, async {
        let disk = disk();
        let (origin, rig) = rigged(slice(&disk, 0, ORIGIN));
        let options = Options { write_buffer: 1.0, drain_below: 0.0, ..Options::default() };
        let borg = formatted(origin, slice(&disk, ORIGIN, 42 * 8), options).await;
        for round in 1..5 {
            let pages = || (0..15).map(|page| Extent::of_pages(page * 3, 1));
            for at in pages() {
                write(&*borg, at, round).await;
            }
            rig.fails.set(true);
            let error = borg.drain_all(Account(1)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Medium);
            // Half of the log is to be emptied, which fails too, if half of it is not free.
            drop(borg.reconfigure_now(Account(1)).await);
            rig.fails.set(false);
            for at in pages() {
                assert_eq!(read(&*borg, at).await, stamped(at, round).to_vec());
            }
            borg.drain_all(Account(1)).await.unwrap();
            borg.reconfigure_now(Account(1)).await.unwrap();
            let free = borg.store.room();
            assert!(free > 20, "round {round}: {free} of 24 are free");
        }
    });
}

#[test]
fn draining_waits_for_a_page_that_is_being_written() {
    run(1, async {
        let World { borg, .. } = world(Options::default(), 500).await;
        let at = Extent::of_pages(7, 1);
        write(&*borg, at, 1).await;
        let writing = {
            let borg = borg.clone();
            spawn(async move { write(&*borg, at, 2).await })
        };
        // The write has locked its page.
        sleep(Nanos::from_micros(1)).await;
        borg.drain_all(Account(1)).await.unwrap();
        assert_eq!(borg.dirty(), 0);
        writing.await;
        assert_eq!(read(&*borg, at).await, stamped(at, 2).to_vec());
    });
}

#[test]
fn detaching_leaves_nothing_in_the_bopt() {
    run(1, async {
        let World { borg, .. } = world(Options::default(), 500).await;
        for page in 0..50 {
            write(&*borg, Extent::of_pages(page * 7, 1), 1).await;
            read(&*borg, Extent::of_pages(page * 11 + 1, 1)).await;
        }
        let mover = spawn({
            let borg = borg.clone();
            async move { borg.reconfigure_now(Account(1)).await }
        });
        sleep(Nanos(1)).await;
        borg.detach().await.unwrap();
        assert!(mover.is_finished(), "it waited for the one under way");
        let counters: BTreeMap<_, _> = borg.counters().into_iter().collect();
        assert_eq!((counters["pages_mapped"], counters["pages_dirty"]), (0, 0));
    });
}
