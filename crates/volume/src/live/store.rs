//! Opening what a component stores its data on, as its keys describe it.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use seekless_core::{Nanos, SECTOR_BYTES};
use seekless_serve::component::{Connected, ExportInfo, Opened, Reconnect};
use seekless_serve::uri;
use seekless_serve::wire::Trust;

use crate::component::{Keys, TrustKeys, existing_path, memory};
use crate::description::VolumeError;
use crate::duration;

/// Storage of its data.
pub enum Store {
    /// A file or block device, opened; taken when the component is built. Its sectors, and whether it is read-only.
    File(RefCell<Option<Opened>>, Cell<u64>, bool),
    /// Memory: sectors.
    Memory(u64),
    /// An export of another server, connected; taken when the component is built. And how to reconnect.
    Remote(RefCell<Option<Connected>>, ExportInfo, Option<Reconnect>),
    /// A file or block device that is not there: its sectors, as others have them, and the error.
    Missing(Cell<u64>, VolumeError),
}

/// Bytes of unflushed writes to keep, to be sent again.
pub fn resend(file: &str, name: &str, text: Option<&str>) -> Result<u64, VolumeError> {
    text.map_or(Ok(0), |text| Ok(memory(file, name, "resend", text)? * SECTOR_BYTES))
}

/// Opens the storage that the keys describe.
pub fn store(file: &str, name: &str, keys: Keys) -> Result<Store, VolumeError> {
    let invalid = |key: &str, found: String, expected: &str| VolumeError {
        place: format!("{file}: component.{name}{key}"),
        found,
        expected: expected.to_owned(),
    };
    if keys.tls.is_some() && keys.nbd.is_none() {
        return Err(invalid(".tls", "tls without nbd".to_owned(), "it with another server's export only"));
    }
    if keys.reconnect.is_some() && keys.nbd.is_none() {
        let found = "reconnect without nbd".to_owned();
        return Err(invalid(".reconnect", found, "it with another server's export only"));
    }
    if keys.resend.is_some() && keys.reconnect.is_none() {
        let found = "resend without reconnect".to_owned();
        return Err(invalid(".resend", found, "both, or neither: it is for the time after a reconnect"));
    }
    match (keys.file, keys.ram, keys.nbd) {
        (None, None, Some(uri)) if !keys.cached && !keys.read_only => {
            let trust = keys.tls.map(|keys| trust(file, keys)).transpose();
            let trust = trust.map_err(|found| invalid(".tls", found, "files in PEM that go together"))?;
            let limit = keys.reconnect.map(|text| time(file, name, "reconnect", &text)).transpose()?;
            let uri = reached(file, uri);
            let connected = Connected::to(&uri, trust.as_ref()).map_err(|error| {
                invalid(".nbd", format!("{uri}: {error}"), "an export that can be reached")
            })?;
            let info = connected.info();
            let resend = resend(file, name, keys.resend.as_deref())?;
            let again = limit.map(|limit| Reconnect { uri, trust, limit, resend });
            Ok(Store::Remote(RefCell::new(Some(connected)), info, again))
        }
        (Some(path), None, None) => {
            let path = existing_path(file, path);
            let opened = Opened::open(&path, keys.cached, keys.read_only);
            let opened = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    let found = format!("{}: {}", path.display(), error.found);
                    let refused = invalid(".file", found, &error.expected);
                    return if error.gone { Ok(Store::Missing(Cell::new(0), refused)) } else { Err(refused) };
                }
            };
            let (sectors, read_only) = (opened.probe().sectors, opened.probe().read_only);
            Ok(Store::File(RefCell::new(Some(opened)), Cell::new(sectors), read_only))
        }
        (None, _, _) if keys.cached || keys.read_only => {
            Err(invalid("", "cached or read_only without a file".to_owned(), "these with a file only"))
        }
        (None, Some(text), None) => memory(file, name, "ram", &text).map(Store::Memory),
        (None, None, None) => Err(invalid("", "neither file nor ram nor nbd".to_owned(), "one of them")),
        _ => Err(invalid("", "several of file, ram and nbd".to_owned(), "one of them")),
    }
}

/// URI of another server: a socket's relative path is resolved as a file's is.
fn reached(file: &str, given: String) -> String {
    let Some((before, path)) = given.split_once("?socket=") else { return given };
    let path = existing_path(file, PathBuf::from(OsString::from_vec(uri::decoded(path))));
    format!("{before}?socket={}", uri::encoded(path.as_os_str().as_bytes()))
}

/// Parses a key of a component as a time above zero.
pub fn time(file: &str, name: &str, key: &str, text: &str) -> Result<Nanos, VolumeError> {
    let time = duration(text).ok().filter(|time| *time > Nanos::ZERO);
    time.ok_or_else(|| VolumeError {
        place: format!("{file}: component.{name}.{key}"),
        found: format!("'{text}'"),
        expected: "a time above zero, such as 30s".to_owned(),
    })
}

/// Reads the certificates for another server.
fn trust(file: &str, keys: TrustKeys) -> Result<Trust, String> {
    let own = match (keys.certificate, keys.key) {
        (Some(certificate), Some(key)) => Some((existing_path(file, certificate), existing_path(file, key))),
        (None, None) => None,
        _ => return Err("certificate without key, or key without certificate".to_owned()),
    };
    let own = own.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
    Trust::read(&existing_path(file, keys.authority), own).map_err(|error| error.to_string())
}
