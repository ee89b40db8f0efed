//! A record of a log: a page that describes it (its head), and pages of data, written with one request. The last sector
//! of the head is *parity*, so that one damaged sector of the record can be repaired from all the others.
//!
//! Without parity, the end of a log could be distinguished from a rotten last record only by another durable note that
//! the record was whole: one more write and flush per flush. With parity, a durable record is whole even if any one of
//! its sectors rots; and a record with two bad sectors was being written at a power failure. (One with a single bad
//! sector may have been, too. It is repaired as well: it was never acknowledged, and may be valid.) A sector that
//! cannot be read is an error of the device, and taken for neither.
//!
//! On disk, a head begins with a magic, has the number of pages that follow as four bytes at 68, and ends with the
//! exclusive or of all other sectors of the record. Its own checksum covers what precedes that.
//!
//! Invariant: a head ends before its parity.

use std::collections::BTreeSet;

use seekless_core::{Buffer, PAGE_BYTES, SECTOR_BYTES, checksum, invariant, mutant};

use crate::bytes::{u32_at, u64_at};

const PAGE: usize = PAGE_BYTES as usize;
const SECTOR: usize = SECTOR_BYTES as usize;
/// Offset of the parity in a head.
pub const AT: usize = PAGE - SECTOR;
/// Offset of the number of pages that follow.
pub const PAGES_AT: usize = 68;

/// The exclusive or of sectors.
struct Sum([u64; SECTOR / 8]);

impl Sum {
    fn of(bytes: &[u8]) -> Sum {
        let mut sum = Sum([0; SECTOR / 8]);
        sum.add(bytes);
        sum
    }

    fn bytes(&self) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        let words = bytes.chunks_exact_mut(8).zip(&self.0);
        words.for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// Adds whole sectors.
    fn add(&mut self, bytes: &[u8]) {
        for sector in bytes.chunks(SECTOR) {
            for (sum, word) in self.0.iter_mut().zip(sector.chunks_exact(8)) {
                *sum ^= u64_at(word, 0);
            }
        }
    }

    /// The page with one of its sectors changed by this.
    fn applied(&self, page: &[u8], sector: usize) -> Vec<u8> {
        let mut page = page.to_vec();
        page[sector * SECTOR..][..SECTOR].iter_mut().zip(self.bytes()).for_each(|(byte, sum)| *byte ^= sum);
        page
    }
}

/// Writes the parity of a record into its head. Hollow pages count as zeroes.
pub fn put<'a>(head: &mut [u8], pages: impl IntoIterator<Item = &'a Buffer>) {
    if mutant::is("durable: a head reaches into its parity") {
        head[AT] = 1;
    }
    invariant!("a head ends before its parity", head[AT..].iter().all(|byte| *byte == 0));
    let mut sum = Sum::of(&head[..AT]);
    for page in pages.into_iter().filter(|page| !page.is_hollow()) {
        page.look(|bytes| sum.add(bytes));
    }
    head[AT..].copy_from_slice(&sum.bytes());
}

/// Decodes the head of the record that begins `bytes` and ends at most where they do: the result of `decode`, and the
/// repaired bytes if they were repaired.
pub fn head<T>(
    bytes: &[u8],
    magic: [u8; 8],
    decode: impl Fn(&[u8]) -> Option<T>,
) -> Option<(T, Option<Vec<u8>>)> {
    let head = bytes.get(..PAGE)?;
    if let Some(decoded) = decode(head) {
        return Some((decoded, None));
    }
    let claimed = head.starts_with(&magic).then(|| u32_at(head, PAGES_AT) as usize);
    let mut damaged = Sum::of(head);
    for (pages, behind) in bytes[PAGE..].chunks(PAGE).map(Some).chain([None]).enumerate() {
        // For each number of pages, one sector may be damaged: another one of the head, or its first.
        let begins = u64_at(head, 0) ^ damaged.0[0] == u64::from_le_bytes(magic);
        let word = damaged.0[PAGES_AT / 8] >> (8 * (PAGES_AT % 8));
        let counts = u32_at(head, PAGES_AT) ^ word as u32 == pages as u32;
        let first = (begins && counts).then_some(0);
        let others = (1..AT / SECTOR).filter(|_| claimed == Some(pages));
        for sector in first.into_iter().chain(others) {
            let repaired = damaged.applied(head, sector);
            if let Some(decoded) = decode(&repaired) {
                return Some((decoded, Some(repaired)));
            }
        }
        damaged.add(behind.unwrap_or_default());
    }
    None
}

