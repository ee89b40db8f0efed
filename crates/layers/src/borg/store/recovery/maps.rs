//! The map pages: reads the newer valid copy of each segment.

use std::ops::Range;

use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, IoError, mutant};

use super::super::format::{MapPage, OLD, PAGE, Super, old, sealed};
use super::super::segments::Segments;
use super::{DiskEntries, DiskEntry, Extras, error, rotten};
use crate::durable::{Choice, CopyState, Pair, region};

/// Map pages of each copy read together: 16 MiB.
const MAPS_AT_ONCE: u32 = if cfg!(test) { 3 } else { 4_096 };

/// The current map page of a segment.
struct Counts {
    page: MapPage,
    generation: u64,
    copy: u64,
    /// The newest generation of any sector of its copies.
    newest: u64,
    /// Whether the other copy is the same.
    twice: bool,
}

impl Counts {
    /// A map page without entries, for one that cannot be read.
    fn nothing(disk: &Super, segment: u32) -> Counts {
        let entries = vec![None; disk.layout.segment as usize];
        let page = MapPage { segment, covered: 0, log_reaches: 0, first: None, entries };
        Counts { page, generation: 0, copy: 0, newest: 0, twice: false }
    }
}

/// Reads the map pages; returns the newest batch that one of them records as durable, and which one.
pub async fn read(
    bopt: &dyn BlockDevice,
    disk: &Super,
    segments: &mut Segments,
    entries: &mut DiskEntries,
    extras: &mut Extras,
) -> Result<Option<(u64, u32)>, IoError> {
    let (mut first, mut reaches) = (0, None);
    while first < disk.layout.segments() {
        let some = first..disk.layout.segments().min(first + MAPS_AT_ONCE);
        let part = |copy| Extent::of_pages(disk.layout.map_page(first, copy), u64::from(some.end - first));
        let copies = [read_copy(bopt, disk, part(0)).await?, read_copy(bopt, disk, part(1)).await?];
        first = some.end;
        let reached = copies[0].look(|one| {
            copies[1].look(|other| decode_some([one, other], disk, some, segments, entries, extras))
        })?;
        reaches = reaches.max(reached);
    }
    Ok(reaches)
}

/// One copy of some map pages. In version 1 a page that cannot be read is not told from a torn one, which is dropped.
async fn read_copy(bopt: &dyn BlockDevice, disk: &Super, at: Extent) -> Result<Buffer, IoError> {
    match region::read_damaged(bopt, at).await? {
        (_, Some(error)) if disk.version == OLD => Err(error),
        (bytes, _) => Ok(bytes),
    }
}

/// The map pages of some segments, in both copies.
fn decode_some(
    bytes: [&[u8]; 2],
    disk: &Super,
    some: Range<u32>,
    segments: &mut Segments,
    entries: &mut DiskEntries,
    extras: &mut Extras,
) -> Result<Option<(u64, u32)>, IoError> {
    let layout = disk.layout;
    let mut reaches = None;
    let pages = bytes[0].chunks_exact(PAGE).zip(bytes[1].chunks_exact(PAGE));
    for (segment, (one, other)) in some.zip(pages) {
        let counts = if disk.version == OLD {
            newer_old(disk, segment, [one, other], extras)?
        } else {
            newer_sealed(disk, segment, [one, other], extras)?
        };
        let Counts { page, generation, copy, newest, twice } = counts;
        let entry = segments.get_mut(segment);
        (entry.generation, entry.copy, entry.covered) = (generation, copy, page.covered);
        if disk.firsts {
            // An empty page may be of the last use of the segment: the log tells its first batch.
            let empty = page.entries.iter().all(Option::is_none);
            entry.first = page.first.map(|first| if empty { u64::MAX } else { first });
        } else {
            entry.flag_changes += u64::from(page.first.is_some());
        }
        segments.set_copies(segment, 1 + u32::from(twice));
        segments.generation = segments.generation.max(newest);
        reaches = reaches.max(Some((page.log_reaches, segment)));
        for (slot, held) in layout.slots_of(segment).zip(page.entries) {
            if let Some((page, dirty)) = held {
                let entry = DiskEntry { slot, dirty, age: (segments.get(segment).covered, generation) };
                entries.add(segments, layout, page, entry)?;
            }
        }
    }
    Ok(reaches)
}

