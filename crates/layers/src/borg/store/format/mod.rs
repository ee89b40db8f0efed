//! The pages of metadata, as bytes (Table 2): the super page, the map page of a segment, and the page in front of a
//! batch in the log.
//!
//! Two versions: of the first, each page has one checksum ([`old`]); of the second, each sector of super and map pages
//! is sealed ([`sealed`]), and the page of a batch has parity ([`batch`]). What is read is followed only if all of that
//! is right, and its numbers make sense.

pub mod batch;
pub mod old;
pub mod sealed;

use seekless_core::PAGE_BYTES;
use seekless_core::device::Mark;

use super::layout::Layout;
use crate::bytes::put;

/// Bytes of a page.
pub const PAGE: usize = PAGE_BYTES as usize;
/// Pages of the origin whose checksums a clean stop leaves.
pub const SAMPLES: usize = 64;
/// No segment.
pub const NONE: u32 = u32::MAX;
/// The version with a checksum a page.
pub const OLD: u32 = 1;
/// The version with sealed sectors: that of all that is new.
pub const SEALED: u32 = 2;

/// A feature that must not be passed by: copies that are not of version 2 are left from version 1, and do not count.
pub const UPGRADING: u32 = 1;

/// What super pages of version 2 begin with.
pub const SUPER_2: [u8; 8] = *b"SKLBORG2";
/// A copy that was torn, and taken away; or given up.
const VOID: [u8; 8] = *b"SKLBORGV";
/// No generation or batch has this number or a higher one: a million a second would take 100,000 years to get there.
const LAST: u64 = crate::durable::sector::LAST;

/// Which page of metadata it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The page of the BOPT that it is.
    pub at: u64,
    /// Of a super or map page how often one was written before, of a batch's page its number.
    pub generation: u64,
    /// Of the BOPT.
    pub identity: u128,
}

/// The super page.
#[derive(Clone, Debug, PartialEq)]
pub struct Super {
    /// How the BOPT is written.
    pub version: u32,
    /// How often one was written.
    pub generation: u64,
    /// Of the BOPT.
    pub identity: u128,
    /// `BORG_REQUIRE`: pages of the BOPT may be newer than the origin.
    pub require: bool,
    /// Nothing has changed since the map was written, dirty bits and all.
    pub clean: bool,
    /// A copy that neither map nor log call dirty is not, also without a clean stop.
    pub exact: bool,
    /// Features that who does not know them must not open.
    pub features: u32,
    /// Pages of the BOPT.
    pub pages: u64,
    /// Sectors of the origin.
    pub origin_sectors: u64,
    /// How it is divided.
    pub layout: Layout,
    /// How often something was changed since the BOPT was opened.
    pub opening: u64,
    /// Where the log goes on behind what the map tells.
    pub anchor: Anchor,
    /// Of a clean one, the sum of all generations of map pages.
    pub generations: u64,
    /// Of a clean one, pages of the origin and their checksums.
    pub samples: Vec<(u64, u32)>,
    /// Of a clean one, by what the origin is known to be as it was then.
    pub mark: Option<Mark>,
}

/// A place in the log where a batch begins, or will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The segment; `NONE` if the log is full.
    pub segment: u32,
    /// How far into it, in pages.
    pub offset: u32,
    /// The number of the batch.
    pub sequence: u64,
}

/// The map page of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapPage {
    /// The segment.
    pub segment: u32,
    /// It tells all that batches up to this one have changed.
    pub committed: u64,
    /// Batches up to this one were durable in the log when it was written; 0 in version 1.
    pub reaches: u64,
    /// What each slot holds: a page, and whether it was newer than the origin.
    pub entries: Vec<Option<(u64, bool)>>,
}

/// The page in front of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPage {
    /// In which it was written.
    pub opening: u64,
    /// All batches up to this one were durable before.
    pub stable: u64,
    /// Where the log goes on behind this segment; `NONE` if it does not.
    pub next: u32,
    /// The pages that the batch holds, and their checksums.
    pub entries: Vec<(u64, u32)>,
}

/// What a copy of a page holds.
#[derive(Clone, Debug, PartialEq)]
pub enum PageState<T> {
    /// A page that is whole.
    Whole(T),
    /// Only zeroes.
    Blank,
    /// Something of ours that is not whole.
    Torn,
    /// What was torn, taken away.
    Void,
    /// Something else.
    Foreign,
}

/// The sector that takes the first one's place where a page was torn.
pub fn void() -> Vec<u8> {
    let mut bytes = vec![0; 512];
    put(&mut bytes, 0, &VOID);
    bytes
}

impl Super {
    /// That of a BOPT that is not there yet.
    pub fn blank(layout: Layout, pages: u64, origin_sectors: u64) -> Super {
        let segment = if layout.write_buffer > 0 { layout.read_cache } else { NONE };
        Super {
            version: SEALED,
            generation: 0,
            identity: 0,
            require: false,
            clean: false,
            exact: true,
            features: 0,
            pages,
            origin_sectors,
            layout,
            opening: 0,
            anchor: Anchor { segment, offset: 0, sequence: 1 },
            generations: 0,
            samples: Vec::new(),
            mark: None,
        }
    }

    /// Whether not all copies are of version 2 yet; those that are not do not count.
    pub fn is_upgrading(&self) -> bool {
        self.features & UPGRADING != 0
    }

    /// Its bytes, for its copy at page `at`.
    pub fn encode(&self, at: u64) -> Vec<u8> {
        if self.version == OLD { old::encode_super(self, at) } else { sealed::encode_super(self, at) }
    }
}

impl MapPage {
    /// Its bytes.
    pub fn encode(&self, version: u32, head: &Head) -> Vec<u8> {
        match version {
            OLD => old::encode_map(self, head),
            _ => sealed::encode_map(self, head.at, head.generation, head.identity),
        }
    }
}

/// What a slot holds, as bytes: bit 0 valid, bit 1 dirty, and the page.
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
