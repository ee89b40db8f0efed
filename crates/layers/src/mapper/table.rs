//! The map: the slot of each page; and its first on-disk format.
//!
//! On disk it has two contiguous copies: a header (magic, generation, number of pages, and a CRC-32C over the whole
//! copy with this field zero), and an entry of four bytes for each page. Odd generations are in the second copy. A
//! volume with such a map keeps it; new ones have [`super::sealed`] ones.
//!
//! Invariant: a map is used only if it is whole, and its slots exist and hold one page each.

use std::collections::VecDeque;

use seekless_core::runtime::{edge, first_number};
use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, PAGE_BYTES, PAGE_SECTORS, mutant,
};

use crate::bytes::{put, sum_but, u32_at, u64_at};
use crate::canary::Canary;
use crate::durable::region;

const MAGIC: &[u8; 8] = b"SKLMAP01";
const HEADER: usize = 32;
/// Offset of the checksum.
const SUM: usize = 24;

/// Slot of a page that has none: it reads as zeroes.
pub const NONE: u32 = u32::MAX;

/// The map in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Generation.
    pub generation: u64,
    /// Slot of each page.
    pub slots: Vec<u32>,
    /// Free slots; the last is the next to be used.
    pub free: VecDeque<u32>,
}

/// Extent of both copies of a map of `pages` pages: at the start.
pub fn copies(pages: u64) -> Extent {
    Extent::of_pages(0, 2 * (HEADER as u64 + 4 * pages).div_ceil(PAGE_BYTES))
}

/// Extent of the map of this generation.
pub fn copy(generation: u64, pages: u64) -> Extent {
    let sectors = copies(pages).sectors / 2;
    Extent::new(generation % 2 * sectors, sectors)
}

/// Slots after the copies, on a device of `sectors` sectors.
pub fn slots(sectors: u64, pages: u64) -> u64 {
    (sectors.saturating_sub(copies(pages).sectors) / PAGE_SECTORS).min(u64::from(NONE))
}

/// The newer of the two maps, or the other if that one is not whole.
pub async fn read(below: &dyn BlockDevice, pages: u64, slots: u64, canary: &Canary) -> Result<Map, IoError> {
    let refused = |found: String| {
        let why = format!("found {found}, expected one of {pages} pages, or zeroes");
        IoError::new(ErrorKind::Corrupt, "mapper", Some(copies(pages)), why)
    };
    let first = |generation| Extent { sectors: 1, ..copy(generation, pages) };
    let mut claims = [0; 2];
    for (claim, generation) in claims.iter_mut().zip(0..) {
        match region::read(below, first(generation)).await?.look(header) {
            Some((_, stored)) if stored != pages => return Err(refused(format!("a map of {stored} pages"))),
            claimed => *claim = claimed.map_or(0, |(generation, _)| generation),
        }
    }
    let later = if mutant::is("mapper: generations are compared in 8 bits") {
        u64::from(claims[1] as u8 > claims[0] as u8)
    } else {
        u64::from(claims[1] > claims[0])
    };
    let bytes = region::read(below, copy(later, pages)).await?;
    if let Some(map) = bytes.look(|copy| decode(copy, pages, slots, canary)) {
        return Ok(map);
    }
    let bytes = region::read(below, copy(later + 1, pages)).await?;
    let map = bytes.look(|copy| decode(copy, pages, slots, canary));
    let map = map.ok_or_else(|| refused("no map that is whole".to_owned()))?;
    edge("a torn copy of the map: the other counts");
    // Otherwise the next map of this copy, if torn too, could make this one whole: with its first sectors from here and
    // its last ones from there. But by then the slots that it names hold other pages.
    below.write(first(later), Buffer::zeroed(first(later).bytes()), Hints::default()).await?;
    Ok(map)
}

/// Encodes a copy.
pub fn encode(map: &Map, canary: &Canary) -> Buffer {
    let pages = map.slots.len() as u64;
    let mut bytes = vec![0; copies(pages).bytes() as usize / 2];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&map.generation.to_le_bytes());
    bytes[16..24].copy_from_slice(&pages.to_le_bytes());
    let slots = canary.entries(map.generation, &map.slots, NONE);
    for (slot, entry) in slots.iter().zip(bytes[HEADER..].chunks_exact_mut(4)) {
        entry.copy_from_slice(&slot.to_le_bytes());
    }
    let summed = if mutant::is("mapper: a checksum without its last entry") {
        without_last(&bytes).unwrap_or(&bytes)
    } else {
        &bytes
    };
    let sum = sum_but(summed, SUM);
    put(&mut bytes, SUM, &sum.to_le_bytes());
    Buffer::from_vec(bytes)
}

/// A copy without its last entry: for a mutant.
fn without_last(copy: &[u8]) -> Option<&[u8]> {
    let (_, pages) = header(copy)?;
    copy.get(..HEADER + 4 * (pages as usize).checked_sub(1)?)
}

/// The generation and the number of pages in the header of a copy.
fn header(copy: &[u8]) -> Option<(u64, u64)> {
    let claims = copy.len() >= HEADER && copy.starts_with(MAGIC);
    claims.then(|| (u64_at(copy, 8), u64_at(copy, 16)))
}

