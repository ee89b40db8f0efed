//! The search against an exhaustive one, sector by sector; and plans against the mechanics.

use std::collections::BTreeMap;

use seekless_core::{Extent, Lba, Nanos, Op};

use super::FreeStats;
use super::direction::Direction;
use super::plan::{Plan, Planner, StopCount};
use super::search::{Gap, PlanInputs, Search};
use super::tracks::Tracks;
use super::value::{BlockValue, Weights};
use crate::disk::Drive;
use crate::disk::mechanics::Head;
use crate::disk::trajectory::Step;
use crate::spec::{LayoutSpec, Mapping, Sparing, Spec, Zone, find, parse};

struct Lcg(u64);

impl Lcg {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * u128::from(end)) >> 64) as u64
    }
}

/// A small drive with spares, slips and remaps: tracks of several track extents.
fn small() -> Spec {
    let mut spec = find("quantum-atlas-10k").unwrap();
    spec.heads = 3;
    spec.layout = LayoutSpec {
        mapping: Mapping::Serpentine,
        sparing: Sparing::Cylinder,
        range_cylinders: 2,
        ..LayoutSpec::default()
    };
    let zone = |cylinders, per_track, slips: &[u64], remaps: &[(u64, u64)]| Zone {
        cylinders,
        sectors_per_track: per_track,
        track_skew: f64::from(per_track / 5) + 0.25,
        cylinder_skew: f64::from(per_track / 3),
        spares: 12,
        slips: slips.to_vec(),
        remaps: remaps.to_vec(),
        ..Zone::default()
    };
    spec.zone =
        vec![zone(30, 97, &[5, 300, 777], &[(40, 290)]), zone(20, 64, &[], &[]), zone(10, 41, &[1], &[])];
    spec.sectors = 1 << 40;
    let error = parse("small", &toml::to_string(&spec).unwrap()).unwrap_err().to_string();
    spec.sectors = error.rsplit("hold, ").next().unwrap().trim().parse().unwrap();
    parse("small", &toml::to_string(&spec).unwrap()).unwrap()
}

struct World {
    drive: Drive,
    at_least: crate::disk::estimator::AtLeast,
    tracks: Tracks,
    directions: [Direction; 2],
    value: BlockValue,
}

impl World {
    fn new(spec: &Spec) -> World {
        let drive = Drive::new(spec);
        let tracks = Tracks::new(drive.layout(), drive.mechanics().revolution().0);
        let value = BlockValue::blocks(1 << 12, &tracks);
        World { at_least: drive.at_least(), drive, tracks, directions: Default::default(), value }
    }

    /// Makes each block pending with a chance of `of` to 10,000.
    fn add_pending(&mut self, write: bool, block: u64, of: u64, random: &mut Lcg) -> usize {
        let sectors = self.drive.layout().sectors();
        let direction = &mut self.directions[usize::from(write)];
        let set = direction.add_set(&self.tracks, (block, 1), sectors);
        for number in (0..sectors / block).filter(|_| random.below(10_000) < of).collect::<Vec<_>>() {
            let at = Extent::new(number * block, block);
            self.tracks.of(self.drive.layout(), at, |track, extent| {
                let (from, to) = direction.sets[set].pending.pieces(extent, extent.within(at));
                direction.add_pending(&self.tracks, set, track, (from, to));
            });
        }
        set
    }

    fn inputs(&self, guard: u64, price: u64, candidates: Option<u32>) -> PlanInputs<'_> {
        PlanInputs {
            tracks: &self.tracks,
            mechanics: self.drive.mechanics(),
            at_least: &self.at_least,
            turn_round: 0,
            guard,
            value: &self.value,
            price,
            candidates,
        }
    }

    fn search(&self, guard: u64, candidates: Option<u32>) -> Search<'_> {
        Search { inputs: self.inputs(guard, 0, candidates), directions: &self.directions }
    }

    /// The most blocks of any track in a gap, searched sector by sector; the head is at each track `slack` nanoseconds
    /// late and leaves as many early.
    fn exhaustive(&self, gap: &Gap, guard: u64, slack: u64) -> u64 {
        let (layout, mechanics) = (self.drive.layout(), self.drive.mechanics());
        let mut best = 0;
        for track in 0..self.tracks.len() {
            let at = self.tracks.head(track);
            for (direction, write) in self.directions.iter().zip([false, true]) {
                let come = gap.begin + mechanics.move_time(0, gap.from, at, write) + slack;
                let back =
                    if at == gap.to { 0 } else { guard + mechanics.move_time(0, at, gap.to, gap.write) };
                let Some(leave) = gap.due.checked_sub(back + slack).filter(|&leave| leave > come) else {
                    continue;
                };
                // No stop is longer than a revolution.
                let leave = leave.min(come + mechanics.revolution().0);
                let mut found = 0;
                for (_, set) in &direction.sets {
                    for extent in self.tracks.on(track) {
                        let (first, end) = set.pending.pieces(extent, (0, extent.sectors));
                        for bit in (first..end).filter(|&bit| set.pending.is_set(bit)) {
                            let (from, to) = set.pending.part(extent, extent.unit_at(bit));
                            let piece = layout
                                .piece(Extent::new(extent.start + u64::from(from), u64::from(to - from)));
                            assert_eq!(piece.at.sectors, u64::from(to - from), "a piece lies on one track");
                            let passes = come
                                + mechanics.wait(piece.angle, come)
                                + mechanics.pass(piece.at.sectors, piece.per_track);
                            let short = set.partial.short();
                            let counts = if short { u64::from(set.counts(extent, bit)) } else { 1 };
                            found += u64::from(passes <= leave) * counts * u64::from(set.weight);
                        }
                    }
                }
                best = best.max(found);
            }
        }
        best
    }
}

