//! What can be wrong with a trace, said so that a person can act on it: which file, where in it,
//! what was found there and what was expected.
//!
//! Damage that leaves something to use (a recording cut short) is not an error but a warning of the
//! reader. Offsets count bytes of the trace itself: in a compressed file, after decompression.

use std::io;
use std::path::PathBuf;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system or the decompressor refused.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file that was read.
        file: PathBuf,
        /// What it was refused with.
        source: io::Error,
    },
    /// There is no such file, and no recording of that name.
    #[error("{}: found no such trace, expected {expected}", file.display())]
    Missing {
        /// The name that was asked for.
        file: PathBuf,
        /// Which names would have done.
        expected: String,
    },
    /// It is a folder.
    #[error("{}: found a folder, expected a file, or the name of a recording", file.display())]
    Folder {
        /// The folder.
        file: PathBuf,
    },
    /// The bytes are not what the format says.
    #[error("{}, byte {offset}: found {found}, expected {expected}", file.display())]
    Malformed {
        /// The file that was read.
        file: PathBuf,
        /// Where its flaw starts, in bytes of the uncompressed trace.
        offset: u64,
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
    },
    /// A line of text is not what the format says.
    #[error("{}, line {line}: found {found}, expected {expected}", file.display())]
    Line {
        /// The file that was read.
        file: PathBuf,
        /// The line's number, from one.
        line: u64,
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
    },
    /// A row of a table is not what the format says.
    #[error("{}, row {row}, column {column}: found {found}, expected {expected}", file.display())]
    Row {
        /// The file that was read.
        file: PathBuf,
        /// The row's number, from one.
        row: u64,
        /// The column's name.
        column: &'static str,
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
    },
    /// An option that cannot be used with this trace.
    #[error("{setting}: found {found}, expected {expected}")]
    Setting {
        /// What was set.
        setting: &'static str,
        /// What it was set to.
        found: String,
        /// What it could have been.
        expected: String,
    },
}
