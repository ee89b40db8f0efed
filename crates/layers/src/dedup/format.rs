//! On-disk format: a super page, a map, and blocks.
//!
//! First two copies of the super page and two of the map ([`table`]), then blocks of 4 KiB. A *piece* is what is stored
//! of a page: a whole block, or fewer contiguous sectors of one, if it is compressed. The map has two numbers for each
//! page of the volume: the first sector of its piece, counted from the first block; and the length of the piece with a
//! fingerprint of the page. Both are in one sector of the map, so no change of a page needs two sectors to be written
//! together, and a power failure that tears a copy of the map leaves a valid one. How many pages a piece has follows
//! from the map.
//!
//! Invariant: the super page is written when the map is durable, once.

use seekless_core::{Extent, Lba, PAGE_BYTES, PAGE_SECTORS};

use super::content::{FINGERPRINT_BITS, Fingerprint};
use crate::Refused;
use crate::bytes::{put, u32_at, u64_at, u128_at};
use crate::durable::sector::Part;
use crate::durable::table::{self, ENTRIES};

/// Begins a super page.
pub const MAGIC: [u8; 8] = *b"SKLDEDU1";
const MAP: [u8; 8] = *b"SKLDEDUM";
/// Pages of both copies of the super page.
const SUPER_PAGES: u64 = 2;
/// Numbers in the map for a page.
const NUMBERS: usize = 2;
/// Blocks at most: their sectors have numbers of 32 bits.
const MOST_BLOCKS: u64 = (1 << 29) - 1;
/// Pages at most: the numbers of the map have numbers of 32 bits.
const MOST_PAGES: u64 = 1 << 30;
/// Of this many blocks, one is not counted in the size of a volume, unless that is given: so changed pages can be
/// written before those that they replace are given up.
const SPARE: u64 = 32;

/// Sizes of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pages that clients see.
    pub pages: u64,
    /// Blocks in which pages are stored.
    pub blocks: u64,
}

/// Where a page is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First sector, counted from the first block.
    pub at: u32,
    /// Sectors, 1 to 8; those of a block of its own if 8, otherwise compressed.
    pub sectors: u32,
    /// Of the page.
    pub fingerprint: Fingerprint,
}

impl Piece {
    /// Whether it is compressed.
    pub fn is_compressed(&self) -> bool {
        u64::from(self.sectors) < PAGE_SECTORS
    }
}

/// Pages of a copy of the map of this many pages.
fn map_pages(pages: u64) -> u64 {
    (NUMBERS as u64 * pages).div_ceil(ENTRIES as u64).div_ceil(PAGE_SECTORS)
}

impl Shape {
    /// Shape of a volume on a device of these sectors, with `pages` pages, or with a few less than there are blocks.
    ///
    /// # Errors
    /// No pages, too many, or no room for two blocks.
    pub fn new(sectors: u64, pages: Option<u64>) -> Result<Shape, Refused> {
        let there = sectors / PAGE_SECTORS;
        let beside = |pages: u64| there.saturating_sub(SUPER_PAGES + 2 * map_pages(pages)).min(MOST_BLOCKS);
        let usual = || beside(there).saturating_sub(beside(there).div_ceil(SPARE));
        let pages = pages.unwrap_or_else(usual);
        let shape = Shape { pages, blocks: beside(pages.min(MOST_PAGES)) };
        if shape.is_possible() {
            return Ok(shape);
        }
        let found = format!("{pages} pages of 4 KiB on a device of {there}");
        let expected = format!("1 to {MOST_PAGES} pages, and room for two beside their map");
        Err(Refused::new("size", found, expected))
    }

    fn is_possible(&self) -> bool {
        (1..=MOST_PAGES).contains(&self.pages) && (2..=MOST_BLOCKS).contains(&self.blocks)
    }

    /// Sectors that the device has at least.
    pub fn least_sectors(&self) -> u64 {
        self.block(0).0 + self.blocks * PAGE_SECTORS
    }

    /// Start of a block.
    fn block(&self, block: u64) -> Lba {
        Lba((SUPER_PAGES + 2 * map_pages(self.pages) + block) * PAGE_SECTORS)
    }

    /// Where a piece lies.
    pub fn place(&self, piece: &Piece) -> Extent {
        self.there(piece.at, u64::from(piece.sectors))
    }

    /// Where sectors lie that are counted from the first block.
    pub fn there(&self, at: u32, sectors: u64) -> Extent {
        Extent { start: self.block(0) + u64::from(at), sectors }
    }

    /// Where the map is.
    pub fn site(&self, identity: u128) -> table::Site {
        let copy = |copy| Lba((SUPER_PAGES + copy * map_pages(self.pages)) * PAGE_SECTORS);
        let entries = self.pages as usize * NUMBERS;
        table::Site { layer: "dedup", part: Part::of(MAP, identity), copies: [copy(0), copy(1)], entries }
    }
}

/// The numbers in the map of a page without a piece.
pub const NOWHERE: [u32; NUMBERS] = [u32::MAX; NUMBERS];

