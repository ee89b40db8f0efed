//! Layout of the component: two copies of the checkpoint, then the segments.
//!
//! Slots number the blocks of all segments, including summaries. Invariant: there are enough segments beyond those for
//! clients' blocks that cleaning always gains space: see [`Layout::new`].

use seekless_core::{Extent, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES};

use super::sealed;
use crate::Refused;

/// A block of 4 KiB, as numbered by clients.
pub type Block = u32;
/// A block of a segment, counted from the first segment's first.
pub type Slot = u32;
/// No block, slot or segment.
pub const NONE: u32 = u32::MAX;

/// Blocks of the largest segment: entries that fit into its summary; as in the paper.
pub const LARGEST_SEGMENT: u32 = 128;
/// Blocks of the smallest segment: a summary, and blocks for it.
pub const SMALLEST_SEGMENT: u32 = 4;
/// Segments that clients cannot fill, besides those below the cleaner's threshold: the open one, and one to gain by.
const SPARE: u32 = 2;
/// The threshold that the default size leaves room for.
pub const THRESHOLD: u32 = 2;
/// Bytes of the first sector of a copy.
pub const HEAD: u64 = SECTOR_BYTES;
/// Bytes of an entry of the map, and of a segment.
pub const ENTRIES: (u64, u64) = (4, 8);

fn most_segments(pages: u64, segment: u32) -> u64 {
    (pages / u64::from(segment)).min(u64::from((NONE - 1) / segment))
}

/// Pages of a copy in the first format.
fn first_copy(pages: u64, segment: u32) -> u64 {
    let segments = most_segments(pages, segment);
    (HEAD + ENTRIES.0 * segments * u64::from(segment) + ENTRIES.1 * segments).div_ceil(PAGE_BYTES)
}

/// The layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Blocks of a segment, including its summary.
    pub segment: u32,
    /// Segments.
    pub segments: u32,
    /// Blocks visible to clients.
    pub blocks: u32,
    /// Whether metadata is in sealed sectors with parity; not so in the first format.
    pub sealed: bool,
    /// Pages of each copy.
    copy: u64,
}

impl Layout {
    /// Divides a device into segments of `segment` blocks, with `blocks` visible to clients, or fifteen sixteenths of
    /// what is possible. Even with only `threshold` segments free, the others have more than one dead block each on
    /// average: so moving two of them together gains more than their new summary takes.
    pub fn new(sectors: u64, segment: u32, threshold: u32, blocks: Option<u64>) -> Result<Layout, Refused> {
        let pages = sectors / PAGE_SECTORS;
        let sealed = |copy| {
            let layout = Layout::with_copies(sectors, segment, threshold, blocks, copy)?;
            Ok(Layout { sealed: true, ..layout })
        };
        // Usually there is room for the seals, and the layout is that of the first format.
        match sealed(first_copy(pages, segment)) {
            Ok(layout) if layout.checkpoint_bytes() <= layout.copy(0).bytes() => Ok(layout),
            _ => {
                let most = most_segments(pages, segment) as u32;
                sealed(sealed::bytes(most * segment, most).div_ceil(PAGE_BYTES))
            }
        }
    }

    /// As `new`, in the first format.
    pub fn first_format(
        sectors: u64,
        segment: u32,
        threshold: u32,
        blocks: Option<u64>,
    ) -> Result<Layout, Refused> {
        let copy = first_copy(sectors / PAGE_SECTORS, segment);
        Layout::with_copies(sectors, segment, threshold, blocks, copy)
    }

    fn with_copies(
        sectors: u64,
        segment: u32,
        threshold: u32,
        blocks: Option<u64>,
        copy: u64,
    ) -> Result<Layout, Refused> {
        let pages = sectors / PAGE_SECTORS;
        let most_segments = most_segments(pages, segment);
        let segments = (pages.saturating_sub(2 * copy) / u64::from(segment)).min(most_segments) as u32;
        let most = |spare: u32| u64::from(segments.saturating_sub(spare)) * u64::from(segment - 2);
        let (usual, most) = (most(SPARE + THRESHOLD) * 15 / 16, most(SPARE + threshold));
        let blocks = blocks.unwrap_or(usual);
        if blocks == 0 || blocks > most {
            let found = format!("{blocks} blocks of 4 KiB in {segments} segments of {segment}");
            return Err(Refused::new("size", found, format!("at least one, and at most {most} of these")));
        }
        Ok(Layout { segment, segments, blocks: blocks as u32, sealed: false, copy })
    }

    /// Blocks of clients in a segment.
    pub fn room(self) -> u32 {
        self.segment - 1
    }

    /// All slots.
    pub fn slots(self) -> u32 {
        self.segments * self.segment
    }

    /// The segment of a slot.
    pub fn segment_of(self, slot: Slot) -> u32 {
        slot / self.segment
    }

    /// The slots of a segment.
    pub fn slots_of(self, segment: u32) -> std::ops::Range<Slot> {
        segment * self.segment..(segment + 1) * self.segment
    }

    /// Extent of slots on the component.
    pub fn extent(self, slot: Slot, slots: u32) -> Extent {
        Extent::of_pages(2 * self.copy + u64::from(slot), u64::from(slots))
    }

    /// Extent of the checkpoint of this generation.
    pub fn copy(self, generation: u64) -> Extent {
        Extent::of_pages(generation % 2 * self.copy, self.copy)
    }

    /// Bytes of a checkpoint, in whole pages.
    pub fn checkpoint_bytes(self) -> u64 {
        if self.sealed {
            return sealed::bytes(self.blocks, self.segments).div_ceil(PAGE_BYTES) * PAGE_BYTES;
        }
        let body = ENTRIES.0 * u64::from(self.blocks) + ENTRIES.1 * u64::from(self.segments);
        (HEAD + body).div_ceil(PAGE_BYTES) * PAGE_BYTES
    }

    /// Segments between two checkpoints: enough that checkpoints take a sixty-fourth of all writes, and few enough that
    /// recovery reads their summaries in less than a minute.
    pub fn window(self) -> u32 {
        let segment = u64::from(self.segment) * PAGE_BYTES;
        (64 * self.checkpoint_bytes() / segment).clamp(8, 4_096) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_see_leaves_something_to_gain() {
        for pages in (20..3_000).step_by(7).chain([102_400, 1 << 24]) {
            for segment in [4, 8, 31, 128] {
                let Ok(layout) = Layout::new(pages * PAGE_SECTORS, segment, 2, None) else { continue };
                let last = layout.extent(layout.slots() - 1, 1);
                assert!(last.end().page() <= pages && layout.copy(1).end() == layout.extent(0, 1).start);
                assert!(layout.checkpoint_bytes() <= layout.copy(0).bytes());
                let most = Layout::new(pages * PAGE_SECTORS, segment, 2, Some(u64::MAX)).unwrap_err();
                let message = most.expected.split("at most ").nth(1).unwrap();
                let most: u64 = message.split(' ').next().unwrap().parse().unwrap();
                let full = Layout::new(pages * PAGE_SECTORS, segment, 2, Some(most)).unwrap();
                let used = full.segments - 2;
                assert!(used * full.room() - full.blocks > used, "{full:?}");
            }
        }
        assert!(Layout::new(8, 128, 2, None).is_err() && Layout::new(1 << 20, 128, 2, Some(0)).is_err());
    }
}
