//! What a client sends: received in large pieces, taken in small ones.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use super::tls::Tunnel;
use crate::reactor::{Job, Memory, Reactor, What};

/// Bytes that are received at once, at most.
const PIECE: usize = 128 << 10;

/// See the file's header.
pub struct Input {
    reactor: Rc<Reactor>,
    socket: Arc<OwnedFd>,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// What comes is encrypted, and received here first.
    tunnel: Option<(Rc<Tunnel>, Vec<u8>)>,
}

impl Input {
    /// Nothing came yet.
    pub fn new(reactor: &Rc<Reactor>, socket: &Arc<OwnedFd>) -> Input {
        let (reactor, socket, bytes) = (reactor.clone(), socket.clone(), vec![0; PIECE]);
        Input { reactor, socket, bytes, start: 0, end: 0, tunnel: None }
    }

    /// What came and was not taken.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The first bytes of that are done with.
    pub fn take(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// What comes from now on is encrypted.
    pub fn decrypt(&mut self, tunnel: Rc<Tunnel>) {
        self.tunnel = Some((tunnel, vec![0; PIECE]));
    }

    /// Receives once through the tunnel, which may give nothing yet; false if nothing more will come.
    pub async fn unseal(&mut self) -> io::Result<bool> {
        let Some((tunnel, sealed)) = &mut self.tunnel else { return Ok(false) };
        let memory = Memory::of(std::mem::take(sealed));
        let done = self.reactor.ask(Job::new(What::Receive, &self.socket, memory)).await;
        *sealed = done.memory.into_bytes();
        let received = done.result?;
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        self.bytes.truncate(self.end);
        tunnel.take(&sealed[..received], &mut self.bytes).map_err(io::Error::other)?;
        self.end = self.bytes.len();
        Ok(received > 0)
    }

    /// Waits for more; false if nothing more will come.
    pub async fn more(&mut self) -> io::Result<bool> {
        if self.tunnel.is_some() {
            let before = self.rest().len();
            while self.rest().len() == before && self.unseal().await? {}
            return Ok(!self.rest().is_empty());
        }
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let room = self.end..PIECE;
        assert!(!room.is_empty(), "what does not fit into {PIECE} bytes was not taken");
        let memory = Memory::of(std::mem::take(&mut self.bytes)).cut(room);
        let done = self.reactor.ask(Job::new(What::Receive, &self.socket, memory)).await;
        self.bytes = done.memory.into_bytes();
        self.end += done.result?;
        Ok(self.end > self.start)
    }

    /// The next `len` bytes; `None` if they will not all come.
    pub async fn exactly(&mut self, len: usize) -> io::Result<Option<Vec<u8>>> {
        self.fill(Vec::with_capacity(len), len).await
    }

    /// The same in memory that there is, whatever it holds.
    pub async fn fill(&mut self, mut bytes: Vec<u8>, len: usize) -> io::Result<Option<Vec<u8>>> {
        let here = self.rest().len().min(len);
        bytes.clear();
        bytes.extend_from_slice(&self.rest()[..here]);
        self.take(here);
        while self.tunnel.is_some() && bytes.len() < len {
            if !self.more().await? || self.rest().is_empty() {
                return Ok(None);
            }
            let here = self.rest().len().min(len - bytes.len());
            bytes.extend_from_slice(&self.rest()[..here]);
            self.take(here);
        }
        let mut got = bytes.len();
        bytes.resize(len, 0);
        while got < len {
            let memory = Memory::of(bytes).cut(got..len);
            let done = self.reactor.ask(Job::new(What::Receive, &self.socket, memory)).await;
            bytes = done.memory.into_bytes();
            match done.result? {
                0 => return Ok(None),
                received => got += received,
            }
        }
        Ok(Some(bytes))
    }

    /// Passes over the next `len` bytes; false if they will not all come.
    pub async fn pass_over(&mut self, mut len: u64) -> io::Result<bool> {
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
