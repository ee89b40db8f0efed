//! The drive's on-board cache: segments, and reading ahead while nothing else is to be done.
//!
//! After a read the head goes on reading behind it, into the *active* segment, until it has to go
//! elsewhere. How far it came is worked out when somebody asks. Invariants: segments hold nothing
//! that was written after they were filled; only the first segment is active.

use std::collections::VecDeque;

use seekless_core::{Extent, Lba, Nanos};

use super::layout::Layout;
use super::mechanics::{Head, Mechanics};

/// A run of sectors that the cache holds, and more if the head was reading on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    start: Lba,
    /// How far it is known to reach.
    end: Lba,
    ahead: Option<Ahead>,
}

/// Reading on behind a segment's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ahead {
    /// When the head was at the segment's end.
    since: Nanos,
    /// How far it reads at most.
    until: Lba,
    head: Head,
}

/// How much of a read the cache can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All of it.
    All,
    /// The start of it; the head passes over the rest right now, and is done at this time.
    Passing(Nanos, Head),
    /// The start of it, up to here; the rest needs the media.
    Start(Lba),
    /// Nothing.
    Nothing,
}

/// The cache of a drive.
#[derive(Clone, Debug)]
pub struct Cache {
    /// Most recently used first.
    segments: VecDeque<Segment>,
    most_segments: usize,
    segment_sectors: u64,
    read_ahead: u64,
}

impl Segment {
    /// How far it may reach.
    fn reach(&self) -> Lba {
        self.ahead.map_or(self.end, |ahead| ahead.until)
    }

    /// Whether the head is still reading on.
    fn runs(&self) -> bool {
        self.ahead.is_some_and(|ahead| self.end < ahead.until)
    }

    /// Adds what the head has passed over by `now`.
    fn catch_up(&mut self, layout: &Layout, mechanics: &Mechanics, now: Nanos) {
        let Some(mut ahead) = self.ahead else { return };
        while self.end < ahead.until && ahead.since < now {
            let track = layout.track(self.end);
            let sectors = (ahead.until.0 - self.end.0).min(track.first.0 + track.sectors - self.end.0);
            let rest = Extent { start: self.end, sectors };
            let (took, head) = mechanics.access(layout, ahead.head, ahead.since, rest, false);
            if ahead.since + took.total() <= now {
                ahead = Ahead { since: ahead.since + took.total(), head, ..ahead };
                self.end = rest.end();
                continue;
            }
            // In the middle of this track: whole sectors only, and the clock stays in step with them.
            let begin = ahead.since + took.seek + took.rotation;
            let passed = (now.since(begin).0 * track.sectors / mechanics.revolution().0).min(sectors);
            if passed > 0 {
                let since = begin + Nanos(passed * mechanics.revolution().0 / track.sectors);
                ahead = Ahead { since, head, ..ahead };
                self.end = self.end + passed;
            }
            break;
        }
        self.ahead = Some(ahead);
    }
}

impl Cache {
    /// An empty cache of so many segments and sectors each, reading ahead so many.
    pub fn new(segments: u32, segment_sectors: u32, read_ahead: u32) -> Cache {
        Cache {
            segments: VecDeque::with_capacity(segments as usize),
            most_segments: segments as usize,
            segment_sectors: u64::from(segment_sectors),
            read_ahead: u64::from(read_ahead),
        }
    }

    /// What the cache has of `at` at time `now`.
    pub fn look_up(&mut self, layout: &Layout, mechanics: &Mechanics, at: Extent, now: Nanos) -> Found {
        for index in 0..self.segments.len() {
            let segment = &mut self.segments[index];
            if at.start < segment.start || segment.reach() < at.start {
                continue;
            }
            segment.catch_up(layout, mechanics, now);
            trim(segment, self.segment_sectors);
            let passing = index == 0 && segment.runs() && at.start == segment.end;
            if segment.start <= at.start && (at.start < segment.end || passing) {
                return self.found(index, layout, mechanics, at);
            }
        }
        Found::Nothing
    }

    /// What a segment gives that has the start of a read.
    fn found(&mut self, index: usize, layout: &Layout, mechanics: &Mechanics, at: Extent) -> Found {
        let read_ahead = self.read_ahead;
        let segment = &mut self.segments[index];
        match segment.ahead {
            _ if at.end() <= segment.end => {
                if segment.runs() {
                    extend(segment, layout, at.end(), read_ahead);
                } else if index > 0 && !self.segments[0].runs() {
                    let used = self.segments.remove(index);
                    self.segments.extend(used);
                    self.segments.rotate_right(1);
                }
                Found::All
            }
            Some(ahead) if index == 0 && segment.runs() => {
                let rest = Extent { start: segment.end, sectors: at.end().0 - segment.end.0 };
                let (took, head) = mechanics.access(layout, ahead.head, ahead.since, rest, false);
                Found::Passing(ahead.since + took.total(), head)
            }
            _ => Found::Start(segment.end),
        }
    }

