//! Each scheduler by hand, and against an exhaustive search.

use proptest::prelude::*;
use seekless_core::{Extent, Op};

use super::positioning::Bounds;
use super::*;
use crate::disk::Drive;
use crate::spec::{self, SeekCurve, Spec};

/// A drive whose cylinders have ten sectors, and whose rotation times a test sets.
struct Plain {
    cylinder: u32,
    /// Rotation to each cylinder's requests.
    rotation: fn(u32) -> u64,
}

impl Default for Moment<'_> {
    fn default() -> Self {
        Moment { now: Nanos(0), head: Lba(0), arrived_before: u64::MAX, drive: None }
    }
}

fn nothing(_: u32) -> u64 {
    0
}

impl Positioning for Plain {
    fn cylinder(&self) -> u32 {
        self.cylinder
    }
    fn reach(&self, place: Place, _write: bool, _queued: bool) -> Reach {
        let seek = Nanos(u64::from(place.cylinder.abs_diff(self.cylinder)) * 100);
        Reach { handling: Nanos(0), seek, rotation: Nanos((self.rotation)(place.cylinder)) }
    }
    fn bounds(&self) -> Bounds<'_> {
        Bounds { seek: &[0; 100], angle: 0, revolution: 0 }
    }
}

fn waiter(slot: Slot, place: Place) -> Waiter {
    Waiter { slot, arrival: slot as u64 + 1, place, ..Waiter::default() }
}

/// The order in which a scheduler takes requests of these (sector, arrival time) pairs at time `now`, ten sectors per
/// cylinder.
fn order(policy: Policy, head: u64, requests: &[(u64, u64)], now: u64, rotation: fn(u32) -> u64) -> Vec<u64> {
    let mut scheduler = policy.scheduler();
    let mut waiting = Waiting::new(&*scheduler);
    let waiters: Vec<Waiter> = requests
        .iter()
        .enumerate()
        .map(|(slot, &(start, since))| {
            let place = Place { cylinder: start as u32 / 10, ..Place::default() };
            Waiter { since: Nanos(since), ..waiter(slot, place) }
        })
        .collect();
    for (&waiter, requests) in waiters.iter().zip(requests) {
        waiting.add(Lba(requests.0), waiter);
    }
    let (mut head, mut order) = (head, Vec::new());
    let next = |scheduler: &mut dyn Scheduler, waiting: &Waiting, head: u64| {
        let drive = Plain { cylinder: head as u32 / 10, rotation };
        let moment = Moment { now: Nanos(now), head: Lba(head), drive: Some(&drive), ..Moment::default() };
        scheduler.next(waiting, &moment)
    };
    while let Some(slot) = next(&mut *scheduler, &waiting, head) {
        let start = requests[slot].0;
        waiting.remove(Lba(start), &waiters[slot]);
        order.push(start);
        head = start + 1;
    }
    assert!(waiting.is_empty());
    order
}

fn at_once(starts: &[u64]) -> Vec<(u64, u64)> {
    starts.iter().map(|&start| (start, 0)).collect()
}

#[test]
fn fcfs_is_in_order_of_arrival() {
    assert_eq!(order(Policy::Fcfs, 40, &at_once(&[50, 10, 90, 30]), 0, nothing), [50, 10, 90, 30]);
}

#[test]
fn c_look_goes_up_and_starts_again_at_the_lowest() {
    assert_eq!(order(Policy::CLook, 40, &at_once(&[50, 10, 90, 30]), 0, nothing), [50, 90, 10, 30]);
}

#[test]
fn look_goes_up_and_then_down() {
    assert_eq!(order(Policy::Look, 40, &at_once(&[50, 10, 90, 30]), 0, nothing), [50, 90, 30, 10]);
    assert_eq!(order(Policy::Look, 95, &at_once(&[50, 10, 90, 30]), 0, nothing), [90, 50, 30, 10]);
}

