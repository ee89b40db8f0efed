//! The volume: what is stored once, what is free again, and what is refused. Crashes are explored in `tests/promises`
//! too.

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_core::runtime::Runtime;
use seekless_core::{ErrorKind, Slice};
use seekless_drive::{Disk, QueueOptions, spec};

use super::content::Fingerprint;
use super::format::{Piece, Shape};
use super::space::MOST_PAGES;
use super::*;
use crate::durable::table::Table;
use crate::fault::powercut::{self, Keep, PowerCut};
use crate::under_test::{
    PAGES, SECTORS, Versions, filled, flush, reached, steps, values, with_error, world, write,
};

/// Pages before the first block: the super page and the map, two copies each.
const FIRST: u64 = 4;

fn device(blocks: u64) -> Rc<dyn BlockDevice> {
    let disk = Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default());
    Rc::new(Slice::new(Rc::new(disk), Extent::of_pages(0, FIRST + blocks)).unwrap())
}

async fn open(device: &Rc<dyn BlockDevice>, options: &str) -> Result<Rc<Dedup>, IoError> {
    let options: Options = toml::from_str(options).unwrap();
    options.check().unwrap();
    Dedup::open(device.clone(), &options, true, false).await
}

fn count(volume: &Dedup, name: &str) -> u64 {
    volume.counters().into_iter().find(|(known, _)| *known == name).expect(name).1
}

/// Stored, and logical, in sectors.
fn sizes(volume: &Dedup) -> (u64, u64) {
    (count(volume, "stored_bytes") / 512, count(volume, "logical_bytes") / 512)
}

/// A page that does not compress.
fn noise(seed: u64) -> Buffer {
    let mut rng = seekless_core::runtime::Rng::seeded(seed);
    Buffer::from_vec((0..PAGE_BYTES / 8).flat_map(|_| rng.bits().to_le_bytes()).collect())
}

async fn put(volume: &Dedup, page: u64, bytes: Buffer) -> Result<(), IoError> {
    volume.write(Extent::of_pages(page, 1), bytes, Hints::default()).await
}

async fn get(volume: &Dedup, page: u64) -> Result<Vec<u8>, IoError> {
    let at = Extent::of_pages(page, 1);
    volume.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.map(|read| read.to_vec())
}

#[test]
fn pages_with_the_same_content_are_stored_once() {
    world(async || {
        let device = device(40);
        let volume = open(&device, "").await.unwrap();
        // Ten pages in one request, the same in another, and one of them in part.
        write(&*volume, 0, 80, 7).await.unwrap();
        assert_eq!(sizes(&volume), (8, 80));
        write(&*volume, 160, 16, 7).await.unwrap();
        assert_eq!((sizes(&volume), count(&volume, "pages_found")), ((8, 96), 11));
        write(&*volume, 164, 2, 9).await.unwrap();
        assert_eq!((sizes(&volume), count(&volume, "shared_bytes")), ((16, 96), 10 * PAGE_BYTES));
        let expected = [[7; 4].as_slice(), &[9; 2], &[7; 10], &[0; 4]].concat();
        assert_eq!(values(&*volume, Extent::new(160, 20)).await.unwrap(), expected);
        // Zeroes take nothing, however they came there.
        write(&*volume, 0, 16, 0).await.unwrap();
        volume.write_zeroes(Extent::new(16, 8), Hints::default(), Zeroes::default()).await.unwrap();
        volume.discard(Extent::new(24, 15), Hints::default()).await.unwrap();
        assert_eq!((sizes(&volume), count(&volume, "saved_bytes")), ((16, 64), 48 * 512));
        let expected = [[0; 32].as_slice(), &[7; 8]].concat();
        assert_eq!(values(&*volume, Extent::new(0, 40)).await.unwrap(), expected, "a discard of whole pages");
        volume.stop().await.unwrap();
        drop(volume);
        let volume = open(&device, "").await.unwrap();
        assert_eq!(sizes(&volume), (16, 64));
        write(&*volume, 80, 8, 7).await.unwrap();
        assert_eq!((sizes(&volume), count(&volume, "pages_found")), ((16, 72), 1), "after a restart too");
    });
}

