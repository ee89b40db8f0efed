//! Recovery of the log: the batches from the super page's anchor up to the first that is missing or not whole.
//!
//! In version 2, a batch with one rotten sector is repaired by its parity. Two damaged sectors are taken for a batch
//! that was being written at a power failure, unless a later one records that it was durable: then the log is damaged.

use std::collections::BTreeMap;

use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, IoError, checksum, mutant};

use super::super::format::batch::MAGIC;
use super::super::format::{Anchor, BatchHeader, OLD, PAGE, PageIdentity, Super};
use super::super::layout::Layout;
use super::super::map::Slot;
use super::super::segments::Segments;
use super::{DiskEntries, DiskEntry, Extras, error};
use crate::durable::walk::{Fill, Place, Record, Walk, walk};
use crate::durable::{parity, region};
use crate::join::join_all;

/// Segments after the end of the log whose first page is checked for later batches.
const LOOKED_AT: u32 = 16;

/// A batch found on disk.
pub(super) struct FoundBatch {
    pub sequence: u64,
    /// The slot of its header.
    pub at: Slot,
    pub page: BatchHeader,
    /// The segment in which the log continues, if that is one of the log.
    next: Option<u32>,
    /// Its header, if that was repaired.
    pub repaired_header: Option<Vec<u8>>,
    /// Whether its pages match the checksums of the header: all, or all after one was repaired, which is returned.
    pub data: Result<Option<(usize, Vec<u8>)>, ()>,
}

impl Record for FoundBatch {
    fn pages(&self) -> u32 {
        self.page.entries.len() as u32
    }

    fn next(&self) -> Option<u32> {
        self.next
    }

    fn durable_before(&self) -> u64 {
        self.page.durable_before
    }
}

/// A segment as read.
struct SegmentBytes {
    segment: u32,
    bytes: Buffer,
    /// Offsets of headers by the numbers of their batches; empty where batches follow each other.
    headers: BTreeMap<u64, u32>,
}

impl SegmentBytes {
    async fn read(bopt: &dyn BlockDevice, disk: &Super, segment: u32) -> Result<SegmentBytes, IoError> {
        let first = disk.layout.page(disk.layout.slots_of(segment).start);
        let at = Extent::of_pages(first, u64::from(disk.layout.segment));
        // In version 1 a batch that cannot be read is not told from one that was never written.
        let bytes = match region::read_damaged(bopt, at).await? {
            (_, Some(error)) if disk.version == OLD => return Err(error),
            (bytes, _) => bytes,
        };
        let headers = bytes.look(|bytes| {
            let pages = (0..).zip(bytes.chunks_exact(PAGE)).filter(|_| disk.fill() == Fill::Anywhere);
            let header = |(offset, page): (u32, &[u8])| {
                // A batch that an earlier session lost has a number that was given again.
                let (sequence, header) = BatchHeader::of_any(first + u64::from(offset), disk.identity, page)?;
                (header.session == disk.sessions).then_some((sequence, offset))
            };
            pages.filter_map(header).collect()
        });
        Ok(SegmentBytes { segment, bytes, headers })
    }

    /// The batch of this number: at `offset`, or anywhere.
    fn find(&self, disk: &Super, offset: u32, sequence: u64) -> Option<FoundBatch> {
        let segment = self.segment;
        self.bytes.look(|bytes| {
            let at = |offset| batch_at(bytes, disk, Place { segment, offset }, sequence);
            let in_order = mutant::is("borg: a batch is only looked for behind the last one");
            match (disk.fill(), self.headers.get(&sequence)) {
                (Fill::InOrder, _) => at(offset),
                (Fill::Anywhere, Some(found)) if in_order && *found != offset => None,
                (Fill::Anywhere, Some(offset)) => at(*offset),
                // Its header may be damaged.
                (Fill::Anywhere, None) => (0..disk.layout.segment).find_map(at),
            }
        })
    }
}

