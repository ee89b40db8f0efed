//! The NBD server: listens, and serves each client in a task of the volume's own thread.
//!
//! Invariants: a client holds a bounded amount of memory, whatever it does ([`send_queue`]), and so do all of them
//! ([`budget`]); no peer takes all places ([`slots`]); requests in flight are shared fairly between clients by the volume's
//! top. A request that was taken is carried out though its client goes.
//! Fault model: clients are slow, vanish, or send anything; that ends them and harms nobody else.

mod address;
mod budget;
mod byte_adapter;
mod client;
mod client_slots;
mod control;
mod export;
mod input;
mod keys_error;
mod listener;
mod peer;
mod request;
#[cfg(feature = "tls")]
mod rsa;
mod send_queue;
mod status;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod write_tracker;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use rustix::net::{Shutdown, shutdown};
use seekless_core::Nanos;
use seekless_core::runtime::{now, sleep, spawn};

use crate::reactor::{Job, Op, Reactor};
use budget::Budget;
use client_slots::{ClientSlots, Handshakes};
use peer::Peer;

pub use address::{Address, AddressError};
pub use byte_adapter::{ByteAdapter, Bytes, UnalignedPermit};
pub use client_slots::CLIENTS;
pub use control::{ControlReply, control};
pub use export::Export;
pub(crate) use input::Input;
pub use keys_error::KeysError;
pub use listener::{ListenError, Listener};
pub use status::Home;
pub(crate) use tls::Tunnel;
pub use tls::{Keys, Trust};

/// How long clients may take to get the last replies when the server stops.
const STOP_TIMEOUT: Nanos = Nanos::from_millis(5_000);
/// Of clients that are refused, one is told of in so long, and how many there were besides.
const REFUSAL_INTERVAL: Nanos = Nanos::from_millis(1_000);

/// What the server did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests answered.
    pub requests: u64,
    /// Of them, with an error.
    pub failed: u64,
    /// Bytes read by clients.
    pub read_bytes: u64,
    /// Bytes written by them.
    pub written_bytes: u64,
}

/// What those who connect to a socket find there.
struct Offer {
    exports: Vec<Export>,
    /// All is encrypted.
    keys: Option<Keys>,
}

/// See the file's header.
pub struct Server {
    reactor: Rc<Reactor>,
    /// The sockets of those who are here, by their numbers.
    clients: RefCell<BTreeMap<u32, Arc<OwnedFd>>>,
    connected: Cell<u32>,
    slots: Rc<ClientSlots>,
    handshakes: Handshakes,
    budget: Rc<Budget>,
    /// Clients that were refused since one was told of, if that was not long ago.
    refused: Cell<Option<u32>>,
    served: RefCell<Served>,
    /// No new clients and no new requests.
    stopping: Cell<bool>,
    /// Hears what goes wrong with clients, a line each.
    report: Box<dyn Fn(&str)>,
}

impl Server {
    /// A server with nothing to serve yet, and places for so many clients; `report` hears a line for each client that is sent
    /// away.
    pub fn new(reactor: &Rc<Reactor>, clients: usize, report: impl Fn(&str) + 'static) -> Rc<Server> {
        Rc::new(Server {
            reactor: reactor.clone(),
            clients: RefCell::default(),
            connected: Cell::new(0),
            slots: ClientSlots::new(clients),
            handshakes: Handshakes::default(),
            budget: Rc::default(),
            refused: Cell::new(None),
            served: RefCell::default(),
            stopping: Cell::new(false),
            report: Box::new(report),
        })
    }

    /// Serves `exports` to whoever connects to `listener`, from now on; with `keys`, encrypted and to their clients only.
    pub fn listen(self: &Rc<Self>, listener: Listener, exports: Vec<Export>, keys: Option<Keys>) {
        let (server, offer) = (self.clone(), Rc::new(Offer { exports, keys }));
        spawn(async move {
            while !server.stopping.get() {
                let done = server.reactor.submit(Job::without(Op::Accept, &listener.socket)).await;
                match done.socket {
                    Some(socket) => {
                        let noted = server.reactor.observe(|| Peer::of(&socket, listener.is_tcp()).encode());
                        server.admit(listener.accepted(socket), Peer::decode(&noted), &offer);
                    }
                    // Out of descriptors, or a client that went before it was here.
                    None => sleep(Nanos::from_millis(10)).await,
                }
            }
        })
        .detach();
    }

    fn admit(self: &Rc<Self>, socket: OwnedFd, peer: Peer, offer: &Rc<Offer>) {
        if self.stopping.get() {
            return;
        }
        let number = self.connected.get() + 1;
        self.connected.set(number);
        let socket = Arc::new(socket);
        self.clients.borrow_mut().insert(number, socket.clone());
        if let Some(why) = self.handshakes.begin(number, peer, &socket) {
            self.refuse(&why);
        }
        let (server, offer) = (self.clone(), offer.clone());
        spawn(async move {
            if let Err(why) = client::serve(&server, socket, number, peer, &offer).await {
                (server.report)(&format!("client {number}: {why}"));
            }
            server.handshakes.end(number);
            server.clients.borrow_mut().remove(&number);
        })
        .detach();
    }

    /// A client has no place: one is told of at once, those that follow are counted.
    fn refuse(self: &Rc<Self>, why: &str) {
        if let Some(more) = self.refused.get() {
            return self.refused.set(Some(more + 1));
        }
        (self.report)(why);
        self.refused.set(Some(0));
        let server = self.clone();
        spawn(async move {
            sleep(REFUSAL_INTERVAL).await;
            server.report_refused();
        })
        .detach();
    }

    /// Tells how many were refused besides the one that was told of.
    fn report_refused(&self) {
        if let Some(more @ 1..) = self.refused.take() {
            (self.report)(&format!("{more} more clients were refused or sent away so"));
        }
    }

    /// How many clients are here, and how many came so far.
    pub fn clients(&self) -> (usize, u32) {
        (self.clients.borrow().len(), self.connected.get())
    }

    /// What it did so far.
    pub fn served(&self) -> Served {
        self.served.borrow().clone()
    }

    /// Takes no new requests, answers those that were taken, and sends all clients away.
    pub async fn stop(&self) {
        self.stopping.set(true);
        self.report_refused();
        let all = |how| {
            let sockets: Vec<_> = self.clients.borrow().values().cloned().collect();
            for socket in sockets {
                // One that is gone already is as good.
                let _ = shutdown(socket, how);
            }
        };
        all(Shutdown::Read);
        let late = now() + STOP_TIMEOUT;
        while !self.clients.borrow().is_empty() {
            sleep(Nanos::from_millis(2)).await;
            if now() > late {
                all(Shutdown::Both);
            }
        }
    }
}

#[cfg(test)]
mod tests;
