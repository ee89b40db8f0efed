//! Errors before and during a recording: place, value found, value expected, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Errors of a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system is not Linux.
    #[error("found an operating system other than Linux, expected Linux: recording uses its tracefs")]
    NotLinux,
    /// No tracefs is mounted.
    #[error(
        "{looked}: found no tracefs, expected one: as root, run `mount -t tracefs nodev /sys/kernel/tracing`, or give its place with --tracefs"
    )]
    NoTracefs {
        /// Places searched.
        looked: String,
    },
    /// Permission was denied.
    #[error("{}: {doing}: found no permission, expected the rights of root: run it with sudo", path.display())]
    Rights {
        /// The file.
        path: PathBuf,
        /// The operation tried.
        doing: &'static str,
    },
    /// The argument is not a block device.
    #[error("{device}: found {found}, expected a block device, such as /dev/sda, sda or a partition{hint}")]
    NotBlock {
        /// The argument as given.
        device: String,
        /// The kind of file found.
        found: String,
        /// The device that it lies on, if that helps.
        hint: String,
    },
    /// The kernel is not as expected.
    #[error("this kernel: found {found}, expected {expected}")]
    Kernel {
        /// The property found.
        found: String,
        /// The property needed.
        expected: String,
    },
    /// The `blk` tracer was requested, and is in use.
    #[error("the blk tracer: found {found}, expected it free: wait, or record with --source events")]
    Busy {
        /// User.
        found: String,
    },
    /// The output file cannot be used.
    #[error("{}: found {found}, expected {expected}", file.display())]
    Output {
        /// The file.
        file: PathBuf,
        /// The file found.
        found: String,
        /// The file expected.
        expected: &'static str,
    },
    /// A second signal arrived while the first was handled.
    #[error("stopped at once by a second signal: the end of the recording is missing")]
    Aborted,
    /// A system call failed.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation tried.
        doing: &'static str,
        /// The error.
        source: io::Error,
    },
}

impl RecordError {
    /// The error of a system call on `path`.
    pub fn io(path: &Path, doing: &'static str, source: io::Error) -> RecordError {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::PermissionDenied {
            return RecordError::Rights { path, doing };
        }
        RecordError::Io { path, doing, source }
    }
}
