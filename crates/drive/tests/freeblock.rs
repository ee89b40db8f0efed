//! Free work on simulated drives: the foreground is unaffected, tasks get every block once, requests of class `Free`
//! are served, promoted and aborted, and invalid input is an error.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::Lcg;
use seekless_core::runtime::{self, Event, Runtime};
use seekless_core::{Buffer, Class, ErrorKind, Extent, Hints, Nanos, Ticket};
use seekless_drive::freeblock::{FreeError, FreeOptions, FreePolicy, Freeblock};
use seekless_drive::scheduler::Policy;
use seekless_drive::spec::{Model, Spec, find, shipped};
use seekless_drive::{QueueOptions, Simulated, simulated};

/// The foreground's view: every request and every answer with its time.
type Schedule = Vec<(Nanos, bool, u64)>;

struct Busy {
    policy: Policy,
    free: Option<FreeOptions>,
    clients: u64,
    requests: u64,
    sequential: bool,
}

async fn client(drive: Rc<dyn Simulated>, mut random: Lcg, requests: u64, sequential: bool) {
    let sectors = drive.geometry().sectors;
    let mut last = 0;
    for _ in 0..requests {
        let length = [8, 8, 16, 256][random.below(4) as usize];
        let anywhere = !sequential || random.below(4) == 0;
        let start = if anywhere || last + length > sectors { random.below(sectors - length) } else { last };
        last = start + length;
        let (at, how) = (Extent::new(start, length), Hints { fua: random.below(8) == 0, ..Hints::default() });
        match random.below(12) {
            0 => drive.flush(how).await.unwrap(),
            1..=3 => drive.write(at, Buffer::hollow_sectors(length), how).await.unwrap(),
            _ => drop(drive.read(at, Buffer::hollow_sectors(length), how).await.unwrap()),
        }
        runtime::sleep(Nanos(random.below(12_000_000))).await;
    }
}

/// Runs a foreground, with free work if there are options for it: the schedule, and the free bytes.
fn run(model: &Model, busy: &Busy) -> (Schedule, u64) {
    let runtime = Runtime::new(1);
    let seen = Rc::new(RefCell::new((Schedule::new(), Vec::new())));
    let sink = seen.clone();
    runtime.watch_events(move |now, event| {
        let (schedule, free) = &mut *sink.borrow_mut();
        match *event {
            Event::Request { id, class: Class::Free, .. } => free.push(id),
            Event::Request { extent, .. } => schedule.push((now, false, extent.start.0)),
            Event::Complete { id, .. } if !free.contains(&id) => schedule.push((now, true, 0)),
            _ => {}
        }
    });
    let queue = QueueOptions { policy: busy.policy, freeblock: busy.free, ..QueueOptions::default() };
    let stats = runtime.run(async {
        let drive = simulated(0, model, queue);
        let arms = drive.freeblock();
        let mut tasks = Vec::new();
        for arm in &arms {
            let task = arm.reader(8).unwrap();
            let sectors = drive.geometry().sectors / arms.len() as u64;
            // A part in the middle, and the outer edge.
            let part = (sectors / 50).min(400_000) / 8 * 8;
            task.read(Extent::new(sectors / 2 / 8 * 8, part)).unwrap();
            task.read(Extent::new(0, part)).unwrap();
            tasks.push(runtime::spawn(async move { while task.next().await.is_some() {} }));
        }
        let writers: Vec<_> = (0..if busy.free.is_some() { 16 } else { 0 })
            .map(|number: u64| {
                let drive = drive.clone();
                runtime::spawn(async move {
                    let at = Extent::new(1_000 + number * 1_000, 300);
                    let how = Hints { class: Class::Free, ..Hints::default() };
                    drop(drive.write(at, Buffer::hollow_sectors(300), how).await);
                })
            })
            .collect();
        let clients: Vec<_> = (0..busy.clients)
            .map(|number| {
                runtime::spawn(client(drive.clone(), Lcg(number + 1), busy.requests, busy.sequential))
            })
            .collect();
        for client in clients {
            client.await;
        }
        drop((tasks, writers));
        arms.iter().map(|arm| arm.stats().bytes + arm.stats().foreground_bytes).sum::<u64>()
    });
    let schedule = std::mem::take(&mut seen.borrow_mut().0);
    (schedule, stats.unwrap())
}

