//! The pages of metadata, as bytes (Table 2): the super page, the map page of a segment, and the page in front of a
//! run in the log.
//!
//! Each has a header: magic, CRC-32C over the page with this field zero, its own address, its generation, and the
//! identity of the BOPT. What is read is followed only if all of that is right, and its numbers make sense.

use seekless_core::device::Mark;
use seekless_core::{PAGE_BYTES, PAGE_SECTORS, mutant};

use super::layout::{LARGEST_SEGMENT, Layout};
use crate::bytes::{put, sum_but, u32_at, u64_at, u128_at};

/// Bytes of a page.
pub const PAGE: usize = PAGE_BYTES as usize;
/// Entries of a run's page.
pub const RUN_ENTRIES: usize = (PAGE - RUN_HEAD) / RUN_ENTRY;
/// Pages of home whose checksums a clean stop leaves.
pub const SAMPLES: usize = 64;
/// No segment.
pub const NONE: u32 = u32::MAX;

const SUPER: [u8; 8] = *b"SKLBORGS";
const MAP: [u8; 8] = *b"SKLBORGM";
const RUN: [u8; 8] = *b"SKLBORGR";
/// A home that was torn, and taken away.
const VOID: [u8; 8] = *b"SKLBORGV";
/// The format. Features that who does not know them must not open there are none; who does not know the others clears
/// them with the first super page that it writes.
const VERSION: u32 = 1;
/// A feature that may be passed by: dirty bits on disk are right also without a clean stop.
const EXACT: u32 = 1;
const SUM: usize = 8;
const MAP_HEAD: usize = PAGE - LARGEST_SEGMENT as usize * MAP_ENTRY;
const MAP_ENTRY: usize = 7;
const RUN_HEAD: usize = 96;
const RUN_ENTRY: usize = 12;
const SAMPLES_AT: usize = 160;
const MARK_AT: usize = SAMPLES_AT + SAMPLES * 12;
/// No generation or run has this number or a higher one: a million a second would take 100,000 years to get there.
const LAST: u64 = 1 << 62;
const REQUIRE: u32 = 1;
const CLEAN: u32 = 2;

/// What every page of metadata begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The page of the BOPT that it is.
    pub at: u64,
    /// Of a super or map page how often one was written before, of a run's page its number.
    pub generation: u64,
    /// Of the BOPT.
    pub identity: u128,
}

/// The super page.
#[derive(Clone, Debug, PartialEq)]
pub struct Super {
    /// How often one was written.
    pub generation: u64,
    /// Of the BOPT.
    pub identity: u128,
    /// `BORG_REQUIRE`: pages of the BOPT may be newer than home.
    pub require: bool,
    /// Nothing has changed since the map was written, dirty bits and all.
    pub clean: bool,
    /// A copy that neither map nor log call dirty is not, also without a clean stop.
    pub exact: bool,
    /// Pages of the BOPT.
    pub pages: u64,
    /// Sectors of home.
    pub home_sectors: u64,
    /// How it is divided.
    pub layout: Layout,
    /// How often something was changed since the BOPT was opened.
    pub opening: u64,
    /// Where the log goes on behind what the map tells.
    pub anchor: Anchor,
    /// Of a clean one, the sum of all generations of map pages.
    pub generations: u64,
    /// Of a clean one, pages of home and their checksums.
    pub samples: Vec<(u64, u32)>,
    /// Of a clean one, by what home is known to be as it was then.
    pub mark: Option<Mark>,
}

/// A place in the log where a run begins, or will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The segment; `NONE` if the log is full.
    pub segment: u32,
    /// How far into it, in pages.
    pub offset: u32,
    /// The number of the run.
    pub sequence: u64,
}

/// The map page of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapPage {
    /// The segment.
    pub segment: u32,
    /// It tells all that runs up to this one have changed.
    pub settled: u64,
    /// What each slot holds: a page, and whether it was newer than home.
    pub entries: Vec<Option<(u64, bool)>>,
}

