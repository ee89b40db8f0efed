//! What a client gets: replies, put together while the ones before are sent; and how much it may hold at once.
//!
//! Invariants: what requests of a client hold, in payload and in reply, until the reply is sent, is at most [`WINDOW`]
//! (or one request), and no more than the [`Budget`] of all clients has left; after that its requests are not read. So a
//! client that asks and does not take the answers harms itself.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use seekless_core::Buffer;
use seekless_core::runtime::quiet;

use super::budget::Budget;
use super::peer::Peer;
use super::tls::Tunnel;
use crate::reactor::{Job, Memory, Op, Reactor};

/// Bytes that a client's requests hold at once: two of the largest.
const WINDOW: u64 = 64 << 20;
/// Its requests in flight.
const REQUESTS: u32 = 1024;
/// What a request holds besides its data, or more: bounds the replies without data that wait.
const HEADER: u64 = 64;
/// Memory for replies that is kept for the next ones.
const SPARE_BYTES: usize = 1 << 20;

/// Of large replies, which are read where they are sent from.
const SPARE_LARGE_BYTES: usize = 4 << 20;
/// Of the data of single requests.
const SPARE_SMALL_BYTES: usize = 256 << 10;
/// Room for the header in front of a large reply's data, which so begins where copies are quick.
pub const ROOM: usize = 64;

/// A large reply: its data behind room for a header. What is sent is from `start` to `end`.
pub struct Large {
    pub bytes: Vec<u8>,
    pub start: usize,
    pub end: usize,
}

/// See the file's header.
#[derive(Default)]
pub struct SendQueue {
    budget: Rc<Budget>,
    peer: Peer,
    /// What is to be sent, and what its requests hold: small replies one behind the other, large ones as they are.
    pending: RefCell<Vec<u8>>,
    large: RefCell<Vec<Large>>,
    pending_held: Cell<(u64, u32)>,
    /// Held by all requests that were read and whose reply was not sent.
    held: Cell<(u64, u32)>,
    /// The other end takes nothing more.
    closed: Cell<bool>,
    /// Nothing more will be put in.
    no_more: Cell<bool>,
    writer: RefCell<Option<Waker>>,
    reader: RefCell<Option<Waker>>,
    /// Memory of large replies that were sent, for the next ones; all to the same client.
    spare_large: RefCell<Vec<Vec<u8>>>,
    /// Memory of requests that were answered, for the next ones; all of the same client.
    spare: RefCell<Vec<Vec<u8>>>,
}

impl SendQueue {
    /// That of a client of this peer, whose requests hold what `budget` allows.
    pub fn new(budget: &Rc<Budget>, peer: Peer) -> Rc<SendQueue> {
        Rc::new(SendQueue { budget: budget.clone(), peer, ..SendQueue::default() })
    }

    /// Waits until a request that moves `bytes` may be taken; it holds them from then on. False if the other end takes
    /// nothing more: then it is not taken.
    pub async fn hold(&self, bytes: u64) -> bool {
        poll_fn(|context| {
            if self.closed.get() || self.grow(bytes + HEADER, 1) {
                return Poll::Ready(!self.closed.get());
            }
            self.reader.replace(Some(context.waker().clone()));
            self.budget.wake(context.waker());
            Poll::Pending
        })
        .await
    }

    /// Lets a request that was taken hold so many bytes more, if that can be at once.
    pub fn grow_request(&self, bytes: u64) -> bool {
        self.grow(bytes, 0)
    }

    /// A request holds so many bytes less.
    pub fn shrink_request(&self, bytes: u64) {
        self.release((bytes, 0));
    }

    fn grow(&self, bytes: u64, new_requests: u32) -> bool {
        let (held, requests) = self.held.get();
        let fits = requests == 0 || held + bytes <= WINDOW && requests + new_requests <= REQUESTS;
        let fits = fits && self.budget.grow(self.peer, held, held + bytes);
        if fits {
            self.held.set((held + bytes, requests + new_requests));
        }
        fits
    }

    /// Puts a reply in; its request, which moved `bytes`, holds them until it is sent.
    pub fn reply(&self, bytes: u64, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.closed.get() {
            write(&mut self.pending.borrow_mut());
        }
        self.enqueue(bytes);
    }

