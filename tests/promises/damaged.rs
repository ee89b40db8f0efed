//! Damaged volumes, packed, and what the tools make of them: a volume that is damaged is refused or returns errors,
//! never wrong data; a repair has every page that is readable, and names the others; a rescue brings all of it to the
//! origin.
//!
//! Fault model: one kind of damage each, after a kill or a clean stop, and tools that are killed at every write
//! (`interrupted.rs`).
//! With `SEEKLESS_PACK` set, the first test packs the images anew.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{
    Account, BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, IoFuture, Slice, Zeroes,
};
use seekless_drive::{Disk, QueueOptions, spec};
use seekless_layers::Overlay;
use seekless_layers::registry::{self, Below, Built, Entry};
use seekless_layers::tools::Repaired;
use seekless_promises as common;

mod interrupted;

const PAGE: usize = 4096;
const PAGES: u64 = 64;
const BOPT_PAGES: u64 = 80;
const ENDED: [&str; 2] = ["killed", "stopped"];
/// Damage after which nothing tells what the BOPT held, if nothing else is damaged.
const HOPELESS: [&str; 2] = ["super-foreign", "super-version"];
/// Damage that opening cannot notice (see the layer's page): of copies and their checksums together, and what looks
/// like a write that a power failure interrupted.
const UNNOTICED: [&str; 5] = ["log-segment", "map-torn", "super-torn", "batch-header", "batch-zeroes"];

fn borg() -> &'static Entry {
    registry::find("borg").unwrap()
}

fn options() -> toml::Table {
    toml::from_str("segment = \"16KiB\"\nwrite_buffer = 0.5\nidle_after = \"0s\"\nrehearse = false").unwrap()
}

fn folder() -> PathBuf {
    common::folder("damaged")
}

fn pack(folder: &Path, name: &str, bytes: &[u8]) {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 9);
    encoder.write_all(bytes).unwrap();
    std::fs::write(folder.join(format!("{name}.xz")), encoder.finish().unwrap()).unwrap();
}

fn unpacked(name: &str) -> Option<Vec<u8>> {
    let packed = std::fs::read(folder().join(format!("{name}.xz"))).ok()?;
    let mut bytes = Vec::new();
    liblzma::read::XzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect(name);
    Some(bytes)
}

