//! The way of a read.

use seekless_core::{Extent, Lba, Nanos};

use super::Drive;
use super::bus::{Pauses, Transfer};
use super::cache::Found;
use super::legs::Leg;
use super::mechanics::{Access, Head};

/// A read that is on its way.
struct Reading {
    at: Extent,
    /// When it came.
    now: Nanos,
    /// When the head may begin: the command is handled.
    handled: Nanos,
    queued: bool,
    after_write: bool,
}

/// When the head begins to move, and the least time until it is there.
#[derive(Clone, Copy)]
struct Begin {
    at: Nanos,
    turn_round: u64,
}

impl Drive {
    pub(super) fn read(&mut self, at: Extent, now: Nanos, queued: bool) -> Access {
        let after_write = std::mem::replace(&mut self.after_write, false);
        let begin = if queued { now } else { self.timing.begin(now) };
        let miss = if queued { 0 } else { self.timing.read_miss(after_write) };
        let reading = Reading { at, now, handled: begin + Nanos(miss), queued, after_write };
        self.destage_until(begin);
        if self.buffer.holds(at) {
            return self.read_of_buffer(&reading, begin);
        }
        self.destage_overlapping(at, begin);
        self.settle(begin);
        self.cache.catch_up(&self.layout, &self.mechanics, begin);
        let found = self.cache.find(at);
        let at_once = match found {
            _ if self.behind.is_some() => false,
            Found::Whole(_) => true,
            Found::Partial(number) => self.policy.partial_hit_at_once || self.enough(number, at),
            Found::Nothing(_) => false,
        };
        if at_once { self.read_at_once(&reading, begin, found) } else { self.read_later(&reading, found) }
    }

    /// A read of what was written and is still in the buffer.
    fn read_of_buffer(&mut self, reading: &Reading, begin: Nanos) -> Access {
        let handling = if reading.queued { 0 } else { self.timing.read_hit(reading.after_write) };
        let mut transfer = self.transfer_of(reading, begin + Nanos(handling + self.timing.preparation));
        transfer.there(reading.at.sectors);
        self.finish(reading, Access::default(), transfer.end())
    }

