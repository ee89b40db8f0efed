//! A wrong description is corrected by a real drive's service times.

use seekless_core::{Extent, Nanos, Op};
use seekless_drive::disk::Drive;
use seekless_drive::fit::{fit, phase::think_side};
use seekless_drive::spec::{Spec, WriteBack, Zone, find};
use seekless_drive::validate::{Measured, Think, compare, drive_as_measured};

/// Requests as in an extraction: random, near each other, and sequential.
fn requests(sectors: u64) -> Vec<Measured> {
    let mut random = 7_u64;
    let mut below = move |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(random) * u128::from(limit)) >> 64) as u64
    };
    let mut start = 0;
    let mut all = Vec::new();
    for _ in 0..8_000 {
        let length = 4 * (1 + below(4));
        start = match below(10) {
            0..5 => below(sectors - 64),
            5..8 => (start + below(12_000)).min(sectors - 64),
            _ => (start + length).min(sectors - 64),
        };
        let op = if below(3) == 0 { Op::Write } else { Op::Read };
        let think = Nanos::from_micros(15_000 + below(60_000));
        all.push(Measured { op, at: Extent::new(start, length), service: Nanos::ZERO, think });
    }
    all
}

/// Service times of a real drive of this kind, to the microsecond.
fn measure(spec: &Spec, requests: &mut [Measured], think: Think) {
    let took = drive_as_measured(&mut Drive::new(spec), requests, think);
    for (request, took) in requests.iter_mut().zip(took) {
        request.service = Nanos(took.0 / 1_000 * 1_000);
    }
}

/// The true drive, and its wrong description.
fn real_and_described() -> (Spec, Spec) {
    let mut described = find("quantum-atlas-10k").unwrap();
    described.cache.write_back = WriteBack::All;
    (described.bus.mb_s, described.bus.read_sector_us, described.bus.write_sector_us) =
        (None, Some(99.0), Some(99.0));
    let mut real = described.clone();
    real.rpm = 9_999.7;
    real.command.read_hit_after_read_us = 60.0;
    real.command.write_hit_after_write_us = 90.0;
    for (number, zone) in real.zone.iter_mut().enumerate() {
        zone.offset = (17 * number % 200) as f64 + 0.3;
        // Typical errors of described skews: wrong by whole sectors, equal in zones described as equal.
        zone.cylinder_skew += f64::from(zone.sectors_per_track % 11) - 2.0;
    }
    (real, described)
}

#[test]
fn a_wrong_speed_wrong_skews_and_wrong_overheads_are_found() {
    let (real, described) = real_and_described();
    let mut measured = requests(described.sectors);
    measure(&real, &mut measured, Think::Before);
    let half = measured.len() / 2;
    let second = |spec: &Spec| {
        let simulated = drive_as_measured(&mut Drive::new(spec), &measured, Think::Before);
        compare(&simulated[half..], &measured[half..])
    };
    let before = second(&described);
    let fitted = fit(&described, &measured[..half], &mut |_| true);
    let after = second(&fitted.spec);
    assert_eq!(fitted.think, Think::Before);
    assert!((fitted.spec.rpm - real.rpm).abs() < 0.1, "{}", fitted.spec.rpm);
    assert!(before.within_half_ms_pct < 80.0 && after.within_half_ms_pct > 96.0, "{before:?} {after:?}");
    assert!(after.median_error_ms < 0.02, "{after:?}");
    assert!(fitted.spec.source["zone"].starts_with("fitted: "), "{:?}", fitted.spec.source);
}

#[test]
fn the_side_of_think_times_is_found() {
    let (real, described) = real_and_described();
    for think in [Think::Before, Think::After] {
        let mut measured = requests(described.sectors);
        measure(&real, &mut measured, think);
        assert_eq!(think_side(&described, &measured), think);
    }
}

#[test]
fn a_zone_that_is_two_is_cut() {
    let (_, described) = real_and_described();
    let mut real = described.clone();
    // From the half of the largest zones on, tracks are displaced, as after an unlisted slip.
    real.zone.clear();
    for (zone, first) in described.zone.iter().zip(described.first_cylinders()) {
        let half = zone.cylinders / 2;
        let steps = f64::from(half) * (5.0 * zone.track_skew + zone.cylinder_skew) + 100.0;
        let offset = steps % f64::from(zone.sectors_per_track);
        let first = Some(first as u32);
        real.zone.push(Zone { first_cylinder: first, cylinders: half, ..zone.clone() });
        let rest = zone.cylinders - half;
        let first = first.map(|first| first + half);
        real.zone.push(Zone { first_cylinder: first, cylinders: rest, offset, ..zone.clone() });
    }
    let mut measured = requests(described.sectors);
    measure(&real, &mut measured, Think::After);
    let half = measured.len() / 2;
    let fitted = fit(&described, &measured[..half], &mut |_| true).spec;
    let simulated = drive_as_measured(&mut Drive::new(&fitted), &measured, Think::After);
    let after = compare(&simulated[half..], &measured[half..]);
    assert!(fitted.zone.len() > described.zone.len(), "{}", fitted.zone.len());
    let simulated = drive_as_measured(&mut Drive::new(&described), &measured, Think::After);
    let before = compare(&simulated[half..], &measured[half..]);
    assert!(after.within_half_ms_pct > before.within_half_ms_pct + 3.0, "{before:?} {after:?}");
}
