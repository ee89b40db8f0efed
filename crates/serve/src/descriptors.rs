//! How many files and sockets the program may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Has the system let us open as many as it lets us, at most; how many that are.
pub fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let effective = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    // No limit is told as none.
    effective.current.unwrap_or(u64::MAX)
}
