//! The peer that a client belongs to, for limits.
//!
//! Over a network it is the address; for IPv6 the /64 network, of which one machine may have all addresses. On this
//! machine it is the process that connected: sockets in the file system belong to one user, so the user would be the
//! same for all. A user who can start processes can be several peers; the limits over all peers apply to those.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{getpeername, sockopt};

/// See the file's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// An IPv4 address, or the first address of a /64 network.
    Address(IpAddr),
    /// A process on this machine.
    Process(u32),
    /// The peer was gone before its address was read.
    #[default]
    Unknown,
}

impl Peer {
    /// The peer of a socket.
    pub fn of(socket: &OwnedFd, tcp: bool) -> Peer {
        if !tcp {
            let process = sockopt::socket_peercred(socket)
                .ok()
                .map(|credentials| credentials.pid.as_raw_nonzero().get());
            return process.and_then(|pid| u32::try_from(pid).ok()).map_or(Peer::Unknown, Peer::Process);
        }
        let address = getpeername(socket).ok().flatten().and_then(|at| SocketAddr::try_from(at).ok());
        address.map_or(Peer::Unknown, |at| Peer::at(at.ip()))
    }

    fn at(address: IpAddr) -> Peer {
        Peer::Address(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            short @ IpAddr::V4(_) => short,
        })
    }

    /// Bytes for the recording of inputs.
    pub fn encode(self) -> Vec<u8> {
        match self {
            Peer::Address(IpAddr::V4(address)) => [&[4], &address.octets()[..]].concat(),
            Peer::Address(IpAddr::V6(address)) => [&[6], &address.octets()[..]].concat(),
            Peer::Process(process) => [&[1], &process.to_le_bytes()[..]].concat(),
            Peer::Unknown => Vec::new(),
        }
    }

    /// The peer from recorded bytes.
    pub fn decode(bytes: &[u8]) -> Peer {
        let known = match bytes.split_first() {
            Some((4, rest)) => rest.try_into().ok().map(|it: [u8; 4]| Peer::at(Ipv4Addr::from(it).into())),
            Some((6, rest)) => rest.try_into().ok().map(|it: [u8; 16]| Peer::at(Ipv6Addr::from(it).into())),
            Some((1, rest)) => rest.try_into().ok().map(|it| Peer::Process(u32::from_le_bytes(it))),
            _ => None,
        };
        known.unwrap_or(Peer::Unknown)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => address.fmt(f),
            Peer::Process(process) => write!(f, "process {process}"),
            Peer::Unknown => f.write_str("an unknown peer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_distinguished_and_noted() {
        let at = |text: &str| Peer::at(text.parse().unwrap());
        assert_ne!(at("127.0.0.1"), at("127.0.0.2"));
        assert_eq!(at("127.0.0.1"), at("::ffff:127.0.0.1"));
        assert_eq!(at("fd00::1:2:3:4"), at("fd00::ffff"));
        assert_ne!(at("fd00:0:0:1::1"), at("fd00::1"));
        for peer in [at("10.1.2.3"), at("fd00:1::9"), Peer::Process(77), Peer::Unknown] {
            assert_eq!(Peer::decode(&peer.encode()), peer);
        }
        assert_eq!(Peer::decode(&[4, 1]), Peer::Unknown);
    }
}
