//! A sealed sector: 512 bytes, of which the last 16 identify the write it is of, and prove that it is whole.
//!
//! On disk, at the end of a sector: the generation of the write (eight bytes), a word of flags, and a CRC-32C over the
//! structure it is part of (a magic and the identity of the volume), its address, and everything in it except the
//! checksum. So a sector written elsewhere, or for another volume, is not whole. The only flag, 1, is that of a
//! *rewrite*: whatever of the write is lost, no sector of the structure is blank, since both of its copies were written
//! before. Earlier programs wrote no flags, and ignore them.
//!
//! Invariant: a sealed sector is of a generation. 512 zeroes are no sealed sector, but a blank one.

use seekless_core::{Lba, SECTOR_BYTES, checksum, invariant, mutant};

use crate::bytes::{put, u32_at, u64_at};

const BYTES: usize = SECTOR_BYTES as usize;
const SEAL: usize = 16;
/// Bytes of a sector available for data.
pub const ROOM: usize = BYTES - SEAL;

/// Limit of generations that are sealed: at a million a second it would take 100,000 years to reach.
const SEALED: u64 = 1 << 62;
/// Limit of generations and other numbers that are read: a larger one is damage, since what is counted from there could
/// reach the limit of those that are sealed.
pub const LAST: u64 = SEALED - (1 << 35);

/// The flag of a rewrite.
const REWRITE: u32 = 1;

/// The structure that a sector is part of: the start of a checksum, and the flags of sectors that are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    sum: u32,
    flags: u32,
}

/// State of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sector {
    /// Whole, of this generation.
    Whole(u64),
    /// Zeroes.
    Blank,
    /// Something else.
    Rotten,
}

impl Part {
    /// Structure with this magic, of a volume with this identity; 0 if it has none.
    pub fn of(magic: [u8; 8], identity: u128) -> Part {
        let sum = checksum::crc32c_append(checksum::crc32c(&magic), &identity.to_le_bytes());
        Part { sum, flags: 0 }
    }

    /// The same structure; its sectors are sealed as those of a rewrite, or not.
    #[must_use]
    pub fn rewrite(self, is_rewrite: bool) -> Part {
        Part { flags: if is_rewrite { REWRITE } else { 0 }, ..self }
    }

    /// The generation of a whole sector.
    pub fn generation(sector: &[u8]) -> u64 {
        u64_at(sector, ROOM)
    }

    /// Whether a whole sector is of a rewrite.
    pub fn is_rewrite(sector: &[u8]) -> bool {
        u32_at(sector, ROOM + 8) & REWRITE != 0
    }

    fn sum(self, at: Lba, sector: &[u8]) -> u32 {
        let sum = checksum::crc32c_append(self.sum, &at.0.to_le_bytes());
        checksum::crc32c_append(sum, &sector[..BYTES - 4])
    }

    /// Seals sectors, the first of which lies at `at`: the last 16 bytes of each are overwritten.
    pub fn seal(self, at: Lba, generation: u64, sectors: &mut [u8]) {
        let generation =
            if mutant::is("durable: a sector is sealed in no generation") { SEALED } else { generation };
        invariant!("a sealed sector is of a generation", generation < SEALED);
        for (sector, number) in sectors.chunks_exact_mut(BYTES).zip(0..) {
            put(sector, ROOM, &generation.to_le_bytes());
            put(sector, ROOM + 8, &self.flags.to_le_bytes());
            let sum = self.sum(at + number, sector);
            put(sector, BYTES - 4, &sum.to_le_bytes());
        }
    }

    /// State of the sector at `at`.
    pub fn look(self, at: Lba, sector: &[u8]) -> Sector {
        let generation = u64_at(sector, ROOM);
        if sector.len() == BYTES && generation < LAST && u32_at(sector, BYTES - 4) == self.sum(at, sector) {
            return Sector::Whole(generation);
        }
        if sector.iter().all(|byte| *byte == 0) { Sector::Blank } else { Sector::Rotten }
    }
}

/// Offsets of entries of `bytes` bytes, contiguous after a head in the first sector, none across sectors.
pub fn places(head: usize, entry: usize) -> impl Iterator<Item = usize> {
    let first = (ROOM - head) / entry;
    let each = ROOM / entry;
    let behind = (1..).flat_map(move |sector| (0..each).map(move |index| sector * BYTES + index * entry));
    (0..first).map(move |index| head + index * entry).chain(behind)
}

/// Bytes of the sectors that hold a head and this many entries.
pub fn bytes(head: usize, entry: usize, entries: u64) -> u64 {
    let first = ((ROOM - head) / entry) as u64;
    let each = (ROOM / entry) as u64;
    SECTOR_BYTES * (1 + entries.saturating_sub(first).div_ceil(each))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A sector is what was sealed at this place for this volume, or it is not whole.
        #[test]
        fn a_sector_is_whole_or_rotten(
            mut written in proptest::collection::vec(any::<u8>(), 2 * BYTES),
            generation in 0..LAST,
            identity: u128,
            at in 0..1_u64 << 40,
            is_rewrite: bool,
            damage in (0..BYTES, 0..8_u32),
        ) {
            let part = Part::of(*b"SKLTEST1", identity);
            part.rewrite(is_rewrite).seal(Lba(at), generation, &mut written);
            prop_assert!(written.chunks(BYTES).all(|sector| Part::is_rewrite(sector) == is_rewrite));
            let (first, second) = written.split_at_mut(BYTES);
            prop_assert_eq!(part.look(Lba(at), first), Sector::Whole(generation));
            prop_assert_eq!(part.look(Lba(at + 1), second), Sector::Whole(generation));
            prop_assert_eq!(part.look(Lba(at + 1), first), Sector::Rotten);
            prop_assert_eq!(Part::of(*b"SKLTEST2", identity).look(Lba(at), first), Sector::Rotten);
            prop_assert_eq!(Part::of(*b"SKLTEST1", identity ^ 1).look(Lba(at), first), Sector::Rotten);
            first[damage.0] ^= 1 << damage.1;
            prop_assert_eq!(part.look(Lba(at), first), Sector::Rotten);
            prop_assert_eq!(part.look(Lba(at), &[0; BYTES]), Sector::Blank);
            part.seal(Lba(at), LAST + generation % (SEALED - LAST), first);
            prop_assert_eq!(part.look(Lba(at), first), Sector::Rotten, "what follows it could not be sealed");
        }

        #[test]
        fn no_entry_lies_across_sectors_or_on_a_seal(head in 0..200_usize, entry in 1..40_usize, entries in 0..400_u64) {
            let mut end = head;
            for at in places(head, entry).take(entries as usize) {
                prop_assert!(at >= end && at % BYTES + entry <= ROOM);
                end = at + entry;
            }
            prop_assert_eq!(bytes(head, entry, entries), (end.max(1) as u64).div_ceil(SECTOR_BYTES) * SECTOR_BYTES);
        }
    }
}