#[test]
fn sstf_picks_the_nearest_cylinder_then_the_oldest_request() {
    let requests = at_once(&[500, 100, 459, 300, 451]);
    assert_eq!(order(Policy::Sstf, 420, &requests, 0, nothing), [459, 451, 500, 300, 100]);
    // Rotation does not count.
    assert_eq!(
        order(Policy::Sstf, 420, &requests, 0, |cylinder| u64::from(cylinder) * 1_000),
        [459, 451, 500, 300, 100]
    );
}

/// From cylinder 40: 45 takes 500 + 9,000, 50 takes 1,000 + 2,000, 30 takes 1,000 + 2,500, 90 takes 5,000.
fn rotations(cylinder: u32) -> u64 {
    match cylinder {
        45 => 9_000,
        50 => 2_000,
        30 => 2_500,
        _ => 0,
    }
}

#[test]
fn sptf_counts_seek_and_rotation() {
    let requests = at_once(&[450, 900, 300, 500]);
    assert_eq!(order(Policy::Sptf, 400, &requests, 0, rotations)[0], 500);
    // Within 20 % of 3,000 there is an older one of the same seek.
    assert_eq!(order(Policy::SptfSw(16), 400, &requests, 0, rotations)[0], 500);
    assert_eq!(order(Policy::SptfSw(17), 400, &requests, 0, rotations)[0], 300);
    // Within 217 % the shortest seek.
    assert_eq!(order(Policy::SptfSw(216), 400, &requests, 0, rotations)[0], 300);
    assert_eq!(order(Policy::SptfSw(217), 400, &requests, 0, rotations)[0], 450);
}

#[test]
fn aged_sptf_lets_waiting_count() {
    // 2,000 nearer, 333,000 older.
    let requests = [(500, 333_000), (900, 0)];
    assert_eq!(order(Policy::Asptf(0), 400, &requests, 1_000_000, rotations)[0], 500);
    assert_eq!(order(Policy::Asptf(6), 400, &requests, 1_000_000, rotations)[0], 500);
    assert_eq!(order(Policy::Asptf(7), 400, &requests, 1_000_000, rotations)[0], 900);
}

#[test]
fn without_a_drive_the_oldest_is_first() {
    for policy in [Policy::Sstf, Policy::Sptf, Policy::SptfSw(40), Policy::Asptf(6)] {
        let mut scheduler = policy.scheduler();
        let mut waiting = Waiting::new(&*scheduler);
        assert_eq!(scheduler.next(&waiting, &Moment::default()), None);
        for slot in 0..3 {
            waiting.add(Lba(100 - slot as u64), waiter(slot, Place::default()));
        }
        assert_eq!(scheduler.next(&waiting, &Moment::default()), Some(0));
    }
}

/// The shipped drives, and one as extraction gives it: a curve that is not monotonic, surfaces one after the other,
/// writes that settle sooner.
fn drives() -> Vec<Spec> {
    let atlas = spec::find("quantum-atlas-10k").unwrap();
    let points = [(1, 1_200.0), (40, 2_900.0), (60, 900.0), (400, 5_000.0), (401, 1_900.0), (9_000, 7_000.0)];
    let mut imported = atlas.clone();
    imported.seek = SeekCurve::Table { points: points.to_vec() };
    imported.layout.mapping = crate::spec::Mapping::SurfaceSerpentine;
    imported.write_settle_us = -300.0;
    let turning_round = spec::find("seagate-cheetah-15k5").unwrap();
    vec![spec::find("wd2500aaks").unwrap(), atlas, imported, turning_round]
}

