//! The recordings as printed by Debian's `blkparse`: its text gives the same records as the binary files.
//!
//! Skipped where `blkparse` or the recordings are missing.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use seekless_core::{Origin, Record};
use seekless_trace::format::EventKind;
use seekless_trace::format::blktrace::exact;
use seekless_trace::{ReadOptions, Trace, compressed, load};

/// The recordings that ship, and those recorded with them.
fn recordings() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared =
        std::env::var_os("SEEKLESS_SHARED").map_or_else(|| here.join("../../../shared"), PathBuf::from);
    let folders = [here.join("../../data"), shared.join("traces/recorded")];
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let names = files.filter_map(|entry| {
        let path = entry.ok()?.path();
        let name = path.to_str()?.strip_suffix(".blktrace.0.xz")?;
        Some(PathBuf::from(name))
    });
    let mut names: Vec<PathBuf> = names.collect();
    names.sort();
    names
}

/// The files of a recording as `blkparse` needs them: uncompressed, in a folder of their own.
fn unpacked(recording: &Path, folder: &str) -> PathBuf {
    let name = recording.file_name().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(&folder).unwrap();
    for cpu in 0..2 {
        let packed = format!("{}.blktrace.{cpu}.xz", recording.display());
        let mut content = compressed::open(Path::new(&packed)).unwrap();
        let plain = folder.join(format!("{}.blktrace.{cpu}", name.to_str().unwrap()));
        io::copy(&mut content, &mut File::create(plain).unwrap()).unwrap();
    }
    folder.join(name)
}

/// The output of `blkparse` for a recording, in a file.
fn printed(recording: &Path, format: &[&str]) -> Option<PathBuf> {
    let text = recording.with_extension("txt");
    let ran = Command::new("blkparse")
        .args(["-q", "-i"])
        .arg(recording.file_name().unwrap())
        .args(format)
        .arg("-o")
        .arg(&text)
        .current_dir(recording.parent().unwrap())
        .output();
    let Ok(ran) = ran else {
        eprintln!("skipped: no blkparse here");
        return None;
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Some(text)
}

/// The records, and the names of their processes.
fn named(trace: &Trace) -> impl Iterator<Item = (Record, &str)> {
    trace.records.iter().map(|record| (*record, trace.names.get(record.origin.name)))
}

/// The names that a recording has for each process. `blkparse` keeps the one that it happens to read first, though a
/// process has another one after exec.
fn names_noted(recording: &Path) -> BTreeSet<(u32, String)> {
    let mut names = BTreeSet::new();
    for cpu in 0..2 {
        let bytes = fs::read(format!("{}.blktrace.{cpu}", recording.display())).unwrap();
        let mut rest = &bytes[..];
        while let Ok(record) = exact(rest) {
            if let Ok(Some(EventKind::Named(process, name))) = record.meaning() {
                names.insert((process.0, String::from(name)));
            }
            rest = &rest[record.length_bytes()..];
        }
    }
    names
}

fn agree(recording: &Path, binary: &Trace, text: &Trace) {
    assert_eq!(binary.records.len(), text.records.len());
    let names = names_noted(recording);
    for (one, (other, other_name)) in binary.records.iter().copied().zip(named(text)) {
        // The tables of names are in another order.
        let origin = Origin { name: one.origin.name, ..other.origin };
        assert_eq!(Record { origin, ..other }, one);
        assert!(names.contains(&(one.origin.process.0, other_name.to_owned())), "{one:?}: {other_name}");
    }
}

#[test]
fn blkparse_gives_the_same_records() {
    let options = ReadOptions { latencies: true, ..ReadOptions::default() };
    for recording in recordings() {
        let recording = unpacked(&recording, "blkparse");
        let Some(text) = printed(&recording, &[]) else { return };
        let (binary, text) = (load(&[&recording], &options).unwrap(), load(&[text], &options).unwrap());
        assert_eq!(text.format, "blkparse");
        let known = binary.records.iter().filter(|record| record.latency.known().is_some()).count();
        println!("{}: {} requests, {known} answers", recording.display(), binary.records.len());
        agree(&recording, &binary, &text);
    }
}

#[test]
fn its_custom_format_is_read_with_the_option() {
    let spec = "%D %2c %8s %5T.%9t %5p %2a %3d %S + %n [%C]\\n";
    let options = ReadOptions { columns: Some(spec.parse().unwrap()), ..ReadOptions::default() };
    let Some(recording) = recordings().into_iter().next() else { return };
    let recording = unpacked(&recording, "blkparse-f");
    let Some(text) = printed(&recording, &["-f", spec]) else { return };
    let binary = load(&[&recording], &ReadOptions::default()).unwrap();
    let text = load(&[text], &options).unwrap();
    assert_eq!(text.format, "blkparse-f");
    agree(&recording, &binary, &text);
}
