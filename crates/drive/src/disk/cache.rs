//! The drive's on-board cache: segments, and reading ahead while nothing else is to be done.
//!
//! One segment at a time is *active*: the head went on reading behind the last read, and how far it
//! came is worked out when somebody asks. Invariants: segments do not overlap what was written after
//! they were filled; the active segment is the first.

use seekless_core::{Extent, Lba, Nanos};

use super::layout::Layout;
use super::mechanics::{Head, Mechanics};

/// A run of sectors that the cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    start: Lba,
    end: Lba,
}

/// Reading on: from where, since when, how far at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ahead {
    from: Lba,
    since: Nanos,
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
    segments: Vec<Segment>,
    ahead: Option<Ahead>,
    most_segments: usize,
    segment_sectors: u64,
    read_ahead: u64,
}

impl Cache {
    /// An empty cache of so many segments and sectors each, reading ahead so many.
    pub fn new(segments: u32, segment_sectors: u32, read_ahead: u32) -> Cache {
        Cache {
            segments: Vec::new(),
            ahead: None,
            most_segments: segments as usize,
            segment_sectors: u64::from(segment_sectors),
            read_ahead: u64::from(read_ahead),
        }
    }

    /// What the cache has of `at` at time `now`.
    pub fn look_up(&mut self, layout: &Layout, mechanics: &Mechanics, at: Extent, now: Nanos) -> Found {
        self.catch_up(layout, mechanics, now);
        let holds = |segment: &Segment| segment.start <= at.start && at.start < segment.end;
        let passing = |segment: &Segment| segment.start <= at.start && at.start == segment.end;
        let running = self.ahead.is_some_and(|ahead| ahead.from < ahead.until);
        let found = self.segments.iter().position(holds);
        let Some(index) =
            found.or_else(|| (running && self.segments.first().is_some_and(passing)).then_some(0))
        else {
            return Found::Nothing;
        };
        let segment = self.segments[index];
        if at.end() <= segment.end {
            if index == 0 {
                self.extend_ahead(layout, at.end());
            } else if self.ahead.is_none() {
                self.segments[..=index].rotate_right(1);
            }
            return Found::All;
        }
        match self.ahead {
            Some(ahead) if index == 0 && running => {
                let rest = Extent { start: ahead.from, sectors: at.end().0 - ahead.from.0 };
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
        let mut start = at.start;
        if let Some(index) = self.segments.iter().position(|s| s.start <= at.start && at.start <= s.end) {
            start = self.segments.remove(index).start;
        }
        self.segments.insert(0, Segment { start, end: at.end() });
        self.segments.truncate(self.most_segments);
        self.ahead = Some(Ahead { from: at.end(), since: now, until: at.end(), head });
        self.extend_ahead(layout, at.end());
        self.trim();
    }

    /// The head goes elsewhere at time `now`: what it read until then stays.
    pub fn stop_ahead(&mut self, layout: &Layout, mechanics: &Mechanics, now: Nanos) {
        self.catch_up(layout, mechanics, now);
        self.ahead = None;
    }

    /// The head goes to write `at` at time `now`: what the cache has of it is stale.
    pub fn was_written(&mut self, layout: &Layout, mechanics: &Mechanics, at: Extent, now: Nanos) {
        self.stop_ahead(layout, mechanics, now);
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

    fn extend_ahead(&mut self, layout: &Layout, from: Lba) {
        let last = layout.sectors();
        if let Some(ahead) = &mut self.ahead {
            // A stream that has come to its end stays there: the head rests, and would have to wait
            // for its place to come round again.
            if ahead.from < ahead.until || ahead.from == from {
                ahead.until = ahead.until.max(Lba((from.0 + self.read_ahead).min(last)));
            }
        }
    }

    /// Adds what the head has passed over by now.
    fn catch_up(&mut self, layout: &Layout, mechanics: &Mechanics, now: Nanos) {
        let Some(mut ahead) = self.ahead else { return };
        while ahead.from < ahead.until && ahead.since < now {
            let track = layout.track(ahead.from);
            let sectors = (ahead.until.0 - ahead.from.0).min(track.first.0 + track.sectors - ahead.from.0);
            let rest = Extent { start: ahead.from, sectors };
            let (took, head) = mechanics.access(layout, ahead.head, ahead.since, rest, false);
            if ahead.since + took.total() <= now {
                ahead = Ahead { from: rest.end(), since: ahead.since + took.total(), head, ..ahead };
                continue;
            }
            // In the middle of this track: whole sectors only, and the clock stays in step with them.
            let under_way = now.since(ahead.since + took.seek + took.rotation);
            let passed = (under_way.0 * track.sectors / mechanics.revolution().0).min(sectors);
            if passed > 0 {
                let time = passed * mechanics.revolution().0 / track.sectors;
                let since = ahead.since + took.seek + took.rotation + Nanos(time);
                ahead = Ahead { from: ahead.from + passed, since, head, ..ahead };
            }
            break;
        }
        self.ahead = Some(ahead);
        if let Some(active) = self.segments.first_mut() {
            active.end = active.end.max(ahead.from);
        }
        self.trim();
    }

    fn trim(&mut self) {
        let most = self.segment_sectors;
        if let Some(active) = self.segments.first_mut() {
            active.start = active.start.max(Lba(active.end.0.saturating_sub(most)));
        }
    }
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
        drive.2.was_written(&drive.0, &drive.1, Extent::new(4, 1), Nanos(150_000));
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
            let Drive(layout, _, cache) = &mut drive;
            cache.ahead = None;
            cache.was_read(layout, Extent::new(start, 8), Nanos(0), Head::default());
        }
        assert_eq!(drive.look_up(0, 8, 0), Found::Nothing);
        assert_eq!(drive.look_up(10_000, 8, 0), Found::All);
    }
}
