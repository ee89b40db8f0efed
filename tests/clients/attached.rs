//! Layers that are attached and detached while clients are connected, and servers that are killed at every step of it.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::killed::{Known, PAGES, load, look};
use crate::raw::Raw;
use crate::server::{KINDS, Server, volume};

const DISK: &str = "[component.disk]\nfile = \"disk.img\" # the disk\n";

/// A folder with a disk, and a volume file that serves it as `disk`; without layers, or with these.
fn folder(layers: &str, top: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::File::create(at.join("disk.img")).unwrap().set_len(24 << 20).unwrap();
    std::fs::File::create(at.join("bopt.img")).unwrap().set_len(16 << 20).unwrap();
    volume(at, &format!("{DISK}{layers}"), &[(top, "name = \"disk\"")]);
    // The tests attach what has to be created.
    std::fs::write(at.join("created"), "").unwrap();
    folder
}

pub fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    command.args(["volume", words[0]]).arg(folder.join("volume.toml")).args(&words[1..]);
    command.env("STATE_DIRECTORY", folder.join("state")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn run(folder: &Path, words: &[&str]) -> Output {
    command(folder, words).output().unwrap()
}

/// Runs a command that has to succeed.
pub fn done(folder: &Path, words: &[&str]) {
    let done = run(folder, words);
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Runs a command that has to fail with these words, and change nothing.
pub fn refused(folder: &Path, words: &[&str], expected: &[&str]) {
    let before = file(folder);
    let failed = run(folder, words);
    let error = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(!failed.status.success(), "{words:?}");
    for word in expected {
        assert!(error.contains(word), "{words:?}: no '{word}' in {error}");
    }
    assert_eq!(file(folder), before, "{words:?}");
}

pub fn file(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("volume.toml")).unwrap()
}

const ATTACH: &[&str] = &["attach", "borg", "--over", "disk", "--device", "bopt=bopt.img"];
const DETACH: &[&str] = &["detach", "borg"];

/// Writes under load while `change` runs on another thread; nothing that was synced is lost.
pub fn under_load(server: Server, export: &str, round: u64, known: &mut Known, change: impl FnOnce(&Path)) {
    let folder = server.folder.clone();
    let (started, waits) = channel();
    std::thread::scope(|scope| {
        let load = scope.spawn(|| load(&folder, export, round, known, &started));
        waits.recv_timeout(Duration::from_secs(30)).unwrap();
        change(&folder);
        server.kill();
        load.join().unwrap();
    });
}

#[test]
fn layers_come_and_go_under_load_and_a_kill_loses_nothing_that_was_synced() {
    for kind in KINDS {
        let folder = folder("[layer.scrub]\nover = \"disk\"\n", "scrub");
        let folder = folder.path();
        let mut known: Known = vec![(0, 0); PAGES as usize];
        for round in 1..=3 {
            let Some(server) = Server::start(folder, kind) else { break };
            look(&server, "disk", &mut known);
            under_load(server, "disk", round, &mut known, |folder| {
                if file(folder).contains("layer.borg") {
                    done(folder, DETACH);
                }
                for _ in 0..3 {
                    done(folder, ATTACH);
                    done(folder, &["attach", "cache", "--over", "borg", "--option", "size=1MiB"]);
                    std::thread::sleep(Duration::from_millis(100));
                    done(folder, DETACH);
                    done(folder, &["detach", "cache"]);
                }
                if round == 2 {
                    done(folder, ATTACH);
                }
                std::thread::sleep(Duration::from_millis(100));
            });
            assert_eq!(file(folder).contains("layer.borg"), round == 2);
        }
        let Some(server) = Server::start(folder, kind) else { continue };
        look(&server, "disk", &mut known);
        server.stop();
        assert!(file(folder).starts_with(DISK), "comments stay: {}", file(folder));
    }
}

/// Kills a server that stands at a step of attaching or detaching, under load.
#[cfg(feature = "mutants")]
fn killed_at(step: &str, kind: &str) {
    let detaches = step.starts_with("detach");
    let folder = folder("", "disk");
    let folder = folder.path();
    let mut known: Known = vec![(0, 0); PAGES as usize];
    let mut serve = crate::server::serve(folder, kind);
    let Some(server) = Server::start_command(serve.env("SEEKLESS_HALT_AT", step), folder, kind) else {
        return;
    };
    let (started, waits) = channel();
    std::thread::scope(|scope| {
        let mut server = server;
        let load = scope.spawn(|| load(folder, "disk", 1, &mut known, &started));
        waits.recv_timeout(Duration::from_secs(30)).unwrap();
        if detaches {
            done(folder, ATTACH);
            std::thread::sleep(Duration::from_millis(100));
        }
        let words = if detaches { DETACH } else { ATTACH };
        let mut change: Child = command(folder, words).spawn().unwrap();
        while server.line() != format!("halted at {step}") {}
        server.kill();
        assert!(!change.wait().unwrap().success());
        load.join().unwrap();
    });
    let Some(server) = Server::start(folder, kind) else { return };
    look(&server, "disk", &mut known);
    // An interrupted command is given again, unless it had its effect.
    if detaches == file(folder).contains("layer.borg") {
        done(folder, if detaches { DETACH } else { ATTACH });
    }
    let mut raw = Raw::open(folder, "disk");
    assert_eq!(raw.write(0, 0, &[7; 4096]).unwrap(), 0);
    assert_eq!(raw.flush().unwrap(), 0);
    drop(raw);
    if !detaches {
        done(folder, DETACH);
    }
    assert!(!file(folder).contains("layer.borg") && !file(folder).contains("bopt"), "{}", file(folder));
    done(folder, ATTACH);
    done(folder, DETACH);
    server.stop();
    let mut first = [0; 4096];
    std::io::Read::read_exact(&mut std::fs::File::open(folder.join("disk.img")).unwrap(), &mut first)
        .unwrap();
    assert_eq!(first, [7; 4096], "{step}: it is on the disk");
}

#[test]
#[cfg(feature = "mutants")]
fn a_server_that_is_killed_at_any_step_opens_the_tree_that_has_the_data() {
    let steps = seekless_volume::live::STEPS.iter();
    for step in steps.filter(|step| !step.starts_with("replace")) {
        for kind in KINDS {
            killed_at(step, kind);
        }
    }
}

#[test]
fn what_cannot_be_attached_or_detached_is_refused_with_what_to_do() {
    let folder = folder("", "disk");
    let folder = folder.path();
    let Some(server) = Server::start(folder, "threads") else { return };
    std::fs::write(folder.join("short.img"), vec![0; 8192]).unwrap();
    let mut data = vec![0; 16 << 20];
    data[1080..1082].copy_from_slice(b"\x53\xef");
    std::fs::write(folder.join("ext4.img"), data).unwrap();
    let attach = |more: &[&'static str]| [&["attach", "borg"], more].concat();
    refused(folder, &["attach", "mapper"], &["its data is lost", "a new volume with mapper"]);
    refused(folder, &["attach", "dance"], &["'dance'", "borg"]);
    refused(folder, &attach(&[]), &["devices.bopt", "bopt=FILE"]);
    refused(folder, &attach(&["--device", "bopt=none.img"]), &["none.img", "No such file"]);
    refused(folder, &attach(&["--device", "bopt=short.img"]), &["2 pages", "at least 8"]);
    refused(folder, &attach(&["--device", "bopt=ext4.img"]), &["ext4 file system", "--replace"]);
    refused(folder, &attach(&["--device", "bopt=disk.img"]), &["in use"]);
    refused(folder, &attach(&["--device", "bopt=disk"]), &["sectors of disk", "nothing else uses"]);
    refused(folder, &attach(&["--device", "dance=bopt.img"]), &["'dance'", "bopt"]);
    refused(folder, &attach(&["--over", "none", "--device", "bopt=bopt.img"]), &["'none'", "disk"]);
    refused(folder, &attach(&["--device", "bopt=bopt.img", "--option", "dance=1"]), &["dance"]);
    refused(folder, DETACH, &["'borg'", "there is none"]);
    done(folder, &attach(&["--device", "bopt=ext4.img", "--replace"]));
    refused(folder, ATTACH, &["'borg'", "has not yet"]);
    std::fs::File::create(folder.join("bopt2.img")).unwrap().set_len(16 << 20).unwrap();
    let second = ["attach", "second", "--is", "borg", "--device", "bopt=bopt2.img"];
    refused(folder, &second, &["layer.borg below it", "at most one"]);
    let below = ["attach", "below", "--is", "borg", "--over", "disk", "--device", "bopt=bopt2.img"];
    refused(folder, &below, &["layer.borg: found layer.below", "at most one"]);
    let served = file(folder);
    std::fs::write(folder.join("volume.toml"), format!("{served}# by hand\n")).unwrap();
    refused(folder, DETACH, &["changed since", "restart the server"]);
    std::fs::write(folder.join("volume.toml"), served).unwrap();
    done(folder, DETACH);
    server.stop();
}

fn status(folder: &Path) -> serde_json::Value {
    serde_json::from_slice(&run(folder, &["status", "--json"]).stdout).unwrap()
}

/// Attaches BORG, writes pages, and starts a detach of it, which takes a while on a slow disk and goes on.
fn detaching(folder: &Path) -> (Raw, Child) {
    done(folder, ATTACH);
    let mut raw = Raw::open(folder, "disk");
    for page in 0..600_u64 {
        assert_eq!(raw.write(0, page * 7919 % 6_000 * 4096, &[9; 4096]).unwrap(), 0);
    }
    assert_eq!(raw.flush().unwrap(), 0);
    let detach = command(folder, DETACH).spawn().unwrap();
    while status(folder)["doing"].as_array().is_none_or(Vec::is_empty) {}
    (raw, detach)
}

/// A detach of dirty data on a slow disk: it is shown, a second change waits, and the first goes on without its
/// command.
#[test]
fn a_detach_goes_on_when_its_command_is_interrupted_and_a_second_one_is_refused() {
    let folder = folder("emulate = \"wd2500aaks\"\n", "disk");
    let folder = folder.path();
    let Some(server) = Server::start(folder, "threads") else { return };
    let (_raw, mut detach) = detaching(folder);
    let status = || status(folder);
    // It is one round: pages show before they count as clean.
    let shown = loop {
        let now = status();
        let doing = now["doing"].get(0).expect("it shows progress before it ends").clone();
        if doing["moved_pages"].as_u64() > Some(0) {
            break (now["layers"][0]["dirty_bytes"].clone(), doing);
        }
    };
    let (dirty, doing) = shown;
    assert_eq!(dirty, doing["dirty_bytes_before"], "{doing}");
    assert_eq!(doing["of_pages"].as_u64(), dirty.as_u64().map(|bytes| bytes / 4096), "{doing}");
    assert!(doing["left_s"].as_f64() > Some(0.0), "{doing}");
    let text = run(folder, &["status"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("detach borg ("), "{text:?}");
    refused(folder, DETACH, &["detach of borg going on", "one change at a time"]);
    refused(folder, &["attach", "scrub"], &["one change at a time"]);
    detach.kill().unwrap();
    detach.wait().unwrap();
    while !status()["doing"].as_array().unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!file(folder).contains("borg") && status()["layers"].as_array().unwrap().is_empty());
    server.stop();
}

/// The volume file is edited while a layer is detached: the edit stays, and so does the layer; what it absorbs from
/// then on is not lost by serving the disk alone.
#[test]
fn a_detach_that_fails_at_its_end_leaves_a_layer_that_is_needed() {
    let folder = folder("emulate = \"wd2500aaks\"\n", "disk");
    let folder = folder.path();
    let Some(server) = Server::start(folder, "threads") else { return };
    let (mut raw, detach) = detaching(folder);
    let served = file(folder);
    std::fs::write(folder.join("volume.toml"), format!("{served}# by hand\n")).unwrap();
    let detached = detach.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&detached.stderr);
    assert!(!detached.status.success() && error.contains("changed since it is served"), "{error}");
    assert!(file(folder).ends_with("# by hand\n"), "the edit stays");
    assert_eq!(raw.write(0, 0, &[7; 4096]).unwrap(), 0);
    assert_eq!(raw.flush().unwrap(), 0);
    drop(raw);
    server.kill();
    std::fs::write(
        folder.join("alone.toml"),
        "[component.disk]\nfile = \"disk.img\"\n[[export]]\ntop = \"disk\"\nnbd = \"unix:alone.sock\"\n",
    )
    .unwrap();
    let mut alone = Command::new(env!("CARGO_BIN_EXE_seekless"));
    alone
        .args(["volume", "serve"])
        .arg(folder.join("alone.toml"))
        .env("STATE_DIRECTORY", folder.join("state"));
    let alone = alone.output().unwrap();
    let error = String::from_utf8_lossy(&alone.stderr);
    assert!(!alone.status.success() && error.contains("whose newest pages are in the BOPT"), "{error}");
    let Some(server) = Server::start(folder, "threads") else { return };
    assert_eq!(Raw::open(folder, "disk").read(0, 1).unwrap(), [7]);
    done(folder, DETACH);
    server.stop();
}

/// A BOPT in another server, which is killed when nothing in it is newer than the disk: clients go on, and the layer
/// goes, or the disk is served without it after a stop.
#[test]
fn a_bopt_that_is_lost_with_nothing_newer_in_it_takes_nothing_down() {
    for detaches in [true, false] {
        let far = tempfile::tempdir().unwrap();
        volume(far.path(), "[component.b]\nram = \"16MiB\"\n", &[("b", "")]);
        let Some(other) = Server::start(far.path(), "threads") else { return };
        let layer = "[layer.borg]\nover = \"disk\"\nbopt = \"b\"\n";
        let folder = folder(&format!("[component.b]\nnbd = \"{}\"\n{layer}", other.uri("b")), "borg");
        let folder = folder.path();
        std::fs::remove_file(folder.join("created")).unwrap();
        let server = Server::start(folder, "threads").unwrap();
        let mut raw = Raw::open(folder, "disk");
        let write = |raw: &mut Raw, number: u64| raw.write(0, number * 4096, &[number as u8; 4096]).unwrap();
        for number in 0..400 {
            assert_eq!(write(&mut raw, number), 0);
        }
        done(folder, &["tell", "borg", "drain"]);
        assert_eq!(status(folder)["layers"][0]["dirty_bytes"], 0);
        let line = run(folder, &["status", "--watch", "--lines", "1"]);
        let line = String::from_utf8_lossy(&line.stdout);
        assert!(line.contains(": 0 requests/s"), "the writes before it do not count: {line}");
        other.kill();
        if !detaches {
            // So no write is under way when this is noticed: one could be in the BOPT.
            assert_eq!(raw.flush().unwrap(), 0);
        }
        for number in 400..900 {
            assert_eq!(write(&mut raw, number), 0, "page {number}");
        }
        assert_eq!(raw.flush().unwrap(), 0);
        let trouble = status(folder)["layers"][0]["trouble"].to_string();
        assert!(trouble.contains("the BOPT takes no writes"), "{trouble}");
        if detaches {
            done(folder, DETACH);
            assert_eq!(raw.flush().unwrap(), 0);
            server.stop();
        } else {
            drop(raw);
            server.signal();
            let mut server = server;
            server.wait();
            let mut refused = crate::server::serve(folder, "threads");
            let refused = refused.output().unwrap();
            let error = String::from_utf8_lossy(&refused.stderr);
            let way_out = "remove layer.borg from this file, with disk in its place";
            assert!(!refused.status.success() && error.contains(way_out), "{error}");
            volume(folder, DISK, &[("disk", "name = \"disk\"")]);
        }
        let server = Server::start(folder, "threads").unwrap();
        let mut raw = Raw::open(folder, "disk");
        for number in 0..900 {
            assert_eq!(raw.read(number * 4096, 4096).unwrap(), [number as u8; 4096], "page {number}");
        }
        server.stop();
    }
}

/// What an earlier layer left in the same area must never count as the newer one's: so each has an identity of its own,
/// also if both were the first that their servers made.
#[test]
fn a_layer_that_the_next_server_attaches_again_has_another_identity() {
    let folder = folder("", "disk");
    let folder = folder.path();
    let identity = || {
        let _server = Server::start(folder, "threads").unwrap();
        done(folder, ATTACH);
        let records = std::fs::read_dir(folder.join("state")).unwrap().map(|entry| entry.unwrap().path());
        let record = records.flat_map(|path| std::fs::read_dir(path).unwrap()).next().unwrap().unwrap();
        let text = std::fs::read_to_string(record.path()).unwrap();
        let line = text.lines().find(|line| line.starts_with("bopt = ")).unwrap().to_owned();
        done(folder, DETACH);
        line
    };
    assert_ne!(identity(), identity());
}

#[test]
fn a_layer_that_owns_the_order_stays_and_recorded_servers_do_not_change() {
    let folder = folder("[layer.mapper]\nover = \"disk\"\n", "mapper");
    let folder = folder.path();
    done(folder, &["create"]);
    let Some(server) = Server::start(folder, "threads") else { return };
    refused(folder, &["detach", "mapper"], &["owns the order", "copy the data"]);
    done(folder, &["attach", "scrub"]);
    done(folder, &["attach", "borg", "--over", "mapper", "--device", "bopt=bopt.img"]);
    done(folder, DETACH);
    done(folder, &["detach", "scrub"]);
    server.stop();
    let inputs = folder.join("inputs").display().to_string();
    let Some(server) = Server::start_with(folder, "threads", &["--log-inputs", &inputs]) else { return };
    refused(folder, &["attach", "scrub"], &["--log-inputs"]);
    server.stop();
}