/// Whether a copy is whole.
fn is_whole(copy: &[u8]) -> bool {
    if mutant::is("mapper: a checksum without its last entry") {
        return without_last(copy).is_some_and(|copy| u32_at(copy, SUM) == sum_but(copy, SUM));
    }
    u32_at(copy, SUM) == sum_but(copy, SUM)
}

/// Decodes the map in a copy, if it is whole and of this size.
fn decode(copy: &[u8], pages: u64, slots: u64, canary: &Canary) -> Option<Map> {
    let Some((generation, stored)) = header(copy) else {
        if copy.iter().any(|&byte| byte != 0) {
            return None;
        }
        edge("zeroes where no map was written: a volume of zeroes");
        let free = (0..slots as u32).rev().collect();
        return Some(Map { generation: first_number(), slots: vec![NONE; pages as usize], free });
    };
    let entries = copy.get(HEADER..HEADER + 4 * pages as usize).filter(|_| stored == pages)?;
    if !is_whole(copy) && !canary.is("torn metadata accepted") {
        return None;
    }
    let stored = |entry: &[u8]| u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
    let stored: Vec<u32> = entries.chunks_exact(4).map(stored).collect();
    checked(generation, stored, slots)
}

/// A map of these entries, if their slots exist and hold one page each.
pub fn checked(generation: u64, stored: Vec<u32>, slots: u64) -> Option<Map> {
    let mut used = vec![false; slots as usize];
    for &slot in stored.iter().filter(|&&slot| slot != NONE) {
        if std::mem::replace(used.get_mut(slot as usize)?, true) {
            return None;
        }
    }
    let free = (0..slots as u32).rev().filter(|&slot| !used[slot as usize]).collect();
    Some(Map { generation, slots: stored, free })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seekless_core::runtime::Runtime;

    fn map(generation: u64, slots: &[u32]) -> Map {
        Map { generation, slots: slots.to_vec(), free: VecDeque::new() }
    }

    /// A copy that this map fills.
    fn copy(generation: u64, slots: &[u32]) -> Vec<u8> {
        encode(&map(generation, slots), &Canary::default()).to_vec()
    }

    fn decoded(copy: &[u8], pages: u64, slots: u64) -> Option<Map> {
        // Edges are counted in a world.
        Runtime::new(1).run(async { decode(copy, pages, slots, &Canary::default()) }).unwrap()
    }

    proptest! {
        /// A written copy is read again; a damaged one is not followed.
        #[test]
        fn a_copy_is_read_as_written_or_not_at_all(
            generation: u64,
            pages in 1..3_000_u64,
            damage in proptest::option::of((any::<prop::sample::Index>(), 1..=255_u8)),
        ) {
            let slots: Vec<u32> = (0..pages as u32).map(|page| if page % 3 == 0 { NONE } else { page }).collect();
            let mut bytes = copy(generation, &slots);
            if let Some((at, change)) = &damage {
                let at = at.index(bytes.len());
                bytes[at] ^= change;
            }
            let read = decoded(&bytes, pages, pages);
            prop_assert_eq!(read.is_some(), damage.is_none());
            if let Some(read) = read {
                let free: VecDeque<u32> = (0..pages as u32).rev().filter(|slot| slot % 3 == 0).collect();
                prop_assert_eq!(read, Map { generation, slots, free });
            }
            prop_assert!(decoded(&bytes, pages + 1, pages).is_none());
        }

        /// Made-up bytes are no map, however they begin and however few they are.
        #[test]
        fn made_up_bytes_are_not_followed(
            mut noise in proptest::collection::vec(any::<u8>(), 1..6_000),
            header: bool,
            sum: bool,
            pages in 1..2_000_u64,
            slots in 1..3_000_u64,
        ) {
            noise[0] |= 1;
            if header && noise.len() > HEADER {
                noise[..8].copy_from_slice(MAGIC);
                noise[16..24].copy_from_slice(&pages.to_le_bytes());
            }
            if sum && noise.len() > HEADER {
                let sum = sum_but(&noise, SUM);
                put(&mut noise, SUM, &sum.to_le_bytes());
            }
            // With a checksum that is right it is a map if its slots happen to be possible ones.
            let possible = |map: &Map| map.slots.iter().all(|&slot| slot == NONE || u64::from(slot) < slots);
            prop_assert!(decoded(&noise, pages, slots).is_none_or(|map| header && sum && possible(&map)));
        }
    }

    #[test]
    fn a_slot_that_is_not_there_or_holds_two_pages_is_not_followed() {
        assert!(decoded(&copy(1, &[0, 1, 2]), 3, 3).is_some());
        assert!(decoded(&copy(1, &[0, 1, 3]), 3, 3).is_none());
        assert!(decoded(&copy(1, &[0, 1, 1]), 3, 3).is_none());
        assert!(decoded(&copy(1, &[0, NONE, NONE]), 3, 1).is_some());
    }

    #[test]
    fn zeroes_are_an_empty_map_and_anything_else_without_a_header_is_none() {
        let mut zeroes = vec![0; PAGE_BYTES as usize];
        let empty = decoded(&zeroes, 2, 3).unwrap();
        assert_eq!(empty, Map { generation: 0, slots: vec![NONE; 2], free: VecDeque::from([2, 1, 0]) });
        zeroes[4_095] = 1;
        assert_eq!(decoded(&zeroes, 2, 3), None);
    }
}
