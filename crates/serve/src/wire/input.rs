//! A buffered reader of a socket: large receives, small takes.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, select};
use rustix::net::{Shutdown, shutdown};
use seekless_core::Nanos;
use seekless_core::runtime::sleep_until;

use super::tls::Tunnel;
use crate::reactor::{Job, Memory, Op, Reactor};

/// Bytes of the buffer. Long pieces are received into the memory of the caller instead ([`Input::fill`]).
const BUFFER_BYTES: usize = 128 << 10;

/// See the file's header.
pub struct Input {
    reactor: Rc<Reactor>,
    socket: Arc<OwnedFd>,
    /// The buffer; bytes from `start` to `end` are received and not taken.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The tunnel of an encrypted connection, and the buffer of encrypted bytes.
    tunnel: Option<(Rc<Tunnel>, Vec<u8>)>,
    /// Deadline for more bytes.
    until: Option<Nanos>,
}

impl Input {
    /// An empty buffer.
    pub fn new(reactor: &Rc<Reactor>, socket: &Arc<OwnedFd>) -> Input {
        let (reactor, socket, bytes) = (reactor.clone(), socket.clone(), vec![0; BUFFER_BYTES]);
        Input { reactor, socket, bytes, start: 0, end: 0, tunnel: None, until: None }
    }

    /// Bytes received and not taken.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Takes this many bytes.
    pub fn take(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Sets or clears a deadline: if nothing arrives until then, the wait fails, and nothing more can be received.
    pub fn expect(&mut self, until: Option<Nanos>) {
        self.until = until;
    }

    /// Ends the connection, in both directions.
    pub fn disconnect(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Receives once.
    async fn receive(&self, memory: Memory) -> io::Result<(usize, Memory)> {
        let received = self.reactor.submit(Job::new(Op::Receive, &self.socket, memory));
        let done = match self.until {
            None => received.await,
            Some(until) => match select(received, pin!(sleep_until(until))).await {
                Either::Left((done, _)) => done,
                Either::Right(_) => return Err(io::ErrorKind::TimedOut.into()),
            },
        };
        Ok((done.result?, done.memory))
    }

    /// Decrypts from now on.
    pub fn decrypt(&mut self, tunnel: Rc<Tunnel>) {
        self.tunnel = Some((tunnel, vec![0; BUFFER_BYTES]));
    }

    /// Receives once through the tunnel, which may yield nothing yet; false at the end of the stream.
    pub async fn unseal(&mut self) -> io::Result<bool> {
        let Some((tunnel, sealed)) = &mut self.tunnel else { return Ok(false) };
        let (tunnel, memory) = (tunnel.clone(), Memory::of(std::mem::take(sealed)));
        let (received, memory) = self.receive(memory).await?;
        let sealed = memory.into_bytes();
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        self.bytes.truncate(self.end);
        tunnel.take(&sealed[..received], &mut self.bytes).map_err(io::Error::other)?;
        self.end = self.bytes.len();
        self.tunnel = Some((tunnel, sealed));
        Ok(received > 0)
    }

    /// Waits for more bytes; false at the end of the stream.
    pub async fn more(&mut self) -> io::Result<bool> {
        if self.tunnel.is_some() {
            let before = self.rest().len();
            while self.rest().len() == before && self.unseal().await? {}
            return Ok(!self.rest().is_empty());
        }
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let room = self.end..BUFFER_BYTES;
        assert!(!room.is_empty(), "what does not fit into {BUFFER_BYTES} bytes was not taken");
        let memory = Memory::of(std::mem::take(&mut self.bytes)).cut(room);
        let before = std::mem::take(&mut self.end);
        let (received, memory) = self.receive(memory).await?;
        self.bytes = memory.into_bytes();
        self.end = before + received;
        Ok(self.end > self.start)
    }

    /// The next `len` bytes; `None` if the stream ends before.
    pub async fn exactly(&mut self, len: usize) -> io::Result<Option<Vec<u8>>> {
        self.fill(Vec::new(), 0, len).await
    }

    /// Fills `bytes` up to `len` bytes, after the first `got` that it holds already.
    pub async fn fill(
        &mut self,
        mut bytes: Vec<u8>,
        mut got: usize,
        len: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        bytes.resize(len, 0);
        loop {
            let here = self.rest().len().min(len - got);
            bytes[got..got + here].copy_from_slice(&self.rest()[..here]);
            self.take(here);
            got += here;
            if got == len {
                return Ok(Some(bytes));
            }
            if self.tunnel.is_some() {
                if !self.more().await? || self.rest().is_empty() {
                    return Ok(None);
                }
                continue;
            }
            let (received, memory) = self.receive(Memory::of(bytes).cut(got..len)).await?;
            bytes = memory.into_bytes();
            if received == 0 {
                return Ok(None);
            }
            got += received;
        }
    }

    /// Skips the next `len` bytes; false if the stream ends before.
    pub async fn skip(&mut self, mut len: u64) -> io::Result<bool> {
        loop {
            let here = len.min(self.rest().len() as u64);
            self.take(here as usize);
            len -= here;
            if len == 0 {
                return Ok(true);
            }
            let before = self.rest().len();
            if !self.more().await? || self.rest().len() == before {
                return Ok(false);
            }
        }
    }
}
