//! The model against real drives: as close as DiskSim, from the same files. Skipped where these are missing.

use std::path::Path;

use seekless_core::{Extent, Nanos};
use seekless_drive::disk::Drive;
use seekless_drive::disk::mechanics::Head;
use seekless_drive::import::disksim;
use seekless_drive::validate::{Fidelity, Think, compare, drive_as_measured};

#[path = "common/measured.rs"]
mod trace;

use trace::{measured, shared};

fn fidelity(folder: &Path, name: &str) -> Fidelity {
    let spec = disksim(&folder.join(format!("{name}.parv")), name).unwrap().spec;
    let measured = measured(&folder.join(format!("{name}.trace")));
    let simulated = drive_as_measured(&mut Drive::new(&spec), &measured, Think::After);
    compare(&simulated, &measured)
}

#[allow(clippy::approx_constant)] // one of them looks like 1 over pi
/// QQ RMS and share within half a millisecond, as given by DiskSim 4.0 for the same files.
const DISKSIM: [(&str, f64, f64); 5] = [
    ("atlas10k", 0.268, 59.8),
    ("cheetah4LP", 0.3180, 59.8),
    ("cheetah9LP", 0.108, 58.3),
    ("hp_c2247a", 0.093, 95.1),
    ("hp_c3323a", 0.288, 30.9),
];

#[test]
fn the_files_say_as_much_here_as_in_disksim() {
    let Some(folder) = shared() else { return };
    for (name, qq_rms_ms, within_half_ms_pct) in DISKSIM {
        let ours = fidelity(&folder, name);
        assert!(ours.qq_rms_ms <= qq_rms_ms + 0.02, "{name}: {ours:?}");
        assert!(ours.within_half_ms_pct >= within_half_ms_pct - 0.2, "{name}: {ours:?}");
    }
}

#[test]
fn components_are_those_of_disksim() {
    let Some(folder) = shared() else { return };
    // Seek, rotation, transfer in milliseconds: DiskSim's of random requests of 4 KiB, caching off.
    for (name, components) in [
        ("atlas10k", [5.698, 2.984, 0.186]),
        ("cheetah4LP", [7.872, 2.978, 0.308]),
        ("cheetah9LP", [5.547, 2.982, 0.305]),
    ] {
        let spec = disksim(&folder.join(format!("{name}.parv")), name).unwrap().spec;
        let drive = Drive::new(&spec);
        let (layout, mechanics) = (drive.layout(), drive.mechanics());
        let (mut now, mut head, mut random) = (Nanos::ZERO, Head::default(), 1_u64);
        let mut sums = [0, 0, 0];
        let requests = 100_000;
        for _ in 0..requests {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let lba = ((u128::from(random) * u128::from(spec.sectors - 8)) >> 64) as u64 / 8 * 8;
            let (at, write) = (Extent::new(lba, 8), random % 3 == 0);
            // There, the time of a second track counts as transfer.
            let first = mechanics.access(layout, head, now, layout.piece(at).at, write).0;
            let (took, there) = mechanics.access(layout, head, now, at, write);
            let transfer = took.total() - first.seek - first.rotation;
            for (sum, part) in sums.iter_mut().zip([first.seek, first.rotation, transfer]) {
                *sum += part.0;
            }
            (now, head) = (now + took.total(), there);
        }
        // Theirs are of 10,000 requests: the few that cross a track leave the transfer uncertain by 1.3 %.
        let means = sums.map(|sum| sum as f64 / f64::from(requests) / 1e6);
        for ((ours, theirs), within) in means.iter().zip(components).zip([0.01, 0.01, 0.03]) {
            assert!((ours / theirs - 1.0).abs() < within, "{name}: {ours} ms, DiskSim {theirs} ms");
        }
    }
}