/// The first of a page's numbers in the map.
pub fn entry(page: u64) -> u32 {
    (page * NUMBERS as u64) as u32
}

/// The numbers in the map for a piece.
pub fn encode(piece: Option<Piece>) -> [u32; NUMBERS] {
    piece.map_or(NOWHERE, |piece| [piece.at, (piece.sectors - 1) << FINGERPRINT_BITS | piece.fingerprint.0])
}

/// The piece of these numbers, `None` if there is none; the error is what was found.
pub fn decode(numbers: [u32; NUMBERS], blocks: u64) -> Result<Option<Piece>, String> {
    let [at, rest] = numbers;
    if numbers == NOWHERE {
        return Ok(None);
    }
    let fingerprint = Fingerprint(rest & ((1 << FINGERPRINT_BITS) - 1));
    let piece = Piece { at, sectors: (rest >> FINGERPRINT_BITS) + 1, fingerprint };
    let in_block = u64::from(at) % PAGE_SECTORS + u64::from(piece.sectors);
    if u64::from(at) / PAGE_SECTORS >= blocks || in_block > PAGE_SECTORS {
        return Err(format!("{} sectors from sector {at} on, in {blocks} blocks", piece.sectors));
    }
    Ok(Some(piece))
}

/// Structure of the super page.
pub fn super_part() -> Part {
    Part::of(MAGIC, 0)
}

/// Place of a copy of the super page.
pub fn super_at(copy: u64) -> Extent {
    Extent::of_pages(copy, 1)
}

/// Encodes a copy of the super page.
pub fn encode_super(shape: &Shape, identity: u128, copy: u64, generation: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES as usize];
    put(&mut bytes, 0, &MAGIC);
    put(&mut bytes, 16, &identity.to_le_bytes());
    put(&mut bytes, 32, &shape.pages.to_le_bytes());
    put(&mut bytes, 40, &shape.blocks.to_le_bytes());
    super_part().seal(super_at(copy).start, generation, &mut bytes);
    bytes
}

/// Decodes a whole super page; the error is what was found.
pub fn decode_super(bytes: &[u8]) -> Result<(Shape, u128), String> {
    let features = u32_at(bytes, 8);
    if !bytes.starts_with(&MAGIC) || features != 0 {
        return Err(format!("a super page with features {features:#x}"));
    }
    let shape = Shape { pages: u64_at(bytes, 32), blocks: u64_at(bytes, 40) };
    if shape.is_possible() {
        Ok((shape, u128_at(bytes, 16)))
    } else {
        Err(format!("a super page of {shape:?}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn metadata_is_read_as_it_was_written(
            sectors in 0..1_u64 << 40,
            pages in prop::option::of(0..1_u64 << 31),
            identity: u128,
        ) {
            let Ok(shape) = Shape::new(sectors, pages) else { return Ok(()) };
            prop_assert_eq!(decode_super(&encode_super(&shape, identity, 1, 1)), Ok((shape, identity)));
            prop_assert!(shape.least_sectors() <= sectors);
            let site = shape.site(identity);
            prop_assert!(site.copies[0].0 >= 16 && site.copies[0] + site.sectors() <= site.copies[1]);
            prop_assert!(site.copies[1].0 + site.sectors() <= shape.block(0).0);
            prop_assert!(pages.is_some() || shape.pages < shape.blocks);
        }

        /// Any numbers are a piece within the blocks, none, or refused.
        #[test]
        fn a_piece_is_within_a_block(numbers: [u32; NUMBERS], blocks in 2..=MOST_BLOCKS) {
            if let Ok(Some(piece)) = decode(numbers, blocks) {
                prop_assert_eq!(encode(Some(piece)), numbers);
                let first = u64::from(piece.at) / PAGE_SECTORS;
                let last = (u64::from(piece.at) + u64::from(piece.sectors) - 1) / PAGE_SECTORS;
                prop_assert!(first == last && last < blocks);
            }
        }

        #[test]
        fn made_up_super_pages_are_refused_or_can_be_followed(pages: u64, blocks: u64) {
            let shape = Shape { pages, blocks };
            let Ok((found, _)) = decode_super(&encode_super(&shape, 7, 0, 1)) else { return Ok(()) };
            prop_assert!(found == shape && found.least_sectors() > 16);
        }
    }

    #[test]
    fn small_devices_and_sizes_are_refused_or_fit() {
        for there in 0..3_000 {
            let Ok(shape) = Shape::new(there * PAGE_SECTORS, None) else {
                assert!(there < 7, "{there} pages are enough");
                continue;
            };
            assert!(shape.blocks > shape.pages && shape.least_sectors() <= there * PAGE_SECTORS);
        }
        let refused = Shape::new(80, Some(0)).unwrap_err().to_string();
        assert!(refused.contains("0 pages of 4 KiB on a device of 10"), "{refused}");
        assert!(Shape::new(1 << 20, Some(MOST_PAGES + 1)).is_err());
        let thin = Shape::new(1 << 20, Some(1 << 18)).unwrap();
        assert!(thin.pages > thin.blocks, "a volume may be larger than its device");
    }
}
