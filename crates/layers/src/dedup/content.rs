//! The content of a page: whether there is any, its fingerprint, and its compressed form.
//!
//! On disk, a compressed page is the number of its bytes, in two bytes, and these bytes, an LZ4 block, in as few
//! sectors as they need. Invariant: decompression gives a page or nothing, whatever the bytes.

use seekless_core::{Buffer, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, checksum};

/// Bits of a fingerprint.
pub const FINGERPRINT_BITS: u32 = 29;
const PAGE: usize = PAGE_BYTES as usize;
const SECTOR: usize = SECTOR_BYTES as usize;
/// Bytes in front of a compressed page.
const HEAD: usize = 2;

/// A checksum of a page, by which others with the same content are looked for; and with which it is read. 0 if that is
/// not known, since the page is hollow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint(pub u32);

impl Fingerprint {
    /// That of a hollow page.
    pub const UNKNOWN: Fingerprint = Fingerprint(0);

    /// That of a page.
    pub fn of(page: &Buffer) -> Fingerprint {
        if page.is_hollow() {
            return Fingerprint::UNKNOWN;
        }
        let sum = page.look(checksum::crc32c) & ((1 << FINGERPRINT_BITS) - 1);
        Fingerprint(sum.max(1))
    }

    /// Whether these may be the contents of the page: unknown contents may.
    pub fn matches(self, page: &Buffer) -> bool {
        self == Fingerprint::UNKNOWN || page.is_hollow() || self == Fingerprint::of(page)
    }
}

/// Whether a page has nothing but zeroes.
pub fn is_zero(page: &Buffer) -> bool {
    !page.is_hollow() && page.look(|bytes| bytes.iter().all(|byte| *byte == 0))
}

/// Whether two pages have the same bytes; hollow ones have not.
pub fn are_equal(one: &Buffer, other: &Buffer) -> bool {
    !one.is_hollow() && !other.is_hollow() && one.look(|one| other.look(|other| one == other))
}

/// A page compressed, in whole sectors; `None` if it does not become smaller by a sector.
pub fn compressed(page: &Buffer) -> Option<Buffer> {
    if page.is_hollow() {
        return None;
    }
    let mut bytes = vec![0; HEAD + lz4_flex::block::get_maximum_output_size(PAGE)];
    let packed = page.look(|page| lz4_flex::block::compress_into(page, &mut bytes[HEAD..])).ok()?;
    let sectors = (HEAD + packed).div_ceil(SECTOR);
    if sectors as u64 >= PAGE_SECTORS {
        return None;
    }
    bytes[..HEAD].copy_from_slice(&(packed as u16).to_le_bytes());
    bytes[HEAD + packed..].fill(0);
    bytes.truncate(sectors * SECTOR);
    Some(Buffer::from_vec(bytes))
}

/// The page of a compressed one; `None` if these bytes are none.
pub fn decompressed(piece: &Buffer) -> Option<Buffer> {
    piece.look(|bytes| {
        let packed = usize::from(u16::from_le_bytes(bytes.get(..HEAD)?.try_into().ok()?));
        let mut page = vec![0; PAGE];
        let found = lz4_flex::block::decompress_into(bytes.get(HEAD..HEAD + packed)?, &mut page).ok()?;
        (found == PAGE).then(|| Buffer::from_vec(page))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pages from random ones to those of a few runs.
    fn page() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec((any::<u8>(), 1..600_usize), 1..4_000).prop_map(|runs| {
            let bytes =
                runs.into_iter().flat_map(|(byte, times)| std::iter::repeat_n(byte, times.div_ceil(100)));
            bytes.cycle().take(PAGE).collect()
        })
    }

    proptest! {
        #[test]
        fn a_compressed_page_is_read_as_it_was(page in page()) {
            let page = Buffer::from_vec(page);
            if let Some(piece) = compressed(&page) {
                prop_assert!(piece.len() < PAGE && piece.len() % SECTOR == 0);
                prop_assert!(are_equal(&decompressed(&piece).unwrap(), &page));
            }
            prop_assert!(Fingerprint::of(&page).matches(&page));
        }

        #[test]
        fn made_up_bytes_are_a_page_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..PAGE), packed in 0..PAGE as u16) {
            if bytes.len() > HEAD {
                bytes[..HEAD].copy_from_slice(&packed.to_le_bytes());
            }
            prop_assert!(decompressed(&Buffer::from_vec(bytes)).is_none_or(|page| page.len() == PAGE));
        }

        #[test]
        fn a_compressed_page_that_has_changed_is_noticed(page in page(), at: prop::sample::Index, bit in 0..8_u32) {
            let page = Buffer::from_vec(page);
            let Some(piece) = compressed(&page) else { return Ok(()) };
            let mut bytes = piece.to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let found = decompressed(&Buffer::from_vec(bytes));
            prop_assert!(found.is_none_or(|found| are_equal(&found, &page) || !Fingerprint::of(&page).matches(&found)));
        }
    }

    #[test]
    fn zeroes_are_nothing_and_hollow_pages_are_like_no_other() {
        let (zeroes, hollow) = (Buffer::zeroed(PAGE_BYTES), Buffer::hollow(PAGE_BYTES));
        assert!(is_zero(&zeroes) && !is_zero(&hollow) && compressed(&hollow).is_none());
        assert!(are_equal(&zeroes, &Buffer::zeroed(PAGE_BYTES)) && !are_equal(&hollow, &hollow));
        let mixed = Buffer::join([Buffer::from_vec(vec![7; 16]), Buffer::hollow(PAGE_BYTES - 16)]);
        let real = Buffer::from_vec(mixed.to_vec());
        assert!(are_equal(&mixed, &real), "hollow parts of a page are zeroes");
        assert_eq!(Fingerprint::of(&mixed), Fingerprint::of(&real));
        assert!(
            Fingerprint::of(&hollow) == Fingerprint::UNKNOWN
                && Fingerprint::of(&zeroes) != Fingerprint::UNKNOWN
        );
        assert_eq!(compressed(&real).map(|piece| piece.len()), Some(SECTOR));
    }
}