    /// The head finished reading `at` at time `now`, and goes on.
    pub fn was_read(&mut self, layout: &Layout, at: Extent, now: Nanos, head: Head) {
        if self.most_segments == 0 {
            return;
        }
        let continues = |segment: &Segment| segment.start <= at.start && at.start <= segment.end;
        let before = self.segments.iter().position(continues).and_then(|index| self.segments.remove(index));
        let start = before.map_or(at.start, |segment| segment.start);
        let ahead = Ahead { since: now, until: at.end(), head };
        let mut segment = Segment { start, end: at.end(), ahead: Some(ahead) };
        extend(&mut segment, layout, at.end(), self.read_ahead);
        trim(&mut segment, self.segment_sectors);
        if self.segments.len() == self.most_segments {
            self.segments.pop_back();
        }
        self.segments.push_front(segment);
    }

    /// The head goes elsewhere at time `now`: what it read until then stays. Says where it is.
    pub fn stop_ahead(&mut self, layout: &Layout, mechanics: &Mechanics, now: Nanos) -> Option<Head> {
        let active = self.segments.front_mut()?;
        active.catch_up(layout, mechanics, now);
        trim(active, self.segment_sectors);
        active.ahead.take().map(|ahead| ahead.head)
    }

    /// `at` is written, and the head does not read on: what the cache has of it is stale.
    pub fn was_written(&mut self, at: Extent) {
        for segment in &mut self.segments {
            if segment.start < at.end() && at.start < segment.end {
                // Keeps the longer side.
                if at.start.0.saturating_sub(segment.start.0) >= segment.end.0.saturating_sub(at.end().0) {
                    segment.end = at.start;
                } else {
                    segment.start = at.end();
                }
            }
        }
        self.segments.retain(|segment| segment.start < segment.end);
    }
}

/// The head reads on behind `from`, as far as the drive reads ahead.
fn extend(segment: &mut Segment, layout: &Layout, from: Lba, read_ahead: u64) {
    if let Some(ahead) = &mut segment.ahead {
        ahead.until = ahead.until.max(Lba((from.0 + read_ahead).min(layout.sectors())));
    }
}

/// A segment keeps its last sectors.
fn trim(segment: &mut Segment, most: u64) {
    segment.start = segment.start.max(Lba(segment.end.0.saturating_sub(most)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    struct Drive(Layout, Mechanics, Cache);

    impl Drive {
        fn look_up(&mut self, start: u64, sectors: u64, now: u64) -> Found {
            self.2.look_up(&self.0, &self.1, Extent::new(start, sectors), Nanos(now))
        }
    }

    /// The head has just read sectors 0..8 of the Atlas, ends at time 1 ms, and reads on.
    fn after_a_read() -> Drive {
        let spec = spec::find("quantum-atlas-10k").unwrap();
        let (layout, mechanics) = (Layout::new(&spec), Mechanics::new(&spec));
        let mut cache = Cache::new(2, 374, 354);
        let (took, head) = mechanics.access(&layout, Head::default(), Nanos(0), Extent::new(0, 8), false);
        cache.was_read(&layout, Extent::new(0, 8), took.total(), head);
        Drive(layout, mechanics, cache)
    }

    #[test]
    fn the_head_reads_on_and_stops_at_the_limit() {
        let mut drive = after_a_read();
        assert_eq!(drive.look_up(0, 8, 150_000), Found::All);
        assert_eq!(drive.look_up(8, 8, 500_000), Found::All, "passed 19 sectors by then");
        assert!(
            matches!(drive.look_up(16, 100, 500_000), Found::Passing(at, _) if at.0.abs_diff(116 * 17_919) < 2_000)
        );
        assert_eq!(drive.look_up(200, 8, 500_000), Found::Nothing);
        // Long after, all that may be read ahead is there, and no more.
        let mut drive = after_a_read();
        assert_eq!(drive.look_up(8 + 354 - 8, 8, 50_000_000), Found::All);
        assert!(matches!(after_a_read().look_up(360, 8, 50_000_000), Found::Start(Lba(362))));
    }

    #[test]
    fn a_write_makes_stale_and_another_access_stops_the_stream() {
        let mut drive = after_a_read();
        let Drive(layout, mechanics, cache) = &mut drive;
        cache.stop_ahead(layout, mechanics, Nanos(150_000));
        cache.was_written(Extent::new(4, 1));
        assert_eq!(
            (drive.look_up(0, 4, 150_000), drive.look_up(4, 1, 150_000)),
            (Found::All, Found::Nothing)
        );
        let mut drive = after_a_read();
        let Drive(layout, mechanics, cache) = &mut drive;
        cache.stop_ahead(layout, mechanics, Nanos(500_000));
        assert_eq!(drive.look_up(8, 8, 9_000_000), Found::All);
        assert!(matches!(drive.look_up(20, 20, 9_000_000), Found::Start(_)));
    }

    #[test]
    fn segments_are_forgotten_least_recently_used_first() {
        let mut drive = after_a_read();
        for start in [10_000, 20_000] {
            let Drive(layout, mechanics, cache) = &mut drive;
            cache.stop_ahead(layout, mechanics, Nanos(0));
            cache.was_read(layout, Extent::new(start, 8), Nanos(0), Head::default());
        }
        assert_eq!(drive.look_up(0, 8, 0), Found::Nothing);
        assert_eq!(drive.look_up(10_000, 8, 0), Found::All);
    }
}
