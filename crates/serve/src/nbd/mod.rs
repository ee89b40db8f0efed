//! The NBD protocol (fixed newstyle) as a codec of bytes only: no socket, no device, no time. The server, its tests and
//! the fuzzer use the same code.
//!
//! Fault model: the peer may send any bytes, in any pieces. Nothing is read past the input, requested memory is
//! bounded, and after a malformed request the next one is still found where the protocol says.

pub mod client;
pub mod constants;
mod handshake;
mod reply;
mod request;

pub use handshake::{Agreed, Context, Encryption, Export, GREETING, Handshake, Step};
pub use reply::{Errno, Replies, Style};
pub use request::{BadMagic, Command, Request, filter, request};

/// A number of the protocol: big-endian.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    number(bytes, at).map(u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_be_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_be_bytes)
}
