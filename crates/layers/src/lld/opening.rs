//! Opening: the checkpoint, and the log after it.
//!
//! The log is followed summary by summary: each names the place of the next one, which has the next sequence. A summary
//! that a later one records as durable counts, with its blocks; the blocks of the others are read, and the first with a
//! wrong checksum ends the log: it was being written at the power failure.
//!
//! A record with one rotten sector is repaired by its parity, and only that is written (see
//! [`crate::durable::parity`]). Replayed records are flushed before anything relies on them: the program may have
//! crashed before its own flush. A client's first write begins with a checkpoint of a new epoch, so old records after
//! the end of the log are never taken for its continuation.

use std::collections::BTreeMap;

use seekless_core::runtime::{edge, first_number};
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, PAGE_BYTES, mutant};

use super::checkpoint::{self, Checkpoint, Head, Recovered};
use super::holes::Holes;
use super::layout::{Block, Layout, NONE, Slot};
use super::log::Log;
use super::segments::{Segment, Segments};
use super::state::{Counted, State};
use super::summary::{self, Key, Summary};
use super::sums::Sums;
use super::{Options, sealed};
use crate::bytes::sum_of_page;
use crate::canary::Canary;
use crate::durable::{parity, region, walk};

/// Segments after the end of the log whose first block is checked for later records.
const LOOKED_AT: u32 = 16;

/// The current checkpoint, and the layout: of new volumes, or of the first format.
pub async fn find(below: &dyn BlockDevice, options: &Options) -> Result<(Layout, Recovered), IoError> {
    let sectors = below.geometry().sectors;
    let layout = options.built(sectors)?;
    let old = options.first_format(sectors)?;
    if let Some((bytes, pair)) = sealed::copies(below, &layout).await? {
        let found = sealed::choose(&bytes, &pair, &layout, options.older);
        // Without a whole copy it may be of the first format, with an interrupted upgrade.
        let whole = matches!(&found, Ok(found) if found.checkpoint.is_some());
        let first = if whole { None } else { checkpoint::read(below, &old).await.ok() };
        return match first.filter(|first| first.checkpoint.is_some()) {
            Some(first) => Ok((old, first)),
            None => Ok((layout, found?)),
        };
    }
    let found = checkpoint::read(below, &old).await?;
    let blank = found.checkpoint.is_none() && found.torn.is_none();
    Ok((if blank { layout } else { old }, found))
}

/// State of the component.
pub async fn open(
    below: &dyn BlockDevice,
    layout: Layout,
    found: Recovered,
    options: &Options,
    canary: &Canary,
) -> Result<State, IoError> {
    if found.torn.is_some() && !layout.sealed {
        edge("a torn checkpoint: the one before counts");
    }
    let checkpoint = found.checkpoint.unwrap_or_else(|| {
        edge("zeroes where no checkpoint was written: a volume of zeroes");
        blank(&layout, found.newest)
    });
    let log = follow(below, &layout, &checkpoint.head, options, canary).await?;
    let reached = log.last().map_or(checkpoint.head.sequence, |summary| summary.key.sequence);
    reaches(found.torn, reached, &layout)?;
    let mut state = State {
        layout,
        owners: owners(&checkpoint.slots, &layout),
        slots: checkpoint.slots,
        segments: Segments::default(),
        log: Log::new(layout, reached),
        disk: checkpoint.head,
        session_begun: false,
        torn: found.torn,
        tried: 0,
        durable: reached,
        requested: 0,
        checkpoint_pending: false,
        breaks: 0,
        failures: 0,
        filled: 0,
        failed: None,
        full: false,
        freely: BTreeMap::new(),
        resting: 0,
        apart: None,
        counted: Counted::default(),
        sums: Sums::new(&layout),
        live: 0,
        holes: Holes::new((options.plug.0 / PAGE_BYTES) as usize),
    };
    let mut recorded = checkpoint.recorded;
    for summary in &log {
        edge("records behind a checkpoint are replayed");
        let moved = summary.moved.iter().map(|moved| layout.segment_of(moved.slot));
        for segment in moved.chain([summary.key.segment]) {
            recorded[segment as usize] = summary.key.sequence;
        }
        replay(&mut state, summary)?;
    }
    let segment = |recorded| Segment { written: recorded, recorded, ..Segment::default() };
    let mut each: Vec<Segment> = recorded.into_iter().map(segment).collect();
    for &slot in state.slots.iter().filter(|&&slot| slot != NONE) {
        each[layout.segment_of(slot) as usize].live += 1;
        state.live += 1;
    }
    state.segments = Segments::new(each);
    if !canary.is("unflushed opening") && !options.older {
        below.flush(Hints::default()).await?;
    }
    Ok(state)
}

