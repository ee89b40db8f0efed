//! What an exploration has looked at so far, in numbers.

use std::collections::BTreeMap;

use seekless_core::Nanos;

use super::spent::Spent;

/// What was looked at.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Runs that were cut.
    pub runs: u64,
    /// Runs that were carried out, those with a request that fails included.
    pub carried_out: u64,
    /// Moments at which the power went.
    pub moments: u64,
    /// Restarts opened and judged.
    pub judged: u64,
    /// Of those, the first with their images.
    pub states: u64,
    /// Of those, the first with their metadata.
    pub metadata_states: u64,
    /// New states by depth: after one crash, two, and so on.
    pub by_depth: Vec<u64>,
    /// Restarts with a rotten sector besides, and those of them that were refused.
    pub rotten: (u64, u64),
    /// Restarts read whole.
    pub whole: u64,
    /// Sectors read and judged.
    pub sectors: u64,
    /// The longest wait for an answer.
    pub longest: Nanos,
    /// Commands carried out.
    pub commands: u64,
    /// The longest that one took.
    pub longest_command: Nanos,
    /// How often each edge was reached.
    pub edges: BTreeMap<&'static str, u64>,
    /// Where the time went.
    pub spent: Spent,
}
