//! Stops that continue over the end of a track, while buffers for reads run short: both parts of a block that lies
//! across it come in one go, and no remainder is left.
//!
//! The paper does not treat such blocks. Consecutive tracks are skewed so that a head that continues arrives in time,
//! so this costs little more than the skew.

use super::{Across, Gap, Looking, Onward, Side, Stop, Window};
use crate::freeblock::tracks::{ROUNDING, Stretch};

impl Looking<'_> {
    /// Tests continuing from a track, and onto it from the one before.
    pub(super) fn across(&mut self, side: &Side, track: usize) {
        let tracks = self.known.tracks;
        for stretch in tracks.on(track) {
            for ordinal in [Some(stretch.ordinal), stretch.ordinal.checked_sub(1)].into_iter().flatten() {
                let Some((track, first)) = tracks.stretch(ordinal) else { continue };
                for across in side.across(first) {
                    self.onward(side, (track, first), across);
                }
            }
        }
    }

    /// Tests continuing from the end of a track extent to the start of the next one.
    fn onward(&mut self, side: &Side, (track, first): (usize, &Stretch), across: Across) {
        let (known, gap) = (self.known, self.gap);
        let tracks = known.tracks;
        let Some((next, second)) = tracks.stretch(first.ordinal + 1) else { return };
        let of = |track: usize, taken: usize| {
            let left = usize::from(side.count(track)).max(taken);
            known.worth.of(left, taken, tracks.head(track).cylinder as u32)
        };
        // An upper bound: everything on both tracks may be no better than the best so far.
        let all = |track| of(track, usize::from(side.count(track)));
        if next == track || second.sectors < across.rest || all(track) + all(next) <= self.worth {
            return;
        }
        let (at, on, turn) = (tracks.head(track), tracks.head(next), known.mechanics.revolution().0);
        let from = known.window(&gap, at, false).from;
        let (begins, ends) = tracks.pass(first, across.first, first.sectors - across.first, from);
        let here = Window { from, to: ends + 2 * ROUNDING };
        // No stop is longer than a revolution.
        if here.to >= gap.due || here.length() > turn {
            return;
        }
        let window = known.window(&Gap { from: at, begin: here.to, ..gap }, on, false);
        let (_, rest) = tracks.pass(second, 0, across.rest, window.from);
        if rest + 2 * ROUNDING > window.to {
            return;
        }
        let passing = |track: usize, window| {
            let passing = |stretch| side.counting(stretch, tracks.passes(stretch, window));
            tracks.on(track).iter().map(passing).sum::<usize>()
        };
        let (one, two) = (passing(track, Window { to: begins, ..here }), passing(next, window));
        let worth = of(track, one) + of(next, two + side.more_for_both(across, second));
        let way = self.whole.saturating_sub(here.length() + window.length());
        let onward = Some(Onward { across, track: next, window });
        self.offer(Stop { track, write: false, window: here, worth, onward }, way);
    }
}
