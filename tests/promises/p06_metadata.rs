//! Promise 6. Damaged metadata is detected and named, never followed; data with a second copy is repaired.
//!
//! Fault model: any byte of one copy of the mapper's map, or of both, is damaged. After a clean stop both copies are
//! equal: the other one is used, and the next flush rewrites the damaged one. After a kill the newest map may be in one
//! copy only: if that is damaged, it is refused with its sector, and never silently given up for the previous one; a
//! damaged older copy is ignored. If both are damaged, the volume does not open, and the error gives the reason. The
//! same holds for any bit of one page of a BOPT's metadata. A sector that cannot be read counts as damaged
//! (`unreadable.rs`). In a record of lld's log one damaged sector is repaired, data included until a checkpoint covers
//! it; data that a checkpoint covers is verified when it is read, and damaged data is an error.

use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::runtime::{self, Rng, Runtime};
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, Layer, Lba, Nanos, PAGE_SECTORS};
use seekless_drive::{Disk, QueueOptions, spec};
use seekless_lab::check::{self, SectorContent};
use seekless_layers::borg::{self, Borg};
use seekless_layers::mapper::{Mapper, Options};
use seekless_layers::registry::{self, Below, Built};

/// Pages of the volume: each copy of their map takes one page.
const PAGES: u64 = 40;

/// Room for the volume, twice.
fn disk() -> Rc<dyn BlockDevice> {
    let disk = Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default());
    Rc::new(seekless_core::Slice::new(Rc::new(disk), Extent::of_pages(0, 3 * PAGES)).unwrap())
}

async fn read(device: &dyn BlockDevice, at: Extent) -> Vec<u8> {
    device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap().to_vec()
}

async fn write(device: &dyn BlockDevice, at: Extent, bytes: Vec<u8>) {
    device.write(at, Buffer::from_vec(bytes), Hints::default()).await.unwrap();
}

fn options() -> Options {
    toml::from_str("size = \"160KiB\"").unwrap()
}

/// The write that each page holds, if the volume opens.
async fn held(disk: &Rc<dyn BlockDevice>) -> Result<u64, seekless_core::IoError> {
    let mapper = Mapper::open(disk.clone(), &options(), false).await?;
    let whole = Extent::of_pages(0, PAGES);
    let buffer = mapper.read(whole, Buffer::zeroed(whole.bytes()), Hints::default()).await?;
    let mut writes = Vec::new();
    check::classify(&buffer, |_, found| writes.push(found));
    let SectorContent::Stamp(first) = writes[0] else { panic!("{:?}", writes[0]) };
    for (sector, found) in (0..).zip(writes) {
        assert_eq!(
            found,
            SectorContent::Stamp(check::Stamp { sector, write: first.write }),
            "all of one flush"
        );
    }
    Ok(first.write)
}

/// The two copies of the map.
const HOMES: [Extent; 2] = [
    Extent { start: Lba(0), sectors: PAGE_SECTORS },
    Extent { start: Lba(PAGE_SECTORS), sectors: PAGE_SECTORS },
];

/// A volume with two flushes, the second one's map in the second copy; stopped clean, or killed after the second.
async fn flushed_twice(stop: bool) -> Rc<dyn BlockDevice> {
    let disk = disk();
    let mapper = Mapper::open(disk.clone(), &options(), true).await.unwrap();
    for number in 1..=2 {
        let at = Extent::of_pages(0, PAGES);
        mapper.write(at, check::stamped(at, number), Hints::default()).await.unwrap();
        mapper.flush(Hints::default()).await.unwrap();
    }
    if stop {
        mapper.stop().await.unwrap();
    }
    disk
}

