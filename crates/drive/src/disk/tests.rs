//! A drive as its host sees it.

use seekless_core::SECTOR_BYTES;

use super::*;
use crate::spec;

fn drive() -> Drive {
    Drive::new(&spec::find("wd2500aaks").unwrap())
}

#[test]
fn a_sequential_reader_streams_at_media_speed() {
    let (mut drive, mut now) = (drive(), Nanos(0));
    let requests = 2_000;
    for i in 0..requests {
        now += drive.serve(Op::Read, Extent::new(i * 64, 64), now, false).total();
    }
    let mb_s = (requests * 64 * SECTOR_BYTES) as f64 / now.seconds() / 1e6;
    assert!((55.0..75.0).contains(&mb_s), "{mb_s} MB/s from 75 MB/s media");
}

#[test]
fn a_read_from_the_media_finds_nothing_in_the_cache() {
    let (mut drive, at) = (drive(), Extent::new(1 << 20, 64));
    let mut now = drive.serve(Op::Read, at, Nanos(0), false).total();
    let cached = drive.serve(Op::Read, at, now, false);
    now += cached.total();
    assert_eq!(cached.rotation, Nanos::ZERO);
    for _ in 0..2 {
        let read = drive.read_from_media(at, now, false);
        now += read.total();
        assert!(read.rotation + read.transfer > Nanos::from_millis(1), "{read:?}");
    }
    assert_eq!(drive.serve(Op::Read, at, now, false).rotation, Nanos::ZERO, "the cache has it again");
    let mut spec = spec::find("wd2500aaks").unwrap();
    spec.set_write_cache(true);
    let mut drive = Drive::new(&spec);
    let mut now = drive.serve(Op::Write, at, Nanos(0), false).total();
    now += drive.read_from_media(at, now, false).total();
    assert!(drive.destage_all(now) == now, "what was to be written there is on the media");
}

#[test]
fn random_reads_take_seek_and_half_a_turn() {
    let (mut drive, mut now) = (drive(), Nanos(0));
    let (mut seek, mut rotation, n) = (0, 0, 20_000);
    let mut rng = 1_u64;
    for _ in 0..n {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lba = ((u128::from(rng) * 488_000_000) >> 64) as u64;
        let took = drive.serve(Op::Read, Extent::new(lba, 8), now, false);
        (seek, rotation) = (seek + took.seek.0, rotation + took.rotation.0);
        now += took.total();
    }
    let (seek, rotation) = (seek / n, rotation / n);
    assert!((8_300_000..9_300_000).contains(&seek), "{seek} ns for 8.9 ms on average");
    assert!((4_050_000..4_280_000).contains(&rotation), "{rotation} ns for half of 8.33 ms");
}

#[test]
fn reads_and_writes_have_seeks_of_their_own() {
    let mut spec = spec::find("wd2500aaks").unwrap();
    spec.write_settle_us = 0.0;
    let moved =
        |spec: &spec::Spec, op| Drive::new(spec).serve(op, Extent::new(400_000_000, 8), Nanos(0), false).seek;
    assert_eq!(moved(&spec, Op::Read), moved(&spec, Op::Write));
    spec.write_seek = Some(spec::SeekCurve::Constant { us: 30_000.0 });
    assert_eq!(moved(&spec, Op::Write), Nanos::from_millis(30));
    assert!(moved(&spec, Op::Read) < Nanos::from_millis(20));
}

#[test]
fn writes_in_sequence_miss_a_turn_each() {
    let mut drive = drive();
    let first = drive.serve(Op::Write, Extent::new(0, 8), Nanos(0), false);
    let second = drive.serve(Op::Write, Extent::new(8, 8), first.total(), false);
    assert!(second.rotation.0 > 8_000_000, "{second:?}");
}

/// After a long idle time the head has read ahead up to its limit, and no further.
#[test]
fn a_rested_head_reads_nothing_and_is_where_it_stopped() {
    let mut drive = drive();
    let mut now = drive.serve(Op::Read, Extent::new(0, 8), Nanos(0), false).total();
    now += Nanos::from_millis(100);
    let ahead = drive.serve(Op::Read, Extent::new(1_200, 856), now, false);
    assert_eq!((ahead.seek, ahead.rotation), (Nanos(0), Nanos(0)), "{ahead:?}");
    now += ahead.total() + Nanos::from_millis(100);
    let rest = drive.serve(Op::Read, Extent::new(2_056, 1_024), now, false);
    assert!(rest.total().0 > 1_024 * drive.mechanics().revolution().0 / 1_216, "{rest:?}");
    let back = drive.serve(Op::Write, Extent::new(0, 8), now + rest.total() + Nanos::from_millis(100), false);
    assert_eq!(back.distance, drive.layout().position(Lba(2_056 + 1_024 + 2_048)).cylinder);
}

#[test]
fn a_queued_write_in_sequence_follows_at_once() {
    let mut drive = drive();
    let first = drive.serve(Op::Write, Extent::new(0, 8), Nanos(0), false);
    let second = drive.serve(Op::Write, Extent::new(8, 8), first.total(), true);
    assert!(second.rotation.0 < 10 && second.overhead == Nanos(0), "{second:?}");
}

/// A drive that turns round in 1 ms: longer than it takes to settle, on one track too.
#[test]
fn the_next_command_is_not_reached_before_the_drive_has_turned_round() {
    let mut spec = spec::find("seagate-cheetah-15k5").unwrap();
    (spec.command.turn_round_us, spec.cache.enabled, spec.bus.mb_s) = (1_000.0, false, Some(1e6));
    let per_track = u64::from(spec.zone[0].sectors_per_track);
    // Microseconds from one command on the media to the next, `later` after it and not handled before.
    let between = |op, lba, later, queued| {
        let mut drive = Drive::new(&spec);
        let first = drive.serve(op, Extent::new(0, 8), Nanos(0), false).total();
        let seek = drive.serve(op, Extent::new(lba, 8), first + Nanos::from_micros(later), queued).seek;
        let handling = if queued { 0 } else { 50 };
        (seek.0 + 500) / 1_000 + later + handling
    };
    for lba in [100, per_track] {
        let found = [(0, true), (0, false), (400, false)]
            .map(|(later, queued)| between(Op::Read, lba, later, queued));
        assert_eq!(found, [1_000; 3], "a read at {lba}");
    }
    assert_eq!(between(Op::Read, 100, 2_000, false), 2_050, "it has turned round by then");
    assert_eq!(between(Op::Read, per_track, 2_000, false), 2_050 + 475);
    assert_eq!(between(Op::Write, per_track, 0, true), 1_400, "a write settles after it");
    assert_eq!([8, 100].map(|lba| between(Op::Write, lba, 0, true)), [0, 1_000], "the first goes on");
}

#[test]
fn the_same_requests_take_the_same_time() {
    let run = || {
        let (mut drive, mut now) = (drive(), Nanos(0));
        for i in 0..500_u64 {
            let op = if i % 3 == 0 { Op::Write } else { Op::Read };
            now += drive.serve(op, Extent::new(i * 7_919 * 8 % 400_000_000, 8 + i % 100), now, false).total();
        }
        now
    };
    assert_eq!(run(), run());
}
