//! The drive's cache: segments, each a run of sectors, and read-ahead after one of them while the drive is idle.
//!
//! Read-ahead progress is computed on demand. Invariants: segments hold nothing that was overwritten after they were
//! filled; at most one is *active*, that is, the head reads ahead after it; a segment holds at most `segment_sectors`,
//! the last ones.

use seekless_core::{Extent, Lba, Nanos};

use super::layout::Layout;
use super::mechanics::{Head, Mechanics};
use crate::spec::{CacheSpec, ReadAhead};

/// A run of sectors in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// First sector.
    pub start: u64,
    /// One past the last sector known to be there; `start` if the segment is empty.
    pub end: u64,
    /// Limit of read-ahead.
    pub until: u64,
    /// Read-ahead up to here precedes anything else.
    pub at_least: u64,
    /// Whether a write filled it.
    pub written: bool,
}

impl Segment {
    /// Extends it up to `end`, and perhaps from before its first sector, to at most `size`.
    fn fill(&mut self, start: u64, end: u64, size: u64) {
        self.end = end;
        self.start = self.start.min(start).max(end.saturating_sub(size));
    }

    /// The sectors that the head may still read ahead.
    fn remaining(&self) -> Extent {
        Extent { start: Lba(self.end), sectors: self.until.saturating_sub(self.end) }
    }
}

/// The active segment at some time.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    segment: Segment,
    reading: Reading,
}

/// Read-ahead state: the time at which the head is at the end of the active segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    since: Nanos,
    head: Head,
}

/// Result of a cache lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// All of it is in this segment.
    Hit(usize),
    /// Start is in this segment, or is about to pass under the head.
    PartialHit(usize),
    /// None of it is cached; this segment is to hold it, if there is one.
    Miss(Option<usize>),
}

/// The cache of a drive.
#[derive(Clone, Debug)]
pub struct Cache {
    spec: CacheSpec,
    segments: Vec<Segment>,
    /// The segments' numbers, least recently used first.
    order: Vec<usize>,
    active: Option<usize>,
    reading: Reading,
}

impl Cache {
    /// An empty cache.
    pub fn new(spec: &CacheSpec) -> Cache {
        let count = if spec.segment_sectors == 0 { 0 } else { spec.segments as usize };
        let reading = Reading { since: Nanos::ZERO, head: Head::default() };
        Cache {
            spec: *spec,
            segments: vec![Segment::default(); count],
            order: (0..count).collect(),
            active: None,
            reading,
        }
    }

    /// A segment.
    pub fn segment(&self, number: usize) -> Segment {
        self.segments[number]
    }

    /// Whether the head reads ahead after this segment and has not reached its limit.
    pub fn reads_ahead_after(&self, number: usize) -> bool {
        self.active == Some(number) && self.segments[number].end < self.segments[number].until
    }

    /// Looks `at` up; the read-ahead must have been caught up with.
    pub fn find(&self, at: Extent) -> Lookup {
        // Fast path: most often there is nothing, and all segments are in use.
        let near = |segment: &Segment| segment.start <= at.start.0 && at.start.0 <= segment.end;
        if !self.any(|segment| near(segment) || segment.start == segment.end) {
            let touch = |&number: &usize| !self.is_for_writes(number) && !self.reads_ahead_after(number);
            if let Some(number) = self.order.iter().copied().find(touch) {
                return Lookup::Miss(Some(number));
            }
        }
        let (mut best, mut found) = (0, Lookup::Miss(None));
        for &number in self.order.iter().filter(|&&number| !self.is_for_writes(number)) {
            let segment = &self.segments[number];
            let active = self.reads_ahead_after(number);
            let (score, here) = if segment.start == segment.end && !active {
                (3, Lookup::Miss(Some(number)))
            } else if self.holds(number, at.start) {
                let score = if active { 9 } else { 8 };
                if at.end().0 <= segment.end {
                    (score, Lookup::Hit(number))
                } else {
                    (score - 4, Lookup::PartialHit(number))
                }
            } else {
                (if active { 1 } else { 2 }, Lookup::Miss(Some(number)))
            };
            if score > best {
                (best, found) = (score, here);
            }
        }
        found
    }

    /// Whether a read of this sector hits, or the head is about to pass it.
    fn holds(&self, number: usize, sector: Lba) -> bool {
        let segment = &self.segments[number];
        let allowed = self.spec.enabled && (self.spec.read_hits_on_writes || !segment.written);
        let passing = self.spec.almost_hits && self.reads_ahead_after(number) && sector.0 == segment.end;
        allowed && segment.start <= sector.0 && (sector.0 < segment.end || passing)
    }

