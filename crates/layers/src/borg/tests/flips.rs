//! One bit of the BOPT rots while the volume is closed, or a sector of it becomes zeroes, after a kill or a clean stop:
//! flushed data is read again, or refused. Nothing is lost silently.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use seekless_core::runtime::rng;

use super::super::store::format::{OLD, PAGE, SEALED, SUPER_2};
use super::versions::old_one;
use super::*;
use crate::durable::sector::{self, Part};
use crate::fault::powercut::{self, Keep, PowerCut};

const PAGES: u64 = 120;
const BOPT: u64 = 76;

/// What lies on both devices, what was flushed, and which pages of the BOPT may rot.
struct Left {
    origin: Vec<u8>,
    bopt: Vec<u8>,
    /// The version of each page.
    flushed: Vec<u64>,
    may_rot: Vec<u64>,
    /// Pages among them that are dirty copies with checksums.
    with_sums: usize,
}

/// What became of flips.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    refused: u64,
    silent: u64,
}

fn options() -> Options {
    Options { segment: crate::units::Bytes(24 << 10), ..Options::default() }
}

fn parts(disk: &Rc<Disk>) -> (Rc<Slice>, Rc<Slice>) {
    (slice(disk, 0, PAGES * 8), slice(disk, PAGES * 8, BOPT * 8))
}

/// A device whose power is cut when asked, and that has lost nothing then.
fn cut_later(below: Rc<Slice>) -> Rc<PowerCut> {
    Rc::new(PowerCut::new(below, powercut::Options { nth: u64::MAX, keep: Keep::All }))
}

fn at(page: u64) -> Extent {
    Extent::of_pages(page, 1)
}

/// A BOPT that was in use, with flushes now and then; the last thing was one.
async fn left(version: u32, stopped: bool, rounds: u64) -> Left {
    let disk = disk();
    let (origin, bopt) = parts(&disk);
    let borg = match version {
        OLD => old_one(origin.clone(), bopt.clone(), options()).await,
        _ => formatted(origin.clone(), bopt.clone(), options()).await,
    };
    let (mut flushed, mut rng) = (vec![0; PAGES as usize], rng("flips: left"));
    for round in 1..=rounds {
        if round % 12 == 5 {
            for page in 0..6 {
                read(&*borg, at(page * 3)).await;
            }
            borg.reconfigure_now(Account(1)).await.unwrap();
        }
        for _ in 0..=rng.below(3) {
            let page = rng.below(PAGES);
            write(&*borg, at(page), round).await;
            flushed[page as usize] = round;
        }
        borg.flush(Hints::default()).await.unwrap();
    }
    if stopped {
        borg.stop().await.unwrap();
    } else {
        sleep(Nanos::from_millis(3_000)).await;
    }
    let layout = borg.store.layout();
    let mut may_rot: Vec<u64> = (0..layout.page(0)).collect();
    let image = read(&*bopt, Extent::of_pages(0, BOPT)).await;
    for page in layout.page(layout.cached_slots())..BOPT {
        let bytes = &image[page as usize * PAGE..][..PAGE];
        if bytes.starts_with(b"SKLBORG4") || bytes.starts_with(b"SKLBORGR") {
            may_rot.push(page);
        }
    }
    // In version 2 data has checksums, unless some in its segment was overwritten in place.
    let others = may_rot.len();
    if version == SEALED {
        let dirty = borg.store.pages_where(|entry| entry.dirty && borg.store.has_sum(entry.slot));
        may_rot.extend(dirty.iter().map(|page| layout.page(borg.store.slot_of(*page).unwrap())));
    }
    let origin = read(&*origin, Extent::of_pages(0, PAGES)).await;
    let with_sums = may_rot.len() - others;
    Left { origin, bopt: image, flushed, may_rot, with_sums }
}