    /// Whether so much of a read is there that the bus is worth taking.
    fn enough(&self, number: usize, at: Extent) -> bool {
        let there = self.cache.segment(number).end.saturating_sub(at.start.0);
        there > 0 && there >= self.water_mark(at.sectors).min(at.sectors)
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

    /// A read of which the start is in the cache.
    fn read_at_once(&mut self, reading: &Reading, begin: Nanos, found: Found) -> Access {
        let at = reading.at;
        let (Found::Whole(number) | Found::Partial(number)) = found else { return Access::default() };
        let handling = if reading.queued { 0 } else { self.timing.read_hit(reading.after_write) };
        let ready = begin + Nanos(handling + self.timing.preparation);
        let mut transfer = self.transfer_of(reading, ready);
        let there = self.cache.segment(number).end.min(at.end().0) - at.start.0;
        transfer.there(there);
        let streams = self.cache.reads_on(number);
        self.cache.used(number);
        let mut took = Access::default();
        if there == at.sectors {
            if !streams && self.policy.read_ahead_on_hit {
                // The head goes back to where it was reading.
                let free = self.free_head(reading.handled);
                self.cache.aim(&self.layout, number, at);
                self.cache.read_on(number, free, self.head);
            } else if streams {
                self.cache.aim(&self.layout, number, at);
            } else if let Some((_, head)) = self.cache.stop(&self.layout, &self.mechanics, begin) {
                self.head = head;
            }
        } else {
            let (turn_round, (start, head)) = if streams {
                (0, self.cache.at_end())
            } else {
                let free = self.free_head(reading.handled);
                (self.turned.since(free).0, (free, self.head))
            };
            self.head = head;
            let rest = Extent { start: Lba(at.start.0 + there), sectors: at.sectors - there };
            took = self.fetch(number, rest, Begin { at: start, turn_round }, &mut transfer);
            self.cache.aim(&self.layout, number, at);
        }
        self.sent(number, at);
        self.finish(reading, took, transfer.end())
    }

    /// What was asked for has been sent from this segment.
    fn sent(&mut self, number: usize, at: Extent) {
        if self.policy.forget_requested {
            self.cache.forget_before(number, at.end());
        }
    }

    /// A read that needs the media, or has to wait for the head.
    fn read_later(&mut self, reading: &Reading, found: Found) -> Access {
        let at = reading.at;
        let disconnect = if reading.queued { 0 } else { self.timing.read_disconnect(reading.after_write) };
        let let_go = reading.handled + Nanos(disconnect);
        let start = self.free_head(reading.handled);
        let begin = Begin { at: start, turn_round: self.turned.since(start).0 };
        let (number, there) = match found {
            Found::Whole(number) | Found::Partial(number) => {
                (Some(number), self.cache.segment(number).end.min(at.end().0).saturating_sub(at.start.0))
            }
            Found::Nothing(number) => {
                if let Some(number) = number {
                    self.cache.reset(number, at.start, false);
                }
                (number, 0)
            }
        };
        let taking = self.timing.first_reselect + self.timing.preparation;
        let rest = Extent { start: Lba(at.start.0 + there), sectors: at.sectors - there };
        // When enough has come, which has to be known before the bus is taken.
        let mark = self.water_mark(at.sectors);
        let (mut took, mut marked) = (Access::default(), start);
        let mut transfer;
        if rest.sectors > 0 {
            let mut arrivals = Transfer::new(Nanos::ZERO, mark.saturating_sub(there).min(rest.sectors), 0);
            let (before, legs) = (self.head, self.legs.count());
            if mark > there {
                let part = Extent { sectors: mark.saturating_sub(there).min(rest.sectors), ..rest };
                self.pass_over(part, begin, &mut arrivals);
                marked = arrivals.end();
            }
            self.head = before;
            self.legs.forget_from(legs);
            let ready = let_go.max(marked) + Nanos(taking);
            transfer = self.transfer_of(reading, ready);
            transfer.there(there);
            took = match number {
                Some(number) => self.fetch(number, rest, begin, &mut transfer),
                None => self.pass_over(rest, begin, &mut transfer),
            };
        } else {
            transfer = self.transfer_of(reading, let_go.max(marked) + Nanos(taking));
            transfer.there(there);
        }
        if let Some(number) = number {
            self.cache.used(number);
            self.cache.aim(&self.layout, number, at);
            self.sent(number, at);
        }
        self.finish(reading, took, transfer.end())
    }

    /// From when its first sector begins to pass to its answer: what a read of so many sectors of one track
    /// takes that waits for nothing else.
    pub fn passing_to_answer(&self, sectors: u64, per_track: u64) -> Nanos {
        let mark = self.water_mark(sectors);
        let taking = self.timing.first_reselect + self.timing.preparation;
        let ready = Nanos(self.mechanics.pass(mark, per_track) + taking);
        let mut transfer = Transfer::new(ready, sectors, self.timing.read_sector);
        transfer.passing(0, sectors, self.mechanics.pass(sectors, per_track));
        transfer.end() + Nanos(self.timing.read_completion)
    }

    /// The way of its data over a bus that is ready then.
    fn transfer_of(&self, reading: &Reading, ready: Nanos) -> Transfer {
        let disconnect = self.timing.read_disconnect(reading.after_write);
        let reselect = self.timing.first_reselect + self.timing.preparation;
        let free = disconnect + reselect == 0;
        let mark = self.water_mark(reading.at.sectors);
        let pauses = || Pauses { disconnect, reselect, mark, stretches: Vec::new() };
        let transfer = Transfer::new(ready, reading.at.sectors, self.timing.read_sector);
        transfer.pausing((!self.timing.holds_read && !free).then(pauses))
    }

    fn finish(&mut self, reading: &Reading, took: Access, sent: Nanos) -> Access {
        let done = sent + Nanos(self.timing.read_completion);
        let whole = done.since(reading.now);
        let handling = reading.handled.since(reading.now) + Nanos(self.timing.read_completion);
        let media = took.seek + took.rotation + took.transfer;
        if media > whole {
            // The head was on its way before the request came.
            let overhead = handling.min(whole);
            let transfer = whole - overhead;
            return Access { transfer, overhead, distance: took.distance, ..Access::default() };
        }
        let overhead = handling.min(whole - media);
        Access { overhead, transfer: took.transfer + (whole - media - overhead), ..took }
    }

    /// The head reads `rest` into a segment, and goes on reading behind it.
    fn fetch(&mut self, number: usize, rest: Extent, begin: Begin, transfer: &mut Transfer) -> Access {
        let landing = self.landing(rest, begin);
        let took = self.pass_over(rest, begin, transfer);
        self.cache.filled(number, landing.0.min(rest.start.0), rest.end().0);
        self.cache.read_on(number, begin.at + took.seek + took.rotation + took.transfer, self.head);
        took
    }

    /// The head goes over `rest`.
    fn pass_over(&mut self, rest: Extent, begin: Begin, transfer: &mut Transfer) -> Access {
        let mut took = Access::default();
        let (mut now, mut left) = (begin.at.0, rest);
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
            let inside = self.policy.zero_latency_read || self.policy.read_on_arrival;
            let to = Head { cylinder: piece.cylinder, head: piece.head };
            let leg = Leg {
                from: self.head,
                begin: Nanos(now - seek),
                to,
                landed: Nanos(now),
                first: Nanos(now + wait),
                end: Nanos(now + wait + pass),
                at: piece.at,
                write: false,
                kept: self.policy.read_on_arrival && self.policy.enabled,
            };
            if inside && wait + pass > revolution {
                // The head lands among them: the end first, then the start; a turn in all.
                let each = revolution / piece.per_track;
                let first = (wait + pass - revolution) / each.max(1);
                let before = piece.at.sectors - first.min(piece.at.sectors);
                transfer.passing(now + wait, before, self.mechanics.pass(before, piece.per_track));
                transfer.there(piece.at.sectors - before);
                let turn = wait + self.mechanics.pass(before, piece.per_track);
                took.transfer += Nanos(pass.min(turn));
                took.rotation += Nanos(turn - pass.min(turn));
                now += turn;
                self.legs.add(|| Leg { first: leg.landed, end: Nanos(now), ..leg });
            } else {
                transfer.passing(now + wait, piece.at.sectors, pass);
                took.rotation += Nanos(wait);
                took.transfer += Nanos(pass);
                now += wait + pass;
                self.legs.add(|| leg);
            }
            took.seek += Nanos(seek);
            self.head = to;
            left = Extent { start: piece.at.end(), sectors: left.sectors - piece.at.sectors };
        }
        self.turn_round(Nanos(now));
        took
    }

    /// The first sector that the head keeps on the track where `rest` begins, if it keeps what passes before.
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
