//! Serves an export to a virtual machine, by vhost-user: a task for the messages, one for each ring.
//!
//! Invariants: one machine at a time has an export's socket, and the next is served once all requests of the one before
//! have ended. Memory is bounded as a client's is ([`super::budget`]). A request that was taken from a ring is carried
//! out and answered even if the machine disconnects meanwhile. Fault model: as [`crate::vhost`]'s; a machine that
//! breaks the protocol is disconnected, a ring that is malformed stops, and either affects nothing else.

mod queue;
mod request;
mod session;
mod socket;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use seekless_core::Nanos;
use seekless_core::runtime::{sleep, spawn};

use super::peer::Peer;
use super::{Export, Listener, Server};
use crate::reactor::{Job, Op};
use session::Session;

/// An export's socket.
#[derive(Default)]
struct Door {
    /// Connection of the machine that was accepted last, until it has ended.
    open: RefCell<Option<Arc<OwnedFd>>>,
    /// Whether requests of a machine may be in flight.
    is_busy: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Door {
    /// Whether a machine is connected. One that has just disconnected is not, though its task may not know that yet.
    fn is_taken(&self) -> bool {
        let open = self.open.borrow();
        open.as_ref().is_some_and(|socket| {
            let mut polled = [PollFd::new(&**socket, PollFlags::RDHUP)];
            let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
            poll(&mut polled, Some(&Timespec::default())).is_ok() && !polled[0].revents().intersects(ended)
        })
    }

    /// This connection has ended.
    fn closed(&self, socket: &Arc<OwnedFd>) {
        let mut open = self.open.borrow_mut();
        if open.as_ref().is_some_and(|other| Arc::ptr_eq(other, socket)) {
            open.take();
        }
    }

    /// Waits until the machine before has no requests in flight.
    async fn enter(&self) {
        poll_fn(|context| {
            if !self.is_busy.get() {
                self.is_busy.set(true);
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn leave(&self) {
        self.is_busy.set(false);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

impl Server {
    /// Serves an export to the virtual machines that connect to `listener`, one at a time.
    pub fn listen_for_machine(self: &Rc<Self>, listener: Listener, export: Export) {
        let (server, export, door) = (self.clone(), Rc::new(export), Rc::new(Door::default()));
        spawn(async move {
            while !server.stopping.get() {
                let done = server.reactor.submit(Job::without(Op::Accept, &listener.socket)).await;
                match done.socket {
                    Some(socket) => server.admit_machine(socket, &export, &door),
                    // Out of descriptors, or it disconnected already.
                    None => sleep(Nanos::from_millis(10)).await,
                }
            }
        })
        .detach();
    }

    fn admit_machine(self: &Rc<Self>, socket: OwnedFd, export: &Rc<Export>, door: &Rc<Door>) {
        if self.stopping.get() {
            return;
        }
        let (peer, name) = (Peer::of(&socket, false), export.info.name.clone());
        if door.is_taken() {
            self.report_refusal(&format!(
                "{peer} is refused: found another virtual machine that is connected to {name}, expected none"
            ));
            return;
        }
        let number = self.connected.get() + 1;
        self.connected.set(number);
        let socket = Arc::new(socket);
        self.clients.borrow_mut().insert(number, socket.clone());
        door.open.replace(Some(socket.clone()));
        let (server, export, door) = (self.clone(), export.clone(), door.clone());
        spawn(async move {
            door.enter().await;
            let session = Session::new(&server, export, number, peer, socket.clone());
            if let Err(why) = session.serve().await {
                (server.report)(&format!("client {number}: virtual machine at {name}: {why}"));
            }
            door.closed(&socket);
            session.stop().await;
            server.clients.borrow_mut().remove(&number);
            door.leave();
        })
        .detach();
    }
}