fn somewhere(world: &World, random: &mut Lcg) -> Head {
    let sector = random.below(world.drive.layout().sectors());
    let at = world.drive.layout().position(Lba(sector));
    Head { cylinder: at.cylinder, head: at.head }
}

/// Section 4: the result of the pruned search, without its limit, is the maximum over all tracks.
#[test]
fn the_papers_search_finds_as_many_blocks_as_one_that_looks_everywhere() {
    let mut random = Lcg(1);
    let (mut found, mut bounded) = (0, 0);
    for world_number in 0..100 {
        let mut world = World::new(&small());
        let of = [10_000, 5_000, 1_000, 100, 20][world_number % 5];
        world.add_pending(false, [8, 8, 3, 16][world_number % 4], of, &mut random);
        if world_number % 3 == 0 {
            world.add_pending(true, 8, 500, &mut random);
            world.add_pending(false, 8, of / 2, &mut random);
        }
        let guard = [0, 100_000][world_number % 2];
        for _ in 0..100 {
            let (from, to) = (somewhere(&world, &mut random), somewhere(&world, &mut random));
            let (begin, write) = (random.below(1 << 40), random.below(3) == 0);
            let direct = world.drive.mechanics().move_time(0, from, to, write);
            let due = begin + direct + random.below(world.drive.mechanics().revolution().0);
            let gap = Gap { from, begin, to, due, write };
            let (stop, _) = world.search(guard, None).best(gap, false);
            let value = stop.map_or(0, |stop| stop.value) >> 16;
            // Rounding may cost a block that passes in the very last nanoseconds.
            let (most, least) = (world.exhaustive(&gap, guard, 0), world.exhaustive(&gap, guard, 8));
            assert!((least..=most).contains(&value), "{gap:?}: {value}, not {least} to {most}");
            let (stop, _) = world.search(guard, Some(40)).best(gap, false);
            found += value;
            bounded += stop.map_or(0, |stop| stop.value) >> 16;
        }
    }
    eprintln!("10,000 decisions: {found} blocks, {bounded} with 40 candidates");
    assert!(bounded <= found && bounded * 100 >= found * 97, "{bounded} of {found}");
}

