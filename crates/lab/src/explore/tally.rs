//! Statistics of an exploration.

use std::collections::BTreeMap;

use seekless_core::Nanos;

use super::spent::Spent;

/// What was examined.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Runs with power cuts.
    pub runs: u64,
    /// Runs carried out, those with a failing request included.
    pub carried_out: u64,
    /// Moments of a power cut.
    pub moments: u64,
    /// Restarts opened and checked.
    pub judged: u64,
    /// Restarts with new images.
    pub states: u64,
    /// Restarts with new metadata.
    pub metadata_states: u64,
    /// New states by depth: after one crash, two, and so on.
    pub by_depth: Vec<u64>,
    /// Restarts without a component, and those of them at which the volume did not open.
    pub gone: (u64, u64),
    /// Restarts with a rotten sector, and those of them that were refused.
    pub rotten: (u64, u64),
    /// Restarts with an origin that was edited.
    pub edited: u64,
    /// Restarts read in full.
    pub whole: u64,
    /// Sectors read and checked.
    pub sectors: u64,
    /// Longest response time.
    pub longest: Nanos,
    /// Commands carried out.
    pub commands: u64,
    /// Longest duration of a command.
    pub longest_command: Nanos,
    /// How often each edge was reached.
    pub edges: BTreeMap<&'static str, u64>,
    /// Time spent, by part.
    pub spent: Spent,
}
