//! Clones of a served volume: taken while a client writes, written beside it, there after kills under load, and
//! deleted.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::raw::{FUA, Raw};
use crate::server::{KINDS, Server};
use crate::snapshots::{PAGE, ask, content, create, done};
use crate::{MIB, noise};

/// Pages that the writer goes round in.
const PAGES: u64 = 64;
/// Bytes that are compared.
const BYTES: usize = 4 * MIB;

/// The list of snapshots: name, whether it is a clone, unique bytes.
fn list(folder: &Path) -> Vec<(String, bool, u64)> {
    let all: serde_json::Value = crate::schemas::parsed(&done(folder, &["snapshot", "list"], &["--json"]));
    let of = |one: &serde_json::Value| {
        let name = one["name"].as_str().unwrap().to_owned();
        (name, one["clone"].as_bool().unwrap(), one["unique_bytes"].as_u64().unwrap())
    };
    all.as_array().unwrap().iter().map(of).collect()
}

/// Page of a numbered write.
fn numbered(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(PAGE / 8)
}

/// Contents after this number of writes over these.
fn after(mut held: Vec<u8>, writes: u64) -> Vec<u8> {
    for number in writes.saturating_sub(PAGES) + 1..=writes {
        let at = (number % PAGES) as usize * PAGE;
        held[at..at + PAGE].copy_from_slice(&numbered(number));
    }
    held
}

/// Writes numbered pages until the server is killed; flushes some. `counts` are the writes begun, the
/// writes answered, and those that a flush covers.
fn write_on(folder: &Path, first: u64, counts: [&AtomicU64; 3]) {
    let mut raw = Raw::open(folder, "proximal");
    for number in first.. {
        counts[0].store(number, Ordering::SeqCst);
        let written = raw.write(0, number % PAGES * PAGE as u64, &numbered(number));
        let Ok(0) = written else { return };
        counts[1].store(number, Ordering::SeqCst);
        if number % 16 == 0 {
            let Ok(0) = raw.flush() else { return };
            counts[2].store(number, Ordering::SeqCst);
        }
    }
}

/// The number of writes, among these, after which a volume that held `held` before the first one holds what was found.
fn writes_in(found: &[u8], held: &[u8], among: std::ops::RangeInclusive<u64>) -> u64 {
    let most = *among.end();
    among.clone().find(|writes| after(held.to_vec(), *writes) == found).unwrap_or_else(|| {
        let whole = |page: usize| {
            let found = &found[page * PAGE..][..8];
            u64::from_le_bytes(found.try_into().unwrap())
        };
        let pages: Vec<u64> = (0..PAGES as usize).map(whole).collect();
        panic!("no state after {among:?} writes of {most}: {pages:?}");
    })
}

