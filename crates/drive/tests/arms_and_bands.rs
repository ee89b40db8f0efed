//! Drives with two arms, and drives whose tracks overlap.

use std::rc::Rc;

use seekless_core::runtime::{self, Runtime};
use seekless_core::{Buffer, Extent, Hints, Nanos};
use seekless_drive::spec::{Spec, find, parse};
use seekless_drive::{Model, QueueOptions, Simulated, simulated};

/// Runs `work` on a drive of this kind.
fn on<T>(spec: &Spec, depth: Option<u32>, work: impl AsyncFnOnce(Rc<dyn Simulated>) -> T) -> T {
    let runtime = Runtime::new(1);
    let options = QueueOptions { depth, ..QueueOptions::default() };
    runtime.run(async { work(simulated(0, &Model::from(spec.clone()), options)).await }).unwrap()
}

/// Clients that each issue `requests`, one after the other, of 8 sectors anywhere in their part.
async fn anywhere(drive: &Rc<dyn Simulated>, write: bool, clients: u64, requests: u64) {
    let end = drive.geometry().sectors / 8 - 1;
    let tasks: Vec<_> = (0..clients)
        .map(|_| {
            let drive = drive.clone();
            runtime::spawn(async move {
                let mut rng = runtime::rng("client");
                for _ in 0..requests {
                    one(&drive, write, Extent::new(rng.below(end) * 8, 8)).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
}

async fn one(drive: &Rc<dyn Simulated>, write: bool, at: Extent) {
    let buffer = Buffer::hollow_sectors(at.sectors);
    if write {
        drive.write(at, buffer, Hints::default()).await.unwrap();
    } else {
        drive.read(at, buffer, Hints::default()).await.unwrap();
    }
}

/// Rate of sequential reads or writes from `start` on, in MB/s.
async fn stream(drive: &Rc<dyn Simulated>, write: bool, start: u64, megabytes: u64) -> f64 {
    let begun = runtime::now();
    for i in 0..megabytes {
        one(drive, write, Extent::new(start + i * 2_048, 2_048)).await;
    }
    megabytes as f64 * 1.048_576 / (runtime::now() - begun).seconds()
}

#[test]
fn two_arms_do_twice_as_much() {
    let two = find("seagate-exos-2x18-18tb").unwrap();
    let one = Spec { actuators: 1, ..two.clone() };
    let rate = |spec: &Spec| {
        on(spec, Some(16), async |drive| {
            anywhere(&drive, false, 16, 200).await;
            3_200.0 / runtime::now().seconds()
        })
    };
    let (both, alone) = (rate(&two), rate(&one));
    println!(
        "seagate-exos-2x18-18tb: {both:.0} reads/s anywhere with 16 outstanding (published 304), {alone:.0} with one arm"
    );
    assert!(both / alone > 1.5, "{both} {alone}");
    assert!((both / 304.0 - 1.0).abs() < 0.15, "{both}");
    let streams = on(&two, None, async |drive| {
        let half = drive.geometry().sectors / 2;
        let other = drive.clone();
        let second = runtime::spawn(async move { stream(&other, false, half, 400).await });
        stream(&drive, false, 0, 400).await + second.await
    });
    println!("seagate-exos-2x18-18tb: {streams:.0} MB/s in sequence under both arms (published 554)");
    assert!((streams / 554.0 - 1.0).abs() < 0.04, "{streams}");
}

#[test]
fn bytes_lie_across_two_arms() {
    on(&find("seagate-exos-2x18-18tb").unwrap(), Some(16), async |drive| {
        let half = drive.geometry().sectors / 2;
        let bytes: Vec<u8> = (0..4_096).map(|i| (i % 253) as u8).collect();
        let at = Extent::new(half - 3, 8);
        drive.write(at, Buffer::from_vec(bytes.clone()), Hints::default()).await.unwrap();
        let back = drive.read(at, Buffer::zeroed(4_096), Hints::default()).await.unwrap();
        assert_eq!(back.to_vec(), bytes);
        drive.flush(Hints::default()).await.unwrap();
        let part = drive.read(Extent::new(half, 1), Buffer::zeroed(512), Hints::default()).await.unwrap();
        assert_eq!(part.to_vec(), bytes[3 * 512..4 * 512]);
    });
}

/// A shingled drive with a media cache that is soon full.
fn shingled() -> Spec {
    let mut spec = find("seagate-archive-8tb").unwrap();
    spec.shingled.as_mut().unwrap().media_cache_sectors = 1 << 18;
    spec
}

#[test]
fn writes_are_fast_until_the_media_cache_is_full_and_again_after_a_rest() {
    on(&shingled(), Some(32), async |drive| {
        let timed = async |requests| {
            let begun = runtime::now();
            anywhere(&drive, true, 4, requests).await;
            (runtime::now() - begun).seconds() / (4 * requests) as f64
        };
        let fresh = timed(500).await;
        // Sixteen sectors each with its header, and 2^18 of them.
        timed(3_600).await;
        let full = timed(10).await;
        assert!(fresh < 0.012 && full > 0.3, "{fresh} s a write, then {full} s");
        runtime::sleep(Nanos(600 * 1_000_000_000)).await;
        let rested = timed(50).await;
        assert!(rested < 0.012, "{rested} s a write after ten minutes of rest");
    });
}

#[test]
fn a_stream_goes_into_its_bands_past_the_media_cache() {
    on(&shingled(), None, async |drive| {
        let band = find("seagate-archive-8tb").unwrap().shingled.unwrap().band_sectors;
        let rate = stream(&drive, true, band * 10, 600).await;
        assert!(rate > 60.0, "{rate} MB/s");
        let written = drive.all().blocks_written;
        assert_eq!(written, 600 * 2_048, "nothing is written twice");
    });
}

#[test]
fn idle_time_cleans_the_bands_written() {
    let spec = shingled();
    let band = spec.shingled.unwrap().band_sectors;
    on(&spec, None, async |drive| {
        for number in [3, 70, 3] {
            one(&drive, true, Extent::new(number * band + 800, 8)).await;
        }
        runtime::sleep(Nanos(60 * 1_000_000_000)).await;
        let cleaned = drive.all().blocks_written - 3 * 16;
        assert_eq!(cleaned, 2 * band, "two bands were rewritten");
        let before = drive.all().busy();
        runtime::sleep(Nanos(60 * 1_000_000_000)).await;
        assert_eq!(drive.all().busy(), before, "then there is nothing to do");
    });
}

#[test]
fn bytes_are_found_wherever_they_are() {
    let spec = shingled();
    let band = spec.shingled.unwrap().band_sectors;
    on(&spec, Some(32), async |drive| {
        let fill = |value: u8| Buffer::from_vec(vec![value; 8 * 512]);
        let read = async |start: u64| {
            let buffer = Buffer::zeroed(8 * 512);
            drive.read(Extent::new(start, 8), buffer, Hints::default()).await.unwrap().to_vec()
        };
        let start = 5 * band - 4;
        drive.write(Extent::new(start, 8), fill(1), Hints::default()).await.unwrap();
        assert_eq!(read(start).await, vec![1; 8 * 512]);
        runtime::sleep(Nanos(60 * 1_000_000_000)).await;
        assert_eq!(read(start).await, vec![1; 8 * 512], "after it was cleaned");
        drive.write(Extent::new(start + 4, 8), fill(2), Hints::default()).await.unwrap();
        assert_eq!(read(start).await, [vec![1; 4 * 512], vec![2; 4 * 512]].concat());
        drive.flush(Hints::default()).await.unwrap();
    });
}

#[test]
fn a_client_that_goes_away_does_not_keep_the_cleaner_waiting() {
    let spec = shingled();
    let band = spec.shingled.unwrap().band_sectors;
    on(&spec, None, async |drive| {
        let left = {
            let drive = drive.clone();
            runtime::spawn(async move { one(&drive, true, Extent::new(9 * band + 800, 8)).await })
        };
        runtime::sleep(Nanos(1_000)).await;
        drop(left);
        one(&drive, true, Extent::new(3 * band + 800, 8)).await;
        runtime::sleep(Nanos(60 * 1_000_000_000)).await;
        let cleaned = drive.all().blocks_written - 2 * 16;
        assert_eq!(cleaned, 2 * band, "both bands were rewritten");
    });
}

#[test]
fn spares_that_one_arm_alone_does_not_have_are_refused() {
    let mut spec = find("seagate-exos-2x18-18tb").unwrap();
    spec.layout.sparing = seekless_drive::spec::Sparing::Zone;
    let parsed = |spec: &Spec| {
        parse("two.toml", &toml::to_string(spec).unwrap()).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(parsed(&spec), Ok(()));
    // Above the half of a zone's sectors that one of two arms has.
    let zone = &spec.zone[0];
    let half = u64::from(zone.cylinders) * 9 * u64::from(zone.sectors_per_track);
    spec.zone[0].slips = vec![half + 5];
    spec.zone[0].spares = 1;
    let refused = parsed(&spec).unwrap_err();
    assert!(refused.contains("zone 1: slips") && refused.contains("under one arm"), "{refused}");
}
