//! A listening socket. One in the file system is its owner's alone, and goes with the server.
//!
//! Fault model: another server listens there already, or one did and was killed: then its socket is in the way, and
//! nobody answers.

use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::Mode;
use rustix::net::sockopt;
use rustix::process::umask;

use super::address::Address;

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {why}")]
pub struct ListenError {
    /// Where.
    pub address: Address,
    /// Why.
    pub why: String,
}

/// A socket that clients connect to.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: Arc<OwnedFd>,
    tcp: bool,
    /// Removed with the server.
    path: Option<PathBuf>,
}

impl Listener {
    /// Listens at `address`.
    pub fn bind(address: &Address) -> Result<Listener, ListenError> {
        let refused = |why: String| ListenError { address: address.clone(), why };
        let io = |error: std::io::Error| refused(error.to_string());
        let (socket, path): (OwnedFd, _) = match address {
            Address::Tcp(at) => {
                let listener = TcpListener::bind(at).map_err(io)?;
                listener.set_nonblocking(true).map_err(io)?;
                (listener.into(), None)
            }
            Address::Unix(path) => {
                let is_socket = std::fs::symlink_metadata(path).map(|found| found.file_type().is_socket());
                match is_socket {
                    Ok(true) if UnixStream::connect(path).is_ok() => {
                        return Err(refused("found a server that listens there, expected none".to_owned()));
                    }
                    // Left behind by one that was killed.
                    Ok(true) => std::fs::remove_file(path).map_err(io)?,
                    Ok(false) => {
                        return Err(refused("found a file, expected nothing or an old socket".to_owned()));
                    }
                    Err(_) => {}
                }
                let before = umask(Mode::RWXG | Mode::RWXO);
                let listener = UnixListener::bind(path);
                umask(before);
                let listener = listener.map_err(io)?;
                listener.set_nonblocking(true).map_err(io)?;
                (listener.into(), Some(path.clone()))
            }
        };
        Ok(Listener { socket: Arc::new(socket), tcp: path.is_none(), path })
    }

    /// The socket that was accepted under this number.
    #[allow(unsafe_code)]
    pub(super) fn accepted(&self, number: usize) -> OwnedFd {
        // SAFETY: the kernel has just given it to us as the answer to an accept, and nobody else knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(number as i32) };
        if self.tcp {
            // Replies are sent together already; a client that vanishes is noticed some time. Neither is needed.
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            let _ = sockopt::set_socket_keepalive(&socket, true);
        }
        socket
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}
