//! The map of the media cache: where sectors are, and what may be overwritten there.
//!
//! The cache is a ring. Writes are appended; what is cleaned, or overwritten by a later write, is freed once it is at
//! the ring's tail. Invariants: extents of the map do not overlap; each lies in an entry of the ring; entries are in
//! the order in which they were written.

use std::collections::{BTreeMap, VecDeque};

use seekless_core::{Extent, Lba};

/// The map of the media cache.
#[derive(Debug)]
pub struct CacheMap {
    capacity: u64,
    band: u64,
    /// By first sector: the end, and the ring position of its first sector.
    extents: BTreeMap<u64, (u64, u64)>,
    /// Each write's begin and end in the ring, as unwrapped positions, and its first sector.
    ring: VecDeque<(u64, u64, u64)>,
    head: u64,
}

impl CacheMap {
    /// An empty map.
    pub fn new(capacity: u64, band: u64) -> CacheMap {
        CacheMap { capacity, band, extents: BTreeMap::new(), ring: VecDeque::new(), head: 0 }
    }

    /// Whether the cache holds nothing.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Whether `sectors` can be appended.
    pub fn has_room(&self, sectors: u64) -> bool {
        let tail = self.ring.front().map_or(self.head, |entry| entry.0);
        // A write does not wrap around the ring's end.
        let skip = self.skip(sectors);
        self.head + skip + sectors - tail <= self.capacity
    }

    fn skip(&self, sectors: u64) -> u64 {
        let left = self.capacity - self.head % self.capacity;
        if left < sectors { left } else { 0 }
    }

    /// Appends a write of `at`, with `header` sectors before it; returns the ring's sector where that begins. From now
    /// on reads find it.
    pub fn append(&mut self, at: Extent, header: u64) -> Lba {
        self.remove(at);
        let sectors = at.sectors + header;
        let place = self.head + self.skip(sectors);
        self.head = place + sectors;
        self.ring.push_back((place, self.head, at.start.0));
        self.extents.insert(at.start.0, (at.end().0, place + header));
        Lba(place % self.capacity)
    }

    /// Drops the cached part of `at`.
    pub fn remove(&mut self, at: Extent) {
        self.forget(at);
        self.release();
    }

    fn forget(&mut self, at: Extent) {
        while let Some((&start, &(end, place))) = self.extents.range(..at.end().0).next_back() {
            if end <= at.start.0 {
                return;
            }
            self.extents.remove(&start);
            if at.end().0 < end {
                self.extents.insert(at.end().0, (end, place + (at.end().0 - start)));
            }
            if start < at.start.0 {
                self.extents.insert(start, (at.start.0, place));
                return;
            }
        }
    }

    /// The parts of `at` in order, each with its sector in the ring if it is in the cache.
    pub fn parts(&self, at: Extent) -> Vec<(Extent, Option<u64>)> {
        let mut parts = Vec::new();
        let mut next = at.start;
        for (part, place) in self.cached(at) {
            if next < part.start {
                parts.push((Extent { start: next, sectors: part.start.0 - next.0 }, None));
            }
            parts.push((part, Some(place % self.capacity)));
            next = part.end();
        }
        if next < at.end() {
            parts.push((Extent { start: next, sectors: at.end().0 - next.0 }, None));
        }
        parts
    }

    /// The parts of `at` that are in the cache, each with its unwrapped ring position.
    fn cached(&self, at: Extent) -> Vec<(Extent, u64)> {
        let (start, end) = (at.start.0, at.end().0);
        let before = self.extents.range(..start).next_back();
        let within = self.extents.range(start..end);
        let all = before.into_iter().chain(within).filter(|(_, (to, _))| *to > start);
        all.map(|(&from, &(to, place))| {
            let first = from.max(start);
            (Extent::new(first, to.min(end) - first), place + (first - from))
        })
        .collect()
    }

    /// The band of the oldest write in the cache that is still in use.
    pub fn oldest_band(&self) -> Option<u64> {
        self.ring.front().and_then(|&entry| self.left_of(entry)).map(|sector| sector / self.band)
    }

    /// The first sector of a write in the ring that is still in use.
    fn left_of(&self, (from, to, start): (u64, u64, u64)) -> Option<u64> {
        let mut within = self.extents.range(start..start + (to - from));
        within.find(|entry| (from..to).contains(&entry.1.1)).map(|(&sector, _)| sector)
    }

    /// The parts of a band that are in the cache, each with its unwrapped ring position.
    pub fn of_band(&self, band: u64) -> Vec<(Extent, u64)> {
        self.cached(Extent::new(band * self.band, self.band))
    }

    /// A band was rewritten with the data of these places: they are dropped, unless they were written again.
    pub fn cleaned(&mut self, places: &[(Extent, u64)]) {
        for &(at, place) in places {
            for (part, here) in self.cached(at) {
                if here == place + (part.start.0 - at.start.0) {
                    self.forget(part);
                }
            }
        }
        self.release();
    }

    /// Frees writes at the ring's tail that are no longer in use.
    fn release(&mut self) {
        while self.ring.front().is_some_and(|&entry| self.left_of(entry).is_none()) {
            self.ring.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BAND: u64 = 32;

    proptest! {
        /// Against a model that knows each sector's last write: reads find the last write, no place in the ring is
        /// allocated twice, and cleaning everything frees everything.
        #[test]
        fn reads_find_the_last_write(
            steps in proptest::collection::vec((0..4_u8, 0..200_u64, 1..24_u64), 1..80),
            header in 0..3_u64,
        ) {
            let capacity = 200;
            let mut map = CacheMap::new(capacity, BAND);
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            for (step, start, sectors) in steps {
                let at = Extent::new(start, sectors);
                match step {
                    0 => {
                        map.remove(at);
                        model.retain(|sector, _| !(at.start.0..at.end().0).contains(sector));
                    }
                    1 => if let Some(band) = map.oldest_band() {
                        let parts = map.of_band(band);
                        map.cleaned(&parts);
                        model.retain(|sector, _| sector / BAND != band);
                    }
                    _ if map.has_room(sectors + header) => {
                        let place = map.append(at, header).0 + header;
                        for (sector, place) in (at.start.0..).zip(place..place + sectors) {
                            model.insert(sector, place);
                        }
                    }
                    _ => {}
                }
                let found: BTreeMap<u64, u64> = map
                    .parts(Extent::new(0, 300))
                    .into_iter()
                    .filter_map(|(at, place)| Some((at, place?)))
                    .flat_map(|(at, place)| (at.start.0..at.end().0).zip(place..))
                    .collect();
                prop_assert_eq!(&found, &model);
                let mut places: Vec<u64> = found.into_values().collect();
                let count = places.len();
                places.sort_unstable();
                places.dedup();
                prop_assert_eq!(places.len(), count);
                prop_assert!(places.iter().all(|place| *place < capacity));
            }
            while let Some(band) = map.oldest_band() {
                let parts = map.of_band(band);
                map.cleaned(&parts);
            }
            prop_assert!(map.is_empty() && map.extents.is_empty());
        }
    }
}
