//! The system's errors as those of devices.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use seekless_core::ErrorKind;

/// Why a component is not opened: where, what was found, and what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{}: found {found}, expected {expected}", path.display())]
pub struct OpenError {
    /// Which.
    pub path: PathBuf,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

/// What an error of the system is to a layer.
pub fn kind_of(error: &io::Error) -> ErrorKind {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => ErrorKind::NoSpace,
        Some(Errno::ROFS | Errno::PERM | Errno::ACCESS | Errno::BADF) => ErrorKind::ReadOnly,
        Some(Errno::NODEV | Errno::NXIO | Errno::NOMEDIUM | Errno::STALE) => ErrorKind::Gone,
        Some(Errno::TIMEDOUT) => ErrorKind::Timeout,
        Some(Errno::OPNOTSUPP | Errno::NOSYS) => ErrorKind::Unsupported,
        Some(Errno::INVAL) => ErrorKind::Invalid,
        Some(Errno::BADMSG | Errno::ILSEQ) => ErrorKind::Corrupt,
        _ => ErrorKind::Medium,
    }
}
