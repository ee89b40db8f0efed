//! Finds slipped tracks that a description does not list.
//!
//! A defective track is skipped, and all that follows in its zone lies a track farther: its angle is one skew on, and
//! cylinders end a track earlier. So the readings of a zone, in the order of their sectors, show how many tracks have
//! slipped before each: the likeliest non-decreasing counts are a shortest path (Viterbi's), with costs for angle
//! errors and for slips. The expected angle follows the path, so that an error of a skew, which grows from cylinder to
//! cylinder, costs little; wrong skews are themselves corrected to those at which the path is cheapest. Only zones
//! without listed slips are examined, where spares are whole tracks.

use seekless_core::runtime::has_to_end;

use super::phase::{self, Reading, Turn};
use super::{clock, skews};
use crate::disk::Drive;
use crate::spec::{Sparing, Spec, Zone};
use crate::validate::{Measured, Think};

/// Fewer readings prove nothing for a zone.
const ENOUGH: usize = 30;
/// An angle error of this many turns costs 1, twice as many 4.
const OFF: f64 = 0.03;
/// Cost of an arbitrary angle: a wrong reading.
const WRONG: f64 = 9.0;
/// Cost of a slip.
const SLIP: f64 = 8.0;
/// The most slipped tracks of a zone.
const MOST: u32 = 400;
/// The most slipped tracks between two readings.
const AT_ONCE: usize = 3;
/// How much the expected angle follows the measured one.
const FOLLOWS: f64 = 0.25;
/// A path that costs this much more than the best is dropped.
const GIVEN_UP: f64 = 60.0;
/// Search ranges around the described skews, in sectors, and their steps: the next head's, then the next cylinder's.
const LOOKS: [((f64, f64), f64); 4] =
    [((2.0, 4.0), 1.0), ((0.75, 1.0), 0.25), ((0.2, 0.2), 0.1), ((0.05, 0.05), 0.05)];

/// A reading: its angle in turns without that of its track, and the steps to that track by number of tracks slipped
/// before it.
struct Seen {
    track: u64,
    angle: f64,
    steps: Vec<(f64, f64)>,
}

/// `spec` with the slipped tracks that measured requests show; `None` if there are none.
pub fn find(spec: &Spec, measured: &[Measured], think: Think, turn: Turn) -> Option<Spec> {
    if spec.layout.sparing != Sparing::Tracks {
        return None;
    }
    let mut readings = phase::readings_and_writes(spec, measured, think);
    let time = clock::set(&mut readings, turn);
    let drive = Drive::new(spec);
    let mut found = spec.clone();
    found.rpm = 60e9 / time;
    for (number, zone) in found.zone.iter_mut().enumerate() {
        let mut here: Vec<&Reading> = readings.iter().filter(|one| one.steps.zone == number).collect();
        if has_to_end() {
            return None;
        }
        if here.len() < ENOUGH || !zone.slips.is_empty() || !zone.remaps.is_empty() {
            continue;
        }
        here.sort_by_key(|reading| reading.start);
        let seen: Vec<Seen> = here.iter().map(|reading| see(&drive, reading, time, zone.spares)).collect();
        fit_zone(zone, &seen);
    }
    let more = |(now, described): (&Zone, &Zone)| now.slips.len() > described.slips.len();
    let slipped = found.zone.iter().zip(&spec.zone).any(more);
    let same = crate::disk::layout::capacity(&found) == crate::disk::layout::capacity(spec);
    if !slipped || !same {
        return None;
    }
    let mut readings = phase::readings_and_writes(&found, measured, think);
    let time = clock::set(&mut readings, Turn { time, ..turn });
    skews::refine(&mut found, &readings, Turn { time, ..turn });
    Some(found)
}

fn see(drive: &Drive, reading: &Reading, turn: f64, spares: u32) -> Seen {
    let steps = |tracks: u64| {
        let steps = drive.layout().steps_with_gap(reading.start, tracks);
        (steps.heads as f64, steps.cylinders as f64)
    };
    Seen {
        track: reading.steps.heads + reading.steps.cylinders,
        angle: reading.begin / turn - reading.steps.sectors as f64 / reading.per_track,
        steps: (0..=u64::from(spares.min(MOST))).map(steps).collect(),
    }
}

