//! The write buffer: acknowledged writes that wait in the drive's memory to be destaged.
//!
//! Invariants: ranges do not overlap, and are not adjacent if writes are combined; their total size is at most the
//! capacity. A write is accepted while there are fewer ranges than the most; one that splits another may add two.

use std::collections::BTreeMap;

use seekless_core::{Extent, Lba, Nanos};

use crate::scheduler::{Moment, Place, Positioning, Waiter, Window};
use crate::spec::{CacheSpec, WriteBack};

/// The write buffer of a drive; a capacity of zero disables it.
#[derive(Clone, Debug, Default)]
pub struct WriteBuffer {
    capacity: u64,
    /// Most ranges.
    most_ranges: usize,
    /// Above this many sectors, or ranges, the head destages rather than idles.
    threshold: u64,
    range_threshold: usize,
    combine: bool,
    /// By first sector: the end, and its queue entry.
    ranges: BTreeMap<u64, (u64, Waiter)>,
    waiting: Window,
    sectors: u64,
    arrivals: u64,
}

impl WriteBuffer {
    /// An empty buffer.
    pub fn new(spec: &CacheSpec) -> WriteBuffer {
        let there = spec.write_back == WriteBack::All;
        let capacity = if there { u64::from(spec.write_buffer_sectors) } else { 0 };
        let most_ranges = if spec.write_buffer_ranges == 0 { u32::MAX } else { spec.write_buffer_ranges };
        WriteBuffer {
            capacity,
            most_ranges: most_ranges as usize,
            threshold: (capacity as f64 * spec.destage_threshold) as u64,
            range_threshold: (f64::from(most_ranges) * spec.destage_threshold) as usize,
            combine: spec.combine_writes,
            ranges: BTreeMap::new(),
            waiting: Window::new(spec.destage_order, spec.destage_limits()),
            sectors: 0,
            arrivals: 0,
        }
    }

    /// Capacity in sectors.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.sectors == 0
    }

    /// Whether it holds so much that the head should destage now.
    pub fn over_threshold(&self) -> bool {
        self.sectors > self.threshold || self.ranges.len() > self.range_threshold
    }

    /// Whether there is room for `sectors` more.
    pub fn has_room(&self, sectors: u64) -> bool {
        self.sectors + sectors <= self.capacity && self.ranges.len() < self.most_ranges
    }

    /// Whether the destage order depends on the head's position.
    pub fn by_position(&self) -> bool {
        self.waiting.by_position()
    }

    /// Whether one range holds all of `at`.
    pub fn holds(&self, at: Extent) -> bool {
        let below = self.ranges.range(..=at.start.0).next_back();
        below.is_some_and(|(_, &(end, _))| at.end().0 <= end)
    }

    /// A range that holds some of `at`.
    pub fn overlapping(&self, at: Extent) -> Option<Extent> {
        let (&start, &(end, _)) = self.ranges.range(..at.end().0).next_back()?;
        (end > at.start.0).then(|| Extent { start: Lba(start), sectors: end - start })
    }

    /// Stores `at`, replacing what it held of that. There must be room; `place` gives a sector's place.
    pub fn put(&mut self, at: Extent, now: Nanos, place: impl Fn(Lba) -> Place) {
        self.forget(at, now, &place);
        let (mut start, mut end) = (at.start.0, at.end().0);
        if self.combine {
            let below = self.ranges.range(..start).next_back();
            if let Some((&before, _)) = below.filter(|(_, range)| range.0 == start) {
                self.take(before);
                start = before;
            }
            if let Some(after) = self.take(end) {
                end = after.end().0;
            }
        }
        self.add(start, end, now, &place);
    }

    /// Drops what it holds of `at`.
    pub fn forget(&mut self, at: Extent, now: Nanos, place: &impl Fn(Lba) -> Place) {
        while let Some(range) = self.overlapping(at) {
            self.take(range.start.0);
            if range.start < at.start {
                self.add(range.start.0, at.start.0, now, place);
            }
            if at.end() < range.end() {
                self.add(at.end().0, range.end().0, now, place);
            }
        }
    }

    fn add(&mut self, start: u64, end: u64, now: Nanos, place: &impl Fn(Lba) -> Place) {
        self.arrivals += 1;
        let place = if self.by_position() { place(Lba(start)) } else { Place::default() };
        let arrival = self.arrivals;
        // A slot identifies a range: a drive has fewer sectors than `usize` values.
        let waiter = Waiter { slot: start as usize, arrival, since: now, write: true, place };
        self.ranges.insert(start, (end, waiter));
        self.waiting.add(Lba(start), waiter);
        self.sectors += end - start;
    }

    /// Removes the range that begins there, to be destaged or merged.
    pub fn take(&mut self, start: u64) -> Option<Extent> {
        let (end, waiter) = self.ranges.remove(&start)?;
        self.waiting.remove(Lba(start), &waiter);
        self.sectors -= end - start;
        Some(Extent { start: Lba(start), sectors: end - start })
    }

    /// The start of the range to destage next, for a head after sector `head`.
    pub fn next(&mut self, now: Nanos, head: Lba, drive: Option<&dyn Positioning>) -> Option<u64> {
        let moment = Moment { now, head, arrived_before: u64::MAX, drive };
        self.waiting.next(&moment).map(|slot| slot as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// It holds the sectors that were put in and neither forgotten nor taken, in disjoint ranges.
        #[test]
        fn the_buffer_holds_what_was_put_in(
            steps in proptest::collection::vec((0..4_u8, 0..60_u64, 1..12_u64), 1..60),
            combine: bool,
        ) {
            let spec = CacheSpec {
                write_back: WriteBack::All,
                write_buffer_sectors: 1_000,
                combine_writes: combine,
                ..CacheSpec::default()
            };
            let (mut buffer, mut model) = (WriteBuffer::new(&spec), BTreeSet::new());
            let place = |_| Place::default();
            for (step, start, sectors) in steps {
                let at = Extent::new(start, sectors);
                match step {
                    0 => {
                        buffer.forget(at, Nanos(0), &place);
                        model.retain(|sector| !(at.start.0..at.end().0).contains(sector));
                    }
                    1 => {
                        let next = buffer.next(Nanos(0), at.start, None).and_then(|start| buffer.take(start));
                        prop_assert_eq!(next.is_none(), model.is_empty());
                        for sector in next.map_or(0..0, |at| at.start.0..at.end().0) {
                            prop_assert!(model.remove(&sector));
                        }
                    }
                    _ => {
                        buffer.put(at, Nanos(0), place);
                        model.extend(at.start.0..at.end().0);
                    }
                }
                prop_assert_eq!(buffer.sectors, model.len() as u64);
                let ends: Vec<_> = buffer.ranges.iter().map(|(&start, &(end, _))| (start, end)).collect();
                prop_assert!(ends.windows(2).all(|w| w[0].1 < w[1].0 || (!combine && w[0].1 == w[1].0)));
                let all: BTreeSet<u64> = ends.iter().flat_map(|&(start, end)| start..end).collect();
                prop_assert_eq!(&all, &model);
                let whole = at.start.0..at.end().0;
                prop_assert_eq!(buffer.overlapping(at).is_some(), whole.clone().any(|s| model.contains(&s)));
                prop_assert!(!buffer.holds(at) || whole.clone().all(|s| model.contains(&s)));
            }
        }
    }
}