    /// The segment for a write: the one reserved for writes, else one that has to be emptied anyway, an empty one, or
    /// the least recently used one.
    pub fn segment_for_write(&self, at: Extent) -> Option<usize> {
        if self.spec.separate_write_segment {
            return self.segments.len().checked_sub(1);
        }
        let score = |number: usize| {
            let segment = &self.segments[number];
            match () {
                () if self.active == Some(number) => 1,
                () if segment.start == segment.end => 3,
                () if segment.start < at.end().0 && at.start.0 < segment.end => 4,
                () => 2,
            }
        };
        let suits = |segment: &Segment| {
            segment.start == segment.end || (segment.start < at.end().0 && at.start.0 < segment.end)
        };
        if !self.any(suits) {
            if let Some(number) = self.order.iter().copied().find(|&number| self.active != Some(number)) {
                return Some(number);
            }
        }
        // The first of the best.
        self.order.iter().copied().rev().max_by_key(|&number| score(number))
    }

    /// Whether any segment matches. Without an early exit, which is faster.
    fn any(&self, so: impl Fn(&Segment) -> bool) -> bool {
        self.segments.iter().fold(false, |found, segment| found | so(segment))
    }

    fn is_for_writes(&self, number: usize) -> bool {
        self.spec.separate_write_segment && number + 1 == self.segments.len()
    }

    /// Marks a segment as most recently used.
    pub fn touch(&mut self, number: usize) {
        if let Some(place) = self.order.iter().position(|&other| other == number) {
            self.order[place..].rotate_left(1);
        }
    }

    /// Empties a segment, to hold what begins at `start`.
    pub fn reset(&mut self, number: usize, start: Lba, written: bool) {
        self.segments[number] = Segment { start: start.0, end: start.0, written, ..Segment::default() };
    }

    /// Sets the read-ahead limits of a segment for a read of `at`.
    pub fn set_read_ahead(&mut self, layout: &Layout, number: usize, at: Extent) {
        let most = layout.sectors();
        let until = self.until(layout, number, at).min(most);
        let at_least = (at.end().0 + u64::from(self.spec.read_ahead_minimum_sectors)).min(most);
        let segment = &mut self.segments[number];
        segment.until = segment.until.max(until);
        segment.at_least = segment.at_least.max(at_least.min(segment.until));
    }