/// At the component, its cache included, the foreground's schedule is unchanged.
#[test]
fn the_foreground_is_the_same_to_the_nanosecond_on_every_drive_under_every_scheduler() {
    let policies = ["fcfs", "look", "c-look", "sstf", "sptf", "sptf-sw40", "asptf6"];
    let mut helped = 0;
    for (number, name) in shipped().enumerate() {
        let Ok(spec) = find(name) else { continue };
        // A part of the many tracks of large drives is enough.
        if spec.sectors > 1_000_000_000 || spec.shingled.is_some() {
            continue;
        }
        let model: Model = spec.into();
        for turn in 0..3 {
            let policy: Policy = policies[(number + turn * 3) % policies.len()].parse().unwrap();
            let busy = Busy { policy, free: None, clients: 6, requests: 60, sequential: turn == 1 };
            let (alone, _) = run(&model, &busy);
            let guard = Nanos([0, 100_000][turn % 2]);
            for policy in [FreePolicy::Paper, FreePolicy::Weighted] {
                let free = FreeOptions { policy, guard, ..FreeOptions::default() };
                let (beside, stats) = run(&model, &Busy { free: Some(free), ..busy });
                assert!(alone == beside, "{name} under {} is not the same", busy.policy);
                helped += stats;
            }
        }
    }
    assert!(helped > 50 << 20, "{helped} bytes for free");
}

fn atlas() -> Spec {
    let mut spec = find("quantum-atlas-10k").unwrap();
    spec.cache.enabled = false;
    spec
}

/// A drive with free work, and one foreground client that never ends.
fn on<T>(
    free: FreeOptions,
    foreground: bool,
    work: impl AsyncFnOnce(Rc<dyn Simulated>, Rc<Freeblock>) -> T,
) -> T {
    let runtime = Runtime::new(1);
    let result = runtime.run(async {
        let queue = QueueOptions { freeblock: Some(free), ..QueueOptions::default() };
        let drive = simulated(0, &atlas().into(), queue);
        let arm = drive.freeblock().remove(0);
        let _busy: Vec<_> = (0..if foreground { 4 } else { 0 })
            .map(|number| runtime::spawn(client(drive.clone(), Lcg(number), u64::MAX, false)))
            .collect();
        work(drive.clone(), arm).await
    });
    result.unwrap()
}

#[test]
fn every_block_is_delivered_once_with_its_bytes() {
    for policy in [FreePolicy::Paper, FreePolicy::Weighted] {
        on(FreeOptions { policy, ..FreeOptions::default() }, true, async |drive, arm| {
            let bytes: Vec<u8> = (0..4096_u32).map(|byte| (byte % 251) as u8).collect();
            drive
                .write(Extent::new(8_000, 8), Buffer::from_vec(bytes.clone()), Hints::default())
                .await
                .unwrap();
            // Blocks of 24 sectors do not divide the tracks: many lie across their ends.
            let (task, all) = (arm.reader(24).unwrap(), Extent::new(7_992, 24 * 2_000));
            task.read(all).unwrap();
            let mut seen = Vec::new();
            while let Some(block) = task.next().await {
                assert_eq!((block.at.sectors, block.data.as_ref().unwrap().len()), (24, 24 * 512));
                if block.at.start.0 == 7_992 {
                    assert_eq!(block.data.unwrap().cut_sectors(8, 8).to_vec(), bytes);
                }
                seen.push(block.at.start.0);
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..2_000).map(|block| 7_992 + block * 24).collect::<Vec<_>>());
            assert_eq!((task.progress().left, task.progress().done), (0, 2_000));
        });
    }
}

