//! vhost-user, the protocol by which a virtual machine's process hands a device to another process: its messages, and
//! the rings in shared memory that requests travel in. No socket, no clock, no task: those are in [`crate::server`].
//!
//! Invariants: nothing is read or written outside of the memory that the peer has shared, every walk through a ring or
//! a chain is bounded, and anything malformed is an error that states what was found and what was expected. Fault
//! model: the guest, and the process of the virtual machine, may put anything anywhere, and change it at any time.

pub mod block;
pub mod chain;
mod inflight;
mod memory;
pub mod message;
mod ring;
#[cfg(test)]
mod tests;

pub use chain::{Chain, Segment};
pub use inflight::{Inflight, Track};
pub use memory::{GuestMemory, Region};
pub use ring::{Addresses, MOST_ENTRIES, Ring};

/// Something malformed that a peer sent or left in memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: found {found}, expected {expected}")]
pub struct Malformed {
    /// The message, or the part of a ring.
    pub place: String,
    /// Found value.
    pub found: String,
    /// Expected value.
    pub expected: String,
}

impl Malformed {
    /// The error at `place`.
    pub fn new(place: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Malformed {
        Malformed { place: place.into(), found: found.into(), expected: expected.into() }
    }
}