    fn until(&self, layout: &Layout, number: usize, at: Extent) -> u64 {
        let end = at.end().0;
        let size = u64::from(self.spec.segment_sectors);
        let (limit, least) = (self.spec.read_ahead_sectors, u64::from(self.spec.read_ahead_minimum_sectors));
        match self.spec.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Track => layout.around(Lba(end - 1)).end().0,
            ReadAhead::Cylinder => layout.cylinder_end(Lba(end - 1)),
            ReadAhead::NextTrack => {
                let track = layout.around(Lba(end.min(layout.sectors() - 1)));
                let before = self.segments[number].start < track.start.0;
                track.end().0
                    + if before { layout.piece(Extent { sectors: 1, ..track }).per_track } else { 0 }
            }
            ReadAhead::Segment if limit > 0 => end + u64::from(limit),
            ReadAhead::Segment if self.spec.read_ahead_over_request => end + size,
            ReadAhead::Segment if at.sectors >= size || size - at.sectors < least => end + least,
            ReadAhead::Segment => at.start.0 + size,
        }
    }

    /// Adds sectors up to `end` to a segment, and perhaps some before its first.
    pub fn extend(&mut self, number: usize, start: u64, end: u64) {
        let size = u64::from(self.spec.segment_sectors);
        self.segments[number].fill(start, end, size);
    }

    /// Drops what a segment holds before `start`.
    pub fn forget_before(&mut self, number: usize, start: Lba) {
        let segment = &mut self.segments[number];
        segment.start = segment.start.max(start.0.min(segment.end));
    }

    /// Starts read-ahead after this segment, whose end the head reaches at `since`.
    pub fn start_read_ahead(&mut self, number: usize, since: Nanos, head: Head) {
        self.active = Some(number);
        self.reading = Reading { since, head };
    }

    /// When the head is at the end of the active segment, and where.
    pub fn at_end(&self) -> (Nanos, Head) {
        (self.reading.since, self.reading.head)
    }

    /// Adds what the head has passed by `now`.
    pub fn catch_up(&mut self, layout: &Layout, mechanics: &Mechanics, now: Nanos) {
        let Some(number) = self.active else { return };
        let ahead = self.ahead(number, layout, mechanics, now);
        (self.segments[number], self.reading) = (ahead.segment, ahead.reading);
    }

    /// The active segment as it is at `now`.
    fn ahead(&self, number: usize, layout: &Layout, mechanics: &Mechanics, now: Nanos) -> Ahead {
        let size = u64::from(self.spec.segment_sectors);
        let mut ahead = Ahead { segment: self.segments[number], reading: self.reading };
        let Ahead { segment, reading } = &mut ahead;
        while segment.end < segment.until && reading.since < now {
            let remaining = segment.remaining();
            let piece = layout.piece(remaining);
            if self.ends_before(reading.head, &piece) {
                segment.until = segment.end;
                break;
            }
            let seek = mechanics.reach(reading.head, &piece, false);
            let begin = reading.since.0 + seek;
            let begin = begin + mechanics.wait(piece.angle, begin);
            let head = Head { cylinder: piece.cylinder, head: piece.head };
            let passed = if begin >= now.0 {
                0
            } else {
                // A piece is on one track, and passes within a revolution, however long ago it began.
                let revolution = mechanics.revolution().0;
                ((now.0 - begin).min(revolution) * piece.per_track / revolution).min(piece.at.sectors)
            };
            // In the middle of a track: whole sectors only, and the clock stays in step with them.
            if passed > 0 {
                let since = Nanos(begin + mechanics.pass(passed, piece.per_track));
                *reading = Reading { since, head };
                segment.fill(u64::MAX, remaining.start.0 + passed, size);
            }
            if passed < piece.at.sectors {
                break;
            }
        }
        ahead
    }

    /// Whether read-ahead ends where this begins, for a head that is there.
    fn ends_before(&self, head: Head, piece: &super::layout::Piece) -> bool {
        match self.spec.read_ahead {
            ReadAhead::Track => (piece.cylinder, piece.head) != (head.cylinder, head.head),
            ReadAhead::Cylinder => piece.cylinder != head.cylinder,
            _ => false,
        }
    }

    /// Whether the head reads ahead.
    pub fn reads_ahead(&self, layout: &Layout, mechanics: &Mechanics, now: Nanos) -> bool {
        let Some(number) = self.active else { return false };
        let Ahead { segment, reading } = self.ahead(number, layout, mechanics, now);
        let more = || {
            segment.end < segment.until && !self.ends_before(reading.head, &layout.piece(segment.remaining()))
        };
        segment.end < segment.at_least || more()
    }

    /// Stops read-ahead, as soon after `now` as possible; returns when, and where the head is.
    pub fn stop(&mut self, layout: &Layout, mechanics: &Mechanics, now: Nanos) -> Option<(Nanos, Head)> {
        let (number, ahead, free) = self.stopped(layout, mechanics, now)?;
        (self.segments[number], self.reading) = (ahead.segment, ahead.reading);
        self.active = None;
        Some(free)
    }

    /// As `stop`, without stopping.
    pub fn could_stop(&self, layout: &Layout, mechanics: &Mechanics, now: Nanos) -> Option<(Nanos, Head)> {
        self.stopped(layout, mechanics, now).map(|(_, _, free)| free)
    }

    fn stopped(
        &self,
        layout: &Layout,
        mechanics: &Mechanics,
        now: Nanos,
    ) -> Option<(usize, Ahead, (Nanos, Head))> {
        let number = self.active?;
        let mut ahead = self.ahead(number, layout, mechanics, now);
        let short = ahead.segment.at_least;
        if ahead.segment.end < short {
            // The head reads up to there in any case.
            let remaining = Extent { sectors: short - ahead.segment.end, ..ahead.segment.remaining() };
            let Reading { since, head } = ahead.reading;
            let (took, head) = mechanics.access(layout, head, since, remaining, false);
            ahead.reading = Reading { since: since + took.total(), head };
            ahead.segment.fill(u64::MAX, short, u64::from(self.spec.segment_sectors));
        }
        let Reading { since, head } = ahead.reading;
        let at_rest = (since.max(now), head);
        if ahead.segment.end >= ahead.segment.until {
            return Some((number, ahead, at_rest));
        }
        let piece = layout.piece(ahead.segment.remaining());
        if self.ends_before(head, &piece) {
            return Some((number, ahead, at_rest));
        }
        let there = Head { cylinder: piece.cylinder, head: piece.head };
        let landed = since.0 + mechanics.reach(head, &piece, false);
        let free = if landed > now.0 {
            // A seek that has begun ends.
            Nanos(landed)
        } else if self.spec.stop_in_sector {
            now
        } else {
            let begin = landed + mechanics.wait(piece.angle, landed);
            Nanos(begin + mechanics.pass(1, piece.per_track))
        };
        Some((number, ahead, (free, there)))
    }

    /// Drops what the cache has of `at`, which is written, except in the segment that takes it.
    pub fn invalidate(&mut self, at: Extent, into: Option<usize>) {
        if !self.any(|segment| segment.start < at.end().0 && at.start.0 < segment.end) {
            return;
        }
        for number in (0..self.segments.len()).filter(|&number| Some(number) != into) {
            let segment = &mut self.segments[number];
            if segment.start < at.end().0 && at.start.0 < segment.end {
                *segment = Segment::default();
                if self.active == Some(number) {
                    self.active = None;
                }
            }
        }
    }
}
