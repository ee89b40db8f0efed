//! Recovery of a damaged log, for tools: what is whole of it counts, wherever it lies, and the rest is named.
//!
//! The batches of the last session count that no map page covers, and of a damaged batch the pages that match their
//! checksums. A header with one damaged sector is repaired by parity. Of a batch of which nothing is left, the numbers
//! of the others tell; after the last one they do not.
//!
//! An entry is left out only where something is named.

use std::collections::{BTreeMap, BTreeSet};

use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, IoError, checksum};

use super::super::format::batch::{self, MAGIC};
use super::super::format::{BatchHeader, PAGE, SEALED, Super};
use super::super::layout::Layout;
use super::super::map::Slot;
use super::super::segments::Segments;
use super::batches::{FoundBatch, batch_at, logged, replay};
use super::{DiskEntries, Extras, error};
use crate::bytes::{u64_at, u128_at};
use crate::durable::walk::Place;
use crate::durable::{parity, region};

/// A batch of the last session, whole or not.
struct Scanned {
    segment: u32,
    /// The segment that its header names as the next one.
    next: u32,
    /// If no map page covers it.
    batch: Option<FoundBatch>,
    /// Slots whose pages do not match their checksums.
    damaged: BTreeSet<Slot>,
}

/// The log as it was found.
#[derive(Default)]
struct Scan {
    /// By number.
    batches: BTreeMap<u64, Scanned>,
    /// Headers that are damaged beyond their parity: the page, by the number that they seem to have.
    headers: BTreeMap<u64, u64>,
}

impl Scan {
    /// Finds the batches in a segment's bytes. A later session than that of `disk` makes it the current one.
    fn segment(&mut self, bytes: &[u8], disk: &mut Super, segments: &Segments, segment: u32) {
        let start = disk.layout.slots_of(segment).start;
        let repairable = parity::damaged_heads(bytes, MAGIC, batch::entries(SEALED));
        for offset in 0..disk.layout.segment {
            let at = disk.layout.page(start + offset);
            let rest = &bytes[offset as usize * PAGE..];
            let decode = |page: &[u8]| BatchHeader::of_any(at, disk.identity, page);
            let found = decode(&rest[..PAGE]).or_else(|| {
                repairable
                    .contains(&offset)
                    .then(|| parity::head(rest, MAGIC, decode))?
                    .map(|(header, _)| header)
            });
            let Some((sequence, header)) = found else {
                self.damaged_header(&rest[..PAGE], at, disk, segments.get(segment).covered);
                continue;
            };
            if header.session > disk.sessions {
                (disk.sessions, *self) = (header.session, Scan::default());
            }
            let known = self.batches.get(&sequence).is_some_and(|known| known.damaged.is_empty());
            if header.session < disk.sessions || known {
                continue;
            }
            let wanted = sequence > segments.get(segment).covered;
            let batch = wanted.then(|| batch_at(bytes, disk, Place { segment, offset }, sequence)).flatten();
            let damaged = batch.as_ref().map_or_else(BTreeSet::new, |batch| damaged_slots(batch, rest));
            self.batches.insert(sequence, Scanned { segment, next: header.next, batch, damaged });
        }
    }

    /// Records a header of this session that is damaged, as far as it seems to be one.
    fn damaged_header(&mut self, page: &[u8], at: u64, disk: &Super, covered: u64) {
        let (sequence, identity, session) = (u64_at(page, 24), u128_at(page, 32), u64_at(page, 48));
        let seems = page.starts_with(&MAGIC) && (identity, session) == (disk.identity, disk.sessions);
        if seems && sequence > covered {
            self.headers.insert(sequence, at);
        }
    }

    /// The last batch that was durable, as far as others record it.
    fn durable(&self) -> u64 {
        let batches = self.batches.values().filter_map(|scanned| scanned.batch.as_ref());
        batches.map(|batch| batch.page.durable_before).max().unwrap_or(0)
    }

    /// Ranges of numbers of which no batch was found, up to the last one: from `first` on, or between others. Those
    /// that map pages cover for sure are left out.
    fn gaps(&self, first: Option<(u64, u32)>, layout: Layout, segments: &Segments) -> Vec<(u64, u64)> {
        let known = |segment: &u32| logged(layout).contains(segment);
        let covered =
            |segment: u32| Some(segment).filter(known).map_or(0, |segment| segments.get(segment).covered);
        let mut before = first.map(|(number, segment)| (number.saturating_sub(1), segment, segment));
        let mut gaps = Vec::new();
        for (number, here) in self.batches.range(first.map_or(0, |(number, _)| number)..) {
            if let Some((last, segment, next)) = before.filter(|(last, ..)| last + 1 < *number) {
                // All of them lie in the segments of their neighbours.
                let between = segment == here.segment || next == here.segment;
                if !between || covered(segment).min(covered(here.segment)) + 1 < *number {
                    gaps.push((last + 1, number - 1));
                }
            }
            before = Some((*number, here.segment, here.next));
        }
        gaps
    }
}

