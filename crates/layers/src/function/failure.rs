//! Why a function was turned off.

use std::fmt;

/// What a function did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It used up its fuel: this much a call.
    Fuel(u64),
    /// It asked for more memory than it may have, both in bytes.
    Memory {
        /// What it would have had.
        found: u64,
        /// What it may have.
        limit: u64,
    },
    /// It trapped.
    Trap(String),
    /// It answered what it may not.
    Answer(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Fuel(fuel) => {
                write!(f, "found no end of a call after {fuel} instructions, expected one (option `fuel`)")
            }
            Failure::Memory { found, limit } => write!(
                f,
                "found {found} bytes of memory asked for, expected {limit} at most (option `memory`)"
            ),
            Failure::Trap(trap) => write!(f, "found a trap ({trap}), expected an answer"),
            Failure::Answer(error) => f.write_str(error),
        }
    }
}
