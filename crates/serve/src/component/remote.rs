//! An export of another NBD server as a component.
//!
//! Invariants: requests go out in the order in which they came, together if they came together; answers may overtake
//! each other. Fault model: the server refuses, fails a request, answers what nobody asked, or goes: from then on
//! everything is an error, `Gone`, and nothing is tried again, since nobody knows what became of what was not answered.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};
use seekless_core::device::{LARGEST_REQUEST_SECTORS, check, io};
use seekless_core::runtime::{quiet, spawn};
use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, SECTOR_BYTES, Zeroes,
};

use crate::nbd::client::{Said, Told, ask, go, greets, option_reply, said, simple_reply};
use crate::nbd::{Command, constants as c};
use crate::reactor::inputs::stand_in;
use crate::reactor::{Job, Memory, Reactor, What};
use crate::server::Input;

/// A server says what it has to say within this.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to an export, with the handshake behind it.
#[derive(Debug)]
pub struct Connected {
    socket: OwnedFd,
    told: Told,
}

impl Connected {
    /// Connects to `nbd://HOST[:PORT]/NAME` or `nbd+unix:///NAME?socket=PATH`.
    pub fn to(uri: &str) -> io::Result<Connected> {
        let wrong = || io::Error::other("expected nbd://HOST[:PORT]/NAME or nbd+unix:///NAME?socket=PATH");
        if let Some(rest) = uri.strip_prefix("nbd+unix:///") {
            let (name, path) = rest.split_once("?socket=").ok_or_else(wrong)?;
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let told = shake_hands(&stream, name)?;
            return Ok(Connected { socket: stream.into(), told });
        }
        let rest = uri.strip_prefix("nbd://").ok_or_else(wrong)?;
        let (host, name) = rest.split_once('/').unwrap_or((rest, ""));
        let port = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let at = if port.is_some() { host.to_owned() } else { format!("{host}:10809") };
        let stream = TcpStream::connect(at)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let told = shake_hands(&stream, name)?;
        Ok(Connected { socket: stream.into(), told })
    }

    /// What the server told of the export.
    pub fn told(&self) -> Told {
        self.told
    }

    /// An export of which this was told in another run, and which is not connected to: for a replay.
    pub fn recalled(told: Told) -> io::Result<Connected> {
        Ok(Connected { socket: stand_in()?, told })
    }

    /// Its size.
    pub fn sectors(&self) -> u64 {
        self.told.bytes / SECTOR_BYTES
    }
}

fn shake_hands<S>(mut stream: &S, name: &str) -> io::Result<Told>
where
    for<'a> &'a S: Read + Write,
{
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    if !greets(&greeting) {
        return Err(io::Error::other("found a server that does not speak NBD's fixed newstyle"));
    }
    stream.write_all(&go(name))?;
    let mut told = Told::default();
    loop {
        let mut header = [0; 20];
        stream.read_exact(&mut header)?;
        let length = option_reply(&header).filter(|(_, length)| *length <= 1 << 16);
        let (kind, length) = length.ok_or_else(|| io::Error::other("found an answer that makes no sense"))?;
        let mut data = vec![0; length];
        stream.read_exact(&mut data)?;
        match said(kind, &data, &mut told) {
            Said::Told => {}
            Said::Ready => return Ok(told),
            Said::Refused(why) => {
                return Err(io::Error::other(format!("the server refuses '{name}': {why}")));
            }
        }
    }
}

/// See the file's header.
pub struct RemoteComponent {
    line: Rc<Line>,
    name: String,
    geometry: Geometry,
    flags: u16,
}

/// What requests and the two tasks that carry them have in common.
#[derive(Default)]
struct Line {
    outgoing: RefCell<Vec<u8>>,
    asked: RefCell<BTreeMap<u64, Asked>>,
    cookie: Cell<u64>,
    gone: Cell<bool>,
    sender: RefCell<Option<Waker>>,
}

/// A request without its answer, or with one that was not fetched.
#[derive(Default)]
struct Asked {
    /// Bytes that come with the answer.
    reads: usize,
    answer: Option<Result<Vec<u8>, u32>>,
    waker: Option<Waker>,
    /// Nobody waits for it any more.
    abandoned: bool,
}

