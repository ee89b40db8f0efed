//! Encoding of the pages of metadata (Table 2): super page, map page of a segment, and header of a batch in the log.
//!
//! Two versions: in the first, each page has one checksum ([`old`]); in the second, each sector of super and map pages
//! is sealed ([`sealed`]), and the header of a batch has parity ([`batch`]). A page is used only if all of that is
//! valid and its numbers make sense.

pub mod batch;
pub mod old;
pub mod sealed;

use seekless_core::PAGE_BYTES;
use seekless_core::device::Mark;

use super::area::Area;
use super::layout::Layout;
use crate::bytes::put;
use crate::durable::walk::Fill;

/// Bytes of a page.
pub const PAGE: usize = PAGE_BYTES as usize;
/// Pages of the origin whose checksums a clean stop records.
pub const SAMPLES: usize = 64;
/// No segment.
pub const NONE: u32 = u32::MAX;
/// The version with one checksum per page.
pub const OLD: u32 = 1;
/// The version with sealed sectors, used for new BOPTs.
pub const SEALED: u32 = 2;

/// An incompatible feature: some copies are still of version 1, and not valid.
pub const UPGRADING: u32 = 1;
/// An incompatible feature: batches may lie anywhere in their segment, not only one after the other.
pub const SCATTERED: u32 = 2;

/// Magic of super pages of version 2.
pub const SUPER_2: [u8; 8] = *b"SKLBORG2";
/// Magic of a torn copy that was invalidated, or a BOPT that was given up.
const INVALIDATED: [u8; 8] = *b"SKLBORGV";
/// Limit of generations and batch numbers: at a million a second it would take 100,000 years to reach.
const LAST: u64 = crate::durable::sector::LAST;

/// Identity of a page of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageIdentity {
    /// Page of the BOPT.
    pub at: u64,
    /// Generation of a super or map page, number of a batch.
    pub generation: u64,
    /// Identity of the BOPT.
    pub identity: u128,
}

/// The super page.
#[allow(clippy::struct_excessive_bools)] // flags, as on disk
#[derive(Clone, Debug, PartialEq)]
pub struct Super {
    /// Version of the format.
    pub version: u32,
    /// Generation.
    pub generation: u64,
    /// Identity of the BOPT.
    pub identity: u128,
    /// `BORG_REQUIRE`: pages of the BOPT may be newer than the origin.
    pub require: bool,
    /// Whether the map is complete, including dirty bits: a clean stop.
    pub clean: bool,
    /// Whether dirty bits are exact even without a clean stop.
    pub exact: bool,
    /// Whether the first batches in map pages are right: no program that does not maintain them has changed copies.
    pub firsts: bool,
    /// Whether clean copies were not compared with the origin when the session began, and no page was dirty before:
    /// that they differ does not show that the origin was written under dirty pages. Never in version 1.
    pub uncompared: bool,
    /// Incompatible features.
    pub features: u32,
    /// Pages of the BOPT.
    pub pages: u64,
    /// Sectors of the origin.
    pub origin_sectors: u64,
    /// Layout of the BOPT.
    pub layout: Layout,
    /// The area of what was learned, if there is one; never in version 1.
    pub learned: Option<Area>,
    /// Number of sessions of the store so far ([`super::session`]): that of the running one, if there is one.
    pub sessions: u64,
    /// Where the log continues after what the map covers.
    pub anchor: Anchor,
    /// After a clean stop, the sum of the generations of all map pages.
    pub generations: u64,
    /// After a clean stop, pages of the origin and their checksums.
    pub samples: Vec<(u64, u32)>,
    /// After a clean stop, the mark that identifies the origin's state.
    pub mark: Option<Mark>,
    /// Whether both copies of it and of all map pages were written before ([`crate::durable::sector::Part::rewrite`]);
    /// never in version 1.
    pub both_written: bool,
}

