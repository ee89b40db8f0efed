//! Artificial drives drawn at random, whose truth is known, with noise on their service times: a fit to the first half
//! of the requests is scored on the second. `SEEKLESS_FITS` sets the number of drives; a long run has 50 or more.

#[path = "common/mod.rs"]
mod common;

use std::collections::BTreeMap;

use common::Lcg;
use seekless_core::{Extent, Nanos, Op};
use seekless_drive::disk::Drive;
use seekless_drive::fit::fit;
use seekless_drive::spec::{SeekCurve, Spec, find};
use seekless_drive::validate::{Fidelity, Measured, Think, compare, drive_as_measured};

/// Requests as in an extraction: random, near each other, and sequential.
fn requests(random: &mut Lcg, sectors: u64, many: usize) -> Vec<Measured> {
    let mut start = 0;
    let request = |_| {
        let length = 2 * (1 + random.below(8));
        start = match random.below(10) {
            0..5 => random.below(sectors - 64),
            5..8 => (start + random.below(12_000)).min(sectors - 64),
            _ => (start + length).min(sectors - 64),
        };
        let op = if random.below(3) == 0 { Op::Write } else { Op::Read };
        let think = Nanos::from_micros(10_000 + random.below(60_000));
        Measured { op, at: Extent::new(start, length), service: Nanos::ZERO, think }
    };
    (0..many).map(request).collect()
}

/// A value changed by at most `part` of it.
fn about(random: &mut Lcg, value: f64, part: f64) -> f64 {
    value * (1.0 + part * (random.below(2_001) as f64 / 1_000.0 - 1.0))
}

/// A drive as its data sheet has it, and the real one.
fn drawn(random: &mut Lcg) -> (Spec, Spec) {
    let names = [
        "quantum-atlas-10k-disksim",
        "seagate-cheetah-4lp-disksim",
        "seagate-cheetah-9lp-disksim",
        "hp-c3323a-disksim",
    ];
    let described = find(names[random.below(names.len() as u64) as usize]).unwrap();
    let mut real = described.clone();
    real.rpm = about(random, real.rpm, 0.003);
    let command = &mut real.command;
    for time in [
        &mut command.read_hit_after_read_us,
        &mut command.read_miss_after_read_us,
        &mut command.write_miss_after_write_us,
        &mut command.write_hit_after_read_us,
    ] {
        *time = about(random, *time, 0.3);
    }
    real.head_switch_us = about(random, real.head_switch_us, 0.1);
    if let SeekCurve::Table { points } = &mut real.seek {
        let by = 1.0 + 0.05 * (random.below(2_001) as f64 / 1_000.0 - 1.0);
        for (_, time) in points {
            *time *= by;
        }
    }
    // Typical errors of described skews: wrong by whole sectors, equal in zones described as equal.
    let mut errors: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    for zone in &mut real.zone {
        zone.offset = random.below(zone.sectors_per_track.into()) as f64;
        let key = (zone.track_skew as u64, zone.cylinder_skew as u64);
        let error = *errors.entry(key).or_insert_with(|| random.below(9) as f64 - 4.0);
        zone.cylinder_skew = (zone.cylinder_skew + error).max(0.0);
    }
    (described, real)
}

/// The fidelities before and after a fit: of the half that was fitted to, and of the other one.
fn score(seed: u64, many: usize) -> [(Fidelity, Fidelity); 2] {
    let mut random = Lcg(seed);
    let (described, real) = drawn(&mut random);
    let mut measured = requests(&mut random, described.sectors, many);
    let think = if random.below(2) == 0 { Think::Before } else { Think::After };
    let (mut drive, mut now) = (Drive::new(&real), Nanos::ZERO);
    for request in &mut measured {
        if think == Think::Before {
            now += request.think;
        }
        // Timed from outside, where an answer is seen late, one in fifty much so; the next request waits for it.
        let took = drive.serve(request.op, request.at, now, false).total().0;
        let late = random.below(80_000) + if random.below(50) == 0 { random.below(3_000_000) } else { 0 };
        request.service = Nanos((took + late) / 1_000 * 1_000);
        now += request.service;
        if think == Think::After {
            now += request.think;
        }
    }
    let half = many / 2;
    let fitted = fit(&described, &measured[..half], &mut |_| true);
    let of = |spec: &Spec, part: std::ops::Range<usize>| {
        let simulated = drive_as_measured(&mut Drive::new(spec), &measured[..part.end], fitted.think);
        compare(&simulated[part.clone()], &measured[part])
    };
    [0..half, half..many].map(|part| (of(&described, part.clone()), of(&fitted.spec, part)))
}

#[test]
fn fits_of_drawn_drives_are_near_on_the_half_that_they_have_not_seen() {
    let drives: u64 = std::env::var("SEEKLESS_FITS").map_or(3, |drives| drives.parse().unwrap());
    let mut shares = Vec::new();
    for seed in 1..=drives {
        let [(before, after), (_, unseen)] = score(seed, 10_000);
        // On the half that was fitted to, nothing gets worse; a share, by no more than what a bound on the whole costs.
        let mean = |fidelity: &Fidelity| (fidelity.mean_simulated_ms - fidelity.mean_measured_ms).abs();
        assert!(after.median_error_ms <= before.median_error_ms, "{seed}: {before:?} {after:?}");
        assert!(after.within_half_ms_pct > before.within_half_ms_pct - 1.0, "{seed}: {before:?} {after:?}");
        assert!(after.qq_rms_ms <= before.qq_rms_ms + 0.005, "{seed}: {before:?} {after:?}");
        assert!(mean(&after) <= mean(&before) + 0.005, "{seed}: {before:?} {after:?}");
        println!("drive {seed}: {:.1} % within 0.5 ms", unseen.within_half_ms_pct);
        shares.push(unseen.within_half_ms_pct);
    }
    shares.sort_by(f64::total_cmp);
    let (median, tenth) = (shares[shares.len() / 2], shares[shares.len() / 10]);
    println!("{drives} drives: median {median:.1} %, tenth percentile {tenth:.1} % within 0.5 ms");
    assert!(median > 88.0 && tenth > 80.0, "{shares:?}");
}
