//! The send queue of a client: replies are collected while earlier ones are sent; and a limit on the memory that its
//! requests hold.
//!
//! Invariants: the requests of a client hold, in payloads and replies not yet sent, at most [`WINDOW`] (or one
//! request), and no more than the [`Budget`] of all clients allows; beyond that no more of its requests are read. So a
//! client that does not receive its replies harms only itself.

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
use crate::reactor::{Job, Memory, Op, Reactor};
use crate::wire::Tunnel;

/// Bytes that a client's requests may hold at once: two of the largest.
const WINDOW: u64 = 64 << 20;
/// Requests in flight per client.
const REQUESTS: u32 = 1024;
/// Bytes that a request counts for besides its data: limits queued replies without data.
const HEADER: u64 = 64;
/// Bytes of the buffer for small replies that is kept for reuse.
const SPARE_BYTES: usize = 1 << 20;

/// Bytes of large buffers kept for reuse.
const SPARE_LARGE_BYTES: usize = 4 << 20;
/// Bytes of request buffers kept for reuse.
const SPARE_SMALL_BYTES: usize = 256 << 10;
/// Bytes reserved for the header before a large reply's data, which so is aligned for fast copies.
pub const ROOM: usize = 64;

/// A large reply: room for a header, then data. Sent from `start` to `end`.
pub struct Large {
    pub bytes: Vec<u8>,
    pub start: usize,
    pub end: usize,
}

/// Memory that requests hold.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    bytes: u64,
    requests: u32,
}

/// See the file's header.
#[derive(Default)]
pub struct SendQueue {
    budget: Rc<Budget>,
    peer: Peer,
    /// Replies to be sent: small ones concatenated, large ones as they are.
    pending: RefCell<Vec<u8>>,
    large: RefCell<Vec<Large>>,
    /// Held by the requests of these replies.
    pending_held: Cell<Held>,
    /// Held by all requests, from receiving a request to sending its reply.
    held: Cell<Held>,
    /// Whether the peer receives nothing more.
    closed: Cell<bool>,
    /// Whether no more replies will be queued.
    no_more: Cell<bool>,
    /// The task that sends replies, while it waits for one.
    sender: RefCell<Option<Waker>>,
    /// The task that receives requests, while it waits until less is held.
    receiver: RefCell<Option<Waker>>,
    /// Buffers of large replies for reuse, for the same client only.
    spare_large: RefCell<Vec<Vec<u8>>>,
    /// Buffers of requests for reuse, of the same client only.
    spare: RefCell<Vec<Vec<u8>>>,
}

impl SendQueue {
    /// The send queue of a client of `peer`, within `budget`.
    pub fn new(budget: &Rc<Budget>, peer: Peer) -> Rc<SendQueue> {
        Rc::new(SendQueue { budget: budget.clone(), peer, ..SendQueue::default() })
    }

    /// Waits until a request of `bytes` bytes is within the limits, and counts it. False if the peer receives nothing
    /// more: then it is not counted.
    pub async fn admit(&self, bytes: u64) -> bool {
        poll_fn(|context| {
            if self.closed.get() || self.grow(bytes + HEADER, 1) {
                return Poll::Ready(!self.closed.get());
            }
            self.receiver.replace(Some(context.waker().clone()));
            self.budget.wake_on_shrink(context.waker());
            Poll::Pending
        })
        .await
    }

    /// Lets a request hold `bytes` more, if the limits allow it now.
    pub fn grow_request(&self, bytes: u64) -> bool {
        self.grow(bytes, 0)
    }

    /// Lets a request hold `bytes` less.
    pub fn shrink_request(&self, bytes: u64) {
        self.release(Held { bytes, requests: 0 });
    }

    fn grow(&self, bytes: u64, new_requests: u32) -> bool {
        let now = self.held.get();
        let then = Held { bytes: now.bytes + bytes, requests: now.requests + new_requests };
        let fits = now.requests == 0 || then.bytes <= WINDOW && then.requests <= REQUESTS;
        let fits = fits && self.budget.grow(self.peer, now.bytes, then.bytes);
        if fits {
            self.held.set(then);
        }
        fits
    }

    /// Queues a small reply; its request holds `bytes` until it is sent.
    pub fn reply(&self, bytes: u64, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.closed.get() {
            write(&mut self.pending.borrow_mut());
        }
        self.enqueue(bytes);
    }

    /// Releases the memory of a request that gets no reply, after the replies before it.
    pub fn reply_nothing(&self, bytes: u64) {
        self.enqueue(bytes);
    }

