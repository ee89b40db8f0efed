//! How the BOPT is divided (section 3.3, Figure 3): metadata, read cache, write buffer.
//!
//! One page of metadata; then the read cache in segments, each with its map page in front; then the
//! write buffer, a circular log in which map pages follow the runs that they describe. Slots count
//! the data pages: first those of the read cache, then all pages of the log.
//!
//! Invariant of the log: a page is free, or holds a copy, or holds a map page; none is handed out
//! before it was given back.

use seekless_core::Extent;

use super::map::Slot;

/// Data pages of a read-cache segment: as many as one 4 KiB map page of 8-byte entries describes.
pub const SEGMENT_PAGES: u32 = 512;

/// Entries in a map page.
pub const MAP_ENTRIES: usize = SEGMENT_PAGES as usize;

/// Where things are in the BOPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Slots of the read cache.
    pub read_cache: u32,
    /// Slots of the write buffer.
    pub write_buffer: u32,
}

impl Division {
    /// Divides a BOPT of `pages` pages; `None` if there is no room for one segment, or more pages
    /// than slots can be counted.
    pub fn new(pages: u64, write_buffer: f64) -> Option<Division> {
        let pages = u32::try_from(pages.checked_sub(1)?).ok()?;
        let write_buffer = (f64::from(pages) * write_buffer.clamp(0.0, 1.0)) as u32;
        let rest = pages - write_buffer;
        // Each whole or started segment has a map page.
        let read_cache = rest - rest.div_ceil(SEGMENT_PAGES + 1);
        (read_cache + write_buffer > 0).then_some(Division { read_cache, write_buffer })
    }

    /// All slots.
    pub fn slots(self) -> u32 {
        self.read_cache + self.write_buffer
    }

    /// The page of the BOPT that a slot is.
    pub fn page(self, slot: Slot) -> u64 {
        if slot < self.read_cache {
            return 1 + u64::from(slot) + u64::from(slot / SEGMENT_PAGES) + 1;
        }
        let maps = self.read_cache.div_ceil(SEGMENT_PAGES);
        1 + u64::from(slot) + u64::from(maps)
    }

    /// Where the map page of a read-cache segment is.
    pub fn segment_map(segment: u32) -> Extent {
        Extent::of_pages(1 + u64::from(segment) * u64::from(SEGMENT_PAGES + 1), 1)
    }
}

/// The write buffer as a circular log.
pub struct Log {
    first: Slot,
    taken: Vec<bool>,
    /// Map pages, the oldest first, to be given back when all that they describe is gone.
    maps: Vec<Slot>,
    next: usize,
    free: usize,
}

impl Log {
    /// An empty log over the slots from `first` on.
    pub fn new(first: Slot, slots: u32) -> Log {
        Log { first, taken: vec![false; slots as usize], maps: Vec::new(), next: 0, free: slots as usize }
    }

    /// How many pages are free.
    pub fn free(&self) -> usize {
        self.free
    }

    /// The next free pages, at most `pages` and contiguous: (first, how many). `None` if it is full.
    pub fn take(&mut self, pages: usize) -> Option<(Slot, usize)> {
        if self.free == 0 || pages == 0 {
            return None;
        }
        while self.taken[self.next] {
            self.next = (self.next + 1) % self.taken.len();
        }
        let start = self.next;
        let got = self.taken[start..].iter().take(pages).take_while(|taken| !**taken).count();
        self.taken[start..start + got].fill(true);
        self.free -= got;
        self.next = (start + got) % self.taken.len();
        Some((self.first + start as Slot, got))
    }

    /// The next free page, for a map page.
    pub fn take_map(&mut self) -> Option<Slot> {
        let (slot, _) = self.take(1)?;
        self.maps.push(slot);
        Some(slot)
    }

    /// A page's copy is gone, and so is what said that it was there.
    ///
    /// # Panics
    /// When it was free already.
    pub fn give_back(&mut self, slot: Slot) {
        let taken = &mut self.taken[(slot - self.first) as usize];
        assert!(*taken, "slot {slot} was given back twice");
        *taken = false;
        self.free += 1;
    }

    /// How many map pages the log has.
    pub fn map_pages(&self) -> usize {
        self.maps.len()
    }

    /// All that the first so many map pages described is gone, or described anew.
    pub fn give_back_maps(&mut self, count: usize) {
        for slot in self.maps.drain(..count).collect::<Vec<Slot>>() {
            self.give_back(slot);
        }
    }

    /// Slots of the log in the order in which they were taken, as far as the log has not wrapped
    /// around slots that stayed.
    pub fn oldest_first(&self, slots: impl Iterator<Item = Slot>) -> Vec<Slot> {
        let mut slots: Vec<Slot> = slots.collect();
        let next = self.first + self.next as Slot;
        slots.sort_unstable_by_key(|&slot| (slot < next, slot));
        slots
    }

    /// Map pages that were taken by `take`.
    pub fn keep_maps(&mut self, maps: Vec<Slot>) {
        self.maps.extend(maps);
    }

    /// Whether a slot is in use.
    #[cfg(test)]
    pub fn is_taken(&self, slot: Slot) -> bool {
        self.taken[(slot - self.first) as usize]
    }

    /// Whether a slot holds a map page.
    #[cfg(test)]
    pub fn is_map(&self, slot: Slot) -> bool {
        self.maps.contains(&slot)
    }

    /// Whether a slot belongs to the log.
    pub fn holds(&self, slot: Slot) -> bool {
        slot >= self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn slots_and_map_pages_never_share_a_page(pages in 2..5_000_u64, part in 0.0..1.0_f64) {
            let Some(division) = Division::new(pages, part) else { return Ok(()) };
            let mut used: BTreeSet<u64> = (0..division.slots()).map(|slot| division.page(slot)).collect();
            prop_assert_eq!(used.len() as u32, division.slots());
            for segment in 0..division.read_cache.div_ceil(SEGMENT_PAGES) {
                prop_assert!(used.insert(Division::segment_map(segment).start.page()));
            }
            prop_assert!(used.insert(0), "page 0 is the metadata");
            prop_assert!(used.last().is_none_or(|last| *last < pages));
        }

        #[test]
        fn the_log_hands_out_each_page_once(steps in prop::collection::vec((1..20_usize, any::<bool>()), 1..200)) {
            let mut log = Log::new(100, 64);
            let mut held: Vec<Slot> = Vec::new();
            for (count, take) in steps {
                if take {
                    if let Some((first, got)) = log.take(count) {
                        prop_assert!(got >= 1 && got <= count);
                        for slot in first..first + got as u32 {
                            prop_assert!((100..164).contains(&slot) && !held.contains(&slot));
                            held.push(slot);
                        }
                    } else {
                        prop_assert_eq!(held.len(), 64);
                    }
                } else {
                    for _ in 0..count.min(held.len()) {
                        log.give_back(held.remove(0));
                    }
                }
                prop_assert_eq!(log.free(), 64 - held.len());
            }
        }
    }
}
