//! Super and map pages of version 1, with one checksum per page.
//!
//! Each has a header: magic, CRC-32C over the page with this field zero, its own address, its generation, and the
//! identity of the BOPT. A volume of this version keeps it, and stays readable by the program that made it.

use seekless_core::PAGE_SECTORS;
use seekless_core::device::Mark;

use super::super::layout::{LARGEST_SEGMENT, Layout};
use super::{
    Anchor, INVALIDATED, LAST, MapPage, OLD, PAGE, PageIdentity, PageState, SAMPLES, SUPER_2, Super,
};
use crate::bytes::{put, sum_but, u32_at, u64_at, u128_at};
use crate::durable;

const SUPER: [u8; 8] = *b"SKLBORGS";
const MAP: [u8; 8] = *b"SKLBORGM";
/// A compatible feature: dirty bits on disk are exact even without a clean stop.
const EXACT: u32 = 1;
const REQUIRE: u32 = 1;
const CLEAN: u32 = 2;
const SUM: usize = 8;
const MAP_HEAD: usize = PAGE - LARGEST_SEGMENT as usize * MAP_ENTRY;
const MAP_ENTRY: usize = 7;
const SAMPLES_AT: usize = 160;
const MARK_AT: usize = SAMPLES_AT + SAMPLES * 12;

/// Adds the header to a page; the checksum covers `bytes`.
pub fn sealed(magic: [u8; 8], page_id: &PageIdentity, bytes: &mut [u8]) {
    put(bytes, 0, &magic);
    put(bytes, 16, &page_id.at.to_le_bytes());
    put(bytes, 24, &page_id.generation.to_le_bytes());
    put(bytes, 32, &page_id.identity.to_le_bytes());
    let sum = sum_but(bytes, SUM);
    put(bytes, SUM, &sum.to_le_bytes());
}

/// The header of a whole page.
pub fn opened(magic: [u8; 8], at: u64, bytes: &[u8]) -> Option<PageIdentity> {
    let page_id = PageIdentity { at, generation: u64_at(bytes, 24), identity: u128_at(bytes, 32) };
    let whole = bytes.len() > SUM + 4 && bytes[..8] == magic && u64_at(bytes, 16) == at;
    (whole && page_id.generation < LAST && u32_at(bytes, SUM) == sum_but(bytes, SUM)).then_some(page_id)
}

/// Encodes a super page for its copy at page `at`.
pub fn encode_super(page: &Super, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    let flags = if page.require { REQUIRE } else { 0 } | if page.clean { CLEAN } else { 0 };
    let Layout { segment, read_cache, write_buffer } = page.layout;
    let features = if page.exact { EXACT } else { 0 };
    let words = [flags, OLD, 0, features, segment, read_cache, write_buffer];
    for (word, at) in words.iter().zip((48..).step_by(4)) {
        put(&mut bytes, at, &word.to_le_bytes());
    }
    let cached = page.layout.page(0);
    let logged = page.layout.page(page.layout.cached_slots());
    let numbers = [
        page.pages,
        page.origin_sectors,
        cached,
        logged,
        page.sessions,
        page.anchor.sequence,
        page.generations,
    ];
    for (number, at) in numbers.iter().zip((80..).step_by(8)) {
        put(&mut bytes, at, &number.to_le_bytes());
    }
    put(&mut bytes, 136, &page.anchor.segment.to_le_bytes());
    put(&mut bytes, 140, &page.anchor.offset.to_le_bytes());
    put(&mut bytes, 144, &(page.samples.len() as u32).to_le_bytes());
    for ((page, sum), at) in page.samples.iter().zip((SAMPLES_AT..).step_by(12)) {
        put(&mut bytes, at, &page.to_le_bytes());
        put(&mut bytes, at + 8, &sum.to_le_bytes());
    }
    if let Some(Mark { inode, bytes: size, modified, changed }) = page.mark {
        for (number, at) in [1, inode, size, modified, changed].iter().zip((MARK_AT..).step_by(8)) {
            put(&mut bytes, at, &u64::to_le_bytes(*number));
        }
    }
    sealed(SUPER, &PageIdentity { at, generation: page.generation, identity: page.identity }, &mut bytes);
    bytes
}

