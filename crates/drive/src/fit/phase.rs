//! Phase of the real drive's platter: a read miss ended when its last sector had passed, so its end, less the bus time,
//! gives the angle of its first sector.
//!
//! Two such readings are *in phase* if the time between them is that between their sectors' angles, modulo whole turns.
//! The *coherence* of many pairs is the length of the mean of their phase differences as directions: 1 if all agree,
//! near 0 if they are arbitrary.

use seekless_core::runtime::has_to_end;
use seekless_core::{Extent, Lba, Nanos, Op};

use crate::disk::Drive;
use crate::disk::layout::{Piece, Steps};
use crate::spec::{Spec, WriteBack};
use crate::validate::{Measured, Think};

/// Reads that took this much longer than a read hit were misses.
const SURELY_MEDIA: u64 = 1_200_000;
/// Most later readings paired with one.
const PARTNERS: usize = 150;
/// Fewer pairs prove nothing.
const ENOUGH: usize = 12;

/// Readings between two questions whether the work goes on.
const CHECKED: usize = 256;

/// A request that passed under the head.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// First sector; that of its last track, if it spans several.
    pub start: Lba,
    /// When its first sector began to pass, by the real clock, in nanoseconds.
    pub begin: f64,
    /// The steps of its angle.
    pub steps: Steps,
    /// Sectors per track.
    pub per_track: f64,
    /// Cylinder and head.
    pub track: (u64, u64),
    /// Angle by the description, in turns.
    pub angle: f64,
}

/// The read misses among the measured requests, if think times lie on that side.
pub fn readings(spec: &Spec, measured: &[Measured], think: Think) -> Vec<Reading> {
    passes(spec, measured, think, false)
}

/// As `readings`, with the writes that were acknowledged when they were on the media.
pub fn readings_and_writes(spec: &Spec, measured: &[Measured], think: Think) -> Vec<Reading> {
    passes(spec, measured, think, spec.cache.write_back == WriteBack::None)
}

fn passes(spec: &Spec, measured: &[Measured], think: Think, writes: bool) -> Vec<Reading> {
    let drive = Drive::new(spec);
    let (bus, _) = spec.bus_sector_us();
    let bus = bus * 1e3;
    let revolution = drive.mechanics().revolution().0 as f64;
    let hit = spec.command.read_hit_after_read_us.max(spec.command.read_hit_after_write_us) * 1e3;
    let mut now = Nanos::ZERO;
    let mut found = Vec::new();
    for request in measured {
        if think == Think::Before {
            now += request.think;
        }
        now += request.service;
        let sectors = request.at.sectors as f64;
        let off_media = request.service.0 as f64 > hit + sectors * bus + SURELY_MEDIA as f64;
        let passed = match request.op {
            Op::Read if off_media => Some(drive.layout().piece(request.at)),
            Op::Write if writes => Some(last_piece(&drive, request.at)),
            _ => None,
        };
        // A read that spans two tracks ends on the second, when the bus has all of it.
        let passed = passed.filter(|piece| request.op == Op::Write || piece.at.sectors == request.at.sectors);
        if let Some(piece) = passed {
            let took = match request.op {
                Op::Write => {
                    drive.mechanics().pass(piece.at.sectors, piece.per_track) as f64
                        + spec.command.write_completion_us * 1e3
                }
                _ => drive.passing_to_answer(piece.at.sectors, piece.per_track).0 as f64,
            };
            found.push(Reading {
                start: piece.at.start,
                begin: now.0 as f64 - took,
                steps: drive.layout().steps(piece.at.start),
                per_track: piece.per_track as f64,
                track: (piece.cylinder, piece.head),
                angle: piece.angle as f64 / revolution,
            });
        }
        if think == Think::After {
            now += request.think;
        }
    }
    found
}

/// The part of `at` on its last track.
fn last_piece(drive: &Drive, at: Extent) -> Piece {
    let mut piece = drive.layout().piece(at);
    while piece.at.end() < at.end() {
        let sectors = at.end().0 - piece.at.end().0;
        piece = drive.layout().piece(Extent { start: piece.at.end(), sectors });
    }
    piece
}

