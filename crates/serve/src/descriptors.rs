//! The limit of open files and sockets.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files to the highest allowed; returns the limit.
pub fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let effective = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    // `None` means unlimited.
    effective.current.unwrap_or(u64::MAX)
}
