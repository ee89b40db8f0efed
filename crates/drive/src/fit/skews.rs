//! Track offsets: skews and offsets of each zone, fitted so that readings of all its tracks are in phase.
//!
//! Steps are fitted in the order in which they can be distinguished: from head to head on one cylinder, from cylinder
//! to cylinder nearby, then ever farther (an error of a step grows with the distance, so far cylinders determine it
//! more precisely but only when it is nearly right), from range to range, from zone to zone.

use seekless_core::runtime::has_to_end;

use super::phase::{self, Pair, Reading, Turn, coherence, pairs};
use crate::spec::{Sparing, Spec};

/// Fewer pairs prove nothing.
const ENOUGH: usize = 6;
/// By how much the farthest value has to be better than the described one.
const PRIOR: f64 = 0.2;
/// Less coherent pairs prove nothing.
const AGREES: f64 = 0.35;

/// A zone's steps, in sectors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps {
    offset: f64,
    head: f64,
    /// From a cylinder to the next, with all heads between.
    cylinder: f64,
    range: f64,
    /// Head steps per cylinder.
    heads: f64,
}

/// Alternations between fitting the turn and the skews.
const ROUNDS: usize = 3;

/// Fits the turn and the skews of `spec`, starting from a turn of `described` nanoseconds.
pub fn fit(spec: &mut Spec, readings: &[Reading], described: f64) -> Turn {
    let mut zones = Steps::of(spec);
    let by_range = spec.layout.sparing == Sparing::Range;
    let groups = alike(spec);
    let on_track = |first: &Reading, second: &Reading| first.track == second.track;
    let mut turn = phase::revolution(readings, described, on_track, phase::as_described);
    if turn.agrees < AGREES {
        turn = phase::described_revolution(readings, described);
    }
    for round in 0..ROUNDS {
        for group in &groups {
            let here = readings.iter().filter(|reading| group.contains(&reading.steps.zone));
            let here: Vec<Reading> = here.copied().collect();
            let mut common = zones[group[0]];
            fit_zones(&mut common, &here, turn, by_range);
            for &number in group {
                zones[number] = Steps { offset: zones[number].offset, ..common };
            }
        }
        let apart = if round == 0 { 0 } else { 40 };
        let near = |first: &Reading, second: &Reading| {
            first.steps.zone == second.steps.zone
                && first.steps.cylinders.abs_diff(second.steps.cylinders) <= apart
        };
        let finer = phase::revolution(readings, turn.time, near, |pair, time| {
            turns(pair, &zones[pair.0.steps.zone], &zones[pair.1.steps.zone], time)
        });
        if finer.agrees >= turn.agrees - 0.1 {
            turn = finer;
        }
    }
    put(spec, zones, readings, turn);
    turn
}

/// Refines the skews alone, which are nearly right, of each zone for itself.
pub fn refine(spec: &mut Spec, readings: &[Reading], turn: Turn) {
    let mut zones = Steps::of(spec);
    let by_range = spec.layout.sparing == Sparing::Range;
    for (number, steps) in zones.iter_mut().enumerate() {
        let here = readings.iter().filter(|reading| reading.steps.zone == number);
        let here: Vec<Reading> = here.copied().collect();
        fit_zones(steps, &here, turn, by_range);
    }
    put(spec, zones, readings, turn);
}

fn put(spec: &mut Spec, mut zones: Vec<Steps>, readings: &[Reading], turn: Turn) {
    let heads = f64::from(spec.heads);
    spec.rpm = 60e9 / turn.time;
    offsets(&mut zones, readings, turn);
    for (zone, steps) in spec.zone.iter_mut().zip(zones) {
        let most = f64::from(zone.sectors_per_track);
        let within = |sectors: f64| (sectors.rem_euclid(most) * 1e4).round() / 1e4 % most;
        zone.offset = within(steps.offset);
        zone.track_skew = within(steps.head);
        zone.cylinder_skew = within(steps.cylinder - (heads - 1.0) * steps.head);
        zone.range_skew = within(steps.range);
    }
}

impl Steps {
    /// The steps of each zone.
    pub fn of(spec: &Spec) -> Vec<Steps> {
        let heads = f64::from(spec.heads) - 1.0;
        let steps = |zone: &crate::spec::Zone| Steps {
            offset: zone.offset,
            head: zone.track_skew,
            cylinder: zone.cylinder_skew + heads * zone.track_skew,
            range: zone.range_skew,
            heads,
        };
        spec.zone.iter().map(steps).collect()
    }

    /// The angle of a reading's sector, in sectors.
    pub fn sectors(&self, reading: &Reading) -> f64 {
        let cylinders = reading.steps.cylinders as f64;
        self.offset
            + (reading.steps.heads as f64 - self.heads * cylinders) * self.head
            + cylinders * self.cylinder
            + reading.steps.ranges as f64 * self.range
            + reading.steps.sectors as f64
    }
}

/// Phase difference of a pair, in turns.
fn turns(pair: &Pair, first: &Steps, second: &Steps, revolution: f64) -> f64 {
    let (one, other) = pair;
    (other.begin - one.begin) / revolution - second.sectors(other) / other.per_track
        + first.sectors(one) / one.per_track
}

/// Groups of zones described with equal sectors per track and equal skews: a drive may be split into more zones than it
/// has.
fn alike(spec: &Spec) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (number, zone) in spec.zone.iter().enumerate() {
        let key = |zone: &crate::spec::Zone| {
            (zone.sectors_per_track, zone.track_skew.to_bits(), zone.cylinder_skew.to_bits())
        };
        match groups.iter_mut().find(|group| key(&spec.zone[group[0]]) == key(zone)) {
            Some(group) => group.push(number),
            None => groups.push(vec![number]),
        }
    }
    groups
}