/// The page in front of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    /// In which it was written.
    pub opening: u64,
    /// All runs up to this one were durable before.
    pub confirmed: u64,
    /// Where the log goes on behind this segment; `NONE` if it does not.
    pub next: u32,
    /// The pages that the run holds, and their checksums.
    pub entries: Vec<(u64, u32)>,
}

/// What a home of a page holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<T> {
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

fn sealed(magic: [u8; 8], head: &Head, mut bytes: Vec<u8>) -> Vec<u8> {
    put(&mut bytes, 0, &magic);
    put(&mut bytes, 16, &head.at.to_le_bytes());
    put(&mut bytes, 24, &head.generation.to_le_bytes());
    put(&mut bytes, 32, &head.identity.to_le_bytes());
    let sum = sum_but(&bytes, SUM);
    put(&mut bytes, SUM, &sum.to_le_bytes());
    bytes
}

/// The head of a page that is whole.
fn opened(magic: [u8; 8], at: u64, bytes: &[u8]) -> Option<Head> {
    let head = Head { at, generation: u64_at(bytes, 24), identity: u128_at(bytes, 32) };
    let whole = bytes.len() == PAGE && bytes[..8] == magic && u64_at(bytes, 16) == at;
    (whole && head.generation < LAST && u32_at(bytes, SUM) == sum_but(bytes, SUM)).then_some(head)
}

/// The sector that takes the first one's place where a page was torn.
pub fn void() -> Vec<u8> {
    let mut bytes = vec![0; 512];
    put(&mut bytes, 0, &VOID);
    bytes
}

impl Super {
    /// That of a BOPT that is not there yet.
    pub fn blank(layout: Layout, pages: u64, home_sectors: u64) -> Super {
        let segment = if layout.write_buffer > 0 { layout.read_cache } else { NONE };
        Super {
            generation: 0,
            identity: 0,
            require: false,
            clean: false,
            exact: true,
            pages,
            home_sectors,
            layout,
            opening: 0,
            anchor: Anchor { segment, offset: 0, sequence: 1 },
            generations: 0,
            samples: Vec::new(),
            mark: None,
        }
    }

    /// Its bytes, for its home at page `at`.
    pub fn encode(&self, at: u64) -> Vec<u8> {
        let mut bytes = vec![0; PAGE];
        let flags = if self.require { REQUIRE } else { 0 } | if self.clean { CLEAN } else { 0 };
        let Layout { segment, read_cache, write_buffer } = self.layout;
        let features = if self.exact { EXACT } else { 0 };
        let words = [flags, VERSION, 0, features, segment, read_cache, write_buffer];
        for (word, at) in words.iter().zip((48..).step_by(4)) {
            put(&mut bytes, at, &word.to_le_bytes());
        }
        let cached = self.layout.page(0);
        let logged = self.layout.page(self.layout.cached_slots());
        let numbers = [
            self.pages,
            self.home_sectors,
            cached,
            logged,
            self.opening,
            self.anchor.sequence,
            self.generations,
        ];
        for (number, at) in numbers.iter().zip((80..).step_by(8)) {
            put(&mut bytes, at, &number.to_le_bytes());
        }
        put(&mut bytes, 136, &self.anchor.segment.to_le_bytes());
        put(&mut bytes, 140, &self.anchor.offset.to_le_bytes());
        put(&mut bytes, 144, &(self.samples.len() as u32).to_le_bytes());
        for ((page, sum), at) in self.samples.iter().zip((SAMPLES_AT..).step_by(12)) {
            put(&mut bytes, at, &page.to_le_bytes());
            put(&mut bytes, at + 8, &sum.to_le_bytes());
        }
        if let Some(Mark { inode, bytes: size, modified, changed }) = self.mark {
            for (number, at) in [1, inode, size, modified, changed].iter().zip((MARK_AT..).step_by(8)) {
                put(&mut bytes, at, &u64::to_le_bytes(*number));
            }
        }
        sealed(SUPER, &Head { at, generation: self.generation, identity: self.identity }, bytes)
    }