#[test]
fn no_flush_is_given_up_for_a_byte_that_rots() {
    for stopped in [false, true] {
        let counted = Runtime::new(1).run(async {
            let disk = flushed_twice(stopped).await;
            let sound = [read(&*disk, HOMES[0]).await, read(&*disk, HOMES[1]).await];
            let (mut passed, mut refused) = (0, 0);
            for byte in 0..sound[0].len() {
                let mut damaged = sound.clone();
                for home in 0..2 {
                    damaged[home][byte] ^= 1 << (byte % 8);
                    write(&*disk, HOMES[home], damaged[home].clone()).await;
                    match held(&disk).await {
                        Ok(2) => passed += 1,
                        Ok(other) => {
                            panic!("byte {byte} of home {home}: flush {other} was found, and 2 were answered")
                        }
                        Err(error) => {
                            let sector = Extent::new(HOMES[home].start.0 + byte as u64 / 512, 1);
                            assert_eq!((error.kind(), error.extent()), (ErrorKind::Corrupt, Some(sector)));
                            assert!(error.to_string().contains("`older = true`"), "{error}");
                            assert!(!stopped && home == 1, "{error}");
                            refused += 1;
                        }
                    }
                    write(&*disk, HOMES[home], sound[home].clone()).await;
                }
                for home in 0..2 {
                    write(&*disk, HOMES[home], damaged[home].clone()).await;
                }
                let error = held(&disk).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {byte}: {error}");
                for home in 0..2 {
                    write(&*disk, HOMES[home], sound[home].clone()).await;
                }
            }
            (passed, refused)
        });
        let (passed, refused) = counted.unwrap();
        println!("stopped {stopped}: {passed} damaged maps passed by, {refused} refused, none followed");
        assert_eq!((passed, refused), if stopped { (8_192, 0) } else { (4_096, 4_096) });
    }
}

#[test]
fn a_refused_map_gives_way_to_the_one_before_if_the_options_say_so() {
    Runtime::new(1)
        .run(async {
            let disk = flushed_twice(false).await;
            let mut bytes = read(&*disk, HOMES[1]).await;
            bytes[700] ^= 1;
            write(&*disk, HOMES[1], bytes).await;
            let older = Options { older: true, ..options() };
            let mapper = Mapper::open(disk.clone(), &older, false).await.unwrap();
            let one = Extent::new(0, 1);
            let buffer = mapper.read(one, Buffer::zeroed(512), Hints::default()).await.unwrap();
            check::classify(&buffer, |_, found| {
                assert_eq!(found, SectorContent::Stamp(check::Stamp { sector: 0, write: 1 }));
            });
            let refused = mapper.write(one, buffer, Hints::default()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ReadOnly);
            assert!(held(&disk).await.is_err(), "it is as it was");
        })
        .unwrap();
}

#[test]
fn an_origin_that_was_damaged_is_written_anew() {
    Runtime::new(1)
        .run(async {
            let disk = disk();
            let at = Extent::of_pages(0, PAGES);
            for number in 1..9 {
                let mapper = Mapper::open(disk.clone(), &options(), true).await.unwrap();
                mapper.write(at, check::stamped(at, number), Hints::default()).await.unwrap();
                mapper.flush(Hints::default()).await.unwrap();
                // In idle time as at a stop.
                if number % 2 == 0 {
                    runtime::sleep(Nanos::from_millis(3_000)).await;
                } else {
                    mapper.stop().await.unwrap();
                }
                let sound = [read(&*disk, HOMES[0]).await, read(&*disk, HOMES[1]).await];
                for (home, sound) in HOMES.into_iter().zip(&sound) {
                    let mut damaged = sound.clone();
                    damaged[1_000] ^= 9;
                    write(&*disk, home, damaged).await;
                    assert_eq!(held(&disk).await.unwrap(), number);
                    write(&*disk, home, sound.clone()).await;
                }
                // One of them stays damaged until the next flush.
                let home = number as usize / 2 % 2;
                let mut damaged = sound[home].clone();
                damaged[2_000] ^= 9;
                write(&*disk, HOMES[home], damaged).await;
            }
        })
        .unwrap();
}

/// The disk of a layer, after known writes.
struct Kept {
    layer: &'static str,
    options: toml::Table,
    disk: Rc<dyn BlockDevice>,
    /// Contents of the volume.
    content: Vec<u8>,
    /// Sectors of metadata, and of the data of the last record.
    sectors: Vec<u64>,
}

impl Kept {
    async fn open(&self, create: bool) -> Result<Built, seekless_core::IoError> {
        let over = vec![self.disk.clone()];
        let below = Below { over, devices: BTreeMap::new(), create, timing_only: false };
        registry::find(self.layer).unwrap().build(below, &self.options).await
    }

    /// Its whole contents, if they are readable.
    async fn held(&self) -> Result<Vec<u8>, seekless_core::IoError> {
        let Built { device, .. } = self.open(false).await?;
        let all = Extent::new(0, device.geometry().sectors);
        Ok(device.read(all, Buffer::zeroed(all.bytes()), Hints::default()).await?.to_vec())
    }