    /// Queues a large reply without copying it, after the chunks that `write` appends.
    pub fn reply_large(&self, bytes: u64, write: impl FnOnce(&mut Vec<u8>), reply: Large) {
        if !self.closed.get() {
            write(&mut self.pending.borrow_mut());
            self.large.borrow_mut().push(reply);
        }
        self.enqueue(bytes);
    }

    fn enqueue(&self, bytes: u64) {
        let Held { bytes: before, requests } = self.pending_held.get();
        self.pending_held.set(Held { bytes: before + bytes + HEADER, requests: requests + 1 });
        self.sender.take().into_iter().for_each(Waker::wake);
    }

    /// A buffer for a large reply of `data` bytes; it may contain data sent to this client before.
    pub fn memory_large(&self, data: usize) -> Vec<u8> {
        let spare = self.spare_large.borrow_mut().pop().filter(|spare| spare.len() == ROOM + data);
        spare.unwrap_or_else(|| vec![0; ROOM + data])
    }

    /// Returns a buffer that was not needed for a large reply.
    pub fn keep_large(&self, memory: Vec<u8>) {
        keep(&self.spare_large, memory, SPARE_LARGE_BYTES);
    }

    /// A buffer for a request's data; it may contain older data of this client.
    pub fn memory(&self, len: usize) -> Vec<u8> {
        let spare = self.spare.borrow_mut().pop().filter(|spare| spare.len() == len);
        spare.unwrap_or_else(|| vec![0; len])
    }

    /// Returns a request's buffer.
    pub fn keep(&self, data: Buffer) {
        if let Ok(memory) = data.reclaim() {
            keep(&self.spare, memory, SPARE_SMALL_BYTES);
        }
    }

    /// Waits until all requests are answered, and the replies are sent or never will be.
    pub async fn drained(&self) {
        poll_fn(|context| {
            if self.held.get().requests == 0 {
                return Poll::Ready(());
            }
            self.receiver.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
        self.no_more.set(true);
        self.sender.take().into_iter().for_each(Waker::wake);
    }

    /// Whether the peer receives nothing more.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    fn release(&self, what: Held) {
        let now = self.held.get();
        let then = Held { bytes: now.bytes - what.bytes, requests: now.requests - what.requests };
        self.held.set(then);
        self.budget.shrink(self.peer, now.bytes, then.bytes);
        self.receiver.take().into_iter().for_each(Waker::wake);
    }

    /// Sends queued replies, until the queue is drained.
    pub async fn send(
        self: Rc<Self>,
        reactor: Rc<Reactor>,
        socket: Arc<OwnedFd>,
        tunnel: Option<Rc<Tunnel>>,
    ) {
        let mut spare = Vec::new();
        loop {
            let some = poll_fn(|context| {
                if self.pending_held.get().requests > 0 {
                    return Poll::Ready(true);
                }
                if self.no_more.get() {
                    return Poll::Ready(false);
                }
                self.sender.replace(Some(context.waker().clone()));
                Poll::Pending
            });
            if !some.await {
                return;
            }
            // All replies of this instant go together.
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

    /// Sends a part, unless the peer receives nothing more; returns the buffer.
    async fn send_now(&self, channel: &Channel<'_>, bytes: Vec<u8>, part: Range<usize>) -> Vec<u8> {
        if self.closed.get() {
            return bytes;
        }
        // The plain buffer is kept for reuse: the sealed one has another size.
        let (memory, kept) = match channel.tunnel {
            Some(tunnel) => (Memory::of(tunnel.seal(&bytes[part])), Some(bytes)),
            None => (Memory::of(bytes).cut(part), None),
        };
        let len = memory.part().len();
        let done = channel.reactor.submit(Job::new(Op::Send, channel.socket, memory)).await;
        if !done.result.is_ok_and(|sent| sent == len) {
            self.closed.set(true);
            // Its requests are of no use any more, so stop receiving them.
            let _ = rustix::net::shutdown(channel.socket, rustix::net::Shutdown::Both);
        }
        kept.unwrap_or_else(|| done.memory.into_bytes())
    }
}

/// Keeps a buffer for reuse, within `most` bytes in all.
fn keep(spare: &RefCell<Vec<Vec<u8>>>, memory: Vec<u8>, most: usize) {
    let mut spare = spare.borrow_mut();
    if (spare.len() + 1) * memory.len() <= most {
        spare.push(memory);
    }
}

/// The connection to the client.
struct Channel<'a> {
    reactor: &'a Rc<Reactor>,
    socket: &'a Arc<OwnedFd>,
    tunnel: Option<&'a Tunnel>,
}
