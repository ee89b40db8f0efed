//! The map on disk: which slot holds each page. Two homes; the one with the later generation that is whole
//! counts. One page: magic, generation, number of pages, and a CRC-32C over all of it and the entries behind.

use seekless_core::PAGE_BYTES;

use crate::canary::Canary;

const MAGIC: &[u8; 8] = b"SKLMAP01";
const HEADER: usize = 32;

/// A page that no slot holds: it reads as zeroes.
pub const NONE: u32 = u32::MAX;

/// Pages that one home takes.
pub fn home_pages(pages: u64) -> u64 {
    (HEADER as u64 + 4 * pages).div_ceil(PAGE_BYTES)
}

/// A home's bytes.
pub fn encode(generation: u64, slots: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; (home_pages(slots.len() as u64) * PAGE_BYTES) as usize];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&generation.to_le_bytes());
    bytes[16..24].copy_from_slice(&(slots.len() as u64).to_le_bytes());
    for (slot, place) in slots.iter().zip(bytes[HEADER..].chunks_exact_mut(4)) {
        place.copy_from_slice(&slot.to_le_bytes());
    }
    let sum = crc32c::crc32c(&bytes);
    bytes[24..28].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The generation and the slots that a home tells, if it is whole, of so many pages, and its slots are of those
/// that there are, each once.
pub fn decode(bytes: &[u8], pages: u64, slots: u64, canary: &Canary) -> Option<(u64, Vec<u32>)> {
    let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let sum = u32::from_le_bytes(bytes.get(24..28)?.try_into().ok()?);
    let mut zeroed = bytes.to_vec();
    zeroed[24..28].fill(0);
    if bytes.get(..8)? != MAGIC
        || number(16)? != pages
        || (crc32c::crc32c(&zeroed) != sum && !canary.is("torn metadata accepted"))
    {
        return None;
    }
    let entries = bytes.get(HEADER..HEADER + 4 * pages as usize)?;
    let told: Vec<u32> = entries
        .chunks_exact(4)
        .map(|entry| u32::from_le_bytes(entry.try_into().unwrap_or_default()))
        .collect();
    let mut used = vec![false; slots as usize];
    let once = told
        .iter()
        .filter(|&&slot| slot != NONE)
        .all(|&slot| used.get_mut(slot as usize).is_some_and(|used| !std::mem::replace(used, true)));
    once.then_some((number(8)?, told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What was written is read; whatever is damaged is not followed.
        #[test]
        fn a_home_is_read_as_written_or_not_at_all(
            generation: u64,
            pages in 1..3_000_u64,
            damage in proptest::option::of((any::<prop::sample::Index>(), 1..=255_u8)),
            noise in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let slots: Vec<u32> = (0..pages as u32).map(|page| if page % 3 == 0 { NONE } else { page }).collect();
            let mut bytes = encode(generation, &slots);
            if let Some((at, change)) = &damage {
                let at = at.index(bytes.len());
                bytes[at] ^= change;
            }
            let read = decode(&bytes, pages, pages, &Canary::default());
            prop_assert_eq!(read.is_some(), damage.is_none());
            if let Some(read) = read {
                prop_assert_eq!(read, (generation, slots));
            }
            prop_assert!(decode(&noise, pages, pages, &Canary::default()).is_none());
            prop_assert!(decode(&bytes, pages + 1, pages, &Canary::default()).is_none());
        }
    }

    #[test]
    fn a_slot_that_is_not_there_or_holds_two_pages_is_not_followed() {
        assert!(decode(&encode(1, &[0, 1, 2]), 3, 3, &Canary::default()).is_some());
        assert!(decode(&encode(1, &[0, 1, 3]), 3, 3, &Canary::default()).is_none());
        assert!(decode(&encode(1, &[0, 1, 1]), 3, 3, &Canary::default()).is_none());
    }
}
