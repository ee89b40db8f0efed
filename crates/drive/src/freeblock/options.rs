//! Options of a drive's freeblock scheduler.

use std::fmt;
use std::str::FromStr;

use seekless_core::Nanos;
use seekless_core::names::perhaps;
use serde::{Deserialize, Serialize};

/// How the best use of a gap is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FreePolicy {
    /// The most blocks of one track, as in the paper (section 4).
    Paper,
    /// Several stops; blocks that are hard to reach count for more.
    #[default]
    Weighted,
}

impl FreePolicy {
    /// All names, for messages.
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
            .ok_or_else(|| {
                let perhaps = perhaps(text, ["paper", "weighted"]);
                format!("found '{text}', expected {}{perhaps}", FreePolicy::NAMES)
            })
    }
}

/// Options of a freeblock scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeOptions {
    /// How the best use of a gap is chosen.
    pub policy: FreePolicy,
    /// Guard time: the head is planned to arrive this much earlier than it has to.
    pub guard: Nanos,
    /// A search that has tested this many tracks does not go beyond the source's and the destination's cylinders;
    /// `None`: unlimited.
    pub candidates: Option<u32>,
    /// Time that a decision takes, in virtual time: it is lost from a gap, unless the request was known that long
    /// before.
    pub decision: Nanos,
    /// Limit of the mean delay of requests by idle-time visits; zero: idle time is not used.
    pub idle_delay_limit: Nanos,
    /// Seek error, as an experiment: the head arrives earlier or later than planned by at most this.
    pub model_error: Nanos,
    /// Buffer space for a task's blocks that were read and not yet taken, in bytes, three blocks at least. Partial
    /// blocks leave room for others.
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