/// Both super pages hold the same: either may be lost.
#[test]
fn a_super_page_that_is_lost_costs_nothing() {
    for lost in 0..2 {
        world(async || {
            let device = device(40);
            let volume = open(&device, "").await.unwrap();
            write(&*volume, 0, 8, 7).await.unwrap();
            volume.stop().await.unwrap();
            write(&*device, 8 * lost, 8, 0xA5).await.unwrap();
            let volume = open(&device, "").await.unwrap();
            assert_eq!(values(&*volume, Extent::new(0, 8)).await.unwrap(), [7; 8]);
            write(&*device, 8 * (1 - lost), 8, 0xA5).await.unwrap();
            let error = open(&device, "").await.err().unwrap().to_string();
            assert!(error.contains("found no super page that is whole"), "{error}");
        });
    }
}

#[test]
fn a_volume_may_be_larger_than_its_device_until_that_is_full() {
    let ((), edges) = world(async || {
        let device = device(20);
        let volume = open(&device, "size = '400KiB'").await.unwrap();
        let mut full = None;
        for page in 0..100 {
            if let Err(error) = put(&volume, page, noise(page)).await {
                full = Some((page, error));
                break;
            }
        }
        let (page, error) = full.unwrap();
        assert_eq!((page, error.kind()), (20, ErrorKind::NoSpace));
        assert!(error.to_string().contains("a discard of what is not needed"), "{error}");
        // Reads go on, and writes of pages that are stored already; a discard makes room.
        for page in 0..20 {
            assert_eq!(get(&volume, page).await.unwrap(), noise(page).to_vec());
        }
        put(&volume, 90, noise(3)).await.unwrap();
        put(&volume, 91, noise(40)).await.unwrap_err();
        volume.discard(Extent::of_pages(5, 2), Hints::default()).await.unwrap();
        put(&volume, 91, noise(40)).await.unwrap();
        assert_eq!(count(&volume, "free_bytes"), PAGE_BYTES);
        assert_eq!(get(&volume, 91).await.unwrap(), noise(40).to_vec());
        flush(&*volume).await.unwrap();
        drop(volume);
        let volume = open(&device, "").await.unwrap();
        assert_eq!(get(&volume, 90).await.unwrap(), noise(3).to_vec());
    });
    for edge in ["no room is left", "pieces ran out: the map is written to free some"] {
        assert!(reached(&edges, edge), "{edge}");
    }
}

/// Two pages with the same fingerprint.
fn colliding() -> [Buffer; 2] {
    let page = |number: u64| {
        // Checksums of consecutive numbers differ.
        let page = vec![number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes(); 512].concat();
        Buffer::from_vec(page)
    };
    let mut known = BTreeMap::new();
    for number in 1.. {
        if let Some(other) = known.insert(Fingerprint::of(&page(number)), number) {
            return [page(other), page(number)];
        }
    }
    unreachable!("there are fewer fingerprints than pages")
}

#[test]
fn a_fingerprint_is_not_trusted() {
    let ((), edges) = world(async || {
        let [one, other] = colliding();
        let volume = open(&device(20), "").await.unwrap();
        put(&volume, 3, one.clone()).await.unwrap();
        put(&volume, 4, other.clone()).await.unwrap();
        put(&volume, 5, other.clone()).await.unwrap();
        let both = Buffer::join([one.clone(), other.clone()]);
        volume.write(Extent::of_pages(6, 2), both, Hints::default()).await.unwrap();
        for (page, expected) in [(3, &one), (4, &other), (5, &other), (6, &one), (7, &other)] {
            assert_eq!(get(&volume, page).await.unwrap(), expected.to_vec(), "page {page}");
        }
        assert_eq!(sizes(&volume), (16, 40));
        assert!(count(&volume, "pages_compared_in_vain") > 0);
    });
    assert!(reached(&edges, "another page has the same fingerprint"));
}

