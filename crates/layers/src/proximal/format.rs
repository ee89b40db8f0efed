//! On-disk format: a super page, the map and the records of snapshots on the flash device, and a label on the data
//! device.
//!
//! Flash: two copies of the super page ([`super::super_page`]); two copies of each map page, beside each other; the
//! same of each page of records; then the staging area. All are in sealed sectors (see [`crate::durable`]). An entry of
//! a map page is the number of a block plus one, or 0 for a page without a block, so that zeroes are a map page without
//! blocks. A record is a page, the number of the last snapshot that sees it in this block or of the clone that does,
//! plus one, and the block, as in the map.
//! Data: the first page has the label, which is written once; blocks are numbered from the start of the device.
//!
//! Invariants: the super page is written after the label is durable; a map page after the blocks that it names are.

use seekless_core::{Extent, Lba, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES};

use crate::bytes::{put, u32_at};
use crate::durable::sector::{self, Part, Sector};
use crate::durable::session::{self, Number};

const PAGE: usize = PAGE_BYTES as usize;
const MAP: [u8; 8] = *b"SKLPROXM";
const RECORDS: [u8; 8] = *b"SKLPROXR";
const LABEL: [u8; 8] = *b"SKLPROXD";
/// Pages of both copies of the super page.
const SUPER_PAGES: u64 = 2;
/// Pages of the label, at the start of the data device.
pub const LABEL_PAGES: u64 = 1;
/// Entries of a map page.
pub const ENTRIES: usize = PAGE / SECTOR_BYTES as usize * (sector::ROOM / 4);
/// Bytes of a record.
const RECORD: usize = 12;
/// Records of a page of them.
pub const RECORDS_OF_A_PAGE: usize = PAGE / SECTOR_BYTES as usize * (sector::ROOM / RECORD);
/// Epochs of a volume at most: each snapshot ends one.
pub const EPOCH_BITS: u32 = 20;
/// Bits of the addresses of versions, in pages: their bytes still fit into 64.
const ADDRESS_BITS: u32 = 50;
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
    /// Pages of records; 0 in a volume from before there were snapshots.
    pub records: u64,
    /// Whether the data device has copies of the map and of records: not in a volume from before there were any.
    pub copies: bool,
}

/// A version of a page that snapshots or a clone see, and the volume does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The page.
    pub page: u32,
    /// Number of the last snapshot that sees it, or of the clone.
    pub last: u32,
    /// Its block; [`NONE`] if the page had none.
    pub block: u32,
}

/// Pages of records of a volume with this many map pages and spare blocks: a record for each of these, and one page of
/// them for each map page, since those of a map page are together.
pub fn records_of(maps: u64, spare: u64) -> u64 {
    maps + spare.div_ceil(RECORDS_OF_A_PAGE as u64)
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
        self.blocks() - self.reserved() - self.pages
    }

    /// Blocks at the start of the data device that hold no pages: the label, and the copies ([`super::copies`]).
    pub fn reserved(&self) -> u64 {
        LABEL_PAGES + if self.copies { SUPER_PAGES + 2 * self.pairs() } else { 0 }
    }

    /// Allocation ranges at the start of which more than half is reserved: no page belongs there.
    fn reserved_ranges(&self) -> u64 {
        if !self.copies {
            return 0;
        }
        ((self.reserved() + self.range / 2) / self.range).min(self.ranges - 1)
    }

    /// The range in which a page belongs: pages are divided evenly, in order.
    pub fn home(&self, page: u64) -> u64 {
        let first = self.reserved_ranges();
        first + (u128::from(page) * u128::from(self.ranges - first) / u128::from(self.pages)) as u64
    }

    /// The first page that belongs in the same range.
    pub fn home_start(&self, page: u64) -> u64 {
        self.home_begin(self.home(page))
    }

    /// The first page after this one that belongs in another range.
    pub fn home_end(&self, page: u64) -> u64 {
        self.home_begin(self.home(page) + 1).min(self.pages)
    }

    /// The first page that belongs in this range.
    fn home_begin(&self, range: u64) -> u64 {
        let first = self.reserved_ranges();
        let pages = u128::from(range - first) * u128::from(self.pages);
        pages.div_ceil(u128::from(self.ranges - first)) as u64
    }

    /// First page of the staging area on flash.
    pub fn staging(&self) -> u64 {
        SUPER_PAGES + 2 * self.pairs()
    }

    /// Pages of metadata in two copies, besides the super page: those of the map, then those of records.
    pub fn pairs(&self) -> u64 {
        self.maps + self.records
    }

    /// Pages from an epoch to the next in the addresses of versions, as a power of two: more than there are, so that no
    /// request touches two.
    pub fn stride_bits(&self) -> u32 {
        u64::BITS - self.pages.leading_zeros()
    }

    /// Epochs that a volume can have; one without snapshots.
    pub fn epochs(&self) -> u64 {
        if self.records == 0 { 1 } else { 1 << EPOCH_BITS.min(ADDRESS_BITS - self.stride_bits()) }
    }

    /// Pages of the addresses of versions.
    pub fn addresses(&self) -> u64 {
        if self.records == 0 { self.pages } else { self.epochs() << self.stride_bits() }
    }
}

