//! The memory on the drive: segments, each a run of sectors, and reading on behind one of them while nothing
//! else is to be done.
//!
//! How far the head came is worked out when somebody asks. Invariants: segments hold nothing that was written
//! after they were filled; at most one is *active*, that is, the head reads on behind it; a segment holds at
//! most `segment_sectors`, the last ones.

use seekless_core::{Extent, Lba, Nanos};

use super::layout::Layout;
use super::mechanics::{Head, Mechanics};
use crate::spec::{CacheSpec, ReadAhead};

/// A run of sectors that the cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The first.
    pub start: u64,
    /// Behind the last that is known to be there; the same as `start` if there is none.
    pub end: u64,
    /// How far the head may read on.
    pub until: u64,
    /// How far it has to, before anything else.
    pub at_least: u64,
    /// Whether it was filled by a write.
    pub written: bool,
}

impl Segment {
    /// It holds the sectors up to `end`, and perhaps some before its first, but at most `size`.
    fn fill(&mut self, start: u64, end: u64, size: u64) {
        self.end = end;
        self.start = self.start.min(start).max(end.saturating_sub(size));
    }

    /// What the head may read on behind it.
    fn rest(&self) -> Extent {
        Extent { start: Lba(self.end), sectors: self.until.saturating_sub(self.end) }
    }
}

/// The active segment at some time.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    segment: Segment,
    reading: Reading,
}

/// Reading on: the head is at the end of the active segment at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    since: Nanos,
    head: Head,
}