/// The batch of this number at a place of a segment, if it is there.
pub(super) fn batch_at(bytes: &[u8], disk: &Super, place: Place, sequence: u64) -> Option<FoundBatch> {
    let at = disk.layout.slots_of(place.segment).start + place.offset;
    let page_id = PageIdentity { at: disk.layout.page(at), generation: sequence, identity: disk.identity };
    let rest = &bytes[place.offset as usize * PAGE..];
    let decode = |bytes: &[u8]| {
        BatchHeader::decode(disk.version, &page_id, bytes).filter(|page| page.session == disk.sessions)
    };
    let (page, repaired_header) = match disk.version {
        OLD => decode(&rest[..PAGE]).map(|page| (page, None))?,
        _ => parity::head(rest, MAGIC, decode)?,
    };
    let record = rest.get(..(1 + page.entries.len()) * PAGE)?;
    let sums: Vec<u32> = page.entries.iter().map(|(_, sum)| *sum).collect();
    let data = match (&repaired_header, disk.version) {
        (_, OLD) => match_sums(record, &sums),
        (None, _) => parity::page(record, &sums),
        (Some(header), _) => parity::page(&[header, &record[PAGE..]].concat(), &sums),
    };
    let next = Some(page.next).filter(|next| logged(disk.layout).contains(next));
    Some(FoundBatch { sequence, at, page, next, repaired_header, data })
}

/// Segments of the log.
pub(super) fn logged(layout: Layout) -> std::ops::Range<u32> {
    layout.read_cache..layout.segments()
}

/// Whether pages have these checksums, without parity.
fn match_sums(record: &[u8], sums: &[u32]) -> Result<Option<(usize, Vec<u8>)>, ()> {
    let equal = record.chunks_exact(PAGE).skip(1).map(checksum::crc32c).eq(sums.iter().copied());
    equal.then_some(None).ok_or(())
}

/// Walks the log from its anchor, and returns the number of the last valid batch.
pub async fn walk_log(
    bopt: &dyn BlockDevice,
    disk: &Super,
    segments: &mut Segments,
    entries: &mut DiskEntries,
    extras: &mut Extras,
) -> Result<u64, IoError> {
    let layout = disk.layout;
    let (walk, last) = find_all(bopt, disk).await?;
    let before = disk.anchor.sequence.saturating_sub(1);
    let (durable, end) = (walk.durable(), walk.end.zip(last));
    let mut batches = walk.records;
    // Pages of durable batches, or covered by the segment's map page, may have been overwritten in place since.
    let known = |batch: &FoundBatch| {
        batch.sequence <= durable || batch.sequence <= segments.get(layout.segment_of(batch.at).0).covered
    };
    let as_appended = |batch: &FoundBatch| segments.get(layout.segment_of(batch.at).0).first.is_some();
    let count = batches.iter().take_while(|batch| known(batch) || batch.data.is_ok()).count();
    if count < batches.len() {
        edge("the log ends with an incomplete batch");
    } else if let Some(end) = end.filter(|_| disk.version != OLD && !disk.clean) {
        ensure_log_ends_here(bopt, disk, end, before + count as u64 + 1).await?;
    }
    for batch in &batches[..count] {
        let page = |slot| Extent::of_pages(layout.page(slot), 1);
        extras.repaired.extend(batch.repaired_header.iter().map(|header| (page(batch.at), header.clone())));
        if let (Ok(Some((index, bytes))), true) = (&batch.data, as_appended(batch) || !known(batch)) {
            extras.repaired.push((page(batch.at + 1 + *index as u32), bytes.clone()));
        }
    }
    // Even for pages that may have been overwritten in place, if the checksums match what is there now.
    let matches =
        |batch: &FoundBatch| matches!(batch.data, Ok(None)) || (batch.data.is_ok() && !known(batch));
    for batch in batches[..count].iter().filter(|batch| as_appended(batch) || matches(batch)) {
        for (slot, (_, sum)) in (batch.at + 1..).zip(&batch.page.entries) {
            extras.sums.set(slot, Some(*sum));
        }
    }
    batches.truncate(count + usize::from(mutant::is("borg: one batch more than the log has is replayed")));
    for batch in &batches {
        replay(layout, batch, segments, entries, |_| true)?;
    }
    Ok(batches.last().map_or(before, |batch| batch.sequence))
}

