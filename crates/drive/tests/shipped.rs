//! Every shipped drive compared with published values; and our own service times, pinned.

mod common;

use std::fmt::Write;

use common::Lcg;
use proptest::prelude::*;
use seekless_core::{Extent, Lba, Nanos, Op, SECTOR_BYTES};
use seekless_drive::Model;
use seekless_drive::disk::Drive;
use seekless_drive::flash::Flash;
use seekless_drive::spec::{disks, find, shipped};

/// Published values: average seek in ms; sequential MB/s of the first and the last tracks.
struct Published {
    name: &'static str,
    seek_ms: Option<f64>,
    first_mb_s: Option<f64>,
    last_mb_s: Option<f64>,
}

const fn published(
    name: &'static str,
    seek_ms: f64,
    first_mb_s: Option<f64>,
    last_mb_s: Option<f64>,
) -> Published {
    Published { name, seek_ms: Some(seek_ms), first_mb_s, last_mb_s }
}

/// The sources are in the drives' files. Drives with extracted seeks follow the measurements, which may differ from
/// published values: on the Atlas 10K by a tenth.
const PUBLISHED: [Published; 15] = [
    published("fujitsu-mhz2120bh", 12.0, Some(51.0), None),
    published("hgst-ultrastar-7k8-8tb", 7.4, Some(255.0), None),
    published("ibm-ultrastar-9es", 7.0, None, None),
    published("maxtor-6l020j1", 8.5, None, None),
    published("maxtor-6l020l1", 8.5, None, None),
    published("seagate-cheetah-15k5", 3.6, Some(125.0), Some(73.0)),
    published("seagate-cheetah-18lp", 5.2, None, None),
    published("seagate-cheetah-4lp", 7.7, None, None),
    published("seagate-cheetah-9lp", 5.4, None, None),
    Published { name: "seagate-exos-x20-20tb", seek_ms: None, first_mb_s: Some(285.0), last_mb_s: None },
    published("seagate-st2000dm006", 8.5, Some(210.0), None),
    published("wd-re3-1tb", 7.5, Some(113.0), None),
    published("wd2500aaks", 8.9, None, None),
    published("wd360gd", 5.2, None, None),
    published("wd6400aaks", 8.9, None, None),
];

fn drive(name: &str) -> Drive {
    Drive::new(&find(name).unwrap())
}

/// MB/s of a long read in sequence from `start` on.
fn stream(name: &str, start: u64) -> f64 {
    let (mut drive, mut now) = (drive(name), Nanos(0));
    let (each, requests) = (256, 4_000);
    for i in 0..requests {
        now += drive.serve(Op::Read, Extent::new(start + i * each, each), now, false).total();
    }
    (requests * each * SECTOR_BYTES) as f64 / now.seconds() / 1e6
}

/// Mean seek of reads at random sectors, in ms.
fn mean_seek(name: &str) -> f64 {
    let mut drive = drive(name);
    let (mut rng, mut now, mut seek) = (Lcg(1), Nanos(0), Nanos(0));
    let (end, n) = (drive.layout().sectors() - 8, 40_000);
    for _ in 0..n {
        let took = drive.serve(Op::Read, Extent::new(rng.below(end), 8), now, false);
        seek += took.seek;
        now += took.total();
    }
    seek.0 as f64 / f64::from(n) / 1e6
}

#[test]
fn random_seeks_take_as_long_as_published() {
    for drive in PUBLISHED {
        let Some(expected) = drive.seek_ms else { continue };
        let found = mean_seek(drive.name);
        println!("{}: {found:.3} ms, published {expected} ms", drive.name);
        assert!((found / expected - 1.0).abs() < 0.03, "{}: {found:.3} for {expected} ms", drive.name);
    }
}

#[test]
fn sequences_stream_as_fast_as_published() {
    for drive in PUBLISHED {
        let sectors = find(drive.name).unwrap().sectors;
        let ends = [(drive.first_mb_s, 0), (drive.last_mb_s, sectors - 1_100_000)];
        for (expected, start) in ends {
            let Some(expected) = expected else { continue };
            let found = stream(drive.name, start);
            println!("{}: {found:.1} MB/s at {start}, published {expected} MB/s", drive.name);
            assert!((found / expected - 1.0).abs() < 0.04, "{}: {found:.1}, not {expected} MB/s", drive.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn places_and_sectors_are_inverses_on_every_drive(seed in any::<u64>()) {
        for name in disks() {
            let drive = drive(name);
            let layout = drive.layout();
            let mut rng = Lcg(seed);
            let ends = [0, layout.sectors() - 1];
            for lba in (0..32).map(|_| rng.below(layout.sectors())).chain(ends) {
                prop_assert_eq!(layout.lba(layout.position(Lba(lba))), Some(Lba(lba)), "{} {}", name, lba);
            }
        }
    }
}

/// Service times of 1,000 requests: all of them in ns, and a hash of each.
fn pinned(name: &str) -> (u64, u64) {
    match Model::find(name).unwrap() {
        Model::Disk(spec) => {
            let mut drive = Drive::new(&spec);
            let end = drive.layout().sectors();
            times(end, |op, at, now, queued| drive.serve(op, at, now, queued).total())
        }
        Model::Flash(spec) => {
            let mut drive = Flash::new(&spec);
            times(spec.sectors, |op, at, now, fua| drive.serve(op, at, now, fua).total())
        }
    }
}

fn times(sectors: u64, mut serve: impl FnMut(Op, Extent, Nanos, bool) -> Nanos) -> (u64, u64) {
    let (mut rng, mut next, mut hash, mut all) = (Lcg(7), 0, 0xcbf2_9ce4_8422_2325_u64, 0);
    let (mut now, end) = (Nanos(0), sectors - 512);
    for i in 0..1_000 {
        let sectors = [1, 8, 8, 8, 16, 64, 128, 512][rng.below(8) as usize];
        // A third each: anywhere, near by, in sequence.
        let at = match rng.below(3) {
            0 => rng.below(end),
            1 => (next + rng.below(20_000)).saturating_sub(10_000).min(end),
            _ => next.min(end),
        };
        let op = if rng.below(3) == 0 { Op::Write } else { Op::Read };
        let took = serve(op, Extent::new(at, sectors), now, i % 5 == 0);
        now += took + Nanos(rng.below(2) * rng.below(20_000_000));
        next = at + sectors;
        all += took.0;
        for byte in took.0.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    (all, hash)
}

#[test]
fn our_own_service_times_stay_as_they_are() {
    let mut found = String::new();
    for name in shipped() {
        let (all, hash) = pinned(name);
        let _ = writeln!(found, "{name} {all} {hash:016x}");
    }
    assert!(
        found == include_str!("service-times.txt"),
        "Service times have changed: the sum in ns and a hash of 1,000 requests on each drive.\n\
         If they should: say in CHANGELOG.md what changed and why, and put this into \
         crates/drive/tests/service-times.txt:\n\n{found}"
    );
}
