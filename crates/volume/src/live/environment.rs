//! Environment of a server: the machine, or the recorded inputs of an earlier run.

use std::os::unix::fs::MetadataExt;

use seekless_serve::descriptors;
use seekless_serve::notify::notify;
use seekless_serve::server::{Address, ListenError, Listener};

use super::group::Member;

/// Files and sockets that a server has open besides its clients, handshakes among them.
const OTHER_DESCRIPTORS: usize = 1_024;

/// Where a server runs.
#[derive(Clone, Copy, Debug)]
pub enum Environment {
    /// Clients connect, and signals arrive.
    Live(Program),
    /// The same, for one of several volumes that the program serves.
    Member(Program, Member),
    /// Recorded inputs are replayed, without messages.
    Replay,
}

/// The program that a server is part of.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Prints a line for the user who started the server.
    pub print: fn(Level, &str),
    /// Ends the process at once.
    pub abort: fn(),
}

/// Importance of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What is going on.
    Info,
    /// Something that may need attention.
    Warning,
    /// Something that failed.
    Error,
}

/// Whether this process is root's.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0)
}

impl Environment {
    /// Whether this is a replay.
    pub fn is_replay(self) -> bool {
        matches!(self, Environment::Replay)
    }

    /// Prints a line for the user who started the server.
    fn print(self, level: Level, line: &str) {
        match self {
            Environment::Live(program) => (program.print)(level, line),
            Environment::Member(program, member) => (program.print)(level, &member.label(line)),
            Environment::Replay => {}
        }
    }

    /// Prints what is going on.
    pub fn info(self, line: &str) {
        self.print(Level::Info, line);
    }

    /// Prints something that may need attention.
    pub fn warn(self, line: &str) {
        self.print(Level::Warning, line);
    }

    /// Prints something that failed.
    pub fn error(self, line: &str) {
        self.print(Level::Error, line);
    }

    /// Tells the service manager something, if there is one.
    pub fn notify(self, message: &str) {
        match self {
            Environment::Live(_) => drop(notify(message)),
            Environment::Member(_, member) => member.notify(message),
            Environment::Replay => {}
        }
    }

    /// Listens for clients at an address.
    pub fn listen(self, address: &Address) -> Result<Listener, ListenError> {
        match self {
            Environment::Live(_) | Environment::Member(..) => Listener::bind(address),
            Environment::Replay => Listener::from_recording()
                .map_err(|error| ListenError { address: address.clone(), why: error.to_string() }),
        }
    }

    /// Raises the limit of open files for `clients`; warns if it cannot be raised so far.
    pub fn room_for(self, clients: usize) {
        if self.is_replay() {
            return;
        }
        let (limit, needed) = (descriptors::raise_limit(), (clients + OTHER_DESCRIPTORS) as u64);
        if limit < needed {
            self.warn(&format!(
                "clients: found a limit of {limit} open files (ulimit -n), expected {needed} for clients = {clients}"
            ));
        }
    }

    /// Ends the process like a crash. A replay ended before this point.
    pub fn abort(self) {
        if let Environment::Live(program) | Environment::Member(program, _) = self {
            self.warn("stopped at once: unflushed data may be lost, as in a crash");
            (program.abort)();
        }
    }
}
