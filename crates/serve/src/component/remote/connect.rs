//! Connecting to another server's export, by blocking calls: before the volume starts, or on a worker thread.
//!
//! Fault model: the server may be any program, send anything, or nothing for [`TIMEOUT`].

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::nbd::client::{
    ExportInfo, OptionReply, choose, contexts, flags, is_greeting, option_reply, parse_option_reply,
    start_tls, structured,
};
use crate::reactor::inputs::placeholder;
use crate::uri::decoded;
use crate::wire::{Trust, Tunnel};

/// How long to wait for the server during the handshake.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to an export, after the handshake.
pub struct Connected {
    pub(super) socket: OwnedFd,
    pub(super) info: ExportInfo,
    pub(super) tunnel: Option<Box<Tunnel>>,
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected")
            .field("socket", &self.socket)
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl Connected {
    /// Connects to `nbd://HOST[:PORT]/NAME` or `nbd+unix:///NAME?socket=PATH`; with `trust` to `nbds://` and
    /// `nbds+unix://`, which are encrypted. `%` and two hexadecimal digits in the name or path stand for a byte.
    pub fn to(uri: &str, trust: Option<&Trust>) -> io::Result<Connected> {
        let (plain, encrypted) = match uri.strip_prefix("nbds") {
            Some(rest) => (format!("nbd{rest}"), true),
            None => (uri.to_owned(), false),
        };
        match (encrypted, trust) {
            (true, None) => return Err(io::Error::other("expected tls = {...} to verify the server")),
            (false, Some(_)) => return Err(io::Error::other("expected nbds:// or nbds+unix:// with tls")),
            _ => {}
        }
        let invalid = || io::Error::other("expected nbd://HOST[:PORT]/NAME or nbd+unix:///NAME?socket=PATH");
        if let Some(rest) = plain.strip_prefix("nbd+unix:///") {
            let (name, path) = rest.split_once("?socket=").ok_or_else(invalid)?;
            let (name, path) = (name_of(name)?, OsString::from_vec(decoded(path)));
            let stream = UnixStream::connect(Path::new(&path))?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            let (info, tunnel) = handshake(&stream, &name, trust.map(|trust| (trust, "localhost")))?;
            return Connected::whole(stream.into(), info, tunnel);
        }
        let rest = plain.strip_prefix("nbd://").ok_or_else(invalid)?;
        let (place, name) = rest.split_once('/').unwrap_or((rest, ""));
        let name = name_of(name)?;
        let (host, at) = match place.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()) {
            Some((host, _)) => (host, place.to_owned()),
            None => (place, format!("{place}:10809")),
        };
        let stream = connect_tcp(&at)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let (info, tunnel) = handshake(&stream, &name, trust.map(|trust| (trust, host)))?;
        Connected::whole(stream.into(), info, tunnel)
    }

    /// A connection whose export is whole blocks: a partial last block could not be read.
    fn whole(socket: OwnedFd, info: ExportInfo, tunnel: Option<Tunnel>) -> io::Result<Connected> {
        let smallest = info.blocks.map_or(1, |[smallest, ..]| u64::from(smallest));
        if info.bytes == 0 || info.bytes % smallest != 0 {
            let found = info.bytes;
            let why = format!("found {found} bytes, expected whole blocks of {smallest}, at least one");
            return Err(io::Error::other(why));
        }
        Ok(Connected { socket, info, tunnel: tunnel.map(Box::new) })
    }

    /// The export as the server described it.
    pub fn info(&self) -> ExportInfo {
        self.info
    }

    /// Descriptor of the socket.
    pub(super) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.tunnel.is_some()
    }

    /// A stand-in for a connection to an export that was recorded, without connecting: for a replay.
    pub fn from_recording(info: ExportInfo) -> io::Result<Connected> {
        Ok(Connected { socket: placeholder()?, info, tunnel: None })
    }
}

/// The name of an export in a URI.
fn name_of(part: &str) -> io::Result<String> {
    let found = |_| io::Error::other(format!("found the export '{part}', expected a name in UTF-8"));
    String::from_utf8(decoded(part)).map_err(found)
}

