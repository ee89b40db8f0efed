//! Splits zones where their tracks are not in phase: changes that a description does not list (slipped tracks, a skew
//! changed half way) displace everything after them.
//!
//! All readings are compared with one clock, which needs a turn known to some parts in a million. A piece of a zone
//! whose readings disagree is split where the two parts agree most, until they do or too few are left. Each piece
//! becomes a zone with an offset of its own.

use super::phase::{Reading, Turn};
use super::skews::Steps;
use crate::spec::{Sparing, Spec, Zone};

/// Fewer readings prove nothing for a piece.
const ENOUGH: usize = 6;
/// Readings that agree this well need no cut.
const AGREES: f64 = 0.97;
/// A cut has to improve agreement by this part of the possible.
const GAIN: f64 = 0.03;

/// A reading's cylinder in its zone, and its direction.
type Direction = (u64, f64, f64);

/// `spec` with its zones split; `None` if no cut helps or it cannot be split.
pub fn cut(spec: &Spec, readings: &[Reading], turn: Turn) -> Option<Spec> {
    let steps = Steps::of(spec);
    let mut cut = spec.clone();
    cut.zone.clear();
    for (number, zone) in spec.zone.iter().enumerate() {
        let here = readings.iter().filter(|reading| reading.steps.zone == number);
        let mut directions: Vec<Direction> = here
            .map(|reading| {
                let turns = reading.begin / turn.time - steps[number].sectors(reading) / reading.per_track;
                let angle = std::f64::consts::TAU * turns.fract();
                (reading.steps.cylinders, libm::cos(angle), libm::sin(angle))
            })
            .collect();
        directions.sort_by_key(|one| one.0);
        let mut cuts = Vec::new();
        if can_be_cut(spec, zone) {
            find(&directions, range_of(spec), &mut cuts);
        }
        cuts.sort_unstable();
        let first = spec.first_cylinders()[number];
        cut.zone.extend(pieces(spec, zone, first, &cuts, &directions));
    }
    let same = cut.zone.len() == spec.zone.len();
    let holds = crate::disk::layout::capacity(&cut) == crate::disk::layout::capacity(spec);
    (!same && holds).then_some(cut)
}

fn can_be_cut(spec: &Spec, zone: &Zone) -> bool {
    let moved = zone.remaps.iter().any(|(from, to)| from != to);
    !moved && !matches!(spec.layout.sparing, Sparing::CylinderToEnd | Sparing::CylinderFrontToEnd)
}

/// Cuts lie between ranges.
fn range_of(spec: &Spec) -> u64 {
    if spec.layout.sparing == Sparing::Range { u64::from(spec.layout.range_cylinders) } else { 1 }
}

/// Length and angle, in turns, of the sum of directions.
fn sum(directions: &[Direction]) -> (f64, f64) {
    let (x, y) = directions.iter().fold((0.0, 0.0), |(x, y), one| (x + one.1, y + one.2));
    (libm::hypot(x, y), libm::atan2(y, x) / std::f64::consts::TAU)
}

fn find(directions: &[Direction], range: u64, cuts: &mut Vec<u64>) {
    let count = directions.len();
    let (whole, _) = sum(directions);
    if count < 2 * ENOUGH || whole / count as f64 >= AGREES {
        return;
    }
    let mut best = (0.0, 0, 0);
    for place in ENOUGH..=count - ENOUGH {
        let cylinder = directions[place].0 / range * range;
        // All readings of a cylinder lie on one side.
        let place = directions.partition_point(|one| one.0 < cylinder);
        if place < ENOUGH || count - place < ENOUGH {
            continue;
        }
        let apart = sum(&directions[..place]).0 + sum(&directions[place..]).0;
        if apart > best.0 {
            best = (apart, place, cylinder);
        }
    }
    let (apart, place, cylinder) = best;
    if place == 0 || (apart - whole) / (count as f64) < GAIN {
        return;
    }
    cuts.push(cylinder);
    find(&directions[..place], range, cuts);
    find(&directions[place..], range, cuts);
}

/// The zones that a zone is split into.
fn pieces(spec: &Spec, zone: &Zone, first: u64, cuts: &[u64], directions: &[Direction]) -> Vec<Zone> {
    let heads = f64::from(spec.heads);
    let most = f64::from(zone.sectors_per_track);
    // Slips count tracks or sectors from the zone's start.
    let unit = if spec.layout.sparing == Sparing::Tracks { 1 } else { u64::from(zone.sectors_per_track) };
    let per_cylinder = u64::from(spec.heads) * unit;
    let whole_zone = matches!(spec.layout.sparing, Sparing::Tracks | Sparing::Zone | Sparing::None);
    let starts: Vec<u64> = std::iter::once(0).chain(cuts.iter().copied()).collect();
    let mut spares_left = zone.spares;
    let mut made = Vec::new();
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(u64::from(zone.cylinders));
        let inside = |slip: &&u64| (start * per_cylinder..end * per_cylinder).contains(*slip);
        let slips: Vec<u64> =
            zone.slips.iter().filter(inside).map(|slip| slip - start * per_cylinder).collect();
        let last = end == u64::from(zone.cylinders);
        let spares = match () {
            () if !whole_zone => zone.spares,
            () if last => spares_left,
            () => (slips.len() as u32).min(spares_left),
        };
        spares_left -= spares.min(spares_left);
        let here = directions.iter().filter(|one| (start..end).contains(&one.0));
        let here: Vec<Direction> = here.copied().collect();
        let (length, off) = sum(&here);
        let off = if length > 0.0 { off } else { 0.0 };
        let ranges = if range_of(spec) > 1 { start / range_of(spec) } else { 0 };
        // Steps before the piece become a part of its offset.
        let before = start as f64 * ((heads - 1.0) * zone.track_skew + zone.cylinder_skew);
        let offset = zone.offset + before + ranges as f64 * zone.range_skew + off * most;
        made.push(Zone {
            first_cylinder: Some((first + start) as u32),
            cylinders: (end - start) as u32,
            offset: (offset.rem_euclid(most) * 1e4).round() / 1e4 % most,
            front: if index == 0 { zone.front } else { 0 },
            spares,
            slips,
            ..zone.clone()
        });
    }
    made
}