fn fit_zones(steps: &mut Steps, readings: &[Reading], turn: Turn, by_range: bool) {
    let Some(per_track) = readings.first().map(|reading| reading.per_track) else { return };
    // None between zones.
    let cylinders = |first: &Reading, second: &Reading| {
        if first.steps.zone == second.steps.zone {
            first.steps.cylinders.abs_diff(second.steps.cylinders)
        } else {
            u64::MAX
        }
    };
    let same_range =
        |first: &Reading, second: &Reading| !by_range || first.steps.ranges == second.steps.ranges;
    let heads = pairs(readings, turn.gap, |first, second| {
        cylinders(first, second) == 0 && first.track.1 != second.track.1
    });
    search(steps, &heads, turn.time, (per_track, 0.1), |steps, value| steps.head = value, |steps| steps.head);
    for (farthest, width, step) in spreads(per_track) {
        let near = pairs(readings, turn.gap, |first, second| {
            (1..=farthest).contains(&cylinders(first, second)) && same_range(first, second)
        });
        let set = |steps: &mut Steps, value| steps.cylinder = value;
        search(steps, &near, turn.time, (width, step), set, |steps| steps.cylinder);
    }
    if !by_range {
        return;
    }
    for (farthest, width, step) in spreads(per_track) {
        let near = pairs(readings, turn.gap, |first, second| {
            let apart = first.steps.ranges.abs_diff(second.steps.ranges);
            cylinders(first, second) != u64::MAX && (1..=farthest).contains(&apart)
        });
        search(
            steps,
            &near,
            turn.time,
            (width, step),
            |steps, value| steps.range = value,
            |steps| steps.range,
        );
    }
}

/// Distances of cylinders, search widths, and precisions, from coarse to fine.
fn spreads(per_track: f64) -> [(u64, f64, f64); 7] {
    let spread = |farthest: u64, width: f64| (farthest, width, per_track / (24.0 * farthest as f64));
    [
        spread(1, per_track),
        spread(2, per_track / 4.0),
        spread(6, per_track / 8.0),
        spread(20, per_track / 20.0),
        spread(70, per_track / 60.0),
        spread(250, per_track / 200.0),
        spread(2_000, per_track / 800.0),
    ]
}

/// Sets a step to the value, within half of `width` around the current one, at which pairs agree best.
fn search(
    steps: &mut Steps,
    pairs: &[Pair],
    revolution: f64,
    (width, step): (f64, f64),
    set: impl Fn(&mut Steps, f64),
    get: impl Fn(&Steps) -> f64,
) {
    if pairs.len() < ENOUGH {
        return;
    }
    let center = get(steps);
    let count = (width / 2.0 / step).ceil() as i32;
    let mut best = (center, 0.0);
    for number in (-count..=count).take_while(|_| !has_to_end()) {
        let mut tried = *steps;
        set(&mut tried, center + f64::from(number) * step);
        let (agrees, off) = coherence(pairs, |pair| turns(pair, &tried, &tried, revolution));
        // Pairs that agree with each other but not with the clock are off by a whole step. Of two values that are about
        // as good the one nearer to the description is likelier.
        let far = f64::from(number.abs()) / f64::from(count.max(1));
        let agrees = agrees * libm::cos(std::f64::consts::TAU * off) - PRIOR * far;
        if agrees > best.1 {
            best = (get(&tried), agrees);
        }
    }
    if best.1 >= AGREES {
        set(steps, best.0);
    }
}

/// Aligns zones with each other, beginning with those that have most pairs with aligned ones.
fn offsets(zones: &mut [Steps], readings: &[Reading], turn: Turn) {
    let all = pairs(readings, turn.gap, |first, second| first.steps.zone != second.steps.zone);
    let mut seen = vec![0_usize; zones.len()];
    for reading in readings {
        seen[reading.steps.zone] += 1;
    }
    let Some(start) = (0..zones.len()).max_by_key(|&zone| seen[zone]) else { return };
    let mut placed = vec![false; zones.len()];
    placed[start] = true;
    loop {
        let common = |zone: usize| {
            let joins = |pair: &&Pair| {
                let (one, other) = (pair.0.steps.zone, pair.1.steps.zone);
                (one == zone && placed[other]) || (other == zone && placed[one])
            };
            all.iter().filter(joins).copied().collect::<Vec<Pair>>()
        };
        let next = (0..zones.len()).filter(|&zone| !placed[zone]).max_by_key(|&zone| common(zone).len());
        let Some(zone) = next else { return };
        let pairs = common(zone);
        placed[zone] = true;
        if pairs.len() < ENOUGH {
            continue;
        }
        // Seen from the zone's side, whichever of the two came first.
        let signed = |pair: &Pair| {
            let turns = turns(pair, &zones[pair.0.steps.zone], &zones[pair.1.steps.zone], turn.time);
            if pair.1.steps.zone == zone { turns } else { -turns }
        };
        let (agrees, off) = coherence(&pairs, signed);
        if agrees >= AGREES {
            let per_track = pairs
                .iter()
                .find_map(|pair| [pair.0, pair.1].into_iter().find(|reading| reading.steps.zone == zone));
            zones[zone].offset += off * per_track.map_or(0.0, |reading| reading.per_track);
        }
    }
}
