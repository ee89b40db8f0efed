//! Policies: when to plan anew, how much of a plan to carry out, when to drain and when to checkpoint.
//!
//! Invariant: nothing here waits or changes state; callers that waited evaluate the policy again.

use seekless_core::PAGE_BYTES;
use seekless_core::runtime::edge;

use super::Borg;
use super::analyzer::Training;
use super::options::{Drain, MoveClass};

/// Pages of the log read at most by recovery, approximately: 64 MiB.
const LONGEST_LOG: u64 = 16_384;

/// Pages that are drained for free together, once that number is dirty. The more there are, the more of them the head
/// passes; but all are read before the first is written, and a decision aborts what is under way.
pub(super) const FREE_ROUND: usize = 2_048;

/// How much of a plan is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All: pages that are not in the plan leave the read cache; without a plan, all of them if the course empties it.
    Replace,
    /// Only what the plan adds: pages are not evicted for being absent from the plan.
    Add,
    /// Nothing: no other course than the present one gains more than it costs.
    Decline,
}

/// Maintenance that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maintenance {
    /// Drain the write buffer until `goal` slots are free.
    Drain {
        /// Free slots.
        goal: u64,
    },
    /// Drain all dirty pages.
    DrainAll,
    /// A checkpoint, so that recovery has less of the log to read.
    Checkpoint,
}

impl Borg {
    /// Whether the next plan is made from the whole graph; otherwise it extends the last one.
    pub(super) fn plans_anew(&self, plans: u32) -> bool {
        self.options.training == Training::Partial || plans % self.options.full_plan_every == 0
    }

    /// Judges a plan by the number of pages that the profile knows: after a restart the profile may cover less than the
    /// current placement. With a partial training window it always may: then only a first plan is doubtful.
    pub(super) fn judge(&self, profiled_pages: u64) -> Verdict {
        let is_partial = self.options.training == Training::Partial && self.learned.borrow().plans() > 1;
        if is_partial || profiled_pages >= self.store.cached() as u64 {
            return Verdict::Replace;
        }
        edge("the profile knows less than what is placed: unplanned pages stay");
        Verdict::Add
    }

    /// Slots of the write buffer.
    fn log_slots(&self) -> u64 {
        let layout = self.store.layout();
        u64::from(layout.write_buffer * layout.segment)
    }

    /// Free slots below which the write buffer is drained: the largest write that may be absorbed has room, if the
    /// options limit it.
    fn low_water(&self) -> u64 {
        // One slot more, for the header; nothing without a limit.
        let largest = match self.options.absorb_below.0.div_ceil(PAGE_BYTES) {
            0 => 0,
            pages => (pages + 1).min(self.log_slots() / 2),
        };
        largest.max((self.log_slots() as f64 * self.options.drain_below) as u64)
    }

    /// Whether a write buffer that is drained as a whole has to be, also after a write that was not absorbed: none may
    /// be any more, if the drain before failed.
    pub(super) fn is_stuck(&self) -> bool {
        self.options.drain == Drain::All && self.store.room() < self.low_water()
    }

    /// Whether clients will soon wait for free slots.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.store.room() < self.low_water() / 2
    }

    /// Whether pages are to be drained where no request notices.
    pub(super) fn has_to_drain_for_free(&self) -> bool {
        self.writes.get().drains && self.store.dirty() >= FREE_ROUND
    }

    /// Maintenance due after a write.
    pub(super) fn due(&self) -> Option<Maintenance> {
        // Freeblock draining takes longer, so it starts earlier.
        let times = if self.options.reconfigure_class == MoveClass::Free { 2 } else { 1 };
        let low = times * self.low_water();
        if self.store.room() < low && self.options.drain == Drain::All {
            return Some(Maintenance::DrainAll);
        }
        if self.store.room() < low {
            return Some(Maintenance::Drain { goal: low.saturating_mul(3) / 2 });
        }
        let long = self.store.unpersisted_log() >= LONGEST_LOG.min(self.log_slots() / 4);
        long.then_some(Maintenance::Checkpoint)
    }
}
