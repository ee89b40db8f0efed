//! The program in this process: the console script `seekless` of the package.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use seekless::Started;

/// Runs the program with these arguments; returns its exit code.
#[pyfunction]
pub fn program(py: Python<'_>, by: Vec<OsString>, file: PathBuf, words: Vec<OsString>) -> u8 {
    py.detach(|| seekless::main_from(Started { by, file, words }))
}