/// A generation, as compared.
fn compared(generation: u64) -> u64 {
    if mutant::is("borg: generations are compared in 8 bits") { generation & 0xff } else { generation }
}

/// In version 1.
fn newer_old(disk: &Super, segment: u32, bytes: [&[u8]; 2], extras: &mut Extras) -> Result<Counts, IoError> {
    let layout = disk.layout;
    let copy =
        |copy: usize| (old::generation_of(bytes[copy]), copy as u64, layout.map_page(segment, copy as u64));
    let decode = |&(_, copy, at): &(u64, u64, u64)| {
        let (generation, page) =
            old::decode_map(at, disk.identity, segment, layout.segment, bytes[copy as usize])?;
        Some(Counts { page, generation, copy, newest: generation, twice: false })
    };
    let newer = usize::from(compared(copy(0).0) < compared(copy(1).0));
    let mut found = decode(&copy(newer));
    if found.is_none() {
        edge("a torn map page: its other copy counts");
        extras.torn.push(copy(newer).2);
        found = decode(&copy(1 - newer));
    }
    found.ok_or_else(|| none_is_whole(disk, segment))
}

fn none_is_whole(disk: &Super, segment: u32) -> IoError {
    let why = format!("found no whole map page of segment {segment}, expected one of its two copies to be");
    error(ErrorKind::Corrupt, Extent::of_pages(disk.layout.map_page(segment, 0), 1), why)
}

/// In version 2.
fn newer_sealed(
    disk: &Super,
    segment: u32,
    bytes: [&[u8]; 2],
    extras: &mut Extras,
) -> Result<Counts, IoError> {
    let at = |copy: usize| disk.layout.map_page(segment, copy as u64);
    let pair = sealed::map_pair(disk.identity, [(at(0), bytes[0]), (at(1), bytes[1])]);
    let copies = &pair.copies;
    let narrow = copies.clone().map(|copy| match copy {
        CopyState::Whole(generation) => CopyState::Whole(compared(generation)),
        copy => copy,
    });
    let copy = match (Pair { copies: narrow, ..pair.clone() }).choose() {
        Choice::Copy(copy) | Choice::Refused(_, Some(copy)) if disk.is_upgrading() => copy,
        Choice::Copy(copy) => copy,
        Choice::Refused(sector, older) => {
            let lost = format!("what segment {segment} got");
            let what = format!("the map page of segment {segment}");
            extras.forgive(rotten(&what, sector, older.map(|older| &copies[older]), &lost))?;
            let Some(older) = older else { return Ok(Counts::nothing(disk, segment)) };
            older
        }
        Choice::Blank | Choice::Neither => {
            extras.forgive(none_is_whole(disk, segment))?;
            return Ok(Counts::nothing(disk, segment));
        }
    };
    let generation = copies[copy].newest().unwrap_or(0);
    let page = sealed::decode_map(segment, disk.layout.segment, bytes[copy])
        .ok_or_else(|| none_is_whole(disk, segment))?;
    let other = &copies[1 - copy];
    if matches!(other, CopyState::Torn(_)) {
        edge("a torn map page: its other copy counts");
    }
    let rotten = matches!(other, CopyState::Rotten(..)) && !disk.is_upgrading();
    extras.maps_written &= pair.is_written || rotten;
    if rotten {
        let there = at(1 - copy);
        let copy = sealed::for_copy(there, generation, disk.identity, bytes[copy]);
        extras.repaired.push((Extent::of_pages(there, 1), copy));
    }
    let torn_stay = mutant::is("borg: torn pages stay");
    let newest = if torn_stay { generation } else { generation.max(other.newest().unwrap_or(0)) };
    Ok(Counts { page, generation, copy: copy as u64, newest, twice: rotten || *other == copies[copy] })
}
