//! How many files and sockets the program may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Has the system let us open as many as it lets us, at most; how many that are.
pub fn as_many_as_may_be() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wish = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let now = if setrlimit(Resource::Nofile, wish).is_ok() { wish } else { limit };
    // No limit is told as none.
    now.current.unwrap_or(u64::MAX)
}
