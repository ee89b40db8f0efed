//! Stubs for TLS in a build without it; nothing here can be constructed.

use std::convert::Infallible;
use std::path::Path;
use std::rc::Rc;

use super::keys_error::KeysError;

/// Uninhabited.
#[derive(Clone, Debug)]
pub struct Keys(Infallible);

impl Keys {
    /// Always an error.
    pub fn read(certificate: &Path, _key: &Path, _clients: &Path) -> Result<Keys, KeysError> {
        let found = format!("{} in a build without the feature tls", certificate.display());
        Err(KeysError { which: "certificate", found })
    }
}

/// Uninhabited.
#[derive(Clone, Debug)]
pub struct Trust(Infallible);

impl Trust {
    /// Always an error.
    pub fn read(authority: &Path, _own: Option<(&Path, &Path)>) -> Result<Trust, KeysError> {
        let found = format!("{} in a build without the feature tls", authority.display());
        Err(KeysError { which: "authority", found })
    }
}

/// Uninhabited.
pub struct Tunnel(Infallible);

#[allow(missing_docs)]
impl Tunnel {
    pub fn new(keys: &Keys) -> Result<Rc<Tunnel>, String> {
        match keys.0 {}
    }

    pub fn to(trust: &Trust, _server: &str) -> Result<Tunnel, String> {
        match trust.0 {}
    }

    pub fn is_opening(&self) -> bool {
        match self.0 {}
    }

    pub fn take(&self, _sealed: &[u8], _plain: &mut Vec<u8>) -> Result<(), String> {
        match self.0 {}
    }

    pub fn seal(&self, _plain: &[u8]) -> Vec<u8> {
        match self.0 {}
    }

    pub fn close(&self) -> Vec<u8> {
        match self.0 {}
    }
}
