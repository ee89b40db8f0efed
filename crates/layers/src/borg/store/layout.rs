//! Layout of the BOPT (section 3.3, Figure 3): metadata, read cache, write buffer.
//!
//! Two super pages; the map, one page per segment, twice; then the segments, those of the read cache first. Slots
//! number the data pages. All map pages are contiguous, so that they are read together, and those that change together
//! are written together. For a drawing see the README in this folder's parent.

use super::map::Slot;

/// Slots of the largest segment: entries that fit into its map page.
pub const LARGEST_SEGMENT: u64 = 512;
/// Pages of the smallest segment.
pub const SMALLEST_SEGMENT: u64 = 4;
/// Segments that a small BOPT should have: its segments are smaller for that.
const FEW_SEGMENTS: u64 = 16;
/// The two copies of the super page.
const SUPERS: u64 = 2;

/// Pages of the smallest BOPT: of one segment, with its map page twice.
pub const FEWEST_PAGES: u64 = SUPERS + 2 + SMALLEST_SEGMENT;

/// Layout of a BOPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Pages of a segment.
    pub segment: u32,
    /// Segments of the read cache.
    pub read_cache: u32,
    /// Segments of the write buffer: none, or at least two.
    pub write_buffer: u32,
}

impl Layout {
    /// Divides a BOPT of `pages` pages into segments of the given size, or smaller if it is small; `None` if there is
    /// no room for one.
    pub fn new(pages: u64, segment: u64, write_buffer: f64) -> Option<Layout> {
        let room = pages.checked_sub(SUPERS)?;
        let segments = |segment: u64| (room / (segment + 2)).min(u64::from(u32::MAX - 1) / segment);
        let mut segment = segment;
        while segment > SMALLEST_SEGMENT && segments(segment) < FEW_SEGMENTS {
            segment = (segment / 2).max(SMALLEST_SEGMENT);
        }
        let all = segments(segment) as u32;
        let part = (f64::from(all) * write_buffer.clamp(0.0, 1.0)).round() as u32;
        let log = if write_buffer > 0.0 && all >= 2 { part.max(2) } else { 0 };
        (all > 0).then_some(Layout { segment: segment as u32, read_cache: all - log, write_buffer: log })
    }

    /// Number of segments.
    pub fn segments(self) -> u32 {
        self.read_cache + self.write_buffer
    }

    /// Number of slots.
    pub fn slots(self) -> u32 {
        self.segments() * self.segment
    }

    /// Slots of the read cache: those of the log follow.
    pub fn cached_slots(self) -> u32 {
        self.read_cache * self.segment
    }

    /// Whether a slot is in the log.
    pub fn is_logged(self, slot: Slot) -> bool {
        slot >= self.cached_slots()
    }

    /// The segment of a slot, and the offset in it.
    pub fn segment_of(self, slot: Slot) -> (u32, u32) {
        (slot / self.segment, slot % self.segment)
    }

    /// The slots of a segment.
    pub fn slots_of(self, segment: u32) -> std::ops::Range<Slot> {
        segment * self.segment..(segment + 1) * self.segment
    }

    /// The page of the BOPT for a slot.
    pub fn page(self, slot: Slot) -> u64 {
        SUPERS + 2 * u64::from(self.segments()) + u64::from(slot)
    }

    /// The page of the BOPT for the first or second copy of a segment's map page.
    pub fn map_page(self, segment: u32, copy: u64) -> u64 {
        SUPERS + copy * u64::from(self.segments()) + u64::from(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn no_two_things_share_a_page(pages in 2..5_000_u64, segment in 4..=512_u64, part in 0.0..1.0_f64) {
            let Some(layout) = Layout::new(pages, segment, part) else {
                prop_assert!(pages < FEWEST_PAGES);
                return Ok(());
            };
            let slots = (0..layout.slots()).map(|slot| layout.page(slot));
            let maps = (0..layout.segments()).flat_map(|segment| [0, 1].map(|copy| layout.map_page(segment, copy)));
            let used: Vec<u64> = (0..SUPERS).chain(slots).chain(maps).collect();
            let distinct: BTreeSet<u64> = used.iter().copied().collect();
            prop_assert_eq!(distinct.len(), used.len());
            prop_assert!(distinct.last().is_none_or(|last| *last < pages));
            prop_assert!(layout.write_buffer != 1 && u64::from(layout.segment) <= segment);
        }
    }

    #[test]
    fn a_write_buffer_is_all_none_or_a_part() {
        let layout = |part| Layout::new(10_000, 64, part).unwrap();
        assert_eq!((layout(0.0).write_buffer, layout(1.0).read_cache), (0, 0));
        assert_eq!((layout(0.4).read_cache, layout(0.4).write_buffer), (91, 60));
        assert_eq!(Layout::new(1, 64, 0.4), None);
        assert_eq!(Layout::new(8, 40, 0.0).map(|layout| layout.segment), Some(4), "halves of 40 miss it");
        assert_eq!(Layout::new(8, 64, 0.4), Some(Layout { segment: 4, read_cache: 1, write_buffer: 0 }));
    }
}
