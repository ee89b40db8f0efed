//! Memory registered with the kernel, which then need not find and pin its pages at each request.
//!
//! Invariants: a piece is in one job, or with a caller, or here; it returns when it is dropped. The pool has a fixed
//! size: a caller that finds it empty takes ordinary memory. It is never freed, since the kernel may work on a piece
//! for some time after the ring is gone.

use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, PoisonError};

use super::job::ALIGNED;

/// Sizes of pieces in bytes, and their numbers: 4 MiB in all, half of the default limit of locked memory (`ulimit -l`),
/// with as many small pieces as a device takes requests.
const PIECES: [(usize, usize); 2] = [(16 << 10, 128), (128 << 10, 16)];

/// Free pieces of a size.
type FreePieces = Arc<Mutex<Vec<&'static mut [u8]>>>;

/// See the file's header.
pub struct Pool {
    whole: Range<usize>,
    free: [(usize, FreePieces); PIECES.len()],
}

/// A piece of the pool.
#[derive(Debug)]
pub struct Piece {
    bytes: &'static mut [u8],
    free_list: FreePieces,
}

impl Pool {
    /// Allocates the pool, aligned for direct I/O.
    pub fn new() -> Pool {
        let len: usize = PIECES.iter().map(|(bytes, count)| bytes * count).sum();
        let all = Box::leak(vec![0; len + ALIGNED].into_boxed_slice());
        let start = all.as_ptr().align_offset(ALIGNED);
        let mut rest = &mut all[start..start + len];
        let whole = rest.as_ptr() as usize..rest.as_ptr() as usize + len;
        let free = PIECES.map(|(bytes, count)| {
            let (these, others) = std::mem::take(&mut rest).split_at_mut(bytes * count);
            rest = others;
            (bytes, Arc::new(Mutex::new(these.chunks_exact_mut(bytes).collect())))
        });
        Pool { whole, free }
    }

    /// Addresses of the whole pool.
    pub fn whole(&self) -> Range<usize> {
        self.whole.clone()
    }

    /// A piece of at least `len` bytes, if one is free.
    pub fn take(&self, len: usize) -> Option<Piece> {
        let mut large_enough = self.free.iter().filter(|(bytes, _)| len <= *bytes);
        large_enough.find_map(|(_, free)| {
            let bytes = free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            Some(Piece { bytes, free_list: free.clone() })
        })
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.free_list.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_come_back_and_are_bounded() {
        let pool = Pool::new();
        let mut all: Vec<Piece> = std::iter::from_fn(|| pool.take(512)).collect();
        let count: usize = PIECES.iter().map(|(_, count)| count).sum();
        assert_eq!(all.len(), count, "large ones are taken when there are no small ones");
        assert!(all.iter().all(|piece| piece.as_ptr().align_offset(ALIGNED) == 0));
        all.sort_by_key(|piece| piece.as_ptr());
        assert!(
            all.windows(2).all(|two| two[0].as_ptr_range().end <= two[1].as_ptr()),
            "none overlaps another"
        );
        assert!(all.iter().all(|piece| pool.whole().contains(&(piece.as_ptr() as usize))));
        assert!(pool.take(1).is_none());
        all.clear();
        assert_eq!(pool.take(100_000).map(|piece| piece.len()), Some(128 << 10));
        assert!(pool.take((128 << 10) + 1).is_none(), "larger ones are not of the pool");
    }
}
