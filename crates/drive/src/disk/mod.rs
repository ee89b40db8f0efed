//! A disk drive as arithmetic: layout, mechanics, cache and interface in one value that can be queried and cloned.
//!
//! The path of a read: command handling; then either a cache hit, sent over the bus, or the bus is released, the head
//! seeks, and the bus is taken again when enough has been read. The path of a write: handling, transfer over the bus,
//! acknowledgement now or when it is on the media. An idle head reads ahead after the last read.

mod background;
mod buffer;
mod bus;
pub mod cache;
mod destage;
mod device;
pub mod estimator;
pub mod layout;
pub mod mechanics;
mod read;
mod retries;
mod runs;
pub mod seek;
mod timing;
pub mod trajectory;
mod write;

use std::sync::{Arc, OnceLock};

use seekless_core::{Extent, Lba, Nanos, Op};

use crate::device_model::HeadState;
use crate::freeblock::Tables;
use crate::spec::{CacheSpec, PowerSpec, QueueSpec, Spec, WriteBack};
use background::BackgroundWork;
use buffer::WriteBuffer;
use cache::Cache;
use estimator::AtLeast;
use layout::Layout;
use mechanics::{Access, Head, Mechanics};
use retries::Retries;
use timing::Timing;
use trajectory::{Step, Trajectory};
use write::WriteBehind;

/// A drive and its state: the position of its head and the content of its cache.
#[derive(Clone, Debug)]
pub struct Drive {
    layout: Layout,
    mechanics: Mechanics,
    retries: Option<Retries>,
    at_least: AtLeast,
    timing: Timing,
    policy: CacheSpec,
    cache: Cache,
    head: Head,
    /// When the turn-round after the last command on the media ends.
    turned: Nanos,
    /// Whether the last command was a write, and where it ended.
    after_write: bool,
    write_end: Lba,
    /// The acknowledged write that is still in progress.
    write_behind: Option<WriteBehind>,
    buffer: WriteBuffer,
    /// When the last command was answered; the idle time after which the buffer is destaged; where the last destage
    /// ended.
    idle_since: Nanos,
    destage_after: Nanos,
    destaged: Lba,
    background: BackgroundWork,
    trajectory: Trajectory,
    queue: QueueSpec,
    power: Option<PowerSpec>,
    /// Once they are needed; copies of the drive share them.
    tables: Arc<OnceLock<Tables>>,
}

impl Drive {
    /// The drive at rest over its outermost track, its cache empty.
    pub fn new(spec: &Spec) -> Drive {
        let mechanics = Mechanics::new(spec);
        Drive {
            layout: Layout::new(spec, mechanics.revolution().0),
            at_least: estimator::at_least(&mechanics, spec.cylinders()),
            mechanics,
            retries: spec.retries.as_ref().map(Retries::new),
            timing: Timing::new(spec),
            policy: spec.cache,
            cache: Cache::new(&spec.cache),
            head: Head::default(),
            turned: Nanos::ZERO,
            after_write: false,
            write_end: Lba(0),
            write_behind: None,
            buffer: WriteBuffer::new(&spec.cache),
            idle_since: Nanos::ZERO,
            destage_after: Nanos((spec.cache.destage_after_ms * 1e6).round() as u64),
            destaged: Lba(0),
            background: BackgroundWork::default(),
            trajectory: Trajectory::default(),
            queue: spec.queue,
            power: spec.power.clone(),
            tables: Arc::default(),
        }
    }

    /// Layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Mechanics.
    pub fn mechanics(&self) -> &Mechanics {
        &self.mechanics
    }

    /// By distance in cylinders: the shortest seek of this distance or more.
    pub fn at_least(&self) -> AtLeast {
        self.at_least.clone()
    }

    /// What freeblock scheduling needs to know of it.
    pub fn tables(&self) -> &Tables {
        self.tables.get_or_init(|| Tables::new(&self.layout, self.mechanics.revolution().0))
    }

    /// Least time between two transfers, in nanoseconds.
    pub fn turn_round_time(&self) -> u64 {
        self.timing.turn_round
    }

    /// Enables recording of the head's trajectory.
    pub fn record_trajectory(&mut self) {
        self.trajectory.enable();
    }

