//! Policies: when to plan anew, how much of a plan to carry out, when to drain and when to checkpoint.
//!
//! Invariant: nothing here waits or changes anything; whoever waited asks again.

use seekless_core::runtime::edge;

use super::Borg;
use super::options::{MoveClass, Training};

/// Pages of the log that are read at most when a BOPT is opened after a crash, about: 64 MiB.
const LONGEST_LOG: u64 = 16_384;

/// How much of a plan is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All: what is not in the plan leaves the read cache.
    Replace,
    /// What the plan adds: nothing leaves that is only not planned.
    Add,
    /// Nothing: it would cost more than it gains.
    Decline,
}

/// What is due in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// To drain the write buffer until so many of its slots are free.
    Drain {
        /// Slots.
        goal: u64,
    },
    /// A checkpoint, so that recovery has less of the log to read.
    Checkpoint,
}

impl Borg {
    /// Whether the next plan is made of all that was learnt; else it extends the last one.
    pub(super) fn plans_anew(&self, plans: u32) -> bool {
        self.options.training == Training::Partial || plans % self.options.full_plan_every == 0
    }

    /// Judges a plan by whether it won in a rehearsal, if there was one, and by the number of pages that it was made
    /// from: after a restart the profile may know less than what is placed.
    pub(super) fn judge(&self, known: u64, wins: Option<bool>) -> Verdict {
        if wins == Some(false) {
            return Verdict::Decline;
        }
        if known >= self.store.cached() as u64 {
            return Verdict::Replace;
        }
        edge("the profile knows less than what is placed: nothing goes that is only not planned");
        Verdict::Add
    }

    /// Slots of the write buffer.
    fn log_slots(&self) -> u64 {
        let layout = self.store.layout();
        u64::from(layout.write_buffer * layout.segment)
    }

    /// The write buffer is drained when fewer slots are free.
    fn low_water(&self) -> u64 {
        (self.log_slots() as f64 * self.options.drain_below) as u64
    }

    /// Whether so few slots of the write buffer are free that clients will soon wait.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.store.room() < self.low_water() / 2
    }

    /// What is due once a write was absorbed.
    pub(super) fn due(&self) -> Option<Due> {
        // For free it takes longer: it begins earlier.
        let times = if self.options.reconfigure_class == MoveClass::Free { 2 } else { 1 };
        let low = times * self.low_water();
        if self.store.room() < low {
            return Some(Due::Drain { goal: low.saturating_mul(3) / 2 });
        }
        let long = self.store.unpersisted_log() >= LONGEST_LOG.min(self.log_slots() / 4);
        long.then_some(Due::Checkpoint)
    }
}
