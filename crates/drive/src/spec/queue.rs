//! The part of a description that gives the drive's own queue.

use schemars::JsonSchema;
use seekless_core::Nanos;
use serde::{Deserialize, Serialize};

use super::check::{Checked, within};
use super::parts::none;
use crate::scheduler::{Limits, Policy};

/// The drive's own queue. Without one it takes one command at a time.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSpec {
    /// Commands that it takes at once.
    pub depth: u32,
    /// How many of the oldest of them it may reorder; 0: all.
    pub window: u32,
    /// Order.
    pub scheduler: Policy,
    /// A command that waited longer in the drive goes next, in milliseconds; 0: never.
    pub starvation_ms: f64,
    /// How many commands in a row may overtake the oldest one, which then goes next; 0: any number.
    #[serde(skip_serializing_if = "none")]
    pub overtakes: u32,
    /// Whether a flush may be queued with other commands, as with SCSI and NVMe. With SATA it waits until all others
    /// are done, and all others wait for it.
    pub queued_flush: bool,
}

impl Default for QueueSpec {
    fn default() -> Self {
        QueueSpec {
            depth: 1,
            window: 0,
            scheduler: Policy::Sptf,
            starvation_ms: 0.0,
            overtakes: 0,
            queued_flush: false,
        }
    }
}

impl QueueSpec {
    /// Number of oldest commands that it chooses from.
    pub fn window(&self) -> u32 {
        if self.window == 0 { self.depth } else { self.window }
    }

    /// How far it reorders its commands.
    pub fn limits(&self) -> Limits {
        Limits {
            window: self.window() as usize,
            starvation: Nanos((self.starvation_ms * 1e6).round() as u64),
            overtakes: self.overtakes,
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
    pub(super) fn is_none(&self) -> bool {
        *self == QueueSpec::default()
    }

    pub(super) fn check(&self) -> Checked {
        within("queue.depth", self.depth.into(), 1.0, 65_536.0)?;
        within("queue.window", self.window.into(), 0.0, self.depth.into())?;
        within("queue.starvation_ms", self.starvation_ms, 0.0, 1e6)?;
        within("queue.overtakes", self.overtakes.into(), 0.0, 65_536.0)
    }
}
