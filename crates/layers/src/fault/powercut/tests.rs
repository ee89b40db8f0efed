//! What a restart may find: each sector's last durable version, or a later one.

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_core::runtime::{self, Runtime};
use seekless_core::{Op, SECTOR_BYTES};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;

fn filled(value: u8, sectors: u64) -> Buffer {
    Buffer::from_vec(vec![value; (sectors * SECTOR_BYTES) as usize])
}

async fn firsts(device: &Rc<dyn BlockDevice>, at: Extent) -> Result<Vec<u8>, IoError> {
    let read = device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await?;
    Ok(read.to_vec().into_iter().step_by(SECTOR_BYTES as usize).collect())
}

fn world<T>(seed: u64, work: impl AsyncFnOnce(Rc<dyn BlockDevice>) -> T) -> T {
    let spec = spec::find("wd2500aaks").unwrap();
    let disk = || Rc::new(Disk::new(0, &spec, QueueOptions::default()));
    Runtime::new(seed).run(async { work(disk()).await }).unwrap()
}

fn over(below: &Rc<dyn BlockDevice>, keep: Keep) -> Rc<PowerCut> {
    Rc::new(PowerCut::new(below.clone(), Options { nth: u64::MAX, keep }))
}

const SECTORS: u64 = 24;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a register for each sector: which versions a restart may find.
    #[test]
    fn a_restart_finds_the_last_durable_version_or_a_later_one(
        seed in 0..1_000_u64,
        steps in proptest::collection::vec((0..6_u8, 0..SECTORS - 6, 1..6_u64), 1..40),
    ) {
        world(seed, async |disk| {
            let cache = over(&disk, Keep::Any);
            let device: Rc<dyn BlockDevice> = cache.clone();
            // Of each sector all versions since the last durable one, that first.
            let mut versions: BTreeMap<u64, Vec<u8>> = (0..SECTORS).map(|sector| (sector, vec![0])).collect();
            for (number, (step, start, sectors)) in (1..).zip(steps) {
                let at = Extent::new(start, sectors);
                match step {
                    0 => {
                        device.flush(Hints::default()).await.unwrap();
                        for all in versions.values_mut() {
                            all.drain(..all.len() - 1);
                        }
                    }
                    1 => {
                        let how = Hints { fua: true, ..Hints::default() };
                        device.write(at, filled(number, sectors), how).await.unwrap();
                        for sector in start..start + sectors {
                            versions.insert(sector, vec![number]);
                        }
                    }
                    2 => {
                        let last = (start..start + sectors).map(|sector| *versions[&sector].last().unwrap());
                        assert_eq!(firsts(&device, at).await.unwrap(), last.collect::<Vec<_>>());
                    }
                    _ => {
                        let buffer = filled(number, sectors);
                        device.write(at, buffer.clone(), Hints::default()).await.unwrap();
                        // The writer uses its buffer for something else.
                        buffer.put(0, &[255; 512]);
                        for sector in start..start + sectors {
                            versions.get_mut(&sector).unwrap().push(number);
                        }
                    }
                }
            }
            cache.cut().await.unwrap();
            assert_eq!(firsts(&device, Extent::new(0, 1)).await.unwrap_err().kind(), ErrorKind::Gone);
            let found = firsts(&disk, Extent::new(0, SECTORS)).await.unwrap();
            for (sector, value) in (0..).zip(found) {
                assert!(versions[&sector].contains(&value), "sector {sector}: {value} of {versions:?}");
            }
        });
    }
}

#[test]
fn nothing_or_everything_survives_if_the_options_say_so() {
    for (keep, expected) in [(Keep::None, [7, 7, 0]), (Keep::All, [7, 8, 9])] {
        world(1, async |disk| {
            let cache = over(&disk, keep);
            cache.write(Extent::new(0, 2), filled(7, 2), Hints::default()).await.unwrap();
            cache.flush(Hints::default()).await.unwrap();
            cache.write(Extent::new(1, 1), filled(8, 1), Hints::default()).await.unwrap();
            cache.write(Extent::new(2, 1), filled(9, 1), Hints::default()).await.unwrap();
            cache.cut().await.unwrap();
            assert_eq!(firsts(&disk, Extent::new(0, 3)).await.unwrap(), expected, "{keep:?}");
        });
    }
}