#[test]
fn what_many_pages_hold_is_stored_again() {
    let ((), edges) = world(async || {
        let pages = u64::from(MOST_PAGES) + 20;
        let device = device(pages + 40);
        let volume = open(&device, &format!("size = '{}KiB'", 4 * pages)).await.unwrap();
        for page in 0..pages {
            put(&volume, page, filled(3, 8)).await.unwrap();
        }
        assert_eq!(sizes(&volume), (16, 8 * pages));
        volume.stop().await.unwrap();
        let volume = open(&device, "").await.unwrap();
        volume.discard(Extent::of_pages(0, pages), Hints::default()).await.unwrap();
        flush(&*volume).await.unwrap();
        assert_eq!((sizes(&volume), count(&volume, "shared_bytes")), ((0, 0), 0));
    });
    assert!(reached(&edges, "a piece has as many pages as it may have"));
}

#[test]
fn compressed_pages_share_blocks_and_others_take_their_own() {
    world(async || {
        let device = device(20);
        let volume = open(&device, "compress = 'lz4'\nsize = '240KiB'").await.unwrap();
        // 40 pages, each of a sector, and one that does not compress.
        for page in 0..40 {
            put(&volume, page, filled(page as u8 + 1, 8)).await.unwrap();
        }
        put(&volume, 50, noise(1)).await.unwrap();
        assert_eq!((sizes(&volume), count(&volume, "saved_bytes")), ((48, 8 * 41), 280 * 512));
        write(&*volume, 8 * 7 + 3, 2, 99).await.unwrap();
        let expected = [[8; 3].as_slice(), &[99; 2], &[8; 3]].concat();
        assert_eq!(values(&*volume, Extent::of_pages(7, 1)).await.unwrap(), expected);
        assert_eq!(values(&*volume, Extent::new(8 * 7 + 4, 6)).await.unwrap(), [99, 8, 8, 8, 9, 9]);
        volume.stop().await.unwrap();
        // Without compression, compressed pages are read all the same.
        let volume = open(&device, "").await.unwrap();
        assert_eq!(get(&volume, 50).await.unwrap(), noise(1).to_vec());
        put(&volume, 60 - 1, filled(12, 8)).await.unwrap();
        assert_eq!(count(&volume, "pages_found"), 1);
        for page in (0..40).filter(|page| *page != 7) {
            let found = values(&*volume, Extent::of_pages(page, 1)).await.unwrap();
            assert_eq!(found, [page as u8 + 1; 8], "page {page}");
        }
    });
}

#[test]
fn hollow_pages_are_like_no_other() {
    world(async || {
        for timing_only in [false, true] {
            let options = Options::default();
            let volume = Dedup::open(device(40), &options, true, timing_only).await.unwrap();
            let at = Extent::of_pages(0, 10);
            volume.write(at, Buffer::hollow(at.bytes()), Hints::default()).await.unwrap();
            volume.write(Extent::new(3, 2), Buffer::hollow_sectors(2), Hints::default()).await.unwrap();
            assert_eq!((sizes(&volume), count(&volume, "pages_found")), ((80, 80), 0));
            volume.read(at, Buffer::hollow(at.bytes()), Hints::default()).await.unwrap();
            flush(&*volume).await.unwrap();
        }
    });
}

