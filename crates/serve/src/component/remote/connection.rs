//! A connection to another server in the transmission phase: requests are sent together, replies come in any order.
//!
//! Invariants: a request gets one answer, from the server or because the connection is gone. Memory is bounded by what
//! was requested. Fault model: the server answers requests that were not sent, with too much, too little or malformed
//! chunks, or goes: then this connection is over.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use rustix::net::{Shutdown, shutdown};
use seekless_core::runtime::{quiet, spawn};

use super::Connected;
use crate::nbd::client::{CHUNK, Chunk, Part, ask, chunk, part, simple_reply};
use crate::nbd::{Command, constants as c};
use crate::reactor::{Job, Memory, Op, Reactor};
use crate::wire::{Input, Tunnel};

/// Bytes of a chunk without data, at most: the states of 128 Ki extents.
const LONGEST: u32 = 1 << 20;
/// Not a number of the protocol: the connection is gone.
pub const GONE: u32 = u32::MAX;

/// Why a request failed: the protocol's error number, and the server's message if it sent one.
pub type Failure = (u32, String);

/// Result of a request.
#[derive(Debug, Default)]
pub struct Reply {
    /// Data read.
    pub data: Vec<u8>,
    /// Lengths and states of consecutive extents.
    pub states: Vec<(u32, u32)>,
}

/// See the file's header.
#[derive(Default)]
pub struct Connection {
    outgoing: RefCell<Vec<u8>>,
    in_flight: RefCell<BTreeMap<u64, InFlight>>,
    cookie: Cell<u64>,
    gone: Cell<bool>,
    sender: RefCell<Option<Waker>>,
    socket: OnceCell<Arc<OwnedFd>>,
    /// Context of block status.
    context: Option<u32>,
}

/// A request without its answer, or with an answer not yet fetched.
#[derive(Default)]
struct InFlight {
    /// Offset of a read, and its length in bytes.
    at: u64,
    reads: usize,
    /// What was received so far, and how many bytes of it, holes included.
    reply: Reply,
    received: usize,
    failed: Option<Failure>,
    answer: Option<Result<Reply, Failure>>,
    waker: Option<Waker>,
    /// The caller does not wait any more.
    abandoned: bool,
}

/// Removes a request that was answered, or whose caller does not wait any more.
struct Waiter<'a> {
    connection: &'a Connection,
    cookie: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut all = self.connection.in_flight.borrow_mut();
        let Some(in_flight) = all.get_mut(&self.cookie) else { return };
        if in_flight.answer.is_some() {
            all.remove(&self.cookie);
        } else {
            // Its answer may still come, and has to be recognised.
            in_flight.abandoned = true;
            in_flight.waker = None;
        }
    }
}

impl Connection {
    /// Starts to send and receive. Inside a runtime.
    pub fn new(reactor: &Rc<Reactor>, connected: Connected) -> Rc<Connection> {
        let Connected { socket, info, tunnel } = connected;
        let (socket, tunnel) = (Arc::new(socket), tunnel.map(Rc::<Tunnel>::from));
        let connection = Connection {
            context: info.allocation,
            socket: OnceCell::from(socket.clone()),
            ..Connection::default()
        };
        let connection = Rc::new(connection);
        let mut input = Input::new(reactor, &socket);
        if let Some(tunnel) = &tunnel {
            input.decrypt(tunnel.clone());
        }
        spawn(connection.clone().send(reactor.clone(), socket, tunnel)).detach();
        spawn(connection.clone().receive(input)).detach();
        connection
    }

