//! Coordinate descent: varies one figure after another, and keeps changes that reduce the cost.

use seekless_core::Nanos;

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

/// Cost of a model compared with the real drive: lower is better.
pub fn cost(spec: &Spec, measured: &[Measured], think: Think) -> f64 {
    let mut drive = Drive::new(spec);
    let simulated = drive_as_measured(&mut drive, measured, think);
    let off = |(simulated, request): (&Nanos, &Measured)| {
        let off = (simulated.0 as f64 - request.service.0 as f64).abs() / 1e6;
        off.min(WRONG) + SQUARE * (off * off).min(50.0)
    };
    simulated.iter().zip(measured).map(off).sum::<f64>() / measured.len().max(1) as f64
}

/// Sets every figure of `spec` to its best value; returns what changed. Ends early once `progress` returns false.
pub fn descend(
    spec: &mut Spec,
    measured: &[Measured],
    think: Think,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Vec<String> {
    knobs::tabulate(spec);
    let before = spec.clone();
    let knobs = knobs::all(spec);
    let mut least = cost(spec, measured, think);
    'rounds: for round in 0..ROUNDS {
        let started = least;
        for (number, knob) in knobs.iter().enumerate() {
            if !progress((round * knobs.len() + number) as f64 / (ROUNDS * knobs.len()) as f64) {
                break 'rounds;
            }
            turn(spec, knob, measured, think, &mut least);
        }
        if started - least < 1e-4 {
            break;
        }
    }
    progress(1.0);
    let changed = knobs.iter().filter(|knob| (knob.get(spec) - knob.get(&before)).abs() > 1e-9);
    changed.map(|knob| format!("{}: {:.3} -> {:.3}", knob.name, knob.get(&before), knob.get(spec))).collect()
}

fn turn(spec: &mut Spec, knob: &Knob, measured: &[Measured], think: Think, least: &mut f64) {
    let mut try_at = |spec: &mut Spec, value: f64| {
        let mut tried = spec.clone();
        knob.set(&mut tried, value);
        let cost = cost(&tried, measured, think);
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