/// Blocks across the ends of tracks, on a disk that has more of them than buffers: all of them are read, the search
/// finds no less than an exhaustive one on one track, and takes both parts of some in one go.
#[test]
fn with_small_buffers_blocks_across_tracks_are_read_whole_or_in_parts() {
    let mut random = Lcg(11);
    let mut onward = 0;
    for room in [3 * 8, 16 * 8, 100 * 8] {
        let mut world = World::new(&small());
        let set = world.add_pending(false, 8, 10_000, &mut random);
        world.directions[0].sets[set].bound(room);
        let (mut taken, mut gaps) = (BTreeMap::<u64, u64>::new(), 0);
        while world.directions[0].sets[set].left > 0 {
            gaps += 1;
            assert!(gaps < 100_000, "{} pieces are left", world.directions[0].sets[set].left);
            let (mut from, to) = (somewhere(&world, &mut random), somewhere(&world, &mut random));
            // Some heads have to stay, for the cache.
            let stay = gaps % 5 == 0;
            if stay {
                from = to;
            }
            let begin = random.below(1 << 40);
            let direct = world.drive.mechanics().move_time(0, from, to, false);
            let due = begin + direct + random.below(world.drive.mechanics().revolution().0);
            let gap = Gap { from, begin, to, due, write: false };
            let stop = world.search(0, None).best(gap, false).0;
            onward += u64::from(stop.is_some_and(|stop| stop.onward.is_some()));
            if gaps % 8 == 0 {
                let (value, least) = (stop.map_or(0, |stop| stop.value) >> 16, world.exhaustive(&gap, 0, 8));
                assert!(value >= least, "{gap:?}: {value}, not {least}");
            }
            let (mut plan, mut directions) = (Plan::default(), std::mem::take(&mut world.directions));
            let inputs = world.inputs(0, 0, Some(40));
            Planner { inputs, stop_count: StopCount::One, directions: &mut directions }
                .fill(gap, stay, &mut plan);
            world.directions = directions;
            assert!(!stay || plan.stops.iter().all(|stop| stop.0 == to), "{plan:?}");
            assert_eq!(follow(&world, &gap, &plan, 0), plan.pieces.len() as u64);
            for piece in &plan.pieces {
                *taken.entry(piece.taken.block).or_default() += piece.sectors;
            }
            // The task takes whole blocks; the partial ones leave room for one.
            let held: u64 = taken.values().sum();
            assert!(held <= room, "{held} of {room}");
            let own = &mut world.directions[0].sets[set];
            taken.retain(|&block, &mut sectors| {
                if sectors == 8 {
                    own.partial.forget(block);
                    own.give_room(8);
                }
                sectors < 8
            });
            assert!(!own.full());
        }
        assert!(taken.is_empty());
    }
    assert!(onward > 20, "{onward} went on over the end of a track");
}

/// Follows a plan with the head: it arrives in time everywhere, and every piece passes meanwhile.
fn follow(world: &World, gap: &Gap, plan: &Plan, guard: u64) -> u64 {
    let (layout, mechanics) = (world.drive.layout(), world.drive.mechanics());
    let (mut at, mut now, mut taken) = (gap.from, gap.begin, 0);
    for &(stop, write, over) in &plan.stops {
        let there = now + mechanics.move_time(0, at, stop, write);
        assert!(there <= over.from, "the head comes {} ns late", there - over.from);
        assert!(over.from < over.to);
        for piece in plan.pieces.iter().filter(|piece| piece.from >= over.from && piece.to <= over.to) {
            let place = layout.piece(Extent::new(piece.start, piece.sectors));
            assert_eq!(place.at.sectors, piece.sectors);
            assert_eq!((Head { cylinder: place.cylinder, head: place.head }, piece.write), (stop, write));
            let off = mechanics.wait(place.angle, piece.from) % mechanics.revolution().0;
            assert!(off.min(mechanics.revolution().0 - off) <= 2, "it passes {off} ns later");
            assert!(piece.to - piece.from >= mechanics.pass(piece.sectors, place.per_track));
            taken += 1;
        }
        (at, now) = (stop, over.to);
    }
    let early = if at == gap.to || plan.stops.is_empty() { 0 } else { guard };
    assert!(
        now + mechanics.move_time(0, at, gap.to, gap.write) + early <= gap.due,
        "the foreground would be late: {gap:?} {plan:?} {guard}"
    );
    taken
}

#[test]
fn the_head_can_follow_the_plan_and_is_back_in_time_on_every_drive() {
    let mut random = Lcg(7);
    let names = ["quantum-atlas-10k", "wd2500aaks", "hp-c3323a-disksim", "seagate-cheetah-15k5"];
    for (spec, each) in names.map(|name| (find(name).unwrap(), 60)).into_iter().chain([(small(), 600)]) {
        for stop_count in [StopCount::One, StopCount::Many] {
            let mut world = World::new(&spec);
            // Only a part of the large ones: registering all of it takes long.
            let (block, of) = if spec.sectors > 1 << 20 { (64, 2_000) } else { (8, 5_000) };
            world.add_pending(false, block, of, &mut random);
            world.add_pending(true, 8, 100, &mut random);
            if stop_count == StopCount::Many {
                world.value.weigh(&Weights::usual(), world.tracks.len());
            }
            let guard = random.below(2) * 50_000;
            let mut taken = 0;
            for _ in 0..each {
                let (from, to) = (somewhere(&world, &mut random), somewhere(&world, &mut random));
                let (begin, write) = (random.below(1 << 40), random.below(3) == 0);
                let direct = world.drive.mechanics().move_time(0, from, to, write);
                let due = begin + direct + random.below(world.drive.mechanics().revolution().0);
                let gap = Gap { from, begin, to, due, write };
                let mut plan = Plan::default();
                let mut directions = std::mem::take(&mut world.directions);
                let inputs = world.inputs(guard, 1_000, Some(40));
                let mut planner = Planner { inputs, stop_count, directions: &mut directions };
                planner.fill(gap, false, &mut plan);
                world.directions = directions;
                assert_eq!(follow(&world, &gap, &plan, guard), plan.pieces.len() as u64);
                taken += plan.pieces.len();
            }
            assert!(taken > 0, "{}", spec.name);
        }
    }
}

