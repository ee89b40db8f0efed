//! The connection to another server, and its replacement when it is gone.
//!
//! Invariants: a request is answered by the server, or fails because the server is gone for longer than the limit.
//! Unflushed writes without FUA may be lost when a server comes back: then the next flush fails, of the client that
//! wrote them and of whichever client flushes first. Fault model: the server goes at any time, and comes back later,
//! never, or as another one.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use futures_util::future::{Either, select};
use seekless_core::runtime::{now, sleep, sleep_until, spawn};
use seekless_core::{Nanos, StreamId};

use super::Connected;
use super::connection::{Connection, Failure, GONE, Reply};
use crate::nbd::Command;
use crate::nbd::client::ExportInfo;
use crate::reactor::Reactor;
use crate::wire::Trust;

/// The protocol's error of a server that shuts down.
const ESHUTDOWN: u32 = 108;
/// Pause between two attempts: the first, and the longest.
const PAUSE: Nanos = Nanos::from_millis(50);
const LONGEST_PAUSE: Nanos = Nanos::from_millis(2_000);

/// How to reconnect to a server that is gone.
#[derive(Clone, Debug)]
pub struct Reconnect {
    /// URI of the export.
    pub uri: String,
    /// Certificates to verify it by.
    pub trust: Option<Trust>,
    /// How long requests wait for it.
    pub limit: Nanos,
}

/// See the file's header.
pub struct Link {
    reactor: Rc<Reactor>,
    /// The export as first described; it has to be the same again.
    info: ExportInfo,
    connection: RefCell<Rc<Connection>>,
    reconnect: Option<Reconnect>,
    /// Since when the connection is gone.
    gone: Cell<Option<Nanos>>,
    /// Why the last attempt to reconnect failed.
    why: RefCell<String>,
    waiting: RefCell<Vec<Waker>>,
    unflushed: RefCell<Unflushed>,
}

/// Writes not flushed yet.
#[derive(Default)]
struct Unflushed {
    /// Clients, and the number of the last write of each.
    by: BTreeMap<StreamId, u64>,
    writes: u64,
    /// Clients whose writes may be lost and that have not been told.
    lost: BTreeSet<StreamId>,
    /// Whether no client has got the error of a loss yet.
    unreported: bool,
}

impl Unflushed {
    /// The server came back and may have lost unflushed writes.
    fn lose(&mut self) {
        self.unreported |= !self.by.is_empty();
        self.lost.extend(std::mem::take(&mut self.by).into_keys());
    }

    /// All up to this write is durable.
    fn flushed(&mut self, writes: u64) {
        self.by.retain(|_, last| *last > writes);
    }

    /// Whether to report to this client that writes may be lost; once.
    fn takes_loss(&mut self, stream: StreamId) -> bool {
        let unreported = std::mem::take(&mut self.unreported);
        self.lost.remove(&stream) || unreported
    }
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

    /// Notes a write that the server may lose.
    pub fn wrote(&self, stream: StreamId) {
        let unflushed = &mut *self.unflushed.borrow_mut();
        unflushed.writes += 1;
        unflushed.by.insert(stream, unflushed.writes);
    }

    /// Flushes by `flush`; an error too if writes may be lost of which this client has to hear.
    pub async fn flush(
        &self,
        stream: StreamId,
        flush: impl Future<Output = Result<Reply, Failure>>,
    ) -> Result<(), Failure> {
        let writes = self.unflushed.borrow().writes;
        flush.await?;
        let unflushed = &mut *self.unflushed.borrow_mut();
        unflushed.flushed(writes);
        if unflushed.takes_loss(stream) {
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
                    self.unflushed.borrow_mut().lose();
                    self.gone.set(None);
                    self.connection.replace(Connection::new(&self.reactor, connected));
                    return self.waiting.take().into_iter().for_each(Waker::wake);
                }
                Err(why) => drop(self.why.replace(why)),
            }
            sleep(pause).await;
            pause = Nanos(pause.0 * 2).min(LONGEST_PAUSE);
        }
    }

    /// One attempt, on a worker thread.
    async fn connect_once(&self) -> Result<Connected, String> {
        let Some(reconnect) = self.reconnect.clone() else { return Err(String::new()) };
        let attempt =
            move || Connected::to(&reconnect.uri, reconnect.trust.as_ref()).map_err(|why| why.to_string());
        let connected = self.reactor.offload_external(attempt).await.map(|connected| {
            let same = |connected: &Connected| connected.info() == self.info;
            let other = || "found another export there, expected the same as before".to_owned();
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
