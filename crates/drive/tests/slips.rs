//! Unlisted slipped tracks are found from the real drive's service times, also across a break of the clock. Skipped
//! where measured drives are missing.

use seekless_core::{Extent, Nanos, Op};
use seekless_drive::disk::Drive;
use seekless_drive::fit::fit;
use seekless_drive::import::disksim;
use seekless_drive::spec::{Spec, find};
use seekless_drive::validate::{Fidelity, Measured, Think, compare, drive_as_measured};

#[path = "common/measured.rs"]
mod trace;

/// Here and there, some near each other, writes among them.
fn requests(sectors: u64) -> Vec<Measured> {
    let mut random = 11_u64;
    let mut below = move |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(random) * u128::from(limit)) >> 64) as u64
    };
    let mut start = 0;
    let request = |_| {
        start = if below(3) == 0 { below(sectors - 64) } else { (start + below(3_000)).min(sectors - 64) };
        let op = if below(3) == 0 { Op::Write } else { Op::Read };
        let think = Nanos::from_micros(5_000 + below(20_000));
        Measured { op, at: Extent::new(start, 1 + below(16)), service: Nanos::ZERO, think }
    };
    (0..8_000).map(request).collect()
}

/// The model's error for the half that the fit has not seen.
fn second_half(spec: &Spec, measured: &[Measured]) -> Fidelity {
    let half = measured.len() / 2;
    let simulated = drive_as_measured(&mut Drive::new(spec), measured, Think::After);
    compare(&simulated[half..], &measured[half..])
}

/// Number of tracks within a distance of one of `slips`.
fn near(tracks: &[u64], slips: &[u64], within: u64) -> usize {
    tracks.iter().filter(|track| slips.iter().any(|slip| slip.abs_diff(**track) <= within)).count()
}

#[test]
fn slipped_tracks_are_found_after_a_break_of_the_clock() {
    let described = find("hp-c3323a-disksim").unwrap();
    let mut real = described.clone();
    real.rpm += 0.5;
    for (number, zone) in real.zone.iter_mut().enumerate() {
        let tracks = u64::from(zone.cylinders * described.heads);
        zone.slips = (1..6).map(|part| part * tracks / 7 + 3 * number as u64).collect();
        zone.track_skew -= 1.0;
        zone.cylinder_skew -= 1.0;
    }
    let mut measured = requests(described.sectors);
    let took = drive_as_measured(&mut Drive::new(&real), &measured, Think::After);
    for (request, took) in measured.iter_mut().zip(took) {
        request.service = took;
    }
    // The pause of the measurement was not recorded: four tenths of a turn are missing.
    measured[3_000].think = Nanos(measured[3_000].think.0 - 4_400_000);
    let fitted = fit(&described, &measured[..4_000], &mut |_| true).spec;
    for (found, real) in fitted.zone.iter().zip(&real.zone) {
        assert_eq!(near(&found.slips, &real.slips, 30), 5, "{:?}, not {:?}", found.slips, real.slips);
        assert_eq!(found.slips.len(), 5, "{:?}, not {:?}", found.slips, real.slips);
        assert!((found.track_skew - real.track_skew).abs() < 0.3, "{}", found.track_skew);
    }
    let (before, after) = (second_half(&described, &measured), second_half(&fitted, &measured));
    assert!(before.within_half_ms_pct < 30.0 && after.within_half_ms_pct > 90.0, "{before:?} {after:?}");
}

fn drive(name: &str) -> Option<(Spec, Vec<Measured>)> {
    let folder = trace::shared()?;
    let spec = disksim(&folder.join(format!("{name}.parv")), name).unwrap().spec;
    Some((spec, trace::measured(&folder.join(format!("{name}.trace")))))
}

#[test]
fn listed_slips_are_found_without_the_list() {
    let Some((listed, measured)) = drive("hp_c2247a") else { return };
    let mut described = listed.clone();
    for zone in &mut described.zone {
        zone.slips.clear();
    }
    let fitted = fit(&described, &measured[..measured.len() / 2], &mut |_| true).spec;
    let (mut found, mut right, mut all) = (0, 0, 0);
    for (fitted, listed) in fitted.zone.iter().zip(&listed.zone) {
        found += fitted.slips.len();
        right += near(&fitted.slips, &listed.slips, 25);
        all += listed.slips.len();
    }
    // Those at the end of a zone, with few requests after them, are not.
    assert!(found == right && right * 4 > all * 3, "{right} right ones of {found}, {all} are listed");
    let after = second_half(&fitted, &measured);
    assert!(after.within_half_ms_pct > 94.0, "{after:?}");
}

#[test]
fn a_drive_whose_file_lists_none_is_near() {
    let Some((described, measured)) = drive("hp_c3323a") else { return };
    let fitted = fit(&described, &measured[..measured.len() / 2], &mut |_| true).spec;
    let after = second_half(&fitted, &measured);
    assert!(after.within_half_ms_pct > 85.0 && after.median_error_ms < 0.12, "{after:?}");
}
