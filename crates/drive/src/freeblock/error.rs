//! Errors of a task's requests.

use seekless_core::Extent;
use thiserror::Error;

/// An error of a registration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FreeError {
    /// The extent goes past the end of the drive.
    #[error("{at} is past the end: the drive has {sectors} sectors")]
    PastTheEnd {
        /// The extent that was registered.
        at: Extent,
        /// The drive's size in sectors.
        sectors: u64,
    },
    /// The block size is out of range.
    #[error("a block size of {found} sectors: expected 1 to {most}")]
    Block {
        /// The size found, in sectors.
        found: u64,
        /// The largest size, in sectors.
        most: u64,
    },
    /// The extent does not consist of whole blocks.
    #[error("{at} is not whole blocks: expected a multiple of {block} sectors at a multiple of it")]
    NotWhole {
        /// The extent that was registered.
        at: Extent,
        /// The block size in sectors.
        block: u64,
    },
    /// A block is already registered and not yet done.
    #[error("the block of {at} is registered already")]
    Twice {
        /// The first such block.
        at: Extent,
    },
    /// A block is not registered, or is done.
    #[error("the block of {at} is not registered")]
    Unknown {
        /// The first such block.
        at: Extent,
    },
    /// There are too many tasks in one direction.
    #[error("too many tasks: expected at most {most} that read and {most} that write")]
    TooMany {
        /// The limit.
        most: usize,
    },
    /// The data's length does not match the blocks.
    #[error("{found} bytes for {at}: expected {}", .at.bytes())]
    Data {
        /// The blocks.
        at: Extent,
        /// The length found, in bytes.
        found: u64,
    },
}
