//! Freeblock scheduling (Lumb et al., OSDI 2000): blocks that somebody wants are read or written in the time
//! that the head would otherwise wait for a foreground request's first sector.
//!
//! The drive serves the foreground as if nothing else were there, and tells the way its head goes. What is wanted
//! is fitted into the waits of that way, so that the foreground stays what it is, to the nanosecond, by
//! construction; that the head can really be wherever it is planned to be is what the tests check. Blocks that
//! the foreground itself transfers are taken as well.
//!
//! Invariants: a wanted piece is taken once; a block is delivered when all of its pieces were taken, at the time
//! when the last one has passed. Fault model: none of its own. A wrong prediction is what a guard is for.

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

/// What free work came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Waits of the head for a first sector.
    pub gaps: u64,
    /// How long they were: the potential.
    pub potential: Nanos,
    /// What would have passed in that time on the tracks waited on, in bytes.
    pub potential_bytes: u64,
    /// Of it, in which wanted blocks passed.
    pub transfer: Nanos,
    /// Of it, in which the head was on its way elsewhere and back, beyond the way it would have gone.
    pub seek: Nanos,
    /// Stops made.
    pub stops: u64,
    /// Tracks that were tested.
    pub tested: u64,
    /// Bytes read or written in gaps.
    pub bytes: u64,
    /// Bytes that the foreground itself transferred and somebody wanted.
    pub foreground_bytes: u64,
    /// Tracks that the head went to in idle time.
    pub visits: u64,
    /// Bytes read or written there.
    pub idle_bytes: u64,
    /// How long the requests that came meanwhile waited for a seek to end.
    pub idle_waited: Nanos,
    /// By how many nanoseconds the first sector of those came later for that the head was elsewhere; below zero if it
    /// was nearer there.
    pub idle_moved: i64,
    /// With a wrong model: pieces of blocks that had passed before the head came.
    pub missed: u64,
    /// And how often the foreground's first sector had.
    pub late: u64,
}

impl Freed {
    /// What it has come to since it was `before`.
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

    /// What it comes to with that of another arm.
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

/// What filling the waits of a command comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// When the last of what is taken will have passed.
    pub last: Option<Nanos>,
    /// How much longer the command takes: nothing, unless the model is wrong.
    pub late: Nanos,
}

/// Every so many gaps regions are weighed anew.
const WEIGHED_EVERY: u64 = 1_024;

/// The freeblock scheduler of one arm.
pub struct Freeblock {
    inner: RefCell<Inner>,
    /// What carries out what is promoted.
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
    /// How many tasks there were.
    born: u64,
    requests: [Requests; 2],
    /// Pieces that were taken and have not passed yet, in order of time.
    due: VecDeque<Piece>,
    plan: Plan,
    /// Those of a wrong model.
    errors: Errors,
    idle: Idle,
    /// What a microsecond of a gap brought of late, and what it brings now: worth, and microseconds.
    price: u64,
    earned: (u64, u64),
    freed: Freed,
}

impl Freeblock {
    /// That of a drive; what is promoted is asked of `foreground`.
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

    /// What free work came to so far.
    pub fn freed(&self) -> Freed {
        self.inner.borrow().freed
    }

    /// The head goes these legs for a foreground command that was begun at `now`; the command was known for
    /// `known` before. What is wanted is taken along.
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

    /// Delivers what has passed by `now`: `bytes` reads them off the media, or puts them there. Requests of a queue
    /// that are done go into `done`.
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

    /// A queue's request is to be carried out for free.
    pub fn request(&self, slot: Slot, write: bool, at: Extent) {
        self.inner.borrow_mut().request(slot, write, at);
        self.look();
    }

    /// There is something to be done in idle time.
    fn look(&self) {
        if let Some(foreground) = self.foreground.upgrade().filter(|_| self.uses_idle_time()) {
            foreground.look();
        }
    }

    /// It is not any more: what was done of it counts for nothing.
    pub fn withdraw(&self, slot: Slot, write: bool) {
        self.inner.borrow_mut().withdraw(slot, write);
    }
}

impl Inner {
    /// The foreground's own transfer of what somebody wants to read.
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

    /// Fills the wait of a leg; how much later it ends, in nanoseconds, if the model is wrong.
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

    /// Adds up what a plan does in the wait of a leg; its pieces are those from `first` on.
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

    /// Looks how much is left where.
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