/// Fails if a damaged checkpoint says that the log reaches further than it does.
fn reaches(damaged: Option<Head>, reached: u64, layout: &Layout) -> Result<(), IoError> {
    let Some(torn) = damaged.filter(|torn| torn.reached > reached) else { return Ok(()) };
    let why = format!(
        "found a checkpoint that is damaged, and after the one before it a log up to sequence {reached}, expected one up \
         to {}",
        torn.reached
    );
    Err(IoError::new(ErrorKind::Corrupt, "lld", Some(layout.copy(torn.generation)), why))
}

/// State of a volume of zeroes.
fn blank(layout: &Layout, generation: u64) -> Checkpoint {
    let first = if layout.sealed { first_number() } else { 0 };
    // A torn first checkpoint is rewritten in place: otherwise a torn second one would leave no whole and no blank
    // copy.
    let torn = u64::from(layout.sealed && generation > 0);
    let head = Head {
        features: 0,
        identity: 0,
        generation: (generation + torn).max(first),
        epoch: first_number(),
        sequence: first,
        reached: first,
        anchor: None,
        both_written: false,
    };
    let (slots, recorded) = (vec![NONE; layout.blocks as usize], vec![0; layout.segments as usize]);
    Checkpoint { head, slots, recorded }
}

fn owners(slots: &[u32], layout: &Layout) -> Vec<u32> {
    let mut owners = vec![NONE; layout.slots() as usize];
    for (block, &slot) in (0..).zip(slots).filter(|(_, slot)| **slot != NONE) {
        owners[slot as usize] = block;
    }
    owners
}

/// The summaries after a checkpoint, as far as they and their blocks are whole.
async fn follow(
    below: &dyn BlockDevice,
    layout: &Layout,
    head: &Head,
    options: &Options,
    canary: &Canary,
) -> Result<Vec<Summary>, IoError> {
    let anchor = head.anchor.map(|(segment, offset)| walk::Place { segment, offset });
    let find = async |place: walk::Place, sequence: u64| {
        let walk::Place { segment, offset } = place;
        let key = Key { identity: head.identity, epoch: head.epoch, sequence, segment, offset };
        summary_at(below, layout, &key, options).await
    };
    let walk = walk::walk(layout.segment, walk::Fill::InOrder, anchor, head.sequence + 1, find).await?;
    let durable = walk.durable();
    let mut log = walk.records;
    let missing = head.sequence + log.len() as u64 + 1;
    if let Some(end) = walk.end.filter(|_| layout.sealed && !options.older) {
        ensure_log_ends_here(below, layout, head, end, missing).await?;
    }
    for index in 0..log.len() {
        if log[index].key.sequence > durable
            && !is_whole(below, layout, &mut log[index], options, canary).await?
        {
            edge("the log ends with an incomplete segment");
            log.truncate(index);
            break;
        }
    }
    Ok(log)
}

