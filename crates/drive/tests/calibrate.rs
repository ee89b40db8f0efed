//! Calibration finds the true parameters of simulated drives: of every shipped drive, also with random delays of
//! answers, and with blocks larger than sectors.
//!
//! `cargo test -p seekless-drive --test calibrate -- --nocapture` prints the results, drive by drive; those of the
//! book's page are compared with it.

use std::cell::RefCell;

use seekless_core::runtime::{Rng, Runtime, sleep};
use seekless_core::{BlockDevice, Buffer, Extent, Geometry, Hints, IoFuture, Nanos};
use seekless_drive::calibrate::{Calibration, Comparison, Options, Unknown, calibrate};
use seekless_drive::spec::{disks, find, parse};
use seekless_drive::{Disk, QueueOptions, Spec};

/// A disk whose answers are late by an exponential time, and which has blocks of several sectors.
struct Late {
    disk: Disk,
    mean: Nanos,
    rng: RefCell<Rng>,
    block_sectors: u64,
    writes: RefCell<u32>,
}

impl BlockDevice for Late {
    fn geometry(&self) -> Geometry {
        Geometry { physical_sectors: self.block_sectors, ..self.disk.geometry() }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        Box::pin(async move {
            assert_eq!((at.start.0 % self.block_sectors, at.sectors % self.block_sectors), (0, 0));
            let answer = self.disk.read(at, into, how).await;
            let part = (self.rng.borrow_mut().below(1 << 40) + 1) as f64 / (1_u64 << 40) as f64;
            sleep(Nanos((-libm::log(part) * self.mean.0 as f64) as u64)).await;
            answer
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        *self.writes.borrow_mut() += 1;
        self.disk.write(at, from, how)
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.disk.flush(how)
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        *self.writes.borrow_mut() += 1;
        self.disk.discard(at, how)
    }
}

fn found(spec: &Spec, mean: Nanos, block_sectors: u64, options: Options) -> Result<Calibration, Unknown> {
    let runtime = Runtime::new(1);
    let late = Late {
        disk: Disk::new(0, spec, QueueOptions::default()),
        mean,
        rng: RefCell::new(Rng::seeded(5)),
        block_sectors,
        writes: RefCell::new(0),
    };
    let found = runtime.run(calibrate(&late, options, &mut |_, _| {})).expect("a disk answers");
    assert_eq!(*late.writes.borrow(), 0, "calibration wrote");
    assert!(runtime.now() < options.time + Nanos::from_millis(5_000), "{}", runtime.now());
    found
}

fn row(name: &str, found: &Calibration, near: &Comparison) -> String {
    let heads = found.heads.map_or("?".to_owned(), |heads| heads.to_string());
    format!(
        "{name:26} {:>8.3} {:>6} {:>6} {:>6} {:>7} {:>6} {:>6.3} {:>6.3} {:>8} {:>10} {:>7.2} {:>6.1} {:>7} {:>5.0}",
        near.turn_ppm,
        format!("{}/{}", near.zones_found, near.zones),
        format!("{}/{}", near.tracks_right, near.zones),
        format!("{}/{}", near.skews_right, near.zones),
        format!("{:.2}", near.begins_off_tracks),
        format!("{heads}/{}", near.heads),
        near.seek_off_ms,
        near.seek_off_most_ms,
        format!("{}/{}", near.segments_found, near.segments),
        format!("{}/{}", near.ahead_found, near.ahead),
        100.0 * (near.replay.mean_simulated_ms / near.replay.mean_measured_ms - 1.0),
        near.replay.within_half_ms_pct,
        format!("{}/{}", near.intervals.1, near.intervals.0),
        found.seconds,
    )
}

fn titles() {
    println!(
        "{:26} {:>8} {:>6} {:>6} {:>6} {:>7} {:>6} {:>6} {:>6} {:>8} {:>10} {:>7} {:>6} {:>7} {:>5}",
        "found/true",
        "turn ppm",
        "zones",
        "tracks",
        "skews",
        "begins",
        "heads",
        "seek",
        "worst",
        "segments",
        "ahead",
        "mean %",
        "half",
        "hold",
        "s"
    );
}

fn near(name: &str, spec: &Spec, found: &Calibration) -> Comparison {
    // The written description is a valid drive.
    parse(name, &toml::to_string(&found.spec("found", "as it was found")).unwrap()).unwrap();
    let near = Comparison::new(found, spec);
    println!("{}", row(name, found, &near));
    near
}

/// The table of accuracy in the book.
const PAGE: &str = include_str!("../../../docs/book/calibrate.md");

/// A row of that table.
fn row_of_page(name: &str, near: &Comparison) -> String {
    let (zones, all) = (near.zones_found, near.zones);
    let (begins, seeks) = (near.begins_off_tracks, near.seek_off_ms);
    let (found, ahead, half) = (near.ahead_found, near.ahead, near.replay.within_half_ms_pct);
    format!("| `{name}` | {zones} / {all} | {begins:.2} | {seeks:.3} | {found} / {ahead} | {half:.1} |")
}

/// Calibrates every drive with this seed, and compares it with the truth: every value for drives of even layout, what
/// defects allow for the others.
fn every_drive(seed: u64) {
    titles();
    // Fitted drives are those of DiskSim with more slips, which split their zones.
    for name in disks().filter(|name| !name.ends_with("-fitted")) {
        let spec = find(name).unwrap();
        if spec.actuators > 1 {
            // Each arm is a disk of its own.
            continue;
        }
        let found = found(&spec, Nanos::ZERO, 1, Options { seed, ..Options::default() }).unwrap();
        let near = near(name, &spec, &found);
        let (all, row) = (near.zones, row_of_page(name, &near));
        assert!(seed > 1 || PAGE.contains(&row), "docs/book/calibrate.md: found no row {row}");
        assert!(near.turn_ppm.abs() < 0.01 && found.seconds < 600.0, "{name}: {} ppm", near.turn_ppm);
        assert_eq!((near.tracks_right, near.skews_right), (all, all), "{name}: tracks, skews");
        // A band of one surface looks like cylinders of one head, and the way to the next surface like a seek.
        let by_surface = spec.layout.mapping.by_surface();
        let heads = if by_surface { 1 } else { spec.heads };
        assert_eq!(near.heads_found, Some(heads.into()), "{name}: heads");
        assert_eq!(near.segments_found, near.segments as usize, "{name}: segments");
        assert!(near.ahead_found.abs_diff(near.ahead) <= 4, "{name}: {} read ahead", near.ahead_found);
        let mean = near.replay.mean_simulated_ms / near.replay.mean_measured_ms;
        assert!((mean - 1.0).abs() < 0.02, "{name}: reads take {mean} of what they should");
        if name.ends_with("-disksim") {
            assert!(near.begins_off_tracks < 0.1 && near.seek_off_ms < 0.25, "{name}");
            assert!(near.replay.within_half_ms_pct > 90.0, "{name}: {:?}", near.replay);
        } else {
            assert!(near.begins_off_tracks == 0.0 && near.zones_found == all, "{name}: zones");
            assert!(
                near.seek_off_most_ms < 0.02 || by_surface,
                "{name}: seeks off by {} ms",
                near.seek_off_most_ms
            );
            assert!(near.replay.within_half_ms_pct > 98.0, "{name}: {:?}", near.replay);
            assert_eq!(near.intervals.0, near.intervals.1, "{name}: intervals");
        }
    }
}

/// With other seeds too in `make soak`, which runs 20,000 cases.
#[test]
fn the_truth_of_every_drive_is_found() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse::<u64>().ok());
    for seed in 1..=1 + cases.unwrap_or(0) / 2_000 {
        println!("random numbers {seed}");
        every_drive(seed);
    }
}

