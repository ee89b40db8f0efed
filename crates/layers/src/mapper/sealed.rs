//! The map in the present format: in sealed sectors, in two contiguous copies.
//!
//! A copy is a head (magic, incompatible and compatible features, number of pages, identity, reserve), and an entry of
//! four bytes for each page, none across sectors. Zeroes are a map of generation 0. For which copy is current, and what
//! is refused, see [`crate::durable::pair`]. Opening writes a copy again of which sectors are blank or rotten, and
//! nothing else: the next map has a higher generation than any sector found, so that a torn map does not become whole
//! by another write.

use seekless_core::runtime::{edge, first_number};
use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, IoError, Lba, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, mutant,
};

use super::format::Format;
use super::table::{self, Map, NONE};
use crate::bytes::{put, u32_at, u64_at};
use crate::canary::Canary;
use crate::durable::sector::{self, Part};
use crate::durable::{Choice, CopyState, Pair, region};

const MAGIC: &[u8; 8] = b"SKLMAP02";
/// Magic, features, pages, identity (always zero so far), and reserve.
const HEAD: usize = 48;
const ENTRY: usize = 4;

/// A map read from disk.
pub struct StoredMap {
    /// The map.
    pub map: Map,
    /// Its format, and the state of its copies.
    pub format: Format,
    /// Whether its generation is a later one than its copy has: that of sectors of a torn one.
    pub is_later: bool,
}

fn part() -> Part {
    Part::of(*MAGIC, 0)
}

/// Extent of both copies.
pub fn copies(pages: u64) -> Extent {
    Extent::of_pages(0, 2 * sector::bytes(HEAD, ENTRY, pages).div_ceil(PAGE_BYTES))
}

/// Extent of one copy.
pub fn copy(which: u64, pages: u64) -> Extent {
    let sectors = copies(pages).sectors / 2;
    Extent::new(which * sectors, sectors)
}

/// Encodes a copy, as a rewrite if both were written before.
pub fn encode(map: &Map, which: u64, both_written: bool, canary: &Canary) -> Buffer {
    let pages = map.slots.len() as u64;
    let at = copy(which, pages);
    let mut bytes = vec![0; at.bytes() as usize];
    put(&mut bytes, 0, MAGIC);
    put(&mut bytes, 16, &pages.to_le_bytes());
    let slots = canary.entries(map.generation, &map.slots, NONE);
    for (slot, at) in slots.iter().zip(sector::places(HEAD, ENTRY)) {
        put(&mut bytes, at, &slot.to_le_bytes());
    }
    part().rewrite(both_written).seal(at.start, map.generation, &mut bytes);
    Buffer::from_vec(bytes)
}

/// The number of pages of a copy, if its first sector is one; otherwise what was found.
fn page_count(copy: &[u8]) -> Result<Option<u64>, String> {
    let features = u32_at(copy, 8);
    match copy.starts_with(MAGIC) {
        true if features != 0 => Err(format!("a map with features {features:#x}")),
        ours => Ok(ours.then(|| u64_at(copy, 16))),
    }
}

/// Decodes the map in whole sectors.
fn decode(copy: &[u8], generation: u64, pages: u64, slots: u64) -> Option<Map> {
    let entries = sector::places(HEAD, ENTRY).take(pages as usize).map(|at| u32_at(copy, at)).collect();
    if page_count(copy) == Ok(Some(pages)) { table::checked(generation, entries, slots) } else { None }
}

/// Both copies, and their states.
struct Read {
    pages: u64,
    bytes: [Buffer; 2],
    pair: Pair,
    /// The first error of a sector that cannot be read, if any.
    unreadable: Option<IoError>,
}

impl Read {
    async fn of(below: &dyn BlockDevice, pages: u64) -> Result<Read, IoError> {
        let read = async |which| region::read_damaged(below, copy(which, pages)).await;
        let ((one, error), (other, second)) = (read(0).await?, read(1).await?);
        let (bytes, unreadable) = ([one, other], error.or(second));
        let at = [copy(0, pages), copy(1, pages)];
        // For a mutant: the sector with the last entry may be of another map.
        let cut = if mutant::is("mapper: a checksum without its last entry") { SECTOR_BYTES } else { 0 };
        let used = (sector::bytes(HEAD, ENTRY, pages) - cut).max(SECTOR_BYTES) as usize;
        let used = if cut == 0 { at[0].bytes() as usize } else { used };
        let mut pair = bytes[0].look(|one| {
            bytes[1].look(|other| Pair::of(part(), [(at[0], &one[..used]), (at[1], &other[..used])]))
        });
        if mutant::is("mapper: generations are compared in 8 bits") {
            for copy in &mut pair.copies {
                if let CopyState::Whole(generation) = copy {
                    *generation &= 0xff;
                }
            }
        }
        Ok(Read { pages, bytes, pair, unreadable })
    }

    /// Whether the map is in sealed sectors, or will be.
    fn is_ours(&self) -> bool {
        let blank = self.pair.copies.iter().all(|copy| *copy == CopyState::Blank);
        blank || self.pair.copies.iter().any(|copy| copy.newest().is_some())
    }

