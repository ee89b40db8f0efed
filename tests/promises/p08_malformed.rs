//! Promise 8. Malformed input gets an error with the place, the found and the expected value. It never causes a
//! panic or a read past the end.
//!
//! Fault model: bytes of a file are changed, left out or doubled, at random, in files of every kind that is
//! read: volume files, drive files, scripts of crashes, histories, workloads, traces. (The readers of traces are fuzzed
//! besides, and so are the NBD peers of a live volume and its recorded inputs: `fuzz/`.)

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use seekless_core::runtime::{Rng, Runtime};
use seekless_core::{BlockDevice, Nanos};
use seekless_drive::{Disk, QueueOptions, spec};
use seekless_lab::check::history;
use seekless_lab::explore::Options;
use seekless_lab::explore::case::Case;
use seekless_lab::workload::client::Limit;
use seekless_lab::{Run, run_workload, workload};
use seekless_layers::schedule::Schedule;
use seekless_promises as common;
use seekless_volume::tree::{self, Bytes};
use seekless_volume::{Description, file};

/// Damaged copies of each file.
const COPIES: u64 = 300;

/// A copy with a few errors.
fn damaged(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=rng.below(4) {
        let end = bytes.len() as u64;
        let (at, other) = (rng.below(end + 1) as usize, rng.below(end + 1) as usize);
        let (from, to) = (at.min(other), at.max(other).min(at.min(other) + 40));
        match rng.below(5) {
            0 if at < bytes.len() => bytes[at] = rng.below(256) as u8,
            1 => drop(bytes.drain(from..to)),
            2 => {
                let copy = bytes[from..to].to_vec();
                bytes.splice(from..from, copy);
            }
            3 => bytes.truncate(at),
            // Numbers in it grow.
            _ => match bytes[at..].iter().position(u8::is_ascii_digit) {
                Some(digit) => drop(bytes.splice(at + digit..at + digit, *b"99999999999")),
                None => bytes.extend([0; 9]),
            },
        }
    }
    bytes
}

/// Reads damaged copies of a text; the number of refusals, each with the found and the expected value.
fn refused<E: std::fmt::Display>(name: &str, text: &str, read: impl Fn(&str) -> Result<(), E>) -> u64 {
    let mut rng = Rng::seeded(text.len() as u64);
    let mut refused = 0;
    for _ in 0..COPIES {
        let copy = String::from_utf8_lossy(&damaged(text.as_bytes(), &mut rng)).into_owned();
        if let Err(error) = read(&copy) {
            let error = error.to_string();
            assert!(error.contains("expected"), "{name}: {error}\n{copy}");
            refused += 1;
        }
    }
    refused
}

fn texts(folder: &Path, extension: &str) -> Vec<(String, String)> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    let name = |file: &Path| file.file_name().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|file| (name(file), std::fs::read_to_string(file).unwrap())).collect()
}

#[test]
fn damaged_files_are_refused_with_reasons() {
    let mut counts = [0; 4];
    for (name, text) in texts(&common::folder("volumes"), "toml") {
        counts[0] += refused(&name, &text, |text| file::parse(&name, text).map(drop));
    }
    for (name, text) in texts(&common::folder("../../drives"), "toml") {
        counts[1] += refused(&name, &text, |text| spec::parse(&name, text).map(drop));
    }
    for (name, text) in texts(&common::folder("scripts"), "script") {
        counts[2] += refused(&name, &text, |text| text.parse::<Case>().map(drop));
    }
    for text in
        ["mix:3*oltp:mpl=20,think=10ms+1*seq:streams=2", "churn:size=64KiB,reads=20%", "random:rate=100/s"]
    {
        counts[3] += refused(text, text, |text| workload::parse(text).map(drop));
    }
    println!("refused: {counts:?} volume files, drive files, scripts, workloads");
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}

