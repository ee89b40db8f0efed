//! System errors as device errors.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use seekless_core::ErrorKind;

/// Why a component was not opened.
#[derive(Debug, thiserror::Error)]
#[error("{}: found {found}, expected {expected}", path.display())]
pub struct OpenError {
    /// Whether nothing is there, or it is empty, or does not answer: not so if it is in use or of another kind.
    pub gone: bool,
    /// Path of the component.
    pub path: PathBuf,
    /// What was found there.
    pub found: String,
    /// What was expected instead.
    pub expected: String,
}

/// The kind of device error of a system error.
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
