//! On-disk format: a super page and the map on the flash device, and a label on the data device.
//!
//! Flash: two copies of the super page; two copies of each map page, beside each other; then the staging area. All are in
//! sealed sectors (see [`crate::durable`]). An entry of a map page is the number of a block plus one, or 0 for a page
//! without a block, so that zeroes are a map page without blocks. Data: the first page has the label, which is written
//! once; blocks are numbered from the start of the device.
//!
//! Invariants: the super page is written after the label is durable; a map page after the blocks that it names are.

use seekless_core::{Extent, Lba, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES};

use crate::bytes::{put, u32_at, u64_at, u128_at};
use crate::durable::sector::{self, Part, Sector};

const PAGE: usize = PAGE_BYTES as usize;
const SUPER: &[u8; 8] = b"SKLPROX1";
const MAP: [u8; 8] = *b"SKLPROXM";
const LABEL: [u8; 8] = *b"SKLPROXD";
/// Pages of both copies of the super page.
const SUPER_PAGES: u64 = 2;
/// Pages of the label, at the start of the data device.
pub const LABEL_PAGES: u64 = 1;
/// Entries of a map page.
pub const ENTRIES: usize = PAGE / SECTOR_BYTES as usize * (sector::ROOM / 4);
/// No block.
pub const NONE: u32 = u32::MAX;

/// Blocks of the pages of a map page.
pub type Leaf = Box<[u32; ENTRIES]>;

/// Sizes of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks of an allocation range.
    pub range: u64,
    /// Allocation ranges.
    pub ranges: u64,
    /// Pages visible to clients.
    pub pages: u64,
    /// Map pages.
    pub maps: u64,
}

/// Map pages of a volume of this many pages.
pub fn maps_of(pages: u64) -> u64 {
    pages.div_ceil(ENTRIES as u64)
}

impl Shape {
    /// Blocks of the data device, those of the label included.
    pub fn blocks(&self) -> u64 {
        self.range * self.ranges
    }

    /// Blocks that are free when every page has one.
    pub fn spare(&self) -> u64 {
        self.blocks() - LABEL_PAGES - self.pages
    }

    /// The range in which a page belongs: pages are divided evenly, in order.
    pub fn home(&self, page: u64) -> u64 {
        (u128::from(page) * u128::from(self.ranges) / u128::from(self.pages)) as u64
    }

    /// The first page that belongs in the same range.
    pub fn home_start(&self, page: u64) -> u64 {
        let first = u128::from(self.home(page)) * u128::from(self.pages);
        first.div_ceil(u128::from(self.ranges)) as u64
    }

    /// The first page after this one that belongs in another range.
    pub fn home_end(&self, page: u64) -> u64 {
        let next = u128::from(self.home(page) + 1) * u128::from(self.pages);
        (next.div_ceil(u128::from(self.ranges)) as u64).min(self.pages)
    }

    /// First page of the staging area on flash.
    pub fn staging(&self) -> u64 {
        SUPER_PAGES + 2 * self.maps
    }
}

/// Structure of the super page.
pub fn super_part() -> Part {
    Part::of(*SUPER, 0)
}

/// Structure of map pages.
pub fn map_part(identity: u128) -> Part {
    Part::of(MAP, identity)
}

/// Extent of a copy of the super page on flash.
pub fn super_at(copy: usize) -> Extent {
    Extent::of_pages(copy as u64, 1)
}

/// Extent of both copies of a map page on flash.
pub fn map_pair(map: u64) -> Extent {
    Extent::of_pages(SUPER_PAGES + 2 * map, 2)
}

/// Extent of a copy of a map page on flash.
pub fn map_at(map: u64, copy: usize) -> Extent {
    Extent::of_pages(SUPER_PAGES + 2 * map + copy as u64, 1)
}

/// Encodes a copy of the super page.
pub fn encode_super(shape: &Shape, identity: u128, copy: usize, generation: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    put(&mut bytes, 0, SUPER);
    put(&mut bytes, 16, &identity.to_le_bytes());
    for (value, at) in [shape.range, shape.ranges, shape.pages].iter().zip((32..).step_by(8)) {
        put(&mut bytes, at, &value.to_le_bytes());
    }
    super_part().seal(super_at(copy).start, generation, &mut bytes);
    bytes
}

