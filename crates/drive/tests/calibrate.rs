//! Calibration finds the truth of simulated drives: of every drive that ships, also when answers come late by a
//! random time, also when blocks are larger than sectors.
//!
//! `cargo test -p seekless-drive --test calibrate -- --nocapture` prints what was found, drive by drive.

use std::cell::RefCell;

use seekless_core::runtime::{Rng, Runtime, sleep};
use seekless_core::{BlockDevice, Buffer, Extent, Geometry, Hints, IoFuture, Nanos};
use seekless_drive::calibrate::{Comparison, Found, Options, Unknown, calibrate};
use seekless_drive::spec::{find, parse, shipped};
use seekless_drive::{Disk, QueueOptions, Spec};

/// A disk whose answers come late by an exponential time, and which has blocks of some sectors.
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

fn found(spec: &Spec, mean: Nanos, block_sectors: u64, options: Options) -> Result<Found, Unknown> {
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

fn row(name: &str, found: &Found, near: &Comparison) -> String {
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
        "found/true", "turn ppm", "zones", "tracks", "skews", "begins", "heads", "seek", "worst", "segments",
        "ahead", "mean %", "half", "hold", "s"
    );
}

#[test]
fn all() {
    titles();
    for name in shipped().filter(|n| std::env::var("ONLY").map_or(true, |o| n.contains(&o))) {
        let spec = find(name).unwrap();
        let found = found(&spec, Nanos::ZERO, 1, Options::default()).unwrap();
        let text = toml::to_string(&found.spec("found", "as it was found")).unwrap();
        if let Err(e) = parse("found", &text) { for z in &found.zones { println!("{z:?}"); } panic!("{name}: {e}"); }
        println!("{}", row(name, &found, &Comparison::new(&found, &spec)));
    }
}

#[test]
fn late() {
    titles();
    for us in [10, 30, 100] {
    for name in ["wd2500aaks", "seagate-cheetah-9lp", "seagate-exos-x20-20tb"] {
        let spec = find(name).unwrap();
        let found = match found(&spec, Nanos::from_micros(us), 1, Options::default()) { Ok(f) => f, Err(e) => { println!("{us} {name} {e}"); continue } };
        println!("{}", row(&format!("{name} {us}"), &found, &Comparison::new(&found, &spec)));
        println!("{:?} {:?} {:?}", found.turn_us, found.overhead, found.head_switch_us);
        }
    }
}
