//! Exploration of the file component: clients issue random requests, power is cut wherever something changes, and the
//! file's content is then checked against the completed requests.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rustix::fs::FallocateFlags;
use seekless_core::runtime::{Rng, Runtime, spawn};
use seekless_core::{Buffer, Op, PAGE_BYTES, Top};
use seekless_lab::check::{self, Registers, Stamping};
use seekless_lab::explore::choose::Choices;
use seekless_lab::explore::conditions::{Conditions, Faults};
use seekless_lab::explore::image::Image;
use seekless_lab::explore::log::{Event, Log, Shared};
use seekless_lab::explore::power::Power;
use seekless_lab::explore::script::{self, Step};
use seekless_lab::workload;
use seekless_volume::tree::Tree;

use super::shim::{Disk, FaultCounts};
use super::*;

/// Sectors of the file: few, so that requests overlap.
const SECTORS: u64 = 256;
/// Requests of a run.
const REQUESTS: u64 = 250;
/// Runs, unless `SEEKLESS_RUNS` sets another number.
const RUNS: u64 = 40;
/// Crash states examined at each change.
const EACH: usize = 2;

/// A file component on this disk.
fn component(disk: Disk) -> (Rc<RefCell<Disk>>, Rc<Reactor>, Rc<FileComponent>) {
    let (cached, block) = (disk.cached, disk.block);
    let disk = Rc::new(RefCell::new(disk));
    let reactor = Reactor::over(disk.clone());
    let file = tempfile::tempfile().unwrap();
    file.set_len(SECTORS * SECTOR_BYTES).unwrap();
    let probe = FileProbe {
        path: PathBuf::from("disk.img"),
        sectors: SECTORS,
        logical_bytes: block,
        direct: !cached,
        read_only: false,
        physical_bytes: PAGE_BYTES,
        rotational: false,
    };
    let component = Rc::new(FileComponent::new(&reactor, "disk", Opened { file, probe }));
    (disk, reactor, component)
}

/// A component that never gets overlapping requests at once: no kernel defines their outcome.
struct Ordered {
    over: Rc<FileComponent>,
    locks: RangeLocks,
}

impl BlockDevice for Ordered {
    fn geometry(&self) -> Geometry {
        self.over.geometry()
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let _held = self.locks.exclusive(at, &how).await;
            self.over.read(at, into, how).await
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let _held = self.locks.exclusive(at, &how).await;
            self.over.write(at, from, how).await
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.over.flush(how)
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let _held = self.locks.exclusive(at, &how).await;
            self.over.discard(at, how).await
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            let _held = self.locks.exclusive(at, &how).await;
            self.over.write_zeroes(at, how, zeroes).await
        })
    }
}

/// One run with conditions drawn from a seed: its log, and how often each fault occurred.
fn run(seed: u64) -> (Log, FaultCounts) {
    let mut rng = Rng::seeded(seed);
    // Half of the runs have faults, each kind in half of those.
    let some = rng.chance(1, 2);
    let mut fault = |most: u64| if some && rng.chance(1, 2) { most << rng.below(4) } else { 0 };
    let faults = Faults { reads: fault(16), writes: fault(16), flushes: fault(4), together: false };
    let drawn = Conditions::drawn(seed, 1, None);
    let log = Shared::default();
    let mut disk = Disk::new(SECTORS, Conditions { faults, ..drawn }, log.clone());
    disk.short = [0, 4, 16][rng.below(3) as usize];
    disk.cached = rng.chance(1, 2);
    // Without the page cache, blocks may be larger than sectors.
    disk.block = if !disk.cached && rng.chance(1, 2) { PAGE_BYTES } else { SECTOR_BYTES };
    let block = disk.block / SECTOR_BYTES;
    let ways =
        [FallocateFlags::empty(), FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE, disk.allocates];
    disk.allocates = ways[rng.below(4) as usize];
    let (disk, reactor, component) = component(disk);
    let area = [8, 32, 128][rng.below(3) as usize];
    let load = format!("churn:size=8KiB,reads=20%,flushes=12%,fua=15%,discards=8%,zeroes=12%,area={area}KiB");
    let load = workload::parse(&load).unwrap();
    let requests = script::of_workload(&load, SECTORS, seed, REQUESTS).unwrap();
    let durable = |mut request: script::Request| {
        let Extent { start: Lba(start), sectors } = request.at;
        let (first, end) = (start / block * block, (start + sectors).next_multiple_of(block));
        request.at = Extent::new(first, end - first);
        request.fua |= request.op == Op::WriteZeroes && rng.chance(1, 3);
        Step::Ask(request)
    };
    let steps: Rc<[Step]> = requests.into_iter().map(durable).collect();
    let ordered = Ordered { over: component, locks: RangeLocks::new() };
    let top = Rc::new(Top::new(Rc::new(ordered)));
    let tree = Tree { name: "disk".to_owned(), top, topmost: None, layers: BTreeMap::new() };
    let all = script::carry_out(steps, 1, drawn, &tree, Stamping::Unlike, log.clone());
    Runtime::new(seed).run_live(all, &*reactor).unwrap();
    drop(tree);
    let faults = disk.borrow().faults;
    (log.take(), faults)
}

