//! Components that grow while they are served.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};

use crate::raw::Raw;
use crate::server::{KINDS, Server, succeeds, volume};

const DISK: &str = "[component.disk]\nfile = \"disk.img\"\n";
const MIB: u64 = 1 << 20;
const ENOSPC: u32 = 28;

fn folder(layers: &str, top: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    crate::sparse(&folder.path().join("disk.img"), 16 * MIB);
    crate::sparse(&folder.path().join("bopt.img"), 16 * MIB);
    volume(folder.path(), &format!("{DISK}{layers}"), &[(top, "name = \"disk\"")]);
    folder
}

fn resize(folder: &Path, bytes: u64) {
    let disk = std::fs::OpenOptions::new().write(true).open(folder.join("disk.img")).unwrap();
    disk.set_len(bytes).unwrap();
}

fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    command.args(["volume", words[0]]).arg(folder.join("volume.toml")).args(&words[1..]);
    command.env("STATE_DIRECTORY", folder.join("state")).output().unwrap()
}

fn done(folder: &Path, words: &[&str]) -> String {
    let done = run(folder, words);
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn refused(folder: &Path, words: &[&str], expected: &[&str]) {
    let failed = run(folder, words);
    let error = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(!failed.status.success(), "{words:?}");
    for word in expected {
        assert!(error.contains(word), "{words:?}: no '{word}' in {error}");
    }
}

#[test]
fn a_file_that_grew_is_larger_for_new_clients_and_usable_by_old_ones() {
    for kind in KINDS {
        let folder = folder("[layer.scrub]\nover = \"disk\"\n", "scrub");
        let folder = folder.path();
        let inputs = folder.join("inputs").display().to_string();
        let Some(server) = Server::start_with(folder, kind, &["--log-inputs", &inputs]) else { continue };
        let mut events = BufReader::new(UnixStream::connect(folder.join("volume.control")).unwrap());
        events.get_mut().write_all(b"\"subscribe\"\n").unwrap();
        let mut event = || {
            let mut line = String::new();
            events.read_line(&mut line).unwrap();
            line
        };
        assert!(event().contains("subscribed"));
        let mut old = Raw::open(folder, "disk");
        assert_eq!(old.write(0, 20 * MIB, &[7; 4096]).unwrap(), ENOSPC);
        resize(folder, 32 * MIB);
        assert_eq!(old.write(0, 20 * MIB, &[7; 4096]).unwrap(), ENOSPC, "nobody has asked to look");
        assert_eq!(done(folder, &["resize"]), "disk: 16 MiB before, 32 MiB now\n");
        assert_eq!(done(folder, &["resize", "disk"]), "nothing has grown\n");
        let line = event();
        for word in ["resized", "\"component\":\"disk\"", "\"bytes\":33554432"] {
            assert!(line.contains(word), "no {word} in {line}");
        }
        assert_eq!(old.write(0, 20 * MIB, &[7; 4096]).unwrap(), 0);
        assert_eq!(old.flush().unwrap(), 0);
        assert_eq!(old.write(0, 32 * MIB, &[7; 4096]).unwrap(), ENOSPC);
        assert_eq!(Raw::open(folder, "disk").read(20 * MIB, 4096).unwrap(), [7; 4096]);
        if let Some(size) = succeeds("nbdinfo", &["--size", &server.uri("disk")]) {
            assert_eq!(size.trim(), "33554432");
        }
        let status = crate::schemas::parsed(&done(folder, &["status", "--json"]));
        assert_eq!(status["exports"][0]["bytes"], 33_554_432);
        resize(folder, 24 * MIB);
        refused(folder, &["resize"], &["25165824 bytes", "33554432 or more", "cannot shrink"]);
        resize(folder, 32 * MIB);
        drop(old);
        server.stop();
        let mut replay = Command::new(env!("CARGO_BIN_EXE_seekless"));
        let replayed = replay.args(["lab", "replay", &inputs]).output().unwrap();
        assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
    }
}

#[test]
fn layers_that_keep_their_size_say_what_to_do() {
    let attach = ["attach", "borg", "--over", "disk", "--device", "bopt=bopt.img"];
    let folder = folder("", "disk");
    let folder = folder.path();
    let Some(server) = Server::start(folder, "threads") else { return };
    done(folder, &attach);
    let mut raw = Raw::open(folder, "disk");
    assert_eq!(raw.write(0, 0, &[9; 4096]).unwrap(), 0);
    resize(folder, 32 * MIB);
    refused(
        folder,
        &["resize"],
        &["layer.borg", "keeps the size", "detach borg, resize, and attach it again"],
    );
    assert_eq!(raw.write(0, 20 * MIB, &[7; 4096]).unwrap(), ENOSPC);
    done(folder, &["detach", "borg"]);
    done(folder, &["resize"]);
    done(folder, &attach);
    assert_eq!(raw.write(0, 20 * MIB, &[7; 4096]).unwrap(), 0);
    assert_eq!(raw.read(0, 4096).unwrap(), [9; 4096]);
    refused(folder, &["resize", "none"], &["component 'none'", "disk"]);
    server.stop();
    let Some(server) = Server::start(folder, "threads") else { return };
    let mut raw = Raw::open(folder, "disk");
    assert_eq!(raw.read(20 * MIB, 4096).unwrap(), [7; 4096], "it opens with its new size");
    server.stop();
}

#[test]
fn layers_that_format_slices_to_the_end_and_memory_keep_their_size() {
    let memory = "[component.m]\nram = \"1MiB\"\n";
    for (layers, top, expected) in [
        (
            "[layer.mapper]\nover = \"disk\"\n",
            "mapper",
            ["layer.mapper", "make a new volume on a larger device"],
        ),
        ("[slice.home]\nof = \"disk\"\nat = \"1MiB\"\n", "home", ["slice.home", "size = \"15728640B\""]),
    ] {
        let folder = folder(&format!("{layers}{memory}"), top);
        let folder = folder.path();
        let Some(server) = Server::start(folder, "threads") else { return };
        resize(folder, 32 * MIB);
        refused(folder, &["resize"], &expected);
        refused(folder, &["resize", "m"], &["component.m", "found memory"]);
        server.stop();
    }
}