    /// Chooses the current copy; with `older`, if that is refused, the one before.
    fn chosen(&self, older: bool, canary: &Canary) -> Result<Option<usize>, IoError> {
        let corrupt =
            |at: Extent, why: String| Err(IoError::new(ErrorKind::Corrupt, "mapper", Some(at), why));
        match self.pair.choose() {
            Choice::Blank => Ok(None),
            Choice::Copy(which) => {
                let torn = matches!(self.pair.copies[1 - which], CopyState::Torn(_) | CopyState::Rotten(..));
                if torn {
                    edge("a torn copy of the map: the other counts");
                }
                let accepted = torn && canary.is("torn metadata accepted");
                Ok(Some(if accepted { 1 - which } else { which }))
            }
            Choice::Refused(_, Some(which)) if older => Ok(Some(which)),
            Choice::Refused(sector, Some(which)) => {
                let older_one = self.pair.copies[which].newest().unwrap_or(0);
                corrupt(
                    Extent::new(sector.0, 1),
                    format!(
                        "found a sector of the map that is not as it was written, expected it whole: what was flushed \
                         after generation {older_one} may be lost; `older = true` opens that one, read-only"
                    ),
                )
            }
            Choice::Refused(sector, None) => corrupt(
                Extent::new(sector.0, 1),
                "found no map that is whole, expected one of two".to_owned(),
            ),
            Choice::Neither => {
                corrupt(copies(self.pages), "found no map that is whole, expected one of two".to_owned())
            }
        }
    }
}

/// The current map; `None` if it is not in sealed sectors. With `older`, a refused map is replaced by the one before.
pub async fn read(
    below: &dyn BlockDevice,
    pages: u64,
    older: bool,
    canary: &Canary,
) -> Result<Option<StoredMap>, IoError> {
    let there = below.geometry().sectors;
    let (first, _) = region::read_damaged(below, Extent::new(0, 1)).await?;
    let sealed = first.look(|bytes| part().look(Lba(0), bytes));
    if let sector::Sector::Whole(_) = sealed {
        let found = match first.look(page_count) {
            Ok(Some(page_count)) if page_count == pages => None,
            Ok(page_count) => Some(format!("a map of {} pages", page_count.unwrap_or(0))),
            Err(found) => Some(found),
        };
        if let Some(found) = found {
            return Err(refused(pages, &found));
        }
    }
    if copies(pages).end().0 >= there {
        return Ok(None);
    }
    let read = Read::of(below, pages).await?;
    if !read.is_ours() {
        // In the first format a copy that cannot be read is not told from a torn one, which is dropped.
        return read.unreadable.map_or(Ok(None), Err);
    }
    let slots = slots(there, pages);
    let Some(which) = read.chosen(older, canary)? else {
        edge("zeroes where no map was written: a volume of zeroes");
        // A torn first map is not completed by the next one.
        let generation = first_number().max(read.pair.newest());
        let map =
            Map { generation, slots: vec![NONE; pages as usize], free: (0..slots as u32).rev().collect() };
        let format = Format::Sealed { copy: 0, copied: false, is_new: true, both_written: false };
        return Ok(Some(StoredMap { map, format, is_later: true }));
    };
    let newest = read.pair.newest();
    let map = read.bytes[which].look(|bytes| decode(bytes, newest, pages, slots));
    let map = map.ok_or_else(|| refused(pages, "no map that is whole"))?;
    let copied = read.pair.copies[0] == read.pair.copies[1];
    let is_later = read.pair.copies[which].newest() != Some(newest);
    let both_written = read.pair.is_written;
    let format = Format::Sealed { copy: which as u64, copied, is_new: false, both_written };
    Ok(Some(StoredMap { map, format, is_later }))
}

fn refused(pages: u64, found: &str) -> IoError {
    let why = format!("found {found}, expected one of {pages} pages, or zeroes");
    IoError::new(ErrorKind::Corrupt, "mapper", Some(copies(pages)), why)
}

/// Slots after the copies, on a device of `sectors` sectors.
pub fn slots(sectors: u64, pages: u64) -> u64 {
    (sectors.saturating_sub(copies(pages).sectors) / PAGE_SECTORS).min(u64::from(NONE))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A written copy is read again; a damaged one is not whole.
        #[test]
        fn a_copy_is_read_as_written_or_not_whole(
            generation in 1..sector::LAST,
            pages in 1..3_000_u64,
            which in 0..2_u64,
            damage in proptest::option::of((any::<prop::sample::Index>(), 1..=255_u8)),
        ) {
            let slots: Vec<u32> = (0..pages as u32).map(|page| if page % 3 == 0 { NONE } else { page }).collect();
            let free = (0..pages as u32).rev().filter(|slot| slot % 3 == 0).collect();
            let map = Map { generation, slots, free };
            let mut bytes = encode(&map, which, true, &Canary::default()).to_vec();
            if let Some((at, change)) = &damage {
                let at = at.index(bytes.len());
                bytes[at] ^= change;
                let rotten = copy(which, pages).start + at as u64 / SECTOR_BYTES;
                let found = CopyState::of(part(), copy(which, pages), &bytes);
                let alone = bytes.len() == SECTOR_BYTES as usize;
                prop_assert_eq!(found, CopyState::Rotten(rotten, (!alone).then_some(generation)));
            } else {
                prop_assert_eq!(CopyState::of(part(), copy(which, pages), &bytes), CopyState::Whole(generation));
                prop_assert_eq!(decode(&bytes, generation, pages, pages), Some(map));
                prop_assert_eq!(decode(&bytes, generation, pages + 1, pages), None);
            }
        }
    }

    #[test]
    fn a_slot_that_is_not_there_or_holds_two_pages_is_not_followed() {
        let decoded = |slots: &[u32], there| {
            let map = Map { generation: 1, slots: slots.to_vec(), free: VecDeque::new() };
            let bytes = encode(&map, 0, false, &Canary::default()).to_vec();
            decode(&bytes, 1, slots.len() as u64, there)
        };
        assert!(decoded(&[0, 1, 2], 3).is_some() && decoded(&[0, NONE, NONE], 1).is_some());
        assert!(decoded(&[0, 1, 3], 3).is_none() && decoded(&[0, 1, 1], 3).is_none());
    }
}
