//! The path of a write.

use seekless_core::{Extent, Nanos};

use super::Drive;
use super::mechanics::{Access, Head};
use super::timing::Extra;
use super::trajectory::Step;

/// A write that was acknowledged and is still going to the media.
#[derive(Clone, Copy, Debug)]
pub struct WriteBehind {
    /// Sectors.
    pub at: Extent,
    /// When it is on the media.
    pub done: Nanos,
    /// Where the head is then.
    pub head: Head,
}

/// Sectors buffered before a drive with extra disconnects begins to write: for a short write, and for one of `LONG`
/// sectors or more.
const BUFFERED: [u64; 2] = [10, 15];
const LONG: u64 = 45;

impl Drive {
    /// When everything acknowledged is on the media.
    pub(super) fn write_behind_done(&self) -> Nanos {
        self.write_behind.map_or(Nanos::ZERO, |write_behind| write_behind.done)
    }

    /// Forgets a write that is on the media by now.
    pub(super) fn retire_write_behind(&mut self, now: Nanos) {
        if let Some(write_behind) = self.write_behind.filter(|write_behind| write_behind.done <= now) {
            self.head = write_behind.head;
            self.write_behind = None;
        }
    }

    /// A write, acknowledged `early` or when it is on the media. The write buffer's copy is dropped.
    pub(super) fn write(&mut self, at: Extent, now: Nanos, queued: bool, early: bool) -> Access {
        let after_write = std::mem::replace(&mut self.after_write, true);
        let sequential = after_write && at.start == self.write_end;
        self.write_end = at.end();
        let begin = if queued { now } else { self.timing.begin(now) };
        self.destage_until(begin);
        let layout = &self.layout;
        self.buffer.forget(at, now, &|lba| super::estimator::place(layout, lba));
        self.retire_write_behind(begin);
        self.cache.catch_up(&self.layout, &self.mechanics, begin);
        let handling = if queued { 0 } else { self.timing.write(early, after_write) };
        let handled = begin + Nanos(handling);
        let extra = self.timing.extra.filter(|_| after_write && !sequential && self.write_behind.is_none());
        let took = match (self.write_behind, extra) {
            (Some(write_behind), _) if early && self.continues(&write_behind, at) => {
                self.append(write_behind, at, handled)
            }
            (Some(_), _) => self.write_when_free(at, handled, early),
            (None, Some(extra)) => self.write_disconnected(at, begin, extra),
            (None, None) => self.write_now(at, handled, early, queued, self.least(queued, sequential)),
        };
        self.store_in_cache(at);
        let WriteTiming { done, start, media } = took;
        let whole = (done + Nanos(self.timing.write_completion)).since(now);
        let moved = media.seek + media.rotation + media.transfer;
        if early || moved > whole {
            // The head does its work later.
            if early {
                self.background.add(&media, start);
            }
            return Access {
                overhead: whole,
                distance: if early { 0 } else { media.distance },
                ..Access::default()
            };
        }
        Access { overhead: whole - moved, ..media }
    }

    /// Whether a write continues one that is still going to the media.
    fn continues(&self, write_behind: &WriteBehind, at: Extent) -> bool {
        let room = u64::from(self.policy.segment_sectors);
        self.policy.combine_writes
            && write_behind.at.end() == at.start
            && write_behind.at.sectors + at.sectors <= room
    }

    fn append(&mut self, write_behind: WriteBehind, at: Extent, handled: Nanos) -> WriteTiming {
        let data = handled + Nanos(self.timing.preparation);
        self.head = write_behind.head;
        let buffered = self.buffered(at, data);
        let media = self.put(at, write_behind.done, buffered, MinSeek { seek: 0, turned: Nanos::ZERO });
        let both = Extent { start: write_behind.at.start, sectors: write_behind.at.sectors + at.sectors };
        self.start_write_behind(both, write_behind.done, &media);
        WriteTiming {
            done: data + Nanos(at.sectors * self.timing.write_sector),
            start: write_behind.done,
            media,
        }
    }

    /// A write that waits for the head to finish another: the bus is released until then.
    fn write_when_free(&mut self, at: Extent, handled: Nanos, early: bool) -> WriteTiming {
        let released = handled + Nanos(if early { self.timing.write_disconnect } else { 0 });
        let free = self.free_head(handled);
        let taken = free.max(released) + Nanos(self.timing.first_reselect + self.timing.preparation);
        let buffered = self.buffered(at, taken);
        self.transfer(at, buffered, free, early, self.least(false, false))
    }

    fn write_now(
        &mut self,
        at: Extent,
        handled: Nanos,
        early: bool,
        queued: bool,
        least: MinSeek,
    ) -> WriteTiming {
        let free = self.free_head(handled);
        let data = handled + Nanos(self.timing.preparation);
        // The data of a queued write arrived while the command before was on the media.
        if queued {
            let buffered = Buffered { from: data, each: 0, at_least: 1 };
            return self.transfer(at, buffered, free, early, least);
        }
        self.transfer(at, self.buffered(at, data), free, early, least)
    }

    /// Least times; a write that continues the one before needs no turn-round.
    fn least(&self, queued: bool, sequential: bool) -> MinSeek {
        let seek = if queued { 0 } else { self.timing.minimum_write_seek };
        MinSeek { seek, turned: if sequential { Nanos::ZERO } else { self.turned } }
    }

    /// Arrival of a write's data, from `from` on.
    fn buffered(&self, at: Extent, from: Nanos) -> Buffered {
        let at_least = match self.timing.extra {
            None => 1,
            Some(_) if at.sectors < LONG => at.sectors.min(BUFFERED[0]),
            Some(_) => BUFFERED[1],
        };
        Buffered { from, each: self.timing.write_sector, at_least }
    }

