//! The connection to another server, and its replacement when it is gone.
//!
//! Invariants: a request is answered by the server, or fails because the server is gone for longer than the limit.
//! Unflushed writes without FUA may be lost when a server comes back. They are sent again before anything else, if that
//! is wanted and each of them succeeded; otherwise the next flush fails, of the client that wrote them and of whichever
//! client flushes first. Fault model: the server goes at any time, also while writes are sent again, and comes back
//! later, never, or as another one.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use futures_util::future::{Either, join_all, select};
use seekless_core::lock::RangeLocks;
use seekless_core::runtime::{now, sleep, sleep_until, spawn};
use seekless_core::{Class, Extent, Mode, Nanos, SECTOR_BYTES, StreamId};

use super::Connected;
use super::connection::{Connection, Failure, GONE, Reply};
use super::unflushed::{Unflushed, Written};
use crate::nbd::Command;
use crate::nbd::client::ExportInfo;
use crate::reactor::Reactor;
use crate::wire::Trust;

/// The protocol's error of a server that shuts down.
const ESHUTDOWN: u32 = 108;
/// Pause between two attempts: the first, and the longest.
const PAUSE: Nanos = Nanos::from_millis(50);
const LONGEST_PAUSE: Nanos = Nanos::from_millis(2_000);
/// Requests that are sent again together.
const TOGETHER: usize = 64;

/// How to reconnect to a server that is gone.
#[derive(Clone, Debug)]
pub struct Reconnect {
    /// URI of the export.
    pub uri: String,
    /// Certificates to verify it by.
    pub trust: Option<Trust>,
    /// How long requests wait for it.
    pub limit: Nanos,
    /// Bytes of unflushed writes that are kept to be sent again; 0: none.
    pub resend: u64,
}

/// See the file's header.
pub struct Link {
    reactor: Rc<Reactor>,
    /// The export as first described; another one has to be able to replace it.
    info: ExportInfo,
    connection: RefCell<Rc<Connection>>,
    reconnect: Option<Reconnect>,
    /// Since when the connection is gone.
    gone: Cell<Option<Nanos>>,
    /// Why the last attempt to reconnect failed.
    why: RefCell<String>,
    waiting: RefCell<Vec<Waker>>,
    unflushed: RefCell<Unflushed>,
    /// Held while room is made for unflushed writes.
    making_room: RangeLocks,
}

impl Link {
    /// A link that starts with this connection. Inside a runtime.
    pub fn new(reactor: &Rc<Reactor>, connected: Connected, reconnect: Option<Reconnect>) -> Rc<Link> {
        let info = connected.info();
        Rc::new(Link {
            reactor: reactor.clone(),
            info,
            connection: RefCell::new(Connection::new(reactor, connected)),
            reconnect,
            gone: Cell::new(None),
            why: RefCell::default(),
            waiting: RefCell::default(),
            unflushed: RefCell::default(),
            making_room: RangeLocks::new(),
        })
    }

    /// As [`Connection::ask`], repeated as long as the server comes back in time.
    pub async fn ask(
        self: &Rc<Self>,
        command: Command,
        flags: u16,
        offset: u64,
        bytes: u32,
        payload: impl Fn(&mut Vec<u8>),
    ) -> Result<Reply, Failure> {
        loop {
            let connection = self.connection.borrow().clone();
            let done = connection.ask(command, flags, offset, bytes, &payload).await;
            match done {
                Err((GONE | ESHUTDOWN, _)) if self.reconnect.is_some() => {
                    self.await_reconnect(&connection).await?;
                }
                done => return done,
            }
        }
    }

    /// Whether unflushed writes are sent again.
    pub fn resends(&self) -> bool {
        self.room() > 0
    }

    fn room(&self) -> u64 {
        self.reconnect.as_ref().map_or(0, |reconnect| reconnect.resend)
    }

    /// Notes a write that the server may lose.
    pub fn wrote(&self, stream: StreamId, at: Extent, written: &Written) {
        let unflushed = &mut *self.unflushed.borrow_mut();
        let number = unflushed.wrote(stream);
        if self.resends() {
            unflushed.kept.put(at, number, written);
        }
    }

    /// Notes a discard. Its loss is not reported.
    pub fn discarded(&self, at: Extent) {
        if self.resends() {
            let unflushed = &mut *self.unflushed.borrow_mut();
            let number = unflushed.number();
            unflushed.kept.put(at, number, &Written::Discarded);
        }
    }

    /// Notes a write that is durable.
    pub fn wrote_durably(&self, at: Extent) {
        self.unflushed.borrow_mut().kept.remove(at);
    }

    /// Notes that the server failed to change sectors, but may have changed some.
    pub fn failed(&self) {
        if self.resends() {
            let unflushed = &mut *self.unflushed.borrow_mut();
            // Only a flush that begins after this one counts.
            let number = unflushed.number();
            unflushed.kept.doubt(number);
        }
    }

    /// Makes room for another unflushed write, by `flush` if there is none.
    pub async fn make_room(
        &self,
        flush: impl Future<Output = Result<Reply, Failure>>,
    ) -> Result<(), Failure> {
        let is_full = || self.resends() && self.unflushed.borrow().kept.bytes() >= self.room();
        if !is_full() {
            return Ok(());
        }
        let _alone = self.making_room.lock(Extent::new(0, 1), Mode::Exclusive, Class::Foreground, None).await;
        if is_full() { self.flush_all(flush).await } else { Ok(()) }
    }