#[test]
fn clones_are_taken_and_written_under_load_and_survive_kills() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        create(folder);
        let Some(mut server) = Server::start(folder, kind) else { continue };
        let base = noise(BYTES, 5);
        let mut raw = Raw::open(folder, "proximal");
        for (at, part) in (0..).step_by(MIB).zip(base.chunks(MIB)) {
            assert_eq!(raw.write(FUA, at, part).unwrap(), 0);
        }
        let mut clones: Vec<(String, Vec<u8>)> = Vec::new();
        let mut written = 0;
        for round in 1..=3_u8 {
            let (begun, answered, flushed) =
                (AtomicU64::new(written), AtomicU64::new(written), AtomicU64::new(written));
            let (snapshot, of_now, of_snapshot) =
                (format!("s{round}"), format!("now-{round}"), format!("of-{round}"));
            std::thread::scope(|scope| {
                scope.spawn(|| write_on(folder, written + 1, [&begun, &answered, &flushed]));
                while answered.load(Ordering::SeqCst) < written + 40 {
                    std::thread::yield_now();
                }
                let taken = |verb: &[&str], names: &[&str], name: &str| {
                    let least = answered.load(Ordering::SeqCst);
                    done(folder, verb, names);
                    let most = begun.load(Ordering::SeqCst);
                    let found = content(&server, &format!("proximal@{name}"), BYTES);
                    let writes = writes_in(&found, &base, least..=most);
                    (after(base.clone(), writes), found)
                };
                let held = taken(&["snapshot", "create"], &[&snapshot], &snapshot).1;
                let (mut now, _) = taken(&["clone"], &["now", &of_now], &of_now);
                done(folder, &["clone"], &[&snapshot, &of_snapshot]);
                let mut older = held;
                // Both are written beside the volume, in whole pages and in parts of them.
                for (name, held) in [(&of_now, &mut now), (&of_snapshot, &mut older)] {
                    let mut raw = Raw::open(folder, &format!("proximal@{name}"));
                    for step in 0..60 {
                        let at = (step * 37 + usize::from(round)) % (BYTES / PAGE) * PAGE;
                        let data = vec![100 + round; if step % 3 == 0 { 300 } else { PAGE }];
                        assert_eq!(raw.write(0, at as u64 + 100, &data[100..]).unwrap(), 0);
                        held[at + 100..at + data.len()].copy_from_slice(&data[100..]);
                    }
                    assert_eq!(raw.flush().unwrap(), 0);
                }
                clones.extend([(of_now.clone(), now), (of_snapshot.clone(), older)]);
                server.kill();
            });
            server = Server::start(folder, kind).unwrap();
            let least = flushed.load(Ordering::SeqCst);
            let most = begun.load(Ordering::SeqCst);
            let found = content(&server, "proximal", BYTES);
            let per_page = |page: u64| {
                let at = page as usize * PAGE;
                u64::from_le_bytes(found[at..at + 8].try_into().unwrap())
            };
            // Writes after the last flush may be lost, each by itself.
            for number in least.saturating_sub(PAGES - 1).max(1)..=least {
                let found = per_page(number % PAGES);
                assert!((number..=most).contains(&found), "{kind}: page of write {number} holds {found}");
            }
            for (name, held) in &clones {
                let found = content(&server, &format!("proximal@{name}"), BYTES);
                assert!(&found == held, "{kind}, round {round}: {name}");
            }
            // The next round begins with a volume that is known.
            written = most + PAGES;
            let mut raw = Raw::open(folder, "proximal");
            for number in most + 1..=written {
                assert_eq!(raw.write(FUA, number % PAGES * PAGE as u64, &numbered(number)).unwrap(), 0);
            }
        }
        the_rest(folder, server, kind, &clones);
    }
}

/// What is refused, and that deleting everything returns all space.
fn the_rest(folder: &Path, server: Server, kind: &str, clones: &[(String, Vec<u8>)]) {
    for (names, words) in [
        (["s1", "of-1"], "found a snapshot 'of-1' already"),
        (["of-1", "x"], "found the snapshot 'of-1', expected s1 or s2 or s3"),
        (["now", "now"], "it stands for the present state"),
    ] {
        let (fine, said) = ask(folder, &["clone"], &names);
        assert!(!fine && said.contains(words), "{said}");
    }
    let kinds: Vec<bool> = list(folder).into_iter().map(|one| one.1).collect();
    assert_eq!(kinds, [vec![false; 3], vec![true; 6]].concat());
    // A snapshot that is deleted stays below its clones.
    for round in 1..=3 {
        done(folder, &["snapshot", "delete"], &[&format!("s{round}")]);
    }
    for (name, held) in clones {
        let found = content(&server, &format!("proximal@{name}"), BYTES);
        assert!(&found == held, "{kind}: {name} without its snapshot");
    }
    let mut raw = Raw::open(folder, "proximal@of-2");
    for (name, _) in clones {
        done(folder, &["snapshot", "delete"], &[name]);
    }
    assert!(raw.write(0, 0, &[1; PAGE]).unwrap() != 0, "it is gone");
    assert_eq!(list(folder), []);
    let status: serde_json::Value = crate::schemas::parsed(&done(folder, &["status"], &["--json"]));
    let layers = status["layers"].as_array().unwrap();
    let layer = layers.iter().find(|layer| layer["name"] == "proximal").unwrap();
    assert_eq!(
        (&layer["counters"]["blocks_of_snapshots"], &layer["counters"]["clones"]),
        (&0.into(), &0.into())
    );
    server.stop();
}
