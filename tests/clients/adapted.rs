//! BORG without any command: a served volume whose devices have a model is reconfigured when it pays, and keeps what
//! was copied after a restart and a kill; with `reconfigure = "on command"` nothing happens by itself.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::measured::status;
use crate::raw::{READ, Raw};
use crate::server::{Server, volume};

/// A disk that is a file, taken for the begin of a drive: an empty file has no place of its own.
pub const COMPONENTS: &str = "
    [component.disk]
    file = \"disk.img\"
    model = \"wd2500aaks\"
    model_at = 0
    [slice.home]
    of = \"disk\"
    size = \"2GiB\"
    [slice.bopt]
    of = \"disk\"
    at = \"2GiB\"
    [layer.borg]
    over = \"home\"
    bopt = \"bopt\"
    # Or all reads of a round may go to the origin, to measure the gain.
    measure_share = 0
";
/// Pages of the pattern.
const PAGES: u64 = 400;
/// Requests sent at a time.
const AT_ONCE: u64 = 8;

pub fn counter(folder: &Path, name: &str) -> u64 {
    let status = status(folder);
    let layers = status["layers"].as_array().unwrap();
    layers[0]["counters"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {status}"))
}

/// Reads the pattern this many times.
pub fn rounds(raw: &mut Raw, rounds: u64) {
    let numbers: Vec<u64> = (0..rounds * PAGES).collect();
    for some in numbers.chunks(AT_ONCE as usize) {
        for number in some {
            // Far apart, in an order of its own, and the same in each round.
            let page = number % PAGES * 2_654_435_761 % 500_000;
            raw.ask(READ, 0, *number, page * 4_096, 4_096).unwrap();
        }
        for _ in some {
            assert_eq!(raw.reply().unwrap().1, 0);
            raw.take(4_096).unwrap();
        }
    }
}

/// Waits until the layer holds copies.
fn mapped(folder: &Path) -> u64 {
    let begin = Instant::now();
    loop {
        let mapped = counter(folder, "pages_mapped");
        if mapped >= PAGES || begin.elapsed() > Duration::from_secs(60) {
            return mapped;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_repeated_pattern_is_copied_without_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    crate::sparse(&folder.join("disk.img"), (2 << 30) + (256 << 20));
    volume(folder, COMPONENTS, &[("borg", "")]);
    let Some(server) = Server::start(folder, "threads") else { return };
    let mut raw = Raw::open(folder, "borg");
    rounds(&mut raw, 52);
    assert_eq!(mapped(folder), PAGES);
    let before = counter(folder, "pages_hit");
    rounds(&mut raw, 1);
    assert_eq!(counter(folder, "pages_hit") - before, PAGES);
    server.stop();
    let server = Server::start(folder, "threads").unwrap();
    let mut raw = Raw::open(folder, "borg");
    rounds(&mut raw, 1);
    assert_eq!(counter(folder, "pages_hit"), PAGES, "after a restart");
    server.kill();
    let server = Server::start(folder, "threads").unwrap();
    let mut raw = Raw::open(folder, "borg");
    rounds(&mut raw, 1);
    assert_eq!(counter(folder, "pages_hit"), PAGES, "after a kill");
    server.stop();
}

#[test]
fn on_command_means_by_a_command_only() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    crate::sparse(&folder.join("disk.img"), (2 << 30) + (256 << 20));
    volume(folder, &format!("{COMPONENTS}reconfigure = \"on command\"\n"), &[("borg", "")]);
    let Some(server) = Server::start(folder, "threads") else { return };
    let mut raw = Raw::open(folder, "borg");
    rounds(&mut raw, 52);
    // A schedule is asked each second.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!((counter(folder, "pages_mapped"), counter(folder, "plans_declined")), (0, 0));
    assert_eq!(counter(folder, "requests_profiled"), 52 * PAGES);
    server.stop();
}
