//! Snapshots of a served volume: taken while clients write, each an export of its own, there after a kill, and deleted.

use std::path::Path;
use std::process::Command;

use crate::raw::Raw;
use crate::server::{KINDS, Server, succeeds, volume};
use crate::{MIB, noise, sparse};

/// An array of four files and parity, and a file of flash.
pub const COMPONENTS: &str = "
    [component.d0]
    file = \"d0.img\"
    [component.d1]
    file = \"d1.img\"
    [component.d2]
    file = \"d2.img\"
    [component.d3]
    file = \"d3.img\"
    [component.p]
    file = \"p.img\"
    [component.ssd]
    file = \"ssd.img\"
    [slice.log]
    of = \"ssd\"
    size = \"8MiB\"
    [slice.flash]
    of = \"ssd\"
    at = \"8MiB\"
    [layer.raid4]
    over = [\"d0\", \"d1\", \"d2\", \"d3\"]
    parity = \"p\"
    log = \"log\"
    [layer.proximal]
    over = \"raid4\"
    flash = \"flash\"
    range = \"1008KiB\"
    reserve = 0.4
";
pub const FILES: [&str; 6] = ["d0", "d1", "d2", "d3", "p", "ssd"];
pub const PAGE: usize = 4096;

/// A command on the volume; whether it succeeds, and its output.
pub fn ask(folder: &Path, verb: &[&str], more: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    let command = command.arg("volume").args(verb).arg(folder.join("volume.toml")).args(more);
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// A command that succeeds.
pub fn done(folder: &Path, verb: &[&str], more: &[&str]) -> String {
    let (fine, said) = ask(folder, verb, more);
    assert!(fine, "{verb:?} {more:?}: {said}");
    said
}

pub fn list(folder: &Path) -> Vec<(String, u64)> {
    let all: serde_json::Value = crate::schemas::parsed(&done(folder, &["snapshot", "list"], &["--json"]));
    let of = |one: &serde_json::Value| {
        (one["name"].as_str().unwrap().to_owned(), one["unique_bytes"].as_u64().unwrap())
    };
    all.as_array().unwrap().iter().map(of).collect()
}

/// A new volume of a layer `proximal`, which is not served yet.
pub fn create(folder: &Path) {
    for file in FILES {
        sparse(&folder.join(format!("{file}.img")), 24 * MIB as u64);
    }
    volume(folder, COMPONENTS, &[("proximal", "")]);
    done(folder, &["create"], &[]);
}

/// What an export holds at its beginning.
pub fn content(server: &Server, export: &str, bytes: usize) -> Vec<u8> {
    let mut raw = Raw::open(&server.folder, export);
    let parts = (0..bytes / MIB).map(|part| raw.read((part * MIB) as u64, MIB as u32).unwrap());
    parts.collect::<Vec<_>>().concat()
}

#[test]
fn snapshots_are_exports_that_survive_kills_and_return_their_space() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        create(folder);
        let Some(mut server) = Server::start(folder, kind) else { continue };
        let mut now = noise(8 * MIB, 3);
        let (source, copy) = (folder.join("source"), folder.join("copy"));
        std::fs::write(&source, &now).unwrap();
        let copies =
            succeeds("nbdcopy", &["--flush", &source.display().to_string(), &server.uri("proximal")])
                .is_some();
        if !copies {
            Raw::open(folder, "proximal").write(0, 0, &now[..MIB]).unwrap();
            now = content(&server, "proximal", 8 * MIB);
        }
        let mut held = Vec::new();
        for round in 1..=4_u8 {
            let name = format!("round-{round}");
            done(folder, &["snapshot", "create"], &[&name]);
            held.push((name, now.clone()));
            let mut raw = Raw::open(folder, "proximal");
            for step in 0..120 {
                let at = (step * 53 + usize::from(round) * 7) % (8 * MIB / PAGE) * PAGE;
                let data = vec![round; if step % 5 == 0 { PAGE / 2 } else { PAGE }];
                assert_eq!(raw.write(0, at as u64, &data).unwrap(), 0);
                now[at..at + data.len()].copy_from_slice(&data);
            }
            assert_eq!(raw.flush().unwrap(), 0);
            if round % 2 == 0 {
                done(folder, &["tell"], &["proximal", "destage"]);
            }
            server.kill();
            server = Server::start(folder, kind).unwrap();
            assert!(content(&server, "proximal", 8 * MIB) == now, "{kind}, round {round}");
            for (name, held) in &held {
                let found = content(&server, &format!("proximal@{name}"), 8 * MIB);
                assert!(&found == held, "{kind}, round {round}: {name}");
            }
        }
        if copies {
            succeeds("nbdcopy", &[&server.uri("proximal@round-1"), &copy.display().to_string()]);
            assert!(std::fs::read(&copy).unwrap()[..8 * MIB] == held[0].1, "{kind}");
        }
        let mut raw = Raw::open(folder, "proximal@round-2");
        assert!(raw.write(0, 0, &[1; PAGE]).unwrap() != 0, "a snapshot is only read");
        let names: Vec<String> = list(folder).into_iter().map(|one| one.0).collect();
        assert_eq!(names, ["round-1", "round-2", "round-3", "round-4"]);
        let status = done(folder, &["status"], &[]);
        assert!(status.contains("export proximal@round-3"), "{status}");
        for (more, words) in [
            (&["round-1"][..], "found a snapshot 'round-1' already"),
            (&["a/b"], "expected 1 to 40 letters"),
            (&["x", "--layer", "raid4"], "found raid4, expected a layer with snapshots"),
        ] {
            let (fine, said) = ask(folder, &["snapshot", "create"], more);
            assert!(!fine && said.contains(words), "{said}");
        }
        let (fine, said) = ask(folder, &["snapshot", "delete"], &["round-9"]);
        assert!(!fine && said.contains("found the snapshot 'round-9', expected round-1 or"), "{said}");
        done(folder, &["snapshot", "delete"], &["round-2"]);
        raw.ask(0, 0, 2, 0, PAGE as u32).unwrap();
        assert!(raw.reply().unwrap().1 != 0, "it is gone");
        server.kill();
        server = Server::start(folder, kind).unwrap();
        for (name, held) in held.iter().filter(|one| one.0 != "round-2") {
            assert!(&content(&server, &format!("proximal@{name}"), 8 * MIB) == held, "{kind}: {name}");
            done(folder, &["snapshot", "delete"], &[name]);
        }
        assert_eq!(list(folder), []);
        assert!(content(&server, "proximal", 8 * MIB) == now, "{kind}");
        let status: serde_json::Value = crate::schemas::parsed(&done(folder, &["status"], &["--json"]));
        let layers = status["layers"].as_array().unwrap();
        let layer = layers.iter().find(|layer| layer["name"] == "proximal").unwrap();
        assert_eq!(layer["counters"]["blocks_of_snapshots"], 0);
        server.stop();
    }
}
