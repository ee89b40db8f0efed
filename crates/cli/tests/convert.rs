//! `trace convert` on the command line: by a file's name or by `--to`, to standard output, errors and output.

mod common;

use common::{SMALL, folder, json, quietly, seekless};

const TARGETS: &[(&str, &str)] = &[
    #[cfg(feature = "parquet")]
    ("parquet", ".parquet"),
    ("fio", ".fio"),
    ("blkreplay", ".load.zst"),
    ("blkparse", ".txt.gz"),
    ("disksim", ".dsim.xz"),
];

fn out(name: &str) -> String {
    folder().join(name).to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn each_format_is_written_by_its_name_and_read_back() {
    let was = json(&["trace", "info", SMALL]);
    for (name, ending) in TARGETS {
        let file = out(&format!("each{ending}"));
        let ran = seekless(&["trace", "convert", SMALL, "-o", &file, "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let printed: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_eq!((&printed["to"], &printed["from"]), (&(*name).into(), &"blktrace".into()));
        assert_eq!(printed["records_read"], was["records"]);
        assert_eq!(printed["bytes"], std::fs::metadata(&file).unwrap().len());
        assert_eq!(printed["sources"].as_array().unwrap().len(), 2);
        for warning in printed["warnings"].as_array().unwrap() {
            assert!(ran.stderr.contains(warning.as_str().unwrap()), "{warning} is not in: {}", ran.stderr);
        }
        let lost = &printed["lost"];
        let left_out = ["flushes_left_out", "discards_left_out", "empty_left_out"]
            .map(|what| lost[what].as_u64().unwrap());
        assert_eq!(printed["records"], was["records"].as_u64().unwrap() - left_out.iter().sum::<u64>());
        let is = json(&["trace", "info", &file]);
        assert_eq!((&is["format"], &is["records"]), (&(*name).into(), &printed["records"]));
        for what in ["reads", "writes", "end_sector"] {
            assert_eq!(is[what], was[what], "{name}: {what}");
        }
        let holds_processes = ["parquet", "blkparse"].contains(name);
        assert_eq!(lost["processes_dropped"] == 0, holds_processes, "{name}");
        assert_eq!(is["processes"] == was["processes"], holds_processes, "{name}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_brings_back_what_the_recording_told() {
    let file = out("whole.parquet");
    let printed = json(&["trace", "convert", SMALL, "-o", &file]);
    assert_eq!(printed["warnings"], serde_json::json!([]));
    let stats = |file: &str| {
        let mut stats = json(&["trace", "stats", file]);
        for own in ["trace", "source", "sources", "files", "format"] {
            stats.as_object_mut().unwrap().remove(own);
        }
        stats
    };
    assert_eq!(stats(&file), stats(SMALL));
    let ran = seekless(&["trace", "convert", SMALL, "-o", &out("x.parquet.gz")]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("it compresses by itself"), "{}", ran.stderr);
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_parquet_it_is_said_how_to_get_it() {
    for file in ["-oa.parquet", "-oa.txt"] {
        let to: &[&str] = if file == "-oa.txt" { &["--to", "parquet"] } else { &[] };
        let ran = seekless(&[&["trace", "convert", SMALL, file], to].concat());
        assert_ne!(ran.code, 0);
        assert!(ran.stderr.contains("without its default features"), "{}", ran.stderr);
    }
    let file = common::file("unread.parquet", b"PAR1PAR1");
    let ran = seekless(&["trace", "info", &file]);
    assert!(ran.code == 1 && ran.stderr.contains("built with the feature parquet"), "{}", ran.stderr);
}

#[test]
fn standard_output_is_the_trace_alone() {
    let text = quietly(&["trace", "convert", SMALL, "-o", "-", "--to", "blkparse"]);
    assert!(text.lines().count() > 1000 && text.contains(" Q "), "{}", text.len());
    let ran = seekless(&["trace", "convert", SMALL, "-o", "-", "--to", "disksim"]);
    assert!(ran.stderr.contains("requests lost their process"), "{}", ran.stderr);
    assert!(ran.stdout.lines().all(|line| line.split(' ').count() == 5));
}

#[test]
fn what_cannot_be_done_is_reported_before_anything_is_written() {
    let there = common::file("there.fio", b"mine");
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["-o", &there], 1, &["there.fio", "found a file of that name", "--force"]),
        (&["-o", "x.unknown"], 2, &["found no format in the name", "--to", ".iolog"]),
        (&["-o", "-"], 2, &["found no format in the name", "--to"]),
        (&["-o", "x.fio", "--to", "vhs"], 2, &["found 'vhs'", "blkreplay"]),
        (&["-o", "-", "--to", "fio", "--json"], 2, &["--json", "standard output is the trace"]),
        (&["-o", "nowhere/x.fio"], 1, &["found no folder nowhere"]),
        (&[], 2, &["--output"]),
    ];
    for (arguments, code, words) in cases {
        let ran = seekless(&[&["trace", "convert", SMALL], *arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (*code, ""), "{arguments:?}: {}", ran.stderr);
        for word in *words {
            assert!(ran.stderr.contains(word), "{arguments:?}: {word:?} is not in: {}", ran.stderr);
        }
    }
    assert_eq!(std::fs::read(&there).unwrap(), b"mine");
    assert_eq!(seekless(&["trace", "convert", SMALL, "-o", &there, "--force"]).code, 0);
    assert!(std::fs::read(&there).unwrap().starts_with(b"fio version 3 iolog\n"));
    let broken = common::file("broken.txt", b"1.0 ; 8 ; 8 ; R\n2.0 ; eight ; 8 ; R\n");
    let into = out("broken.fio");
    let ran = seekless(&["trace", "convert", &broken, "-o", &into]);
    assert!(ran.code == 1 && ran.stderr.contains("line 2"), "{}", ran.stderr);
    assert!(!std::path::Path::new(&into).exists());
    let left =
        std::fs::read_dir(folder()).unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    assert!(left.into_iter().all(|name| !name.starts_with("broken.fio")));
}