/// Fails if a later record says that the first missing one was durable: looks in the rest of that segment, and at the
/// beginnings of the next ones.
async fn ensure_log_ends_here(
    below: &dyn BlockDevice,
    layout: &Layout,
    head: &Head,
    end: walk::Place,
    missing: u64,
) -> Result<(), IoError> {
    let says = |bytes: &[u8], at: (u32, u32)| {
        let mut summaries = Summary::all_in(bytes, head.identity, at, layout);
        let later = |Key { epoch, sequence, .. }: &Key| *epoch == head.epoch && *sequence > missing;
        let says = summaries.find(|summary| later(&summary.key) && summary.durable_before >= missing)?;
        Some(says.key.sequence)
    };
    let first = end.segment * layout.segment;
    let (rest, _) =
        read(below, layout, layout.extent(first + end.offset, layout.segment - end.offset)).await?;
    let mut found = rest.look(|bytes| says(bytes, (end.segment, end.offset)));
    for step in 1..layout.segments.min(LOOKED_AT + 1) {
        if found.is_some() {
            break;
        }
        let segment = (end.segment + step) % layout.segments;
        let (bytes, _) = read(below, layout, layout.extent(segment * layout.segment, 1)).await?;
        found = bytes.look(|bytes| says(bytes, (segment, 0)));
    }
    let Some(later) = found else { return Ok(()) };
    let why = format!(
        "found no whole record here, expected record {missing}, which was durable as record {later} says: the log is \
         damaged, and writes from record {missing} on would be lost; `older = true` opens what is before it, read-only"
    );
    Err(IoError::new(ErrorKind::Corrupt, "lld", Some(layout.extent(first + end.offset, 1)), why))
}

/// The summary expected at this place. With parity, one rotten sector is tolerated.
async fn summary_at(
    below: &dyn BlockDevice,
    layout: &Layout,
    key: &Key,
    options: &Options,
) -> Result<Option<Summary>, IoError> {
    let slot = key.segment * layout.segment + key.offset;
    let at = layout.extent(slot, 1);
    let decode = |bytes: &[u8]| Summary::decode(bytes, key, layout);
    let (bytes, unreadable) = read(below, layout, at).await?;
    let summary = bytes.look(decode);
    if summary.is_some() || !layout.sealed {
        return Ok(summary);
    }
    let rest = layout.extent(slot, layout.segment - key.offset);
    let (bytes, _) = read(below, layout, rest).await?;
    let Some((summary, mended)) = bytes.look(|bytes| parity::head(bytes, summary::MAGIC, decode)) else {
        // One sector of a record would follow from the others.
        let lost = bytes.look(region::are_lost);
        return may_be_lost(unreadable.filter(|_| lost), options).map(|()| None);
    };
    // A drive may read at the second try what it could not at the first.
    if let Some(mended) = mended {
        made_whole(below, at, mended, options).await?;
    }
    Ok(Some(summary))
}

/// Part of the log, and the error of what cannot be read of it. In the first format that is not told from what was
/// never written.
async fn read(
    below: &dyn BlockDevice,
    layout: &Layout,
    at: Extent,
) -> Result<(Buffer, Option<IoError>), IoError> {
    match region::read_damaged(below, at).await? {
        (_, Some(error)) if !layout.sealed => Err(error),
        read => Ok(read),
    }
}

/// Fails if the log seems to end where it cannot be read: what was flushed last may be there. A power failure leaves
/// sectors that can be read.
fn may_be_lost(unreadable: Option<IoError>, options: &Options) -> Result<(), IoError> {
    let Some(error) = unreadable.filter(|_| !options.older) else { return Ok(()) };
    edge("the log cannot be read where it seems to end");
    let why = format!(
        "found a part of the log that cannot be read ({error}), expected it to be: what was flushed last may be there; \
         `older = true` opens what is before it, read-only"
    );
    Err(IoError::new(ErrorKind::Corrupt, "lld", error.extent(), why))
}

/// Writes what parity has repaired, unless opened read-only.
async fn made_whole(
    below: &dyn BlockDevice,
    at: Extent,
    bytes: Vec<u8>,
    options: &Options,
) -> Result<(), IoError> {
    edge("a record of the log is repaired from its parity");
    if options.older {
        return Ok(());
    }
    below.write(at, Buffer::from_vec(bytes), Hints::default()).await
}

impl walk::Record for Summary {
    fn pages(&self) -> u32 {
        self.entries.len() as u32
    }

    fn next(&self) -> Option<u32> {
        Some(self.next).filter(|next| *next != NONE)
    }

    fn durable_before(&self) -> u64 {
        self.durable_before
    }
}

