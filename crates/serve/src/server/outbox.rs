//! What a client gets: replies, put together while the ones before are sent; and how much it may hold at once.
//!
//! Invariants: what requests of a client hold, in payload and in reply, until the reply is sent, is at most [`WINDOW`]
//! (or one request); after that its requests are not read. So a client that asks and does not take the answers harms
//! itself.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use seekless_core::runtime::quiet;

use super::tls::Tunnel;
use crate::reactor::{Job, Memory, Reactor, What};

/// Bytes that a client's requests hold at once: two of the largest.
const WINDOW: u64 = 64 << 20;
/// Its requests in flight.
const REQUESTS: u32 = 1024;
/// What a request holds besides its data, or more: bounds the replies without data that wait.
const HEADER: u64 = 64;
/// Memory for replies that is kept for the next ones.
const KEPT: usize = 1 << 20;

/// See the file's header.
#[derive(Default)]
pub struct Outbox {
    /// What is to be sent, and what its requests hold.
    pending: RefCell<Vec<u8>>,
    pending_held: Cell<(u64, u32)>,
    /// Held by all requests that were read and whose reply was not sent.
    held: Cell<(u64, u32)>,
    /// The other end takes nothing more.
    closed: Cell<bool>,
    /// Nothing more will be put in.
    complete: Cell<bool>,
    writer: RefCell<Option<Waker>>,
    reader: RefCell<Option<Waker>>,
}

impl Outbox {
    /// Waits until a request that moves `bytes` may be taken; it holds them from then on.
    pub async fn hold(&self, bytes: u64) {
        let bytes = bytes + HEADER;
        self.reader_until(|(held, requests)| {
            requests == 0 || held + bytes <= WINDOW && requests < REQUESTS || self.closed.get()
        })
        .await;
        let (held, requests) = self.held.get();
        self.held.set((held + bytes, requests + 1));
    }

    /// Puts a reply in; its request, which moved `bytes`, holds them until it is sent.
    pub fn reply(&self, bytes: u64, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.closed.get() {
            write(&mut self.pending.borrow_mut());
        }
        let (held, requests) = self.pending_held.get();
        self.pending_held.set((held + bytes + HEADER, requests + 1));
        self.writer.take().into_iter().for_each(Waker::wake);
    }

    /// Waits until all requests are answered, and the answers are sent or never will be.
    pub async fn answered(&self) {
        self.reader_until(|(_, requests)| requests == 0).await;
        self.complete.set(true);
        self.writer.take().into_iter().for_each(Waker::wake);
    }

    /// Whether the other end takes nothing more.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    async fn reader_until(&self, holds: impl Fn((u64, u32)) -> bool) {
        poll_fn(|context| {
            if holds(self.held.get()) {
                return Poll::Ready(());
            }
            self.reader.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    fn released(&self, (bytes, requests): (u64, u32)) {
        let (held, all) = self.held.get();
        self.held.set((held - bytes, all - requests));
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    /// Sends what is put in, until that is complete.
    pub async fn send(
        self: Rc<Self>,
        reactor: Rc<Reactor>,
        socket: Arc<OwnedFd>,
        tunnel: Option<Rc<Tunnel>>,
    ) {
        let mut spare = Vec::new();
        loop {
            let some = poll_fn(|context| {
                if self.pending_held.get().1 > 0 {
                    return Poll::Ready(true);
                }
                if self.complete.get() {
                    return Poll::Ready(false);
                }
                self.writer.replace(Some(context.waker().clone()));
                Poll::Pending
            });
            if !some.await {
                return;
            }
            // All that is answered in this turn goes together.
            quiet().await;
            let bytes = self.pending.replace(spare);
            let held = self.pending_held.take();
            let bytes = match &tunnel {
                Some(tunnel) => tunnel.seal(&bytes),
                None => bytes,
            };
            spare = if self.closed.get() { bytes } else { self.send_now(&reactor, &socket, bytes).await };
            spare.clear();
            if spare.capacity() > KEPT {
                spare = Vec::new();
            }
            self.released(held);
        }
    }

    async fn send_now(&self, reactor: &Rc<Reactor>, socket: &Arc<OwnedFd>, bytes: Vec<u8>) -> Vec<u8> {
        let len = bytes.len();
        let done = reactor.ask(Job::new(What::Send, socket, Memory::of(bytes))).await;
        if !done.result.is_ok_and(|sent| sent == len) {
            self.closed.set(true);
            // Its requests are of no use any more: they are not waited for either.
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
        done.memory.into_bytes()
    }
}
