//! Replies of the transmission phase, as bytes.

use super::constants::{
    EXTENDED_REPLY_MAGIC, REPLY_FLAG_DONE, REPLY_TYPE_BLOCK_STATUS, REPLY_TYPE_BLOCK_STATUS_EXT,
    REPLY_TYPE_ERROR, REPLY_TYPE_NONE, REPLY_TYPE_OFFSET_DATA, REPLY_TYPE_OFFSET_HOLE, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC,
};

/// Style of replies, as negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// An error number, and the data if it is 0.
    #[default]
    Simple,
    /// Structured replies, in chunks.
    Structured,
    /// Structured replies with offsets and lengths of 64 bits.
    Extended,
}

/// Errors that the protocol knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// `EPERM`: the export is read-only.
    NotPermitted = 1,
    /// `EIO`.
    Io = 5,
    /// `ENOMEM`.
    NoMemory = 12,
    /// `EINVAL`: the request is malformed.
    Invalid = 22,
    /// `ENOSPC`.
    NoSpace = 28,
    /// `EOVERFLOW`: too much for one reply.
    Overflow = 75,
    /// `ENOTSUP`.
    NotSupported = 95,
    /// `ESHUTDOWN`: the server shuts down.
    Shutdown = 108,
}

/// Writes replies of one style.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replies(pub Style);

impl Replies {
    /// Reply to a request without data.
    pub fn done(self, out: &mut Vec<u8>, cookie: u64) {
        match self.0 {
            Style::Simple => simple(out, cookie, 0),
            Style::Structured | Style::Extended => self.chunk(out, REPLY_TYPE_NONE, true, cookie, 0, 0),
        }
    }

    /// Error reply; `why` is for a person.
    pub fn error(self, out: &mut Vec<u8>, cookie: u64, error: Errno, why: &str) {
        if self.0 == Style::Simple {
            return simple(out, cookie, error as u32);
        }
        // The protocol's limit for strings.
        let mut end = why.len().min(4096);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        self.chunk(out, REPLY_TYPE_ERROR, true, cookie, 0, 6 + end as u64);
        out.extend((error as u32).to_be_bytes());
        out.extend((end as u16).to_be_bytes());
        out.extend(&why.as_bytes()[..end]);
    }

    /// Header of the last part of a reply to a read: `length` bytes of data follow. In a simple reply they are all of
    /// it.
    pub fn data(self, out: &mut Vec<u8>, cookie: u64, offset: u64, length: u64) {
        match self.0 {
            Style::Simple => simple(out, cookie, 0),
            Style::Structured | Style::Extended => {
                self.chunk(out, REPLY_TYPE_OFFSET_DATA, true, cookie, offset, 8 + length);
                out.extend(offset.to_be_bytes());
            }
        }
    }

    /// A part of a read that is zeroes. Not for simple replies.
    pub fn hole(self, out: &mut Vec<u8>, cookie: u64, offset: u64, length: u32, last: bool) {
        self.chunk(out, REPLY_TYPE_OFFSET_HOLE, last, cookie, offset, 12);
        out.extend(offset.to_be_bytes());
        out.extend(length.to_be_bytes());
    }

    /// Block status in one context: lengths and flags. Not for simple replies.
    pub fn status(
        self,
        out: &mut Vec<u8>,
        cookie: u64,
        offset: u64,
        id: u32,
        parts: &[(u64, u32)],
        last: bool,
    ) {
        if self.0 == Style::Extended {
            let length = 8 + 16 * parts.len() as u64;
            self.chunk(out, REPLY_TYPE_BLOCK_STATUS_EXT, last, cookie, offset, length);
            out.extend(id.to_be_bytes());
            out.extend((parts.len() as u32).to_be_bytes());
            for (length, flags) in parts {
                out.extend(length.to_be_bytes());
                out.extend(u64::from(*flags).to_be_bytes());
            }
            return;
        }
        self.chunk(out, REPLY_TYPE_BLOCK_STATUS, last, cookie, offset, 4 + 8 * parts.len() as u64);
        out.extend(id.to_be_bytes());
        for (length, flags) in parts {
            out.extend((*length as u32).to_be_bytes());
            out.extend(flags.to_be_bytes());
        }
    }

    /// Header of a chunk; `length` bytes follow.
    fn chunk(self, out: &mut Vec<u8>, kind: u16, last: bool, cookie: u64, offset: u64, length: u64) {
        let extended = self.0 == Style::Extended;
        let magic = if extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC };
        out.extend(magic.to_be_bytes());
        out.extend((if last { REPLY_FLAG_DONE } else { 0 }).to_be_bytes());
        out.extend(kind.to_be_bytes());
        out.extend(cookie.to_be_bytes());
        if extended {
            out.extend(offset.to_be_bytes());
            out.extend(length.to_be_bytes());
        } else {
            out.extend((length as u32).to_be_bytes());
        }
    }
}

fn simple(out: &mut Vec<u8>, cookie: u64, error: u32) {
    out.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend(error.to_be_bytes());
    out.extend(cookie.to_be_bytes());
}
