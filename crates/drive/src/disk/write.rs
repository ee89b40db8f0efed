//! The way of a write.

use seekless_core::{Extent, Nanos};

use super::Drive;
use super::legs::Leg;
use super::mechanics::{Access, Head};
use super::timing::Extra;

/// A write that was acknowledged and is still going to the media.
#[derive(Clone, Copy, Debug)]
pub struct Behind {
    /// What.
    pub at: Extent,
    /// When it is there.
    pub done: Nanos,
    /// Where the head is then.
    pub head: Head,
}

/// Before a drive with extra disconnects begins to write, so many sectors are in its buffer: of a short write,
/// of one of `LONG` sectors or more.
const BUFFERED: [u64; 2] = [10, 15];
const LONG: u64 = 45;

impl Drive {
    /// When everything is on the media that was acknowledged.
    pub(super) fn written_behind(&self) -> Nanos {
        self.behind.map_or(Nanos::ZERO, |behind| behind.done)
    }

    /// Forgets a write that is on the media by now.
    pub(super) fn settle(&mut self, now: Nanos) {
        if let Some(behind) = self.behind.filter(|behind| behind.done <= now) {
            self.head = behind.head;
            self.behind = None;
        }
    }

    /// A write, acknowledged `early` or when it is on the media. What the buffer holds of it is stale.
    pub(super) fn write(&mut self, at: Extent, now: Nanos, queued: bool, early: bool) -> Access {
        let after_write = std::mem::replace(&mut self.after_write, true);
        let sequential = after_write && at.start == self.write_end;
        self.write_end = at.end();
        let begin = if queued { now } else { self.timing.begin(now) };
        self.destage_until(begin);
        let layout = &self.layout;
        self.buffer.forget(at, now, &|lba| super::sight::place(layout, lba));
        self.settle(begin);
        self.cache.catch_up(&self.layout, &self.mechanics, begin);
        let handling = if queued { 0 } else { self.timing.write(early, after_write) };
        let handled = begin + Nanos(handling);
        let extra = self.timing.extra.filter(|_| after_write && !sequential && self.behind.is_none());
        let took = match (self.behind, extra) {
            (Some(behind), _) if early && self.appends(&behind, at) => self.append(behind, at, handled),
            (Some(_), _) => self.write_when_free(at, handled, early),
            (None, Some(extra)) => self.write_disconnected(at, begin, extra),
            (None, None) => self.write_now(at, handled, early, queued, self.least(queued, sequential)),
        };
        self.keep(at);
        let Sent { done, start, media } = took;
        let whole = (done + Nanos(self.timing.write_completion)).since(now);
        let moved = media.seek + media.rotation + media.transfer;
        if early || moved > whole {
            // What the head does, it does later.
            if early {
                self.aside.add(&media, start);
            }
            return Access {
                overhead: whole,
                distance: if early { 0 } else { media.distance },
                ..Access::default()
            };
        }
        Access { overhead: whole - moved, ..media }
    }

    /// Whether a write goes on where one that is still going to the media ends.
    fn appends(&self, behind: &Behind, at: Extent) -> bool {
        let room = u64::from(self.policy.segment_sectors);
        self.policy.combine_writes && behind.at.end() == at.start && behind.at.sectors + at.sectors <= room
    }

    fn append(&mut self, behind: Behind, at: Extent, handled: Nanos) -> Sent {
        let data = handled + Nanos(self.timing.preparation);
        self.head = behind.head;
        let buffered = self.buffered(at, data);
        let media = self.put(at, behind.done, buffered, Least { seek: 0, turned: Nanos::ZERO });
        let both = Extent { start: behind.at.start, sectors: behind.at.sectors + at.sectors };
        self.go_on(both, behind.done, &media);
        Sent { done: data + Nanos(at.sectors * self.timing.write_sector), start: behind.done, media }
    }

    /// A write for which the head has to finish another first: the bus is let go until then.
    fn write_when_free(&mut self, at: Extent, handled: Nanos, early: bool) -> Sent {
        let let_go = handled + Nanos(if early { self.timing.write_disconnect } else { 0 });
        let free = self.free_head(handled);
        let taken = free.max(let_go) + Nanos(self.timing.first_reselect + self.timing.preparation);
        let buffered = self.buffered(at, taken);
        self.transfer(at, buffered, free, early, self.least(false, false))
    }

    fn write_now(&mut self, at: Extent, handled: Nanos, early: bool, queued: bool, least: Least) -> Sent {
        let free = self.free_head(handled);
        let data = handled + Nanos(self.timing.preparation);
        // The data of a queued one came while the command before was on the media.
        if queued {
            let buffered = Buffered { from: data, each: 0, at_least: 1 };
            return self.transfer(at, buffered, free, early, least);
        }
        self.transfer(at, self.buffered(at, data), free, early, least)
    }