#[test]
fn free_writes_are_stored() {
    on(FreeOptions::default(), true, async |drive, arm| {
        let (task, at) = (arm.writer(16).unwrap(), Extent::new(160_000, 320));
        let bytes: Vec<u8> = (0..320 * 512_u32).map(|byte| (byte / 512) as u8).collect();
        task.write(at, &Buffer::from_vec(bytes.clone())).unwrap();
        let mut done = 0;
        while task.next().await.is_some() {
            done += 1;
        }
        assert_eq!(done, 20);
        let read = drive.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
        assert_eq!(read.to_vec(), bytes);
    });
}

/// Section 2.1: buffers belong to the scheduler.
#[test]
fn a_consumer_that_does_not_take_its_blocks_stops_further_reads_and_loses_nothing() {
    on(FreeOptions { buffers: 64 * 4096, ..FreeOptions::default() }, true, async |_, arm| {
        let task = arm.reader(8).unwrap();
        task.read(Extent::new(0, 8 * 4_000)).unwrap();
        runtime::sleep(Nanos::from_millis(60_000)).await;
        assert!(task.ready() <= 64 && task.ready() > 32, "{} wait", task.ready());
        let mut taken = 0;
        while task.next().await.is_some() {
            taken += 1;
        }
        assert_eq!(taken, 4_000);
    });
}

#[test]
fn bad_input_is_an_error_and_changes_nothing() {
    on(FreeOptions::default(), false, async |drive, arm| {
        let sectors = drive.geometry().sectors;
        assert_eq!(arm.reader(0).err(), Some(FreeError::Block { found: 0, most: 65_536 }));
        assert!(matches!(arm.writer(65_537).err(), Some(FreeError::Block { .. })));
        let task = arm.reader(8).unwrap();
        for at in [Extent::new(sectors, 8), Extent::new(0, sectors + 8), Extent::new(u64::MAX - 7, 8)] {
            assert_eq!(task.read(at), Err(FreeError::PastTheEnd { at, sectors }));
        }
        for at in [Extent::new(4, 8), Extent::new(8, 12)] {
            assert_eq!(task.read(at), Err(FreeError::NotWhole { at, block: 8 }));
        }
        task.read(Extent::new(80, 80)).unwrap();
        let twice = task.read(Extent::new(0, 160)).unwrap_err();
        assert_eq!(twice, FreeError::Twice { at: Extent::new(80, 8) });
        assert_eq!(twice.to_string(), "the block of sectors 80..88 is registered already");
        assert_eq!(task.abort(Extent::new(72, 16)), Err(FreeError::Unknown { at: Extent::new(72, 8) }));
        assert_eq!(task.progress().left, 10);
        task.abort(Extent::new(80, 40)).unwrap();
        assert_eq!(task.abort(Extent::new(80, 8)), Err(FreeError::Unknown { at: Extent::new(80, 8) }));
        assert_eq!(task.progress().left, 5);
        let writer = arm.writer(8).unwrap();
        let found = writer.write(Extent::new(0, 16), &Buffer::zeroed(512)).unwrap_err();
        assert_eq!(found.to_string(), "512 bytes for sectors 0..16: expected 8192");
        // Tasks of the largest blocks, as many as there may be.
        let whole = Extent::new(0, sectors / 65_536 * 65_536);
        let many: Vec<_> = (1..32).map(|_| arm.reader(65_536).unwrap()).collect();
        for task in &many {
            task.read(whole).unwrap();
        }
        assert_eq!(arm.reader(8).err(), Some(FreeError::TooMany { most: 32 }));
        drop(many);
        // Another task may register the same blocks.
        arm.reader(8).unwrap().read(Extent::new(80, 80)).unwrap();
        task.abort(Extent::new(120, 40)).unwrap();
        assert!(task.next().await.is_none());
    });
}

#[test]
fn a_request_of_class_free_is_carried_out_in_the_waits_of_others() {
    on(FreeOptions::default(), true, async |drive, arm| {
        let how = Hints { class: Class::Free, ..Hints::default() };
        let bytes: Vec<u8> = (0..513 * 512_u32).map(|byte| (byte / 511) as u8).collect();
        let at = Extent::new(5_555_555, 513);
        drive.write(at, Buffer::from_vec(bytes.clone()), how.clone()).await.unwrap();
        let read = drive.read(at, Buffer::zeroed(at.bytes()), how).await.unwrap();
        assert_eq!(read.to_vec(), bytes);
        assert!(arm.stats().bytes >= 2 * 513 * 512);
    });
}

