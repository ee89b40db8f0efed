//! Requests in few bytes: each says how it differs from the one before it in its chunk.
//!
//! ```text
//! place    varint           how far it starts from the page after the last of the one before,
//!                           times 2, and 1 more if before that
//! length   varint           pages * 4 + write * 2 + (1 if process and name follow)
//! time     varint           nanoseconds since the one before
//! depth    varint           requests outstanding when it came
//! process  varint, varint   its number and name, where they differ from those before
//! ```
//!
//! A varint is seven bits a byte, the lowest first, the highest bit set in all but the last. A chunk
//! can be read without the others: the one before its first is all zeroes.

use seekless_core::{NameId, Nanos, ProcessId};

use super::Access;

/// The memory of a chunk.
pub const BYTES: usize = if cfg!(test) { 128 } else { 1 << 16 };

/// What a request takes at most: 5 for its place (33 bits), 5 for its length (34), 10 for its time,
/// 5 each for depth, process and name.
const LONGEST: usize = 35;

/// Requests, in a code that is read from its start.
#[derive(Clone, Debug)]
pub struct Chunk {
    code: Vec<u8>,
    requests: u32,
    last: Access,
}

impl Default for Chunk {
    fn default() -> Chunk {
        Chunk { code: Vec::with_capacity(BYTES), requests: 0, last: Access::default() }
    }
}

impl Chunk {
    /// Whether another request may not fit.
    pub fn is_full(&self) -> bool {
        self.code.len() + LONGEST > BYTES
    }

    /// Adds a request, not older than the last.
    pub fn push(&mut self, access: &Access) {
        let last = std::mem::replace(&mut self.last, *access);
        let (place, expected) = (u64::from(access.first), end(&last));
        let other = (access.process, access.name) != (last.process, last.name);
        self.put(place.abs_diff(expected) << 1 | u64::from(place < expected));
        self.put(u64::from(access.pages) << 2 | u64::from(access.write) << 1 | u64::from(other));
        self.put(access.time.0.saturating_sub(last.time.0));
        self.put(u64::from(access.depth));
        if other {
            self.put(u64::from(access.process.0));
            self.put(u64::from(access.name.0));
        }
        self.requests += 1;
    }

    /// How many requests.
    pub fn requests(&self) -> u64 {
        u64::from(self.requests)
    }

    /// The requests.
    pub fn iter(&self) -> impl Iterator<Item = Access> {
        let (mut code, mut last) = (&self.code[..], Access::default());
        std::iter::from_fn(move || {
            if code.is_empty() {
                return None;
            }
            let (place, length, time) = (take(&mut code), take(&mut code), take(&mut code));
            last.depth = take(&mut code) as u32;
            if length & 1 != 0 {
                last.process = ProcessId(take(&mut code) as u32);
                last.name = NameId(take(&mut code) as u32);
            }
            let expected = end(&last);
            last.first =
                if place & 1 == 0 { expected + (place >> 1) } else { expected - (place >> 1) } as u32;
            (last.pages, last.write) = ((length >> 2) as u32, length & 2 != 0);
            last.time = Nanos(last.time.0 + time);
            Some(last)
        })
    }

    /// Bytes of code.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.code.len()
    }

    fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.code.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.code.push(number as u8);
    }
}

/// The page after the last.
fn end(access: &Access) -> u64 {
    u64::from(access.first) + u64::from(access.pages)
}

fn take(code: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((&byte, rest)) = code.split_first() {
        *code = rest;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    number
}
