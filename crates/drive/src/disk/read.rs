//! The path of a read.

use seekless_core::{Extent, Lba, Nanos};

use super::Drive;
use super::bus::{Pauses, Transfer};
use super::cache::Lookup;
use super::mechanics::{Access, Head};
use super::trajectory::Step;

/// A read in progress.
struct ReadInProgress {
    at: Extent,
    /// Arrival.
    now: Nanos,
    /// When the command is handled, so that the head may begin.
    handled: Nanos,
    queued: bool,
    after_write: bool,
}

/// When the head begins to move, the least time until it arrives, and the further one if the read does not succeed at
/// once.
#[derive(Clone, Copy)]
struct Begin {
    at: Nanos,
    turn_round: u64,
    retried: u64,
}

impl Drive {
    pub(super) fn read(&mut self, at: Extent, now: Nanos, queued: bool) -> Access {
        let after_write = std::mem::replace(&mut self.after_write, false);
        let begin = if queued { now } else { self.timing.begin(now) };
        let miss = if queued { 0 } else { self.timing.read_miss(after_write) };
        let read = ReadInProgress { at, now, handled: begin + Nanos(miss), queued, after_write };
        self.destage_until(begin);
        if self.buffer.holds(at) {
            return self.read_of_buffer(&read, begin);
        }
        self.destage_overlapping(at, begin);
        self.retire_write_behind(begin);
        self.cache.catch_up(&self.layout, &self.mechanics, begin);
        let lookup = self.cache.find(at);
        let from_cache = match lookup {
            _ if self.write_behind.is_some() => false,
            Lookup::Hit(_) => true,
            Lookup::PartialHit(number) => {
                self.policy.partial_hit_at_once || self.reaches_water_mark(number, at)
            }
            Lookup::Miss(_) => false,
        };
        if from_cache { self.read_cached(&read, begin, lookup) } else { self.read_miss_path(&read, lookup) }
    }

    /// A read of data that are still in the write buffer.
    fn read_of_buffer(&mut self, read: &ReadInProgress, begin: Nanos) -> Access {
        let handling = if read.queued { 0 } else { self.timing.read_hit(read.after_write) };
        let mut transfer = self.transfer_of(read, begin + Nanos(handling + self.timing.preparation));
        transfer.buffered(read.at.sectors);
        self.finish(read, Access::default(), transfer.end())
    }

    /// Whether enough of a read is cached to take the bus.
    fn reaches_water_mark(&self, number: usize, at: Extent) -> bool {
        let cached = self.cache.segment(number).end.saturating_sub(at.start.0);
        cached > 0 && cached >= self.water_mark(at.sectors).min(at.sectors)
    }

    /// How many sectors have to be there before the bus is taken.
    fn water_mark(&self, sectors: u64) -> u64 {
        let segment = u64::from(self.policy.segment_sectors);
        let part = |of: u64| of as f64 * self.policy.read_water_mark;
        let mark = if self.policy.water_mark_by_request {
            part(sectors.min(segment)) as u64
        } else {
            part(segment).ceil() as u64
        };
        mark.clamp(1, sectors)
    }

    /// A read whose start is in the cache.
    fn read_cached(&mut self, read: &ReadInProgress, begin: Nanos, lookup: Lookup) -> Access {
        let at = read.at;
        let (Lookup::Hit(number) | Lookup::PartialHit(number)) = lookup else { return Access::default() };
        let handling = if read.queued { 0 } else { self.timing.read_hit(read.after_write) };
        let ready = begin + Nanos(handling + self.timing.preparation);
        let mut transfer = self.transfer_of(read, ready);
        let cached = self.cache.segment(number).end.min(at.end().0) - at.start.0;
        transfer.buffered(cached);
        let streams = self.cache.reads_ahead_after(number);
        self.cache.touch(number);
        let mut took = Access::default();
        if cached == at.sectors {
            if !streams && self.policy.read_ahead_on_hit {
                // The head returns to where it was reading.
                let free = self.free_head(read.handled);
                self.cache.set_read_ahead(&self.layout, number, at);
                self.cache.start_read_ahead(number, free, self.head);
            } else if streams {
                self.cache.set_read_ahead(&self.layout, number, at);
            } else if let Some((_, head)) = self.cache.stop(&self.layout, &self.mechanics, begin) {
                self.head = head;
            }
        } else {
            let (turn_round, (start, head)) = if streams {
                (0, self.cache.at_end())
            } else {
                let free = self.free_head(read.handled);
                (self.turned.since(free).0, (free, self.head))
            };
            self.head = head;
            let rest = Extent { start: Lba(at.start.0 + cached), sectors: at.sectors - cached };
            let begin = Begin { at: start, turn_round, retried: self.retry() };
            took = self.fetch(number, rest, begin, &mut transfer);
            self.cache.set_read_ahead(&self.layout, number, at);
        }
        self.drop_sent(number, at);
        self.finish(read, took, transfer.end())
    }