/// Finds all batches from the anchor on; also returns the segment that was read last.
async fn find_all(
    bopt: &dyn BlockDevice,
    disk: &Super,
) -> Result<(Walk<FoundBatch>, Option<SegmentBytes>), IoError> {
    let Anchor { segment, offset, sequence } = disk.anchor;
    let anchor = Some(Place { segment, offset }).filter(|place| logged(disk.layout).contains(&place.segment));
    let mut last: Option<SegmentBytes> = None;
    let find = async |place: Place, sequence: u64| {
        if last.as_ref().is_none_or(|last| last.segment != place.segment) {
            last = Some(SegmentBytes::read(bopt, disk, place.segment).await?);
        }
        Ok(last.as_ref().and_then(|last| last.find(disk, place.offset, sequence)))
    };
    let walk = walk(disk.layout.segment, disk.fill(), anchor, sequence, find).await?;
    if let Some(end) = walk.end.filter(|end| last.as_ref().is_some_and(|last| last.segment != end.segment)) {
        last = Some(SegmentBytes::read(bopt, disk, end.segment).await?);
    }
    Ok((walk, last))
}

/// Fails if a later batch records that the first missing one was durable; looks in the remainder of that segment, and
/// at the beginning of the next ones.
async fn ensure_log_ends_here(
    bopt: &dyn BlockDevice,
    disk: &Super,
    (end, last): (Place, SegmentBytes),
    missing: u64,
) -> Result<(), IoError> {
    let layout = disk.layout;
    let says = |at: u64, bytes: &[u8]| {
        let (sequence, page) = BatchHeader::of_any(at, disk.identity, bytes)?;
        let later = page.session == disk.sessions && sequence > missing && page.durable_before >= missing;
        later.then_some(sequence)
    };
    let first = layout.page(layout.slots_of(end.segment).start);
    let from = if disk.fill() == Fill::Anywhere { 0 } else { end.offset as usize };
    let mut found = last.bytes.look(|bytes| {
        let mut here = (first..).zip(bytes.chunks_exact(PAGE)).skip(from);
        here.find_map(|(at, bytes)| says(at, bytes))
    });
    if found.is_none() {
        let behind = (1..layout.write_buffer.min(LOOKED_AT + 1)).map(|step| {
            let number = (end.segment - layout.read_cache + step) % layout.write_buffer;
            let at = layout.page(layout.slots_of(layout.read_cache + number).start);
            async move { Ok((at, region::read_damaged(bopt, Extent::of_pages(at, 1)).await?.0)) }
        });
        let read: Vec<_> = join_all(behind).await.into_iter().collect::<Result<_, IoError>>()?;
        found = read.iter().find_map(|(at, page)| page.look(|bytes| says(*at, bytes)));
    }
    let Some(later) = found else { return Ok(()) };
    let why = format!(
        "found no whole batch here, expected batch {missing}, which was durable as batch {later} says: the log is \
         damaged, \
         and writes from batch {missing} on would be lost"
    );
    Err(error(ErrorKind::Corrupt, Extent::of_pages(first + u64::from(end.offset), 1), why))
}

/// Applies the entries of a batch that no map page covers, of slots that are `accepted`.
pub(super) fn replay(
    layout: Layout,
    batch: &FoundBatch,
    segments: &mut Segments,
    entries: &mut DiskEntries,
    accepted: impl Fn(Slot) -> bool,
) -> Result<(), IoError> {
    let number = layout.segment_of(batch.at).0;
    let segment = segments.get_mut(number);
    segment.last_batch = batch.sequence;
    segment.first = segment.first.map(|first| first.min(batch.sequence));
    segment.changes += 1;
    if batch.sequence <= segment.covered {
        return Ok(());
    }
    segments.set_unstable(batch.at, batch.at + 1 + batch.page.entries.len() as u32, batch.sequence);
    edge("a batch of the log is replayed");
    for (slot, (page, _)) in (batch.at + 1..).zip(&batch.page.entries).filter(|(slot, _)| accepted(*slot)) {
        entries.add(segments, layout, *page, DiskEntry { slot, dirty: true, age: (batch.sequence, 0) })?;
    }
    Ok(())
}
