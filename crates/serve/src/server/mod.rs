//! The NBD server: listens, and serves each client in a task of the volume's own thread.
//!
//! Invariants: memory is bounded per client, whatever it does (`send_queue`), and over all clients (`budget`); no
//! peer takes all slots (`client_slots`); requests in flight are shared fairly between clients by the top of the
//! volume ([`seekless_core::Top`]). A received request is carried out even if its client disconnects. Fault model:
//! clients are slow, vanish, or send anything; that ends them and affects no other client.

mod address;
mod budget;
mod byte_adapter;
mod client;
mod client_slots;
mod control;
mod export;
mod http;
mod listener;
mod peer;
mod request;
mod send_queue;
mod status;
#[cfg(feature = "vhost")]
mod vm;
#[cfg(not(feature = "vhost"))]
#[path = "no_vm.rs"]
mod vm;
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
use crate::wire::Keys;
use budget::Budget;
use client_slots::{ClientSlots, Handshakes};
use peer::Peer;

pub use address::{Address, AddressError};
pub use byte_adapter::{ByteAdapter, ByteRange, UnalignedPermit};
pub use client_slots::CLIENTS;
pub use control::{ControlReply, Reply, control};
pub use export::Export;
pub use http::metrics;
pub use listener::{ListenError, Listener};
pub use status::OriginPlace;

/// How long a stopping server waits for clients to receive their last replies.
const STOP_TIMEOUT: Nanos = Nanos::from_millis(5_000);
/// After a refusal is reported, further ones are counted for this long and reported as a number.
const REFUSAL_INTERVAL: Nanos = Nanos::from_millis(1_000);

/// Statistics of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests answered.
    pub requests: u64,
    /// Requests answered with an error.
    pub failed: u64,
    /// Bytes read by clients.
    pub read_bytes: u64,
    /// Bytes written by clients.
    pub written_bytes: u64,
}

/// What a listening socket offers to clients.
struct Offer {
    exports: Vec<Export>,
    /// Keys, if everything is encrypted.
    keys: Option<Keys>,
}

impl Offer {
    /// The exports that there are now: each, and its snapshots and clones.
    fn exports(&self) -> Vec<Export> {
        let snapshots = self.exports.iter().flat_map(Export::snapshots);
        self.exports.iter().map(Export::now).chain(snapshots).collect()
    }
}

/// See the file's header.
pub struct Server {
    reactor: Rc<Reactor>,
    /// Sockets of connected clients, by number.
    clients: RefCell<BTreeMap<u32, Arc<OwnedFd>>>,
    connected: Cell<u32>,
    slots: Rc<ClientSlots>,
    handshakes: Handshakes,
    budget: Rc<Budget>,
    /// Clients refused since the last report, if that was less than [`REFUSAL_INTERVAL`] ago.
    refused: Cell<Option<u32>>,
    served: RefCell<Served>,
    /// Whether the server accepts no new clients and requests any more.
    stopping: Cell<bool>,
    /// Gets a line for each problem with a client.
    report: Box<dyn Fn(&str)>,
}

impl Server {
    /// A server without exports, for up to `clients` clients; `report` gets a line for each client that is refused or
    /// disconnected.
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

    /// Serves `exports` to clients of `listener`, from now on; with `keys`, encrypted and only to clients with
    /// certificates.
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
                    // Out of descriptors, or the client disconnected already.
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
            self.report_refusal(&why);
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

    /// A client is refused: the first is reported immediately, further ones are counted.
    fn report_refusal(self: &Rc<Self>, why: &str) {
        if let Some(more) = self.refused.get() {
            return self.refused.set(Some(more + 1));
        }
        (self.report)(why);
        self.refused.set(Some(0));
        let server = self.clone();
        spawn(async move {
            sleep(REFUSAL_INTERVAL).await;
            server.report_refusal_count();
        })
        .detach();
    }

    /// Reports the number of refused clients since the last report.
    fn report_refusal_count(&self) {
        if let Some(more @ 1..) = self.refused.take() {
            (self.report)(&format!("{more} more clients were refused or disconnected"));
        }
    }

    /// Number of connected clients, and of all that connected so far.
    pub fn clients(&self) -> (usize, u32) {
        (self.clients.borrow().len(), self.connected.get())
    }

    /// Statistics so far.
    pub fn served(&self) -> Served {
        self.served.borrow().clone()
    }

    /// Accepts no new requests, answers those that were received, and disconnects all clients.
    pub async fn stop(&self) {
        self.stopping.set(true);
        self.report_refusal_count();
        let all = |how| {
            let sockets: Vec<_> = self.clients.borrow().values().cloned().collect();
            for socket in sockets {
                // Fails only if it is disconnected already.
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