/// Forgets a request when it is answered, or nobody waits for that any more.
struct Waits<'a> {
    line: &'a Line,
    cookie: u64,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut all = self.line.asked.borrow_mut();
        let Some(asked) = all.get_mut(&self.cookie) else { return };
        if asked.answer.is_some() {
            all.remove(&self.cookie);
        } else {
            // Its answer may come yet, and has to be known for what it is.
            asked.abandoned = true;
            asked.waker = None;
        }
    }
}

impl RemoteComponent {
    /// The component called `name` at the other end. Inside a runtime.
    pub fn new(reactor: &Rc<Reactor>, name: &str, connected: Connected) -> RemoteComponent {
        let [smallest, preferred, largest] = connected.told.blocks.unwrap_or([512, 4096, 32 << 20]);
        let sectors = |bytes: u32| u64::from(bytes).div_ceil(SECTOR_BYTES);
        let flags = connected.told.flags;
        let geometry = Geometry {
            sectors: connected.sectors(),
            logical_sectors: sectors(smallest),
            physical_sectors: sectors(preferred).max(sectors(smallest)),
            volatile_cache: flags & c::FLAG_SEND_FLUSH != 0,
            rotational: flags & c::FLAG_ROTATIONAL != 0,
            discard_sectors: if flags & c::FLAG_SEND_TRIM == 0 { 0 } else { sectors(preferred) },
            largest_sectors: (u64::from(largest) / SECTOR_BYTES).clamp(1, LARGEST_REQUEST_SECTORS),
        };
        let (line, socket): (Rc<Line>, _) = (Rc::default(), Arc::new(connected.socket));
        spawn(send(line.clone(), reactor.clone(), socket.clone())).detach();
        spawn(receive(line.clone(), Input::new(reactor, &socket), socket)).detach();
        RemoteComponent { line, name: name.to_owned(), geometry, flags }
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    fn error(&self, at: Option<Extent>, number: u32) -> IoError {
        let kind = match number {
            1 => ErrorKind::ReadOnly,
            22 => ErrorKind::Invalid,
            28 => ErrorKind::NoSpace,
            95 => ErrorKind::Unsupported,
            GONE | 108 => ErrorKind::Gone,
            _ => ErrorKind::Medium,
        };
        let why = if number == GONE {
            "the server is gone".to_owned()
        } else {
            format!("the server's error {number}")
        };
        IoError::new(kind, self.name.clone(), at, why)
    }

    /// Asks, and waits for the answer.
    async fn ask(
        &self,
        command: Command,
        flags: u16,
        at: Extent,
        from: Option<&Buffer>,
    ) -> Result<Vec<u8>, IoError> {
        let line = &self.line;
        let (place, whole) = if at.sectors == 0 { (None, 0) } else { (Some(at), at.bytes()) };
        if line.gone.get() {
            return Err(self.error(place, GONE));
        }
        let cookie = line.cookie.get() + 1;
        line.cookie.set(cookie);
        let reads = if command == Command::Read { whole as usize } else { 0 };
        line.asked.borrow_mut().insert(cookie, Asked { reads, ..Asked::default() });
        let _waits = Waits { line, cookie };
        {
            let mut out = line.outgoing.borrow_mut();
            ask(&mut out, command, flags, cookie, at.start.0 * SECTOR_BYTES, whole as u32);
            if let Some(from) = from {
                from.look(|bytes| out.extend_from_slice(bytes));
            }
        }
        line.sender.take().into_iter().for_each(Waker::wake);
        let answer = poll_fn(|context| {
            let mut asked = line.asked.borrow_mut();
            let Some(mine) = asked.get_mut(&cookie) else { return Poll::Ready(Err(GONE)) };
            let Some(answer) = mine.answer.take() else {
                mine.waker = Some(context.waker().clone());
                return Poll::Pending;
            };
            asked.remove(&cookie);
            Poll::Ready(answer)
        });
        answer.await.map_err(|number| self.error(place, number))
    }

    fn check(&self, at: Extent) -> Result<(), IoError> {
        check(&Geometry { largest_sectors: u64::MAX, ..self.geometry }, at, "remote export")
    }

    fn parts(&self, at: Extent) -> impl Iterator<Item = Extent> + use<> {
        at.split(self.geometry.largest_sectors)
    }
}

/// No number of the protocol's: the connection is gone.
const GONE: u32 = u32::MAX;

impl Line {
    /// Nothing more comes: all that was asked fails.
    fn end(&self, socket: &OwnedFd) {
        self.gone.set(true);
        let _ = shutdown(socket, Shutdown::Both);
        for asked in self.asked.borrow_mut().values_mut().filter(|asked| asked.answer.is_none()) {
            asked.answer = Some(Err(GONE));
            asked.waker.take().into_iter().for_each(Waker::wake);
        }
        self.sender.take().into_iter().for_each(Waker::wake);
    }
}

async fn send(line: Rc<Line>, reactor: Rc<Reactor>, socket: Arc<OwnedFd>) {
    while !line.gone.get() {
        poll_fn(|context| {
            if line.gone.get() || !line.outgoing.borrow().is_empty() {
                return Poll::Ready(());
            }
            line.sender.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
        // All that is asked in this turn goes together.
        quiet().await;
        let bytes = line.outgoing.take();
        let len = bytes.len();
        let done = reactor.ask(Job::new(What::Send, &socket, Memory::of(bytes))).await;
        if !done.result.is_ok_and(|sent| sent == len) {
            line.end(&socket);
        }
    }
}

async fn receive(line: Rc<Line>, mut input: Input, socket: Arc<OwnedFd>) {
    while let Ok(Some(header)) = input.exactly(16).await {
        let Some((cookie, error)) = simple_reply(&header) else { break };
        let reads =
            line.asked.borrow().get(&cookie).filter(|asked| asked.answer.is_none()).map(|asked| asked.reads);
        let Some(reads) = reads else { break };
        let answer = match error {
            0 => match input.exactly(reads).await {
                Ok(Some(bytes)) => Ok(bytes),
                _ => break,
            },
            error => Err(error),
        };
        let mut all = line.asked.borrow_mut();
        match all.get_mut(&cookie) {
            Some(asked) if asked.abandoned => drop(all.remove(&cookie)),
            Some(asked) => {
                asked.answer = Some(answer);
                asked.waker.take().into_iter().for_each(Waker::wake);
            }
            None => {}
        }
    }
    line.end(&socket);
}

impl BlockDevice for RemoteComponent {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, at: Extent, into: Buffer, _how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            self.check(at)?;
            for part in self.parts(at) {
                let bytes = self.ask(Command::Read, 0, part, None).await?;
                into.put(((part.start.0 - at.start.0) * SECTOR_BYTES) as usize, &bytes);
            }
            Ok(into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at)?;
            let flags = if how.fua && self.has(c::FLAG_SEND_FUA) { c::CMD_FLAG_FUA } else { 0 };
            for (part, bytes) in from.split(at, self.geometry.largest_sectors) {
                self.ask(Command::Write, flags, part, Some(&bytes)).await?;
            }
            if how.fua && flags == 0 { self.flush(how).await } else { Ok(()) }
        })
    }

    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            if self.has(c::FLAG_SEND_FLUSH) {
                self.ask(Command::Flush, 0, Extent::new(0, 0), None).await?;
            }
            Ok(())
        })
    }

    fn discard(&self, at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at)?;
            if self.has(c::FLAG_SEND_TRIM) {
                for part in self.parts(at) {
                    self.ask(Command::Trim, 0, part, None).await?;
                }
            }
            Ok(())
        })
    }

    fn prefetch(&self, at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at)?;
            if self.has(c::FLAG_SEND_CACHE) {
                for part in self.parts(at) {
                    self.ask(Command::Cache, 0, part, None).await?;
                }
            }
            Ok(())
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at)?;
            let known = self.has(c::FLAG_SEND_WRITE_ZEROES);
            if zeroes.only_if_fast && !(known && self.has(c::FLAG_SEND_FAST_ZERO)) {
                return Err(self.error(Some(at), 95));
            }
            if !known {
                return self.write(at, Buffer::zeroed(at.bytes()), how).await;
            }
            let mut flags = if zeroes.may_unmap { 0 } else { c::CMD_FLAG_NO_HOLE };
            flags |= if zeroes.only_if_fast { c::CMD_FLAG_FAST_ZERO } else { 0 };
            for part in self.parts(at) {
                self.ask(Command::WriteZeroes, flags, part, None).await?;
            }
            if how.fua { self.flush(how).await } else { Ok(()) }
        })
    }
}