/// Answers that are late by 10 us and by 30 us on average, as on a busy computer.
#[test]
fn late_answers_widen_the_intervals_but_do_not_mislead() {
    titles();
    let (mut intervals, mut held) = (0, 0);
    for (name, us) in [
        ("wd2500aaks", 10),
        ("wd2500aaks", 30),
        ("seagate-cheetah-9lp", 10),
        ("seagate-cheetah-9lp", 30),
        ("quantum-atlas-10k", 30),
    ] {
        let spec = find(name).unwrap();
        let found = found(&spec, Nanos::from_micros(us), 1, Options::default()).unwrap();
        let near = near(&format!("{name} + {us} us"), &spec, &found);
        (intervals, held) = (intervals + near.intervals.0, held + near.intervals.1);
        assert!(near.turn_ppm.abs() < 2.0, "{name}: {} ppm", near.turn_ppm);
        assert_eq!(near.tracks_right, near.zones, "{name}: tracks");
        assert_eq!(near.heads_found, Some(spec.heads.into()), "{name}: heads");
        assert!(near.seek_off_ms < 0.05, "{name}: seeks off by {} ms", near.seek_off_ms);
        assert!(near.replay.within_half_ms_pct > 95.0, "{name}: {:?}", near.replay);
    }
    println!("{held} of {intervals} intervals hold the truth");
    let sentence = format!("{held} of {intervals} intervals contain the true value");
    assert!(PAGE.contains(&sentence), "docs/book/calibrate.md: found no '{sentence}'");
    assert!(held * 100 >= intervals * 93, "{held} of {intervals} intervals");
}

