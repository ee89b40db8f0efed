//! Drives of DiskSim's files: `.parv`, `.diskspecs`, `.model` and `.seek` become one description.
//!
//! Every key of the drive's blocks is taken over, is known to change nothing, or is told as not modelled.

mod disksim;
mod language;
mod reader;

use std::path::{Path, PathBuf};

use crate::spec::Spec;
use language::Place;

/// A drive that was imported.
#[derive(Clone, Debug)]
pub struct Imported {
    /// It.
    pub spec: Spec,
    /// What could not be expressed: file, line, key and value, why.
    pub left_out: Vec<String>,
}

/// Why files are no drive.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file could not be read.
    #[error("{}: {source}", file.display())]
    Io {
        /// Which.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file says something else than expected.
    #[error("{}, line {line}: found {found}, expected {expected}", file.display())]
    Syntax {
        /// Which.
        file: PathBuf,
        /// Where, from one.
        line: usize,
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
    },
    /// What the files say is no drive.
    #[error(transparent)]
    Spec(#[from] crate::SpecError),
}

impl ImportError {
    fn new(place: &Place, found: &str, expected: &str) -> ImportError {
        let Place { file, line } = place.clone();
        ImportError::Syntax { file, line, found: found.to_owned(), expected: expected.to_owned() }
    }
}

/// The drive that DiskSim's files describe: `path` is a `.parv`, `.diskspecs` or `.model`; `name` is what it
/// is to be called.
pub fn disksim(path: &Path, name: &str) -> Result<Imported, ImportError> {
    disksim::import(path, name)
}

#[cfg(test)]
mod tests;
