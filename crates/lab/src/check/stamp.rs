//! Stamps: what the checker writes, so that a read shows which write its content came from.
//!
//! A stamped sector starts with 16 real bytes: its own address, the number of the write, and a checksum of both. The
//! remainder is hollow, so that a run moves little data.
//!
//! Faults that are detected: bytes of another sector (the address), of an older or a lost write (the number), bytes
//! that no write put there or that were damaged (the checksum; one damage in four thousand million passes).

use seekless_core::{Buffer, Extent, Lba, SECTOR_BYTES};

/// Real bytes at the start of a stamped sector.
pub const STAMP_BYTES: usize = 16;
/// Addresses and numbers take 6 bytes each.
const LIMIT: u64 = 1 << 48;

/// A write's mark in each of its sectors: its number and the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Address of the sector, below 2^48.
    pub sector: u64,
    /// Number of the write, from 1, below 2^48.
    pub write: u64,
}

impl Stamp {
    /// The bytes of the stamp.
    ///
    /// # Panics
    /// When the address or the number does not fit 48 bits, or the number is 0.
    pub fn bytes(self) -> [u8; STAMP_BYTES] {
        assert!(self.sector < LIMIT && (1..LIMIT).contains(&self.write), "{self:?} fits no 16 bytes");
        let mut bytes = [0; STAMP_BYTES];
        bytes[..6].copy_from_slice(&self.sector.to_le_bytes()[..6]);
        bytes[6..12].copy_from_slice(&self.write.to_le_bytes()[..6]);
        bytes[12..].copy_from_slice(&self.check().to_le_bytes());
        bytes
    }

    /// Checksum: two rounds of multiplying and folding, so that each bit of both numbers affects each bit.
    fn check(self) -> u32 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let fold = |value: u64| (value ^ (value >> 29)).wrapping_mul(ODD);
        let mixed = fold(fold(self.sector.wrapping_mul(ODD) ^ self.write.rotate_left(24)) ^ self.write);
        (mixed >> 32) as u32
    }
}

/// Content of a sector as classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectorContent {
    /// Zeroes in place of a stamp.
    Zeroes,
    /// A valid stamp, of this sector or another.
    Stamp(Stamp),
    /// Other bytes.
    Foreign,
}

impl SectorContent {
    /// Classifies a sector by its first bytes; fewer than 16 count as foreign.
    pub fn of(first_16_bytes: &[u8]) -> SectorContent {
        let Some(bytes) = first_16_bytes.first_chunk::<STAMP_BYTES>() else { return SectorContent::Foreign };
        let all = u128::from_le_bytes(*bytes);
        if all == 0 {
            return SectorContent::Zeroes;
        }
        let stamp = Stamp { sector: all as u64 % LIMIT, write: (all >> 48) as u64 % LIMIT };
        if stamp.write != 0 && (all >> 96) as u32 == stamp.check() {
            SectorContent::Stamp(stamp)
        } else {
            SectorContent::Foreign
        }
    }
}

/// The data of write `write` of `at`: 16 real bytes a sector, the remainder hollow.
pub fn stamped(at: Extent, write: u64) -> Buffer {
    let Lba(start) = at.start;
    shaped((start..start + at.sectors).flat_map(|sector| Stamp { sector, write }.bytes()).collect())
}

/// A buffer for a read of `sectors` sectors: as [`stamped`], with zeroes for stamps.
pub fn room(sectors: u64) -> Buffer {
    shaped(vec![0; sectors as usize * STAMP_BYTES])
}

pub(super) fn shaped(stamps: Vec<u8>) -> Buffer {
    let sectors = stamps.len() / STAMP_BYTES;
    let stamps = Buffer::from_vec(stamps);
    let rest = Buffer::hollow(SECTOR_BYTES - STAMP_BYTES as u64);
    Buffer::join((0..sectors).flat_map(|at| [stamps.cut(at * STAMP_BYTES, STAMP_BYTES), rest.clone()]))
}

/// Calls `each(index, found)` for each whole sector of a buffer that was read. Where the bytes of a stamp are hollow,
/// it is foreign: the content is unknown.
pub fn classify(buffer: &Buffer, mut each: impl FnMut(u64, SectorContent)) {
    let sector = SECTOR_BYTES as usize;
    let (mut start, mut real) = ([0; STAMP_BYTES], 0);
    buffer.for_each(|offset, len, bytes| {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let inside = at % sector;
            let next = (at - inside + sector).min(end);
            if let (Some(bytes), true) = (bytes, inside < STAMP_BYTES) {
                let part = &bytes[at - offset..(at - inside + STAMP_BYTES).min(end) - offset];
                start[inside..inside + part.len()].copy_from_slice(part);
                real += part.len();
            }
            if next % sector == 0 {
                let what =
                    if real == STAMP_BYTES { SectorContent::of(&start) } else { SectorContent::Foreign };
                each((next / sector - 1) as u64, what);
                real = 0;
            }
            at = next;
        }
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(buffer: &Buffer) -> Vec<SectorContent> {
        let mut out = Vec::new();
        classify(buffer, |index, what| {
            assert_eq!(index, out.len() as u64);
            out.push(what);
        });
        out
    }

    #[test]
    fn what_a_write_stamped_is_found() {
        let at = Extent::new(800, 3);
        let expected = |write| {
            (800..803).map(|sector| SectorContent::Stamp(Stamp { sector, write })).collect::<Vec<_>>()
        };
        let buffer = stamped(at, 17);
        assert_eq!((buffer.len(), buffer.is_hollow(), buffer.is_real()), (3 * 512, false, false));
        assert_eq!(all(&buffer), expected(17));
        let read = room(3);
        assert_eq!(all(&read), [SectorContent::Zeroes; 3]);
        read.put(0, &stamped(at, 31).to_vec());
        assert_eq!(all(&read), expected(31));
        let real = Buffer::from_vec(buffer.to_vec());
        assert_eq!(all(&real), expected(17));
        let cut = Buffer::join([real.cut(0, 5), real.cut(5, 600), real.cut(605, 931)]);
        assert_eq!(all(&cut), expected(17), "a stamp across two pieces");
    }

    #[test]
    fn what_nobody_stamped_is_foreign() {
        assert_eq!(all(&Buffer::hollow_sectors(2)), [SectorContent::Foreign; 2]);
        assert_eq!(all(&Buffer::from_vec(vec![7; 512])), [SectorContent::Foreign]);
        assert_eq!(all(&Buffer::join([Buffer::zeroed(15), Buffer::hollow(497)])), [SectorContent::Foreign]);
        assert_eq!(SectorContent::of(&[0; 15]), SectorContent::Foreign);
        // Number 0 is never valid, whatever the checksum.
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&[1; 6]);
        let sector = 0x0101_0101_0101;
        bytes[12..].copy_from_slice(&Stamp { sector, write: 0 }.check().to_le_bytes());
        assert_eq!(SectorContent::of(&bytes), SectorContent::Foreign);
    }

    proptest! {
        #[test]
        fn a_stamp_is_read_back_and_no_changed_bit_passes(sector in 0..LIMIT, write in 1..LIMIT, bit in 0..128_usize) {
            let stamp = Stamp { sector, write };
            let mut bytes = stamp.bytes();
            prop_assert_eq!(SectorContent::of(&bytes), SectorContent::Stamp(stamp));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(SectorContent::of(&bytes), SectorContent::Foreign);
        }
    }
}
