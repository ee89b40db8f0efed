//! Common parts of the tests of traces.

// Each test program uses some of this.
#![allow(dead_code)]

pub mod binary;
pub mod builder;
pub mod samples;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;

pub use builder::*;

impl Builder {
    /// Writes the trace to a file of its own.
    pub fn save(&self, name: &str) -> PathBuf {
        save(name, &self.bytes)
    }
}

/// A folder that no other test writes to: tests of several programs run at once.
pub fn folder() -> PathBuf {
    let thread = thread::current();
    let test = thread.name().unwrap().replace("::", "-");
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace").join(env!("CARGO_CRATE_NAME")).join(test);
    fs::create_dir_all(&folder).unwrap();
    folder
}

pub fn save(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

pub fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The trace of a file with this text.
pub fn load_text(name: &str, text: &str) -> seekless_trace::Trace {
    seekless_trace::load(&[save(name, text.as_bytes())], &seekless_trace::ReadOptions::default()).unwrap()
}