/// A drive whose tracks hold whole blocks of 4 KiB, its unit of reading.
#[test]
fn blocks_larger_than_sectors_are_kept_to() {
    titles();
    let mut spec = find("seagate-cheetah-15k5").unwrap();
    for zone in &mut spec.zone {
        zone.sectors_per_track -= zone.sectors_per_track % 8;
        (zone.track_skew, zone.cylinder_skew) = (zone.track_skew + 8.0, zone.cylinder_skew + 80.0);
        for skew in [&mut zone.track_skew, &mut zone.cylinder_skew] {
            *skew -= *skew % 8.0;
        }
    }
    spec.sectors = spec.sectors / 100 * 98 / 8 * 8;
    let found = found(&spec, Nanos::ZERO, 8, Options::default()).unwrap();
    let near = near("blocks of 4 KiB", &spec, &found);
    assert_eq!((found.block_sectors, near.tracks_right, near.skews_right), (8, near.zones, near.zones));
    assert_eq!(near.heads_found, Some(8));
    assert!(near.ahead_found.abs_diff(near.ahead) <= 8, "{} read ahead", near.ahead_found);
    assert!(near.replay.within_half_ms_pct > 98.0, "{:?}", near.replay);
}

#[test]
fn a_drive_without_a_cache_has_none() {
    titles();
    let mut spec = find("wd2500aaks").unwrap();
    spec.cache.enabled = false;
    spec.cache.segments = 0;
    let found = found(&spec, Nanos::ZERO, 1, Options::default()).unwrap();
    let near = near("no cache", &spec, &found);
    assert_eq!((found.segments, found.ahead.is_none(), near.skews_right), (0, true, near.zones));
    assert!(near.replay.within_half_ms_pct > 98.0, "{:?}", near.replay);
}

/// Nothing is ever evicted: every trial has to use a place that was not read before.
#[test]
fn a_cache_of_more_segments_than_are_counted_does_not_mislead() {
    titles();
    let mut spec = find("wd360gd").unwrap();
    spec.cache.segments = 4_000;
    let found = found(&spec, Nanos::ZERO, 1, Options::default()).unwrap();
    let near = near("4,000 segments", &spec, &found);
    assert!(found.more_segments && found.segments < 4_000, "{}", found.segments);
    assert_eq!(near.skews_right, near.zones);
    assert!(near.heads_found.is_none_or(|heads| heads == 2), "{:?}", near.heads_found);
    assert!(near.replay.within_half_ms_pct > 98.0, "{:?}", near.replay);
}

#[test]
fn the_same_drive_is_found_again() {
    let spec = find("wd360gd").unwrap();
    let run = || {
        let found = found(&spec, Nanos::from_micros(10), 1, Options::default()).unwrap();
        toml::to_string(&found.spec("found", "as it was found")).unwrap()
    };
    assert_eq!(run(), run());
}

#[test]
fn the_time_is_kept_to() {
    let spec = find("seagate-exos-x20-20tb").unwrap();
    for seconds in [1, 30, 60, 150] {
        let options = Options { time: Nanos::from_millis(seconds * 1_000), ..Options::default() };
        let error = found(&spec, Nanos::ZERO, 1, options).unwrap_err().to_string();
        assert!(error.contains("the time is over") && error.contains("longer"), "{error}");
    }
    // A curve of fewer seeks still covers all distances.
    let options = Options { time: Nanos::from_millis(280_000), ..Options::default() };
    let found = found(&spec, Nanos::ZERO, 1, options).unwrap();
    let distances = [found.seeks[0].cylinders, found.seeks[found.seeks.len() - 1].cylinders];
    let cylinders: u64 = found.zones.iter().map(|zone| zone.cylinders).sum();
    assert_eq!(distances, [1, cylinders - 1]);
}

/// A device without rotation: constant or random answer times.
struct NoDisk(RefCell<Rng>, u64);

impl BlockDevice for NoDisk {
    fn geometry(&self) -> Geometry {
        Disk::new(0, &find("wd2500aaks").unwrap(), QueueOptions::default()).geometry()
    }

    fn read(&self, _at: Extent, into: Buffer, _how: Hints) -> IoFuture<'_, Buffer> {
        Box::pin(async move {
            let some = self.0.borrow_mut().below(self.1);
            sleep(Nanos(100_000 + some)).await;
            Ok(into)
        })
    }

    fn write(&self, _at: Extent, _from: Buffer, _how: Hints) -> IoFuture<'_, ()> {
        unreachable!("calibration never writes")
    }

    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        unreachable!("calibration never flushes")
    }

    fn discard(&self, _at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        unreachable!("calibration never discards")
    }
}

#[test]
fn a_device_that_is_no_disk_is_reported() {
    for some in [1, 50_000, 20_000_000] {
        let device = NoDisk(RefCell::new(Rng::seeded(9)), some);
        let found = Runtime::new(1).run(calibrate(&device, Options::default(), &mut |_, _| {})).unwrap();
        let error = found.unwrap_err().to_string();
        assert!(error.contains("rotation: ") && error.contains("no multiples"), "{error}");
    }
}
