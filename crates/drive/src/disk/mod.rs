//! A disk drive as arithmetic: layout, mechanics, cache and interface in one value that can be asked and
//! copied.
//!
//! The way of a read: handled; found in the cache and sent over the bus, or the bus is let go, the head goes
//! there, and the bus is taken again when enough has come off the media. The way of a write: handled, taken
//! over the bus, acknowledged now or when it is on the media. While nothing else is to be done the head reads
//! on behind the last read.

mod aside;
mod buffer;
mod bus;
pub mod cache;
mod destage;
mod device;
pub mod layout;
pub mod legs;
pub mod mechanics;
mod read;
mod runs;
pub mod seek;
pub mod sight;
mod timing;
mod write;

use seekless_core::{Extent, Lba, Nanos, Op};

use crate::machine::Rest;
use crate::scheduler::Positioning;
use crate::spec::{CacheSpec, PowerSpec, QueueSpec, Spec, WriteBack};
use aside::Aside;
use buffer::WriteBuffer;
use cache::Cache;
use layout::Layout;
use legs::{Leg, Legs};
use mechanics::{Access, Head, Mechanics};
use sight::AtLeast;
use timing::Timing;
use write::Behind;

/// A drive and the state it is in: where its head is and what its cache holds.
#[derive(Clone, Debug)]
pub struct Drive {
    layout: Layout,
    mechanics: Mechanics,
    at_least: AtLeast,
    timing: Timing,
    policy: CacheSpec,
    cache: Cache,
    head: Head,
    /// When it has turned round after the last command that was on the media.
    turned: Nanos,
    /// Whether the last command was a write; where it ended.
    after_write: bool,
    write_end: Lba,
    /// What was acknowledged and is still being written.
    behind: Option<Behind>,
    buffer: WriteBuffer,
    /// When the last command was answered; after how long without another the buffer goes to the media; where
    /// what did so last ended.
    idle_since: Nanos,
    destage_after: Nanos,
    destaged: Lba,
    aside: Aside,
    legs: Legs,
    queue: QueueSpec,
    power: Option<PowerSpec>,
}

impl Drive {
    /// The drive at rest over its outermost track, its cache empty.
    pub fn new(spec: &Spec) -> Drive {
        let mechanics = Mechanics::new(spec);
        Drive {
            layout: Layout::new(spec, mechanics.revolution().0),
            at_least: sight::at_least(&mechanics, spec.cylinders()),
            mechanics,
            timing: Timing::new(spec),
            policy: spec.cache,
            cache: Cache::new(&spec.cache),
            head: Head::default(),
            turned: Nanos::ZERO,
            after_write: false,
            write_end: Lba(0),
            behind: None,
            buffer: WriteBuffer::new(&spec.cache),
            idle_since: Nanos::ZERO,
            destage_after: Nanos((spec.cache.destage_after_ms * 1e6).round() as u64),
            destaged: Lba(0),
            aside: Aside::default(),
            legs: Legs::default(),
            queue: spec.queue,
            power: spec.power.clone(),
        }
    }

    /// Its layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its moving parts.
    pub fn mechanics(&self) -> &Mechanics {
        &self.mechanics
    }

    /// By distance in cylinders, the shortest way so far or farther.
    pub fn at_least(&self) -> AtLeast {
        self.at_least.clone()
    }

    /// Between two transfers the head takes at least so many nanoseconds.
    pub fn turn_round_time(&self) -> u64 {
        self.timing.turn_round
    }

    /// From now on the head's way is noted.
    pub fn note_legs(&mut self) {
        self.legs.want();
    }

    /// The legs that the head went since this was asked last.
    pub fn take_legs(&mut self, legs: &mut Vec<Leg>) {
        self.legs.take(legs);
    }

    /// What `op` at `at` takes from time `now` on; the drive is then in the state after it.
    /// The command of a `queued` one was handled while the one before was on the media: it costs nothing.
    pub fn serve(&mut self, op: Op, at: Extent, now: Nanos, queued: bool) -> Access {
        let took = match op {
            Op::Read => self.read(at, now, queued),
            Op::Write | Op::WriteZeroes if (1..=self.buffer.capacity()).contains(&at.sectors) => {
                self.write_buffered(at, now, queued)
            }
            Op::Write | Op::WriteZeroes => {
                // What the buffer cannot hold goes past it.
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

    /// A command that came at `now` is answered at `done`.
    fn answered(&mut self, now: Nanos, done: Nanos) {
        self.idle_since = done;
        self.aside.answered(now, done);
    }

    /// The same for a write that is acknowledged when it is on the media, whatever the cache does (FUA).
    pub fn write_through(&mut self, at: Extent, now: Nanos, queued: bool) -> Access {
        let took = self.write(at, now, queued, false);
        self.answered(now, now + took.total());
        took
    }

    /// A read of what is on the media: what is to be written there is first, and what the cache has is forgotten.
    pub fn read_from_media(&mut self, at: Extent, now: Nanos, queued: bool) -> Access {
        let begin = if queued { now } else { self.timing.begin(now) };
        self.destage_until(begin);
        self.destage_overlapping(at, begin);
        self.cache.catch_up(&self.layout, &self.mechanics, begin);
        self.cache.was_written(at, None);
        self.serve(Op::Read, at, now, queued)
    }

    /// What a read or write at `at` would take to get its head there, without going there.
    pub fn estimate(&self, at: Lba, now: Nanos, write: bool) -> Nanos {
        self.sight(now).reach(self.place(at), write, false).total()
    }

    /// Whether the head has nothing to write and nothing to read ahead.
    pub fn rest(&self, now: Nanos) -> Rest {
        let soon = now + self.mechanics.revolution();
        if !self.buffer.is_empty() {
            return Rest::NotBefore(soon);
        }
        match self.behind {
            Some(behind) if behind.done > now => Rest::NotBefore(behind.done),
            Some(behind) => Rest::At(behind.head),
            None if self.cache.reads_ahead(&self.layout, &self.mechanics, now) => Rest::NotBefore(soon),
            None => {
                let stopped = self.cache.could_stop(&self.layout, &self.mechanics, now);
                Rest::At(stopped.map_or(self.head, |(_, head)| head))
            }
        }
    }

    /// The head, which was at rest, goes to this track and is there at `landed`.
    pub fn move_head(&mut self, to: Head, landed: Nanos) {
        // As if it wrote nothing there.
        self.cache.stop(&self.layout, &self.mechanics, landed);
        self.behind = Some(Behind { at: Extent::default(), done: landed, head: to });
    }

    /// A command is done on the media.
    fn turn_round(&mut self, done: Nanos) {
        self.turned = done + Nanos(self.timing.turn_round);
    }

    /// The head leaves what it does for itself, as soon after `now` as it may: when it is free.
    fn free_head(&mut self, now: Nanos) -> Nanos {
        if let Some(behind) = self.behind.take() {
            self.head = behind.head;
            return behind.done.max(now);
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
