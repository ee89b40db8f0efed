//! Requests in few bytes: each says how it differs from the one before it in its chunk.
//!
//! ```text
//! place    varint           how far it starts from the page after the last of the one before,
//!                           times 2, and 1 more if before that
//! length   varint           pages * 4 + write * 2 + (1 if process and name follow)
//! pause    varint           nanoseconds by which the sum of pauses has grown since the one before
//! depth    varint           requests outstanding when it came
//! process  varint, varint   its number and name, where they differ from those before
//! ```
//!
//! A varint is as in [`code`]. A chunk
//! can be read without the others: the one before its first is all zeroes.

use seekless_core::{NameId, Nanos, ProcessId};

use super::Access;
use crate::borg::code::{self, Reader, Unfit};

/// The memory of a chunk.
pub const BYTES: usize = if cfg!(test) { 128 } else { 1 << 16 };

/// What a request takes at most: 5 for its place (33 bits), 5 for its length (34), 10 for its pause,
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

    /// Adds a request, which came after the last one.
    pub fn push(&mut self, access: &Access) {
        let last = std::mem::replace(&mut self.last, *access);
        let (place, expected) = (u64::from(access.first), end(&last));
        let other = (access.process, access.name) != (last.process, last.name);
        let mut put = |number| code::put(&mut self.code, number);
        put(place.abs_diff(expected) << 1 | u64::from(place < expected));
        put(u64::from(access.pages) << 2 | u64::from(access.write) << 1 | u64::from(other));
        put(access.paused.0.saturating_sub(last.paused.0));
        put(u64::from(access.depth));
        if other {
            put(u64::from(access.process.0));
            put(u64::from(access.name.0));
        }
        self.requests += 1;
    }

    /// How many requests.
    pub fn requests(&self) -> u64 {
        u64::from(self.requests)
    }

    /// The requests.
    pub fn iter(&self) -> impl Iterator<Item = Access> {
        let (mut code, mut last) = (Reader::new(&self.code), Access::default());
        std::iter::from_fn(move || next(&mut code, &mut last).ok().flatten())
    }

    /// The code of all requests.
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// The chunk with this code.
    ///
    /// # Errors
    /// If it is none.
    pub fn decode(code: &[u8]) -> Result<Chunk, Unfit> {
        let (mut reader, mut chunk) = (Reader::new(code), Chunk::default());
        reader.ensure(code.len() <= BYTES, "a chunk of requests")?;
        while next(&mut reader, &mut chunk.last)?.is_some() {
            chunk.requests += 1;
        }
        chunk.code.extend(code);
        Ok(chunk)
    }

    /// Bytes of code.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.code.len()
    }
}

/// The next request, which replaces the one before it; `None` at the end.
fn next(code: &mut Reader<'_>, last: &mut Access) -> Result<Option<Access>, Unfit> {
    if code.is_at_end() {
        return Ok(None);
    }
    let (place, length, paused) = (code.number()?, code.number()?, code.number()?);
    last.depth = code.word()?;
    if length & 1 != 0 {
        last.process = ProcessId(code.word()?);
        last.name = NameId(code.word()?);
    }
    let expected = end(last);
    let first =
        if place & 1 == 0 { expected.checked_add(place >> 1) } else { expected.checked_sub(place >> 1) };
    let fits = (first.map(u32::try_from), u32::try_from(length >> 2), last.paused.0.checked_add(paused));
    let (Some(Ok(first)), Ok(pages), Some(paused)) = fits else { return Err(code.unfit("a request")) };
    (last.first, last.pages, last.write, last.paused) = (first, pages, length & 2 != 0, Nanos(paused));
    Ok(Some(*last))
}

/// The page after the last.
fn end(access: &Access) -> u64 {
    u64::from(access.first) + u64::from(access.pages)
}
