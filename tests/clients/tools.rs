//! The tools of volumes that are not being served: check, dump, restore, repair, damage, rescue.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::raw::Raw;
use crate::schemas::parsed;
use crate::server::{Server, volume};
use crate::sparse;

fn tool(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    command.args(["volume", words[0]]).arg(folder.join("volume.toml")).args(&words[1..]);
    command.env("STATE_DIRECTORY", folder.join("state")).current_dir(folder).stdin(Stdio::null());
    command.output().unwrap()
}

/// The output of a tool that has to succeed.
fn done(folder: &Path, words: &[&str]) -> String {
    let done = tool(folder, words);
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// A tool that has to fail with these words.
fn refused(folder: &Path, words: &[&str], expected: &str) {
    let failed = tool(folder, words);
    let output = String::from_utf8([failed.stdout, failed.stderr].concat()).unwrap();
    assert!(!failed.status.success() && output.contains(expected), "{words:?}: no '{expected}' in {output}");
}

/// A folder with BORG over a file that a killed server left, with 40 dirty pages.
fn killed() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    sparse(&folder.path().join("disk.img"), 8 << 20);
    sparse(&folder.path().join("bopt.img"), 4 << 20);
    let text = "[component.disk]\nfile = \"disk.img\"\n[component.fast]\nfile = \"bopt.img\"\n\
                [layer.borg]\nover = \"disk\"\nbopt = \"fast\"\n";
    volume(folder.path(), text, &[("borg", "")]);
    let server = Server::start(folder.path(), "threads")?;
    refused(folder.path(), &["check"], "it in use");
    refused(folder.path(), &["rescue"], "it in use");
    let mut raw = Raw::open(folder.path(), "borg");
    // The BOPT is formatted after the first write.
    for round in 0..3 {
        for page in 0..40_u64 {
            assert_eq!(raw.write(0, page * 7 * 4096, &[round * 64 + page as u8; 4096]).unwrap(), 0);
        }
        assert_eq!(raw.flush().unwrap(), 0);
    }
    server.kill();
    Some(folder)
}

/// The disk has everything.
fn is_home(folder: &Path) -> bool {
    let disk = std::fs::read(folder.join("disk.img")).unwrap();
    (0..40_usize).all(|page| disk[page * 7 * 4096..][..4096] == [128 + page as u8; 4096])
}