/// Sets the zone's skews and slips to those at which the path through the readings is cheapest.
fn fit_zone(zone: &mut Zone, seen: &[Seen]) {
    let per_track = f64::from(zone.sectors_per_track);
    let cost = |(head, cylinder): (f64, f64)| path(seen, (head / per_track, cylinder / per_track)).0;
    let mut best = (zone.track_skew, zone.cylinder_skew);
    let mut least = cost(best);
    for ((heads, cylinders), step) in LOOKS {
        let center = best;
        let steps = |width: f64| (width / step).round() as i32;
        for head in -steps(heads)..=steps(heads) {
            for cylinder in (-steps(cylinders)..=steps(cylinders)).take_while(|_| !has_to_end()) {
                let tried = (center.0 + f64::from(head) * step, center.1 + f64::from(cylinder) * step);
                let cost = cost(tried);
                if cost < least {
                    (best, least) = (tried, cost);
                }
            }
        }
    }
    let (_, counts) = path(seen, (best.0 / per_track, best.1 / per_track));
    let within = |sectors: f64| (sectors.rem_euclid(per_track) * 1e4).round() / 1e4 % per_track;
    (zone.track_skew, zone.cylinder_skew) = (within(best.0), within(best.1));
    zone.slips = slips(seen, &counts);
}

/// The slipped tracks for these counts before each reading: half way between the readings that show them.
fn slips(seen: &[Seen], counts: &[usize]) -> Vec<u64> {
    let mut slips = Vec::new();
    let (mut before, mut count) = (0, 0);
    for (one, &now) in seen.iter().zip(counts) {
        let between = u64::midpoint(before, one.track);
        slips.extend((count..now).map(|slipped| between + slipped as u64));
        (before, count) = (one.track, now);
    }
    slips
}

/// The cheapest path to a reading with a number of slips before it, and the angle that it expects next.
#[derive(Clone, Copy, Debug)]
struct Path {
    cost: f64,
    angle: f64,
}

/// Cost of the cheapest path, and its number of slipped tracks before each reading.
fn path(seen: &[Seen], (head, cylinder): (f64, f64)) -> (f64, Vec<usize>) {
    const NONE: Path = Path { cost: f64::INFINITY, angle: 0.0 };
    let Some(first) = seen.first() else { return (0.0, Vec::new()) };
    let angle = |one: &Seen, count: usize| {
        let (heads, cylinders) = one.steps[count];
        one.angle - heads * head - cylinders * cylinder
    };
    let start = |count: usize| Path { cost: SLIP * count as f64, angle: angle(first, count) };
    let mut paths: Vec<Path> = (0..first.steps.len()).map(start).collect();
    let mut came_from: Vec<Vec<u16>> = Vec::with_capacity(seen.len());
    for one in &seen[1..] {
        let least = paths.iter().map(|path| path.cost).fold(f64::INFINITY, f64::min);
        let mut next = vec![NONE; paths.len()];
        let mut from = vec![0_u16; paths.len()];
        for (before, path) in paths.iter().enumerate().filter(|(_, path)| path.cost < least + GIVEN_UP) {
            for count in before..(before + AT_ONCE + 1).min(paths.len()) {
                let off = angle(one, count) - path.angle;
                let off = off - off.round();
                let costs = (off / OFF).powi(2).min(WRONG);
                let cost = path.cost + costs + SLIP * (count - before) as f64;
                if cost < next[count].cost {
                    let follows = if costs < WRONG { FOLLOWS * off } else { 0.0 };
                    next[count] = Path { cost, angle: path.angle + follows };
                    from[count] = before as u16;
                }
            }
        }
        came_from.push(from);
        paths = next;
    }
    let cheapest = (0..paths.len()).min_by(|&one, &other| paths[one].cost.total_cmp(&paths[other].cost));
    let mut count = cheapest.unwrap_or(0);
    let cost = paths[count].cost;
    let mut counts = vec![count];
    for from in came_from.iter().rev() {
        count = from[count] as usize;
        counts.push(count);
    }
    counts.reverse();
    (cost, counts)
}
