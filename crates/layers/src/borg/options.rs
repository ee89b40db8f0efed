//! What a user can set, with defaults.

use serde::{Deserialize, Serialize};

use crate::Refused;
use crate::units::Bytes;

/// The options of the BORG layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The part of the BOPT that absorbs writes, 0 to 1; the rest is the read cache. The BORG
    /// paper's best for its developer workload was 0.4 to 0.5 (section 6.5.3).
    pub write_buffer: f64,
    /// Edges of the access graph below this weight place nothing (section 4.3).
    pub threshold: u32,
    /// What the planner learns from.
    pub training: Training,
    /// Memory for requests that are not analysed yet; what is above it goes into the
    /// access graph early. At least one page of 64 KiB is kept, and while an analysis runs as much
    /// as comes.
    pub profile_memory: Bytes,
    /// Every so many reconfigurations all is planned anew, at least 1; the others extend the last
    /// plan by what was seen since, which takes a fraction of the time. A partial training window
    /// is always planned anew.
    pub full_plan_every: u32,
}

/// The training window (section 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Training {
    /// All that was ever seen.
    #[default]
    Cumulative,
    /// What was seen since the last reconfiguration.
    Partial,
    /// All, but each reconfiguration halves the weight of what was seen before it.
    Decayed,
}

impl Options {
    /// What cannot be.
    pub fn check(&self) -> Result<(), Refused> {
        if !(0.0..=1.0).contains(&self.write_buffer) {
            return Err(Refused::new("write_buffer", self.write_buffer.to_string(), "0 to 1"));
        }
        if self.full_plan_every == 0 {
            return Err(Refused::new("full_plan_every", "0", "at least 1"));
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            write_buffer: 0.4,
            threshold: 1,
            training: Training::Cumulative,
            profile_memory: Bytes(64 << 20),
            full_plan_every: 1,
        }
    }
}