/// Structure of map pages.
pub fn map_part(identity: u128) -> Part {
    Part::of(MAP, identity)
}

/// Structure of pages of records.
pub fn records_part(identity: u128) -> Part {
    Part::of(RECORDS, identity)
}

/// Extent of a copy of the super page on flash.
pub fn super_at(copy: usize) -> Extent {
    Extent::of_pages(copy as u64, 1)
}

/// Extent of both copies of a map page on flash, or of a page of records, which are counted behind them.
pub fn map_pair(map: u64) -> Extent {
    Extent::of_pages(SUPER_PAGES + 2 * map, 2)
}

/// Extent of one of these copies.
pub fn map_at(map: u64, copy: usize) -> Extent {
    Extent::of_pages(SUPER_PAGES + 2 * map + copy as u64, 1)
}

/// Extent of a slot of the anchor on the data device ([`super::anchor`]).
pub fn anchor_at(slot: usize) -> Extent {
    Extent::of_pages(LABEL_PAGES + slot as u64, 1)
}

/// Extent of the copy of a page of metadata in an area of the data device.
pub fn copy_at(shape: &Shape, area: usize, page: u64) -> Extent {
    Extent::of_pages(LABEL_PAGES + SUPER_PAGES + area as u64 * shape.pairs() + page, 1)
}

/// Encodes the page of the label of the data device, with the number of a session.
pub fn encode_label(identity: u128, session: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    put(&mut bytes, 0, &LABEL);
    Part::of(LABEL, identity).seal(Lba(0), 1, &mut bytes);
    session::put(Part::of(LABEL, identity), &mut bytes, session);
    bytes
}

/// The number of the last session in the label's page.
pub fn session(bytes: &[u8], identity: u128) -> Number {
    Number::in_page(Part::of(LABEL, identity), bytes)
}

/// Whether this is the label of the volume with this identity, or a sector of it is.
pub fn is_label(bytes: &[u8], identity: u128) -> bool {
    let sectors = bytes.chunks(SECTOR_BYTES as usize).zip(0..);
    let whole = |(sector, number)| Part::of(LABEL, identity).look(Lba(number), sector) == Sector::Whole(1);
    sectors.into_iter().any(whole)
}

/// Encodes a copy of a map page, of this structure.
pub fn encode_map(leaf: &[u32; ENTRIES], part: Part, at: Lba, generation: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    for (block, place) in leaf.iter().zip(sector::places(0, 4)) {
        put(&mut bytes, place, &block.wrapping_add(1).to_le_bytes());
    }
    part.seal(at, generation, &mut bytes);
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

/// Encodes a copy of a page of records, of which there is room for [`RECORDS_OF_A_PAGE`].
pub fn encode_records(
    records: impl Iterator<Item = Record>,
    part: Part,
    at: Lba,
    generation: u64,
) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    for (Record { page, last, block }, place) in records.zip(sector::places(0, RECORD)) {
        put(&mut bytes, place, &page.to_le_bytes());
        put(&mut bytes, place + 4, &last.wrapping_add(1).to_le_bytes());
        put(&mut bytes, place + 8, &block.wrapping_add(1).to_le_bytes());
    }
    part.seal(at, generation, &mut bytes);
    bytes
}

/// Decodes a whole page of records.
pub fn decode_records(bytes: &[u8]) -> impl Iterator<Item = Record> {
    let places = sector::places(0, RECORD).take(RECORDS_OF_A_PAGE);
    let numbers = places.map(|place| [0, 4, 8].map(|field| u32_at(bytes, place + field)));
    let filled = numbers.filter(|[_, last, _]| *last > 0);
    filled.map(|[page, last, block]| Record { page, last: last - 1, block: block.wrapping_sub(1) })
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
            let bytes = encode_map(&leaf, map_part(identity), at.start, generation);
            prop_assert_eq!(CopyState::of(map_part(identity), at, &bytes), CopyState::Whole(generation));
            prop_assert_eq!(decode_map(&bytes), leaf);
        }

        #[test]
        fn records_are_read_as_they_were_written(
            fields in proptest::collection::vec((any::<u32>(), 0..u32::MAX, any::<u32>()), 0..=RECORDS_OF_A_PAGE),
            identity: u128,
            generation in 0..sector::LAST,
        ) {
            let records: Vec<Record> =
                fields.into_iter().map(|(page, last, block)| Record { page, last, block }).collect();
            let at = map_at(77, 1);
            let bytes = encode_records(records.iter().copied(), records_part(identity), at.start, generation);
            prop_assert_eq!(CopyState::of(records_part(identity), at, &bytes), CopyState::Whole(generation));
            prop_assert_eq!(decode_records(&bytes).collect::<Vec<_>>(), records);
            prop_assert!(is_label(&encode_label(identity, 7), identity));
            prop_assert!(!is_label(&encode_label(identity, 7), identity ^ 1));
        }

        #[test]
        fn pages_are_divided_evenly_among_ranges(ranges in 1..300_u64, share in 1..99_u64, page in any::<prop::sample::Index>()) {
            let pages = (256 * ranges * share / 100).max(1);
            let shape = Shape { range: 256, ranges, pages, maps: maps_of(pages), records: 0, copies: false };
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
