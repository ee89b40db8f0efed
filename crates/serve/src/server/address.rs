//! Where a server listens: `unix:PATH` or `tcp:HOST:PORT`.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::uri::encoded;

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A port.
    Tcp(SocketAddr),
}

/// Text that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found '{0}', expected unix:/PATH or tcp:HOST:PORT such as tcp:127.0.0.1:10809")]
pub struct AddressError(pub String);

impl Address {
    /// Whether only programs on this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp(at) => at.ip().is_loopback(),
        }
    }

    /// URI of an export here, for NBD clients.
    pub fn uri(&self, export: &str, encrypted: bool) -> String {
        let nbd = if encrypted { "nbds" } else { "nbd" };
        match self {
            Address::Unix(path) => {
                let path = encoded(path.as_os_str().as_bytes());
                format!("{nbd}+unix:///{}?socket={path}", encoded(export.as_bytes()))
            }
            Address::Tcp(at) => format!("{nbd}://{at}/{}", encoded(export.as_bytes())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(at) => write!(f, "tcp:{at}"),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let invalid = || AddressError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Address::Unix(path.into()));
        }
        let at = text.strip_prefix("tcp:").ok_or_else(invalid)?;
        let mut found = at.to_socket_addrs().map_err(|_| invalid())?;
        found.next().map(Address::Tcp).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["unix:/run/a.sock", "tcp:127.0.0.1:10809", "tcp:[::1]:10809"] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.is_local()), (text, true));
        }
        assert!(!"tcp:0.0.0.0:10809".parse::<Address>().unwrap().is_local());
        for text in ["", "unix:", "tcp:localhost", "10809", "http://here"] {
            assert_eq!(text.parse::<Address>(), Err(AddressError(text.to_owned())));
        }
    }

    #[test]
    fn names_are_encoded_in_uris() {
        let uri = |text: &str, export: &str| text.parse::<Address>().unwrap().uri(export, false);
        assert_eq!(uri("unix:/run/a-b.sock", "disk@old"), "nbd+unix:///disk@old?socket=/run/a-b.sock");
        assert_eq!(
            uri("unix:/my data/50%&.sock", "a ?#ä"),
            "nbd+unix:///a%20%3F%23%C3%A4?socket=/my%20data/50%25%26.sock"
        );
        assert_eq!(uri("tcp:[::1]:10809", "a b"), "nbd://[::1]:10809/a%20b");
    }
}
