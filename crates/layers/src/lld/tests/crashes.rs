//! Power cuts, killed processes and failing requests, at every request.

use std::cell::Cell;

use seekless_core::{ErrorKind, Nanos, runtime};

use super::*;
use crate::fault::powercut::{self, Keep, PowerCut};

/// What the volume began before its end, a power cut among it, has ended.
async fn has_ended() {
    runtime::sleep(Nanos::from_millis(1_000)).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Power goes at the n-th request that reaches the disk, for every n; a restart finds, of every sector, the
    /// last durable version or a later one.
    #[test]
    fn no_power_cut_loses_what_was_durable(
        steps in steps(25),
        segments in 10..16_u64,
        free: bool,
        seed in 0..100_u64,
    ) {
        let more = if free { "cleaner = 'freeblock'\nfree_threshold = 4" } else { "" };
        for nth in 1.. {
            let gone = Runtime::new(seed).run(async {
                let durable = disk(segments, 4);
                let cut = Rc::new(PowerCut::new(durable.clone(), powercut::Options { nth, keep: Keep::Any }));
                let below: Rc<dyn BlockDevice> = cut.clone();
                let mut versions = Versions::zeroes();
                if let Ok(lld) = open_with(&below, more).await {
                    let _ = versions.carry_out(&*lld, &steps, 1).await;
                }
                cut.cut().await.unwrap();
                has_ended().await;
                check(&mut versions, durable, more, &format!("power cut at request {nth}")).await;
                cut.requests() >= nth
            }).unwrap();
            if !gone {
                break;
            }
        }
    }

    /// The process ends at the n-th request while the cache below keeps its power; what a restart finds is settled,
    /// also if power goes before its first flush.
    #[test]
    fn what_a_restart_without_a_power_cut_found_survives_a_later_one(
        steps in steps(20),
        later in steps(12),
        segments in 10..14_u64,
        seed in 0..100_u64,
    ) {
        for nth in 1..60 {
            Runtime::new(seed).run(async {
                let durable = disk(segments, 4);
                let options = powercut::Options { nth: u64::MAX, keep: Keep::Any };
                let cache = Rc::new(PowerCut::new(durable.clone(), options));
                let below: Rc<dyn BlockDevice> = cache.clone();
                let killed = with_error(&below, &format!("nth = {nth}\nfor_ever = true\nkind = 'gone'"));
                let mut versions = Versions::zeroes();
                if let Ok(lld) = open(&killed).await {
                    let _ = versions.carry_out(&*lld, &steps, 1).await;
                }
                has_ended().await;
                let lld = recover(&mut versions, &below, "", &format!("killed at request {nth}")).await;
                versions.carry_out(&*lld, &later, 100).await.unwrap();
                cache.cut().await.unwrap();
                has_ended().await;
                check(&mut versions, durable, "", &format!("killed at request {nth}, then a power cut")).await;
            }).unwrap();
        }
    }

    /// The n-th write or read fails, once: nothing that is read is wrong, nothing durable is lost, and all goes on.
    #[test]
    fn no_error_yields_wrong_data_or_stops_the_volume(steps in steps(25), segments in 10..16_u64) {
        for nth in 1..60 {
            Runtime::new(1).run(async {
                let durable = disk(segments, 4);
                let mut versions = Versions::zeroes();
                let options = format!("nth = {nth}\nops = ['read', 'write']");
                if let Ok(lld) = open(&with_error(&durable, &options)).await {
                    let _ = versions.carry_out(&*lld, &steps, 1).await;
                    // If it has not failed yet it fails now.
                    let again = async || {
                        write(&*lld, 0, 8, 99).await?;
                        flush(&*lld).await?;
                        values(&*lld, Extent::new(0, SECTORS)).await
                    };
                    for _ in 0..nth {
                        let _ = again().await;
                    }
                    let found = again().await.unwrap();
                    let restarted = open(&durable).await.unwrap();
                    let message = values(&*restarted, Extent::new(0, SECTORS)).await.unwrap();
                    assert_eq!(message, found, "error at request {nth}");
                    versions.may_be(0..8, 99);
                }
                check(&mut versions, durable, "", &format!("error at request {nth}")).await;
            }).unwrap();
        }
    }
}

#[test]
fn a_write_with_fua_and_a_discard_with_it_are_durable_at_once() {
    world(async || {
        let durable = disk(14, 4);
        let options = powercut::Options { nth: u64::MAX, keep: Keep::None };
        let cache = Rc::new(PowerCut::new(durable.clone(), options));
        let below: Rc<dyn BlockDevice> = cache.clone();
        let lld = open(&below).await.unwrap();
        let fua = Hints { fua: true, ..Hints::default() };
        write(&*lld, 0, 24, 1).await.unwrap();
        lld.write(Extent::new(3, 2), filled(2, 2), fua.clone()).await.unwrap();
        // Of the blocks only the second is discarded as a whole.
        lld.discard(Extent::new(6, 12), fua).await.unwrap();
        write(&*lld, 0, 8, 3).await.unwrap();
        cache.cut().await.unwrap();
        let found = values(&*open(&durable).await.unwrap(), Extent::new(0, 24)).await.unwrap();
        assert_eq!(found, [vec![1; 3], vec![2; 2], vec![1; 3], vec![0; 8], vec![1; 8]].concat());
    });
}

