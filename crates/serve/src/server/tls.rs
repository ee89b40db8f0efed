//! TLS with certificates on both sides, as bytes: what came in at one end, what is to be sent out at the other.
//!
//! Invariants: nothing is told to a client, and nothing of it is read, before its certificate was found to be one that
//! the given authority signed. What a tunnel holds is at most what was put in at once. Fault model: the other end may
//! send any bytes; an error ends its connection, with TLS's own word of farewell if there is one.

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

/// Who the server is, and whom it lets in.
#[derive(Clone)]
pub struct Keys(Arc<ServerConfig>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    /// Of files in PEM: the server's certificate (and those between it and its authority), its private key, and the
    /// authorities whose clients are let in.
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
        // Clients stay; whoever comes again shows its certificate again.
        config.send_tls13_tickets = 0;
        Ok(Keys(Arc::new(config)))
    }
}

fn keys_error(which: &'static str, path: &Path, why: &dyn fmt::Display) -> KeysError {
    KeysError { which, found: format!("{}: {why}", path.display()) }
}

/// The certificates of a file, of which there has to be one.
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

/// Which servers are believed, and who we are to them.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    /// Of files in PEM: the authorities whose servers are believed, and our own certificate with its private key, if
    /// the server wants to see one.
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

/// A connection's TLS.
pub struct Tunnel(RefCell<Connection>);

impl Tunnel {
    /// One that has to be agreed on yet.
    pub fn new(keys: &Keys) -> Result<Rc<Tunnel>, String> {
        Ok(Rc::new(Tunnel::over(ServerConnection::new(keys.0.clone()).map_err(describe)?)))
    }

    /// One to the server of this name or address, that has to be agreed on yet.
    pub fn to(trust: &Trust, server: &str) -> Result<Tunnel, String> {
        let name = ServerName::try_from(server.to_owned()).map_err(|error| format!("{server}: {error}"))?;
        Ok(Tunnel::over(ClientConnection::new(trust.0.clone(), name).map_err(describe)?))
    }

    fn over(connection: impl Into<Connection>) -> Tunnel {
        let mut connection = connection.into();
        // What goes in is bounded by the window of requests already.
        connection.set_buffer_limit(None);
        Tunnel(RefCell::new(connection))
    }

    /// Whether it is still to be agreed on.
    pub fn is_opening(&self) -> bool {
        self.0.borrow().is_handshaking()
    }

    /// Takes bytes off the socket; what they say is added to `plain`.
    pub fn take(&self, mut sealed: &[u8], plain: &mut Vec<u8>) -> Result<(), String> {
        let mut connection = self.0.borrow_mut();
        while !sealed.is_empty() {
            let took = connection.read_tls(&mut sealed).map_err(|error| error.to_string())?;
            let state = connection.process_new_packets().map_err(describe)?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            connection.reader().read_exact(&mut plain[start..]).map_err(|error| error.to_string())?;
            // After the other end's farewell nothing counts.
            if took == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Bytes for the socket that say `plain`, and before that what TLS itself has to say.
    pub fn seal(&self, plain: &[u8]) -> Vec<u8> {
        let mut connection = self.0.borrow_mut();
        let mut sealed = Vec::with_capacity(plain.len() + plain.len() / 64 + 64);
        // Neither fails: both ends of this are memory.
        let _ = connection.writer().write_all(plain);
        while connection.wants_write() {
            let _ = connection.write_tls(&mut sealed);
        }
        sealed
    }

    /// Bytes for the socket that end it.
    pub fn close(&self) -> Vec<u8> {
        self.0.borrow_mut().send_close_notify();
        self.seal(&[])
    }
}

/// Why the other end is not talked to, for people.
fn describe(error: Error) -> String {
    match error {
        Error::NoCertificatesPresented => "it showed no certificate".to_owned(),
        Error::InvalidCertificate(why) => format!("its certificate is not one that is let in ({why:?})"),
        other => format!("TLS: {other}"),
    }
}
