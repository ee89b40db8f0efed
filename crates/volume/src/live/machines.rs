//! Exports to virtual machines, by vhost-user: each has a socket of its own.

use seekless_serve::server::Address;

use super::component::Live;
use super::error::{At, LiveError};
use super::server::address;
use crate::description::Description;

/// The sockets of virtual machines, each with the index of its export; `others` are the addresses for NBD clients.
///
/// # Errors
/// An address that is no socket in the file system, or that something else of the volume has; and any in a build
/// without the feature `vhost`.
pub fn sockets(
    description: &Description<Live>,
    others: &[(Address, Vec<usize>)],
) -> Result<Vec<(Address, usize)>, LiveError> {
    let mut sockets: Vec<(Address, usize)> = Vec::new();
    for (number, export) in description.exports.iter().enumerate() {
        let Some(text) = &export.vhost else { continue };
        let key = format!("{}: export.{}.vhost", description.file, export.name);
        let refused = |found: String, expected: &str| {
            Err(LiveError::new(format!("{key}: found {found}, expected {expected}")))
        };
        if !cfg!(feature = "vhost") {
            return refused(format!("{text} in a build without the feature vhost"), "a build with it");
        }
        let address = address(&description.file, text).at(|| &key)?;
        if !matches!(address, Address::Unix(_)) {
            return refused(address.to_string(), "unix:/PATH: a virtual machine shares its memory");
        }
        let mut known = others.iter().map(|(other, _)| other).chain(sockets.iter().map(|(other, _)| other));
        if known.any(|other| *other == address) {
            return refused(format!("{address}, which another export has"), "a socket of its own");
        }
        sockets.push((address, number));
    }
    Ok(sockets)
}
