//! Runs the real program as a user does, and provides files for it.

#[allow(dead_code, reason = "each test file uses a part of it")]
pub mod schemas;

use std::path::PathBuf;
use std::process::{Command, Output};

/// The smallest shipped recording.
pub const SMALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/svnserver2");

/// Result of a run.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program with these arguments, in an empty folder of this test process.
pub fn seekless(arguments: &[&str]) -> Ran {
    finished(Command::new(env!("CARGO_BIN_EXE_seekless")).args(arguments).current_dir(folder()).output())
}

fn finished(output: std::io::Result<Output>) -> Ran {
    let output = output.expect("the program starts");
    let stderr = String::from_utf8(output.stderr).expect("text");
    // What takes more than ten seconds shows progress, on a machine that is slow enough.
    let is_progress = |line: &&str| line.contains(" % after ");
    Ran {
        code: output.status.code().expect("no signal ends it"),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: stderr.split_inclusive('\n').filter(|line| !is_progress(line)).collect(),
    }
}

/// As `seekless`, for a run that succeeds with an empty stderr, as in a pipe.
pub fn quietly(arguments: &[&str]) -> String {
    let ran = seekless(arguments);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}");
    ran.stdout
}

/// A run that ends with this code and nothing on stdout; its stderr contains these words.
#[allow(dead_code, reason = "for tests of errors")]
pub fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let ran = seekless(arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{arguments:?}: {}", ran.stderr);
    for word in words {
        assert!(ran.stderr.contains(word), "{arguments:?}: {word:?} is not in: {}", ran.stderr);
    }
}

/// As `quietly`, with the output as JSON, which fits the schema that it names.
pub fn json(arguments: &[&str]) -> serde_json::Value {
    let text = quietly(&[arguments, &["--json"]].concat());
    assert!(text.ends_with('\n'), "{arguments:?}");
    schemas::parsed(&text)
}

/// A folder of this test process.
pub fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// A file there.
pub fn file(name: &str, bytes: &[u8]) -> String {
    let path = folder().join(name);
    std::fs::write(&path, bytes).expect("a file for the test");
    path.to_str().expect("a path in UTF-8").to_owned()
}