/// Opens with one bit of a page that is another, or as many `zeroes` around it, and reads all that was flushed.
async fn judged(left: &Left, page: u64, bit: u64, zeroes: usize) -> Counts {
    let disk = disk();
    let mut bytes = left.bopt.clone();
    let byte = page as usize * PAGE + bit as usize / 8;
    bytes[byte] ^= 1 << (bit % 8);
    if let Some(number) = byte.checked_div(zeroes) {
        bytes[number * zeroes..][..zeroes].fill(0);
    }
    let (origin, bopt) = parts(&disk);
    let write = async |device: &Slice, bytes: Vec<u8>| {
        let all = Extent::new(0, bytes.len() as u64 / 512);
        device.write(all, Buffer::from_vec(bytes), Hints::default()).await.unwrap();
    };
    write(&origin, left.origin.clone()).await;
    write(&bopt, bytes).await;
    let refused = Counts { refused: 1, ..Counts::default() };
    // Also when it is opened again, with what the first opening has written.
    for _ in 0..2 {
        let (origin, bopt) = parts(&disk);
        let borg = match Borg::open(origin, bopt, options(), false).await {
            Ok(borg) => borg,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(error.to_string().contains("expected"), "{error}");
                return refused;
            }
        };
        for (page, version) in (0..).zip(&left.flushed).filter(|(_, version)| **version > 0) {
            match borg.read(at(page), Buffer::zeroed(4096), Hints::default()).await {
                Ok(found) if found.to_vec() == stamped(at(page), *version).to_vec() => {}
                Ok(_) => return Counts { silent: 1, ..Counts::default() },
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    return refused;
                }
            }
        }
    }
    Counts { passed: 1, ..Counts::default() }
}

async fn count(version: u32, stopped: bool, flips: u64) -> Counts {
    let left = left(version, stopped, 40).await;
    assert!(version == OLD || left.with_sums > 3);
    let (mut counts, mut rng) = (Counts::default(), rng("flips"));
    for _ in 0..flips {
        let page = left.may_rot[rng.below(left.may_rot.len() as u64) as usize];
        let bit = rng.below(PAGE as u64 * 8);
        let zeroed = version == SEALED && rng.chance(1, 4);
        let Counts { passed, refused, silent } = judged(&left, page, bit, if zeroed { 512 } else { 0 }).await;
        if silent > 0 && version == SEALED {
            println!("silent: page {page}, bit {bit}, zeroed: {zeroed}");
        }
        counts.passed += passed;
        counts.refused += refused;
        counts.silent += silent;
    }
    println!("version {version}, {}: {counts:?}", if stopped { "stopped" } else { "killed" });
    counts
}

#[test]
fn no_bit_that_rots_loses_what_was_flushed_without_a_word() {
    for stopped in [false, true] {
        let counts = run(7, count(SEALED, stopped, 500));
        assert_eq!(counts.silent, 0);
        assert!(counts.passed > 0);
        assert!(counts.refused > 0);
    }
}

/// Not that of the last batch either, once a pause has followed its flush.
#[test]
fn no_header_that_is_zeroes_loses_what_was_flushed_without_a_word() {
    let counts = run(7, async {
        let mut all = Counts::default();
        for rounds in 30..50 {
            let left = left(SEALED, false, rounds).await;
            let is_header = |page: &&u64| left.bopt[**page as usize * PAGE..].starts_with(b"SKLBORG4");
            for page in left.may_rot.iter().filter(is_header) {
                let Counts { passed, refused, silent } = judged(&left, *page, 0, PAGE).await;
                (all.passed, all.refused, all.silent) =
                    (all.passed + passed, all.refused + refused, all.silent + silent);
            }
        }
        all
    });
    assert!(counts.silent == 0 && counts.refused > 0 && counts.passed > 0, "{counts:?}");
}

/// What version 1 cannot do: or the test above would find nothing.
#[test]
fn of_version_one_a_bit_that_rots_loses_what_was_flushed() {
    let counts = run(7, count(OLD, false, 150));
    assert!(counts.silent > 0, "{counts:?}");
}

