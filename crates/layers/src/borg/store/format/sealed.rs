//! Super and map pages of version 2: each sector is sealed, and no entry crosses a sector boundary.
//!
//! The seals contain the place and generation of a page, and the BOPT of a map page.

use seekless_core::device::Mark;
use seekless_core::{Extent, Lba, PAGE_SECTORS};

use super::super::area::Area;
use super::super::layout::{LARGEST_SEGMENT, Layout};
use super::{
    Anchor, MapPage, PAGE, PageIdentity, SAMPLES, SCATTERED, SEALED, SUPER_2, Super, UPGRADING, invalidated,
};
use crate::bytes::{put, u32_at, u64_at, u128_at};
use crate::durable::sector::{self, Part};
use crate::durable::{CopyState, Pair};

const MAP: [u8; 8] = *b"SKLBORG3";
/// A compatible feature: dirty bits on disk are exact even without a clean stop.
const EXACT: u32 = 1;
/// A compatible feature: map pages name the first batches of segments.
const FIRSTS: u32 = 2;
/// A compatible feature: see [`Super::uncompared`].
const UNCOMPARED: u32 = 4;
const REQUIRE: u32 = 1;
const CLEAN: u32 = 2;
const SUPER_HEAD: usize = 192;
const SAMPLE: usize = 12;
const LEARNED_AT: usize = 120;
const MARK_AT: usize = 144;
const MAP_HEAD: usize = 40;
const MAP_ENTRY: usize = 7;

/// Seal of the sectors of a super page.
fn part_of_super() -> Part {
    Part::of(SUPER_2, 0)
}

/// Seal of the sectors of a BOPT's map pages.
pub fn part_of_map(identity: u128) -> Part {
    Part::of(MAP, identity)
}

fn place(at: u64) -> Extent {
    Extent::of_pages(at, 1)
}

/// Encodes a super page for its copy at page `at`.
pub fn encode_super(page: &Super, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    put(&mut bytes, 0, &SUPER_2);
    let Layout { segment, read_cache, write_buffer } = page.layout;
    let flags = if page.require { REQUIRE } else { 0 } | if page.clean { CLEAN } else { 0 };
    let passed = if page.exact { EXACT } else { 0 }
        | if page.firsts { FIRSTS } else { 0 }
        | if page.uncompared { UNCOMPARED } else { 0 };
    for (word, at) in [SEALED, page.features, passed, flags].iter().zip((8..).step_by(4)) {
        put(&mut bytes, at, &word.to_le_bytes());
    }
    put(&mut bytes, 24, &page.identity.to_le_bytes());
    let Anchor { segment: anchor, offset, sequence } = page.anchor;
    let words = [segment, read_cache, write_buffer, anchor, offset, page.samples.len() as u32];
    for (word, at) in words.iter().zip((40..).step_by(4)) {
        put(&mut bytes, at, &word.to_le_bytes());
    }
    let (cached, logged) = (page.layout.page(0), page.layout.page(page.layout.cached_slots()));
    let numbers =
        [page.pages, page.origin_sectors, cached, logged, page.sessions, sequence, page.generations];
    for (number, at) in numbers.iter().zip((64..).step_by(8)) {
        put(&mut bytes, at, &number.to_le_bytes());
    }
    if let Some(Area { first, pages }) = page.learned {
        put(&mut bytes, LEARNED_AT, &first.to_le_bytes());
        put(&mut bytes, LEARNED_AT + 8, &pages.to_le_bytes());
    }
    if let Some(Mark { inode, bytes: size, modified, changed }) = page.mark {
        for (number, at) in [1, inode, size, modified, changed].iter().zip((MARK_AT..).step_by(8)) {
            put(&mut bytes, at, &u64::to_le_bytes(*number));
        }
    }
    for ((page, sum), at) in page.samples.iter().zip(sector::places(SUPER_HEAD, SAMPLE)) {
        put(&mut bytes, at, &page.to_le_bytes());
        put(&mut bytes, at + 8, &sum.to_le_bytes());
    }
    part_of_super().rewrite(page.both_written).seal(place(at).start, page.generation, &mut bytes);
    bytes
}

/// State of the copy of a super page at page `at`. One that was given up is blank.
pub fn super_copy_state(at: u64, bytes: &[u8]) -> CopyState {
    if bytes.starts_with(&invalidated()) {
        CopyState::Blank
    } else {
        CopyState::of(part_of_super(), place(at), bytes)
    }
}

/// State of both copies of the super page.
pub fn super_pair(pages: [&[u8]; 2]) -> Pair {
    if pages.iter().any(|page| page.starts_with(&invalidated())) {
        let copies = [0, 1].map(|at| super_copy_state(at as u64, pages[at]));
        return Pair { copies, is_written: false };
    }
    Pair::of(part_of_super(), [(place(0), pages[0]), (place(1), pages[1])])
}

