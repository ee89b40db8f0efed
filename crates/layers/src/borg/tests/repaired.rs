//! Repairs of damaged BOPTs: the new one has all that can be read, and the rest is named.

use seekless_core::Layer;

use super::*;
use crate::borg::store::format::{BatchHeader, PAGE};
use crate::borg::tools::BorgTools;
use crate::registry::Below;
use crate::tools::{Repaired, Tools};

/// With segments that all batches fit into.
const PAGES: u64 = 4_000;

fn below(disk: &Rc<Disk>) -> Below {
    let devices = BTreeMap::from([("bopt".to_owned(), vec![bopt(disk) as Rc<dyn BlockDevice>])]);
    Below { over: vec![slice(disk, 0, ORIGIN)], devices, create: false, timing_only: false }
}

fn bopt(disk: &Rc<Disk>) -> Rc<Slice> {
    slice(disk, ORIGIN, PAGES * 8)
}

/// Which version of each page was flushed: pages 0 to 39, in batches of eight, twice.
fn versions() -> BTreeMap<u64, u64> {
    (0..40).map(|page| (page, 2)).collect()
}

/// A volume that was killed after its last flush.
async fn killed() -> Rc<Disk> {
    let World { borg, disk } = world(Options::default(), PAGES).await;
    for version in 1..=2 {
        for batch in 0..5 {
            write(&*borg, Extent::of_pages(batch * 8, 8), version).await;
            borg.flush(Hints::default()).await.unwrap();
        }
    }
    disk
}

async fn damage(disk: &Rc<Disk>, kind: &str) {
    BorgTools.damage(below(disk), toml::Table::new(), kind.to_owned()).await.unwrap();
}

/// The pages and numbers of the headers in the log, by number.
async fn headers(disk: &Rc<Disk>) -> Vec<(u64, u64)> {
    let bopt = bopt(disk);
    let bytes = read(&*bopt, Extent::of_pages(0, PAGES)).await;
    let found = bytes.chunks_exact(PAGE).zip(0..);
    let mut all: Vec<_> =
        found.filter_map(|(page, at)| Some((BatchHeader::origin_of(at, page)?.0, at))).collect();
    all.sort_unstable();
    all
}

