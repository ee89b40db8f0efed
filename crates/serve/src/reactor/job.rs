//! A job for the kernel: an operation, its file or socket, and its memory.

use std::ops::{Deref, DerefMut, Range};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::pool::Piece;

/// Alignment of memory for direct I/O, for any device.
pub const ALIGNED: usize = 4096;

/// Owner of the bytes.
#[derive(Debug)]
enum Owner {
    Heap(Vec<u8>),
    Pool(Piece),
}

impl Default for Owner {
    fn default() -> Owner {
        Owner::Heap(Vec::new())
    }
}

impl Deref for Owner {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Owner::Heap(bytes) => bytes,
            Owner::Pool(piece) => piece,
        }
    }
}

impl DerefMut for Owner {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Owner::Heap(bytes) => bytes,
            Owner::Pool(piece) => piece,
        }
    }
}

/// Bytes that a job reads into or writes from.
#[derive(Debug, Default)]
pub struct Memory {
    bytes: Owner,
    /// The part that the job works on.
    part: Range<usize>,
}

impl Memory {
    /// All of `bytes`.
    pub fn of(bytes: Vec<u8>) -> Memory {
        let part = 0..bytes.len();
        Memory { bytes: Owner::Heap(bytes), part }
    }

    /// A piece of the reactor's pool.
    pub(super) fn pooled(piece: Piece) -> Memory {
        let part = 0..piece.len();
        Memory { bytes: Owner::Pool(piece), part }
    }

    /// Whether it is from a reactor's pool.
    pub fn is_pooled(&self) -> bool {
        matches!(self.bytes, Owner::Pool(_))
    }

    /// `len` bytes, aligned for direct I/O.
    pub fn aligned(len: usize) -> Memory {
        let bytes = vec![0; len + ALIGNED];
        let start = bytes.as_ptr().align_offset(ALIGNED);
        Memory { bytes: Owner::Heap(bytes), part: start..start + len }
    }

    /// Restricts the part, counted from its beginning so far.
    ///
    /// # Panics
    /// When it reaches past the end of the memory: the caller has mixed up two requests.
    pub fn cut(mut self, part: Range<usize>) -> Memory {
        let start = self.part.start;
        assert!(start + part.end <= self.bytes.len(), "a part past the end of its memory");
        self.part = start + part.start..start + part.end;
        self
    }

    /// Extends the part by `before` bytes at its beginning, which a cut left out.
    pub fn back(mut self, before: usize) -> Memory {
        self.part.start -= before;
        self
    }

    /// The bytes of the part.
    pub fn part(&self) -> &[u8] {
        &self.bytes[self.part.clone()]
    }

    /// The bytes of the part.
    pub fn part_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.part.clone()]
    }

    /// All bytes, regardless of the part; those of the pool as a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.bytes {
            Owner::Heap(bytes) => bytes,
            Owner::Pool(piece) => piece.to_vec(),
        }
    }
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read at this offset of a file.
    Read(u64),
    /// Write at this offset of a file.
    Write(u64),
    /// Write at this offset of a file, durable on completion.
    WriteThrough(u64),
    /// Make the writes to a file durable.
    Sync,
    /// Deallocate a part of a file, which then reads as zeroes.
    Punch {
        /// First byte.
        at: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Zero a part of a file.
    Zero {
        /// First byte.
        at: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Receive from a socket: at least one byte unless it ended.
    Receive,
    /// Send all to a socket; fewer bytes only with an error.
    Send,
    /// Accept a client at a listening socket.
    Accept,
    /// Wait until a socket or an event counter can be read, or has ended.
    Ready,
}

impl Op {
    /// Whether it waits for the peer of a socket.
    pub fn is_of_socket(self) -> bool {
        matches!(self, Op::Receive | Op::Send | Op::Accept | Op::Ready)
    }
}

/// A job for the kernel.
#[derive(Debug)]
pub struct Job {
    /// Operation.
    pub op: Op,
    /// File or socket.
    pub to: Arc<OwnedFd>,
    /// Memory of the transfer, if any.
    pub memory: Memory,
    /// Bytes transferred already.
    pub(super) moved: usize,
}

impl Job {
    /// A job that transfers bytes.
    pub fn new(op: Op, to: &Arc<OwnedFd>, memory: Memory) -> Job {
        Job { op, to: to.clone(), memory, moved: 0 }
    }

    /// A job without a transfer.
    pub fn without(op: Op, to: &Arc<OwnedFd>) -> Job {
        Job::new(op, to, Memory::default())
    }
}
