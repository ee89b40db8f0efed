//! Errors of a trace, for people to act on: the file, the place in it, the value found and the value expected.
//!
//! Damage that leaves usable records (a recording cut short) is not an error but a warning of the reader. Offsets count
//! bytes of the trace itself: in a compressed file, after decompression.

use std::io;
use std::path::PathBuf;

/// Errors of reading a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A file without requests.
    #[error("{}, byte 0: found {found}, expected some, in a file of the format {format}", file.display())]
    NoRequests {
        /// The file.
        file: PathBuf,
        /// What was found.
        found: String,
        /// Its format.
        format: &'static str,
        /// Whether all of it was read, without a warning.
        clean: bool,
    },
    /// The operating system or the decompressor failed.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// There is no such file, and no recording of that name.
    #[error("{}: found no such trace, expected {expected}", file.display())]
    Missing {
        /// The name given.
        file: PathBuf,
        /// Names that would have been accepted.
        expected: String,
    },
    /// The path is a folder.
    #[error("{}: found a folder, expected a file, or the name of a recording", file.display())]
    Folder {
        /// The folder.
        file: PathBuf,
    },
    /// The bytes do not match the format.
    #[error("{}, byte {offset}: found {found}, expected {expected}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// Offset of the flaw, in bytes of the uncompressed trace.
        offset: u64,
        /// The value found.
        found: String,
        /// The value expected.
        expected: String,
    },
    /// The bytes match no format.
    #[error(
        "{}, byte 0: found {found}, expected a trace in one of the formats {formats}, or {otherwise}",
        file.display()
    )]
    Unknown {
        /// The file.
        file: PathBuf,
        /// How it begins.
        found: String,
        /// Names of the formats that are detected.
        formats: String,
        /// What helps a trace in none of them.
        otherwise: &'static str,
    },
    /// A line of text does not match the format.
    #[error("{}, line {line}: found {found}, expected {expected}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line's number, from one.
        line: u64,
        /// The value found.
        found: String,
        /// The value expected.
        expected: String,
    },
    /// A row of a table does not match the format.
    #[error("{}, row {row}, column {column}: found {found}, expected {expected}", file.display())]
    Row {
        /// The file.
        file: PathBuf,
        /// The row's number, from one.
        row: u64,
        /// The column's name.
        column: &'static str,
        /// The value found.
        found: String,
        /// The value expected.
        expected: String,
    },
    /// An option that cannot be used with this trace.
    #[error("{setting}: found {found}, expected {expected}")]
    Setting {
        /// The option.
        setting: &'static str,
        /// Value.
        found: String,
        /// The values expected.
        expected: String,
    },
}
