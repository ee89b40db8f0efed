//! Buffers: pieces of (owner, range), cut and joined without copying.
//!
//! An owner is heap memory or *hollow*: a length and no bytes, for runs that only measure time.
//! Real and hollow pieces mix in one buffer, because metadata is always real. A live server adds
//! owners of its own (a reactor's registered pool, guest memory).
//!
//! Invariants: a piece never reaches past its owner; a buffer's length is the sum of its pieces.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use crate::units::{Extent, SECTOR_BYTES};

/// Data, real or hollow, on their way to or from a device.
#[derive(Clone, Default)]
pub struct Buffer {
    pieces: Pieces,
}

/// Nearly every buffer is one piece; that one needs no allocation.
#[derive(Clone)]
enum Pieces {
    One(Piece),
    Many(Vec<Piece>),
}

impl Default for Pieces {
    fn default() -> Self {
        Pieces::One(Piece { owner: Owner::Hollow, start: 0, len: 0 })
    }
}

#[derive(Clone)]
struct Piece {
    owner: Owner,
    start: usize,
    len: usize,
}

#[derive(Clone)]
enum Owner {
    Hollow,
    Heap(Rc<RefCell<Box<[u8]>>>),
}

impl Piece {
    fn is_hollow(&self) -> bool {
        matches!(self.owner, Owner::Hollow)
    }
}

impl Buffer {
    /// A buffer of `bytes` bytes without content.
    pub fn hollow(bytes: u64) -> Buffer {
        Buffer::of(Owner::Hollow, 0, bytes as usize)
    }

    /// A hollow buffer of `sectors` sectors.
    pub fn hollow_sectors(sectors: u64) -> Buffer {
        Buffer::hollow(sectors * SECTOR_BYTES)
    }

    /// A real buffer of zeroes.
    pub fn zeroed(bytes: u64) -> Buffer {
        Buffer::from_vec(vec![0; bytes as usize])
    }

    /// A real buffer with these bytes.
    pub fn from_vec(bytes: Vec<u8>) -> Buffer {
        let len = bytes.len();
        Buffer::of(Owner::Heap(Rc::new(RefCell::new(bytes.into_boxed_slice()))), 0, len)
    }

    fn of(owner: Owner, start: usize, len: usize) -> Buffer {
        Buffer { pieces: Pieces::One(Piece { owner, start, len }) }
    }

    fn pieces(&self) -> &[Piece] {
        match &self.pieces {
            Pieces::One(piece) => std::slice::from_ref(piece),
            Pieces::Many(pieces) => pieces,
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len).sum()
    }

    /// Whether it has no length.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no piece has bytes.
    pub fn is_hollow(&self) -> bool {
        self.pieces().iter().all(Piece::is_hollow)
    }

    /// Whether every piece has bytes.
    pub fn is_real(&self) -> bool {
        self.pieces().iter().all(|piece| matches!(piece.owner, Owner::Heap(_)))
    }

    /// The part from `start`, `len` bytes long, sharing the owners' bytes.
    ///
    /// # Panics
    /// If the part reaches past the end: the caller has mixed up two requests.
    pub fn cut(&self, start: usize, len: usize) -> Buffer {
        assert!(start + len <= self.len(), "cut {start}+{len} of a buffer of {} bytes", self.len());
        if let (Pieces::One(piece), true) = (&self.pieces, len > 0) {
            return Buffer::of(piece.owner.clone(), piece.start + start, len);
        }
        let (mut skip, mut left, mut out) = (start, len, Vec::new());
        for piece in self.pieces() {
            if skip >= piece.len {
                skip -= piece.len;
                continue;
            }
            let take = left.min(piece.len - skip);
            if take > 0 {
                out.push(Piece { owner: piece.owner.clone(), start: piece.start + skip, len: take });
            }
            (skip, left) = (0, left - take);
        }
        Buffer::joined(out)
    }

    /// The part that holds sectors `first..first + sectors`.
    pub fn cut_sectors(&self, first: u64, sectors: u64) -> Buffer {
        self.cut((first * SECTOR_BYTES) as usize, (sectors * SECTOR_BYTES) as usize)
    }

    /// Splits `at` at multiples of `every` sectors, with the part of this buffer, which is all of `at`'s, for each.
    pub fn split(&self, at: Extent, every: u64) -> impl Iterator<Item = (Extent, Buffer)> {
        at.split(every).map(move |part| (part, self.cut_sectors(part.start.0 - at.start.0, part.sectors)))
    }

    /// This buffer with `part` in place of its sectors from `first` on, sharing the owners' bytes.
    pub fn with_sectors(&self, first: u64, part: Buffer) -> Buffer {
        let start = (first * SECTOR_BYTES) as usize;
        let end = start + part.len();
        Buffer::join([self.cut(0, start), part, self.cut(end, self.len() - end)])
    }

    /// Several buffers one after the other, sharing the owners' bytes.
    pub fn join(parts: impl IntoIterator<Item = Buffer>) -> Buffer {
        let pieces = parts.into_iter().flat_map(|part| match part.pieces {
            Pieces::One(piece) => vec![piece],
            Pieces::Many(pieces) => pieces,
        });
        let mut joined: Vec<Piece> = Vec::new();
        for piece in pieces.filter(|piece| piece.len > 0) {
            match joined.last_mut() {
                // Otherwise cutting a long hollow buffer would look at every page of it.
                Some(last) if last.is_hollow() && piece.is_hollow() => last.len += piece.len,
                _ => joined.push(piece),
            }
        }
        Buffer::joined(joined)
    }

