//! A record of a log that is written with one request: a page that tells what is behind it (its head), pages of data,
//! and a page of parity, so that one page that is not as it was written is made whole from the others.
//!
//! The end of a log cannot be told from a last record that is rotten, but by something durable that says the record was
//! whole: that would be another write and another flush for each flush. With parity a record that was durable is whole
//! although any sector, or all of a page of it, has rotted; and who finds two pages missing finds a record that was
//! being written when the power went.

use seekless_core::{Buffer, PAGE_BYTES};

const PAGE: usize = PAGE_BYTES as usize;

fn add(sum: &mut [u8], page: &[u8]) {
    for (sum, byte) in sum.iter_mut().zip(page) {
        *sum ^= byte;
    }
}

/// The page of parity of a record's other pages. Pages that have only a length count as zeroes.
pub fn of<'a>(pages: impl IntoIterator<Item = &'a Buffer>) -> Buffer {
    let mut sum = vec![0; PAGE];
    for page in pages {
        page.for_each(|offset, _, bytes| {
            if let Some(bytes) = bytes {
                add(&mut sum[offset..], bytes);
            }
        });
    }
    Buffer::from_vec(sum)
}

/// The head of a record that begins with `bytes` and reaches at most to their end: as it is, or from the other pages.
/// `decode` says what a page tells, and how many pages of data are behind it; whether it was rotten comes back too.
pub fn head<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Option<(T, usize)>) -> Option<(T, Option<Vec<u8>>)> {
    let room = (bytes.len() / PAGE).checked_sub(2)?;
    if let Some((head, pages)) = decode(&bytes[..PAGE]) {
        return (pages <= room).then_some((head, None));
    }
    let mut sum = vec![0; PAGE];
    for (page, pages) in bytes[PAGE..].chunks_exact(PAGE).zip(0..) {
        add(&mut sum, page);
        match decode(&sum) {
            Some((head, told)) if told == pages => return Some((head, Some(sum))),
            _ => {}
        }
    }
    None
}

/// Whether the pages of data of a record have these checksums, its head being whole: `Ok` with one that is made whole
/// from the others, if there is one; `Err` if there are more.
///
/// `record` is all of it, its head as it was written.
pub fn mend(record: &[u8], sums: &[u32]) -> Result<Option<(usize, Vec<u8>)>, ()> {
    let pages = record.chunks_exact(PAGE);
    let wrong = |(page, told): &(&[u8], &u32)| crc32c::crc32c(page) != **told;
    let mut rotten = pages.clone().skip(1).zip(sums).enumerate().filter(|(_, page)| wrong(page));
    let Some((index, (_, told))) = rotten.next() else { return Ok(None) };
    if rotten.next().is_some() {
        return Err(());
    }
    let mut sum = vec![0; PAGE];
    pages.enumerate().filter(|(at, _)| *at != index + 1).for_each(|(_, page)| add(&mut sum, page));
    if crc32c::crc32c(&sum) == *told { Ok(Some((index, sum))) } else { Err(()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A head says how many pages are behind it and their checksums, and has one of its own.
    fn record(pages: &[Vec<u8>]) -> (Vec<u8>, Vec<u32>) {
        let sums: Vec<u32> = pages.iter().map(|page| crc32c::crc32c(page)).collect();
        let mut head = vec![0; PAGE];
        head[4..8].copy_from_slice(&(pages.len() as u32).to_le_bytes());
        for (sum, at) in sums.iter().zip((8..).step_by(4)) {
            head[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        }
        let sum = crc32c::crc32c(&head[4..]);
        head[..4].copy_from_slice(&sum.to_le_bytes());
        let mut all: Vec<Buffer> =
            std::iter::once(&head).chain(pages).map(|page| Buffer::from_vec(page.clone())).collect();
        all.push(of(&all));
        (Buffer::join(all).to_vec(), sums)
    }

    fn decode(page: &[u8]) -> Option<(Vec<u8>, usize)> {
        let sum = crc32c::crc32c(&page[4..]).to_le_bytes();
        let pages = u32::from_le_bytes(page[4..8].try_into().ok()?) as usize;
        (page[..4] == sum && page.iter().any(|byte| *byte != 0)).then(|| (page.to_vec(), pages))
    }

    proptest! {
        /// With one page that is not as it was written the record is whole; with two it is not.
        #[test]
        fn one_page_is_made_whole_and_two_are_missed(
            fill in proptest::collection::vec(any::<u8>(), 0..9_usize),
            behind in 0..3_usize,
            wrong in proptest::collection::vec(any::<prop::sample::Index>(), 0..3_usize),
        ) {
            let pages: Vec<Vec<u8>> = fill.iter().zip(0..).map(|(&fill, page)| {
                (0..PAGE).map(|at| fill ^ (at as u8).wrapping_mul(page + 1)).collect()
            }).collect();
            let (sound, sums) = record(&pages);
            let mut bytes = sound.clone();
            let wrong: std::collections::BTreeSet<usize> =
                wrong.iter().map(|index| index.index(bytes.len() / PAGE)).collect();
            for page in &wrong {
                bytes[page * PAGE + 40 + page] ^= 0x11;
            }
            bytes.extend(vec![7; behind * PAGE]);
            let of_data = wrong.iter().filter(|page| (1..=pages.len()).contains(page)).count();
            let found = head(&bytes, decode);
            if wrong.contains(&0) && wrong.len() > 1 {
                prop_assert!(found.is_none());
                return Ok(());
            }
            let (told, mended) = found.unwrap();
            prop_assert_eq!(mended.is_some(), wrong.contains(&0));
            prop_assert_eq!(&told[..], &sound[..PAGE]);
            bytes[..PAGE].copy_from_slice(&told);
            let found = mend(&bytes[..sound.len()], &sums);
            if of_data == 1 && wrong.len() == 1 {
                let (page, content) = found.unwrap().unwrap();
                prop_assert_eq!(&content, &pages[page]);
            } else {
                prop_assert_eq!(found, if of_data == 0 { Ok(None) } else { Err(()) });
            }
        }
    }
}
