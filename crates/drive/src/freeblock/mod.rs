//! Freeblock scheduling (Lumb et al., OSDI 2000): pending blocks are read or written in the time that the head would
//! otherwise wait for a foreground request's first sector.
//!
//! The drive serves the foreground as if nothing else were there, and reports the trajectory of its head. Pending
//! blocks are fitted into the rotational waits of that trajectory, so foreground times are unchanged, to the
//! nanosecond, by construction; the tests check that the head can follow the plan. Pending blocks that the foreground
//! itself transfers are taken as well.
//!
//! Invariants: a pending piece is taken once; a block is delivered when all of its pieces were taken, at the time when
//! the last one has passed. Fault model: none of its own. The guard time covers wrong predictions.

mod astray;
mod begun;
mod error;
mod idle;
mod options;
mod plan;
mod requests;
mod search;
mod side;
mod task;
mod tracks;
mod wanted;
mod worth;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Weak;

use seekless_core::{Buffer, Extent, Nanos};
use slab::Slab;

use crate::disk::Drive;
use crate::disk::layout::Layout;
use crate::disk::legs::Leg;
use crate::disk::mechanics::Mechanics;
use crate::scheduler::Slot;
use astray::Errors;
pub use error::FreeError;
use idle::Idle;
pub use idle::Visit;
pub use options::{FreeOptions, FreePolicy};
use plan::{Filling, Piece, Plan, Planner};
use requests::Requests;
use search::{Gap, Known};
use side::Side;
use task::Task;
pub use task::{Foreground, FreeBlock, FreeTask, Progress};
use tracks::Tracks;
use worth::{Weights, Worth};

/// Statistics of freeblock scheduling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Rotational waits before a first sector.
    pub gaps: u64,
    /// Their total length: the potential.
    pub potential: Nanos,
    /// Bytes that would have passed in that time on the tracks waited on.
    pub potential_bytes: u64,
    /// Part of the potential in which pending blocks passed.
    pub transfer: Nanos,
    /// Part of the potential spent seeking elsewhere and back, beyond the direct seek.
    pub seek: Nanos,
    /// Stops made.
    pub stops: u64,
    /// Tracks evaluated by searches.
    pub tested: u64,
    /// Bytes read or written in gaps.
    pub bytes: u64,
    /// Pending bytes that the foreground itself transferred.
    pub foreground_bytes: u64,
    /// Tracks visited in idle time.
    pub visits: u64,
    /// Bytes read or written there.
    pub idle_bytes: u64,
    /// Time that requests arriving meanwhile waited for a seek to end.
    pub idle_waited: Nanos,
    /// By how many nanoseconds the first sector of those came later because the head was elsewhere; below zero if it
    /// was nearer there.
    pub idle_moved: i64,
    /// With a model error: pieces that had passed before the head arrived.
    pub missed: u64,
    /// With a model error: how often the foreground's first sector had.
    pub late: u64,
}

impl Freed {
    /// Difference to an earlier snapshot.
    pub fn since(&self, before: &Freed) -> Freed {
        Freed {
            gaps: self.gaps - before.gaps,
            potential: self.potential - before.potential,
            potential_bytes: self.potential_bytes - before.potential_bytes,
            transfer: self.transfer - before.transfer,
            seek: self.seek - before.seek,
            stops: self.stops - before.stops,
            tested: self.tested - before.tested,
            bytes: self.bytes - before.bytes,
            foreground_bytes: self.foreground_bytes - before.foreground_bytes,
            visits: self.visits - before.visits,
            idle_bytes: self.idle_bytes - before.idle_bytes,
            idle_waited: self.idle_waited - before.idle_waited,
            idle_moved: self.idle_moved - before.idle_moved,
            missed: self.missed - before.missed,
            late: self.late - before.late,
        }
    }

    /// Sum with another arm's.
    #[must_use]
    pub fn and(&self, other: &Freed) -> Freed {
        Freed {
            gaps: self.gaps + other.gaps,
            potential: self.potential + other.potential,
            potential_bytes: self.potential_bytes + other.potential_bytes,
            transfer: self.transfer + other.transfer,
            seek: self.seek + other.seek,
            stops: self.stops + other.stops,
            tested: self.tested + other.tested,
            bytes: self.bytes + other.bytes,
            foreground_bytes: self.foreground_bytes + other.foreground_bytes,
            visits: self.visits + other.visits,
            idle_bytes: self.idle_bytes + other.idle_bytes,
            idle_waited: self.idle_waited + other.idle_waited,
            idle_moved: self.idle_moved + other.idle_moved,
            missed: self.missed + other.missed,
            late: self.late + other.late,
        }
    }
}

