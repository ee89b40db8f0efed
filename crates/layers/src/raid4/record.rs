//! A record of the journal: the new blocks of one or more rows, with their entries.
//!
//! On disk, a page that describes the blocks, and the blocks. The page: magic, CRC-32C (four bytes), version (four),
//! identity of the array, epoch, epoch before (eight each), records of that (four), number (four), two zero words (four
//! each), count of blocks (four); then for each block its entry (64 bytes) and the checksum of its contents (four); its
//! last sector is the parity of the record (see [`crate::durable::parity`]).

use seekless_core::{Buffer, PAGE_BYTES};

use super::sums::ENTRY;
use crate::bytes::{put, sum_but, sum_of_page, u32_at, u64_at, u128_at};
use crate::durable::parity;

const PAGE: usize = PAGE_BYTES as usize;
const MAGIC: [u8; 8] = *b"SKLRAIDR";
const VERSION: u32 = 1;
const SUM: usize = 8;
const HEAD: usize = 72;
const ITEM: usize = ENTRY + 4;
/// Most blocks of a record.
pub const MOST: usize = (parity::AT - HEAD) / ITEM;

/// A block to write: where, its entry, and its contents.
#[derive(Clone, Debug)]
pub struct Item {
    /// Member.
    pub member: usize,
    /// Block on it.
    pub block: u64,
    /// The encoded entry.
    pub entry: [u8; ENTRY],
    /// Contents.
    pub content: Buffer,
}

/// Place of a record in the journal's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Of the array.
    pub identity: u128,
    /// Epoch: one use of half of the journal; never used twice.
    pub epoch: u64,
    /// The epoch before it, in the other half, if its records are still needed.
    pub before: u64,
    /// Number of its records.
    pub records: u32,
    /// Number of this record in its epoch.
    pub number: u32,
}

/// Encodes a record.
pub fn encode(key: &Key, items: &[Item]) -> Buffer {
    let mut head = vec![0; PAGE];
    put(&mut head, 0, &MAGIC);
    put(&mut head, 12, &VERSION.to_le_bytes());
    put(&mut head, 16, &key.identity.to_le_bytes());
    put(&mut head, 32, &key.epoch.to_le_bytes());
    put(&mut head, 40, &key.before.to_le_bytes());
    put(&mut head, 48, &key.records.to_le_bytes());
    put(&mut head, 52, &key.number.to_le_bytes());
    put(&mut head, parity::PAGES_AT, &(items.len() as u32).to_le_bytes());
    for (item, at) in items.iter().zip((HEAD..).step_by(ITEM)) {
        put(&mut head, at, &item.entry);
        put(&mut head, at + ENTRY, &sum_of_page(&item.content).to_le_bytes());
    }
    let sum = sum_but(&head[..parity::AT], SUM);
    put(&mut head, SUM, &sum.to_le_bytes());
    parity::put(&mut head, items.iter().map(|item| &item.content));
    let blocks = items.iter().map(|item| item.content.clone());
    Buffer::join([Buffer::from_vec(head)].into_iter().chain(blocks))
}

/// The described blocks of a record: entries and checksums.
type Described = Vec<([u8; ENTRY], u32)>;

fn decode_head(head: &[u8], identity: u128) -> Option<(Key, Described)> {
    let ours = head.starts_with(&MAGIC) && u32_at(head, 12) == VERSION && u128_at(head, 16) == identity;
    if !ours || u32_at(head, SUM) != sum_but(&head[..parity::AT], SUM) {
        return None;
    }
    let key = Key {
        identity,
        epoch: u64_at(head, 32),
        before: u64_at(head, 40),
        records: u32_at(head, 48),
        number: u32_at(head, 52),
    };
    let count = u32_at(head, parity::PAGES_AT) as usize;
    let item = |at: usize| Some((head.get(at..at + ENTRY)?.try_into().ok()?, u32_at(head, at + ENTRY)));
    let described: Option<Described> = (HEAD..).step_by(ITEM).take(count).map(item).collect();
    Some((key, described.filter(|described| described.len() <= MOST)?))
}

/// The whole record of this array that `bytes` begin with, if there is one; one rotten sector is repaired.
pub fn decode(bytes: &[u8], identity: u128) -> Option<(Key, Vec<Item>)> {
    let ((key, described), repaired) = parity::head(bytes, MAGIC, |head| decode_head(head, identity))?;
    let mut record = bytes.get(..(1 + described.len()) * PAGE)?.to_vec();
    if let Some(head) = repaired {
        put(&mut record, 0, &head);
    }
    let sums: Vec<u32> = described.iter().map(|(_, sum)| *sum).collect();
    if let Some((index, page)) = parity::page(&record, &sums).ok()? {
        put(&mut record, (1 + index) * PAGE, &page);
    }
    let items =
        described.into_iter().zip(record[PAGE..].chunks_exact(PAGE)).map(|((entry, _), content)| Item {
            member: usize::from(entry[4]) | usize::from(entry[5]) << 8,
            block: u64_at(&entry, 8),
            entry,
            content: Buffer::from_vec(content.to_vec()),
        });
    Some((key, items.collect()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sums::{Entry, Place};
    use super::*;

    fn items(fills: &[u8]) -> Vec<Item> {
        (0..)
            .zip(fills)
            .map(|(number, fill)| {
                let content = Buffer::from_vec(vec![*fill; PAGE]);
                let (member, block) = (number as usize % 3, 100 + number);
                let entry = Entry { generation: number + 1, ..Entry::default() };
                Item {
                    member,
                    block,
                    entry: entry.encode(Place { seed: 1, member, block }, &content),
                    content,
                }
            })
            .collect()
    }

    proptest! {
        /// A record is read as it was written, also with one rotten sector; with two damaged ones it is none, or the
        /// same.
        #[test]
        fn a_record_is_whole_or_none(
            fills in prop::collection::vec(any::<u8>(), 1..=MOST),
            numbers: (u128, u64, u64, u32, u32),
            damaged in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 0..3),
            behind in 0..2_usize,
        ) {
            let (identity, epoch, before, records, number) = numbers;
            let key = Key { identity, epoch, before, records, number };
            let written = items(&fills);
            let mut bytes = encode(&key, &written).to_vec();
            bytes.extend(vec![0x5a; behind * PAGE]);
            prop_assert!(decode(&bytes, identity.wrapping_add(1)).is_none());
            let record = (1 + fills.len()) * PAGE;
            let mut sectors = std::collections::BTreeSet::new();
            for (at, change) in &damaged {
                let at = at.index(record);
                if sectors.insert(at / 512) {
                    bytes[at] ^= change;
                }
            }
            let found = decode(&bytes, identity);
            prop_assert!(found.is_some() || sectors.len() > 1);
            if let Some((found, read)) = found {
                prop_assert_eq!(found, key);
                for (read, written) in read.iter().zip(&written) {
                    prop_assert_eq!((read.member, read.block, read.entry), (written.member, written.block, written.entry));
                    prop_assert_eq!(read.content.to_vec(), written.content.to_vec());
                }
                prop_assert_eq!(read.len(), written.len());
            }
        }
    }
}