/// State of the copy at page `at`; `Err` with what was found if it is whole but not valid.
pub fn decode_super(at: u64, bytes: &[u8]) -> Result<PageState<Super>, String> {
    let Some(page_id) = opened(SUPER, at, bytes) else {
        return Ok(match bytes.get(..8) {
            _ if bytes.iter().all(|byte| *byte == 0) || durable::is_unfinished(bytes) => PageState::Blank,
            Some(magic) if magic == SUPER || magic == SUPER_2 => PageState::Torn,
            Some(magic) if magic == INVALIDATED => PageState::Invalidated,
            _ => PageState::Foreign,
        });
    };
    let word = |index: usize| u32_at(bytes, 48 + 4 * index);
    let number = |index: usize| u64_at(bytes, 80 + 8 * index);
    if word(1) != OLD || word(2) != 0 {
        return Err(format!("version {} with features {:#x}", word(1), word(2)));
    }
    let sample = |index: usize| {
        let at = SAMPLES_AT + 12 * index;
        (u64_at(bytes, at), u32_at(bytes, at + 8))
    };
    let count = u32_at(bytes, 144) as usize;
    let marked = |index: usize| u64_at(bytes, MARK_AT + 8 * index);
    let mark = Mark { inode: marked(1), bytes: marked(2), modified: marked(3), changed: marked(4) };
    let page = Super {
        version: OLD,
        generation: page_id.generation,
        identity: page_id.identity,
        require: word(0) & REQUIRE != 0,
        clean: word(0) & CLEAN != 0,
        exact: word(3) & EXACT != 0,
        firsts: false,
        uncompared: false,
        features: 0,
        pages: number(0),
        origin_sectors: number(1),
        layout: Layout { segment: word(4), read_cache: word(5), write_buffer: word(6) },
        learned: None,
        sessions: number(4),
        anchor: Anchor { segment: u32_at(bytes, 136), offset: u32_at(bytes, 140), sequence: number(5) },
        generations: number(6),
        samples: (0..count.min(SAMPLES)).map(sample).collect(),
        mark: (marked(0) == 1).then_some(mark),
        both_written: false,
    };
    page.ensure_sensible(count).map(PageState::Whole)
}

/// Encodes a map page.
pub fn encode_map(page: &MapPage, page_id: &PageIdentity) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    let valid = page.entries.iter().flatten().count() as u32;
    put(&mut bytes, 48, &page.segment.to_le_bytes());
    put(&mut bytes, 52, &valid.to_le_bytes());
    put(&mut bytes, 56, &page.covered.to_le_bytes());
    put(&mut bytes, 64, &(page.entries.len() as u32).to_le_bytes());
    for (entry, bytes) in page.entries.iter().zip(bytes[MAP_HEAD..].chunks_exact_mut(MAP_ENTRY)) {
        bytes.copy_from_slice(&super::map_entry(*entry));
    }
    sealed(MAP, page_id, &mut bytes);
    bytes
}

/// The generation in a copy of a map page, whole or not.
pub fn generation_of(bytes: &[u8]) -> u64 {
    if bytes[..8] == MAP { u64_at(bytes, 24) } else { 0 }
}

/// Decodes the map page of `segment` with this many slots, and its generation; `None` if it is not whole, or of another
/// BOPT.
pub fn decode_map(at: u64, identity: u128, segment: u32, slots: u32, bytes: &[u8]) -> Option<(u64, MapPage)> {
    let page_id = opened(MAP, at, bytes)?;
    let sensible = u32_at(bytes, 48) == segment && u32_at(bytes, 64) == slots;
    if page_id.identity != identity || !sensible || slots as usize > LARGEST_SEGMENT as usize {
        return None;
    }
    let entries: Vec<_> =
        bytes[MAP_HEAD..].chunks_exact(MAP_ENTRY).take(slots as usize).map(super::map_entry_of).collect();
    let counted = entries.iter().flatten().count() as u32 == u32_at(bytes, 52);
    let page = || MapPage { segment, covered: u64_at(bytes, 56), log_reaches: 0, first: None, entries };
    counted.then(|| (page_id.generation, page()))
}

impl Super {
    /// Fails if a whole page makes no sense; `count` is its number of samples.
    pub fn ensure_sensible(self, count: usize) -> Result<Super, String> {
        let Layout { segment, read_cache, write_buffer } = self.layout;
        let origin = self.origin_sectors.div_ceil(PAGE_SECTORS);
        let sampled = count <= SAMPLES && self.samples.iter().all(|(page, _)| *page < origin);
        let slots = (u64::from(read_cache) + u64::from(write_buffer)).saturating_mul(u64::from(segment));
        let sizes =
            (1..=LARGEST_SEGMENT).contains(&u64::from(segment)) && (1..u64::from(u32::MAX)).contains(&slots);
        let follows = self.anchor.offset <= segment && self.anchor.sequence < LAST && self.sessions < LAST;
        let reserved = sizes && self.learned.is_none_or(|area| area.fits(self.layout));
        if reserved && follows && self.layout.page(self.layout.slots()) <= self.pages && sampled {
            return Ok(self);
        }
        let Super { layout, learned, pages, anchor, origin_sectors, sessions, .. } = self;
        Err(format!(
            "{layout:?} with {learned:?} in {pages} pages, {anchor:?}, {sessions} sessions, {count} samples of {origin_sectors} sectors"
        ))
    }
}