/// A place in the log where a batch begins, or will begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The segment; `NONE` if the log is full.
    pub segment: u32,
    /// Offset in it, in pages.
    pub offset: u32,
    /// Number of the batch.
    pub sequence: u64,
}

/// The map page of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapPage {
    /// The segment.
    pub segment: u32,
    /// The batch up to which it covers.
    pub covered: u64,
    /// The batch up to which the log was durable when it was written; 0 in version 1.
    pub log_reaches: u64,
    /// The first batch in the segment, if its copies are as they were appended.
    pub first: Option<u64>,
    /// Contents of the slots: a page, and whether it is dirty.
    pub entries: Vec<Option<(u64, bool)>>,
}

/// The header of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Number of the session of the store in which it was written ([`Super::sessions`]).
    pub session: u64,
    /// The batch up to which all earlier ones were durable when it was written.
    pub durable_before: u64,
    /// Segment in which the log continues after this one; `NONE` if it does not.
    pub next: u32,
    /// The pages of the batch, and their checksums.
    pub entries: Vec<(u64, u32)>,
}

/// State of a copy of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum PageState<T> {
    /// A whole page.
    Whole(T),
    /// Only zeroes.
    Blank,
    /// A page of BORG that is not whole.
    Torn,
    /// A torn page that was invalidated.
    Invalidated,
    /// Something else.
    Foreign,
}

/// The sector that replaces the first one of a torn page.
pub fn invalidated() -> Vec<u8> {
    let mut bytes = vec![0; 512];
    put(&mut bytes, 0, &INVALIDATED);
    bytes
}

impl Super {
    /// The super page of a BOPT that does not exist yet.
    pub fn blank(layout: Layout, pages: u64, origin_sectors: u64) -> Super {
        let segment = if layout.write_buffer > 0 { layout.read_cache } else { NONE };
        Super {
            version: SEALED,
            generation: 0,
            identity: 0,
            require: false,
            clean: false,
            exact: true,
            firsts: false,
            uncompared: false,
            features: 0,
            pages,
            origin_sectors,
            layout,
            learned: None,
            sessions: 0,
            anchor: Anchor { segment, offset: 0, sequence: 1 },
            generations: 0,
            samples: Vec::new(),
            mark: None,
            both_written: false,
        }
    }

    /// Whether some copies are not of version 2 yet; those are not valid.
    pub fn is_upgrading(&self) -> bool {
        self.features & UPGRADING != 0
    }

    /// Where the batches of a segment lie.
    pub fn fill(&self) -> Fill {
        if self.features & SCATTERED == 0 { Fill::InOrder } else { Fill::Anywhere }
    }

    /// Encodes it for the copy at page `at`.
    pub fn encode(&self, at: u64) -> Vec<u8> {
        if self.version == OLD { old::encode_super(self, at) } else { sealed::encode_super(self, at) }
    }
}

impl MapPage {
    /// Encodes it for its copy at page `at` of the BOPT with this super page.
    pub fn encode(&self, disk: &Super, at: u64, generation: u64) -> Vec<u8> {
        let page_id = PageIdentity { at, generation, identity: disk.identity };
        match disk.version {
            OLD => old::encode_map(self, &page_id),
            _ => sealed::encode_map(self, &page_id, disk.both_written),
        }
    }
}

/// Encodes a slot's entry: bit 0 valid, bit 1 dirty, and the page.
fn map_entry(entry: Option<(u64, bool)>) -> [u8; 7] {
    let word = entry.map_or(0, |(page, dirty)| page << 2 | u64::from(dirty) << 1 | 1);
    let [bytes @ .., _] = word.to_le_bytes();
    bytes
}

fn map_entry_of(bytes: &[u8]) -> Option<(u64, bool)> {
    let mut word = [0; 8];
    word[..7].copy_from_slice(bytes);
    let word = u64::from_le_bytes(word);
    (word & 1 == 1).then_some((word >> 2, word & 2 != 0))
}

#[cfg(test)]
mod tests;