/// Connects to the first address of a name that answers in time.
fn connect_tcp(at: &str) -> io::Result<TcpStream> {
    let mut failed = io::Error::other(format!("found no address of {at}"));
    for address in at.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// The handshake: the export's info, and the tunnel if `trust` demands one, to a server of that name.
fn handshake<S>(
    stream: &S,
    export: &str,
    trust: Option<(&Trust, &str)>,
) -> io::Result<(ExportInfo, Option<Tunnel>)>
where
    for<'a> &'a S: Read + Write,
{
    let mut greeting = [0; 18];
    let mut bytes = stream;
    bytes.read_exact(&mut greeting)?;
    if !is_greeting(&greeting) {
        return Err(io::Error::other("found a server that does not speak NBD's fixed newstyle"));
    }
    bytes.write_all(&flags())?;
    let Some((trust, host)) = trust else {
        return Ok((agree(&mut bytes, export)?, None));
    };
    if let OptionReply::Refused(why) = ask(&mut bytes, &start_tls(), &mut ExportInfo::default())? {
        return Err(io::Error::other(format!("the server has no TLS: {why}")));
    }
    let tunnel = Tunnel::to(trust, host).map_err(io::Error::other)?;
    let mut sealed = Sealed { bytes, tunnel: &tunnel, plain: Vec::new() };
    while tunnel.is_opening() {
        sealed.exchange()?;
    }
    let info = agree(&mut sealed, export)?;
    Ok((info, Some(tunnel)))
}

/// Negotiates all options that the server knows, and the export.
fn agree(stream: &mut (impl Read + Write), export: &str) -> io::Result<ExportInfo> {
    let mut info = ExportInfo::default();
    info.structured = ask(stream, &structured(), &mut info)? == OptionReply::Ready;
    // Without structured replies there is no block status.
    if info.structured && ask(stream, &contexts(export), &mut info)? != OptionReply::Ready {
        info.allocation = None;
    }
    match ask(stream, &choose(export), &mut info)? {
        OptionReply::Refused(why) => {
            let why = if why.is_empty() { "no reason given" } else { &why };
            Err(io::Error::other(format!("the server refuses '{export}': {why}")))
        }
        _ => Ok(info),
    }
}

/// Sends an option, and reads its replies to the last.
fn ask(stream: &mut (impl Read + Write), option: &[u8], info: &mut ExportInfo) -> io::Result<OptionReply> {
    stream.write_all(option)?;
    loop {
        let mut header = [0; 20];
        stream.read_exact(&mut header)?;
        let length = option_reply(&header).filter(|(_, length)| *length <= 1 << 16);
        let (kind, length) = length.ok_or_else(|| io::Error::other("found a malformed reply"))?;
        let mut data = vec![0; length];
        stream.read_exact(&mut data)?;
        match parse_option_reply(kind, &data, info) {
            OptionReply::Info => {}
            end => return Ok(end),
        }
    }
}

/// A stream through a TLS tunnel.
struct Sealed<'a, S> {
    bytes: S,
    tunnel: &'a Tunnel,
    /// Decrypted bytes that were not read yet.
    plain: Vec<u8>,
}

impl<S: Read + Write> Sealed<'_, S> {
    /// Sends pending TLS records, and takes those that arrive.
    fn exchange(&mut self) -> io::Result<()> {
        self.bytes.write_all(&self.tunnel.seal(&[]))?;
        if self.tunnel.is_opening() || self.plain.is_empty() {
            let mut sealed = [0; 16 << 10];
            let received = self.bytes.read(&mut sealed)?;
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let taken = self.tunnel.take(&sealed[..received], &mut self.plain);
            // TLS alerts too.
            self.bytes.write_all(&self.tunnel.seal(&[]))?;
            taken.map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl<S: Read + Write> Read for Sealed<'_, S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.plain.is_empty() {
            self.exchange()?;
        }
        let len = into.len().min(self.plain.len());
        into[..len].copy_from_slice(&self.plain[..len]);
        self.plain.drain(..len);
        Ok(len)
    }
}

impl<S: Write> Write for Sealed<'_, S> {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        self.bytes.write_all(&self.tunnel.seal(plain))?;
        Ok(plain.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.bytes.flush()
    }
}
