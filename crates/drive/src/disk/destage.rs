//! Destaging: how a drive with a write buffer accepts writes, and when and in which order they go to the media.
//!
//! Below the threshold the head destages after the drive has been idle for a while, above it whenever it is free. A
//! write waits until there is room. Destage progress is computed when the next command arrives.

use seekless_core::{Extent, Nanos};

use super::Drive;
use super::mechanics::Access;
use super::write::{Buffered, MinSeek, WriteBehind};

impl Drive {
    /// A write into the buffer: acknowledged when its data are there.
    pub(super) fn write_buffered(&mut self, at: Extent, now: Nanos, queued: bool) -> Access {
        let after_write = std::mem::replace(&mut self.after_write, true);
        let begin = if queued { now } else { self.timing.begin(now) };
        self.destage_until(begin);
        let handling = if queued { 0 } else { self.timing.write(true, after_write) };
        let mut data = begin + Nanos(handling + self.timing.preparation);
        while !self.buffer.has_room(at.sectors) {
            data = data.max(self.destage_one(data));
        }
        self.cache.invalidate(at, None);
        let layout = &self.layout;
        self.buffer.put(at, data, |lba| super::estimator::place(layout, lba));
        let done = data + Nanos(at.sectors * self.timing.write_sector + self.timing.write_completion);
        Access { overhead: done.since(now), ..Access::default() }
    }

    /// Destages what the head wrote in idle time up to `now`.
    pub(super) fn destage_until(&mut self, now: Nanos) {
        while !self.buffer.is_empty() {
            let rested =
                self.idle_since + if self.buffer.over_threshold() { Nanos::ZERO } else { self.destage_after };
            let free = self.write_behind.map_or(rested, |write_behind| rested.max(write_behind.done));
            if free >= now {
                return;
            }
            self.destage_one(free);
        }
    }

    /// Destages one range as soon after `from` as the head is free; returns when it is on the media.
    fn destage_one(&mut self, from: Nanos) -> Nanos {
        let free = self.free_head(from);
        // The estimates are of the rest of the drive.
        let mut buffer = std::mem::take(&mut self.buffer);
        let next = if buffer.by_position() {
            buffer.next(free, self.destaged, Some(&self.estimator(free)))
        } else {
            buffer.next(free, self.destaged, None)
        };
        let range = next.and_then(|start| buffer.take(start));
        self.buffer = buffer;
        range.map_or(free, |range| self.write_out(range, free))
    }

    fn write_out(&mut self, range: Extent, free: Nanos) -> Nanos {
        let buffered = Buffered { from: Nanos::ZERO, each: 0, at_least: 1 };
        let turned = if range.start == self.destaged { Nanos::ZERO } else { self.turned };
        let took = self.put(range, free, buffered, MinSeek { seek: 0, turned });
        let done = free + took.total();
        self.destaged = range.end();
        self.write_behind = Some(WriteBehind { at: range, done, head: self.head });
        self.background.add(&took, free);
        done
    }

    /// Destages the whole buffer, from `from` on; returns when it is on the media.
    pub(super) fn destage_all(&mut self, from: Nanos) -> Nanos {
        self.destage_until(from);
        let mut done = from.max(self.write_behind_done());
        while !self.buffer.is_empty() {
            done = self.destage_one(done);
        }
        done
    }

    /// Destages what the buffer holds of `at`, before a read of it from the media.
    pub(super) fn destage_overlapping(&mut self, at: Extent, from: Nanos) {
        while let Some(range) = self.buffer.overlapping(at) {
            let free = self.free_head(from);
            self.buffer.take(range.start.0);
            self.write_out(range, free);
        }
    }
}
