//! Who a client is, as far as its places go.
//!
//! Over a network it is the address; of IPv6 the network of 64 bits that it is in, all of which one machine may have. On
//! this machine it is the process that connected: sockets in the file system are one user's alone, so the user would be
//! the same for all. Who can start processes of that user can be several peers; the bounds over all peers hold for those.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{getpeername, sockopt};

/// See the file's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// An address, or the first of a network.
    Address(IpAddr),
    /// A process of this machine.
    Process(u32),
    /// It was gone before it could be asked.
    #[default]
    Unknown,
}

impl Peer {
    /// Who is at the other end.
    pub fn of(socket: &OwnedFd, tcp: bool) -> Peer {
        if !tcp {
            let process = sockopt::socket_peercred(socket).ok().map(|who| who.pid.as_raw_nonzero().get());
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

    /// As bytes, for a file of inputs.
    pub fn encode(self) -> Vec<u8> {
        match self {
            Peer::Address(IpAddr::V4(address)) => [&[4], &address.octets()[..]].concat(),
            Peer::Address(IpAddr::V6(address)) => [&[6], &address.octets()[..]].concat(),
            Peer::Process(process) => [&[1], &process.to_le_bytes()[..]].concat(),
            Peer::Unknown => Vec::new(),
        }
    }

    /// The one that was noted.
    pub fn decode(encode: &[u8]) -> Peer {
        let known = match encode.split_first() {
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
    fn peers_are_told_apart_and_noted() {
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