    /// What the home at page `at` holds; `Err` with what was found if it is whole and yet cannot be followed.
    pub fn decode(at: u64, bytes: &[u8]) -> Result<Found<Super>, String> {
        let Some(head) = opened(SUPER, at, bytes) else {
            return Ok(match bytes.get(..8) {
                _ if bytes.iter().all(|byte| *byte == 0) => Found::Blank,
                Some(magic) if magic == SUPER => Found::Torn,
                Some(magic) if magic == VOID => Found::Void,
                _ => Found::Foreign,
            });
        };
        let word = |index: usize| u32_at(bytes, 48 + 4 * index);
        let number = |index: usize| u64_at(bytes, 80 + 8 * index);
        if word(1) != VERSION || word(2) != 0 {
            return Err(format!("version {} with features {:#x}", word(1), word(2)));
        }
        let layout = Layout { segment: word(4), read_cache: word(5), write_buffer: word(6) };
        let slots = (u64::from(word(5)) + u64::from(word(6))).saturating_mul(u64::from(word(4)));
        let sample = |index: usize| {
            let at = SAMPLES_AT + 12 * index;
            (u64_at(bytes, at), u32_at(bytes, at + 8))
        };
        let count = u32_at(bytes, 144) as usize;
        let samples: Vec<_> = (0..count.min(SAMPLES)).map(sample).collect();
        let sampled =
            count <= SAMPLES && samples.iter().all(|(page, _)| *page < number(1).div_ceil(PAGE_SECTORS));
        let sizes =
            (1..=LARGEST_SEGMENT).contains(&u64::from(word(4))) && (1..u64::from(u32::MAX)).contains(&slots);
        let anchor = Anchor { segment: u32_at(bytes, 136), offset: u32_at(bytes, 140), sequence: number(5) };
        let follows = anchor.offset <= layout.segment && anchor.sequence < LAST && number(4) < LAST;
        if !sizes || !follows || layout.page(layout.slots()) > number(0) || !sampled {
            let found = format!(
                "{layout:?} in {} pages, {anchor:?}, {count} samples of {} sectors",
                number(0),
                number(1)
            );
            return Err(found);
        }
        let marked = |index: usize| u64_at(bytes, MARK_AT + 8 * index);
        let mark = Mark { inode: marked(1), bytes: marked(2), modified: marked(3), changed: marked(4) };
        Ok(Found::Whole(Super {
            generation: head.generation,
            identity: head.identity,
            require: word(0) & REQUIRE != 0,
            clean: word(0) & CLEAN != 0,
            exact: word(3) & EXACT != 0,
            pages: number(0),
            home_sectors: number(1),
            layout,
            opening: number(4),
            anchor,
            generations: number(6),
            samples,
            mark: (marked(0) == 1).then_some(mark),
        }))
    }
}

impl MapPage {
    /// Its bytes.
    pub fn encode(&self, head: &Head) -> Vec<u8> {
        let mut bytes = vec![0; PAGE];
        let valid = self.entries.iter().flatten().count() as u32;
        put(&mut bytes, 48, &self.segment.to_le_bytes());
        put(&mut bytes, 52, &valid.to_le_bytes());
        put(&mut bytes, 56, &self.settled.to_le_bytes());
        put(&mut bytes, 64, &(self.entries.len() as u32).to_le_bytes());
        for (entry, bytes) in self.entries.iter().zip(bytes[MAP_HEAD..].chunks_exact_mut(MAP_ENTRY)) {
            let word = entry.map_or(0, |(page, dirty)| page << 2 | u64::from(dirty) << 1 | 1);
            bytes.copy_from_slice(&word.to_le_bytes()[..MAP_ENTRY]);
        }
        sealed(MAP, head, bytes)
    }

    /// The generation that a home claims, whole or not.
    pub fn claims(bytes: &[u8]) -> u64 {
        if bytes[..8] == MAP { u64_at(bytes, 24) } else { 0 }
    }