/// Super pages of a generation that too few can follow are damage: the volume would end with the first write.
#[test]
fn a_generation_that_too_few_can_follow_is_refused() {
    for (generation, opens) in [(sector::LAST - 2, true), (sector::LAST, false)] {
        run(1, async {
            let World { borg, disk } = world(Options::default(), 400).await;
            borg.stop().await.unwrap();
            drop(borg);
            let (origin, bopt) = (slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 400 * 8));
            for page in 0..2 {
                let mut bytes = read(&*bopt, at(page)).await;
                Part::of(SUPER_2, 0).seal(at(page).start, generation + page, &mut bytes);
                bopt.write(at(page), Buffer::from_vec(bytes), Hints::default()).await.unwrap();
            }
            match Borg::open(origin, bopt, Options::default(), false).await {
                Ok(borg) => {
                    write(&*borg, at(5), 1).await;
                    borg.flush(Hints::default()).await.unwrap();
                    assert!(opens);
                }
                Err(error) => assert!(!opens && error.kind() == ErrorKind::Corrupt, "{error}"),
            }
        });
    }
}

/// A bit of a dirty copy rots while it is served: the copy goes neither to a client nor to the origin.
#[test]
fn a_dirty_copy_that_rots_is_an_error_and_stays() {
    for (stopped, reopened) in [(false, false), (false, true), (true, true)] {
        run(1, async {
            let World { mut borg, disk } = world(Options::default(), 400).await;
            for page in [5, 6, 7] {
                write(&*borg, at(page), 1).await;
            }
            borg.flush(Hints::default()).await.unwrap();
            if stopped {
                borg.stop().await.unwrap();
            }
            if reopened {
                drop(borg);
                borg = formatted(slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 400 * 8), Options::default())
                    .await;
            }
            let slot = borg.store.slot_of(6).unwrap();
            let there = Extent::of_pages(ORIGIN / 8 + borg.store.layout().page(slot), 1);
            let mut bytes = read(&*disk, there).await;
            bytes[2_000] ^= 8;
            disk.write(there, Buffer::from_vec(bytes), Hints::default()).await.unwrap();
            let error = borg.read(at(6), Buffer::zeroed(4096), Hints::default()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains(&format!("page 6 in slot {slot}")), "{error}");
            // A part of it has the checksum of the whole.
            let part = Extent { sectors: 1, ..at(6) };
            assert!(borg.read(part, Buffer::zeroed(512), Hints::default()).await.is_err());
            let verify = Hints { verify: true, ..Hints::default() };
            assert!(borg.read(at(6), Buffer::zeroed(4096), verify).await.is_err());
            assert_eq!(read(&*borg, at(7)).await, stamped(at(7), 1).to_vec());
            // Not drained, and not joined with part of a write.
            let error = borg.drain_all(Account(1)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert_eq!(read(&*disk, at(6)).await, vec![0; 4096]);
            if !borg.store.is_stable(slot) {
                assert!(borg.write(part, Buffer::zeroed(512), Hints::default()).await.is_err());
            }
            // Written anew, it is whole.
            write(&*borg, at(6), 2).await;
            assert_eq!(read(&*borg, at(6)).await, stamped(at(6), 2).to_vec());
            borg.drain_all(Account(1)).await.unwrap();
            assert_eq!(read(&*disk, at(6)).await, stamped(at(6), 2).to_vec());
        });
    }
}

/// Writes of this sector fail.
struct BadSector(Option<Extent>);

impl Fault for BadSector {
    fn meet(&self, op: Op, at: Extent, _: u64) -> Act {
        if op == Op::Write && self.0.is_some_and(|bad| bad.overlaps(at)) {
            return Act::Fail(IoError::new(ErrorKind::Medium, "test", Some(at), "made to fail"));
        }
        Act::Pass
    }
}

