//! What a user can set, with defaults.

use serde::{Deserialize, Serialize};

use crate::Refused;

/// The options of the BORG layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The part of the BOPT that absorbs writes, 0 to 1; the rest is the read cache. The BORG
    /// paper's best for its developer workload was 0.4 to 0.5 (section 6.5.3).
    pub write_buffer: f64,
    /// Edges of the access graph below this weight place nothing (section 4.3).
    pub threshold: u32,
}

impl Options {
    /// What cannot be.
    pub fn check(&self) -> Result<(), Refused> {
        if (0.0..=1.0).contains(&self.write_buffer) {
            return Ok(());
        }
        Err(Refused::new("write_buffer", self.write_buffer.to_string(), "0 to 1"))
    }
}

impl Default for Options {
    fn default() -> Self {
        Options { write_buffer: 0.4, threshold: 1 }
    }
}