/// Result of filling the waits of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// When the last taken piece will have passed.
    pub last: Option<Nanos>,
    /// How much longer the command takes: zero without a model error.
    pub late: Nanos,
}

/// Regions are weighed anew once in so many gaps.
const WEIGHED_EVERY: u64 = 1_024;

/// The freeblock scheduler of one arm.
pub struct Freeblock {
    inner: RefCell<Inner>,
    /// Serves promoted blocks.
    foreground: Weak<dyn Foreground>,
}

struct Inner {
    options: FreeOptions,
    layout: Layout,
    mechanics: Mechanics,
    at_least: crate::disk::sight::AtLeast,
    turn_round: u64,
    tracks: Tracks,
    sides: [Side; 2],
    worth: Worth,
    weights: Option<Weights>,
    tasks: Slab<Task>,
    /// Tasks created so far.
    born: u64,
    requests: [Requests; 2],
    /// Pieces that were taken and have not passed yet, in order of time.
    due: VecDeque<Piece>,
    plan: Plan,
    /// Seek errors of the model.
    errors: Errors,
    idle: Idle,
    /// Value that a microsecond of a gap brought recently; and value and microseconds since.
    price: u64,
    earned: (u64, u64),
    freed: Freed,
}

impl Freeblock {
    /// A scheduler for `drive`; promoted blocks are submitted to `foreground`.
    pub fn new(drive: &Drive, options: FreeOptions, foreground: Weak<dyn Foreground>) -> Freeblock {
        let mechanics = drive.mechanics().clone();
        let tracks = Tracks::new(drive.layout(), mechanics.revolution().0);
        let mut worth = Worth::blocks(1 << 12, &tracks);
        let weights = (options.policy == FreePolicy::Weighted).then(Weights::usual);
        if let Some(weights) = &weights {
            worth.weigh(weights, tracks.len());
        }
        let inner = Inner {
            options,
            layout: drive.layout().clone(),
            mechanics,
            at_least: drive.at_least(),
            turn_round: drive.turn_round_time(),
            tracks,
            sides: Default::default(),
            worth,
            weights,
            tasks: Slab::new(),
            born: 0,
            requests: Default::default(),
            due: VecDeque::new(),
            plan: Plan::default(),
            errors: Errors::default(),
            idle: Idle::default(),
            price: 0,
            earned: (0, 0),
            freed: Freed::default(),
        };
        Freeblock { inner: RefCell::new(inner), foreground }
    }

    /// Statistics so far.
    pub fn freed(&self) -> Freed {
        self.inner.borrow().freed
    }

    /// Plans transfers of pending pieces along the segments of a foreground command that started at `now` and was
    /// queued for `known` before.
    pub fn fill(&self, legs: &mut [Leg], now: Nanos, known: Nanos) -> Filled {
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        inner.came(legs, now);
        if inner.sides.iter().all(Side::is_empty) && inner.tasks.is_empty() {
            return Filled::default();
        }
        let late = inner.options.decision.since(known);
        for leg in legs.iter().filter(|leg| leg.begin >= now) {
            inner.pass(leg);
        }
        let mut turns = 0;
        for number in 0..legs.len() {
            if legs[number].begin < now {
                continue;
            }
            let more = inner.fill_leg(&legs[number], if number == 0 { late } else { Nanos::ZERO });
            if more > 0 {
                inner.plan.postpone(legs[number].first.0, more);
                legs[number + 1..].iter_mut().for_each(|leg| leg.postpone(Nanos(more)));
                turns += more;
            }
        }
        inner.plan.pieces.sort_unstable_by_key(|piece| (piece.to, piece.start));
        let last = inner.plan.pieces.last().map(|piece| Nanos(piece.to));
        inner.due.extend(inner.plan.pieces.drain(..));
        Filled { last, late: Nanos(turns) }
    }

    /// Delivers what has passed by `now`: `bytes` reads a block from the media, or stores the given data. Slots of
    /// completed queue requests go into `done`.
    pub fn deliver(
        &self,
        now: Nanos,
        done: &mut Vec<Slot>,
        mut bytes: impl FnMut(Extent, Option<Buffer>) -> Buffer,
    ) {
        let mut inner = self.inner.borrow_mut();
        while inner.due.front().is_some_and(|piece| piece.to <= now.0) {
            let Some(piece) = inner.due.pop_front() else { return };
            let requests = &mut inner.requests[usize::from(piece.write)];
            if requests.set() == Some(piece.taken.set) {
                requests.delivered(piece.taken.bit, done);
            } else {
                inner.delivered(&piece, &mut bytes);
            }
        }
    }