/// Any subset, and torn: over many seeds every outcome of two writes of two sectors is seen.
#[test]
fn every_outcome_comes_about() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..2_000 {
        seen.insert(world(seed, async |disk| {
            let cache = over(&disk, Keep::Any);
            cache.write(Extent::new(0, 2), filled(1, 2), Hints::default()).await.unwrap();
            cache.write(Extent::new(0, 2), filled(2, 2), Hints::default()).await.unwrap();
            cache.cut().await.unwrap();
            firsts(&disk, Extent::new(0, 2)).await.unwrap()
        }));
    }
    assert_eq!(seen.len(), 9, "each of two sectors holds one of three versions: {seen:?}");
}

#[test]
fn the_power_goes_with_the_nth_request_and_stays_away() {
    world(1, async |disk| {
        let cache = Rc::new(PowerCut::new(disk, Options { nth: 3, keep: Keep::Any }));
        let one = Extent::new(0, 1);
        cache.write(one, filled(1, 1), Hints::default()).await.unwrap();
        cache.flush(Hints::default()).await.unwrap();
        for op in [Op::Write, Op::Read, Op::Flush] {
            let error = match op {
                Op::Write => cache.write(one, filled(2, 1), Hints::default()).await.unwrap_err(),
                Op::Read => cache.read(one, Buffer::zeroed(512), Hints::default()).await.unwrap_err(),
                _ => cache.flush(Hints::default()).await.unwrap_err(),
            };
            assert_eq!(error.kind(), ErrorKind::Gone, "{op}: {error}");
        }
    });
}

/// A request that is in flight at the power cut is not acknowledged.
#[test]
fn nothing_is_acknowledged_after_the_cut() {
    world(1, async |disk| {
        let cache = over(&disk, Keep::None);
        let how = Hints { fua: true, ..Hints::default() };
        let writer = cache.clone();
        let write = runtime::spawn(async move { writer.write(Extent::new(0, 1), filled(1, 1), how).await });
        let flusher = cache.clone();
        cache.write(Extent::new(9, 1), filled(1, 1), Hints::default()).await.unwrap();
        let flush = runtime::spawn(async move { flusher.flush(Hints::default()).await });
        runtime::sleep(Nanos(1_000)).await;
        cache.cut().await.unwrap();
        assert_eq!(write.await.unwrap_err().kind(), ErrorKind::Gone);
        assert_eq!(flush.await.unwrap_err().kind(), ErrorKind::Gone);
    });
}

/// The disk does nothing on a discard, so it keeps what was durable before.
#[test]
fn a_discard_does_not_bring_back_what_was_replaced() {
    for fua in [false, true] {
        world(1, async |disk| {
            let cache = over(&disk, Keep::None);
            let at = Extent::new(8, 4);
            for value in [1, 2] {
                cache.flush(Hints::default()).await.unwrap();
                cache.write(at, filled(value, 4), Hints::default()).await.unwrap();
            }
            let how = Hints { fua, ..Hints::default() };
            cache.discard(Extent::new(9, 2), how).await.unwrap();
            let device: Rc<dyn BlockDevice> = cache.clone();
            let found = firsts(&device, at).await.unwrap();
            assert_eq!([found[0], found[3]], [2, 2]);
            assert!(found[1..3] == [2, 2] || found[1..3] == [0, 0], "{found:?}");
            cache.cut().await.unwrap();
            // With FUA it is durable that the first are gone.
            let left = firsts(&disk, at).await.unwrap();
            assert!(!fua || left == found, "{left:?} after {found:?}");
        });
    }
}
