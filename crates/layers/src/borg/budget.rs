//! What plans may cost (section 7, restraint): one per cent of the disk time of clients' requests so far, plus what the
//! layer has saved, less what carrying out plans has cost.
//!
//! Invariant: while it is overdrawn no plan is carried out, and no write absorbed that was not before, unless that is
//! predicted to pay all back twice over in as many requests as there were since the last choice. A plan that saves much
//! (`choice`) may overdraw it, since it pays only after it was carried out. So plans that are all useless cost, however
//! long that goes on, one per cent and either the largest of them or the requests between two decisions.
//!
//! All of it is measured in virtual time, on the models: the requests since the last decision are played with what the
//! layer holds and without the layer. Nothing here waits or can fail.

use seekless_core::Nanos;

/// The part of the disk time of clients' requests that may be lost, as a divisor.
const PART: i128 = 100;

/// See the file's header. Times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Budget {
    /// Disk time that clients' requests would have taken without the layer.
    pub requests: Nanos,
    /// How much less they took, draining included; below zero if they took more.
    pub saved: i64,
    /// Disk time of carrying out plans.
    pub moves: Nanos,
}

impl Budget {
    /// Disk time that is left; below zero if it is overdrawn.
    pub fn left(&self) -> i128 {
        i128::from(self.requests.0) / PART + i128::from(self.saved) - i128::from(self.moves.0)
    }

    /// Whether it is overdrawn.
    pub fn is_overdrawn(&self) -> bool {
        self.left() < 0
    }

    /// Requests were served that take `with` of disk time with what the layer holds, and `without` of it without the
    /// layer.
    pub fn served(&mut self, with: Nanos, without: Nanos) {
        self.requests += without;
        let saved = i128::from(without.0) - i128::from(with.0);
        self.saved = self.saved.saturating_add(saved as i64);
    }

    /// A plan is carried out.
    pub fn moved(&mut self, moves: Nanos) {
        self.moves += moves;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_may_overdraw_it_and_savings_or_time_pay_for_it() {
        let mut budget = Budget::default();
        assert!(!budget.is_overdrawn());
        budget.served(Nanos(2_000), Nanos(2_000));
        budget.moved(Nanos(500));
        assert_eq!((budget.left(), budget.is_overdrawn()), (20 - 500, true));
        budget.served(Nanos(700), Nanos(1_000));
        assert_eq!(budget.left(), 30 + 300 - 500);
        budget.served(Nanos(15_000), Nanos(15_000));
        assert_eq!((budget.left(), budget.is_overdrawn()), (180 + 300 - 500, true));
        budget.served(Nanos(1_000), Nanos(3_000));
        assert!(!budget.is_overdrawn());
        budget.served(Nanos(9_000), Nanos(3_000));
        assert!(budget.is_overdrawn(), "it serves requests worse than the disk alone");
    }
}