    /// Sends a request for `bytes` bytes from `offset` on, and waits for the answer.
    pub async fn ask(
        &self,
        command: Command,
        flags: u16,
        offset: u64,
        bytes: u32,
        payload: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Reply, Failure> {
        let gone = || (GONE, "the server is gone".to_owned());
        if self.gone.get() {
            return Err(gone());
        }
        let cookie = self.cookie.get() + 1;
        self.cookie.set(cookie);
        let reads = if command == Command::Read { bytes as usize } else { 0 };
        self.in_flight.borrow_mut().insert(cookie, InFlight { at: offset, reads, ..InFlight::default() });
        let _waiter = Waiter { connection: self, cookie };
        {
            let mut out = self.outgoing.borrow_mut();
            ask(&mut out, command, flags, cookie, offset, bytes);
            payload(&mut out);
        }
        self.sender.take().into_iter().for_each(Waker::wake);
        poll_fn(|context| {
            let mut in_flight = self.in_flight.borrow_mut();
            let Some(mine) = in_flight.get_mut(&cookie) else { return Poll::Ready(Err(gone())) };
            let Some(answer) = mine.answer.take() else {
                mine.waker = Some(context.waker().clone());
                return Poll::Pending;
            };
            in_flight.remove(&cookie);
            Poll::Ready(answer)
        })
        .await
    }

    async fn send(self: Rc<Self>, reactor: Rc<Reactor>, socket: Arc<OwnedFd>, tunnel: Option<Rc<Tunnel>>) {
        while !self.gone.get() {
            poll_fn(|context| {
                if self.gone.get() || !self.outgoing.borrow().is_empty() {
                    return Poll::Ready(());
                }
                self.sender.replace(Some(context.waker().clone()));
                Poll::Pending
            })
            .await;
            // All requests of this instant go together.
            quiet().await;
            let plain = self.outgoing.take();
            let bytes = tunnel.as_ref().map(|tunnel| tunnel.seal(&plain)).unwrap_or(plain);
            let len = bytes.len();
            let done = reactor.submit(Job::new(Op::Send, &socket, Memory::of(bytes))).await;
            if !done.result.is_ok_and(|sent| sent == len) {
                self.end();
            }
        }
    }

    async fn receive(self: Rc<Self>, mut input: Input) {
        while self.reply(&mut input).await.is_some() {}
        self.end();
    }

    /// Takes a reply, or a chunk of one; `None` if the stream ended or is malformed.
    async fn reply(&self, input: &mut Input) -> Option<()> {
        const SIMPLE: usize = 16;
        let mut header = exactly(input, SIMPLE).await?;
        if let Some((cookie, error)) = simple_reply(&header) {
            let reads = self.in_flight(cookie, |in_flight| in_flight.reads)?;
            if error == 0 && reads > 0 {
                let data = exactly(input, reads).await?;
                self.in_flight(cookie, |in_flight| {
                    (in_flight.received, in_flight.reply.data) = (reads, data);
                })?;
            } else if error != 0 {
                let why = format!("the server's error {error}");
                self.in_flight(cookie, |in_flight| in_flight.failed = Some((error, why)))?;
            }
            return self.answered(cookie);
        }
        header.extend(exactly(input, CHUNK - SIMPLE).await?);
        let head = chunk(&header)?;
        if head.kind == c::REPLY_TYPE_OFFSET_DATA {
            self.data(head, input).await?;
        } else {
            if head.length > LONGEST {
                return None;
            }
            let payload = exactly(input, head.length as usize).await?;
            let part = part(head.kind, &payload)?;
            self.in_flight(head.cookie, |in_flight| in_flight.take(part, self.context))??;
        }
        if head.last { self.answered(head.cookie) } else { Some(()) }
    }

    /// Takes a chunk of data.
    async fn data(&self, head: Chunk, input: &mut Input) -> Option<()> {
        let len = (head.length as usize).checked_sub(8)?;
        let offset = u64::from_be_bytes(exactly(input, 8).await?.try_into().ok()?);
        let (at, reads) = self.in_flight(head.cookie, |in_flight| in_flight.part(offset, len))??;
        let data = exactly(input, len).await?;
        self.in_flight(head.cookie, |in_flight| {
            in_flight.received += len;
            if len == reads {
                in_flight.reply.data = data;
            } else {
                in_flight.reply.data.resize(reads, 0);
                in_flight.reply.data[at..at + len].copy_from_slice(&data);
            }
        })
    }

    /// Looks at an unanswered request; `None` if there is none of this cookie.
    fn in_flight<T>(&self, cookie: u64, look: impl FnOnce(&mut InFlight) -> T) -> Option<T> {
        let mut all = self.in_flight.borrow_mut();
        all.get_mut(&cookie).filter(|in_flight| in_flight.answer.is_none()).map(look)
    }

    /// Completes a request; `None` if data is missing.
    fn answered(&self, cookie: u64) -> Option<()> {
        let mut all = self.in_flight.borrow_mut();
        let in_flight = all.get_mut(&cookie)?;
        let reply = std::mem::take(&mut in_flight.reply);
        let answer = match in_flight.failed.take() {
            Some(failure) => Err(failure),
            None if in_flight.received == in_flight.reads => Ok(reply),
            None => return None,
        };
        if in_flight.abandoned {
            all.remove(&cookie);
        } else {
            in_flight.answer = Some(answer);
            in_flight.waker.take().into_iter().for_each(Waker::wake);
        }
        Some(())
    }

    /// Ends the connection: all requests in flight fail.
    pub fn end(&self) {
        self.gone.set(true);
        if let Some(socket) = self.socket.get() {
            let _ = shutdown(socket, Shutdown::Both);
        }
        for in_flight in
            self.in_flight.borrow_mut().values_mut().filter(|in_flight| in_flight.answer.is_none())
        {
            in_flight.answer = Some(Err((GONE, "the server is gone".to_owned())));
            in_flight.waker.take().into_iter().for_each(Waker::wake);
        }
        self.sender.take().into_iter().for_each(Waker::wake);
    }
}

/// The next `len` bytes, unless the stream ends.
async fn exactly(input: &mut Input, len: usize) -> Option<Vec<u8>> {
    input.exactly(len).await.ok().flatten()
}

impl InFlight {
    /// Where a part of a read goes, and the length of the whole; `None` if it was not requested.
    fn part(&self, offset: u64, len: usize) -> Option<(usize, usize)> {
        let at = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        let end = at.checked_add(len)?;
        (end <= self.reads && self.received + len <= self.reads).then_some((at, self.reads))
    }

    /// Takes a chunk without data.
    fn take(&mut self, part: Part, context: Option<u32>) -> Option<()> {
        match part {
            Part::Hole(offset, len) => {
                // The buffer is zeroed already.
                self.part(offset, len as usize)?;
                self.reply.data.resize(self.reads, 0);
                self.received += len as usize;
            }
            Part::Status(id, states) if Some(id) == context => self.reply.states = states,
            Part::Done | Part::Status(..) => {}
            Part::Failed(error, why) => self.failed = Some((error, why)),
        }
        Some(())
    }
}
