//! The measured drives, if they are beside the project.

use std::path::{Path, PathBuf};

use seekless_core::{Extent, Nanos, Op};
use seekless_drive::validate::Measured;

/// Their folder, that of the variable `SEEKLESS_DRIVES` if it is set; prints a note if it is missing.
pub fn shared() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/drives");
    let folder = std::env::var_os("SEEKLESS_DRIVES").map_or_else(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: the measured drives are not beside this checkout");
    None
}

/// The requests of a trace.
pub fn measured(trace: &Path) -> Vec<Measured> {
    let text = std::fs::read_to_string(trace).unwrap();
    let request = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let time = |word: &str| Nanos((word.parse::<f64>().unwrap() * 1e3).round() as u64);
        Measured {
            op: if words[0] == "R" { Op::Read } else { Op::Write },
            at: Extent::new(words[2].parse().unwrap(), words[3].parse().unwrap()),
            service: time(words[4]),
            think: time(words[5]),
        }
    };
    text.lines().filter(|line| line.split_whitespace().count() >= 6).map(request).collect()
}