#[test]
fn without_a_foreground_a_free_request_waits_until_it_is_promoted() {
    on(FreeOptions::default(), false, async |drive, _| {
        let ticket = Ticket::new();
        let how = Hints { class: Class::Free, ticket: Some(ticket.clone()), ..Hints::default() };
        let below = drive.clone();
        let read = runtime::spawn(async move {
            below.read(Extent::new(77_777, 64), Buffer::hollow_sectors(64), how).await.map(drop)
        });
        runtime::sleep(Nanos::from_millis(10_000)).await;
        assert!(!read.is_finished());
        ticket.promote(Class::Background);
        read.await.unwrap();
        assert!(runtime::now() < Nanos::from_millis(10_050));
        // And an aborted one.
        let ticket = Ticket::new();
        let how = Hints { class: Class::Free, ticket: Some(ticket.clone()), ..Hints::default() };
        let below = drive.clone();
        let write = runtime::spawn(async move {
            below.write(Extent::new(77_777, 64), Buffer::hollow_sectors(64), how).await
        });
        runtime::sleep(Nanos::from_millis(1)).await;
        ticket.abort();
        assert_eq!(write.await.unwrap_err().kind(), ErrorKind::Aborted);
        assert_eq!(drive.all().blocks_written, 0);
    });
}

/// Blocks across the ends of tracks are read in two parts: partial ones must not fill all of the buffers, also with a
/// model error.
#[test]
fn a_scan_ends_however_small_its_buffers_are() {
    for (blocks, model_error) in [(1, 0), (3, 100), (4, 500), (8, 0), (8, 500), (64, 100)] {
        let (buffers, model_error) = (blocks * 4096, Nanos::from_micros(model_error));
        on(FreeOptions { buffers, model_error, ..FreeOptions::default() }, true, async |_, arm| {
            let task = arm.reader(8).unwrap();
            task.read(Extent::new(0, 8 * 3_000)).unwrap();
            let mut taken = 0;
            while task.next().await.is_some() {
                taken += 1;
            }
            assert_eq!(taken, 3_000, "with {blocks} blocks of buffers");
        });
    }
}

/// Longer than any track: a block waits for its remainder over several revolutions.
#[test]
fn blocks_of_many_tracks_are_delivered_once_with_small_buffers() {
    on(FreeOptions { buffers: 4 << 20, ..FreeOptions::default() }, true, async |_, arm| {
        let task = arm.reader(2_048).unwrap();
        task.read(Extent::new(0, 2_048 * 40)).unwrap();
        let mut seen = Vec::new();
        while let Some(block) = task.next().await {
            seen.push(block.at.start.0 / 2_048);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..40).collect::<Vec<_>>());
    });
}

/// Blocks are aborted and registered again while parts of them pass: each is delivered once all the same, and all
/// buffers are free in the end.
#[test]
fn aborted_blocks_can_be_registered_again() {
    on(FreeOptions { buffers: 16 * 24 * 512, ..FreeOptions::default() }, true, async |_, arm| {
        let (task, mut random) = (arm.reader(24).unwrap(), Lcg(5));
        for round in 0..3 {
            task.read(Extent::new(0, 24 * 3_000)).unwrap();
            let (mut seen, mut again) = (vec![0; 3_000], 0);
            while task.progress().left > 0 || task.ready() > 0 {
                // Around the last delivered block parts of others are in flight.
                let Some(block) = task.next().await else { break };
                let number = block.at.start.0 / 24;
                seen[number as usize] += 1;
                for near in number.saturating_sub(20)..(number + 20).min(3_000) {
                    let at = Extent::new(near * 24, 24);
                    if random.below(3) == 0 && task.abort(at).is_ok() && task.read(at).is_ok() {
                        again += 1;
                    }
                }
            }
            assert!(seen.iter().all(|&times| times == 1), "round {round}");
            assert!(again > 1_000, "{again}");
        }
    });
}

