//! Seek mispredictions, as an experiment: wherever the head seeks, it arrives earlier or later than planned.
//!
//! The paper's scheduler works from measured seek times, which are never exact. Blocks that have passed before the head
//! arrives are missed, and become pending again; if the foreground's first sector has passed, the foreground waits for
//! one more revolution. The guard time exists to prevent that.

use super::Inner;
use super::plan::Piece;
use super::search::Gap;

/// The sequence of seek errors: always the same, in the same order.
#[derive(Clone, Debug, Default)]
pub struct SeekErrors(u64);

impl SeekErrors {
    /// A time from `there - most` to `there + most`, uniformly distributed.
    fn about(&mut self, there: u64, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let late = ((u128::from(self.0) * u128::from(2 * most + 1)) >> 64) as u64;
        (there + late).saturating_sub(most)
    }
}

impl Inner {
    /// Executes the planned stops of a gap, whose pieces are those from `first` on, with seek errors; missed pieces
    /// become pending again. Returns how late the head arrives in the end, in whole revolutions.
    pub(super) fn mispredict(&mut self, gap: &Gap, first: usize) -> u64 {
        let most = self.options.model_error.0;
        if most == 0 || self.plan.stops.is_empty() {
            return 0;
        }
        let (mut at, mut now) = (gap.from, gap.begin);
        let mut come = |at, to, now: u64, write| {
            let there = now + self.mechanics.move_time(self.turn_round, at, to, write);
            if at == to { there } else { self.seek_errors.about(there, most) }
        };
        let mut missed = Vec::new();
        for &(stop, write, over) in &self.plan.stops {
            let there = come(at, stop, now, write);
            let passed = |piece: &Piece| (over.from..over.to).contains(&piece.from) && piece.from < there;
            missed.extend(self.plan.pieces[first..].iter().filter(|&piece| passed(piece)).copied());
            (at, now) = (stop, over.to.max(there));
        }
        let late = come(at, gap.to, now, gap.write).saturating_sub(gap.due);
        let turn = self.mechanics.revolution().0;
        let late = late.div_ceil(turn) * turn;
        self.plan.pieces.retain(|piece| !missed.contains(piece));
        for piece in &missed {
            self.give_back(piece);
        }
        self.stats.missed += missed.len() as u64;
        self.stats.late += u64::from(late > 0);
        late
    }
}
