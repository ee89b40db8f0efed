//! Background work of the head: writing what was acknowledged before.
//!
//! Some of it overlaps with a command that waits for it, or with another that has the bus. The overlap is reported, so
//! that accounting counts that time once.

use seekless_core::Nanos;

use super::mechanics::Access;

/// Background work of the head since it was last taken.
#[derive(Clone, Debug, Default)]
pub struct BackgroundWork {
    work: Access,
    /// Begin and end; periods that ended before the last answer are left out.
    periods: Vec<(Nanos, Nanos)>,
    overlap: Nanos,
}

impl BackgroundWork {
    /// Adds an access from `start` on.
    pub fn add(&mut self, took: &Access, start: Nanos) {
        let took = Access { overhead: Nanos::ZERO, ..*took };
        self.work.seek += took.seek;
        self.work.rotation += took.rotation;
        self.work.transfer += took.transfer;
        self.work.distance += took.distance;
        self.periods.push((start, start + took.total()));
    }

    /// A command that arrived at `now` is answered at `done`.
    pub fn answered(&mut self, now: Nanos, done: Nanos) {
        for &(start, end) in &self.periods {
            self.overlap += end.min(done).since(start.max(now));
        }
        self.periods.retain(|&(_, end)| end > done);
    }

    /// Takes the work done since the last call, and how long of it commands were being served.
    pub fn take(&mut self) -> (Access, Nanos) {
        (std::mem::take(&mut self.work), std::mem::take(&mut self.overlap))
    }
}