    /// Random writes, with flushes between; the last request is a flush, or a clean stop.
    async fn of(layer: &'static str, options: &str, stopped: bool, seed: u64) -> Kept {
        let options: toml::Table = toml::from_str(options).unwrap();
        let mut kept = Kept { layer, options, disk: disk(), content: Vec::new(), sectors: Vec::new() };
        let Built { device, layer } = kept.open(true).await.unwrap();
        kept.content = vec![0; (device.geometry().sectors * 512) as usize];
        let mut rng = Rng::seeded(seed);
        for round in 0..20 + rng.below(60) {
            let at = Extent::of_pages(rng.below(PAGES), 1);
            let bytes: Vec<u8> = (0..4_096).map(|_| rng.bits() as u8).collect();
            kept.content[at.start.0 as usize * 512..][..4_096].copy_from_slice(&bytes);
            device.write(at, Buffer::from_vec(bytes), Hints::default()).await.unwrap();
            if round % 3 == 0 {
                device.flush(Hints::default()).await.unwrap();
            }
        }
        device.flush(Hints::default()).await.unwrap();
        if stopped {
            layer.stop().await.unwrap();
        }
        kept.sectors = kept.metadata().await;
        kept
    }

    /// The copies at the start, summaries wherever they are, and after the last one its blocks.
    async fn metadata(&self) -> Vec<u64> {
        let bytes = read(&*self.disk, Extent::new(0, self.disk.geometry().sectors)).await;
        let pages = bytes.chunks_exact(4_096);
        let number = |page: &[u8], at: usize| u32::from_le_bytes(page[at..at + 4].try_into().unwrap());
        let mut found: Vec<u64> = vec![0, 1];
        let mut last = (0, 0, 0);
        for (page, index) in pages.zip(0..).filter(|(page, _)| page.starts_with(b"SKLLLDSU")) {
            found.push(index);
            last = last.max((number(page, 40), index, u64::from(number(page, 68))));
        }
        let (sequence, summary, blocks) = last;
        found.extend((summary + 1..=summary + blocks).filter(|_| sequence > 0));
        found.into_iter().flat_map(|page| page * 8..page * 8 + 8).collect()
    }
}

#[test]
fn a_thousand_rotten_sectors_lose_nothing_without_a_word() {
    for (layer, options) in
        [("mapper", "size = \"160KiB\""), ("lld", "size = \"160KiB\"\nsegment = \"32KiB\"")]
    {
        for stopped in [false, true] {
            let (mut right, mut refused) = (0, 0);
            for seed in 0..25 {
                let found = Runtime::new(seed).run(async {
                    let kept = Kept::of(layer, options, stopped, seed).await;
                    let mut rng = Rng::seeded(!seed);
                    let mut found = Vec::new();
                    for _ in 0..40 {
                        let at = Extent::new(kept.sectors[rng.below(kept.sectors.len() as u64) as usize], 1);
                        let sound = read(&*kept.disk, at).await;
                        let mut damaged = sound.clone();
                        if rng.chance(1, 4) {
                            damaged.fill(0);
                        } else {
                            damaged[rng.below(512) as usize] ^= 1 << rng.below(8);
                        }
                        write(&*kept.disk, at, damaged).await;
                        let held = kept.held().await;
                        if let Ok(held) = &held {
                            assert!(
                                *held == kept.content,
                                "{layer}, stopped {stopped}, seed {seed}: {at} is silent"
                            );
                        }
                        found.push(held.map(drop).map_err(|error| error.kind()));
                        write(&*kept.disk, at, sound).await;
                    }
                    found
                });
                for outcome in found.unwrap() {
                    match outcome {
                        Ok(()) => right += 1,
                        Err(kind) => {
                            assert_eq!(kind, ErrorKind::Corrupt);
                            refused += 1;
                        }
                    }
                }
            }
            println!(
                "{layer}, stopped {stopped}: of {} sectors {right} do no harm, {refused} are refused",
                right + refused
            );
            assert!(
                right > 100 && (layer == "lld" || refused == 0 || !stopped),
                "{layer}, stopped {stopped}: {refused} are refused"
            );
        }
    }
}

/// Pages of the volume with BORG, and of its BOPT: 16 segments of four.
const BORG_PAGES: u64 = 64;
const SEGMENTS: u64 = 16;
const BOPT_PAGES: u64 = 2 + 2 * SEGMENTS + 4 * SEGMENTS;