#[test]
fn steps_follow_the_trajectory_of_the_head() {
    let mut random = Lcg(3);
    for name in ["quantum-atlas-10k", "wd2500aaks", "hp-c2247a-disksim", "quantum-atlas-10k-disksim"] {
        let mut drive = Drive::new(&find(name).unwrap());
        drive.record_trajectory();
        let (mut now, mut trajectory, mut waits) = (0, Vec::<Step>::new(), 0);
        let mut free = Nanos::ZERO;
        for _ in 0..3_000 {
            let at = Extent::new(random.below(drive.layout().sectors() - 600), 1 + random.below(600));
            let op = if random.below(3) == 0 { Op::Write } else { Op::Read };
            now += random.below(20_000_000);
            now += drive.serve(op, at, Nanos(now), random.below(2) == 0).total().0;
            drive.take_trajectory(&mut trajectory);
            for step in &trajectory {
                let mechanics = drive.mechanics();
                assert!(
                    step.begin <= step.landed && step.landed <= step.first && step.first <= step.end,
                    "{step:?}"
                );
                assert!(
                    step.landed.0 - step.begin.0 >= mechanics.move_time(0, step.from, step.to, step.write),
                    "{step:?}"
                );
                let piece = drive.layout().piece(step.at);
                assert_eq!(Head { cylinder: piece.cylinder, head: piece.head }, step.to);
                assert_eq!(piece.at.sectors, step.at.sectors);
                waits += u64::from(step.first > step.landed && step.begin >= free);
            }
            free = trajectory.last().map_or(free, |step| step.end);
        }
        assert!(waits > 500, "{name}: {waits}");
    }
}

#[test]
fn a_scan_takes_less_than_two_bits_a_block() {
    let mut world = World::new(&find("quantum-atlas-10k").unwrap());
    let set = world.add_pending(false, 8, 10_000, &mut Lcg(1));
    let blocks = world.drive.layout().sectors() / 8;
    let bits = world.directions[0].sets[set].pending.memory_bits() + world.directions[0].memory_bits();
    eprintln!("{:.2} bits a block", bits as f64 / blocks as f64);
    assert!(bits <= 2 * blocks, "{bits} bits for {blocks} blocks");
}

#[test]
fn a_set_that_is_removed_leaves_the_counts_of_the_others() {
    let mut world = World::new(&small());
    let stays = world.add_pending(false, 8, 2_000, &mut Lcg(1));
    let [alone, _] = &world.directions;
    let (tracks, last) = (world.tracks.len(), world.tracks.cylinders() - 1);
    let counts = alone.counts().to_vec();
    let found = |direction: &Direction| {
        let each = 1..100;
        each.map(|least| (direction.up(0, last + 1, least), direction.down(last, 0, least)))
            .collect::<Vec<_>>()
    };
    let before = found(alone);
    let goes = world.add_pending(false, 16, 9_000, &mut Lcg(2));
    assert_ne!(world.directions[0].counts(), counts);
    world.directions[0].remove_set(&world.tracks, goes);
    let [after, _] = &world.directions;
    assert_eq!((after.counts().len(), after.counts()), (tracks, &counts[..]));
    assert!(found(after) == before && after.sets.contains(stays) && !after.sets.contains(goes));
}

#[test]
fn a_share_of_the_potential_is_at_most_all_of_it() {
    let half = FreeStats {
        potential: Nanos(2_000_000),
        potential_bytes: 20_000,
        transfer: Nanos(1_000_000),
        bytes: 10_000,
        ..FreeStats::default()
    };
    assert!((half.share() - 0.5).abs() < 1e-9, "{}", half.share());
    // The foreground transfers more than the waits could, or a faster track passes in them.
    for (foreground_bytes, bytes, transfer) in [(90_000, 10_000, 1_000_000), (0, 40_000, 2_000_000)] {
        let more = FreeStats { foreground_bytes, bytes, transfer: Nanos(transfer), ..half };
        assert!(more.share() > half.share() && more.share() <= 1.0, "{}", more.share());
    }
    assert!(FreeStats::default().share() == 0.0);
}