    /// Writes once the head is free at `free`.
    fn transfer(
        &mut self,
        at: Extent,
        buffered: Buffered,
        free: Nanos,
        early: bool,
        least: MinSeek,
    ) -> WriteTiming {
        let media = self.put(at, free, buffered, least);
        let taken = Nanos(buffered.all(at.sectors));
        if early {
            self.start_write_behind(at, free, &media);
            return WriteTiming { done: taken, start: free, media };
        }
        let released = taken + Nanos(self.timing.write_disconnect);
        let written = free + media.seek + media.rotation + media.transfer;
        WriteTiming { done: written.max(released) + Nanos(self.timing.first_reselect), start: free, media }
    }

    /// A write that releases the bus before its data arrive.
    fn write_disconnected(&mut self, at: Extent, begin: Nanos, extra: Extra) -> WriteTiming {
        let released = begin + Nanos(extra.command + extra.disconnect);
        let data = released + Nanos(extra.between + self.timing.first_reselect + self.timing.preparation);
        let free = self.free_head(begin + Nanos(extra.command + extra.seek_delay));
        let buffered = self.buffered(at, data);
        let media = self.put(at, free, buffered, self.least(false, false));
        let taken = data + Nanos(at.sectors * self.timing.write_sector + extra.second_disconnect);
        let written = free + media.seek + media.rotation + media.transfer;
        WriteTiming { done: written.max(taken) + Nanos(self.timing.other_reselect), start: free, media }
    }

    /// Continues an acknowledged write in the background.
    fn start_write_behind(&mut self, at: Extent, start: Nanos, media: &Access) {
        let done = start + media.seek + media.rotation + media.transfer;
        self.write_behind = Some(WriteBehind { at, done, head: self.head });
    }

    /// Stores written data in the cache.
    fn store_in_cache(&mut self, at: Extent) {
        let into = self.cache.segment_for_write(at);
        if let Some(number) = into {
            self.cache.reset(number, at.start, true);
            self.cache.extend(number, at.start.0, at.end().0);
            self.cache.touch(number);
        }
        self.cache.invalidate(at, into);
    }

    /// Writes `at` from `start` on, as its sectors arrive in the buffer.
    pub(super) fn put(&mut self, at: Extent, start: Nanos, buffered: Buffered, least: MinSeek) -> Access {
        let retried = self.retry();
        let mut took = Access { rotation: Nanos(retried), ..Access::default() };
        let (mut now, mut rest) = (start.0 + retried, at);
        let revolution = self.mechanics.revolution().0;
        while rest.sectors > 0 {
            let piece = self.layout.piece(rest);
            let begins = rest.start == at.start;
            let turn_round = if begins { least.turned.since(start).0 } else { 0 };
            let mut seek = self.mechanics.reach_after(turn_round, self.head, &piece, true);
            if begins {
                took.distance = self.head.cylinder.abs_diff(piece.cylinder);
                seek = seek.max(least.seek);
            }
            now += seek;
            let pass = self.mechanics.pass(piece.at.sectors, piece.per_track);
            let first = piece.at.start.0 - at.start.0;
            let ready = buffered.ready(first, first + piece.at.sectors, pass, at.sectors);
            let mut wait = self.mechanics.wait(piece.angle, now);
            let mut any_order = false;
            if self.policy.zero_latency_write && wait + pass > revolution && buffered.all(at.sectors) <= now {
                // All of it has arrived: any sector that passes is written.
                wait = revolution - pass;
                any_order = true;
            }
            if now + wait < ready {
                // The sector has passed before its data arrived.
                let late = ready - (now + wait);
                wait += late.div_ceil(revolution) * revolution;
            }
            took.seek += Nanos(seek);
            took.rotation += Nanos(wait);
            took.transfer += Nanos(pass);
            let to = Head { cylinder: piece.cylinder, head: piece.head };
            self.trajectory.add(|| Step {
                from: self.head,
                begin: Nanos(now - seek),
                to,
                landed: Nanos(now),
                first: Nanos(if any_order { now } else { now + wait }),
                end: Nanos(now + wait + pass),
                at: piece.at,
                write: true,
                stay: false,
            });
            now += wait + pass;
            self.head = to;
            rest = Extent { start: piece.at.end(), sectors: rest.sectors - piece.at.sectors };
        }
        self.turn_round(Nanos(now));
        took
    }
}

/// The least time until the head is where a write begins.
#[derive(Clone, Copy)]
pub(super) struct MinSeek {
    /// From when it begins to move.
    pub seek: u64,
    /// When the turn-round after the command before ends.
    pub turned: Nanos,
}

/// Times of a write.
struct WriteTiming {
    /// When it may be acknowledged, without the completion itself.
    done: Nanos,
    /// When the head begins.
    start: Nanos,
    /// Work of the head.
    media: Access,
}

/// Data that arrive over the bus in the buffer.
#[derive(Clone, Copy)]
pub(super) struct Buffered {
    pub from: Nanos,
    pub each: u64,
    /// Sectors that have to arrive before the first is written.
    pub at_least: u64,
}

impl Buffered {
    /// When all have arrived.
    fn all(&self, sectors: u64) -> u64 {
        self.from.0 + sectors * self.each
    }

    /// When the sectors `first..end` may begin to pass, in `pass`, each after it has arrived.
    fn ready(&self, first: u64, end: u64, pass: u64, all: u64) -> u64 {
        let there = |sectors: u64| self.from.0 + sectors.min(all) * self.each;
        let begin = there((first + 1).max(self.at_least));
        // The last one begins to pass when all others have passed.
        let sectors = end - first;
        let last = there(end).saturating_sub(pass - pass / sectors);
        begin.max(last)
    }
}
