//! A server that is killed under load: synced data is there when it is back, whatever the layer kept in memory.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::raw::{FUA, Raw};
use crate::server::{KINDS, Server, volume};

const PAGE: usize = 4096;
pub const PAGES: u64 = 2_000;
const ROUNDS: u64 = 6;

/// Expected contents of a page: the number of a write that is at least the first and at most the second.
pub type Known = Vec<(u64, u64)>;

fn stamped(page: u64, number: u64) -> Vec<u8> {
    [page.to_le_bytes(), number.to_le_bytes()].concat().repeat(PAGE / 16)
}

/// Writes pages until the server is gone; the numbers that were issued, answered, and synced.
pub fn load(folder: &Path, export: &str, round: u64, known: &mut Known, started: &Sender<()>) {
    let mut raw = Raw::open(folder, export);
    let mut state = round * 0x9e37_79b9 + 1;
    let mut unsynced: Vec<(u64, u64)> = Vec::new();
    for turn in 0.. {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Half of all writes go to a tenth of the pages.
        let page = if state % 2 == 0 { state / 2 % (PAGES / 10) } else { state / 2 % PAGES };
        let number = round << 32 | turn;
        let fua = turn % 7 == 0;
        known[page as usize].1 = number;
        let answered = raw.write(if fua { FUA } else { 0 }, page * PAGE as u64, &stamped(page, number));
        match answered {
            Err(_) => return,
            Ok(error) => assert_eq!(error, 0, "a write fails"),
        }
        if fua {
            known[page as usize].0 = number;
        } else {
            unsynced.push((page, number));
        }
        if turn % 50 == 49 {
            match raw.flush() {
                Err(_) => return,
                Ok(error) => assert_eq!(error, 0, "a flush fails"),
            }
            unsynced.drain(..).for_each(|(page, number)| known[page as usize].0 = number);
        }
        if turn == 100 {
            let _ = started.send(());
        }
    }
}

/// Contents have to be possible; from then on they are known to be there.
pub fn look(server: &Server, export: &str, known: &mut Known) {
    let mut raw = Raw::open(&server.folder, export);
    for page in 0..PAGES {
        let bytes = raw.read(page * PAGE as u64, PAGE as u32).unwrap();
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let found = number(8);
        let (least, most) = known[page as usize];
        assert!(
            least <= found && found <= most,
            "{export}: page {page} has {found:#x}, expected {least:#x} to {most:#x}"
        );
        if found > 0 {
            // A page is eight sectors, each the last durable one or a later one.
            assert_eq!(number(0), page, "{export}: another page's data");
            for sector in bytes.chunks(512).skip(1) {
                let found = u64::from_le_bytes(sector[8..16].try_into().unwrap());
                assert!(least <= found && found <= most, "{export}: a sector of page {page} has {found:#x}");
                assert!(sector[16..].chunks(16).all(|part| part == &sector[..16]), "{export}: a torn sector");
            }
        }
        known[page as usize] = (found, most);
    }
}

fn rounds(components: &str, export: &str) {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::File::create(folder.join("disk.img")).unwrap().set_len(24 << 20).unwrap();
        volume(folder, components, &[(export, "")]);
        let mut known: Known = vec![(0, 0); PAGES as usize];
        for round in 1..=ROUNDS {
            let Some(server) = Server::start(folder, kind) else { break };
            look(&server, export, &mut known);
            let (started, waits) = channel();
            let loads = std::thread::scope(|scope| {
                let load = scope.spawn(|| load(folder, export, round, &mut known, &started));
                waits.recv_timeout(Duration::from_secs(30)).unwrap();
                std::thread::sleep(Duration::from_millis(20 * round));
                server.kill();
                load.join()
            });
            loads.unwrap();
        }
        let Some(server) = Server::start(folder, kind) else { continue };
        look(&server, export, &mut known);
        server.stop();
        let server = Server::start(folder, kind).unwrap();
        look(&server, export, &mut known);
        server.stop();
    }
}

/// A server that gets a stop signal makes all answered writes durable, synced or not.
#[test]
fn a_server_that_is_stopped_under_load_keeps_all_that_it_answered() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::File::create(folder.join("disk.img")).unwrap().set_len(24 << 20).unwrap();
        volume(
            folder,
            "[component.disk]\nfile = \"disk.img\"\n[layer.mapper]\nover = \"disk\"\n",
            &[("mapper", "")],
        );
        let Some(server) = Server::start(folder, kind) else { continue };
        let answered = std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                let mut raw = Raw::open(folder, "mapper");
                let page = |turn: u64| turn * 7 % PAGES * PAGE as u64;
                (1..1 << 20)
                    .take_while(|turn| {
                        raw.write(0, page(*turn), &stamped(0, *turn)).is_ok_and(|error| error == 0)
                    })
                    .count()
            });
            std::thread::sleep(Duration::from_millis(500));
            server.stop();
            load.join().unwrap() as u64
        });
        assert!(answered > 0, "nothing was answered");
        let Some(server) = Server::start(folder, kind) else { continue };
        let mut raw = Raw::open(folder, "mapper");
        for turn in 1 + answered.saturating_sub(PAGES)..=answered {
            let bytes = raw.read(turn * 7 % PAGES * PAGE as u64, PAGE as u32).unwrap();
            let found = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
            // The one in flight may be there or not.
            assert!(
                found == turn || found == turn + PAGES,
                "{kind}: write {turn} of {answered} is lost: {found}"
            );
        }
        server.stop();
    }
}

#[test]
fn a_file_has_what_was_synced_after_every_kill() {
    rounds("[component.disk]\nfile = \"disk.img\"\n", "disk");
}

#[test]
fn a_cache_has_what_was_synced_after_every_kill() {
    let components = "
        [component.disk]
        file = \"disk.img\"
        [layer.cache]
        over = \"disk\"
        size = \"1MiB\"
        prewrite = true
        prefetch = \"64KiB\"
    ";
    rounds(components, "cache");
}

#[test]
fn a_mapper_has_what_was_synced_after_every_kill() {
    rounds("[component.disk]\nfile = \"disk.img\"\n[layer.mapper]\nover = \"disk\"\n", "mapper");
}

#[test]
fn borg_has_what_was_synced_after_every_kill() {
    let components = "
        [component.disk]
        file = \"disk.img\"
        [slice.home]
        of = \"disk\"
        size = \"8MiB\"
        [slice.bopt]
        of = \"disk\"
        at = \"8MiB\"
        [layer.borg]
        over = \"home\"
        bopt = \"bopt\"
    ";
    rounds(components, "borg");
}
