//! The place of what was learned in a BOPT: two copies in the last segments of the write buffer.

use std::ops::Range;

use seekless_core::{Extent, PAGE_SECTORS};

use super::layout::Layout;
use crate::durable::blob;

/// A write buffer of fewer segments has no area, and neither has one without a read cache, in which a plan could place
/// pages.
const FEWEST_SEGMENTS: u32 = 10;
/// The area takes this part of the write buffer, at least a segment.
const PART: u32 = 32;
/// Pages of the largest area: 32 MiB.
const LARGEST: u32 = 8_192;

/// Where the area is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// First page of the BOPT.
    pub first: u64,
    /// Pages of both copies.
    pub pages: u64,
}

impl Area {
    /// The area of a BOPT: the last segments of its write buffer; `None` if that has too few, or nothing can be placed.
    pub fn of(layout: Layout) -> Option<Area> {
        let segments = (layout.write_buffer / PART).min(LARGEST / layout.segment).max(1);
        (layout.write_buffer >= FEWEST_SEGMENTS && layout.read_cache > 0).then(|| {
            let first = layout.slots_of(layout.segments() - segments).start;
            Area { first: layout.page(first), pages: u64::from(segments * layout.segment) }
        })
    }

    /// Whether it consists of the last segments of a write buffer that has some left.
    pub fn fits(self, layout: Layout) -> bool {
        let most = u64::from(layout.write_buffer.saturating_sub(2)) * u64::from(layout.segment);
        let end = self.first.checked_add(self.pages);
        (1..=most).contains(&self.pages)
            && self.pages % u64::from(layout.segment) == 0
            && end == Some(layout.page(layout.slots()))
    }

    /// The first segment that it takes.
    pub fn first_segment(self, layout: Layout) -> u32 {
        layout.segments() - (self.pages / u64::from(layout.segment)) as u32
    }

    /// The segments that it takes.
    pub fn segments(self, layout: Layout) -> Range<u32> {
        self.first_segment(layout)..layout.segments()
    }

    /// Whether it takes this segment.
    pub fn has(self, layout: Layout, segment: u32) -> bool {
        segment >= self.first_segment(layout)
    }

    /// The first sectors of a copy, as many as these bytes take with a head.
    pub fn sectors(self, copy: u64, bytes: u64) -> Extent {
        let at = Extent::of_pages(self.first + copy * (self.pages / 2), self.pages / 2);
        Extent { sectors: blob::sectors(bytes), ..at }
    }

    /// The bytes that a copy has room for.
    pub fn room(self) -> u64 {
        blob::room(self.pages / 2 * PAGE_SECTORS)
    }
}
