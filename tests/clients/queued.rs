//! The queue in front of a component that is not simulated: a reader beside background work. The component is another
//! server's emulated disk, which does not know classes, as a real one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::measured::status;
use crate::raw::Raw;
use crate::server::{KINDS, Server, volume};

/// Clients of the background export.
const SCANNERS: u64 = 12;
const READS: usize = 60;
const PAGES: u64 = (8 << 30) >> 12;

/// Reads a page anywhere, the `number`th of its client.
fn read(raw: &mut Raw, number: u64) -> Duration {
    let began = Instant::now();
    let page = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % PAGES;
    raw.read(page << 12, 4096).unwrap();
    began.elapsed()
}

/// Response times of one reader beside the scanners, in order, and how many pages these read meanwhile.
fn beside_scanners(folder: &Path) -> (Vec<Duration>, u64) {
    let over = Arc::new(AtomicBool::new(false));
    let scanners = (1..=SCANNERS).map(|scanner| {
        let (over, folder) = (over.clone(), folder.to_owned());
        std::thread::spawn(move || {
            let (mut raw, mut pages) = (Raw::open(&folder, "scan"), 0);
            while !over.load(Ordering::Relaxed) {
                pages += 1;
                read(&mut raw, scanner << 32 | pages);
            }
            pages
        })
    });
    let scanners: Vec<_> = scanners.collect();
    std::thread::sleep(Duration::from_millis(300));
    let mut raw = Raw::open(folder, "disk");
    let mut times: Vec<_> = (0..READS as u64).map(|number| read(&mut raw, number)).collect();
    over.store(true, Ordering::Relaxed);
    let pages = scanners.into_iter().map(|scanner| scanner.join().unwrap()).sum();
    times.sort();
    (times, pages)
}

#[test]
fn a_reader_hardly_notices_background_clients_of_a_disk_with_a_queue() {
    for kind in KINDS {
        let (near, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = std::fs::File::create(far.path().join("disk.img")).unwrap();
        file.set_len(PAGES << 12).unwrap();
        let disk = "[component.disk]\nfile = \"disk.img\"\nemulate = \"quantum-atlas-10k\"\n";
        volume(far.path(), disk, &[("disk", "")]);
        let Some(other) = Server::start(far.path(), kind) else { continue };
        let run = |keys: &str| {
            let disk = format!("[component.disk]\nnbd = \"{}\"\n{keys}\n", other.uri("disk"));
            let scan = "name = \"scan\"\nclass = \"background\"\nread_only = true";
            volume(near.path(), &disk, &[("disk", ""), ("disk", scan)]);
            let server = Server::start(near.path(), kind)?;
            let (times, pages) = beside_scanners(near.path());
            let queue = status(near.path())["devices"][0]["queue"].clone();
            server.stop();
            Some((times, pages, queue))
        };
        let Some((without, _, none)) = run("") else { continue };
        let Some((with, pages, queue)) = run("depth = 4") else { continue };
        assert!(none.is_null(), "{none}");
        let (slow, fast) = (without[READS / 2], with[READS * 9 / 10]);
        assert!(fast * 2 < slow, "{kind}: {fast:?} with a queue, {slow:?} without");
        assert!(pages > 2 * SCANNERS, "{kind}: the scanners have a share: {pages}");
        let of = |class: &str| queue["classes"][class].clone();
        let (foreground, background) = (of("foreground"), of("background"));
        assert_eq!(background["issued"], pages, "{queue}");
        assert!(foreground["issued"].as_u64().unwrap() >= READS as u64, "{queue}");
        let mean =
            |of: &serde_json::Value| of["waited_ms"].as_f64().unwrap() / of["issued"].as_f64().unwrap();
        assert!(mean(&background) > 2.0 * mean(&foreground), "{queue}");
        assert_eq!((&queue["in_device"], &background["waiting"]), (&0.into(), &0.into()));
        other.stop();
    }
}
