//! What can be wrong with what a task asks for.

use seekless_core::Extent;
use thiserror::Error;

/// What is wrong with a registration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FreeError {
    /// It goes beyond the end.
    #[error("{at} go past the end: the drive has {sectors} sectors")]
    PastTheEnd {
        /// What was registered.
        at: Extent,
        /// How many sectors there are.
        sectors: u64,
    },
    /// A block's size that is none.
    #[error("a block size of {found} sectors: expected 1 to {most}")]
    Block {
        /// What was found.
        found: u64,
        /// The largest.
        most: u64,
    },
    /// The blocks do not divide what was registered.
    #[error("{at} are not whole blocks: expected a multiple of {block} sectors at a multiple of it")]
    NotWhole {
        /// What was registered.
        at: Extent,
        /// The size of a block.
        block: u64,
    },
    /// Registered, and not yet done.
    #[error("the block of {at} is registered already")]
    Twice {
        /// The first such block.
        at: Extent,
    },
    /// Not registered, or done.
    #[error("the block of {at} is not registered")]
    Unknown {
        /// The first such block.
        at: Extent,
    },
    /// As many tasks of a kind as there may be at once.
    #[error("a task more than there may be at once: expected at most {most} that read and {most} that write")]
    TooMany {
        /// How many there may be.
        most: usize,
    },
    /// The data do not fit the blocks.
    #[error("{found} bytes for {at}: expected {}", .at.bytes())]
    Data {
        /// The blocks.
        at: Extent,
        /// How much was there.
        found: u64,
    },
}
