//! Signals that stop the recording: SIGINT, SIGTERM, SIGHUP.
//!
//! A signal is a byte in a socket, so that a wait ends at once. The first requests a clean end; a second one abandons
//! the end of the recording, but everything is still switched off.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

/// Receiver of the signals.
pub struct Stop {
    socket: UnixStream,
    handlers: Vec<SigId>,
    came: usize,
}

impl Stop {
    /// Starts listening.
    pub fn listen() -> io::Result<Stop> {
        let (socket, sender) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut stop = Stop { socket, handlers: Vec::new(), came: 0 };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            stop.handlers.push(pipe::register(signal, sender.try_clone()?)?);
        }
        Ok(stop)
    }

    /// Waits, at most this long, and not at all once a signal has arrived.
    pub fn wait(&mut self, milliseconds: u64) {
        if self.signals() == 0 {
            // An interruption may end the wait.
            let _ =
                poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], super::limit(milliseconds).as_ref());
        }
    }

    /// Number of signals so far.
    pub fn signals(&mut self) -> usize {
        let mut bytes = [0; 16];
        while let Ok(read @ 1..) = self.socket.read(&mut bytes) {
            self.came += read;
        }
        self.came
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            unregister(handler);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_counted_and_end_a_wait() {
        let mut stop = Stop::listen().unwrap();
        assert_eq!(stop.signals(), 0);
        for came in 1..=2 {
            signal_hook::low_level::raise(SIGHUP).unwrap();
            stop.wait(999);
            assert_eq!(stop.signals(), came);
        }
    }
}