    /// The requested sectors were sent from this segment.
    fn drop_sent(&mut self, number: usize, at: Extent) {
        if self.policy.forget_requested {
            self.cache.forget_before(number, at.end());
        }
    }

    /// A read that needs the media, or has to wait for the head.
    fn read_miss_path(&mut self, read: &ReadInProgress, lookup: Lookup) -> Access {
        let at = read.at;
        let disconnect = if read.queued { 0 } else { self.timing.read_disconnect(read.after_write) };
        let released = read.handled + Nanos(disconnect);
        let start = self.free_head(read.handled);
        let turn_round = self.turned.since(start).0;
        let (number, cached) = match lookup {
            Lookup::Hit(number) | Lookup::PartialHit(number) => {
                (Some(number), self.cache.segment(number).end.min(at.end().0).saturating_sub(at.start.0))
            }
            Lookup::Miss(number) => {
                if let Some(number) = number {
                    self.cache.reset(number, at.start, false);
                }
                (number, 0)
            }
        };
        let taking = self.timing.first_reselect + self.timing.preparation;
        let rest = Extent { start: Lba(at.start.0 + cached), sectors: at.sectors - cached };
        let retried = if rest.sectors > 0 { self.retry() } else { 0 };
        let begin = Begin { at: start, turn_round, retried };
        // When enough has arrived, which has to be known before the bus is taken.
        let mark = self.water_mark(at.sectors);
        let (mut took, mut marked) = (Access::default(), start);
        let mut transfer;
        if rest.sectors > 0 {
            let mut arrivals = Transfer::new(Nanos::ZERO, mark.saturating_sub(cached).min(rest.sectors), 0);
            let (before, trajectory) = (self.head, self.trajectory.count());
            if mark > cached {
                let part = Extent { sectors: mark.saturating_sub(cached).min(rest.sectors), ..rest };
                self.pass_over(part, begin, &mut arrivals);
                marked = arrivals.end();
            }
            self.head = before;
            self.trajectory.forget_from(trajectory);
            let ready = released.max(marked) + Nanos(taking);
            transfer = self.transfer_of(read, ready);
            transfer.buffered(cached);
            took = match number {
                Some(number) => self.fetch(number, rest, begin, &mut transfer),
                None => self.pass_over(rest, begin, &mut transfer),
            };
        } else {
            transfer = self.transfer_of(read, released.max(marked) + Nanos(taking));
            transfer.buffered(cached);
        }
        if let Some(number) = number {
            self.cache.touch(number);
            self.cache.set_read_ahead(&self.layout, number, at);
            self.drop_sent(number, at);
        }
        self.finish(read, took, transfer.end())
    }

    /// Time from the first sector's pass to the answer, for a read of `sectors` of one track that waits for nothing
    /// else.
    pub fn passing_to_answer(&self, sectors: u64, per_track: u64) -> Nanos {
        let mark = self.water_mark(sectors);
        let taking = self.timing.first_reselect + self.timing.preparation;
        let ready = Nanos(self.mechanics.pass(mark, per_track) + taking);
        let mut transfer = Transfer::new(ready, sectors, self.timing.read_sector);
        transfer.passing(0, sectors, self.mechanics.pass(sectors, per_track));
        transfer.end() + Nanos(self.timing.read_completion)
    }

    /// The bus transfer of a read, on a bus that is ready at `ready`.
    fn transfer_of(&self, read: &ReadInProgress, ready: Nanos) -> Transfer {
        let disconnect = self.timing.read_disconnect(read.after_write);
        let reselect = self.timing.first_reselect + self.timing.preparation;
        let free = disconnect + reselect == 0;
        let mark = self.water_mark(read.at.sectors);
        let pauses = || Pauses { disconnect, reselect, mark, bursts: Vec::new() };
        let transfer = Transfer::new(ready, read.at.sectors, self.timing.read_sector);
        transfer.pausing((!self.timing.holds_read && !free).then(pauses))
    }