    /// Registers a queue's request, to be served for free.
    pub fn request(&self, slot: Slot, write: bool, at: Extent) {
        self.inner.borrow_mut().request(slot, write, at);
        self.look();
    }

    /// Wakes the foreground if idle time is used: it may have work now.
    fn look(&self) {
        if let Some(foreground) = self.foreground.upgrade().filter(|_| self.uses_idle_time()) {
            foreground.look();
        }
    }

    /// Withdraws a queue's request; pieces already transferred are dropped.
    pub fn withdraw(&self, slot: Slot, write: bool) {
        self.inner.borrow_mut().withdraw(slot, write);
    }
}

impl Inner {
    /// Takes pending reads that the foreground itself transfers.
    fn pass(&mut self, leg: &Leg) {
        let side = &mut self.sides[0];
        if side.is_empty() {
            return;
        }
        let (tracks, plan, freed) = (&self.tracks, &mut self.plan, &mut self.freed);
        tracks.of(&self.layout, leg.at, |track, stretch| {
            side.take(tracks, track, stretch, stretch.within(leg.at), None, |taken, (first, end)| {
                let (start, sectors) = (stretch.start + u64::from(first), u64::from(end - first));
                let to = leg.end.0;
                freed.foreground_bytes += sectors * 512;
                plan.pieces.push(Piece { write: false, taken, start, sectors, from: to, to });
            });
        });
    }

    /// Fills the wait of a segment; returns how much later it ends, in nanoseconds, with a model error.
    fn fill_leg(&mut self, leg: &Leg, late: Nanos) -> u64 {
        let wait = leg.first.since(leg.landed);
        if wait == Nanos::ZERO {
            return 0;
        }
        let per_track = u128::from(self.layout.piece(leg.at).per_track);
        let revolution = u128::from(self.mechanics.revolution().0);
        self.freed.gaps += 1;
        self.freed.potential += wait;
        self.freed.potential_bytes += (u128::from(wait.0) * per_track * 512 / revolution) as u64;
        if self.sides.iter().all(Side::is_empty) {
            return 0;
        }
        if self.freed.gaps % WEIGHED_EVERY == 1 {
            self.weigh();
        }
        let begin = if leg.kept { leg.landed } else { leg.begin + late };
        let from = if leg.kept { leg.to } else { leg.from };
        let gap = Gap { from, begin: begin.0, to: leg.to, due: leg.first.0, write: leg.write };
        let known = Known {
            tracks: &self.tracks,
            mechanics: &self.mechanics,
            at_least: &self.at_least,
            turn_round: self.turn_round,
            guard: self.options.guard.0,
            worth: &self.worth,
            price: self.price,
            candidates: self.options.candidates,
        };
        let filling = if self.weights.is_some() { Filling::Again } else { Filling::Once };
        let mut planner = Planner { known, filling, sides: &mut self.sides };
        let before = self.plan.pieces.len();
        planner.fill(gap, leg.kept, &mut self.plan);
        self.earned.0 += std::mem::take(&mut self.plan.worth);
        self.earned.1 += wait.0 / 1_000;
        let late = self.go_astray(&gap, before);
        self.reckon(leg, before);
        late
    }

    /// Adds a plan for the wait of a segment to the statistics; its pieces are those from `first` on.
    fn reckon(&mut self, leg: &Leg, first: usize) {
        let plan = &mut self.plan;
        let (mut at, mut seeks) = (leg.from, 0);
        for &(stop, write, _) in &plan.stops {
            seeks += self.mechanics.go(self.turn_round, at, stop, write);
            at = stop;
        }
        if !plan.stops.is_empty() {
            let direct = self.mechanics.go(self.turn_round, leg.from, leg.to, leg.write);
            seeks += self.mechanics.go(self.turn_round, at, leg.to, leg.write);
            self.freed.seek += Nanos(seeks.saturating_sub(direct));
        }
        self.freed.stops += plan.stops.len() as u64;
        self.freed.tested += u64::from(std::mem::take(&mut plan.tested));
        for piece in &plan.pieces[first..] {
            self.freed.transfer += Nanos(piece.to - piece.from);
            self.freed.bytes += piece.sectors * 512;
        }
        plan.stops.clear();
    }

    /// Weighs regions by the work that is left in them.
    fn weigh(&mut self) {
        let Some(weights) = &self.weights else { return };
        let (worth, micros) = std::mem::take(&mut self.earned);
        self.price = worth / micros.max(1);
        let left = self.left_by_region();
        self.worth.weigh_regions(&left, weights.region);
    }
}

#[cfg(test)]
mod tests;