    fn joined(mut pieces: Vec<Piece>) -> Buffer {
        match pieces.len() {
            0 => Buffer::default(),
            1 => Buffer { pieces: pieces.pop().map_or_else(Pieces::default, Pieces::One) },
            _ => Buffer { pieces: Pieces::Many(pieces) },
        }
    }

    /// Calls `each(offset, len, bytes)` for every piece, in order; `bytes` is `None` where hollow.
    pub fn for_each(&self, mut each: impl FnMut(usize, usize, Option<&[u8]>)) {
        let mut offset = 0;
        for piece in self.pieces() {
            match &piece.owner {
                Owner::Hollow => each(offset, piece.len, None),
                Owner::Heap(bytes) => {
                    each(offset, piece.len, Some(&bytes.borrow()[piece.start..piece.start + piece.len]));
                }
            }
            offset += piece.len;
        }
    }

    /// Writes `bytes` at `offset`; hollow pieces stay hollow. Bytes past the end are dropped.
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        let mut at = 0;
        for piece in self.pieces() {
            let (from, to) = (at.max(offset), (at + piece.len).min(offset + bytes.len()));
            if let Owner::Heap(owner) = &piece.owner {
                if from < to {
                    let target = piece.start + from - at;
                    owner.borrow_mut()[target..target + to - from]
                        .copy_from_slice(&bytes[from - offset..to - offset]);
                }
            }
            at += piece.len;
        }
    }

    /// Calls `look` with all bytes, zeroes where hollow: without a copy if they are one piece.
    pub fn look<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        match &self.pieces {
            Pieces::One(Piece { owner: Owner::Heap(bytes), start, len }) => {
                look(&bytes.borrow()[*start..*start + *len])
            }
            _ => look(&self.to_vec()),
        }
    }

    /// All bytes, zeroes where hollow; not copied if the buffer is their only owner.
    pub fn into_vec(self) -> Vec<u8> {
        self.reclaim().unwrap_or_else(|shared| shared.to_vec())
    }

    /// The memory itself, for reuse, if it is one piece with no other owner; else the buffer.
    pub fn reclaim(self) -> Result<Vec<u8>, Buffer> {
        match self.pieces {
            Pieces::One(Piece { owner: Owner::Heap(bytes), start: 0, len })
                if Rc::strong_count(&bytes) == 1 && len == bytes.borrow().len() =>
            {
                Ok(bytes.take().into_vec())
            }
            pieces => Err(Buffer { pieces }),
        }
    }

    /// A copy of all bytes, zeroes where hollow.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.len()];
        self.for_each(|offset, len, bytes| {
            if let Some(bytes) = bytes {
                out[offset..offset + len].copy_from_slice(bytes);
            }
        });
        out
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_hollow() {
            "hollow"
        } else if self.is_real() {
            "real"
        } else {
            "mixed"
        };
        write!(f, "Buffer({} bytes, {kind})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_and_joining_share_bytes() {
        let real = Buffer::from_vec((0..100).collect());
        let mixed = Buffer::join([real.cut(10, 20), Buffer::hollow(5), real.cut(0, 10)]);
        assert_eq!((mixed.len(), mixed.is_real(), mixed.is_hollow()), (35, false, false));
        let across = mixed.cut(18, 9);
        assert_eq!(across.to_vec(), [28, 29, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(across.look(<[u8]>::to_vec), across.to_vec());
        assert_eq!(real.cut(10, 2).look(<[u8]>::to_vec), [10, 11]);
        across.put(0, &[7; 9]);
        assert_eq!(real.cut(28, 2).to_vec(), [7, 7], "a cut is a window, not a copy");
        assert_eq!(real.cut(0, 2).to_vec(), [7, 7]);
    }

    #[test]
    fn unshared_memory_is_reclaimed_without_a_copy() {
        let bytes: Vec<u8> = (0..100).collect();
        let at = bytes.as_ptr();
        let whole = Buffer::from_vec(bytes);
        let part = whole.cut(10, 5);
        part.put(0, &[7; 5]);
        let copied = whole.clone().into_vec();
        assert_ne!(copied.as_ptr(), at, "others have it");
        drop(part);
        let bytes = whole.into_vec();
        assert_eq!((bytes.as_ptr(), bytes.len(), &bytes[9..12]), (at, 100, &[9, 7, 7][..]));
        assert_eq!(Buffer::hollow(3).into_vec(), [0; 3]);
    }

    #[test]
    fn a_buffer_is_split_as_its_extent_is() {
        let buffer = Buffer::from_vec((0..3 * 512).map(|byte| (byte / 512) as u8).collect());
        let parts: Vec<_> =
            buffer.split(Extent::new(7, 3), 8).map(|(at, part)| (at, part.to_vec())).collect();
        assert_eq!(parts[0], (Extent::new(7, 1), vec![0; 512]));
        assert_eq!(parts[1], (Extent::new(8, 2), [vec![1; 512], vec![2; 512]].concat()));
        assert_eq!(parts.len(), 2);
        let changed = buffer.with_sectors(1, Buffer::from_vec(vec![9; 512]));
        assert_eq!(changed.to_vec(), [vec![0; 512], vec![9; 512], vec![2; 512]].concat());
        assert_eq!(buffer.with_sectors(0, Buffer::hollow(3 * 512)).len(), 3 * 512);
    }

    #[test]
    fn hollow_buffers_take_and_give_nothing() {
        let hollow = Buffer::hollow(8);
        hollow.put(2, &[1, 2, 3]);
        assert_eq!(hollow.to_vec(), [0; 8]);
        assert!(Buffer::default().is_empty());
    }

    #[test]
    #[should_panic(expected = "cut 4+5 of a buffer of 8 bytes")]
    fn a_cut_past_the_end_is_a_broken_invariant() {
        Buffer::hollow(8).cut(4, 5);
    }
}