#[test]
fn what_has_rotted_is_an_error_that_names_its_place() {
    world(async || {
        let device = device(40);
        let volume = open(&device, "").await.unwrap();
        put(&volume, 0, noise(1)).await.unwrap();
        put(&volume, 1, noise(2)).await.unwrap();
        volume.stop().await.unwrap();
        let damage = async |sector: u64| {
            device.write(Extent::new(sector, 1), filled(9, 1), Hints::default()).await.unwrap();
        };
        damage(FIRST * 8 + 3).await;
        let error = get(&volume, 0).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("does not match its fingerprint"), "{error}");
        for (first, sectors) in [(0, 1), (3, 1), (4, 4), (7, 2)] {
            let part = Extent::new(first, sectors);
            let read = volume.read(part, Buffer::zeroed(part.bytes()), Hints::default()).await;
            assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt, "a part of it: {part:?}");
        }
        let part = Extent::new(9, 3);
        let read = volume.read(part, Buffer::zeroed(part.bytes()), Hints::default()).await.unwrap();
        assert_eq!(read.to_vec(), noise(2).to_vec()[512..2048], "a part of another");
        assert_eq!(get(&volume, 1).await.unwrap(), noise(2).to_vec());
        // The same is stored again, not shared with what has rotted.
        put(&volume, 7, noise(1)).await.unwrap();
        assert_eq!(get(&volume, 7).await.unwrap(), noise(1).to_vec());
        volume.stop().await.unwrap();
        // Of the super page and of the map either copy may rot.
        damage(3).await;
        damage(16).await;
        let volume = open(&device, "").await.unwrap();
        assert_eq!(get(&volume, 7).await.unwrap(), noise(1).to_vec());
        damage(16).await;
        damage(24).await;
        let error = open(&device, "").await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("no copy of this sector of the map"), "{error}");
    });
}

#[test]
fn a_volume_is_refused_that_does_not_suit() {
    world(async || {
        let error = |opened: Result<Rc<Dedup>, IoError>| opened.map(drop).unwrap_err().to_string();
        let device = device(40);
        let new = Dedup::open(device.clone(), &Options::default(), false, false).await;
        assert!(error(new).contains("found a device that was not initialised"));
        open(&device, "").await.unwrap().stop().await.unwrap();
        let short: Rc<dyn BlockDevice> =
            Rc::new(Slice::new(device.clone(), Extent::of_pages(0, 30)).unwrap());
        let short = error(open(&short, "").await);
        assert!(short.contains("over: found a device of 240 sectors, expected at least 352"), "{short}");
        let other = error(open(&device, "size = '400KiB'").await);
        assert!(
            other.contains("size: found 409600 bytes, expected those of the volume's creation"),
            "{other}"
        );
        // Two pages with pieces that overlap.
        let shape = Shape::new(44 * 8, None).unwrap();
        let piece = |at| Some(Piece { at, sectors: 3, fingerprint: Fingerprint(5) });
        let numbers = [format::encode(piece(8)), format::encode(piece(9))].concat();
        let rest = format::NOWHERE.repeat(shape.pages as usize - 2);
        let identity = open(&device, "").await.unwrap().identity;
        let site = shape.site(identity);
        Table::create(&*device, site, [numbers, rest].concat(), false).await.unwrap();
        let overlap = error(open(&device, "").await);
        assert!(overlap.contains("found page 1 in sectors 9 + 3, expected a piece of its own"), "{overlap}");
    });
    for (text, key) in [("size = '2KiB'", "size"), ("size = '0'", "size"), ("compress = 'zip'", "zip")] {
        let refused = toml::from_str::<Options>(text).map_err(|error| error.to_string());
        let refused = refused.and_then(|options| options.check().map_err(|refused| refused.to_string()));
        assert!(refused.unwrap_err().contains(key), "{text}");
    }
}

/// What a restart finds is one of the versions, and it goes on working.
async fn check(versions: &mut Versions, below: Rc<dyn BlockDevice>, when: &str) {
    let volume = open(&below, "").await.unwrap_or_else(|error| panic!("{when}: {error}"));
    versions.agree(&*volume, when).await;
    write(&*volume, 0, SECTORS, 77).await.unwrap();
    flush(&*volume).await.unwrap();
    let again = open(&below, "").await.unwrap();
    assert_eq!(values(&*again, Extent::new(0, SECTORS)).await.unwrap(), [77; SECTORS as usize], "{when}");
}

