//! Regions of a volume: each is whole pages of the map, enough of them that a set of regions fits into the anchor.

use seekless_core::{Extent, PAGE_SECTORS};

use super::format::{ENTRIES, Shape};

/// Regions of a volume at most.
pub const MOST: usize = 8 * BYTES;
/// Bytes of a set of regions on disk.
pub const BYTES: usize = 384;

/// A set of regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regions {
    bits: Vec<u64>,
    /// Pages of a region.
    pages: u64,
    /// Pages of the volume.
    all: u64,
}

impl Regions {
    /// No region of this volume.
    pub fn new(shape: &Shape) -> Regions {
        let pages = shape.maps.div_ceil(MOST as u64).max(1) * ENTRIES as u64;
        Regions { bits: vec![0; BYTES / 8], pages, all: shape.pages }
    }

    /// The set with these bytes, as [`Regions::bytes`] has them.
    pub fn of_bytes(shape: &Shape, bytes: &[u8]) -> Regions {
        let mut regions = Regions::new(shape);
        for (bits, bytes) in regions.bits.iter_mut().zip(bytes.chunks_exact(8)) {
            *bits = bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        }
        regions
    }

    /// Its bytes, [`BYTES`] of them.
    pub fn bytes(&self) -> Vec<u8> {
        self.bits.iter().flat_map(|bits| bits.to_le_bytes()).collect()
    }

    /// Adds the region of a page.
    pub fn add(&mut self, page: u64) {
        let region = page / self.pages;
        self.bits[region as usize / 64] |= 1 << (region % 64);
    }

    /// Adds the regions of an extent of the volume.
    pub fn add_all(&mut self, at: Extent) {
        let pages = at.whole_pages().pages();
        let first = pages.start / self.pages * self.pages;
        (first..pages.end).step_by(self.pages as usize).for_each(|page| self.add(page));
    }

    /// Adds another set.
    pub fn join(&mut self, other: &Regions) {
        self.bits.iter_mut().zip(&other.bits).for_each(|(bits, other)| *bits |= other);
    }

    /// Whether all of these are in `other`.
    pub fn is_within(&self, other: &Regions) -> bool {
        self.bits.iter().zip(&other.bits).all(|(bits, other)| bits & !other == 0)
    }

    /// Whether a page is in one of these.
    #[cfg(test)]
    pub fn has(&self, page: u64) -> bool {
        let region = page / self.pages;
        self.bits[region as usize / 64] >> (region % 64) & 1 == 1
    }

    /// Their extents, in ascending order, adjacent ones joined.
    pub fn extents(&self) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        for first in (0..self.all).step_by(self.pages as usize) {
            let region = first / self.pages;
            if self.bits[region as usize / 64] >> (region % 64) & 1 == 0 {
                continue;
            }
            let at = Extent::of_pages(first, self.pages.min(self.all - first));
            match extents.last_mut() {
                Some(last) if last.end() == at.start => last.sectors += at.sectors,
                _ => extents.push(at),
            }
        }
        extents
    }
}

/// An extent in bytes, in words.
pub fn in_words(at: Extent) -> String {
    let first = at.start.0 * (seekless_core::PAGE_BYTES / PAGE_SECTORS);
    format!("bytes {first} to {}", first + at.bytes() - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proximal::format::maps_of;

    proptest! {
        #[test]
        fn a_set_holds_what_was_added_to_it(
            pages in 1..30_000_000_u64,
            parts in proptest::collection::vec((any::<prop::sample::Index>(), 1..5_000_u64), 1..8),
        ) {
            let shape = Shape { range: 256, ranges: 1, pages, maps: maps_of(pages), records: 1, copies: true };
            let mut set = Regions::new(&shape);
            for (first, count) in parts {
                let first = first.index(pages as usize) as u64;
                let at = Extent::of_pages(first, count.min(pages - first));
                let mut one = Regions::new(&shape);
                at.pages().for_each(|page| one.add(page));
                let mut all = Regions::new(&shape);
                all.add_all(at);
                prop_assert_eq!(&one, &all);
                set.join(&one);
                prop_assert!(one.is_within(&set));
                prop_assert!(set.has(first));
            }
            prop_assert_eq!(&Regions::of_bytes(&shape, &set.bytes()), &set);
            let extents = set.extents();
            prop_assert!(extents.is_sorted_by(|one, next| one.end() < next.start));
            let mut again = Regions::new(&shape);
            for at in extents {
                again.add_all(at);
            }
            prop_assert_eq!(again, set);
        }
    }
}
