//! A job for the kernel: what is to be done, to which file or socket, with which memory.

use std::ops::{Deref, DerefMut, Range};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::pool::Piece;

/// Direct I/O wants memory that begins at a multiple of this, whatever the device.
pub const ALIGNED: usize = 4096;

/// Whose bytes they are.
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
    /// The part that the job is about.
    part: Range<usize>,
}

impl Memory {
    /// All of these.
    pub fn of(bytes: Vec<u8>) -> Memory {
        let part = 0..bytes.len();
        Memory { bytes: Owner::Heap(bytes), part }
    }

    /// A piece of the reactor's pool.
    pub(super) fn pooled(piece: Piece) -> Memory {
        let part = 0..piece.len();
        Memory { bytes: Owner::Pool(piece), part }
    }

    /// Whether it is of a reactor's pool.
    pub fn is_pooled(&self) -> bool {
        matches!(self.bytes, Owner::Pool(_))
    }

    /// `len` bytes that begin where direct I/O wants it.
    pub fn aligned(len: usize) -> Memory {
        let bytes = vec![0; len + ALIGNED];
        let start = bytes.as_ptr().align_offset(ALIGNED);
        Memory { bytes: Owner::Heap(bytes), part: start..start + len }
    }

    /// Only this part of what there is, counted from the beginning of the part so far.
    ///
    /// # Panics
    /// When it reaches past the end of the memory: the caller has mixed up two requests.
    pub fn cut(mut self, part: Range<usize>) -> Memory {
        let start = self.part.start;
        assert!(start + part.end <= self.bytes.len(), "a part past the end of its memory");
        self.part = start + part.start..start + part.end;
        self
    }

    /// The part with this many bytes before it, which a cut left out.
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

    /// All bytes, whatever the part; those of the pool as a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.bytes {
            Owner::Heap(bytes) => bytes,
            Owner::Pool(piece) => piece.to_vec(),
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read at this offset of a file.
    Read(u64),
    /// Write at this offset of a file.
    Write(u64),
    /// The same, durable when answered.
    WriteThrough(u64),
    /// Make durable what was written to a file.
    Sync,
    /// Give the space of a part of a file back; it reads as zeroes.
    Punch {
        /// From this byte on.
        at: u64,
        /// So many.
        len: u64,
    },
    /// A part of a file reads as zeroes.
    Zero {
        /// From this byte on.
        at: u64,
        /// So many.
        len: u64,
    },
    /// What a socket has, at least a byte unless it ended.
    Receive,
    /// All of it into a socket; less only with an error.
    Send,
    /// The next client of a listening socket.
    Accept,
}

impl Op {
    /// Whether it waits for the other end of a socket.
    pub fn is_of_socket(self) -> bool {
        matches!(self, Op::Receive | Op::Send | Op::Accept)
    }
}

/// A job for the kernel.
#[derive(Debug)]
pub struct Job {
    /// What is to be done.
    pub op: Op,
    /// With what.
    pub to: Arc<OwnedFd>,
    /// Into or from where, if it moves bytes.
    pub memory: Memory,
    /// Bytes that it moved already.
    pub(super) moved: usize,
}

impl Job {
    /// A job that moves bytes.
    pub fn new(op: Op, to: &Arc<OwnedFd>, memory: Memory) -> Job {
        Job { op, to: to.clone(), memory, moved: 0 }
    }

    /// A job that moves none.
    pub fn without(op: Op, to: &Arc<OwnedFd>) -> Job {
        Job::new(op, to, Memory::default())
    }
}
