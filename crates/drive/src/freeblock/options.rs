//! How a drive's freeblock scheduler behaves.

use std::fmt;
use std::str::FromStr;

use seekless_core::Nanos;
use serde::{Deserialize, Serialize};

/// Which use of a gap is the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FreePolicy {
    /// The most blocks of one track, as in the paper (section 4).
    Paper,
    /// Several stops, and blocks that are hard to come by count for more.
    #[default]
    Weighted,
}

impl FreePolicy {
    /// All names, for people.
    pub const NAMES: &str = "paper or weighted";
}

impl fmt::Display for FreePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FreePolicy::Paper => "paper",
            FreePolicy::Weighted => "weighted",
        })
    }
}

impl FromStr for FreePolicy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        [FreePolicy::Paper, FreePolicy::Weighted]
            .into_iter()
            .find(|policy| policy.to_string() == text)
            .ok_or_else(|| format!("found '{text}', expected {}", FreePolicy::NAMES))
    }
}

/// How a freeblock scheduler behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeOptions {
    /// What it looks for.
    pub policy: FreePolicy,
    /// Wherever the head has to be in time, it is planned to be there so much earlier.
    pub guard: Nanos,
    /// Once a search has tested so many tracks it looks at no cylinder beyond the source's and the destination's;
    /// `None`: it looks at all.
    pub candidates: Option<u32>,
    /// What a decision takes, in virtual time: so much of a gap is lost, unless the request was known long enough
    /// before.
    pub decision: Nanos,
    /// Idle time is used as long as requests are delayed by no more than this on average; not at all if it is zero.
    pub idle_delay_limit: Nanos,
    /// Wherever the head seeks to in a wait, it comes earlier or later than planned by at most so much: an experiment.
    pub model_error: Nanos,
    /// What a task's blocks may take up that were read and not yet taken, in bytes, three blocks at least. Those
    /// across the ends of tracks that wait for their rest leave room for others.
    pub buffers: u64,
}

impl Default for FreeOptions {
    fn default() -> Self {
        FreeOptions {
            policy: FreePolicy::default(),
            guard: Nanos::ZERO,
            candidates: Some(40),
            decision: Nanos::ZERO,
            idle_delay_limit: Nanos::ZERO,
            model_error: Nanos::ZERO,
            buffers: 8 << 20,
        }
    }
}
