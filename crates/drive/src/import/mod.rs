//! Import of DiskSim's drives: `.parv`, `.diskspecs`, `.model` and `.seek` files become one description.
//!
//! Every key of the drive's blocks is converted, is known to have no effect, or is reported as not modelled.

mod curve;
mod disksim;
mod index;
mod language;
mod map;
mod reader;
mod tracks;
mod zones;

use std::path::{Path, PathBuf};

use crate::spec::Spec;
use language::Place;

/// An imported drive.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Description.
    pub spec: Spec,
    /// Keys not modelled: file, line, key and value, reason.
    pub left_out: Vec<String>,
}

/// Errors of an import.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file could not be read.
    #[error("{}: {source}{named}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The error.
        source: std::io::Error,
        /// Where another file names it.
        named: String,
    },
    /// A file holds something unexpected.
    #[error("{}, line {line}: found {found}, expected {expected}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The value found.
        found: String,
        /// The values expected.
        expected: String,
    },
}

impl ImportError {
    fn new(place: &Place, found: &str, expected: &str) -> ImportError {
        let Place { file, line } = place.clone();
        ImportError::Syntax { file, line, found: found.to_owned(), expected: expected.to_owned() }
    }
}

/// Imports the drive described by DiskSim's files: `path` is a `.parv`, `.diskspecs` or `.model`; `name` is the drive's
/// new name.
pub fn disksim(path: &Path, name: &str) -> Result<Imported, ImportError> {
    disksim::import(path, name)
}

#[cfg(test)]
mod tests;
