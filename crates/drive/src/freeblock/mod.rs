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

mod direction;
mod error;
mod idle;
mod misprediction;
mod options;
mod partial;
mod pending;
mod plan;
mod requests;
mod search;
mod task;
mod tracks;
mod value;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Weak;
use std::sync::Arc;

use seekless_core::{Buffer, Extent, Nanos};
use slab::Slab;

use crate::disk::Drive;
use crate::disk::layout::Layout;
use crate::disk::mechanics::Mechanics;
use crate::disk::trajectory::Step;
use crate::scheduler::Slot;
use direction::Direction;
pub use error::FreeError;
use idle::Idle;
pub use idle::Visit;
use misprediction::SeekErrors;
pub use options::{FreeOptions, FreePolicy};
use plan::{Piece, Plan, Planner, StopCount};
use requests::Requests;
use search::{Gap, PlanInputs};
use task::Task;
pub use task::{Foreground, FreeBlock, FreeTask, Progress};
use tracks::Tracks;
use value::{BlockValue, Weights};

/// Statistics of freeblock scheduling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeStats {
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

impl FreeStats {
    /// Difference to an earlier snapshot.
    pub fn since(&self, before: &FreeStats) -> FreeStats {
        FreeStats {
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

    /// Share of the potential that was used, 0 to 1: pending bytes that were transferred, of these and what would have
    /// passed in the unused parts of the waits.
    pub fn share(&self) -> f64 {
        let taken = (self.bytes + self.foreground_bytes) as f64;
        let unused = self.potential.since(self.transfer).seconds() / self.potential.seconds().max(1e-9);
        taken / (taken + unused * self.potential_bytes as f64).max(1.0)
    }

    /// Sum with another arm's.
    #[must_use]
    pub fn plus(&self, other: &FreeStats) -> FreeStats {
        FreeStats {
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
pub struct FillResult {
    /// When the last taken piece will have passed.
    pub last: Option<Nanos>,
    /// How much longer the command takes: zero without a model error.
    pub late: Nanos,
}

/// Gaps between two recomputations of the regions' weights.
const WEIGHED_EVERY: u64 = 1_024;

/// The freeblock scheduler of one arm.
pub struct Freeblock {
    inner: RefCell<Inner>,
    /// Serves promoted blocks.
    foreground: Weak<dyn Foreground>,
}

/// Properties of a drive that are the same for all of its kind: its tracks, and the value of blocks on them.
#[derive(Clone, Debug)]
pub struct Tables {
    tracks: Arc<Tracks>,
    value: BlockValue,
}

impl Tables {
    /// Those of a layout whose disk turns in `revolution` nanoseconds.
    pub fn new(layout: &Layout, revolution: u64) -> Tables {
        let tracks = Tracks::new(layout, revolution);
        let value = BlockValue::blocks(1 << 12, &tracks);
        Tables { tracks: Arc::new(tracks), value }
    }
}

struct Inner {
    options: FreeOptions,
    layout: Layout,
    mechanics: Mechanics,
    at_least: crate::disk::estimator::AtLeast,
    turn_round: u64,
    tracks: Arc<Tracks>,
    directions: [Direction; 2],
    value: BlockValue,
    weights: Option<Weights>,
    tasks: Slab<Task>,
    /// Tasks created so far.
    serial: u64,
    requests: [Requests; 2],
    /// Pieces that were taken and have not passed yet, in order of time.
    due: VecDeque<Piece>,
    plan: Plan,
    /// Seek errors of the model.
    seek_errors: SeekErrors,
    idle: Idle,
    /// Value that a microsecond of a gap brought recently; and value and microseconds since.
    price: u64,
    earned: (u64, u64),
    stats: FreeStats,
}

impl Freeblock {
    /// A scheduler for `drive`; promoted blocks are submitted to `foreground`.
    pub fn new(drive: &Drive, options: FreeOptions, foreground: Weak<dyn Foreground>) -> Freeblock {
        let mechanics = drive.mechanics().clone();
        let Tables { tracks, mut value } = drive.tables().clone();
        let weights = (options.policy == FreePolicy::Weighted).then(Weights::usual);
        if let Some(weights) = &weights {
            value.weigh(weights, tracks.len());
        }
        let inner = Inner {
            options,
            layout: drive.layout().clone(),
            mechanics,
            at_least: drive.at_least(),
            turn_round: drive.turn_round_time(),
            tracks,
            directions: Default::default(),
            value,
            weights,
            tasks: Slab::new(),
            serial: 0,
            requests: Default::default(),
            due: VecDeque::new(),
            plan: Plan::default(),
            seek_errors: SeekErrors::default(),
            idle: Idle::default(),
            price: 0,
            earned: (0, 0),
            stats: FreeStats::default(),
        };
        Freeblock { inner: RefCell::new(inner), foreground }
    }

    /// Statistics so far.
    pub fn stats(&self) -> FreeStats {
        self.inner.borrow().stats
    }

    /// Plans transfers of pending pieces along the steps of a foreground command that started at `now` and was
    /// queued for `inputs` before.
    pub fn fill(&self, trajectory: &mut [Step], now: Nanos, inputs: Nanos) -> FillResult {
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        inner.charge_delay(trajectory, now);
        if inner.directions.iter().all(Direction::is_empty) && inner.tasks.is_empty() {
            return FillResult::default();
        }
        let late = inner.options.decision.since(inputs);
        for step in trajectory.iter().filter(|step| step.begin >= now) {
            inner.pass(step);
        }
        let mut turns = 0;
        for number in 0..trajectory.len() {
            if trajectory[number].begin < now {
                continue;
            }
            let more = inner.fill_wait(&trajectory[number], if number == 0 { late } else { Nanos::ZERO });
            if more > 0 {
                inner.plan.postpone(trajectory[number].first.0, more);
                trajectory[number + 1..].iter_mut().for_each(|step| step.postpone(Nanos(more)));
                turns += more;
            }
        }
        inner.plan.pieces.sort_unstable_by_key(|piece| (piece.to, piece.start));
        let last = inner.plan.pieces.last().map(|piece| Nanos(piece.to));
        inner.due.extend(inner.plan.pieces.drain(..));
        FillResult { last, late: Nanos(turns) }
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
        self.wake_for_idle_work();
    }

    /// Wakes the foreground if idle time is used: it may have work now.
    fn wake_for_idle_work(&self) {
        if let Some(foreground) = self.foreground.upgrade().filter(|_| self.uses_idle_time()) {
            foreground.wake_for_idle_work();
        }
    }

    /// Cancels a queue's request; pieces already transferred are dropped.
    pub fn cancel(&self, slot: Slot, write: bool) {
        self.inner.borrow_mut().cancel(slot, write);
    }
}

impl Inner {
    /// Takes pending reads that the foreground itself transfers.
    fn pass(&mut self, step: &Step) {
        let direction = &mut self.directions[0];
        if direction.is_empty() {
            return;
        }
        let (tracks, plan, stats) = (&self.tracks, &mut self.plan, &mut self.stats);
        tracks.of(&self.layout, step.at, |track, extent| {
            direction.take(tracks, track, extent, extent.within(step.at), None, |taken, (first, end)| {
                let (start, sectors) = (extent.start + u64::from(first), u64::from(end - first));
                let to = step.end.0;
                stats.foreground_bytes += sectors * 512;
                plan.pieces.push(Piece { write: false, taken, start, sectors, from: to, to });
            });
        });
    }

    /// Fills the wait of a step; returns how much later it ends, in nanoseconds, with a model error.
    fn fill_wait(&mut self, step: &Step, late: Nanos) -> u64 {
        let wait = step.first.since(step.landed);
        if wait == Nanos::ZERO {
            return 0;
        }
        let per_track = u128::from(self.layout.piece(step.at).per_track);
        let revolution = u128::from(self.mechanics.revolution().0);
        self.stats.gaps += 1;
        self.stats.potential += wait;
        self.stats.potential_bytes += (u128::from(wait.0) * per_track * 512 / revolution) as u64;
        if self.directions.iter().all(Direction::is_empty) {
            return 0;
        }
        if self.stats.gaps % WEIGHED_EVERY == 1 {
            self.weigh();
        }
        let begin = if step.stay { step.landed } else { step.begin + late };
        let from = if step.stay { step.to } else { step.from };
        let gap = Gap { from, begin: begin.0, to: step.to, due: step.first.0, write: step.write };
        let inputs = PlanInputs {
            tracks: &self.tracks,
            mechanics: &self.mechanics,
            at_least: &self.at_least,
            turn_round: self.turn_round,
            guard: self.options.guard.0,
            value: &self.value,
            price: self.price,
            candidates: self.options.candidates,
        };
        let stop_count = if self.weights.is_some() { StopCount::Many } else { StopCount::One };
        let mut planner = Planner { inputs, stop_count, directions: &mut self.directions };
        let before = self.plan.pieces.len();
        planner.fill(gap, step.stay, &mut self.plan);
        self.earned.0 += std::mem::take(&mut self.plan.value);
        self.earned.1 += wait.0 / 1_000;
        let late = self.mispredict(&gap, before);
        self.account(step, before);
        late
    }

    /// Adds a plan for the wait of a step to the statistics; its pieces are those from `first` on.
    fn account(&mut self, step: &Step, first: usize) {
        let plan = &mut self.plan;
        let (mut at, mut seeks) = (step.from, 0);
        for &(stop, write, _) in &plan.stops {
            seeks += self.mechanics.move_time(self.turn_round, at, stop, write);
            at = stop;
        }
        if !plan.stops.is_empty() {
            let direct = self.mechanics.move_time(self.turn_round, step.from, step.to, step.write);
            seeks += self.mechanics.move_time(self.turn_round, at, step.to, step.write);
            self.stats.seek += Nanos(seeks.saturating_sub(direct));
        }
        self.stats.stops += plan.stops.len() as u64;
        self.stats.tested += u64::from(std::mem::take(&mut plan.tested));
        for piece in &plan.pieces[first..] {
            self.stats.transfer += Nanos(piece.to - piece.from);
            self.stats.bytes += piece.sectors * 512;
        }
        plan.stops.clear();
    }

    /// Weighs regions by the work that is left in them.
    fn weigh(&mut self) {
        let Some(weights) = &self.weights else { return };
        let (value, micros) = std::mem::take(&mut self.earned);
        self.price = value / micros.max(1);
        let left = self.left_by_region();
        self.value.weigh_regions(&left, weights.region);
    }
}

#[cfg(test)]
mod tests;