/// Whether the blocks of a record match its summary. Blocks recorded as moved that are not at their new slots stay at
/// the old ones, which are not reused before this record is durable.
async fn is_whole(
    below: &dyn BlockDevice,
    layout: &Layout,
    summary: &mut Summary,
    options: &Options,
    canary: &Canary,
) -> Result<bool, IoError> {
    if canary.is("torn segment accepted") {
        return Ok(true);
    }
    let Key { segment, offset, .. } = summary.key;
    let (slot, sums) = (segment * layout.segment + offset, summary.entries.iter().map(|(_, sum)| *sum));
    let sums: Vec<u32> = sums.collect();
    if layout.sealed {
        let at = layout.extent(slot, 1 + sums.len() as u32);
        let (record, unreadable) = read(below, layout, at).await?;
        match record.look(|record| parity::page(record, &sums)) {
            Ok(None) => {}
            Ok(Some((page, bytes))) => {
                made_whole(below, layout.extent(slot + 1 + page as u32, 1), bytes, options).await?;
            }
            Err(()) => {
                let lost = record.look(region::are_lost);
                return may_be_lost(unreadable.filter(|_| lost), options).map(|()| false);
            }
        }
    } else if !holds(below, layout, slot + 1, &sums).await? {
        return Ok(false);
    }
    if mutant::is("lld: blocks that were moved are not checked") {
        return Ok(true);
    }
    let mut lost = Vec::new();
    // Blocks that were moved together are contiguous.
    for run in summary.moved.chunk_by(|one, next| one.slot + 1 == next.slot) {
        let sums: Vec<u32> = run.iter().map(|moved| moved.sum).collect();
        if holds(below, layout, run[0].slot, &sums).await? {
            continue;
        }
        edge("a moved block is not whole: its old copy counts");
        for moved in run {
            if !holds(below, layout, moved.slot, &[moved.sum]).await? {
                lost.push(moved.slot);
            }
        }
    }
    summary.moved.retain(|moved| !lost.contains(&moved.slot));
    Ok(true)
}

/// Whether slots from this one on have these checksums.
async fn holds(below: &dyn BlockDevice, layout: &Layout, first: Slot, sums: &[u32]) -> Result<bool, IoError> {
    if sums.is_empty() {
        return Ok(true);
    }
    let at = layout.extent(first, sums.len() as u32);
    let (bytes, _) = read(below, layout, at).await?;
    let blocks = at.split(seekless_core::PAGE_SECTORS);
    let sum = |part: Extent| sum_of_page(&bytes.cut_sectors(part.start.0 - at.start.0, part.sectors));
    Ok(blocks.zip(sums).all(|(part, expected)| sum(part) == *expected))
}

/// Applies a summary: moves, then deletions, then its blocks.
fn replay(state: &mut State, summary: &Summary) -> Result<(), IoError> {
    for moved in &summary.moved {
        lies(state, moved.block, moved.slot)?;
        state.sums.set(moved.slot, Some(moved.sum));
    }
    for &(first, blocks) in &summary.deleted {
        for block in first..first + blocks {
            let was = std::mem::replace(&mut state.slots[block as usize], NONE);
            if was != NONE {
                state.owners[was as usize] = NONE;
            }
        }
    }
    let first = summary.key.segment * state.layout.segment + summary.key.offset + 1;
    for (slot, &(block, sum)) in (first..).zip(&summary.entries).filter(|(_, (block, _))| *block != NONE) {
        lies(state, block, slot)?;
        state.sums.set(slot, Some(sum));
    }
    Ok(())
}

/// Records the slot of a block.
fn lies(state: &mut State, block: Block, slot: Slot) -> Result<(), IoError> {
    let was = std::mem::replace(&mut state.slots[block as usize], slot);
    if was != NONE {
        state.owners[was as usize] = NONE;
    }
    if std::mem::replace(&mut state.owners[slot as usize], block) != NONE {
        let at = state.layout.extent(slot, 1);
        let why = format!("found block {block} where another one is, expected an empty slot");
        return Err(IoError::new(ErrorKind::Corrupt, "lld", Some(at), why));
    }
    Ok(())
}
