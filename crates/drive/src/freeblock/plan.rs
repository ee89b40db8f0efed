//! The plan of a gap: stops, and the pieces taken at each.
//!
//! The paper's scheduler makes one stop (section 4). The better one uses the time before and after it for further
//! stops, recursively.

use seekless_core::Extent;

use super::direction::{Direction, PieceId};
use super::search::{Gap, PlanInputs, Search, Stop};
use super::tracks::{Tracks, Window};
use crate::disk::mechanics::Head;

/// How a gap is filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopCount {
    /// One stop, as in the paper.
    #[default]
    One,
    /// Further stops in the time that it leaves.
    Many,
}

/// A piece of a block that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Whether it is written.
    pub write: bool,
    /// Identity.
    pub taken: PieceId,
    /// First sector.
    pub start: u64,
    /// Length in sectors.
    pub sectors: u64,
    /// When it passes, in nanoseconds.
    pub from: u64,
    pub to: u64,
}

impl Piece {
    /// Sectors.
    pub fn at(&self) -> Extent {
        Extent::new(self.start, self.sectors)
    }

    /// Whether it is a part of this block.
    pub fn is_of(&self, write: bool, set: usize, block: u64) -> bool {
        (self.write, self.taken.set, self.taken.block) == (write, set, block)
    }
}

/// The plan of a gap.
#[derive(Debug, Default)]
pub struct Plan {
    /// Stops in order of time: the track, whether it is written, and from its first piece to its last.
    pub stops: Vec<(Head, bool, Window)>,
    /// Pieces taken, in no order.
    pub pieces: Vec<Piece>,
    /// Tracks evaluated.
    pub tested: u32,
    /// Total value.
    pub value: u64,
}

impl Plan {
    /// Delays pieces that pass from `from` on.
    pub fn postpone(&mut self, from: u64, by: u64) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.from >= from) {
            (piece.from, piece.to) = (piece.from + by, piece.to + by);
        }
    }
}

/// Gaps shorter than this, in nanoseconds, are not filled.
const SHORT: u64 = 50_000;

/// The planner: its inputs, and the pending blocks that it takes from.
pub struct Planner<'a> {
    pub inputs: PlanInputs<'a>,
    pub stop_count: StopCount,
    pub directions: &'a mut [Direction; 2],
}

impl Planner<'_> {
    /// Fills a gap and takes what it plans. The head may not leave the track if it has to `stay`.
    pub fn fill(&mut self, gap: Gap, stay: bool, plan: &mut Plan) {
        if gap.due < gap.begin + SHORT {
            return;
        }
        let (stop, tested) = Search { inputs: self.inputs, directions: self.directions }.best(gap, stay);
        plan.tested += tested;
        let Some(stop) = stop else { return };
        let stops = self.take(&stop, plan);
        let mut taken = stops.iter().flatten();
        let Some(first) = taken.next() else {
            // There was no buffer room for the pieces.
            return;
        };
        let last = taken.next().unwrap_or(first);
        plan.value += stop.value;
        if self.stop_count == StopCount::Many {
            self.fill(Gap { to: first.0, due: first.2.from, write: stop.write, ..gap }, stay, plan);
        }
        plan.stops.extend(stops.iter().flatten());
        if self.stop_count == StopCount::Many {
            self.fill(Gap { from: last.0, begin: last.2.to, ..gap }, stay, plan);
        }
    }

    /// Takes the pieces that pass at a stop, and at the one it continues to.
    fn take(&mut self, stop: &Stop, plan: &mut Plan) -> [Option<(Head, bool, Window)>; 2] {
        let tracks = self.inputs.tracks;
        let onward = stop.onward.map(|onward| Stop { track: onward.track, window: onward.window, ..*stop });
        [Some(*stop), onward].map(|stop| {
            let stop = stop?;
            let over = take(tracks, self.directions, &stop, plan);
            (over.to > 0).then(|| (tracks.head(stop.track), stop.write, over))
        })
    }
}

/// Takes the pieces that pass at a stop; returns the window from the first to the last.
pub fn take(tracks: &Tracks, directions: &mut [Direction; 2], stop: &Stop, plan: &mut Plan) -> Window {
    let mut over = Window { from: u64::MAX, to: 0 };
    let across = stop.onward.map(|onward| onward.across);
    let (direction, from) = (&mut directions[usize::from(stop.write)], stop.window.from);
    for extent in tracks.on(stop.track) {
        for range in tracks.passes(extent, stop.window) {
            direction.take(tracks, stop.track, extent, range, across, |taken, (first, end)| {
                let passes = tracks.pass(extent, first, end - first, from);
                over.from = over.from.min(passes.0);
                over.to = over.to.max(passes.1);
                plan.pieces.push(Piece {
                    write: stop.write,
                    taken,
                    start: extent.start + u64::from(first),
                    sectors: u64::from(end - first),
                    from: passes.0,
                    to: passes.1,
                });
            });
        }
    }
    over
}