/// Decodes a whole super page: the volume's sizes and identity, or what was found.
pub fn decode_super(bytes: &[u8]) -> Result<(Shape, u128), String> {
    let features = u32_at(bytes, 8);
    if !bytes.starts_with(SUPER) || features != 0 {
        return Err(format!("a volume with features {features:#x}, which a newer version wrote"));
    }
    let [range, ranges, pages] = [32, 40, 48].map(|at| u64_at(bytes, at));
    let shape = Shape { range, ranges, pages, maps: maps_of(pages.min(1 << 40)) };
    let blocks = range.checked_mul(ranges).filter(|blocks| *blocks < u64::from(NONE));
    let fits = range > 0 && pages > 0;
    match blocks.filter(|blocks| fits && pages + LABEL_PAGES < *blocks) {
        Some(_) => Ok((shape, u128_at(bytes, 16))),
        None => Err(format!("{pages} pages in {ranges} ranges of {range} blocks")),
    }
}

/// Encodes the label of the data device.
pub fn encode_label(identity: u128) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    put(&mut bytes, 0, &LABEL);
    Part::of(LABEL, identity).seal(Lba(0), 1, &mut bytes);
    bytes
}

/// Whether this is the label of the volume with this identity, or a sector of it is.
pub fn is_label(bytes: &[u8], identity: u128) -> bool {
    let sectors = bytes.chunks(SECTOR_BYTES as usize).zip(0..);
    let whole = |(sector, number)| Part::of(LABEL, identity).look(Lba(number), sector) == Sector::Whole(1);
    sectors.into_iter().any(whole)
}

/// Encodes a copy of a map page.
pub fn encode_map(leaf: &[u32; ENTRIES], identity: u128, at: Lba, generation: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    for (block, place) in leaf.iter().zip(sector::places(0, 4)) {
        put(&mut bytes, place, &block.wrapping_add(1).to_le_bytes());
    }
    map_part(identity).seal(at, generation, &mut bytes);
    bytes
}

/// Decodes a whole map page.
pub fn decode_map(bytes: &[u8]) -> Leaf {
    let mut leaf = Box::new([NONE; ENTRIES]);
    for (block, place) in leaf.iter_mut().zip(sector::places(0, 4)) {
        *block = u32_at(bytes, place).wrapping_sub(1);
    }
    leaf
}

/// Place of a block on the data device.
pub fn block_at(block: u64) -> Lba {
    Lba(block * PAGE_SECTORS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::durable::CopyState;

    proptest! {
        #[test]
        fn a_map_page_is_read_as_it_was_written(
            blocks in proptest::collection::vec(prop_oneof![Just(NONE), 0..1_000_000_u32], ENTRIES),
            identity: u128,
            map in 0..1_000_000_u64,
            copy in 0..2_usize,
            generation in 0..sector::LAST,
        ) {
            let leaf: Leaf = blocks.try_into().unwrap();
            let at = map_at(map, copy);
            let bytes = encode_map(&leaf, identity, at.start, generation);
            prop_assert_eq!(CopyState::of(map_part(identity), at, &bytes), CopyState::Whole(generation));
            prop_assert_eq!(decode_map(&bytes), leaf);
        }

        #[test]
        fn a_super_page_is_read_as_it_was_written_and_no_bytes_are_followed_blindly(
            range in 16..6_000_u64,
            ranges in 1..1_000_u64,
            share in 1..99_u64,
            identity: u128,
            junk in proptest::collection::vec(any::<u8>(), PAGE),
        ) {
            let pages = (range * ranges * share / 100).saturating_sub(LABEL_PAGES + 1).max(1);
            let shape = Shape { range, ranges, pages, maps: maps_of(pages) };
            let bytes = encode_super(&shape, identity, 1, 7);
            prop_assert_eq!(decode_super(&bytes), Ok((shape, identity)));
            let mut changed = junk;
            changed[..8].copy_from_slice(SUPER);
            changed[8..12].fill(0);
            if let Ok((shape, _)) = decode_super(&changed) {
                prop_assert!(shape.pages < shape.blocks());
            }
            prop_assert!(is_label(&encode_label(identity), identity));
            prop_assert!(!is_label(&encode_label(identity), identity ^ 1));
        }

        #[test]
        fn pages_are_divided_evenly_among_ranges(ranges in 1..300_u64, share in 1..99_u64, page in any::<prop::sample::Index>()) {
            let pages = (256 * ranges * share / 100).max(1);
            let shape = Shape { range: 256, ranges, pages, maps: maps_of(pages) };
            let page = page.index(pages as usize) as u64;
            let end = shape.home_end(page);
            prop_assert!(end > page && shape.home(page) < ranges);
            prop_assert!(shape.home_start(page) <= page);
            prop_assert_eq!(shape.home(shape.home_start(page)), shape.home(page));
            prop_assert_eq!(shape.home(end - 1), shape.home(page));
            prop_assert!(end == pages || shape.home(end) > shape.home(page));
        }
    }
}
