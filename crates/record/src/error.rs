//! What can go wrong before and while a device is recorded: where, what was found, what was expected,
//! what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no recording, or only the beginning of one.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Other systems have nothing of the kind.
    #[error("found an operating system other than Linux, expected Linux: recording uses its tracefs")]
    NotLinux,
    /// It is not mounted.
    #[error(
        "{looked}: found no tracefs, expected one: as root, run `mount -t tracefs nodev /sys/kernel/tracing`, or give its place with --tracefs"
    )]
    NoTracefs {
        /// Where it was looked for.
        looked: String,
    },
    /// Somebody may not do this.
    #[error("{}: {doing}: found no permission, expected the rights of root: run it with sudo", path.display())]
    Rights {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
    },
    /// What was given is no block device.
    #[error("{device}: found {found}, expected a block device, such as /dev/sda, sda or a partition{hint}")]
    NotBlock {
        /// As it was given.
        device: String,
        /// What it is.
        found: String,
        /// Where it lies, if that helps.
        hint: String,
    },
    /// The kernel is not as expected.
    #[error("this kernel: found {found}, expected {expected}")]
    Kernel {
        /// What it has.
        found: String,
        /// What is needed.
        expected: String,
    },
    /// The `blk` tracer was asked for, and is in use.
    #[error("the blk tracer: found {found}, expected it free: wait, or record with --source events")]
    Busy {
        /// By what.
        found: String,
    },
    /// The file for the recording cannot be that.
    #[error("{}: found {found}, expected {expected}", file.display())]
    Output {
        /// The file.
        file: PathBuf,
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
    /// A second signal came while the first was obeyed.
    #[error("stopped at once by a second signal: the end of the recording is missing")]
    Aborted,
    /// The system said no.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl RecordError {
    /// The error for what the system said about `path`.
    pub fn io(path: &Path, doing: &'static str, source: io::Error) -> RecordError {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::PermissionDenied {
            return RecordError::Rights { path, doing };
        }
        RecordError::Io { path, doing, source }
    }
}