    fn finish(&mut self, read: &ReadInProgress, took: Access, sent: Nanos) -> Access {
        let done = sent + Nanos(self.timing.read_completion);
        let whole = done.since(read.now);
        let handling = read.handled.since(read.now) + Nanos(self.timing.read_completion);
        let media = took.seek + took.rotation + took.transfer;
        if media > whole {
            // The head started before the request arrived.
            let overhead = handling.min(whole);
            let transfer = whole - overhead;
            return Access { transfer, overhead, distance: took.distance, ..Access::default() };
        }
        let overhead = handling.min(whole - media);
        Access { overhead, transfer: took.transfer + (whole - media - overhead), ..took }
    }

    /// Reads `rest` into a segment, and starts read-ahead after it.
    fn fetch(&mut self, number: usize, rest: Extent, begin: Begin, transfer: &mut Transfer) -> Access {
        let landing = self.landing(rest, begin);
        let took = self.pass_over(rest, begin, transfer);
        self.cache.extend(number, landing.0.min(rest.start.0), rest.end().0);
        self.cache.start_read_ahead(number, begin.at + took.seek + took.rotation + took.transfer, self.head);
        took
    }

    /// Moves the head over `rest`.
    fn pass_over(&mut self, rest: Extent, begin: Begin, transfer: &mut Transfer) -> Access {
        let mut took = Access { rotation: Nanos(begin.retried), ..Access::default() };
        let (mut now, mut left) = (begin.at.0 + begin.retried, rest);
        while left.sectors > 0 {
            let piece = self.layout.piece(left);
            let mut turn_round = 0;
            if left.start == rest.start {
                took.distance = self.head.cylinder.abs_diff(piece.cylinder);
                turn_round = begin.turn_round;
            }
            let seek = self.mechanics.reach_after(turn_round, self.head, &piece, false);
            now += seek;
            let wait = self.mechanics.wait(piece.angle, now);
            let pass = self.mechanics.pass(piece.at.sectors, piece.per_track);
            let revolution = self.mechanics.revolution().0;
            let any_order = self.policy.reads_any_order(self.timing.holds_read);
            let to = Head { cylinder: piece.cylinder, head: piece.head };
            let step = Step {
                from: self.head,
                begin: Nanos(now - seek),
                to,
                landed: Nanos(now),
                first: Nanos(now + wait),
                end: Nanos(now + wait + pass),
                at: piece.at,
                write: false,
                stay: self.policy.read_on_arrival && self.policy.enabled,
            };
            if any_order && wait + pass > revolution {
                // The head arrives among them: the end first, then the start; one revolution in all.
                let each = revolution / piece.per_track;
                let first = (wait + pass - revolution) / each.max(1);
                let before = piece.at.sectors - first.min(piece.at.sectors);
                transfer.passing(now + wait, before, self.mechanics.pass(before, piece.per_track));
                transfer.buffered(piece.at.sectors - before);
                let turn = wait + self.mechanics.pass(before, piece.per_track);
                took.transfer += Nanos(pass.min(turn));
                took.rotation += Nanos(turn - pass.min(turn));
                now += turn;
                self.trajectory.add(|| Step { first: step.landed, end: Nanos(now), ..step });
            } else {
                transfer.passing(now + wait, piece.at.sectors, pass);
                took.rotation += Nanos(wait);
                took.transfer += Nanos(pass);
                now += wait + pass;
                self.trajectory.add(|| step);
            }
            took.seek += Nanos(seek);
            self.head = to;
            left = Extent { start: piece.at.end(), sectors: left.sectors - piece.at.sectors };
        }
        self.turn_round(Nanos(now));
        took
    }

    /// The first sector that is stored on the track where `rest` begins, if the cache stores what passes before.
    fn landing(&self, rest: Extent, begin: Begin) -> Lba {
        if !self.policy.read_on_arrival {
            return rest.start;
        }
        let piece = self.layout.piece(rest);
        let track = self.layout.around(rest.start);
        let landed = begin.at.0 + self.mechanics.reach_after(begin.turn_round, self.head, &piece, false);
        let wait = self.mechanics.wait(piece.angle, landed);
        let passed = wait * piece.per_track / self.mechanics.revolution().0;
        Lba(rest.start.0 - passed.min(rest.start.0 - track.start.0))
    }
}