/// A promoted block is done after its task has ended: the next task reuses its number, but gets none of its blocks.
#[test]
fn promoted_blocks_of_an_ended_task_are_dropped() {
    on(FreeOptions::default(), false, async |_, arm| {
        let task = arm.reader(8).unwrap();
        task.read(Extent::new(0, 80)).unwrap();
        assert_eq!(task.promote(Extent::new(0, 80)), Ok(10));
        drop(task);
        let task = arm.reader(8).unwrap();
        task.read(Extent::new(800, 8)).unwrap();
        assert_eq!(task.promote(Extent::new(800, 8)), Ok(1));
        assert_eq!(task.next().await.unwrap().at, Extent::new(800, 8));
        assert!(task.next().await.is_none());
        runtime::sleep(Nanos::from_millis(1_000)).await;
        assert_eq!((task.progress().done, task.ready()), (1, 0));
    });
}

/// Section 2.1: adjacent blocks are merged, and blocks that are done or not registered are left alone.
#[test]
fn promoted_blocks_are_submitted_and_delivered_like_others() {
    on(FreeOptions::default(), false, async |drive, arm| {
        let (task, from) = (arm.writer(8).unwrap(), Buffer::from_vec(vec![7; 40 * 512]));
        task.write(Extent::new(808, 40), &from).unwrap();
        assert_eq!(task.promote(Extent::new(800, 80)), Ok(5));
        let mut places = Vec::new();
        while let Some(block) = task.next().await {
            places.push(block.at.start.0);
        }
        assert_eq!((places, drive.all().commands), (vec![808, 816, 824, 832, 840], 1));
        assert_eq!(task.promote(Extent::new(800, 80)), Ok(0));
        let task = arm.reader(8).unwrap();
        task.read(Extent::new(800, 80)).unwrap();
        task.abort(Extent::new(816, 8)).unwrap();
        assert_eq!(task.promote(Extent::new(800, 80)), Ok(9));
        let (mut read, mut estimates) = (0, 0);
        while let Some(block) = task.next().await {
            let wanted = if (808..848).contains(&block.at.start.0) { 7 } else { 0 };
            assert!(block.data.unwrap().to_vec().iter().all(|&byte| byte == wanted));
            read += 1;
            estimates += u64::from(task.progress().estimate.is_some());
        }
        assert_eq!((read, estimates, drive.all().commands), (9, 9, 3));
        assert!(matches!(task.promote(Extent::new(4, 8)), Err(FreeError::NotWhole { .. })));
    });
}

/// A model error makes the foreground wait for another revolution now and then, and costs blocks; a guard time as long
/// as the error preserves the foreground's schedule. Nothing is lost or delivered twice.
#[test]
fn a_guard_time_absorbs_the_model_error() {
    let model: Model = atlas().into();
    let error = Nanos::from_micros(200);
    let busy = |free| Busy { policy: Policy::CLook, free, clients: 4, requests: 300, sequential: false };
    let (alone, _) = run(&model, &busy(None));
    for (guard, same) in [(0, false), (100, false), (200, true)] {
        let free =
            FreeOptions { model_error: error, guard: Nanos::from_micros(guard), ..FreeOptions::default() };
        let (schedule, bytes) = run(&model, &busy(Some(free)));
        assert!((schedule == alone) == same && bytes > 0, "guard {guard} us");
    }
    on(FreeOptions { model_error: error, ..FreeOptions::default() }, true, async |_, arm| {
        let task = arm.reader(24).unwrap();
        task.read(Extent::new(0, 24 * 2_000)).unwrap();
        let mut seen = Vec::new();
        while let Some(block) = task.next().await {
            seen.push(block.at.start.0 / 24);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..2_000).collect::<Vec<_>>());
        let stats = arm.stats();
        assert!(stats.missed > 0 && stats.late > 0, "{stats:?}");
    });
}

