//! Messages to the service manager that started the program (`sd_notify`): that it serves, that it stops, that it is
//! alive. Without one, as in a shell, nothing is sent.
//!
//! Fault model: the manager may be gone or not take a message; nothing depends on that here.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Address of a manager's socket: a path, or an abstract name after `@`.
fn address(text: &OsStr) -> io::Result<SocketAddr> {
    match text.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(text),
    }
}

/// Sends a message, such as `READY=1`; true if the manager got it.
pub fn notify(message: &str) -> bool {
    let send = || -> io::Result<usize> {
        let name = std::env::var_os("NOTIFY_SOCKET").ok_or(io::ErrorKind::NotFound)?;
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not hold the volume up.
        socket.set_nonblocking(true)?;
        socket.send_to_addr(message.as_bytes(), &address(&name)?)
    };
    send().is_ok()
}

/// How often the manager has to hear that the program is alive, if it wants to.
pub fn watchdog() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let ours = std::env::var_os("WATCHDOG_PID").is_none()
        || number("WATCHDOG_PID") == Some(u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|micros| ours && *micros > 0).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_at_a_path_or_an_abstract_name() {
        let path = address(OsStr::new("/run/systemd/notify")).unwrap();
        assert_eq!(path.as_pathname(), Some(std::path::Path::new("/run/systemd/notify")));
        assert_eq!(address(OsStr::new("@org/a")).unwrap().as_abstract_name(), Some(&b"org/a"[..]));
        assert!(address(OsStr::from_bytes(&[b'x'; 200])).is_err());
    }
}