#[test]
fn after_a_flush_that_failed_nothing_is_written_and_data_stays_readable() {
    let ((), edges) = world(async || {
        let options = powercut::Options { nth: u64::MAX, keep: Keep::Any };
        let below: Rc<dyn BlockDevice> = Rc::new(PowerCut::new(disk(14, 4), options));
        let lld = open(&with_error(&below, "nth = 10\nops = ['flush']")).await.unwrap();
        let mut failed = None;
        for value in 1..20 {
            write(&*lld, 0, 8, value).await.unwrap();
            if let Err(error) = flush(&*lld).await {
                failed = Some((value, error));
                break;
            }
        }
        let (value, error) = failed.expect("the tenth flush fails");
        assert_eq!(flush(&*lld).await.unwrap_err(), error);
        assert_eq!(write(&*lld, 8, 8, 2).await.unwrap_err(), error);
        assert_eq!(values(&*lld, Extent::new(0, 8)).await.unwrap(), [value; 8]);
        assert_eq!(values(&*open(&below).await.unwrap(), Extent::new(0, 8)).await.unwrap().len(), 8);
    });
    assert!(reached(&edges, "a flush failed: nothing is written any more"));
}

/// The segment that clients are filling lies on bad sectors.
#[test]
fn a_segment_that_cannot_be_written_goes_elsewhere() {
    let ((), edges) = world(async || {
        let below = disk(16, 4);
        let bad = Layout::new(below.geometry().sectors, 4, 2, Some(BLOCKS)).unwrap().extent(8, 4);
        let options =
            format!("for_ever = true\nops = ['write']\nat = '{}'\nsize = '16KiB'", bad.start.0 * 512);
        let lld = open(&with_error(&below, &options)).await.unwrap();
        let whole = Extent::new(0, SECTORS);
        for value in 1..200 {
            write(&*lld, 0, SECTORS, value).await.unwrap();
            if value % 3 == 0 {
                flush(&*lld).await.unwrap();
            }
            assert_eq!(values(&*lld, whole).await.unwrap(), [value; SECTORS as usize]);
        }
        flush(&*lld).await.unwrap();
        agrees(&lld);
        assert_eq!(values(&*open(&below).await.unwrap(), whole).await.unwrap(), [199; SECTORS as usize]);
        assert!(lld.counters().iter().any(|(name, count)| *name == "segment_writes_failed" && *count > 3));
    });
    assert!(reached(&edges, "a segment could not be written: its blocks join the next one"));
}

/// A device that has no room for writes, while that is so.
struct Tight {
    below: Rc<dyn BlockDevice>,
    full: Cell<bool>,
}

impl BlockDevice for Tight {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        if self.full.get() {
            let error = IoError::new(ErrorKind::NoSpace, "tight", Some(at), "there is no room");
            return Box::pin(std::future::ready(Err(error)));
        }
        self.below.write(at, from, how)
    }

    fn write_zeroes(&self, at: Extent, how: Hints, _: Zeroes) -> IoFuture<'_, ()> {
        self.write(at, Buffer::zeroed(at.bytes()), how)
    }
}

#[test]
fn writes_are_taken_again_when_there_is_room_again() {
    world(async || {
        let tight = Rc::new(Tight { below: disk(16, 4), full: Cell::new(false) });
        let below: Rc<dyn BlockDevice> = tight.clone();
        let lld = open(&below).await.unwrap();
        for round in 0..3_u8 {
            write(&*lld, 0, SECTORS, 10 * round + 1).await.unwrap();
            flush(&*lld).await.unwrap();
            tight.full.set(true);
            let mut model = vec![10 * round + 1; SECTORS as usize];
            let refused = 'refused: loop {
                for at in (0..SECTORS).step_by(8) {
                    match write(&*lld, at, 8, 10 * round + 2).await {
                        Ok(()) => model[at as usize..at as usize + 8].fill(10 * round + 2),
                        Err(error) => break 'refused error,
                    }
                }
            };
            assert_eq!(refused.kind(), ErrorKind::NoSpace);
            assert_eq!(flush(&*lld).await.unwrap_err().kind(), ErrorKind::NoSpace);
            assert_eq!(values(&*lld, Extent::new(0, SECTORS)).await.unwrap(), model);
            tight.full.set(false);
            runtime::sleep(Nanos::from_millis(2_000)).await;
            flush(&*lld).await.unwrap();
            assert_eq!(values(&*lld, Extent::new(0, SECTORS)).await.unwrap(), model);
            let found = values(&*open(&below).await.unwrap(), Extent::new(0, SECTORS)).await.unwrap();
            assert_eq!(found, model, "what was flushed is there");
        }
        agrees(&lld);
    });
}