/// Left open in the paper: an idle head reads pending blocks at full speed, each block once, the innermost and the
/// outermost alike.
#[test]
fn an_idle_drive_is_scanned_at_full_speed() {
    let idle_delay_limit = Nanos::from_millis(1);
    on(FreeOptions { idle_delay_limit, ..FreeOptions::default() }, false, async |drive, arm| {
        let (task, sectors) = (arm.reader(24).unwrap(), drive.geometry().sectors / 24 * 24);
        let (from, part) = (sectors / 48 * 24, 24 * 5_000);
        for start in [0, from, sectors - part] {
            task.read(Extent::new(start, part)).unwrap();
        }
        let begin = runtime::now();
        let mut seen = Vec::new();
        while let Some(block) = task.next().await {
            seen.push(block.at.start.0);
        }
        assert!(seen.len() == 15_000);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 15_000);
        let (took, bytes) = ((runtime::now() - begin).seconds(), 15_000.0 * 24.0 * 512.0);
        assert!(bytes / took > 10e6, "{} MB/s", bytes / took / 1e6);
        assert_eq!(arm.stats().idle_bytes, 15_000 * 24 * 512);
        // And a request of class free.
        let how = Hints { class: Class::Free, ..Hints::default() };
        drive.read(Extent::new(777, 99), Buffer::hollow_sectors(99), how).await.unwrap();
    });
}

/// The foreground's mean delay stays within its limit, and a lower limit gives fewer free bytes.
#[test]
fn idle_time_costs_no_more_than_is_allowed() {
    let response = |limit: Option<u64>| {
        let runtime = Runtime::new(1);
        let limit_nanos = Nanos::from_micros(limit.unwrap_or(0));
        let free = FreeOptions { idle_delay_limit: limit_nanos, ..FreeOptions::default() };
        let queue = QueueOptions { freeblock: Some(free), ..QueueOptions::default() };
        let result = runtime.run(async {
            let drive = simulated(0, &atlas().into(), queue);
            let arm = drive.freeblock().remove(0);
            let task = arm.reader(8).unwrap();
            if limit.is_some() {
                task.read(Extent::new(0, drive.geometry().sectors / 8 * 8)).unwrap();
            }
            let miner = runtime::spawn(async move { while task.next().await.is_some() {} });
            let (mut random, mut waited) = (Lcg(9), 0);
            for _ in 0..3_000 {
                runtime::sleep(Nanos(random.below(60_000_000))).await;
                let (at, begin) =
                    (Extent::new(random.below(drive.geometry().sectors - 8), 8), runtime::now());
                drive.read(at, Buffer::hollow_sectors(8), Hints::default()).await.unwrap();
                waited += (runtime::now() - begin).0;
            }
            drop(miner);
            (waited / 3_000, arm.stats())
        });
        result.unwrap()
    };
    let (alone, _) = response(None);
    let mut before = 0;
    for limit in [0, 100, 500] {
        let (mean, stats) = response(Some(limit));
        assert!(mean <= alone + limit * 1_000, "{limit} us: {mean} instead of {alone}");
        assert!(limit == 0 || stats.idle_bytes > 2 * before, "{stats:?}");
        assert_eq!(limit == 0, mean == alone && stats.visits == 0);
        eprintln!("{limit} us: {} us later, {} MB", (mean - alone) / 1_000, stats.idle_bytes / 1_000_000);
        before = stats.idle_bytes;
    }
}

/// A long decision time finds less, and one longer than any gap nothing; the foreground is the same.
#[test]
fn decisions_cost_gaps_and_not_the_foreground() {
    let stats = [0, 1_000, 20_000].map(|micros| {
        let decision = Nanos(micros * 1_000);
        on(FreeOptions { decision, ..FreeOptions::default() }, true, async |_, arm| {
            let task = arm.reader(8).unwrap();
            task.read(Extent::new(0, 17_000_000)).unwrap();
            runtime::sleep(Nanos::from_millis(20_000)).await;
            (arm.stats().bytes, arm.stats().potential)
        })
    });
    assert!(stats[0].0 > stats[1].0 && stats[1].0 > stats[2].0, "{stats:?}");
    assert!(stats[0].1 == stats[1].1 && stats[1].1 == stats[2].1, "{stats:?}");
}