async fn zero(disk: &Rc<Disk>, at: Extent) {
    bopt(disk).write(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
}

/// Repairs into a new area; the result, and the version of each page in it, 0 for that of the origin.
async fn repaired(disk: &Rc<Disk>) -> (Repaired, BTreeMap<u64, u64>) {
    let new = slice(disk, ORIGIN + PAGES * 8, PAGES * 8);
    let repaired = BorgTools.repair(below(disk), toml::Table::new(), new.clone()).await.unwrap();
    let borg = Borg::open_creating(slice(disk, 0, ORIGIN), new, Options::default(), false).await.unwrap();
    assert_eq!(borg.store.dirty() as u64, repaired.pages);
    let mut found = BTreeMap::new();
    for page in 0..40 {
        let at = Extent::of_pages(page, 1);
        let bytes = read(&*borg, at).await;
        let version = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        assert!(version == 0 || bytes == stamped(at, version).to_vec(), "page {page}");
        found.insert(page, version);
    }
    borg.stop().await.unwrap();
    (repaired, found)
}

#[test]
fn a_batch_whose_header_has_a_flipped_bit_is_repaired() {
    run(1, async {
        for bit in [0, 69, 100, 600, 3_500, 4_000] {
            let disk = killed().await;
            for (_, header) in headers(&disk).await {
                let mut page = read(&*bopt(&disk), Extent::of_pages(header, 1)).await;
                page[bit] ^= 4;
                let at = Extent::of_pages(header, 1);
                bopt(&disk).write(at, Buffer::from_vec(page), Hints::default()).await.unwrap();
            }
            let (repaired, found) = repaired(&disk).await;
            assert_eq!((repaired.given_up.as_slice(), found), (&[][..], versions()), "byte {bit}");
        }
    });
}

#[test]
fn a_batch_without_a_header_is_named() {
    run(1, async {
        let disk = killed().await;
        let (number, header) = headers(&disk).await[7];
        zero(&disk, Extent::of_pages(header, 1)).await;
        let (repaired, found) = repaired(&disk).await;
        let named = |what: &String| what.contains(&format!("found no batch {number},"));
        assert!(repaired.given_up.len() == 1 && named(&repaired.given_up[0]), "{repaired:?}");
        let older = found.iter().filter(|(_, version)| **version != 2);
        assert!(older.clone().count() == 8 && older.clone().all(|(_, version)| *version == 1), "{found:?}");
        // Nothing comes after the last one; half of its header tells that it was there.
        let disk = killed().await;
        let (number, header) = headers(&disk).await[9];
        let at = Extent::new(header * 8 + 1, 2);
        bopt(&disk).write(at, Buffer::from_vec(vec![7; 1_024]), Hints::default()).await.unwrap();
        let (repaired, _) = self::repaired(&disk).await;
        let named = |what: &String| what.contains(&format!("the header of batch {number} damaged"));
        assert!(repaired.given_up.len() == 1 && named(&repaired.given_up[0]), "{repaired:?}");
    });
}

#[test]
fn of_a_damaged_batch_the_other_pages_are_kept() {
    run(1, async {
        let disk = killed().await;
        let (_, header) = headers(&disk).await[9];
        zero(&disk, Extent::of_pages(header + 3, 1)).await;
        let (repaired, found) = repaired(&disk).await;
        assert!(
            repaired.given_up.len() == 1 && repaired.given_up[0].contains("page 34 of batch"),
            "{repaired:?}"
        );
        assert_eq!(found, versions().into_iter().chain([(34, 1)]).collect());
    });
}

#[test]
fn what_was_being_written_at_a_crash_keeps_nothing_from_being_dumped() {
    run(1, async {
        let disk = killed().await;
        let (_, header) = headers(&disk).await[9];
        zero(&disk, Extent::of_pages(header + 3, 2)).await;
        let dump = BorgTools.dump(below(&disk), toml::Table::new()).await.unwrap();
        assert_eq!(dump["last_batch"].as_integer(), Some(9));
        let (_, header) = headers(&disk).await[5];
        zero(&disk, Extent::of_pages(header, 1)).await;
        let refused = BorgTools.dump(below(&disk), toml::Table::new()).await.unwrap_err().to_string();
        assert!(refused.contains("the log is damaged") && refused.ends_with("repair it first"), "{refused}");
    });
}

#[test]
fn a_damaged_super_page_takes_no_batches_with_it() {
    run(1, async {
        for kind in ["super-newer", "super-torn", "super-sector", "super-both", "super-zeroes"] {
            let disk = killed().await;
            damage(&disk, kind).await;
            let (repaired, found) = repaired(&disk).await;
            assert_eq!(found, versions(), "{kind}: {repaired:?}");
            // A half written one is taken for one that was being written.
            assert_eq!(repaired.given_up.len(), usize::from(kind != "super-torn"), "{kind}: {repaired:?}");
        }
    });
}

#[test]
fn what_a_later_version_wrote_is_not_interpreted() {
    run(1, async {
        let disk = killed().await;
        damage(&disk, "super-version").await;
        let new = slice(&disk, ORIGIN + PAGES * 8, PAGES * 8);
        let refused = BorgTools.repair(below(&disk), toml::Table::new(), new).await.unwrap_err();
        assert!(
            refused.kind() == ErrorKind::Unsupported && refused.to_string().contains("update"),
            "{refused}"
        );
    });
}

#[test]
fn batches_of_an_earlier_bopt_in_the_same_area_do_not_count() {
    run(1, async {
        let disk = killed().await;
        for _ in 0..2 {
            let borg = formatted(slice(&disk, 0, ORIGIN), bopt(&disk), Options::default()).await;
            write(&*borg, Extent::of_pages(20, 1), 1).await;
            borg.stop().await.unwrap();
        }
        zero(&disk, Extent::of_pages(0, 100)).await;
        let borg = formatted(slice(&disk, 0, ORIGIN), bopt(&disk), Options::default()).await;
        write(&*borg, Extent::of_pages(0, 8), 3).await;
        borg.flush(Hints::default()).await.unwrap();
        drop(borg);
        damage(&disk, "super-both").await;
        let (_, found) = repaired(&disk).await;
        assert_eq!(found.values().filter(|version| **version == 3).count(), 8, "{found:?}");
        assert!(found.values().all(|version| *version != 1 && *version != 2), "{found:?}");
    });
}

#[test]
fn batches_of_a_session_that_a_restore_gave_up_do_not_count() {
    run(1, async {
        let disk = killed().await;
        let dump = BorgTools.dump(below(&disk), toml::Table::new()).await.unwrap();
        let open = async || {
            let (origin, bopt) = (slice(&disk, 0, ORIGIN), bopt(&disk));
            Borg::open_creating(origin, bopt, Options::default(), false).await.unwrap()
        };
        let written = |page: u64, version: u64| (Extent::of_pages(page, 1), version);
        let borg = open().await;
        for (at, version) in [written(100, 2), written(101, 3), written(100, 4), written(102, 5)] {
            write(&*borg, at, version).await;
            borg.flush(Hints::default()).await.unwrap();
        }
        drop(borg);
        BorgTools.restore(below(&disk), toml::Table::new(), dump, true).await.unwrap();
        let borg = open().await;
        write(&*borg, Extent::of_pages(100, 1), 7).await;
        borg.flush(Hints::default()).await.unwrap();
        drop(borg);
        let borg = open().await;
        let at = Extent::of_pages(100, 1);
        assert!(
            read(&*borg, at).await == stamped(at, 7).to_vec(),
            "what was flushed after the restore is lost"
        );
        for page in [101, 102] {
            let at = Extent::of_pages(page, 1);
            assert!(
                read(&*borg, at).await.iter().all(|byte| *byte == 0),
                "page {page}: of the session given up"
            );
        }
    });
}