/// A dirty copy that rots, or an origin with a bad sector, keeps no other page from being drained: by a command, in
/// idle time, or before a stop.
#[test]
fn a_page_that_cannot_be_drained_keeps_no_other_from_it() {
    for (rots, way) in [true, false].into_iter().flat_map(|rots| (0..3).map(move |way| (rots, way))) {
        run(1, async {
            let disk = disk();
            let bad = Extent::new(at(30).start.0 + 3, 1);
            let failing = Faulty::new(slice(&disk, 0, ORIGIN), BadSector((!rots).then_some(bad)));
            let borg = formatted(Rc::new(failing), slice(&disk, ORIGIN, 400 * 8), Options::default()).await;
            for page in 0..60 {
                write(&*borg, at(page), 1).await;
            }
            borg.flush(Hints::default()).await.unwrap();
            if rots {
                let slot = borg.store.slot_of(30).unwrap();
                let there = Extent::of_pages(ORIGIN / 8 + borg.store.layout().page(slot), 1);
                let mut bytes = read(&*disk, there).await;
                bytes[2_000] ^= 8;
                disk.write(there, Buffer::from_vec(bytes), Hints::default()).await.unwrap();
            }
            let error = match way {
                0 => Some(borg.drain_all(Account(1)).await.unwrap_err()),
                1 => Some(borg.drain_to_stop(Nanos::from_millis(60_000)).await.unwrap_err()),
                _ => {
                    sleep(Nanos::from_millis(60_000)).await;
                    None
                }
            };
            assert!(error.is_none_or(|error| error.is_medium_error()));
            for page in 0..60 {
                assert_eq!(borg.store.slot_of(page).is_some(), page == 30, "rots {rots}, way {way}: {page}");
                let below = if page == 30 { vec![0; 4096] } else { stamped(at(page), 1).to_vec() };
                assert!(page == 30 && !rots || read(&*disk, at(page)).await == below, "{page}");
            }
            assert_eq!(borg.store.dirty(), 1);
        });
    }
}

/// Parts of copies are overwritten in place: then their checksums on disk are given up, not held against them.
#[test]
fn what_is_overwritten_in_place_is_no_damage_after_a_start() {
    let starts = (
        proptest::collection::vec((0..12_u64, 0..8_u64, 1..=8_u64), 1..60),
        any::<[bool; 3]>(),
        any::<u64>(),
    );
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let test = |(writes, [in_place, stopped, checkpoints], seed): (Vec<(u64, u64, u64)>, [bool; 3], u64)| {
        let overwrite = if in_place { Overwrite::InPlace } else { Overwrite::Logged };
        run(seed, async {
            let (disk, options) = (disk(), Options { overwrite, ..options() });
            let (origin, bopt) = parts(&disk);
            // What one start began in the background must not go on beside the next one.
            let cuts = || [&origin, &bopt].map(|below| cut_later(below.clone()));
            let mut powered = cuts();
            let mut borg = formatted(powered[0].clone(), powered[1].clone(), options.clone()).await;
            let mut sectors = vec![0; 12 * 8];
            for (version, (page, first, count)) in (1..).zip(writes) {
                let part = Extent::new(page * 8 + first, count.min(8 - first));
                write(&*borg, part, version).await;
                sectors[part.start.0 as usize..part.end().0 as usize].fill(version);
                match version % 10 {
                    3 if checkpoints => borg.store.checkpoint(&Hints::default()).await.unwrap(),
                    5 => borg.flush(Hints::default()).await.unwrap(),
                    9 => {
                        let stops = if stopped { borg.stop() } else { borg.flush(Hints::default()) };
                        stops.await.unwrap();
                        drop(borg);
                        for cut in std::mem::replace(&mut powered, cuts()) {
                            cut.cut().await.unwrap();
                        }
                        let [origin, bopt] = powered.clone();
                        borg = Borg::open(origin, bopt, options.clone(), false).await.unwrap();
                    }
                    _ => {}
                }
                for (page, versions) in (0..).zip(sectors.chunks(8)) {
                    let expected: Vec<u8> = (page * 8..)
                        .zip(versions)
                        .flat_map(
                            |(sector, version)| {
                                if *version > 0 { stamp(sector, *version) } else { vec![0; 512] }
                            },
                        )
                        .collect();
                    assert_eq!(read(&*borg, at(page)).await, expected, "page {page} at {version}");
                }
            }
        });
        Ok(())
    };
    runner.run(&starts, test).unwrap();
}
