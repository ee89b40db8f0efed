//! Stops that continue over the end of a track, while buffers for reads run short: both parts of a block that lies
//! across it come in one go, and no remainder is left.
//!
//! The paper does not treat such blocks. Consecutive tracks are skewed so that a head that continues arrives in time,
//! so this costs little more than the skew.

use super::{Across, Direction, Gap, Onward, SearchState, Stop, Window};
use crate::freeblock::tracks::{ROUNDING, TrackExtent};

impl SearchState<'_> {
    /// Tests continuing from a track, and onto it from the one before.
    pub(super) fn across(&mut self, direction: &Direction, track: usize) {
        let tracks = self.inputs.tracks;
        for extent in tracks.on(track) {
            for ordinal in [Some(extent.ordinal), extent.ordinal.checked_sub(1)].into_iter().flatten() {
                let Some((track, first)) = tracks.extent(ordinal) else { continue };
                for across in direction.across(first) {
                    self.onward(direction, (track, first), across);
                }
            }
        }
    }

    /// Tests continuing from the end of a track extent to the start of the next one.
    fn onward(&mut self, direction: &Direction, (track, first): (usize, &TrackExtent), across: Across) {
        let (inputs, gap) = (self.inputs, self.gap);
        let tracks = inputs.tracks;
        let Some((next, second)) = tracks.extent(first.ordinal + 1) else { return };
        let of = |track: usize, taken: usize| {
            let left = usize::from(direction.count(track)).max(taken);
            inputs.value.of(left, taken, tracks.head(track).cylinder as u32)
        };
        // An upper bound: everything on both tracks may be no better than the best so far.
        let all = |track| of(track, usize::from(direction.count(track)));
        if next == track || second.sectors < across.remainder || all(track) + all(next) <= self.value {
            return;
        }
        let (at, on, turn) = (tracks.head(track), tracks.head(next), inputs.mechanics.revolution().0);
        let from = inputs.window(&gap, at, false).from;
        let (begins, ends) = tracks.pass(first, across.first, first.sectors - across.first, from);
        let here = Window { from, to: ends + 2 * ROUNDING };
        // No stop is longer than a revolution.
        if here.to >= gap.due || here.length() > turn {
            return;
        }
        let window = inputs.window(&Gap { from: at, begin: here.to, ..gap }, on, false);
        let (_, remainder) = tracks.pass(second, 0, across.remainder, window.from);
        if remainder + 2 * ROUNDING > window.to {
            return;
        }
        let passing = |track: usize, window| {
            let passing = |extent| direction.counting(extent, tracks.passes(extent, window));
            tracks.on(track).iter().map(passing).sum::<usize>()
        };
        let (one, two) = (passing(track, Window { to: begins, ..here }), passing(next, window));
        let value = of(track, one) + of(next, two + direction.extra_for_both(across, second));
        let way = self.whole.saturating_sub(here.length() + window.length());
        let onward = Some(Onward { across, track: next, window });
        self.offer(Stop { track, write: false, window: here, value, onward }, way);
    }
}