/// Slots of a batch whose pages do not match their checksums; `bytes` begin with its header.
fn damaged_slots(batch: &FoundBatch, bytes: &[u8]) -> BTreeSet<Slot> {
    if batch.data.is_ok() {
        return BTreeSet::new();
    }
    let pages = bytes.chunks_exact(PAGE).skip(1).zip(&batch.page.entries).zip(batch.at + 1..);
    pages.filter(|((page, (_, sum)), _)| checksum::crc32c(page) != *sum).map(|(_, slot)| slot).collect()
}

/// Applies what can be read of the log; `reached` is the last batch that map pages record as durable. Returns the
/// number of the last batch.
pub async fn scan_log(
    bopt: &dyn BlockDevice,
    disk: &mut Super,
    reached: u64,
    (segments, entries, extras): (&mut Segments, &mut DiskEntries, &mut Extras),
) -> Result<u64, IoError> {
    let (layout, session) = (disk.layout, disk.sessions);
    let mut scan = Scan::default();
    for segment in logged(layout) {
        let first = layout.page(layout.slots_of(segment).start);
        let at = Extent::of_pages(first, u64::from(layout.segment));
        let (bytes, _): (Buffer, _) = region::read_damaged(bopt, at).await?;
        bytes.look(|bytes| scan.segment(bytes, disk, segments, segment));
    }
    if disk.sessions > session && !extras.anchor_lost {
        let why = format!(
            "found batches of session {}, expected those of {session} as the super page says: the newest one is lost",
            disk.sessions
        );
        extras.forgive(error(ErrorKind::Corrupt, Extent::of_pages(0, 2), why))?;
        (disk.clean, extras.anchor_lost) = (false, true);
    }
    let durable = scan.durable().max(reached);
    name_missing(&scan, disk, durable, segments, extras)?;
    for Scanned { segment, batch, damaged, .. } in scan.batches.values() {
        let Some(batch) = batch else { continue };
        // Pages of durable batches may have been overwritten in place since.
        let in_place = segments.get(*segment).first.is_none() && batch.sequence <= durable;
        if in_place && !damaged.is_empty() {
            replay(layout, batch, segments, entries, |_| true)?;
            continue;
        }
        apply(layout, batch, damaged, segments, entries, extras)?;
    }
    let last = scan.batches.keys().next_back().copied();
    Ok(last.unwrap_or(0).max(disk.anchor.sequence.saturating_sub(1)))
}

/// Applies the pages of a batch that are not damaged.
fn apply(
    layout: Layout,
    batch: &FoundBatch,
    damaged: &BTreeSet<Slot>,
    segments: &mut Segments,
    entries: &mut DiskEntries,
    extras: &mut Extras,
) -> Result<(), IoError> {
    let place = |slot| Extent::of_pages(layout.page(slot), 1);
    for (slot, (page, sum)) in (batch.at + 1..).zip(&batch.page.entries) {
        if damaged.contains(&slot) {
            let why = format!(
                "found page {page} of batch {} damaged, expected it whole: it is given up, and an earlier version of it \
                 counts",
                batch.sequence
            );
            extras.forgive(error(ErrorKind::Corrupt, place(slot), why))?;
        } else {
            extras.sums.set(slot, Some(*sum));
        }
    }
    extras.repaired.extend(batch.repaired_header.iter().map(|header| (place(batch.at), header.clone())));
    if let Ok(Some((index, bytes))) = &batch.data {
        extras.repaired.push((place(batch.at + 1 + *index as u32), bytes.clone()));
    }
    replay(layout, batch, segments, entries, |slot| !damaged.contains(&slot))
}

/// Names batches of which nothing is left.
fn name_missing(
    scan: &Scan,
    disk: &Super,
    durable: u64,
    segments: &Segments,
    extras: &mut Extras,
) -> Result<(), IoError> {
    let layout = disk.layout;
    // After a clean stop, the map pages have everything.
    if disk.clean {
        return Ok(());
    }
    let all = Extent::of_pages(
        layout.page(layout.cached_slots()),
        u64::from(layout.write_buffer) * u64::from(layout.segment),
    );
    if extras.anchor_lost {
        // Most of them are where later ones were written, after their entries were in map pages.
        let missing: u64 =
            scan.gaps(None, layout, segments).iter().map(|(first, last)| last - first + 1).sum();
        if missing > 0 {
            let why = format!(
                "found no trace of {missing} batches before the last one, expected them in the log or in the map: \
                 nothing tells whether their pages are"
            );
            extras.forgive(error(ErrorKind::Corrupt, all, why))?;
        }
    } else {
        for (first, last) in scan.gaps(Some((disk.anchor.sequence, disk.anchor.segment)), layout, segments) {
            let which =
                if first == last { format!("batch {first}") } else { format!("batches {first} to {last}") };
            let state = if first <= durable { ", durable before the last one," } else { "" };
            let why = format!(
                "found no {which}, expected all{state} up to the last: the pages of these are given up"
            );
            extras.forgive(error(ErrorKind::Corrupt, all, why))?;
        }
    }
    let last = scan.batches.keys().next_back().copied().unwrap_or(0);
    for (sequence, at) in scan.headers.range(last + 1..) {
        let why = format!(
            "found the header of batch {sequence} damaged, expected it whole: unless it was being written when the power \
             failed, its pages are given up"
        );
        extras.forgive(error(ErrorKind::Corrupt, Extent::of_pages(*at, 1), why))?;
    }
    Ok(())
}
