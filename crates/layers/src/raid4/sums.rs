//! Checksum blocks: 64 bytes for each block of a group.
//!
//! An entry, on disk: a CRC-32C (four bytes); the member (two); a zero word (two); the block's number on the member
//! (eight); its *generation*, the number of the write (eight); and for parity the low 32 bits of the generations of the
//! data that it covers, by column (40). The checksum is over the identity of the array, the entry behind the checksum
//! itself, and the block. An entry of zeroes is that of a block of zeroes, which was never written.
//!
//! So it is found on reading that a block is torn or rotten, that its last write was lost, and that the write of
//! another block went there; and beside the parity, that a block was lost together with its entry.

use seekless_core::{Buffer, PAGE_BYTES, checksum};

use crate::bytes::{put, u64_at};

/// Bytes of an entry.
pub const ENTRY: usize = 64;
/// Columns whose generations fit in the entry of their parity.
pub const MOST_DATA: usize = 10;
const MEMBER: usize = 4;
const BLOCK: usize = 8;
const GENERATION: usize = 16;
const COVERS: usize = 24;

/// What an entry says of its block, besides its contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Generation of its last write; zero if it was never written.
    pub generation: u64,
    /// Of parity: the generations of the data that it covers, their low 32 bits.
    pub covers: [u32; MOST_DATA],
}

/// A place of the array: what its checksums begin with.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Of the array.
    pub seed: u32,
    /// Member.
    pub member: usize,
    /// Block.
    pub block: u64,
}

/// The seed of an array's checksums.
pub fn seed(identity: u128) -> u32 {
    checksum::crc32c_append(checksum::crc32c(b"SKLRAIDE"), &identity.to_le_bytes())
}

fn sum(seed: u32, entry: &[u8], content: &Buffer) -> u32 {
    let sum = checksum::crc32c_append(seed, &entry[MEMBER..ENTRY]);
    content.look(|bytes| checksum::crc32c_append(sum, bytes))
}

impl Entry {
    /// Encodes the entry of a block with this content.
    pub fn encode(&self, place: Place, content: &Buffer) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        put(&mut bytes, MEMBER, &(place.member as u16).to_le_bytes());
        put(&mut bytes, BLOCK, &place.block.to_le_bytes());
        put(&mut bytes, GENERATION, &self.generation.to_le_bytes());
        for (column, covered) in self.covers.iter().enumerate() {
            put(&mut bytes, COVERS + 4 * column, &covered.to_le_bytes());
        }
        let sum = sum(place.seed, &bytes, content);
        put(&mut bytes, 0, &sum.to_le_bytes());
        bytes
    }

    /// Decodes the entry of the block with this content; `None` if it is not the entry of this content at this place.
    pub fn decode(bytes: &[u8], place: Place, content: &Buffer) -> Option<Entry> {
        if bytes.iter().all(|byte| *byte == 0) {
            let blank = content.is_hollow() || content.look(|bytes| bytes.iter().all(|byte| *byte == 0));
            return blank.then(Entry::default);
        }
        let here = bytes[MEMBER..BLOCK] == [place.member as u8, (place.member >> 8) as u8, 0, 0]
            && u64_at(bytes, BLOCK) == place.block;
        if !here || bytes[..MEMBER] != sum(place.seed, bytes, content).to_le_bytes() {
            return None;
        }
        let mut entry = Entry { generation: u64_at(bytes, GENERATION), ..Entry::default() };
        for (column, covered) in entry.covers.iter_mut().enumerate() {
            *covered = crate::bytes::u32_at(bytes, COVERS + 4 * column);
        }
        Some(entry)
    }

    /// What parity records of this generation.
    pub fn low(&self) -> u32 {
        self.generation as u32
    }
}

/// Of data with generation `found` under parity that covers generation `covered`: whether the parity is the older one.
pub fn is_parity_older(found: u32, covered: u32) -> bool {
    covered == 0 || (found != 0 && covered.wrapping_sub(found) > u32::MAX / 2)
}

/// A checksum block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums(Vec<u8>);

impl Sums {
    /// Of blocks that were never written.
    pub fn blank() -> Sums {
        Sums(vec![0; PAGE_BYTES as usize])
    }

    /// As it was read.
    pub fn of(block: &Buffer) -> Sums {
        Sums(block.to_vec())
    }

    /// The entry of a row.
    pub fn entry(&self, row: u64) -> &[u8] {
        &self.0[row as usize * ENTRY..][..ENTRY]
    }

    /// Sets the entry of a row.
    pub fn set(&mut self, row: u64, entry: [u8; ENTRY]) {
        put(&mut self.0, row as usize * ENTRY, &entry);
    }

    /// The block to write.
    pub fn block(&self) -> Buffer {
        Buffer::from_vec(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(member: usize, block: u64) -> Place {
        Place { seed: seed(7), member, block }
    }

    proptest! {
        /// An entry is that of its content at its place, and of no other; whichever bit of either flips.
        #[test]
        fn an_entry_belongs_to_one_content_at_one_place(
            generation in 1..u64::MAX, covers: [u32; MOST_DATA], fill: u8, flip in 0..(ENTRY + 4_096) * 8,
        ) {
            let (entry, content) = (Entry { generation, covers }, vec![fill; 4_096]);
            let bytes = entry.encode(place(3, 77), &Buffer::from_vec(content.clone()));
            let decode = |bytes: &[u8], at, content: &[u8]| {
                Entry::decode(bytes, at, &Buffer::from_vec(content.to_vec()))
            };
            prop_assert_eq!(decode(&bytes, place(3, 77), &content), Some(entry));
            for elsewhere in [place(2, 77), place(3, 78), Place { seed: seed(8), ..place(3, 77) }] {
                prop_assert_eq!(decode(&bytes, elsewhere, &content), None);
            }
            let mut all = [&bytes[..], &content].concat();
            all[flip / 8] ^= 1 << (flip % 8);
            prop_assert_eq!(decode(&all[..ENTRY], place(3, 77), &all[ENTRY..]), None);
        }
    }

    #[test]
    fn zeroes_are_the_entry_of_zeroes_only() {
        let decode = |fill| Entry::decode(&[0; ENTRY], place(0, 3), &Buffer::from_vec(vec![fill; 4_096]));
        assert_eq!((decode(0), decode(1)), (Some(Entry::default()), None));
    }

    #[test]
    fn of_two_generations_the_older_one_is_known_where_they_wrap() {
        for (found, covered, older) in [
            (5, 6, false),
            (6, 5, true),
            (0, 6, false),
            (6, 0, true),
            (u32::MAX, 3, false),
            (3, u32::MAX, true),
        ] {
            assert_eq!(is_parity_older(found, covered), older, "{found} {covered}");
        }
    }
}