    /// A write that goes on where the one before ended is the same stretch of media: no turn-round.
    fn least(&self, queued: bool, sequential: bool) -> Least {
        let seek = if queued { 0 } else { self.timing.minimum_write_seek };
        Least { seek, turned: if sequential { Nanos::ZERO } else { self.turned } }
    }

    /// The data of a write that come from `from` on.
    fn buffered(&self, at: Extent, from: Nanos) -> Buffered {
        let at_least = match self.timing.extra {
            None => 1,
            Some(_) if at.sectors < LONG => at.sectors.min(BUFFERED[0]),
            Some(_) => BUFFERED[1],
        };
        Buffered { from, each: self.timing.write_sector, at_least }
    }

    /// The head begins at `free`.
    fn transfer(&mut self, at: Extent, buffered: Buffered, free: Nanos, early: bool, least: Least) -> Sent {
        let media = self.put(at, free, buffered, least);
        let taken = Nanos(buffered.all(at.sectors));
        if early {
            self.go_on(at, free, &media);
            return Sent { done: taken, start: free, media };
        }
        let let_go = taken + Nanos(self.timing.write_disconnect);
        let written = free + media.seek + media.rotation + media.transfer;
        Sent { done: written.max(let_go) + Nanos(self.timing.first_reselect), start: free, media }
    }

    /// A write that lets the bus go before its data come.
    fn write_disconnected(&mut self, at: Extent, begin: Nanos, extra: Extra) -> Sent {
        let let_go = begin + Nanos(extra.command + extra.disconnect);
        let data = let_go + Nanos(extra.between + self.timing.first_reselect + self.timing.preparation);
        let free = self.free_head(begin + Nanos(extra.command + extra.seek_delay));
        let buffered = self.buffered(at, data);
        let media = self.put(at, free, buffered, self.least(false, false));
        let taken = data + Nanos(at.sectors * self.timing.write_sector + extra.second_disconnect);
        let written = free + media.seek + media.rotation + media.transfer;
        Sent { done: written.max(taken) + Nanos(self.timing.other_reselect), start: free, media }
    }

    /// What was acknowledged goes on to the media.
    fn go_on(&mut self, at: Extent, start: Nanos, media: &Access) {
        let done = start + media.seek + media.rotation + media.transfer;
        self.behind = Some(Behind { at, done, head: self.head });
    }

    /// The cache takes what is written.
    fn keep(&mut self, at: Extent) {
        let into = self.cache.for_write(at);
        if let Some(number) = into {
            self.cache.reset(number, at.start, true);
            self.cache.filled(number, at.start.0, at.end().0);
            self.cache.used(number);
        }
        self.cache.was_written(at, into);
    }

    /// The head writes `at` from `start` on, as its sectors come into the buffer.
    pub(super) fn put(&mut self, at: Extent, start: Nanos, buffered: Buffered, least: Least) -> Access {
        let mut took = Access::default();
        let (mut now, mut rest) = (start.0, at);
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
            let mut at_once = false;
            if self.policy.zero_latency_write && wait + pass > revolution && buffered.all(at.sectors) <= now {
                // All of it is there: any sector that passes is written.
                wait = revolution - pass;
                at_once = true;
            }
            if now + wait < ready {
                // The sector has passed before it was there.
                let late = ready - (now + wait);
                wait += late.div_ceil(revolution) * revolution;
            }
            took.seek += Nanos(seek);
            took.rotation += Nanos(wait);
            took.transfer += Nanos(pass);
            let to = Head { cylinder: piece.cylinder, head: piece.head };
            self.legs.add(|| Leg {
                from: self.head,
                begin: Nanos(now - seek),
                to,
                landed: Nanos(now),
                first: Nanos(if at_once { now } else { now + wait }),
                end: Nanos(now + wait + pass),
                at: piece.at,
                write: true,
                kept: false,
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
pub(super) struct Least {
    /// From when it begins to move.
    pub seek: u64,
    /// When it has turned round after the command before.
    pub turned: Nanos,
}

/// What a write has come to.
struct Sent {
    /// When it may be acknowledged, but for saying so.
    done: Nanos,
    /// When the head begins.
    start: Nanos,
    /// What the head does.
    media: Access,
}

/// Data that come over the bus into the buffer.
#[derive(Clone, Copy)]
pub(super) struct Buffered {
    pub from: Nanos,
    pub each: u64,
    /// Sectors that have to be there before the first goes to the media.
    pub at_least: u64,
}

impl Buffered {
    /// When all are there.
    fn all(&self, sectors: u64) -> u64 {
        self.from.0 + sectors * self.each
    }

    /// From when on the sectors `first..end` may begin to pass in `pass`, each after it is there.
    fn ready(&self, first: u64, end: u64, pass: u64, all: u64) -> u64 {
        let there = |sectors: u64| self.from.0 + sectors.min(all) * self.each;
        let begin = there((first + 1).max(self.at_least));
        // The last one begins to pass when all but itself have.
        let sectors = end - first;
        let last = there(end).saturating_sub(pass - pass / sectors);
        begin.max(last)
    }
}