/// Two readings, the earlier one first.
pub type Pair = (Reading, Reading);

/// All pairs that are near enough in time and for which `filter` holds; none once the work has to end.
pub fn pairs(
    readings: &[Reading],
    longest_gap: f64,
    filter: impl Fn(&Reading, &Reading) -> bool,
) -> Vec<Pair> {
    let mut found = Vec::new();
    for (index, first) in readings.iter().enumerate() {
        if index % CHECKED == 0 && has_to_end() {
            return Vec::new();
        }
        let later = readings[index + 1..].iter().take(PARTNERS);
        let near = later.take_while(|second| second.begin - first.begin <= longest_gap);
        found.extend(near.filter(|second| filter(first, second)).map(|second| (*first, *second)));
    }
    found
}

/// Coherence of pairs, where `turns(pair)` is the expected difference in turns; and their mean phase difference in
/// turns.
pub fn coherence(pairs: &[Pair], turns: impl Fn(&Pair) -> f64) -> (f64, f64) {
    let (mut x, mut y) = (0.0, 0.0);
    for pair in pairs {
        let angle = std::f64::consts::TAU * turns(pair).fract();
        x += libm::cos(angle);
        y += libm::sin(angle);
    }
    let count = pairs.len().max(1) as f64;
    (libm::hypot(x, y) / count, libm::atan2(y, x) / std::f64::consts::TAU)
}

/// Phase difference of a pair in turns, for this turn and the described track offsets.
pub fn as_described(pair: &Pair, revolution: f64) -> f64 {
    let (first, second) = pair;
    (second.begin - first.begin) / revolution - (second.angle - first.angle)
}

/// The time of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Time in nanoseconds.
    pub time: f64,
    /// Coherence of the pairs that it was derived from.
    pub agrees: f64,
    /// The longest gap of coherent pairs, in nanoseconds.
    pub gap: f64,
}

/// Search steps: gap of pairs, relative search range, number of steps. The longer the gap, the more precise the turn.
/// At gaps of some seconds the numbers of turns are so large and so different that only one time of a wide range fits
/// them all.
const LOOKS: [(f64, f64, i32); 3] = [(3e9, 6e-3, 400), (12e9, 3e-4, 60), (40e9, 6e-5, 60)];

/// The time of a turn near the described one at which pairs for which `filter` holds are in phase; `turns` gives their
/// phase difference.
pub fn revolution(
    readings: &[Reading],
    described: f64,
    filter: impl Fn(&Reading, &Reading) -> bool,
    turns: impl Fn(&Pair, f64) -> f64,
) -> Turn {
    let mut best = Turn { time: described, agrees: 0.0, gap: 0.0 };
    for (gap, width, steps) in LOOKS {
        let pairs = pairs(readings, gap, &filter);
        if pairs.len() < ENOUGH {
            continue;
        }
        let mut here = Turn { time: best.time, agrees: -1.0, gap };
        for step in (-steps..=steps).take_while(|_| !has_to_end()) {
            let time = best.time * (1.0 + width * f64::from(step) / f64::from(steps));
            let (agrees, off) = coherence(&pairs, |pair| turns(pair, time));
            let agrees = agrees * libm::cos(std::f64::consts::TAU * off);
            if agrees > here.agrees {
                here = Turn { time, agrees, gap };
            }
        }
        if here.agrees < 0.8 * best.agrees {
            break;
        }
        best = Turn { agrees: best.agrees.max(here.agrees), ..here };
    }
    best
}

/// The time of a turn by readings of the same cylinder, where the description is most reliable.
pub fn described_revolution(readings: &[Reading], described: f64) -> Turn {
    revolution(readings, described, |first, second| first.track.0 == second.track.0, as_described)
}

/// On which side of a request its think time lies: that on which readings of a cylinder agree.
pub fn think_side(spec: &Spec, measured: &[Measured]) -> Think {
    let described = Drive::new(spec).mechanics().revolution().0 as f64;
    let agrees = |think| described_revolution(&readings(spec, measured, think), described).agrees;
    if agrees(Think::Before) > agrees(Think::After) { Think::Before } else { Think::After }
}