/// Exhaustive search: the best of all that wait.
fn slowly(policy: Policy, all: &[Waiter], moment: &Moment) -> Option<Slot> {
    let drive = moment.drive?;
    let reach = |waiter: &Waiter| moment.reach(drive, waiter);
    let best = |key: &dyn Fn(&Waiter) -> i128| {
        all.iter().min_by_key(|waiter| (key(waiter), waiter.arrival)).map(|waiter| waiter.slot)
    };
    let time = |waiter: &Waiter| i128::from(reach(waiter).total().0);
    match policy {
        Policy::Sstf => best(&|waiter| i128::from(reach(waiter).seek.0)),
        Policy::Sptf => best(&time),
        Policy::SptfSw(percent) => {
            let shortest = all.iter().map(time).min()?;
            best(&|waiter| {
                let within = time(waiter) * 100 <= shortest * (100 + i128::from(percent));
                if within { i128::from(reach(waiter).seek.0) } else { i128::MAX }
            })
        }
        Policy::Asptf(weight) => best(&|waiter| {
            1_000 * time(waiter) - i128::from(weight) * i128::from(moment.now.since(waiter.since).0)
        }),
        _ => None,
    }
}

const POLICIES: [Policy; 8] = [
    Policy::Sstf,
    Policy::Sptf,
    Policy::SptfSw(0),
    Policy::SptfSw(40),
    Policy::SptfSw(1_000),
    Policy::Asptf(0),
    Policy::Asptf(6),
    Policy::Asptf(1_000),
];

proptest! {
    /// The pruned search finds the best request.
    #[test]
    fn pruned_requests_are_not_better(
        which in 0..4_usize,
        before in prop::collection::vec((any::<bool>(), 0..1_u64 << 40), 0..4),
        rest in 0..20_000_000_u64,
        // Some close together, some at one place.
        requests in prop::collection::vec((0..1_u64 << 40, 0..3_u64, any::<bool>(), 0..50_000_000_u64), 1..200),
        queued in 0..200_u64,
    ) {
        let spec = &drives()[which];
        let (mut drive, mut now) = (Drive::new(spec), Nanos(1_000_000_000));
        for (write, lba) in before {
            let op = if write { Op::Write } else { Op::Read };
            now += drive.serve(op, Extent::new(lba % (spec.sectors - 8), 8), now, false).total();
        }
        now += Nanos(rest);
        let mut since: Vec<u64> = requests.iter().map(|requests| requests.3).collect();
        since.sort_unstable();
        let all: Vec<Waiter> = requests.iter().enumerate().map(|(slot, &(lba, spread, write, _))| {
            let lba = lba % [spec.sectors, 100_000, 1_000][spread as usize];
            let since = Nanos(now.0 - 50_000_000 + since[slot]);
            Waiter { since, write, ..waiter(slot, drive.place(Lba(lba))) }
        }).collect();
        let estimator = drive.estimator(now);
        let moment = Moment { now, head: Lba(0), arrived_before: queued, drive: Some(&estimator) };
        for policy in POLICIES {
            let mut scheduler = policy.scheduler();
            let mut waiting = Waiting::new(&*scheduler);
            for &waiter in &all {
                waiting.add(Lba(0), waiter);
            }
            prop_assert_eq!(scheduler.next(&waiting, &moment), slowly(policy, &all, &moment), "{}", policy);
        }
    }

    /// The estimate for a request that is not cached is the time that serving it takes.
    #[test]
    fn serving_takes_the_estimated_time(
        which in 0..4_usize,
        requests in prop::collection::vec((any::<bool>(), 0..1_u64 << 40, 0..20_000_000_u64), 1..30),
    ) {
        let mut spec = drives()[which].clone();
        spec.cache.write_back = spec::WriteBack::None;
        let (mut drive, mut now) = (Drive::new(&spec), Nanos(0));
        for (write, lba, rest) in requests {
            now += Nanos(rest);
            let at = Extent::new(lba % (spec.sectors - 1), 1);
            let reach = drive.estimator(now).reach(drive.place(at.start), write, true);
            let op = if write { Op::Write } else { Op::Read };
            let took = drive.serve(op, at, now, true);
            if took.seek + took.rotation > Nanos(0) {
                prop_assert_eq!((took.seek, took.rotation), (reach.seek, reach.rotation));
            }
            now += took.total();
        }
    }
}
