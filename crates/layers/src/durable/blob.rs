//! Bytes of any length in consecutive sealed sectors, behind a head with their length and checksum.
//!
//! Layers keep two copies of them and write these in turn. After a power failure, sectors of two interrupted writes may
//! have the same generation, since the newer one may be unknown at the next start; the checksum over all bytes tells
//! them apart. Faults: any contents; bytes that are not whole are none.

use seekless_core::{Lba, SECTOR_BYTES, checksum};

use super::sector::{Part, ROOM, Sector};
use crate::bytes::{put, u32_at, u64_at};

/// Magic, length and checksum precede the bytes.
const HEAD: usize = 24;
const SECTOR: usize = SECTOR_BYTES as usize;

/// Contents of the first sector of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// A whole head: the generation of the write, and the length of the bytes behind it.
    Whole {
        /// Generation.
        generation: u64,
        /// Bytes.
        length: u64,
    },
    /// A head with this magic that is not whole.
    Damaged,
    /// Something else.
    Other,
}

/// Sectors that a head and these bytes take.
pub fn sectors(bytes: u64) -> u64 {
    (bytes + HEAD as u64).div_ceil(ROOM as u64)
}

/// The bytes for which these sectors have room, beside a head.
pub fn room(sectors: u64) -> u64 {
    (sectors * ROOM as u64).saturating_sub(HEAD as u64)
}

/// A head and bytes in sectors, sealed for their place.
pub fn seal(magic: [u8; 8], part: Part, at: Lba, generation: u64, bytes: &[u8]) -> Vec<u8> {
    let mut head = vec![0; HEAD];
    put(&mut head, 0, &magic);
    put(&mut head, 8, &(bytes.len() as u64).to_le_bytes());
    put(&mut head, 16, &checksum::crc32c(bytes).to_le_bytes());
    head.extend(bytes);
    let mut sectors = vec![0; head.len().div_ceil(ROOM) * SECTOR];
    for (sector, bytes) in sectors.chunks_exact_mut(SECTOR).zip(head.chunks(ROOM)) {
        put(sector, 0, bytes);
    }
    part.seal(at, generation, &mut sectors);
    sectors
}

/// The head in the first sector of a copy.
pub fn head(magic: [u8; 8], part: Part, at: Lba, sector: &[u8]) -> Head {
    match (part.look(at, sector), sector.starts_with(&magic)) {
        (Sector::Whole(generation), true) => Head::Whole { generation, length: u64_at(sector, 8) },
        (_, true) => Head::Damaged,
        (_, false) => Head::Other,
    }
}

/// The bytes in these sectors, of which the first has a whole head; `None` if they are not whole.
pub fn open(part: Part, at: Lba, generation: u64, sectors: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(sectors.len());
    for (sector, number) in sectors.chunks_exact(SECTOR).zip(0..) {
        if part.look(at + number, sector) != Sector::Whole(generation) {
            return None;
        }
        bytes.extend(&sector[..ROOM]);
    }
    if bytes.len() < HEAD {
        return None;
    }
    let (length, sum) = (usize::try_from(u64_at(&bytes, 8)).ok()?, u32_at(&bytes, 16));
    let bytes = bytes.get(HEAD..HEAD.checked_add(length)?)?;
    (checksum::crc32c(bytes) == sum).then(|| bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAGIC: [u8; 8] = *b"SKLTEST1";

    fn part() -> Part {
        Part::of(MAGIC, 7)
    }

    proptest! {
        #[test]
        fn what_was_sealed_is_opened_and_damage_is_noticed(
            bytes in prop::collection::vec(any::<u8>(), 0..2_000),
            flip in any::<(prop::sample::Index, u8)>(),
        ) {
            let at = Lba(40);
            let mut sealed = seal(MAGIC, part(), at, 3, &bytes);
            let length = bytes.len() as u64;
            prop_assert_eq!(sealed.len() as u64, sectors(length) * SECTOR_BYTES);
            prop_assert!(room(sectors(length)) >= length && (length == 0 || room(sectors(length) - 1) < length));
            prop_assert_eq!(head(MAGIC, part(), at, &sealed[..SECTOR]), Head::Whole { generation: 3, length });
            prop_assert_eq!(open(part(), at, 3, &sealed), Some(bytes));
            prop_assert_eq!(open(part(), at, 4, &sealed), None);
            let place = flip.0.index(sealed.len());
            sealed[place] ^= 1 << (flip.1 % 8);
            prop_assert_eq!(open(part(), at, 3, &sealed), None);
        }

        /// Of two writes of one generation, each of which was interrupted.
        #[test]
        fn sectors_of_two_writes_are_not_whole(
            one in prop::collection::vec(any::<u8>(), 1_500), other in prop::collection::vec(any::<u8>(), 1_500),
            from_other in 1_usize..4,
        ) {
            prop_assume!(one != other);
            let (mut torn, other) =
                (seal(MAGIC, part(), Lba(0), 3, &one), seal(MAGIC, part(), Lba(0), 3, &other));
            prop_assume!(torn[from_other * SECTOR..] != other[from_other * SECTOR..]);
            prop_assume!(torn[..from_other * SECTOR] != other[..from_other * SECTOR]);
            torn[from_other * SECTOR..].copy_from_slice(&other[from_other * SECTOR..]);
            prop_assert_eq!(open(part(), Lba(0), 3, &torn), None);
        }
    }
}