    async fn flush_all(&self, flush: impl Future<Output = Result<Reply, Failure>>) -> Result<(), Failure> {
        let writes = self.unflushed.borrow().writes();
        flush.await?;
        self.unflushed.borrow_mut().flushed(writes);
        Ok(())
    }

    /// Flushes by `flush`; an error too if writes may be lost of which this client has to hear.
    pub async fn flush(
        &self,
        stream: StreamId,
        flush: impl Future<Output = Result<Reply, Failure>>,
    ) -> Result<(), Failure> {
        self.flush_all(flush).await?;
        if self.unflushed.borrow_mut().takes_loss(stream) {
            let why = "the server was gone: unflushed writes before that may be lost";
            return Err((GONE, why.to_owned()));
        }
        Ok(())
    }

    /// Waits for a connection to replace this one, which is gone.
    async fn await_reconnect(self: &Rc<Self>, connection: &Rc<Connection>) -> Result<(), Failure> {
        connection.end();
        let limit = self.reconnect.as_ref().map_or(Nanos::ZERO, |reconnect| reconnect.limit);
        if !Rc::ptr_eq(&self.connection.borrow(), connection) {
            return Ok(());
        }
        let since = self.gone.get().unwrap_or_else(|| {
            self.gone.set(Some(now()));
            spawn(self.clone().connect()).detach();
            now()
        });
        let back = poll_fn(|context| {
            if !Rc::ptr_eq(&self.connection.borrow(), connection) {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        });
        match select(pin!(back), pin!(sleep_until(since + limit))).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => {
                Err((GONE, format!("the server is gone, and not back within {limit}: {}", self.why.borrow())))
            }
        }
    }

    /// Reconnects, trying until that succeeds.
    async fn connect(self: Rc<Self>) {
        let mut pause = PAUSE;
        loop {
            match self.connect_once().await {
                Ok(connected) => {
                    let connection = Connection::new(&self.reactor, connected);
                    match self.resend(&connection).await {
                        Ok(()) => {
                            self.gone.set(None);
                            self.connection.replace(connection);
                            return self.waiting.take().into_iter().for_each(Waker::wake);
                        }
                        Err(why) => drop(self.why.replace(why)),
                    }
                }
                Err(why) => drop(self.why.replace(why)),
            }
            sleep(pause).await;
            pause = Nanos(pause.0 * 2).min(LONGEST_PAUSE);
        }
    }

    /// Sends unflushed writes again, as far as they are kept; those that cannot be sent count as lost. An error if the
    /// server is gone again.
    async fn resend(&self, connection: &Rc<Connection>) -> Result<(), String> {
        let kept = {
            let unflushed = &mut *self.unflushed.borrow_mut();
            if !self.resends() || unflushed.kept.is_doubtful() {
                unflushed.lose();
            }
            unflushed.kept.pieces()
        };
        for some in kept.chunks(TOGETHER) {
            let sent = some.iter().map(|(at, written)| self.send(connection, *at, written));
            for done in join_all(sent).await {
                match done {
                    Err((GONE | ESHUTDOWN, why)) => return Err(why),
                    Err(_) => {
                        self.unflushed.borrow_mut().lose();
                        return Ok(());
                    }
                    Ok(_) => {}
                }
            }
        }
        Ok(())
    }

    async fn send(
        &self,
        connection: &Rc<Connection>,
        at: Extent,
        written: &Written,
    ) -> Result<Reply, Failure> {
        let offset = at.start.0 * SECTOR_BYTES;
        // The export may end within a sector.
        let whole = at.bytes().min(self.info.bytes - offset);
        let (command, flags) = match written {
            Written::Data(_) => (Command::Write, 0),
            Written::Zeroes(flags) => (Command::WriteZeroes, *flags),
            Written::Discarded => (Command::Trim, 0),
        };
        let payload = |out: &mut Vec<u8>| {
            if let Written::Data(data) = written {
                data.look(|bytes| out.extend_from_slice(&bytes[..whole as usize]));
            }
        };
        connection.ask(command, flags, offset, whole as u32, payload).await
    }

    /// One attempt, on a worker thread.
    async fn connect_once(&self) -> Result<Connected, String> {
        let Some(reconnect) = self.reconnect.clone() else { return Err(String::new()) };
        let attempt =
            move || Connected::to(&reconnect.uri, reconnect.trust.as_ref()).map_err(|why| why.to_string());
        let connected = self.reactor.offload_external(attempt).await.map(|connected| {
            let same = |connected: &Connected| connected.info().can_replace(&self.info);
            let other = || {
                "found another export there, expected the size, commands and block sizes of the one before"
                    .to_owned()
            };
            connected.and_then(|connected| if same(&connected) { Ok(connected) } else { Err(other()) })
        });
        // Recorded: whether it succeeded, and otherwise why.
        let noted = self.reactor.observe(|| match &connected {
            Some(Err(why)) => [&[0], why.as_bytes()].concat(),
            _ => vec![1],
        });
        let connected = match (connected, noted.split_first()) {
            (Some(connected), _) => connected,
            (None, Some((1, _))) => Connected::from_recording(self.info).map_err(|error| error.to_string()),
            (None, why) => {
                Err(why.map_or(String::new(), |(_, why)| String::from_utf8_lossy(why).into_owned()))
            }
        }?;
        self.reactor.new_descriptor(connected.descriptor());
        Ok(connected)
    }
}
