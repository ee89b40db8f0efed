//! The header of a batch: its pages and their checksums.
//!
//! In version 1, its checksum covers the whole header page. In version 2, its last sector is parity over the whole
//! batch, and the checksum covers what precedes that.

use seekless_core::{Buffer, mutant};

use super::old::{opened, sealed};
use super::{BatchHeader, OLD, PAGE, PageIdentity};
use crate::bytes::{put, sum_but, u32_at, u64_at, u128_at};
use crate::durable::parity;

const OLD_MAGIC: [u8; 8] = *b"SKLBORGR";
/// Magic in version 2.
pub const MAGIC: [u8; 8] = *b"SKLBORG4";
const SUM: usize = 8;
const HEAD: usize = 96;
const ENTRY: usize = 12;

/// Magic of a header, and where the data covered by the checksum ends.
fn shape(version: u32) -> ([u8; 8], usize) {
    if version == OLD { (OLD_MAGIC, PAGE) } else { (MAGIC, parity::AT) }
}

/// Capacity of a header, in entries.
pub fn entries(version: u32) -> usize {
    (shape(version).1 - HEAD) / ENTRY
}

fn last(count: usize) -> usize {
    HEAD + ENTRY * count.saturating_sub(1)
}

impl BatchHeader {
    /// Encodes the header; `data` are the pages that follow.
    pub fn encode(&self, version: u32, page_id: &PageIdentity, data: &[Buffer]) -> Vec<u8> {
        let mut bytes = vec![0; PAGE];
        put(&mut bytes, 48, &self.session.to_le_bytes());
        put(&mut bytes, 56, &self.durable_before.to_le_bytes());
        put(&mut bytes, 64, &self.next.to_le_bytes());
        put(&mut bytes, parity::PAGES_AT, &(self.entries.len() as u32).to_le_bytes());
        for ((page, sum), bytes) in self.entries.iter().zip(bytes[HEAD..].chunks_exact_mut(ENTRY)) {
            put(bytes, 0, &page.to_le_bytes());
            put(bytes, 8, &sum.to_le_bytes());
        }
        let (magic, end) = shape(version);
        let partly = mutant::is("borg: a checksum without its last entry");
        sealed(magic, page_id, &mut bytes[..if partly { last(self.entries.len()) } else { end }]);
        if version != OLD {
            parity::put(&mut bytes, data);
        }
        bytes
    }

    /// Decodes the header, if it is whole and the expected one.
    pub fn decode(version: u32, page_id: &PageIdentity, bytes: &[u8]) -> Option<BatchHeader> {
        let (magic, end) = shape(version);
        let count = u32_at(bytes, parity::PAGES_AT) as usize;
        if bytes.len() != PAGE || count > entries(version) {
            return None;
        }
        if mutant::is("borg: a checksum without its last entry") {
            let summed = bytes.get(..last(count))?;
            let decoded =
                PageIdentity { at: page_id.at, generation: u64_at(bytes, 24), identity: u128_at(bytes, 32) };
            if decoded != *page_id || bytes[..8] != magic || u32_at(bytes, SUM) != sum_but(summed, SUM) {
                return None;
            }
        } else if opened(magic, page_id.at, &bytes[..end])? != *page_id {
            return None;
        }
        Some(BatchHeader::decoded(bytes, count))
    }

    /// Decodes the header of any batch of this BOPT in version 2 at page `at`, with its number.
    pub fn of_any(at: u64, identity: u128, bytes: &[u8]) -> Option<(u64, BatchHeader)> {
        let page_id = opened(MAGIC, at, &bytes[..parity::AT])?;
        let count = u32_at(bytes, parity::PAGES_AT) as usize;
        let ours = page_id.identity == identity && count <= entries(super::SEALED);
        ours.then(|| (page_id.generation, BatchHeader::decoded(bytes, count)))
    }

    /// Number, identity of the BOPT and session of the header of any batch of any BOPT in version 2 at page `at`.
    pub fn origin_of(at: u64, bytes: &[u8]) -> Option<(u64, u128, u64)> {
        let page_id = opened(MAGIC, at, &bytes[..parity::AT])?;
        Some((page_id.generation, page_id.identity, u64_at(bytes, 48)))
    }

    fn decoded(bytes: &[u8], count: usize) -> BatchHeader {
        let entry = |bytes: &[u8]| (u64_at(bytes, 0), u32_at(bytes, 8));
        BatchHeader {
            session: u64_at(bytes, 48),
            durable_before: u64_at(bytes, 56),
            next: u32_at(bytes, 64),
            entries: bytes[HEAD..].chunks_exact(ENTRY).take(count).map(entry).collect(),
        }
    }
}