#[test]
fn a_killed_volume_is_checked_dumped_restored_and_rescued() {
    let Some(folder) = killed() else { return };
    let folder = folder.path();
    let before = std::fs::read(folder.join("bopt.img")).unwrap();
    let checked = parsed(&done(folder, &["check", "--data", "--json"]));
    assert_eq!((&checked[0]["error"], &checked[0]["unreadable"]), (&serde_json::Value::Null, &0.into()));
    let dirty = checked[0]["dirty_pages"].as_u64().unwrap();
    assert!((1..=40).contains(&dirty) && !is_home(folder), "{checked}");
    let dump = done(folder, &["dump"]);
    parsed(&dump);
    std::fs::write(folder.join("dump.json"), &dump).unwrap();
    assert!(std::fs::read(folder.join("bopt.img")).unwrap() == before, "they write nothing");
    refused(folder, &["restore", "dump.json"], "--replace");
    let restored = parsed(&done(folder, &["restore", "dump.json", "--replace", "--json"]));
    assert_eq!(restored["not_compared"], 0);
    assert_eq!(done(folder, &["dump"]), dump);
    // Nothing but zeroes where the data was.
    std::fs::rename(folder.join("bopt.img"), folder.join("kept.img")).unwrap();
    sparse(&folder.join("bopt.img"), 4 << 20);
    refused(folder, &["restore", "dump.json", "--replace"], "found other data than at the dump in");
    std::fs::rename(folder.join("kept.img"), folder.join("bopt.img")).unwrap();
    for (text, expected) in
        [("{", "found no dump"), ("[1]", "found no dump"), ("{\"layer\": 1}", "a dump that is none")]
    {
        std::fs::write(folder.join("bad.json"), text).unwrap();
        refused(folder, &["restore", "bad.json", "--replace"], expected);
    }
    let disk = std::fs::read(folder.join("disk.img")).unwrap();
    refused(folder, &["rescue", "--to", "plain.img"], "found --to plain.img, expected none");
    assert!(std::fs::read(folder.join("disk.img")).unwrap() == disk, "nothing is written");
    // The host's records of which BOPT has newer pages.
    let records = || {
        let entries = |path: &Path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let each = entries(&folder.join("state")).flat_map(|device| entries(&device));
        each.map(|path| (std::fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let before = records();
    let rescued = done(folder, &["rescue"]);
    assert!(rescued.contains(&format!("{dirty} pages written")) && is_home(folder), "{rescued}");
    // Killed after its last write, before it recorded that nothing is left.
    assert!(!before.is_empty() && records() != before);
    for (bytes, path) in &before {
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(parsed(&done(folder, &["rescue", "--json"]))[0]["pages"], 0);
    assert!(records() != before && is_home(folder));
    std::fs::remove_file(folder.join("bopt.img")).unwrap();
    refused(folder, &["check"], "bopt.img");
}

#[test]
fn a_damaged_volume_is_refused_repaired_into_a_new_file_and_rescued() {
    let Some(folder) = killed() else { return };
    let folder = folder.path();
    assert!(done(folder, &["damage", "--list"]).contains("borg map-both: "));
    refused(folder, &["damage", "super-both"], "--destroy");
    refused(folder, &["damage", "dance", "--destroy"], "'dance'");
    assert!(done(folder, &["damage", "super-both", "--destroy"]).contains("page 1"));
    refused(folder, &["check"], "damaged: see seekless volume repair");
    refused(folder, &["rescue"], "seekless volume repair");
    let output = crate::server::serve(folder, "threads").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("seekless volume check"), "{error}");
    let damaged = std::fs::read(folder.join("bopt.img")).unwrap();
    std::fs::write(folder.join("new.img"), [vec![0; 1 << 20], vec![1; 3 << 20]].concat()).unwrap();
    refused(folder, &["repair", "--to", "new.img"], "found data, expected zeroes");
    refused(folder, &["repair", "--to", "bopt.img"], "in use");
    refused(folder, &["repair", "--to", "none.img"], "none.img");
    std::fs::File::create(folder.join("new.img")).unwrap().set_len(4 << 20).unwrap();
    assert!(done(folder, &["repair", "--to", "new.img"]).contains("given up: "));
    assert!(std::fs::read(folder.join("bopt.img")).unwrap() == damaged, "it is only read");
    let text = std::fs::read_to_string(folder.join("volume.toml")).unwrap().replace("bopt.img", "new.img");
    std::fs::write(folder.join("volume.toml"), text).unwrap();
    done(folder, &["check"]);
    done(folder, &["rescue"]);
    assert!(is_home(folder));
    let server = Server::start(folder, "threads").unwrap();
    assert_eq!(Raw::open(folder, "borg").read(39 * 7 * 4096, 4096).unwrap(), [167; 4096]);
    server.stop();
}

#[test]
fn what_is_no_damage_is_called_by_its_name() {
    let Some(folder) = killed() else { return };
    let folder = folder.path();
    let resize = |name: &str, bytes: u64| {
        std::fs::File::options().write(true).open(folder.join(name)).unwrap().set_len(bytes).unwrap();
    };
    resize("bopt.img", 3 << 20);
    refused(folder, &["check"], "its area changed its size; give it 4194304 bytes again");
    refused(folder, &["check"], "volume.toml: the parts do not belong together");
    resize("bopt.img", 4 << 20);
    resize("disk.img", 4 << 20);
    refused(folder, &["check"], "or the device below changed its size");
    resize("disk.img", 8 << 20);
    done(folder, &["check"]);
    done(folder, &["damage", "super-version", "--destroy"]);
    refused(folder, &["check"], "volume.toml: written by a later version of the program: update it");
    sparse(&folder.join("new.img"), 4 << 20);
    refused(folder, &["repair", "--to", "new.img"], "expected one that this version knows");
}

#[test]
fn a_mapper_is_rescued_into_a_plain_file_and_has_no_other_tools() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sparse(&folder.join("disk.img"), 8 << 20);
    volume(
        folder,
        "[component.disk]\nfile = \"disk.img\"\n[layer.mapper]\nover = \"disk\"\n",
        &[("mapper", "")],
    );
    let Some(server) = Server::start(folder, "threads") else { return };
    let mut raw = Raw::open(folder, "mapper");
    assert_eq!(raw.write(0, 4096, &[5; 8192]).unwrap(), 0);
    drop(raw);
    server.stop();
    for words in [&["dump"][..], &["repair", "--to", "disk.img"], &["damage", "x", "--destroy"]] {
        let failed = tool(folder, words);
        assert!(!failed.status.success(), "{words:?}");
    }
    refused(folder, &["dump"], "not supported by this layer");
    refused(folder, &["rescue"], "expected --to FILE");
    sparse(&folder.join("small.img"), 4096);
    refused(folder, &["rescue", "--to", "small.img"], "expected at least");
    sparse(&folder.join("plain.img"), 8 << 20);
    done(folder, &["rescue", "--to", "plain.img"]);
    done(folder, &["check", "--data"]);
    let plain = std::fs::read(folder.join("plain.img")).unwrap();
    assert!(plain[4096..12288] == [5; 8192] && plain[..4096] == [0; 4096]);
    refused(folder, &["check", "--layer", "none"], "expected one of: mapper");
}
