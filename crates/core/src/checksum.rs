//! CRC-32C, the checksum of all data and metadata on disk: 65 ns for 4 KiB where the processor multiplies without carry
//! in 512 bits, 170 ns by its CRC instruction alone ([decision 3](../../../docs/decisions/0003-dependencies.md)).

use crc_fast::{CrcAlgorithm, Digest};

/// Checksum of bytes; 0 for none.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    low(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes))
}

/// Checksum of the bytes that `sum` is of, followed by `bytes`.
#[inline]
pub fn crc32c_append(sum: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!sum));
    digest.update(bytes);
    low(digest.finalize())
}

/// The 32 bits of a sum that the library gives in 64.
#[inline]
fn low(sum: u64) -> u32 {
    sum as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sum bit by bit, as RFC 3720 defines it.
    fn by_bits(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |sum, byte| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
                (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 }
            })
        })
    }

    /// RFC 3720, B.4: 32 bytes of zeroes, of ones, ascending.
    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|at| at as u8)), 0x46dd_794e);
        assert_eq!((crc32c(&[]), crc32c_append(7, &[])), (0, 7));
    }

    proptest! {
        /// Lengths at which the library changes its way, and any place of the cut.
        #[test]
        fn a_sum_is_the_same_in_one_piece_and_in_two(
            bytes in proptest::collection::vec(any::<u8>(), 0..5000), at in any::<prop::sample::Index>()
        ) {
            let (first, rest) = bytes.split_at(at.index(bytes.len() + 1));
            prop_assert_eq!(crc32c(&bytes), by_bits(&bytes));
            prop_assert_eq!(crc32c_append(crc32c(first), rest), by_bits(&bytes));
        }
    }
}