    /// The same for one that is not copied; what `write` puts in goes before it.
    pub fn reply_large(&self, bytes: u64, write: impl FnOnce(&mut Vec<u8>), reply: Large) {
        if !self.closed.get() {
            write(&mut self.pending.borrow_mut());
            self.large.borrow_mut().push(reply);
        }
        self.enqueue(bytes);
    }

    fn enqueue(&self, bytes: u64) {
        let (held, requests) = self.pending_held.get();
        self.pending_held.set((held + bytes + HEADER, requests + 1));
        self.writer.take().into_iter().for_each(Waker::wake);
    }

    /// Memory for a large reply with so much data, in which anything that this client was sent may stand.
    pub fn memory_large(&self, data: usize) -> Vec<u8> {
        let spare = self.spare_large.borrow_mut().pop().filter(|spare| spare.len() == ROOM + data);
        spare.unwrap_or_else(|| vec![0; ROOM + data])
    }

    /// A large reply is not sent from this memory after all.
    pub fn keep_large(&self, memory: Vec<u8>) {
        keep(&self.spare_large, memory, SPARE_LARGE_BYTES);
    }

    /// Memory for the data of a request, in which anything of this client may stand.
    pub fn memory(&self, len: usize) -> Vec<u8> {
        let spare = self.spare.borrow_mut().pop().filter(|spare| spare.len() == len);
        spare.unwrap_or_else(|| vec![0; len])
    }

    /// A request is done with its data.
    pub fn keep(&self, data: Buffer) {
        if let Ok(memory) = data.reclaim() {
            keep(&self.spare, memory, SPARE_SMALL_BYTES);
        }
    }

    /// Waits until all requests are answered, and the answers are sent or never will be.
    pub async fn drained(&self) {
        self.reader_until(|(_, requests)| requests == 0).await;
        self.no_more.set(true);
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

    fn release(&self, (bytes, requests): (u64, u32)) {
        let (held, all) = self.held.get();
        self.held.set((held - bytes, all - requests));
        self.budget.shrink(self.peer, held, held - bytes);
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
                if self.no_more.get() {
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
            let (bytes, large) = (self.pending.replace(spare), self.large.take());
            let held = self.pending_held.take();
            let channel = Channel { reactor: &reactor, socket: &socket, tunnel: tunnel.as_deref() };
            spare = if bytes.is_empty() {
                bytes
            } else {
                let all = 0..bytes.len();
                self.send_now(&channel, bytes, all).await
            };
            spare.clear();
            if spare.capacity() > SPARE_BYTES {
                spare = Vec::new();
            }
            for Large { bytes, start, end } in large {
                let memory = self.send_now(&channel, bytes, start..end).await;
                keep(&self.spare_large, memory, SPARE_LARGE_BYTES);
            }
            self.release(held);
        }
    }

    /// Sends a part, unless the other end takes nothing more; the memory.
    async fn send_now(&self, channel: &Channel<'_>, bytes: Vec<u8>, part: Range<usize>) -> Vec<u8> {
        if self.closed.get() {
            return bytes;
        }
        let (bytes, part) = match channel.tunnel {
            Some(tunnel) => {
                let sealed = tunnel.seal(&bytes[part]);
                let all = 0..sealed.len();
                (sealed, all)
            }
            None => (bytes, part),
        };
        let len = part.len();
        let job = Job::new(Op::Send, channel.socket, Memory::of(bytes).cut(part));
        let done = channel.reactor.submit(job).await;
        if !done.result.is_ok_and(|sent| sent == len) {
            self.closed.set(true);
            // Its requests are of no use any more: they are not waited for either.
            let _ = rustix::net::shutdown(channel.socket, rustix::net::Shutdown::Both);
        }
        done.memory.into_bytes()
    }
}

/// Keeps memory for the next, if all that is kept is no more than `most` bytes then.
fn keep(spare: &RefCell<Vec<Vec<u8>>>, memory: Vec<u8>, most: usize) {
    let mut spare = spare.borrow_mut();
    if (spare.len() + 1) * memory.len() <= most {
        spare.push(memory);
    }
}

/// How bytes get to the client.
struct Channel<'a> {
    reactor: &'a Rc<Reactor>,
    socket: &'a Arc<OwnedFd>,
    tunnel: Option<&'a Tunnel>,
}