struct Drive {
    home: Rc<dyn BlockDevice>,
    bopt: Rc<dyn BlockDevice>,
}

impl Drive {
    fn new() -> Drive {
        let disk = Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
        let slice = |first, pages| -> Rc<dyn BlockDevice> {
            Rc::new(seekless_core::Slice::new(disk.clone(), Extent::of_pages(first, pages)).unwrap())
        };
        Drive { home: slice(0, BORG_PAGES), bopt: slice(BORG_PAGES, BOPT_PAGES) }
    }

    async fn open(&self) -> Result<Rc<Borg>, seekless_core::IoError> {
        Borg::open_creating(self.home.clone(), self.bopt.clone(), borg::Options::default(), false).await
    }

    /// Contents of each sector, if the volume opens.
    async fn held(&self) -> Result<Vec<SectorContent>, seekless_core::IoError> {
        let (borg, mut held) = (self.open().await?, Vec::new());
        // A longer read would return dirty pages to the origin, and so begin a session.
        for at in Extent::of_pages(0, BORG_PAGES).split(8 * 8) {
            let buffer = borg.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await?;
            check::classify(&buffer, |_, found| held.push(found));
        }
        Ok(held)
    }

    /// Clean, dirty and absorbed copies; some pages were written several times.
    async fn use_it(&self, stop: bool) {
        let borg = self.open().await.unwrap();
        let mut number = 0;
        for round in 0..6_u64 {
            for page in (0..BORG_PAGES).filter(|page| page % 6 != round && page % 9 != 4) {
                let at = Extent::of_pages(page, 1);
                number += 1;
                if (page + round) % 3 == 0 {
                    borg.write(at, check::stamped(at, number), Hints::default()).await.unwrap();
                } else {
                    borg.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
                }
            }
            borg.flush(Hints::default()).await.unwrap();
            if round % 2 == 0 {
                borg.reconfigure_now(seekless_core::Account::default()).await.unwrap();
            }
        }
        if stop {
            borg.stop().await.unwrap();
        }
        // Background tasks that outlive their callers run to their end.
        runtime::sleep(Nanos::from_millis(1_000)).await;
    }
}

/// Damages every page of metadata of a BOPT in many places. After a clean stop both copies are equal, and the BOPT
/// opens. After a kill a damaged page that may have been the newest is refused.
fn damaged_pages_of_a_bopt(stop: bool) {
    Runtime::new(1)
        .run(async {
            let drive = Drive::new();
            drive.use_it(stop).await;
            let right = drive.held().await.unwrap();
            let (mut refused, mut harmless) = (0, 0);
            for page in 0..2 + 2 * SEGMENTS {
                let at = Extent::of_pages(page, 1);
                let sound = read(&*drive.bopt, at).await;
                let bits = (0..176).chain((176..sound.len()).step_by(53)).map(|byte| (byte, false));
                let sectors = (0..sound.len()).step_by(512).map(|byte| (byte, true));
                for (byte, zeroed) in bits.chain(sectors) {
                    let mut damaged = sound.clone();
                    damaged[byte] ^= 1 << (byte % 8);
                    if zeroed {
                        damaged[byte..byte + 512].fill(0);
                    }
                    write(&*drive.bopt, at, damaged).await;
                    match drive.held().await {
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Corrupt, "page {page}, byte {byte}: {error}");
                            assert!(error.to_string().contains("expected"), "page {page}, byte {byte}: {error}");
                            refused += 1;
                        }
                        Ok(held) => {
                            assert!(held == right, "page {page}, byte {byte}: not what was written last");
                            harmless += 1;
                        }
                    }
                }
                write(&*drive.bopt, at, sound).await;
            }
            println!("stopped: {stop}; {refused} damaged pages were named, {harmless} harmless, none passed for torn");
            assert!(harmless > 1_000 && if stop { refused == 0 } else { refused > 1_000 });
        })
        .unwrap();
}

#[test]
fn after_a_clean_stop_a_damaged_page_of_a_bopt_is_harmless() {
    damaged_pages_of_a_bopt(true);
}

#[test]
fn after_a_crash_a_damaged_page_of_a_bopt_is_named_or_harmless() {
    damaged_pages_of_a_bopt(false);
}