    /// Takes the steps recorded since the last call.
    pub fn take_trajectory(&mut self, trajectory: &mut Vec<Step>) {
        self.trajectory.take(trajectory);
    }

    /// Serves `op` at `at` from time `now` on and updates the drive's state. A `queued` command was handled while the
    /// one before was on the media: its handling costs nothing.
    pub fn serve(&mut self, op: Op, at: Extent, now: Nanos, queued: bool) -> Access {
        let took = match op {
            Op::Read => self.read(at, now, queued),
            Op::Write | Op::WriteZeroes if (1..=self.buffer.capacity()).contains(&at.sectors) => {
                self.write_buffered(at, now, queued)
            }
            Op::Write | Op::WriteZeroes => {
                // A write larger than the buffer bypasses it.
                let early = self.policy.write_back == WriteBack::All && self.buffer.capacity() == 0;
                self.write(at, now, queued, early)
            }
            Op::Flush => {
                let begin = self.timing.begin(now);
                let done = self.destage_all(begin);
                Access { overhead: done.since(now), ..Access::default() }
            }
            Op::Discard => Access { overhead: self.timing.begin(now).since(now), ..Access::default() },
        };
        self.answered(now, now + took.total());
        took
    }

    /// A command that arrived at `now` is answered at `done`.
    fn answered(&mut self, now: Nanos, done: Nanos) {
        self.idle_since = done;
        self.background.answered(now, done);
    }

    /// As `serve`, for a write that is acknowledged when it is on the media, whatever the cache does (FUA).
    pub fn write_through(&mut self, at: Extent, now: Nanos, queued: bool) -> Access {
        let took = self.write(at, now, queued, false);
        self.answered(now, now + took.total());
        took
    }

    /// A read from the media: buffered writes to it are destaged first, and the cache's copy is dropped.
    pub fn read_from_media(&mut self, at: Extent, now: Nanos, queued: bool) -> Access {
        let begin = if queued { now } else { self.timing.begin(now) };
        self.destage_until(begin);
        self.destage_overlapping(at, begin);
        self.cache.catch_up(&self.layout, &self.mechanics, begin);
        self.cache.invalidate(at, None);
        self.serve(Op::Read, at, now, queued)
    }

    /// Whether the head has nothing to destage and nothing to read ahead.
    pub fn head_state(&self, now: Nanos) -> HeadState {
        let soon = now + self.mechanics.revolution();
        if !self.buffer.is_empty() {
            return HeadState::BusyUntil(soon);
        }
        match self.write_behind {
            Some(write_behind) if write_behind.done > now => HeadState::BusyUntil(write_behind.done),
            Some(write_behind) => HeadState::Idle(write_behind.head),
            None if self.cache.reads_ahead(&self.layout, &self.mechanics, now) => HeadState::BusyUntil(soon),
            None => {
                let stopped = self.cache.could_stop(&self.layout, &self.mechanics, now);
                HeadState::Idle(stopped.map_or(self.head, |(_, head)| head))
            }
        }
    }

    /// Moves the head, which is idle, to this track, where it arrives at `landed`.
    pub fn move_head(&mut self, to: Head, landed: Nanos) {
        // As if it wrote nothing there.
        self.cache.stop(&self.layout, &self.mechanics, landed);
        self.write_behind = Some(WriteBehind { at: Extent::default(), done: landed, head: to });
    }

    /// The further time of the next access to the media, in nanoseconds.
    fn retry(&mut self) -> u64 {
        self.retries.as_mut().map_or(0, |retries| retries.next(&self.mechanics))
    }

    /// A command is done on the media.
    fn turn_round(&mut self, done: Nanos) {
        self.turned = done + Nanos(self.timing.turn_round);
    }

    /// Interrupts the head's background work as soon after `now` as possible; returns when the head is free.
    fn free_head(&mut self, now: Nanos) -> Nanos {
        if let Some(write_behind) = self.write_behind.take() {
            self.head = write_behind.head;
            return write_behind.done.max(now);
        }
        match self.cache.stop(&self.layout, &self.mechanics, now) {
            Some((free, head)) => {
                self.head = head;
                free
            }
            None => now,
        }
    }
}

#[cfg(test)]
mod tests;
