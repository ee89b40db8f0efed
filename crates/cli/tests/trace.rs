//! The commands on traces: damaged ones, on standard input, with little information, or of a device larger than the
//! accessed part.

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::{Ran, SMALL, file, folder, json, quietly, seekless};

const LOAD: &str =
    "0.0 ; 0 ; 8 ; R ; 0.0 ; 0.0\n0.5 ; 800 ; 8 ; W ; 0.0 ; 0.0\n1.0 ; 0 ; 8 ; R ; 0.0 ; 0.0\n";

/// Runs the program with this on standard input.
fn fed(arguments: &[&str], input: &[u8]) -> Ran {
    let mut program = Command::new(env!("CARGO_BIN_EXE_seekless"))
        .args(arguments)
        .current_dir(folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    program.stdin.take().expect("a pipe").write_all(input).expect("it reads all");
    let output = program.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("no signal ends it");
    Ran { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn standard_input_is_called_so_in_all_messages() {
    let whole = fed(&["trace", "stats", "-", "--json"], LOAD.as_bytes());
    assert_eq!((whole.code, whole.stderr.as_str()), (0, ""));
    assert_eq!(whole.stdout, quietly(&["trace", "stats", &file("whole.load", LOAD.as_bytes()), "--json"]));
    assert_eq!(fed(&["trace", "stats", "-", "-", "--json"], LOAD.as_bytes()).stdout, whole.stdout);
    let bad = fed(&["trace", "stats", "-"], format!("{LOAD}hello\n").as_bytes());
    assert_eq!((bad.code, bad.stdout.as_str()), (1, ""));
    assert!(bad.stderr.starts_with("error: -, line 4: found \"hello\", expected"), "{}", bad.stderr);
}

#[test]
fn a_damaged_compression_is_reported_with_its_place() {
    let part = std::fs::read(format!("{SMALL}.blktrace.0.xz")).expect("it ships");
    let mut flipped = part.clone();
    flipped[part.len() / 2] ^= 0xff;
    let ran = seekless(&["trace", "info", &file("flipped.xz", &flipped)]);
    assert_eq!(ran.code, 1);
    for word in ["flipped.xz: found xz data", "bytes of what they hold", "expected a whole file"] {
        assert!(ran.stderr.contains(word), "{word:?} is not in: {}", ran.stderr);
    }
    let ran = seekless(&["trace", "info", &file("stub.xz", &part[..20])]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("found a compressed stream that stops before"), "{}", ran.stderr);
}

#[test]
fn text_of_no_known_format_is_shown() {
    let ran = seekless(&["trace", "info", &file("notes", b"# my notes\n1 2\n")]);
    assert!(ran.stderr.contains("notes, byte 0: found \"# my notes\", expected a trace"), "{}", ran.stderr);
}

/// Commands without options that describe a trace say which one makes a trace for them.
#[test]
fn a_described_trace_is_converted_for_commands_that_know_no_description() {
    let own = file("own", b"0.5,R,4096,512\n1.5,W,8192,1024\n");
    for command in ["compare", "run", "tune"] {
        let ran = seekless(&["lab", command, "--trace", &own]);
        let words = "or what trace convert FILE --columns SPEC --to blkparse -o NEW makes of it";
        assert!(ran.code == 1 && ran.stderr.contains(words), "{command}: {}", ran.stderr);
    }
    let spec = "time:ms,op,offset:bytes,size:bytes";
    let new = folder().join("converted").display().to_string();
    quietly(&["trace", "convert", &own, "--columns", spec, "--to", "blkparse", "-o", &new]);
    let ran = json(&["lab", "run", "--trace", &new, "--layer", "none"]);
    assert_eq!(ran["phases"][0]["requests"], 2);
}

#[test]
fn the_share_of_the_device_needs_its_size() {
    let message = json(&["trace", "stats", SMALL, "--device-size", "40GiB"]);
    let share = 100.0 * message["total_gib_unique"].as_f64().expect("a number") / 40.0;
    assert_eq!(message["device_gib"], 40.0);
    assert!((message["device_accessed_pct"].as_f64().expect("a number") - share).abs() < 1e-9);
    let guessed = json(&["trace", "stats", SMALL]);
    assert!(guessed["device_gib"].as_f64() < Some(20.0));
    let ran = seekless(&["trace", "stats", SMALL, "--device-size", "1GiB", "--json"]);
    let message: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert!(ran.code == 0 && message == guessed, "a size that is too small changes nothing");
    assert!(ran.stderr.contains("--device-size: found 1 GiB, expected at least 18.81 GiB"), "{}", ran.stderr);
    let two = file("two.csv", b"1000,web,0,Read,0,512,1\n3000,web,1,Read,512,512,1\n");
    let ran = seekless(&["trace", "stats", &two, "--device-size", "1GiB"]);
    assert!(ran.stderr.contains("--device-size: found 2 volumes, expected one"), "{}", ran.stderr);
}

#[test]
fn curves_and_map_are_in_the_text_too() {
    let text = quietly(&["trace", "stats", SMALL, "--device-size", "40GiB"]);
    let map: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("Where accesses go")).collect();
    assert!(map[0].contains("regions of 20 MiB"), "{}", map[0]);
    assert!(map[1..33].iter().all(|row| row.len() == 66), "{map:?}");
    assert!(map[33].is_empty() && map[1..33].iter().any(|row| row.contains('5')));
    let curves = text.lines().skip_while(|line| !line.starts_with("How often pages")).nth(2);
    let first: Vec<&str> = curves.expect("a rank").split_whitespace().collect();
    assert_eq!(first, ["1", "25", "44"]);
}

#[test]
fn processes_that_a_trace_does_not_tell_are_none() {
    let load = file("untold.load", LOAD.as_bytes());
    for command in ["info", "stats"] {
        assert_eq!(json(&["trace", command, &load])["processes"], 0);
        let text = quietly(&["trace", command, &load]);
        assert!(text.lines().any(|line| line.contains("  processes") && line.contains(" -")), "{text}");
    }
    assert!(!quietly(&["trace", "stats", &load]).contains("per process"));
}

#[test]
fn recordings_that_are_mixed_are_reported() {
    let data = SMALL.trim_end_matches("svnserver2");
    let ran = seekless(&["trace", "info", SMALL, &format!("{data}mail")]);
    assert_eq!(ran.code, 0);
    let folded = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(folded.contains("files of 2 recordings"), "{}", ran.stdout);
}

#[test]
fn a_report_goes_to_standard_output() {
    let load = file("page.load", LOAD.as_bytes());
    let page = quietly(&["trace", "report", &load, "-o", "-"]);
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(!folder().join("-").exists());
    assert_eq!(seekless(&["trace", "report", &load, "-o", "-", "--json"]).code, 2);
}

#[test]
fn a_recording_goes_to_a_file_only() {
    let ran = seekless(&["trace", "record", "no-such-device", "-o", "-", "--for", "1s"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("found standard output, expected a file"), "{}", ran.stderr);
}

#[test]
fn what_ships_is_found_from_any_folder() {
    for name in ["svnserver2", "data/svnserver2"] {
        assert_eq!(
            json(&["trace", "info", name])["records"],
            json(&["trace", "info", SMALL])["records"],
            "{name}"
        );
    }
    let (example, random) = ("examples/cache.toml", ["--workload", "random", "--requests", "20"]);
    quietly(&[&["lab", "run", example], &random[..]].concat());
    quietly(&["lab", "sweep", "examples/sweep.toml", "--list"]);
    // A file of one's own goes before it.
    std::fs::create_dir_all(folder().join("examples")).unwrap();
    file(example, b"component = 1\n");
    assert_eq!(seekless(&[&["lab", "run", example], &random[..]].concat()).code, 1);
    file("svnserver2", LOAD.as_bytes());
    assert_eq!(json(&["trace", "info", "svnserver2"])["records"], 3);
    std::fs::remove_file(folder().join("svnserver2")).unwrap();
    let ran = seekless(&["trace", "info", "svnserver9"]);
    assert!(
        ran.code == 1 && ran.stderr.starts_with("error: svnserver9: found no such trace"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("; nor is it in /") && ran.stderr.trim_end().ends_with("/data"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_ships_is_found_below_the_prefix_of_the_program() {
    let prefix = folder().join("prefix");
    for inner in ["bin", "share/seekless/data"] {
        std::fs::create_dir_all(prefix.join(inner)).unwrap();
    }
    std::fs::write(prefix.join("share/seekless/data/own"), LOAD).unwrap();
    let program = prefix.join("bin/seekless");
    let _ = std::fs::remove_file(&program);
    std::fs::hard_link(env!("CARGO_BIN_EXE_seekless"), &program).expect("on the same file system");
    let ran = Command::new(&program).args(["trace", "info", "own"]).current_dir(folder()).output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success() && text.contains("3: 2 reads, 1 write"), "{text}");
}

#[test]
fn statistics_begin_with_five_lines() {
    let text = quietly(&["trace", "stats", SMALL]);
    let summary = json(&["trace", "stats", SMALL])["summary"].clone();
    let lines = summary.as_array().unwrap();
    assert_eq!(lines.len(), 5);
    for (line, expected) in text.lines().zip(lines) {
        let [name, value] = ["name", "value"].map(|key| expected[key].as_str().unwrap());
        assert!(line.starts_with(&format!("  {name} ")) && line.ends_with(value), "{line}: {expected}");
    }
}
