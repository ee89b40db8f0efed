//! Corrects clock breaks between readings far apart in time.
//!
//! A trace may have been measured in pieces: the time between two of them is not recorded. Readings of one track show
//! where such a break is and by what part of a turn the clock is wrong after it; and the longer the time between them,
//! the more precise the turn.

use std::f64::consts::TAU;

use super::phase::{Reading, Turn};

/// Most pairs used.
const PAIRS: usize = 4_000;
/// Fewer pairs over a break prove nothing.
const ENOUGH: usize = 12;
/// A break increases the agreement of all pairs by at least this.
const GAIN: f64 = 0.06;
/// Pairs over a break agree at least this well.
const AGREES: f64 = 0.6;
/// Search range around the known turn, and number of steps.
const WIDTH: f64 = 3e-5;
const STEPS: i32 = 40;
/// Places tried before the best is examined closely.
const PLACES: usize = 60;
/// The most breaks of a trace.
const BREAKS: usize = 4;

/// Two readings of a track, by their numbers, with their differences in time and angle.
struct Pair {
    numbers: (usize, usize),
    time: f64,
    sectors: f64,
}

impl Pair {
    fn direction(&self, turn: f64) -> (f64, f64) {
        let angle = TAU * (self.time / turn - self.sectors).fract();
        (libm::cos(angle), libm::sin(angle))
    }

    fn crosses(&self, place: usize) -> bool {
        self.numbers.0 < place && place <= self.numbers.1
    }
}

/// A break of the clock, the turn's time with it, and how many pairs then agree.
#[derive(Clone, Copy, Debug)]
struct Break {
    /// The reading after the break.
    place: usize,
    turn: f64,
    agreeing: f64,
}

/// Corrects the clock of `readings`, which are in order of time, after each break; returns the time of a turn.
pub fn set(readings: &mut [Reading], turn: Turn) -> f64 {
    let mut time = turn.time;
    for _ in 0..BREAKS {
        let pairs = of_one_track(readings);
        let (finer, agreeing) = finest(&pairs, time, None);
        let least = agreeing + GAIN * pairs.len() as f64;
        let found = find(&pairs, readings.len(), time).filter(|found| found.agreeing > least);
        let late = found.and_then(|found| late(&pairs, found));
        let (Some(found), Some(late)) = (found, late) else { return finer };
        for reading in &mut readings[found.place..] {
            reading.begin -= late;
        }
        time = found.turn;
    }
    time
}

/// How late the clock is after a break, if the pairs over it agree.
fn late(pairs: &[Pair], found: Break) -> Option<f64> {
    let crossing: Vec<&Pair> = pairs.iter().filter(|pair| pair.crosses(found.place)).collect();
    let directions = crossing.iter().map(|pair| pair.direction(found.turn));
    let (x, y) = directions.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let agree = crossing.len() >= ENOUGH && libm::hypot(x, y) >= AGREES * crossing.len() as f64;
    agree.then(|| libm::atan2(y, x) / TAU * found.turn)
}

fn of_one_track(readings: &[Reading]) -> Vec<Pair> {
    let mut order: Vec<usize> = (0..readings.len()).collect();
    order.sort_by_key(|&number| (readings[number].track, number));
    let mut pairs = Vec::new();
    for (index, &one) in order.iter().enumerate() {
        let same =
            order[index + 1..].iter().take_while(|&&other| readings[other].track == readings[one].track);
        pairs.extend(same.map(|&other| Pair {
            numbers: (one, other),
            time: readings[other].begin - readings[one].begin,
            sectors: (readings[other].steps.sectors as f64 - readings[one].steps.sectors as f64)
                / readings[one].per_track,
        }));
    }
    let each = pairs.len().div_ceil(PAIRS).max(1);
    pairs.into_iter().step_by(each).collect()
}

/// How many pairs agree with a break at a place, or without one.
fn agreeing(pairs: &[Pair], turn: f64, place: Option<usize>) -> f64 {
    let (mut sum, mut x, mut y) = (0.0, 0.0, 0.0);
    for pair in pairs {
        let direction = pair.direction(turn);
        if place.is_some_and(|place| pair.crosses(place)) {
            (x, y) = (x + direction.0, y + direction.1);
        } else {
            sum += direction.0;
        }
    }
    sum + libm::hypot(x, y)
}

/// The turn's time near `around` at which most pairs agree, and how many.
fn finest(pairs: &[Pair], around: f64, place: Option<usize>) -> (f64, f64) {
    let tried = (-STEPS..=STEPS).map(|step| {
        let turn = around * (1.0 + WIDTH * f64::from(step) / f64::from(STEPS));
        (turn, agreeing(pairs, turn, place))
    });
    tried.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or((around, 0.0))
}

/// The break with which most pairs agree.
fn find(pairs: &[Pair], readings: usize, around: f64) -> Option<Break> {
    let every = (readings / PLACES).max(1);
    let coarse = (1..readings).step_by(every).map(|place| {
        let (turn, agreeing) = finest(pairs, around, Some(place));
        Break { place, turn, agreeing }
    });
    let best = |one: &Break, other: &Break| one.agreeing.total_cmp(&other.agreeing);
    let Break { place, turn, .. } = coarse.max_by(best)?;
    let close = place.saturating_sub(every).max(1)..(place + every).min(readings);
    let close = close.map(|place| Break { place, turn, agreeing: agreeing(pairs, turn, Some(place)) });
    close.max_by(best)
}
