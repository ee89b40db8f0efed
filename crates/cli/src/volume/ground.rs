//! Environment of a server: the machine, or the recorded inputs of a run.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use seekless_serve::reactor::inputs::placeholder;
use seekless_serve::server::{Address, ListenError, Listener};
use seekless_serve::{descriptors, signals};

use crate::output;

/// Files and sockets that a server has open besides its clients, handshakes among them.
const BESIDE: usize = 1_024;

/// See the file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Live: clients connect, signals arrive, and messages are printed.
    Live,
    /// Replay: inputs come from a recording.
    Replay,
}

impl Ground {
    /// Prints a message of the server.
    pub fn say(self, line: &str) {
        if self == Ground::Live {
            output::complain(line);
        }
    }

    /// A socket that receives a byte for each terminating signal.
    pub fn signals(self) -> io::Result<Arc<OwnedFd>> {
        match self {
            Ground::Live => signals::listen(),
            Ground::Replay => placeholder().map(Arc::new),
        }
    }

    /// Listens for clients.
    pub fn listen(self, address: &Address) -> Result<Listener, ListenError> {
        match self {
            Ground::Live => Listener::bind(address),
            Ground::Replay => Listener::from_recording()
                .map_err(|error| ListenError { address: address.clone(), why: error.to_string() }),
        }
    }

    /// Raises the limit of open files for this number of clients, and warns where that is not possible.
    pub fn room_for(self, clients: usize) {
        if self == Ground::Replay {
            return;
        }
        let (may, wanted) = (descriptors::raise_limit(), (clients + BESIDE) as u64);
        if may < wanted {
            output::complain(&format!(
                "clients: found a limit of {may} open files (ulimit -n), expected {wanted} for clients = {clients}"
            ));
        }
    }

    /// The sockets of socket activation.
    pub fn given(self) -> io::Result<Vec<Listener>> {
        match self {
            Ground::Live => Listener::activated(),
            Ground::Replay => Ok(Vec::new()),
        }
    }

    /// Ends the program, as a crash would; a replay has ended already where this was called.
    pub fn end_at_once(self) {
        if self == Ground::Live {
            output::complain("stopped at once: what was not flushed may be lost, as in a crash");
            std::process::exit(1);
        }
    }
}
