//! Coordinate descent: varies one figure after another, and keeps changes that reduce the cost.

use seekless_core::Nanos;
use seekless_core::runtime::has_to_end;

use super::knobs::{self, Knob, Turns};
use crate::disk::Drive;
use crate::spec::Spec;
use crate::validate::{Measured, Think, drive_as_measured};

/// Errors beyond this count as wrong, however large, in milliseconds.
const WRONG: f64 = 0.5;
/// Weight of an error's square.
const SQUARE: f64 = 0.06;
/// Rounds over all figures.
const ROUNDS: usize = 10;

/// Weight of each millisecond by which a model's mean, or the RMS of its sorted times, is farther from the real drive
/// than the description's.
const FARTHER: f64 = 10.0;

/// What a fit minimises: the errors of single requests, on condition that mean and distribution get no worse.
pub struct Objective<'a> {
    measured: &'a [Measured],
    think: Think,
    /// The real times, sorted, in milliseconds.
    sorted: Vec<f64>,
    /// The errors of the description: of the mean, and RMS of the sorted times, in milliseconds.
    most: (f64, f64),
    /// Weight of larger ones.
    farther: f64,
}

impl<'a> Objective<'a> {
    /// The objective of a fit of `described`: single requests only, before it is `bounded`.
    pub fn new(described: &Spec, measured: &'a [Measured], think: Think) -> Objective<'a> {
        let mut sorted: Vec<f64> = measured.iter().map(|request| millis(request.service)).collect();
        sorted.sort_by(f64::total_cmp);
        let mut objective = Objective { measured, think, sorted, most: (0.0, 0.0), farther: 0.0 };
        objective.most = objective.whole(&objective.simulated(described));
        objective
    }

    /// Whether a model's mean or distribution is farther from the real drive than the description's.
    pub fn is_farther(&self, spec: &Spec) -> bool {
        self.excess(&self.simulated(spec)) > 0.0
    }

    /// The same, with a cost for a mean and a distribution that are farther from the real drive.
    pub fn bounded(self) -> Objective<'a> {
        Objective { farther: FARTHER, ..self }
    }

    /// Milliseconds by which the mean and the sorted times are farther from the real drive than the description's.
    fn excess(&self, simulated: &[f64]) -> f64 {
        let (mean, sorted) = self.whole(simulated);
        (mean - self.most.0).max(0.0) + (sorted - self.most.1).max(0.0)
    }

    fn simulated(&self, spec: &Spec) -> Vec<f64> {
        let simulated = drive_as_measured(&mut Drive::new(spec), self.measured, self.think);
        simulated.into_iter().map(millis).collect()
    }

    /// Errors of the mean, and RMS of the sorted times, of simulated ones.
    fn whole(&self, simulated: &[f64]) -> (f64, f64) {
        let count = simulated.len().max(1) as f64;
        let mut ours = simulated.to_vec();
        ours.sort_unstable_by(f64::total_cmp);
        let off = || ours.iter().zip(&self.sorted).map(|(ours, real)| ours - real);
        (off().sum::<f64>().abs() / count, (off().map(|off| off * off).sum::<f64>() / count).sqrt())
    }

    /// Cost of a model: lower is better.
    pub fn cost(&self, spec: &Spec) -> f64 {
        let simulated = self.simulated(spec);
        let off = |(simulated, request): (&f64, &Measured)| {
            let off = (simulated - millis(request.service)).abs();
            off.min(WRONG) + SQUARE * (off * off).min(50.0)
        };
        let each =
            simulated.iter().zip(self.measured).map(off).sum::<f64>() / self.measured.len().max(1) as f64;
        if self.farther > 0.0 { each + self.farther * self.excess(&simulated) } else { each }
    }
}

fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

/// Sets every figure of `spec` to its best value; returns what changed. Ends early once `progress` returns false.
pub fn descend(spec: &mut Spec, objective: &Objective, progress: &mut dyn FnMut(f64) -> bool) -> Vec<String> {
    knobs::tabulate(spec);
    let before = spec.clone();
    let knobs = knobs::all(spec);
    let mut least = objective.cost(spec);
    'rounds: for round in 0..ROUNDS {
        let started = least;
        for (number, knob) in knobs.iter().enumerate() {
            if !progress((round * knobs.len() + number) as f64 / (ROUNDS * knobs.len()) as f64) {
                break 'rounds;
            }
            turn(spec, knob, objective, &mut least);
        }
        if started - least < 1e-4 {
            break;
        }
    }
    progress(1.0);
    changes(&before, spec)
}

/// The figures that differ: name, before, after.
pub fn changes(before: &Spec, after: &Spec) -> Vec<String> {
    let mut before = before.clone();
    knobs::tabulate(&mut before);
    let knobs = knobs::all(&before);
    let changed = knobs.iter().filter(|knob| (knob.get(after) - knob.get(&before)).abs() > 1e-9);
    changed.map(|knob| format!("{}: {:.3} -> {:.3}", knob.name, knob.get(&before), knob.get(after))).collect()
}

fn turn(spec: &mut Spec, knob: &Knob, objective: &Objective, least: &mut f64) {
    let mut try_at = |spec: &mut Spec, value: f64| {
        if has_to_end() {
            return false;
        }
        let mut tried = spec.clone();
        knob.set(&mut tried, value);
        let cost = objective.cost(&tried);
        // Figures without effect are left alone.
        let nearer = cost < *least - 1e-7;
        if nearer {
            (*spec, *least) = (tried, cost);
        }
        nearer
    };
    match &knob.turns {
        Turns::Choices(choices) => {
            for &choice in choices {
                if (choice - knob.get(spec)).abs() > 1e-9 {
                    try_at(spec, choice);
                }
            }
        }
        Turns::Steps(steps) => {
            for step in steps {
                for direction in [1.0, -1.0] {
                    let mut left = 8;
                    while left > 0 && try_at(spec, knob.get(spec) + direction * step) {
                        left -= 1;
                    }
                }
            }
        }
    }
}
