//! TLS with certificates on both sides, as a state machine over bytes.
//!
//! Invariants: nothing is sent to a client, and nothing of it is read, before its certificate is verified against the
//! given authority. A tunnel buffers at most what was put in at once. Fault model: the peer may send any bytes; an
//! error ends its connection, with a TLS alert if there is one.

use std::cell::RefCell;
use std::fmt;
use std::io::{Read, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ServerConfig, ServerConnection, WebPkiClientVerifier};
use rustls::{ClientConfig, ClientConnection, Connection, Error, RootCertStore};

use super::keys_error::KeysError;
use super::rsa;

/// The server's certificate and key, and the authorities of its clients.
#[derive(Clone)]
pub struct Keys(Arc<ServerConfig>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    /// Reads PEM files: the server's certificate (with intermediate ones), its private key, and the authorities whose
    /// clients are accepted.
    pub fn read(certificate: &Path, key: &Path, clients: &Path) -> Result<Keys, KeysError> {
        let chain = certificates("certificate", certificate)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| keys_error("key", key, &error))?;
        let authorities = authorities("clients", clients)?;
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider.clone())
            .build()
            .map_err(|error| keys_error("clients", clients, &error))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| keys_error("certificate", certificate, &error))?
            .with_client_cert_verifier(verifier);
        let refused = rsa::refused(&private);
        let mut config = config.with_single_cert(chain, private).map_err(|error| match refused {
            Some(why) => keys_error("key", key, &why),
            None => keys_error("certificate", certificate, &error),
        })?;
        // Clients stay connected, and show their certificate at each connection: no resumption.
        config.send_tls13_tickets = 0;
        Ok(Keys(Arc::new(config)))
    }
}

fn keys_error(which: &'static str, path: &Path, why: &dyn fmt::Display) -> KeysError {
    KeysError { which, found: format!("{}: {why}", path.display()) }
}

/// The certificates of a file: at least one.
fn certificates(which: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, KeysError> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all.map_err(|error| keys_error(which, path, &error))? {
        none if none.is_empty() => Err(keys_error(which, path, &"no certificate in it")),
        all => Ok(all),
    }
}

fn authorities(which: &'static str, path: &Path) -> Result<RootCertStore, KeysError> {
    let mut authorities = RootCertStore::empty();
    for authority in certificates(which, path)? {
        authorities.add(authority).map_err(|error| keys_error(which, path, &error))?;
    }
    Ok(authorities)
}

/// The authorities of servers, and the client's own certificate and key.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    /// Reads PEM files: the authorities whose servers are trusted, and optionally the client's own certificate with its
    /// private key.
    pub fn read(authority: &Path, own: Option<(&Path, &Path)>) -> Result<Trust, KeysError> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| keys_error("authority", authority, &error))?
            .with_root_certificates(authorities("authority", authority)?);
        let Some((certificate, key)) = own else { return Ok(Trust(Arc::new(config.with_no_client_auth()))) };
        let chain = certificates("certificate", certificate)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| keys_error("key", key, &error))?;
        let refused = rsa::refused(&private);
        let config = config.with_client_auth_cert(chain, private).map_err(|error| match refused {
            Some(why) => keys_error("key", key, &why),
            None => keys_error("certificate", certificate, &error),
        })?;
        Ok(Trust(Arc::new(config)))
    }
}

/// TLS of one connection.
pub struct Tunnel(RefCell<Connection>);

impl Tunnel {
    /// The server's side, before its handshake.
    pub fn new(keys: &Keys) -> Result<Rc<Tunnel>, String> {
        Ok(Rc::new(Tunnel::over(ServerConnection::new(keys.0.clone()).map_err(describe)?)))
    }

    /// The client's side, to a server of this name or address, before its handshake.
    pub fn to(trust: &Trust, server: &str) -> Result<Tunnel, String> {
        let name = ServerName::try_from(server.to_owned()).map_err(|error| format!("{server}: {error}"))?;
        Ok(Tunnel::over(ClientConnection::new(trust.0.clone(), name).map_err(describe)?))
    }

    fn over(connection: impl Into<Connection>) -> Tunnel {
        let mut connection = connection.into();
        // Already bounded by the window of requests.
        connection.set_buffer_limit(None);
        Tunnel(RefCell::new(connection))
    }

    /// Whether the handshake is not done yet.
    pub fn is_opening(&self) -> bool {
        self.0.borrow().is_handshaking()
    }

    /// Takes encrypted bytes; decrypted ones are appended to `plain`.
    pub fn take(&self, mut sealed: &[u8], plain: &mut Vec<u8>) -> Result<(), String> {
        let mut connection = self.0.borrow_mut();
        while !sealed.is_empty() {
            let took = connection.read_tls(&mut sealed).map_err(|error| error.to_string())?;
            let state = connection.process_new_packets().map_err(describe)?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            connection.reader().read_exact(&mut plain[start..]).map_err(|error| error.to_string())?;
            // After the peer's `close_notify` nothing counts.
            if took == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Encrypts `plain`, after any records that TLS itself has to send.
    pub fn seal(&self, plain: &[u8]) -> Vec<u8> {
        let mut connection = self.0.borrow_mut();
        let mut sealed = Vec::with_capacity(plain.len() + plain.len() / 64 + 64);
        // Cannot fail: both ends are memory.
        let _ = connection.writer().write_all(plain);
        while connection.wants_write() {
            let _ = connection.write_tls(&mut sealed);
        }
        sealed
    }

    /// The bytes of `close_notify`.
    pub fn close(&self) -> Vec<u8> {
        self.0.borrow_mut().send_close_notify();
        self.seal(&[])
    }
}

/// A TLS error for people.
fn describe(error: Error) -> String {
    match error {
        Error::NoCertificatesPresented => "it showed no certificate".to_owned(),
        Error::InvalidCertificate(why) => format!("its certificate is not accepted ({why:?})"),
        other => format!("TLS: {other}"),
    }
}
