//! Signals as bytes in a socket, which the reactor can wait for.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, raise as raise_here};

/// Sends the signal to stop to this process.
pub fn raise() {
    // It is handled where `listen` was called before; otherwise it ends the process, as intended.
    let _ = raise_here(SIGTERM);
}

/// A socket that receives a byte for each terminating signal from now on.
pub fn listen() -> io::Result<Arc<OwnedFd>> {
    let (socket, sender) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        pipe::register(signal, sender.try_clone()?)?;
    }
    Ok(Arc::new(socket.into()))
}