/// Replays a run and cuts power at every change; the number of states checked.
fn judged(log: &Log, seed: u64) -> Result<u64, String> {
    let mut rng = Rng::seeded(!seed);
    let (mut power, mut registers) = (Power::new(vec![Image::new(SECTORS)]), Registers::new());
    let (whole, mut states) = (Extent::new(0, SECTORS), 0);
    for event in &log.events {
        if let Event::Client(event) = event {
            registers.event(event).map_err(|violation| violation.to_string())?;
        }
        let less = !registers.narrowed().is_empty();
        if !power.follow(log, event) && !less {
            continue;
        }
        let choices = Choices::new(&power.pending, log, rng.bits());
        let skipped = rng.below(choices.systematic() as u64 + 1) as usize;
        for survivors in
            choices.take(1).chain(Choices::new(&power.pending, log, rng.bits()).skip(skipped).take(EACH - 1))
        {
            let buffer = Buffer::zeroed(whole.bytes());
            power.cut(log, &survivors)[0].read(whole, &buffer);
            let mut violation = None;
            check::classify(&buffer, |sector, found| {
                if let Err(error) = registers.after_crash(sector, found) {
                    violation.get_or_insert(error);
                }
            });
            if let Some(violation) = violation {
                return Err(violation.to_string());
            }
            states += 1;
        }
    }
    Ok(states)
}

/// Activates the bug that `SEEKLESS_MUTANT` names, in a build that has some.
fn let_loose() {
    #[cfg(feature = "mutants")]
    if let Ok(name) = std::env::var("SEEKLESS_MUTANT") {
        // Another test may have set it.
        let _ = mutant::choose(name);
    }
}

#[test]
fn what_a_file_acknowledged_as_durable_is_in_it_after_power_cuts() {
    let_loose();
    let runs = std::env::var("SEEKLESS_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    let (mut states, mut all) = (0, FaultCounts::default());
    for seed in 1..=runs {
        let (log, faults) = run(seed);
        states += judged(&log, seed).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        all = FaultCounts {
            shorter: all.shorter + faults.shorter,
            failed: all.failed + faults.failed,
            flushes_failed: all.flushes_failed + faults.flushes_failed,
            write_through: all.write_through + faults.write_through,
            refused: all.refused + faults.refused,
        };
    }
    println!("{runs} runs, {states} states, {all:?}");
    let rare = [all.shorter, all.failed, all.flushes_failed, all.write_through, all.refused];
    assert!(rare.iter().all(|times| *times > runs / 8), "{all:?}");
}

#[test]
fn a_failed_flush_is_reported_to_every_caller_and_to_later_ones() {
    for cached in [false, true] {
        let conditions =
            Conditions { faults: Faults { flushes: 1, ..Faults::default() }, ..Conditions::usual(1, 3) };
        let mut disk = Disk::new(SECTORS, conditions, Shared::default());
        disk.cached = cached;
        let (disk, reactor, component) = component(disk);
        let flush = |component: &Rc<FileComponent>| {
            let component = component.clone();
            spawn(async move { component.flush(Hints::default()).await.is_err() })
        };
        let flushed = async {
            let at = Extent::new(0, 8);
            component.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
            let first: Vec<_> = (0..3).map(|_| flush(&component)).collect();
            let mut flushed = Vec::new();
            for flush in first {
                flushed.push(flush.await);
            }
            disk.borrow_mut().conditions.faults = Faults::default();
            flushed.push(flush(&component).await);
            flushed
        };
        assert_eq!(Runtime::new(1).run_live(flushed, &*reactor), Ok(vec![true; 4]));
    }
}
