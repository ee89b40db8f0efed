//! Every invariant that is asserted in the store and in durable structures, and a planted bug that violates it: each
//! exploration ends with the invariant's name.
//!
//! Needs the feature `mutants`.
#![cfg(feature = "mutants")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of an invariant, a bug that violates it, and a volume on which it does.
const BROKEN: &[(&str, &str, &str)] = &[
    (
        "a slot is handed out only when no entry names it",
        "borg: a slot of the log is taken twice",
        "borg-paper",
    ),
    ("a clean copy has no newer record", "borg: dropped by a relocate", "borg-paper"),
    (
        "batches are committed in the order of the log",
        "borg: batches are committed in any order",
        "borg-paper",
    ),
    ("a segment counts the pages of its map", "borg: a page is counted twice", "borg-paper"),
    ("generations grow", "borg: a generation is used twice", "borg-paper"),
    ("no count wraps", "borg: a write of a batch is counted off twice", "borg-paper"),
    (
        "a map page covers what is committed, and no more",
        "borg: a map page covers a batch under way",
        "borg-paper",
    ),
    (
        "a copy is dirty on disk before it is overwritten",
        "borg: a clean copy is overwritten first",
        "borg-paper",
    ),
    (
        "only a stable copy is overwritten",
        "borg: part of an unstable copy is overwritten in place",
        "borg-paper",
    ),
    ("a session is begun before its first change", "borg: a write begins no session", "borg-paper"),
    (
        "a checksum is given up before its copy is overwritten",
        "borg: a copy is overwritten before its checksum is given up",
        "borg-paper",
    ),
    ("one writes metadata at a time", "borg: a checkpoint does not lock metadata", "borg-paper"),
    (
        "a segment is freed when it holds nothing, on disk either",
        "borg: a segment is freed that holds pages",
        "borg-paper",
    ),
    ("the copy that counts is not overwritten", "borg: a map page goes over its newer copy", "borg-paper"),
    ("no flush succeeds after one that failed", "borg: flushes go on after one that failed", "borg-paper"),
    ("a sealed sector is of a generation", "durable: a sector is sealed in no generation", "lld"),
    ("a head ends before its parity", "durable: a head reaches into its parity", "lld"),
    ("a slot has one block", "lld: a slot is taken twice", "lld"),
    ("a segment counts its live blocks", "lld: a block leaves its segment twice", "lld"),
    ("a segment is freed when no block lies in it", "lld: a segment is freed that holds a block", "lld"),
    ("a block that is taken is free", "proximal: a block is taken twice", "proximal"),
    ("a block that is freed was taken", "proximal: a block is freed twice", "proximal"),
    ("a dirty page is not evicted", "cache: a dirty page may be evicted", "cache"),
    ("one version of a page is being written", "cache: a page is written back twice at once", "cache"),
    ("a piece is left that has pages", "dedup: one page short", "dedup"),
];

/// Options of the exploration: overlapping requests, in a small part of the volume, and commands.
const OPTIONS: &str = "lab explore --part --unreduced --states 20000 --seed 1 --clients 4 --commands 6";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_invariant_is_broken_by_a_planted_bug() {
    for (invariant, bug, volume) in BROKEN {
        let file = root().join(format!("tests/promises/volumes/{volume}.toml"));
        // The volume of the cache is smaller.
        let area = if *volume == "cache" { "256KiB" } else { "512KiB" };
        let ended = Command::new(env!("CARGO_BIN_EXE_seekless"))
            .args(OPTIONS.split_whitespace())
            .args(["--workload", &format!("churn:area={area}")])
            .arg(file)
            .env("SEEKLESS_MUTANT", bug)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains(invariant), "{bug}: {said}");
    }
}

/// The files of a folder and of those in it, each with its text.
fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let (mut folders, mut files) = (vec![root().join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    files
}

/// The names that follow `invariant!(` in a source.
fn asserted(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split("invariant!(").skip(1).filter_map(|call| Some(call.split('"').nth(1)?.to_owned()))
}

/// The invariants that the header of a file states: what follows the word, up to the end of its sentence.
fn stated(text: &str) -> Vec<String> {
    let header: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    let header = header.join(" ");
    let Some((_, list)) = header.split_once("Invariant") else { return Vec::new() };
    let list = list.trim_start_matches('s').trim_start_matches(':');
    let sentence = list.split_once(". ").map_or(list, |(first, _)| first);
    sentence.trim_end_matches('.').split(';').map(|each| each.trim().to_owned()).collect()
}

#[test]
fn headers_of_the_store_state_what_is_asserted() {
    let known: BTreeSet<&str> = BROKEN.iter().map(|broken| broken.0).collect();
    let mut number = 0;
    for (path, text) in
        ["borg/store", "durable"].into_iter().flat_map(|of| files(&format!("crates/layers/src/{of}")))
    {
        for invariant in stated(&text) {
            assert!(known.contains(invariant.as_str()), "{}: `{invariant}`", path.display());
            number += 1;
        }
    }
    assert!(number > 20, "{number} invariants");
    assert_eq!(stated("//! A.\n//!\n//! Invariants: no b;\n//! c. And d.\nuse e;\n"), ["no b", "c"]);
    assert_eq!(stated("//! Invariant: f.\n"), ["f"]);
}

#[test]
fn every_asserted_invariant_is_listed() {
    let names: BTreeSet<String> =
        files("crates/layers/src").iter().flat_map(|(_, text)| asserted(text)).collect();
    assert_eq!(names, BROKEN.iter().map(|broken| broken.0.to_owned()).collect());
}
