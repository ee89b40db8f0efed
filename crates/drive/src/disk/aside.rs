//! What the head does beside the commands: it writes what was acknowledged before.
//!
//! Some of that goes on while a command waits for it, or while another has the bus: time that is the command's as
//! well. Told how much, whoever adds up where the head's time went counts it once.

use seekless_core::Nanos;

use super::mechanics::Access;

/// The head's work beside the commands, since somebody asked.
#[derive(Clone, Debug, Default)]
pub struct Aside {
    did: Access,
    /// From when to when; what ended before the last answer is left out.
    stretches: Vec<(Nanos, Nanos)>,
    meanwhile: Nanos,
}

impl Aside {
    /// The head does `took` from `start` on.
    pub fn add(&mut self, took: &Access, start: Nanos) {
        let took = Access { overhead: Nanos::ZERO, ..*took };
        self.did.seek += took.seek;
        self.did.rotation += took.rotation;
        self.did.transfer += took.transfer;
        self.did.distance += took.distance;
        self.stretches.push((start, start + took.total()));
    }

    /// A command that came at `now` is answered at `done`.
    pub fn answered(&mut self, now: Nanos, done: Nanos) {
        for &(start, end) in &self.stretches {
            self.meanwhile += end.min(done).since(start.max(now));
        }
        self.stretches.retain(|&(_, end)| end > done);
    }

    /// What the head did since this was asked last, and for how long of that commands were carried out.
    pub fn take(&mut self) -> (Access, Nanos) {
        (std::mem::take(&mut self.did), std::mem::take(&mut self.meanwhile))
    }
}