async fn created(blocks: u64) -> Rc<dyn BlockDevice> {
    let device = device(blocks);
    open(&device, &format!("size = '{}KiB'", 4 * PAGES)).await.unwrap().stop().await.unwrap();
    device
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Power goes at the n-th request that reaches the disk, for every n; a restart finds, of every sector, the last
    /// durable version or a later one.
    #[test]
    fn no_power_cut_loses_what_was_durable(
        steps in steps(14),
        blocks in PAGES + 1..2 * PAGES,
        lz4: bool,
        seed in 0..100_u64,
    ) {
        let options = if lz4 { "compress = 'lz4'" } else { "" };
        for nth in 1.. {
            let gone = Runtime::new(seed).run(async {
                let durable = created(blocks).await;
                let cut = Rc::new(PowerCut::new(durable.clone(), powercut::Options { nth, keep: Keep::Any }));
                let below: Rc<dyn BlockDevice> = cut.clone();
                let mut versions = Versions::zeroes();
                if let Ok(volume) = open(&below, options).await {
                    let _ = versions.carry_out(&*volume, &steps, 1).await;
                }
                cut.cut().await.unwrap();
                check(&mut versions, durable, &format!("power cut at request {nth}")).await;
                cut.requests() >= nth
            }).unwrap();
            if !gone {
                break;
            }
        }
    }

    /// Requests that are all in flight together, with few blocks more than pages: none fails for lack of room, and
    /// overlapping ones have the effect that they have in the order of their arrival.
    #[test]
    fn requests_in_flight_together_find_room(steps in steps(24), spare in 1..4_u64, lz4: bool) {
        let options = if lz4 { "compress = 'lz4'" } else { "" };
        world(async || {
            let volume = open(&created(PAGES + spare).await, options).await.unwrap();
            let reference = open(&created(3 * PAGES).await, options).await.unwrap();
            for (page, full) in (0..PAGES).flat_map(|page| [(page, &volume), (page, &reference)]) {
                write(&**full, page * 8, 8, 100 + page as u8).await.unwrap();
            }
            // Few contents, so that pages find others that are given up meanwhile.
            let number = |number: usize| 1 + (number % 3) as u8;
            // Between requests in flight together no read is compared.
            let steps: Vec<_> =
                steps.iter().map(|step| if step.0 == 2 { (0, step.1, step.2) } else { *step }).collect();
            let tasks: Vec<_> = steps.iter().enumerate().map(|(at, step)| {
                let (volume, step) = (volume.clone(), *step);
                seekless_core::runtime::spawn(async move {
                    Versions::zeroes().carry_out(&*volume, &[step], number(at)).await
                })
            }).collect();
            for task in tasks {
                task.await.unwrap();
            }
            for (at, step) in steps.iter().enumerate() {
                Versions::zeroes().carry_out(&*reference, &[*step], number(at)).await.unwrap();
            }
            let all = Extent::new(0, SECTORS);
            assert_eq!(values(&*volume, all).await.unwrap(), values(&*reference, all).await.unwrap());
            assert_eq!(count(&volume, "logical_bytes"), count(&reference, "logical_bytes"));
        });
    }

    /// The n-th request to the disk fails, once: nothing that is read is wrong, and nothing durable is lost.
    #[test]
    fn no_error_yields_wrong_data(steps in steps(14), blocks in PAGES + 1..2 * PAGES, lz4: bool) {
        let options = if lz4 { "compress = 'lz4'" } else { "" };
        for nth in 1..60 {
            Runtime::new(1).run(async {
                let durable = created(blocks).await;
                let mut versions = Versions::zeroes();
                if let Ok(volume) = open(&with_error(&durable, &format!("nth = {nth}")), options).await {
                    let _ = versions.carry_out(&*volume, &steps, 1).await;
                }
                check(&mut versions, durable, &format!("error at request {nth}")).await;
            }).unwrap();
        }
    }
}
