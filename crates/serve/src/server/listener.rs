//! A listening socket. One in the file system is accessible to its owner only, and removed with the server.
//!
//! Fault model: another server listens there already; or a killed one left its socket, which nothing listens at.

use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, sockopt};
use rustix::process::umask;

use super::address::Address;
use crate::reactor::inputs::placeholder;
use crate::retry::retry_while;

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {why}")]
pub struct ListenError {
    /// Address to listen at.
    pub address: Address,
    /// Why.
    pub why: String,
}

/// TCP keepalive: idle time before the first probe, interval of probes, and unanswered probes until the connection
/// ends. Two minutes in all.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 6;

/// The first descriptor of socket activation.
const LISTEN_FDS_START: i32 = 3;

/// A socket that clients connect to.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: Arc<OwnedFd>,
    tcp: bool,
    /// Path of the socket, which is removed with the server.
    path: Option<PathBuf>,
}

impl Listener {
    /// Listens at `address`.
    pub fn bind(address: &Address) -> Result<Listener, ListenError> {
        let bound = match address {
            Address::Tcp(at) => retry_while(|| TcpListener::bind(at), is_in_use).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok((listener.into(), None))
            }),
            Address::Unix(path) => retry_while(|| bind_unix(path), is_in_use).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok((listener.into(), Some(path.clone())))
            }),
        };
        let why = |error: io::Error| ListenError { address: address.clone(), why: error.to_string() };
        let (socket, path): (OwnedFd, _) = bound.map_err(why)?;
        Ok(Listener { socket: Arc::new(socket), tcp: path.is_none(), path })
    }

    /// A socket without clients: for a replay.
    pub fn from_recording() -> io::Result<Listener> {
        Ok(Listener { socket: Arc::new(placeholder()?), tcp: false, path: None })
    }

    /// The listening sockets passed by socket activation (`LISTEN_FDS`), in order; none without it. Only the first call
    /// returns them.
    pub fn activated() -> io::Result<Vec<Listener>> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
        let ours = number("LISTEN_PID") == i32::try_from(std::process::id()).ok();
        let count = number("LISTEN_FDS").filter(|count| ours && (1..=64).contains(count)).unwrap_or(0);
        if count == 0 || TAKEN.swap(true, Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        (LISTEN_FDS_START..LISTEN_FDS_START + count).map(Listener::inherited).collect()
    }

    #[allow(unsafe_code)]
    fn inherited(number: i32) -> io::Result<Listener> {
        // SAFETY: socket activation passes this descriptor to us, nothing else in the program uses it, and it is taken
        // once. The next line fails if it is not open.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        if !sockopt::socket_acceptconn(&socket)? {
            return Err(io::Error::other(format!("found descriptor {number}, which does not listen")));
        }
        rustix::io::ioctl_fionbio(&socket, true)?;
        rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        let tcp = sockopt::socket_domain(&socket)? != AddressFamily::UNIX;
        Ok(Listener { socket: Arc::new(socket), tcp, path: None })
    }

    /// Whether clients connect over a network.
    pub(super) fn is_tcp(&self) -> bool {
        self.tcp
    }

    /// Prepares an accepted socket.
    pub(super) fn accepted(&self, socket: OwnedFd) -> OwnedFd {
        if self.tcp {
            // Replies are batched already, so no delay. A silent client is fine; one whose machine is gone is noticed
            // by keepalive. Both are optional.
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            let _ = sockopt::set_socket_keepalive(&socket, true);
            let _ = sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE);
            let _ = sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL);
            let _ = sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES);
        }
        socket
    }
}

fn is_in_use(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

/// Held while the process's mask for new files is changed: another thread must not restore it meanwhile.
static MASK: Mutex<()> = Mutex::new(());

/// A socket at `path` that only its owner may connect to.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path).map(|found| found.file_type().is_socket()) {
        Ok(true) if UnixStream::connect(path).is_ok() => {
            let why = "found a server that listens there, expected none";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
        }
        // Left by a server that was killed.
        Ok(true) => std::fs::remove_file(path)?,
        Ok(false) => return Err(io::Error::other("found a file, expected nothing or an old socket")),
        Err(_) => {}
    }
    let _alone = MASK.lock();
    let before = umask(Mode::RWXG | Mode::RWXO);
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}