#[test]
fn damaged_histories_and_traces_are_refused_with_reasons() {
    let text = "seekless history 1\nissue 1 write 800+8\nissue 2 flush\ndone 1\ndone 2\nissue 3 read 800+8\n\
                read 3 1 1 1 1 1 1 1 1\ncrash\nissue 4 read 804+4\nread 4 1 1 1 1\nend\n";
    let refusals = refused("history", text, |text| {
        history::Reader::new(text.as_bytes())?.try_for_each(|event| event.map(drop))
    });
    println!("refused: {refusals} histories");
    assert!(refusals > 50);
    let folder = common::folder("../../data");
    let file = std::fs::read(folder.join("appstart2.blktrace.0.xz")).unwrap();
    let mut rng = Rng::seeded(8);
    let scratch = std::env::temp_dir().join(format!("seekless-malformed-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).unwrap();
    let mut refusals = 0;
    for copy in 0..20 {
        let path = scratch.join(format!("{copy}.blktrace.0.xz"));
        std::fs::write(&path, damaged(&file, &mut rng)).unwrap();
        if let Err(error) = seekless_trace::load(&[&path], &seekless_trace::ReadOptions::default()) {
            assert!(error.to_string().contains("expected"), "{error}");
            refusals += 1;
        }
    }
    std::fs::remove_dir_all(&scratch).unwrap();
    assert!(refusals > 5, "{refusals} traces");
}

/// The volume with BORG, with one line of its file changed.
fn changed(line: &str, to: &str) -> Result<Description, String> {
    let text = std::fs::read_to_string(common::folder("volumes").join("borg.toml")).unwrap();
    assert!(text.contains(line), "{text}");
    file::parse("borg.toml", &text.replace(line, to)).map_err(|error| error.to_string())
}

/// Opens that volume.
fn opened(line: &str, to: &str) -> Result<(), String> {
    let volume = changed(line, to)?;
    volume.check().map(drop).map_err(|error| error.to_string())?;
    let opened = Runtime::new(1).run(async {
        let disk: Rc<dyn BlockDevice> =
            Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
        tree::build(&volume, BTreeMap::from([("disk".to_owned(), disk)]), Bytes::Real).await.map(drop)
    });
    opened.unwrap().map_err(|error| error.to_string())
}

#[test]
fn a_bopt_that_cannot_be_is_refused() {
    let size = "size = \"4616KiB\"";
    assert_eq!(opened(size, size), Ok(()));
    for (line, to, words) in [
        (size, "size = \"1TiB\"", "expected a part of disk"),
        ("at = \"16MiB\"", "at = \"8MiB\"", "expected sectors that nothing else uses"),
        ("bopt = \"bopt\"", "bopt = \"home\"", "expected sectors that nothing else uses"),
        ("bopt = \"bopt\"", "bopt = [\"bopt\", \"bopt\"]", "expected sectors that nothing else uses"),
        ("bopt = \"bopt\"", "bopt = []", "layer.borg.bopt: found [], expected the name of a component"),
        ("bopt = \"bopt\"", "bopt = [\"bopt\", 3]", "expected the name of a component"),
        (size, "size = \"4KiB\"", "found a BOPT of 1 pages of 4 KiB, expected at least"),
        ("write_buffer = 0.1", "write_buffer = -0.1", "expected 0 to 1"),
        ("write_buffer = 0.1", "write_buffer = nan", "expected 0 to 1"),
    ] {
        let error = opened(line, to).unwrap_err();
        assert!(error.contains(words), "{to}: {error}");
    }
}

/// A BOPT in three pieces, the last of them in front.
const IN_PIECES: &str = r#"
[slice.middle]
of = "disk"
at = "24MiB"
size = "6MiB"

[slice.end]
of = "disk"
at = "32MiB"
size = "20KiB"

[layer.borg]
over = "home"
bopt = ["end", "middle", "bopt"]
"#;

/// The BOPT is all read cache, or has none, or is as small as possible; or it is in pieces.
#[test]
fn a_bopt_that_is_unusual_keeps_its_promises() {
    for (line, to) in [
        ("write_buffer = 0.1", "write_buffer = 0"),
        ("write_buffer = 0.1", "write_buffer = 1"),
        ("size = \"4616KiB\"", "size = \"32KiB\""),
        ("[layer.borg]\nover = \"home\"\nbopt = \"bopt\"", IN_PIECES),
    ] {
        let volume = changed(line, to).unwrap();
        let options = Options { plain: Some(20), states: 3_000, each: 24, ..Options::default() };
        let explored = common::explore(&volume, "churn", 4, common::COMMANDS, 20, options, true);
        common::found_nothing(to, explored);
    }
}

/// There is nothing to learn, and no error.
#[test]
fn a_trace_without_repeats_is_served_from_the_origin() {
    let mut volume = common::volume("borg");
    volume.layers.get_mut("borg").unwrap().reconfigure = Some(Schedule::Every(Nanos::from_millis(200)));
    let run = Run { limit: Limit { requests: Some(500), time: None }, ..Run::default() };
    let load = workload::parse("seq:size=4KiB,reads=100%").unwrap();
    let (outcome, _) = run_workload(&load, &volume, &run, None).unwrap();
    assert_eq!(outcome.requests, 500, "{outcome:?}");
}