/// Offsets, in pages, of the pages of `bytes` that may be heads of which [`head`] can repair a sector, of records of at
/// most `longest` pages: a cheap filter for places at which no record is expected.
pub fn damaged_heads(bytes: &[u8], magic: [u8; 8], longest: usize) -> BTreeSet<u32> {
    // The words of magic and number of pages, as the parity has them.
    let words = |page: &[u8]| {
        let sectors = page.chunks_exact(SECTOR).map(|sector| (u64_at(sector, 0), u32_at(sector, PAGES_AT)));
        sectors.fold((0, 0), |sum, word| (sum.0 ^ word.0, sum.1 ^ word.1))
    };
    let pages: Vec<(u64, u32)> = bytes.chunks_exact(PAGE).map(words).collect();
    let magic = u64::from_le_bytes(magic);
    let is_repaired_by = |head: &[u8], first: usize| {
        let mut wrong = (u64_at(head, 0) ^ magic, u32_at(head, PAGES_AT));
        pages[first..].iter().take(longest + 1).zip(0..).any(|(page, behind)| {
            wrong = (wrong.0 ^ page.0, wrong.1 ^ page.1);
            wrong == (0, behind)
        })
    };
    let heads = bytes.chunks_exact(PAGE).enumerate();
    let heads = heads.filter(|(at, page)| u64_at(page, 0) == magic || is_repaired_by(page, *at));
    heads.map(|(at, _)| at as u32).collect()
}

/// Verifies the checksums of the pages of a record: if one sector of a page is damaged, `Ok` with the index and the
/// repaired page; `Err` if more are.
///
/// `record` is the whole record, with its head as it was written.
pub fn page(record: &[u8], sums: &[u32]) -> Result<Option<(usize, Vec<u8>)>, ()> {
    let behind = record.chunks_exact(PAGE).skip(1).zip(sums).enumerate();
    let mut damaged = behind.filter(|(_, (page, decoded))| checksum::crc32c(page) != **decoded);
    let Some((index, (page, decoded))) = damaged.next() else { return Ok(None) };
    if damaged.next().is_some() {
        return Err(());
    }
    let sum = Sum::of(record);
    let mut repaired = (0..PAGE / SECTOR).map(|sector| sum.applied(page, sector));
    repaired.find(|page| checksum::crc32c(page) == *decoded).map(|page| Some((index, page))).ok_or(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAGIC: [u8; 8] = *b"SKLTESTR";
    const SUM: usize = 8;

    fn decode(head: &[u8]) -> Option<Vec<u8>> {
        let sum = crate::bytes::sum_but(&head[..AT], SUM);
        (head.starts_with(&MAGIC) && u32_at(head, SUM) == sum).then(|| head[..AT].to_vec())
    }

    /// A record of pages with these bytes, and their checksums.
    fn record(fill: &[u8]) -> (Vec<u8>, Vec<u32>) {
        let page = |fill: u8, page: u8| (0..PAGE).map(|at| fill ^ (at as u8).wrapping_mul(page)).collect();
        let pages: Vec<Buffer> =
            fill.iter().zip(1..).map(|(&fill, number)| Buffer::from_vec(page(fill, number))).collect();
        let sums: Vec<u32> = pages.iter().map(crate::bytes::sum_of_page).collect();
        let mut head: Vec<u8> = (0..PAGE).map(|at| if at < AT { at as u8 } else { 0 }).collect();
        head[..8].copy_from_slice(&MAGIC);
        head[PAGES_AT..PAGES_AT + 4].copy_from_slice(&(pages.len() as u32).to_le_bytes());
        let sum = crate::bytes::sum_but(&head[..AT], SUM);
        head[SUM..SUM + 4].copy_from_slice(&sum.to_le_bytes());
        put(&mut head, &pages);
        (Buffer::join(std::iter::once(Buffer::from_vec(head)).chain(pages)).to_vec(), sums)
    }

    proptest! {
        /// With one sector that is not as it was written the record is whole; with two it is not.
        #[test]
        fn one_sector_is_made_whole_and_two_are_missed(
            fill in proptest::collection::vec(any::<u8>(), 0..9_usize),
            behind in 0..3_usize,
            damaged in proptest::collection::vec((any::<prop::sample::Index>(), 0..SECTOR, 1..=255_u8), 0..3_usize),
        ) {
            let (sound, sums) = record(&fill);
            let mut bytes = sound.clone();
            let mut sectors = BTreeSet::new();
            for (sector, byte, change) in &damaged {
                let sector = sector.index(bytes.len() / SECTOR);
                if sectors.insert(sector) {
                    bytes[sector * SECTOR + byte] ^= change;
                }
            }
            bytes.extend(vec![7; behind * PAGE]);
            let of_head = sectors.range(..AT / SECTOR).count();
            let of_data = sectors.range(PAGE / SECTOR..).count();
            let found = head(&bytes, MAGIC, decode);
            if of_head > 0 && sectors.len() > 1 {
                prop_assert!(found.is_none());
                return Ok(());
            }
            prop_assert!(damaged_heads(&bytes, MAGIC, 8).contains(&0));
            let (decoded, repaired) = found.unwrap();
            prop_assert_eq!(repaired.is_some(), of_head == 1);
            prop_assert_eq!(&decoded[..], &sound[..AT]);
            if let Some(repaired) = repaired {
                bytes[..PAGE].copy_from_slice(&repaired);
            }
            let found = page(&bytes[..sound.len()], &sums);
            if sectors.len() == 1 && of_data == 1 {
                let (page, content) = found.unwrap().unwrap();
                prop_assert_eq!(&content[..], &sound[(page + 1) * PAGE..][..PAGE]);
            } else {
                prop_assert_eq!(found, if of_data == 0 { Ok(None) } else { Err(()) });
            }
        }
    }
}
