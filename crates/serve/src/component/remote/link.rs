//! The connection to another server, and the next one when that is gone.
//!
//! Invariants: a request is answered by the server, or because it is gone for longer than it may be. What was written
//! since a flush, and not made durable by itself, a server that comes back may have lost: then the next flush fails, of
//! who wrote that and of who flushes first. Fault model: the server goes at any time, and comes back, later or never, or
//! another one does in its place.

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
use crate::server::Trust;

/// The protocol's number for a server that ends.
const ESHUTDOWN: u32 = 108;
/// Between two attempts: at first, and at most.
const PAUSE: Nanos = Nanos::from_millis(50);
const LONGEST_PAUSE: Nanos = Nanos::from_millis(2_000);

/// How a server that is gone is found again.
#[derive(Clone, Debug)]
pub struct Reconnect {
    /// Where it is.
    pub uri: String,
    /// How it is known.
    pub trust: Option<Trust>,
    /// So long requests wait for it.
    pub limit: Nanos,
}

/// See the file's header.
pub struct Link {
    reactor: Rc<Reactor>,
    /// What the server told at first, and has to tell again.
    info: ExportInfo,
    connection: RefCell<Rc<Connection>>,
    reconnect: Option<Reconnect>,
    /// Since when it is gone.
    gone: Cell<Option<Nanos>>,
    /// Why it was not found again.
    why: RefCell<String>,
    waiting: RefCell<Vec<Waker>>,
    unflushed: RefCell<Unflushed>,
}

/// What was written and not flushed.
#[derive(Default)]
struct Unflushed {
    /// Who wrote, and in the how manieth of all writes last.
    by: BTreeMap<StreamId, u64>,
    writes: u64,
    /// Whose writes may be lost, and who was not told.
    lost: BTreeSet<StreamId>,
    /// Nobody was told.
    unreported: bool,
}

impl Unflushed {
    /// A server came back that may have lost it.
    fn lose(&mut self) {
        self.unreported |= !self.by.is_empty();
        self.lost.extend(std::mem::take(&mut self.by).into_keys());
    }

    /// All up to this write is durable.
    fn flushed(&mut self, writes: u64) {
        self.by.retain(|_, last| *last > writes);
    }

    /// Whether somebody has to be told that what was written may be lost; once.
    fn takes_loss(&mut self, stream: StreamId) -> bool {
        let unreported = std::mem::take(&mut self.unreported);
        self.lost.remove(&stream) || unreported
    }
}

impl Link {
    /// Begins with a connection. Inside a runtime.
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

    /// As [`Connection::ask`], again and again as long as the server goes and comes back in time.
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
                    self.await_reconnect(&connection).await?
                }
                done => return done,
            }
        }
    }

    /// Something was written that a server may lose.
    pub fn wrote(&self, stream: StreamId) {
        let unflushed = &mut *self.unflushed.borrow_mut();
        unflushed.writes += 1;
        unflushed.by.insert(stream, unflushed.writes);
    }

    /// Flushes by `flush`; an error too if something may be lost that who flushes has to hear of.
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
            let why = "the server was gone: what was written and not flushed before may be lost";
            return Err((GONE, why.to_owned()));
        }
        Ok(())
    }

    /// Waits for another connection than this one, which is gone.
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

    /// Tries to connect until that succeeds.
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

    /// The same once, beside the volume.
    async fn connect_once(&self) -> Result<Connected, String> {
        let Some(reconnect) = self.reconnect.clone() else { return Err(String::new()) };
        let attempt =
            move || Connected::to(&reconnect.uri, reconnect.trust.as_ref()).map_err(|why| why.to_string());
        let connected = self.reactor.offload_external(attempt).await.map(|connected| {
            let same = |connected: &Connected| connected.info() == self.info;
            let other = || "found another export there, expected the one from before".to_owned();
            connected.and_then(|connected| if same(&connected) { Ok(connected) } else { Err(other()) })
        });
        // Noted is whether it succeeded, and else why.
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
