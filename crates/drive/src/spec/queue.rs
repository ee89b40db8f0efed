//! The part of a description that says what a drive does with several commands at once.

use seekless_core::Nanos;
use serde::{Deserialize, Serialize};

use super::check::{Checked, within};
use crate::scheduler::Policy;

/// The queue inside of a drive. Without one it takes a command at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSpec {
    /// Commands that it takes at once.
    pub depth: u32,
    /// Of those, how many of the oldest it puts in another order; 0: all.
    pub window: u32,
    /// In which order.
    pub scheduler: Policy,
    /// A command that waited longer in the drive goes next, in milliseconds; 0: never.
    pub starvation_ms: f64,
    /// Whether a flush may be among them, as with SCSI and NVMe. That of SATA waits until all others are done, and
    /// all others wait for it.
    pub queued_flush: bool,
}

impl Default for QueueSpec {
    fn default() -> Self {
        QueueSpec { depth: 1, window: 0, scheduler: Policy::Sptf, starvation_ms: 0.0, queued_flush: false }
    }
}

impl QueueSpec {
    /// How many of its oldest commands it chooses from.
    pub fn window(&self) -> u32 {
        if self.window == 0 { self.depth } else { self.window }
    }

    /// After what time a command goes next; zero for never.
    pub fn starvation_limit(&self) -> Nanos {
        Nanos((self.starvation_ms * 1e6).round() as u64)
    }

    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
    pub(super) fn is_none(&self) -> bool {
        *self == QueueSpec::default()
    }

    pub(super) fn check(&self) -> Checked {
        within("queue.depth", self.depth.into(), 1.0, 65_536.0)?;
        within("queue.window", self.window.into(), 0.0, self.depth.into())?;
        within("queue.starvation_ms", self.starvation_ms, 0.0, 1e6)
    }
}