/// Decodes the super page of this generation in a whole copy; `Err` with what was found if it is not valid.
pub fn decode_super(generation: u64, bytes: &[u8]) -> Result<Super, String> {
    let word = |at: usize| u32_at(bytes, at);
    let number = |index: usize| u64_at(bytes, 64 + 8 * index);
    if bytes[..8] != SUPER_2 || word(8) != SEALED || word(12) & !(UPGRADING | SCATTERED) != 0 {
        return Err(format!("version {} with features {:#x}", word(8), word(12)));
    }
    let count = word(60) as usize;
    let samples = sector::places(SUPER_HEAD, SAMPLE).take(count.min(SAMPLES));
    let marked = |index: usize| u64_at(bytes, MARK_AT + 8 * index);
    let mark = Mark { inode: marked(1), bytes: marked(2), modified: marked(3), changed: marked(4) };
    let learned = Area { first: u64_at(bytes, LEARNED_AT), pages: u64_at(bytes, LEARNED_AT + 8) };
    let page = Super {
        version: SEALED,
        generation,
        identity: u128_at(bytes, 24),
        require: word(20) & REQUIRE != 0,
        clean: word(20) & CLEAN != 0,
        exact: word(16) & EXACT != 0,
        firsts: word(16) & FIRSTS != 0,
        uncompared: word(16) & UNCOMPARED != 0,
        features: word(12),
        pages: number(0),
        origin_sectors: number(1),
        layout: Layout { segment: word(40), read_cache: word(44), write_buffer: word(48) },
        learned: (learned.pages > 0).then_some(learned),
        sessions: number(4),
        anchor: Anchor { segment: word(52), offset: word(56), sequence: number(5) },
        generations: number(6),
        samples: samples.map(|at| (u64_at(bytes, at), u32_at(bytes, at + 8))).collect(),
        mark: (marked(0) == 1).then_some(mark),
        both_written: Part::is_rewrite(bytes),
    };
    page.ensure_sensible(count)
}

/// Encodes a map page, as a rewrite if both copies of it were written before.
pub fn encode_map(page: &MapPage, page_id: &PageIdentity, both_written: bool) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    let valid = page.entries.iter().flatten().count() as u32;
    put(&mut bytes, 0, &MAP);
    put(&mut bytes, 8, &page.segment.to_le_bytes());
    put(&mut bytes, 12, &valid.to_le_bytes());
    put(&mut bytes, 16, &page.covered.to_le_bytes());
    put(&mut bytes, 24, &page.log_reaches.to_le_bytes());
    put(&mut bytes, 32, &(page.entries.len() as u32).to_le_bytes());
    // The number of batches from the first one in the segment to the last that is covered.
    let batches = page.first.and_then(|first| u32::try_from((page.covered + 1).checked_sub(first)?).ok());
    put(&mut bytes, 36, &batches.unwrap_or(0).to_le_bytes());
    for (entry, at) in page.entries.iter().zip(sector::places(MAP_HEAD, MAP_ENTRY)) {
        put(&mut bytes, at, &super::map_entry(*entry));
    }
    let part = part_of_map(page_id.identity).rewrite(both_written);
    part.seal(place(page_id.at).start, page_id.generation, &mut bytes);
    bytes
}

/// State of the copy of a map page of this BOPT at page `at`.
pub fn map_copy_state(at: u64, identity: u128, bytes: &[u8]) -> CopyState {
    CopyState::of(part_of_map(identity), place(at), bytes)
}

/// State of both copies of a map page of this BOPT, each with the page where it lies.
pub fn map_pair(identity: u128, [one, other]: [(u64, &[u8]); 2]) -> Pair {
    Pair::of(part_of_map(identity), [(place(one.0), one.1), (place(other.0), other.1)])
}

/// Decodes the map page of `segment` with this many slots in a whole copy; `None` if it is of another segment.
pub fn decode_map(segment: u32, slots: u32, bytes: &[u8]) -> Option<MapPage> {
    let ours = bytes[..8] == MAP && u32_at(bytes, 8) == segment && u32_at(bytes, 32) == slots;
    if !ours || u64::from(slots) > LARGEST_SEGMENT {
        return None;
    }
    let places = sector::places(MAP_HEAD, MAP_ENTRY).take(slots as usize);
    let entries: Vec<_> = places.map(|at| super::map_entry_of(&bytes[at..at + MAP_ENTRY])).collect();
    let counted = entries.iter().flatten().count() as u32 == u32_at(bytes, 12);
    let (covered, log_reaches) = (u64_at(bytes, 16), u64_at(bytes, 24));
    let first = (covered + 1).checked_sub(u64::from(u32_at(bytes, 36)));
    let first = first.filter(|first| (1..=covered).contains(first));
    counted.then_some(MapPage { segment, covered, log_reaches, first, entries })
}

/// Reseals a whole page for its other copy, with the same generation: a super page, or a map page of the BOPT with this
/// identity. As a rewrite: if it is torn, the whole page counts, whatever the other one holds.
pub fn for_copy(at: u64, generation: u64, identity: u128, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let part = if bytes[..8] == SUPER_2 { part_of_super() } else { part_of_map(identity) };
    let start: Lba = place(at).start;
    part.rewrite(true).seal(start, generation, &mut bytes);
    debug_assert_eq!(bytes.len() as u64 / 512, PAGE_SECTORS);
    bytes
}