    /// The page of `segment` with so many slots, and its generation; `None` if it is not whole, or of another BOPT.
    pub fn decode(at: u64, identity: u128, segment: u32, slots: u32, bytes: &[u8]) -> Option<(u64, MapPage)> {
        let head = opened(MAP, at, bytes)?;
        let sensible = u32_at(bytes, 48) == segment && u32_at(bytes, 64) == slots;
        if head.identity != identity || !sensible || slots as usize > LARGEST_SEGMENT as usize {
            return None;
        }
        let entry = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..MAP_ENTRY].copy_from_slice(bytes);
            let word = u64::from_le_bytes(word);
            (word & 1 == 1).then_some((word >> 2, word & 2 != 0))
        };
        let entries: Vec<_> =
            bytes[MAP_HEAD..].chunks_exact(MAP_ENTRY).take(slots as usize).map(entry).collect();
        let counted = entries.iter().flatten().count() as u32 == u32_at(bytes, 52);
        counted.then(|| (head.generation, MapPage { segment, settled: u64_at(bytes, 56), entries }))
    }
}

impl RunPage {
    /// Its bytes.
    pub fn encode(&self, head: &Head) -> Vec<u8> {
        let mut bytes = vec![0; PAGE];
        put(&mut bytes, 48, &self.opening.to_le_bytes());
        put(&mut bytes, 56, &self.confirmed.to_le_bytes());
        put(&mut bytes, 64, &self.next.to_le_bytes());
        put(&mut bytes, 68, &(self.entries.len() as u32).to_le_bytes());
        for ((page, sum), bytes) in self.entries.iter().zip(bytes[RUN_HEAD..].chunks_exact_mut(RUN_ENTRY)) {
            put(bytes, 0, &page.to_le_bytes());
            put(bytes, 8, &sum.to_le_bytes());
        }
        if mutant::is("borg: a checksum without its last entry") {
            let last = RUN_HEAD + RUN_ENTRY * self.entries.len().saturating_sub(1);
            let kept = bytes.split_off(last);
            let mut bytes = sealed(RUN, head, bytes);
            bytes.extend(kept);
            return bytes;
        }
        sealed(RUN, head, bytes)
    }

    /// The page of a run, if it is whole and this one.
    pub fn decode(head: &Head, bytes: &[u8]) -> Option<RunPage> {
        let count = u32_at(bytes, 68) as usize;
        if mutant::is("borg: a checksum without its last entry") && count <= RUN_ENTRIES {
            let last = RUN_HEAD + RUN_ENTRY * count.saturating_sub(1);
            let summed = bytes.get(..last)?;
            let told = Head { at: head.at, generation: u64_at(bytes, 24), identity: u128_at(bytes, 32) };
            if told != *head || bytes[..8] != RUN || u32_at(bytes, SUM) != sum_but(summed, SUM) {
                return None;
            }
        } else if opened(RUN, head.at, bytes)? != *head || count > RUN_ENTRIES {
            return None;
        }
        let entry = |bytes: &[u8]| (u64_at(bytes, 0), u32_at(bytes, 8));
        Some(RunPage {
            opening: u64_at(bytes, 48),
            confirmed: u64_at(bytes, 56),
            next: u32_at(bytes, 64),
            entries: bytes[RUN_HEAD..].chunks_exact(RUN_ENTRY).take(count).map(entry).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_super_page_that_is_whole_and_makes_no_sense_is_refused() {
        let layout = Layout { segment: 64, read_cache: 3, write_buffer: 2 };
        // The last page of home, 125, is cut short.
        let mark = Some(Mark { inode: 3, bytes: 512_512, modified: 5, changed: 6 });
        let sound = Super { samples: vec![(125, 7)], mark, ..Super::blank(layout, 400, 1_001) };
        assert_eq!(Super::decode(0, &sound.encode(0)), Ok(Found::Whole(sound.clone())));
        let anchor = Anchor { offset: 65, ..sound.anchor };
        for wrong in [
            Super { samples: vec![(126, 7)], ..sound.clone() },
            Super { pages: 300, ..sound.clone() },
            Super { layout: Layout { segment: 0, ..layout }, ..sound.clone() },
            Super { anchor, ..sound.clone() },
        ] {
            let told = Super::decode(0, &wrong.encode(0)).expect_err("it cannot be");
            assert!(told.contains("pages"), "{told}");
        }
    }
}
