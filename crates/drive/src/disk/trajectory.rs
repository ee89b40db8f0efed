//! The head's trajectory, step by step: freeblock scheduling fills its rotational waits.
//!
//! Recorded while a command is served, and only if enabled. Steps in the past (destaging the buffer) are recorded too;
//! freeblock scheduling ignores those.

use seekless_core::{Extent, Nanos};

use super::mechanics::Head;

/// A step: a seek to sectors of one track, the rotational wait, and their transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where the head is at `begin`.
    pub from: Head,
    /// When it may move.
    pub begin: Nanos,
    /// The track that it seeks to.
    pub to: Head,
    /// When the seek ends.
    pub landed: Nanos,
    /// When the first sector passes: until then the head waits.
    pub first: Nanos,
    /// When all sectors have passed.
    pub end: Nanos,
    /// The sectors.
    pub at: Extent,
    /// Whether they are written.
    pub write: bool,
    /// Whether the head must stay: the cache stores what passes while it waits.
    pub stay: bool,
}

impl Step {
    /// Delays the step.
    pub fn postpone(&mut self, by: Nanos) {
        for time in [&mut self.begin, &mut self.landed, &mut self.first, &mut self.end] {
            *time += by;
        }
    }
}

/// The steps of commands, if recording is enabled.
#[derive(Clone, Debug, Default)]
pub struct Trajectory {
    enabled: bool,
    list: Vec<Step>,
}

impl Trajectory {
    /// Enables recording.
    pub fn enable(&mut self) {
        self.enabled = true;
    }

    /// Records a step.
    pub fn add(&mut self, step: impl FnOnce() -> Step) {
        if self.enabled {
            self.list.push(step());
        }
    }

    /// Number of steps recorded.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Drops the steps from `number` on.
    pub fn forget_from(&mut self, number: usize) {
        self.list.truncate(number);
    }

    /// Moves the steps since the last call into `steps`, replacing its content.
    pub fn take(&mut self, trajectory: &mut Vec<Step>) {
        trajectory.clear();
        std::mem::swap(&mut self.list, trajectory);
    }
}