/// A disk that begins with these bytes, and is as large.
async fn disk(number: u32, bytes: Vec<u8>) -> Rc<dyn BlockDevice> {
    let disk = Rc::new(Disk::new(number, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
    let all = Extent::new(0, bytes.len() as u64 / 512);
    let disk: Rc<dyn BlockDevice> = Rc::new(Slice::new(disk, all).unwrap());
    disk.write(all, Buffer::from_vec(bytes), Hints::default()).await.unwrap();
    disk
}

async fn content(device: &dyn BlockDevice) -> Vec<u8> {
    let all = Extent::new(0, device.geometry().sectors);
    device.read(all, Buffer::zeroed(all.bytes()), Hints::default()).await.unwrap().to_vec()
}

fn below(origin: &Rc<dyn BlockDevice>, bopt: &Rc<dyn BlockDevice>) -> Below {
    let devices = BTreeMap::from([("bopt".to_owned(), vec![bopt.clone()])]);
    Below { over: vec![origin.clone()], devices, create: false, timing_only: false }
}

/// A page's data: its number and that of the write.
fn stamped(page: u64, write: u64) -> Vec<u8> {
    [page.to_le_bytes(), write.to_le_bytes()].concat().repeat(PAGE / 16)
}

/// A volume that was written, reorganised and written again: origin, BOPT, and what it shows.
async fn used(ended: &str) -> [Vec<u8>; 3] {
    let first: Vec<u8> = (0..PAGES).flat_map(|page| stamped(page, 1)).collect();
    let (origin, bopt) = (disk(0, first).await, disk(1, vec![0; BOPT_PAGES as usize * PAGE]).await);
    let create = borg().create.unwrap();
    create(below(&origin, &bopt), options(), false).await.unwrap();
    let Built { device, layer } = borg().build(below(&origin, &bopt), &options()).await.unwrap();
    let mut write = 1;
    for round in 0..3_u64 {
        for turn in 0..9_u64 {
            write += 1;
            let page = (turn * 5 + round * 11) % PAGES;
            let data = Buffer::from_vec(stamped(page, write));
            device.write(Extent::of_pages(page, 1), data, Hints::default()).await.unwrap();
            let read = Extent::of_pages((turn * 7 + 3) % PAGES, 1);
            device.read(read, Buffer::zeroed(read.bytes()), Hints::default()).await.unwrap();
            if turn % 4 == 3 {
                device.flush(Hints::default()).await.unwrap();
            }
        }
        device.flush(Hints::default()).await.unwrap();
        if round == 0 {
            layer.reconfigure(Account::default()).await.unwrap();
        }
    }
    let shown = content(&*device).await;
    if ended == "stopped" {
        layer.stop().await.unwrap();
    }
    [content(&*origin).await, content(&*bopt).await, shown]
}

#[test]
fn every_kind_of_damage_changes_something() {
    let elsewhere = tempfile::tempdir().unwrap();
    let packs = std::env::var_os("SEEKLESS_PACK").is_some();
    let folder = if packs { folder() } else { elsewhere.path().to_owned() };
    for ended in ENDED {
        for (kind, _) in borg().tools.damages() {
            let image = Runtime::new(1).run(async {
                let [origin, bopt, shown] = used(ended).await;
                pack(&folder, &format!("{ended}.content"), &shown);
                let before = (origin.clone(), bopt.clone());
                let (origin, bopt) = (disk(0, origin).await, disk(1, bopt).await);
                let damaged = borg().tools.damage(below(&origin, &bopt), options(), (*kind).to_owned()).await;
                damaged.unwrap_or_else(|error| panic!("{ended}, {kind}: {error}"));
                let after = (content(&*origin).await, content(&*bopt).await);
                assert!(after != before, "{ended}, {kind}");
                after
            });
            let (origin, bopt) = image.unwrap();
            pack(&folder, &format!("{ended}-{kind}.disk"), &origin);
            pack(&folder, &format!("{ended}-{kind}.bopt"), &bopt);
        }
    }
}

/// An image: its name and kind of damage, origin, BOPT, and what the volume showed before.
type Image = (String, &'static str, Vec<u8>, Vec<u8>, Vec<u8>);

fn images() -> Vec<Image> {
    let mut all = Vec::new();
    for ended in ENDED {
        for (kind, _) in borg().tools.damages() {
            let name = format!("{ended}-{kind}");
            let part = |part: &str| unpacked(&format!("{name}.{part}")).expect(&name);
            let shown = unpacked(&format!("{ended}.content")).expect(ended);
            all.push((name.clone(), *kind, part("disk"), part("bopt"), shown));
        }
    }
    assert!(all.len() >= 20, "{} images", all.len());
    all
}

/// Reads each page: it is as it was, or an error. Returns the pages with errors.
async fn never_wrong(name: &str, device: &dyn BlockDevice, shown: &[u8]) -> Vec<u64> {
    let mut errors = Vec::new();
    for page in 0..PAGES {
        let at = Extent::of_pages(page, 1);
        match device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await {
            Ok(bytes) => {
                let expected = &shown[page as usize * PAGE..][..PAGE];
                assert!(bytes.to_vec() == expected, "{name}: page {page} is wrong, and nothing says so");
            }
            Err(error) => {
                assert!(error.to_string().contains("expected"), "{name}: {error}");
                errors.push(page);
            }
        }
    }
    errors
}

#[test]
fn a_damaged_volume_is_refused_or_has_errors_but_no_wrong_data() {
    for (name, kind, origin, bopt, shown) in images() {
        let found = Runtime::new(1).run(async {
            let (origin, bopt) = (disk(0, origin.clone()).await, disk(1, bopt.clone()).await);
            let overlay = |device: Rc<dyn BlockDevice>| Rc::new(Overlay::new(device)) as Rc<dyn BlockDevice>;
            let built =
                borg().build(below(&overlay(origin.clone()), &overlay(bopt.clone())), &options()).await;
            let opened = match built {
                Ok(_) if UNNOTICED.contains(&kind) => "opens".to_owned(),
                Ok(Built { device, .. }) => {
                    let errors = never_wrong(&name, &*device, &shown).await;
                    format!("opens, {} pages are unreadable", errors.len())
                }
                Err(error) => {
                    assert!(error.to_string().contains("expected"), "{name}: {error}");
                    format!("refused: {error}")
                }
            };
            (opened, content(&*origin).await, content(&*bopt).await)
        });
        let (opened, origin_after, bopt_after) = found.unwrap();
        assert!(origin_after == origin && bopt_after == bopt, "{name}: a check writes nothing");
        println!("{name}: {opened}");
        let opens = opened.starts_with("opens, 0");
        if ["super-older", "map-older", "batch-bit"].contains(&kind) {
            assert!(opens, "{name}: a second copy is there: {opened}");
        }
        if ["super-both", "super-zeroes", "map-both", "map-zeroes"].contains(&kind) {
            assert!(!opened.starts_with("opens"), "{name}: {opened}");
        }
    }
}

/// With `older`, what is readable can be copied out: each page as one of its writes left it, or an error.
#[test]
fn a_damaged_volume_opens_read_only() {
    let mut older = options();
    older.insert("older".to_owned(), true.into());
    let mut differing = 0;
    for (name, kind, origin, bopt, shown) in images() {
        let run = async {
            let (origin, bopt) = (disk(0, origin.clone()).await, disk(1, bopt.clone()).await);
            let Built { device, layer } = match borg().build(below(&origin, &bopt), &older).await {
                Ok(built) => built,
                Err(error) => {
                    assert!(HOPELESS.contains(&kind), "{name}: {error}");
                    return (content(&*origin).await, content(&*bopt).await);
                }
            };
            for page in 0..PAGES {
                let at = Extent::of_pages(page, 1);
                let written = device.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await;
                assert_eq!(written.unwrap_err().kind(), ErrorKind::ReadOnly, "{name}");
                let Ok(read) = device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await else {
                    continue;
                };
                let read = read.to_vec();
                let write = u64::from_le_bytes(read[8..16].try_into().unwrap());
                let is_one = read == stamped(page, write) || UNNOTICED.contains(&kind);
                assert!(is_one, "{name}: page {page} is of no write");
                differing += usize::from(read != shown[page as usize * PAGE..][..PAGE]);
            }
            layer.stop().await.unwrap();
            (content(&*origin).await, content(&*bopt).await)
        };
        let (origin_after, bopt_after) = Runtime::new(1).run(run).unwrap();
        assert!(origin_after == origin && bopt_after == bopt, "{name}: something was written");
    }
    println!("{differing} pages were read in an earlier state");
}

async fn repair(below: Below, to: &Rc<dyn BlockDevice>) -> Result<Repaired, IoError> {
    borg().tools.repair(below, options(), to.clone()).await
}

/// Damage among what was given up: clean copies are on the origin.
fn lost(repaired: &Repaired) -> Vec<&String> {
    repaired.given_up.iter().filter(|what| !what.contains("that the origin has too")).collect()
}

#[test]
fn a_repair_has_what_is_readable_and_names_the_rest_and_a_rescue_brings_it_home() {
    for (name, kind, origin, bopt, shown) in images() {
        let outcome = Runtime::new(1).run(async {
            let (origin, bopt) = (disk(0, origin).await, disk(1, bopt.clone()).await);
            let new = disk(2, vec![0; (BOPT_PAGES as usize + 24) * PAGE]).await;
            let repaired = match repair(below(&origin, &bopt), &new).await {
                Ok(repaired) => repaired,
                Err(error) => {
                    assert!(HOPELESS.contains(&kind), "{name}: {error}");
                    return format!("not repaired: {error}");
                }
            };
            let keep = [("origin_changed".to_owned(), "keep".into())];
            let options = options().into_iter().chain(keep).collect();
            let Built { device, layer } = borg().build(below(&origin, &new), &options).await.expect(&name);
            let (found, mut older) = (content(&*device).await, 0);
            for page in 0..PAGES {
                let at = page as usize * PAGE;
                let word =
                    |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                if found[at..at + PAGE] != shown[at..at + PAGE] && kind != "origin" {
                    assert!(!lost(&repaired).is_empty(), "{name}: page {page} is older, and nothing says so");
                    let stays = kind == "log-segment" || word(&found, at) == page;
                    assert!(stays && word(&found, at + 8) < word(&shown, at + 8), "{name}: page {page}");
                    older += 1;
                }
            }
            layer.write_back(Account::default()).await.unwrap();
            layer.stop().await.unwrap();
            assert!(content(&*origin).await == found, "{name}: everything is on the origin");
            format!("{} pages, {older} older, given up: {:?}", repaired.pages, lost(&repaired))
        });
        println!("{name}: {}", outcome.unwrap());
    }
}

/// Restores a dump where other data is: all is refused, and nothing changes.
async fn nothing_else_is_restored(
    origin: &Rc<dyn BlockDevice>,
    bopt: &Rc<dyn BlockDevice>,
    dump: &toml::Table,
) {
    let restored = async |area: Rc<dyn BlockDevice>| {
        let before = content(&*area).await;
        let refused = borg().tools.restore(below(origin, &area), options(), dump.clone(), true).await;
        assert!(content(&*area).await == before, "what is refused changes nothing");
        refused.unwrap_err().to_string()
    };
    let whole = content(&**bopt).await;
    let refused = restored(disk(2, vec![0; whole.len()]).await).await;
    assert!(refused.contains("other data than at the dump in"), "{refused}");
    let [_, other, _] = used("killed").await;
    let refused = restored(disk(2, other).await).await;
    assert!(refused.contains("found the BOPT"), "{refused}");
    let area = disk(2, whole).await;
    borg().tools.damage(below(origin, &area), options(), "data-page".to_owned()).await.unwrap();
    let refused = restored(area).await;
    assert!(refused.contains("other data than at the dump in 1 of"), "{refused}");
}

#[test]
fn a_restored_dump_is_the_same_and_so_is_the_volume() {
    for ended in ENDED {
        let run = async {
            let [origin, bopt, shown] = used(ended).await;
            let (origin, bopt) = (disk(0, origin).await, disk(1, bopt).await);
            let dump = async || borg().tools.dump(below(&origin, &bopt), options()).await.unwrap();
            let before = dump().await;
            let restore = async |dump: toml::Table, replace: bool| {
                borg().tools.restore(below(&origin, &bopt), options(), dump, replace).await
            };
            let refused = restore(before.clone(), false).await.unwrap_err().to_string();
            assert!(refused.contains("--replace"), "{refused}");
            for (key, value, expected) in [
                ("layer", "lld".into(), "that of borg"),
                ("identity", "x".into(), "hexadecimal"),
                ("bopt_pages", 7.into(), "as device and options say"),
                ("origin_sectors", 8.into(), "expected one of 512"),
                (
                    "copies",
                    vec![toml::Value::from(vec![toml::Value::from(9_999), 1.into(), true.into()])].into(),
                    "a slot below",
                ),
                ("copies", "none".into(), "found a dump that is none"),
            ] {
                let mut wrong = before.clone();
                wrong.insert(key.to_owned(), value);
                let refused = restore(wrong, true).await.unwrap_err().to_string();
                assert!(refused.contains(expected), "{key}: {refused}");
            }
            assert_eq!(dump().await, before, "what is refused changes nothing");
            assert_eq!(restore(before.clone(), true).await.unwrap(), 0, "all is compared");
            assert_eq!(dump().await, before);
            // Without checksums, as earlier versions dumped it.
            let mut earlier = before.clone();
            let sums = earlier.remove("sums").unwrap().as_array().unwrap().len() as u64;
            assert_eq!(restore(earlier.clone(), true).await.unwrap(), sums);
            assert!(sums > 3 && dump().await == before, "{sums}");
            nothing_else_is_restored(&origin, &bopt, &before).await;
            assert_eq!(dump().await, before);
            let Built { device, .. } = borg().build(below(&origin, &bopt), &options()).await.unwrap();
            assert!(content(&*device).await == shown);
        };
        Runtime::new(1).run(run).unwrap();
    }
}