/// How much of a read is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All of it, in this segment.
    Whole(usize),
    /// The start of it; perhaps only what the head is about to pass.
    Partial(usize),
    /// Nothing; this segment is to hold it, if there are any.
    Nothing(Option<usize>),
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

    /// Whether the head reads on behind this segment, and how far at most.
    pub fn reads_on(&self, number: usize) -> bool {
        self.active == Some(number) && self.segments[number].end < self.segments[number].until
    }

    /// What there is of `at`; what was read on until now has been caught up with.
    pub fn find(&self, at: Extent) -> Found {
        // Most often there is nothing, and all segments are in use.
        let near = |segment: &Segment| segment.start <= at.start.0 && at.start.0 <= segment.end;
        if !self.any(|segment| near(segment) || segment.start == segment.end) {
            let used = |&number: &usize| !self.is_for_writes(number) && !self.reads_on(number);
            if let Some(number) = self.order.iter().copied().find(used) {
                return Found::Nothing(Some(number));
            }
        }
        let (mut best, mut found) = (0, Found::Nothing(None));
        for &number in self.order.iter().filter(|&&number| !self.is_for_writes(number)) {
            let segment = &self.segments[number];
            let active = self.reads_on(number);
            let (value, here) = if segment.start == segment.end && !active {
                (3, Found::Nothing(Some(number)))
            } else if self.holds(number, at.start) {
                let worth = if active { 9 } else { 8 };
                if at.end().0 <= segment.end {
                    (worth, Found::Whole(number))
                } else {
                    (worth - 4, Found::Partial(number))
                }
            } else {
                (if active { 1 } else { 2 }, Found::Nothing(Some(number)))
            };
            if value > best {
                (best, found) = (value, here);
            }
        }
        found
    }

    /// Whether a read of this sector finds it, or the head is about to pass it.
    fn holds(&self, number: usize, sector: Lba) -> bool {
        let segment = &self.segments[number];
        let allowed = self.spec.enabled && (self.spec.read_hits_on_writes || !segment.written);
        let passing = self.spec.almost_hits && self.reads_on(number) && sector.0 == segment.end;
        allowed && segment.start <= sector.0 && (sector.0 < segment.end || passing)
    }

    /// The segment for a write: the one that is for writes alone, else one that has to be emptied anyway,
    /// an empty one, or the one used longest ago.
    pub fn for_write(&self, at: Extent) -> Option<usize> {
        if self.spec.separate_write_segment {
            return self.segments.len().checked_sub(1);
        }
        let value = |number: usize| {
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
        self.order.iter().copied().rev().max_by_key(|&number| value(number))
    }

    /// Whether a segment is so. Asked without an early end: that takes less time.
    fn any(&self, so: impl Fn(&Segment) -> bool) -> bool {
        self.segments.iter().fold(false, |found, segment| found | so(segment))
    }

    fn is_for_writes(&self, number: usize) -> bool {
        self.spec.separate_write_segment && number + 1 == self.segments.len()
    }

    /// A segment is used: it will be reused last.
    pub fn used(&mut self, number: usize) {
        if let Some(place) = self.order.iter().position(|&other| other == number) {
            self.order[place..].rotate_left(1);
        }
    }

    /// A segment is to hold what begins here, and nothing else.
    pub fn reset(&mut self, number: usize, start: Lba, written: bool) {
        self.segments[number] = Segment { start: start.0, end: start.0, written, ..Segment::default() };
    }

    /// A read of `at` goes to this segment: how far the head reads on behind it.
    pub fn aim(&mut self, layout: &Layout, number: usize, at: Extent) {
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

    /// A segment holds the sectors up to here, and perhaps some before its first.
    pub fn filled(&mut self, number: usize, start: u64, end: u64) {
        let size = u64::from(self.spec.segment_sectors);
        self.segments[number].fill(start, end, size);
    }

    /// A segment holds nothing before `start`.
    pub fn forget_before(&mut self, number: usize, start: Lba) {
        let segment = &mut self.segments[number];
        segment.start = segment.start.max(start.0.min(segment.end));
    }

    /// The head reads on behind this segment: it is at its end at this time.
    pub fn read_on(&mut self, number: usize, since: Nanos, head: Head) {
        self.active = Some(number);
        self.reading = Reading { since, head };
    }

    /// Where the head is behind the active segment, and when.
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
            let rest = segment.rest();
            let piece = layout.piece(rest);
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
                ((now.0 - begin) * piece.per_track / mechanics.revolution().0).min(piece.at.sectors)
            };
            // In the middle of a track: whole sectors only, and the clock stays in step with them.
            if passed > 0 {
                let since = Nanos(begin + mechanics.pass(passed, piece.per_track));
                *reading = Reading { since, head };
                segment.fill(u64::MAX, rest.start.0 + passed, size);
            }
            if passed < piece.at.sectors {
                break;
            }
        }
        ahead
    }

    /// Whether reading on ends where this begins, for a head that is there.
    fn ends_before(&self, head: Head, piece: &super::layout::Piece) -> bool {
        match self.spec.read_ahead {
            ReadAhead::Track => (piece.cylinder, piece.head) != (head.cylinder, head.head),
            ReadAhead::Cylinder => piece.cylinder != head.cylinder,
            _ => false,
        }
    }

    /// Whether the head reads on.
    pub fn reads_ahead(&self, layout: &Layout, mechanics: &Mechanics, now: Nanos) -> bool {
        let Some(number) = self.active else { return false };
        let Ahead { segment, reading } = self.ahead(number, layout, mechanics, now);
        let more =
            || segment.end < segment.until && !self.ends_before(reading.head, &layout.piece(segment.rest()));
        segment.end < segment.at_least || more()
    }

    /// The head goes elsewhere, as soon after `now` as it may: when, and from where.
    pub fn stop(&mut self, layout: &Layout, mechanics: &Mechanics, now: Nanos) -> Option<(Nanos, Head)> {
        let (number, ahead, free) = self.stopped(layout, mechanics, now)?;
        (self.segments[number], self.reading) = (ahead.segment, ahead.reading);
        self.active = None;
        Some(free)
    }

    /// When and from where the head could go elsewhere, asked without going.
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
            // The head reads on to there, whenever that is.
            let rest = Extent { sectors: short - ahead.segment.end, ..ahead.segment.rest() };
            let Reading { since, head } = ahead.reading;
            let (took, head) = mechanics.access(layout, head, since, rest, false);
            ahead.reading = Reading { since: since + took.total(), head };
            ahead.segment.fill(u64::MAX, short, u64::from(self.spec.segment_sectors));
        }
        let Reading { since, head } = ahead.reading;
        let at_rest = (since.max(now), head);
        if ahead.segment.end >= ahead.segment.until {
            return Some((number, ahead, at_rest));
        }
        let piece = layout.piece(ahead.segment.rest());
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

    /// `at` is written: what the cache has of it is stale, but for the segment that takes it.
    pub fn was_written(&mut self, at: Extent, into: Option<usize>) {
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
