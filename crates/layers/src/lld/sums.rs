//! Checksums of slots. A slot is written once until its segment is free again, so its checksum stays valid, and all
//! reads are verified: of a part of a block, the whole block is read. There is no other copy: a client gets an error
//! that names the block, and a cleaner leaves it where it is.
//!
//! Checksums of blocks written, or replayed, since opening are known. For any other segment the summaries are read
//! before its first read, from its first block on; a summary of its earlier contents is recognised by its sequence: the
//! last valid one is that of the segment's last write according to the checkpoint. Between two summaries there may be
//! writes that failed. Blocks that a cleaner moved
//! separately are not in a summary of their own segment: after reopening their checksums are unknown.
//!
//! Faults: if a summary cannot be read, or has rotted, the checksums of its segment are unknown.

use seekless_core::{Buffer, ErrorKind, Extent, Hints, IoError, PAGE_SECTORS};

use super::Lld;
use super::layout::{Layout, NONE, Slot};
use super::summary::Summary;
use crate::bytes::sum_of_page;
use crate::join::join_all;

/// Four bytes and a bit per slot.
pub struct Sums {
    each: Vec<u32>,
    known: Vec<u64>,
    /// Segments whose summaries were requested.
    requested: Vec<bool>,
}

impl Sums {
    /// No checksum is known.
    pub fn new(layout: &Layout) -> Sums {
        let slots = layout.slots() as usize;
        let known = vec![0; slots.div_ceil(64)];
        Sums { each: vec![0; slots], known, requested: vec![false; layout.segments as usize] }
    }

    /// Sets the checksum of a slot; that of hollow data is unknown.
    pub fn set(&mut self, slot: Slot, sum: Option<u32>) {
        let (index, bit) = (slot as usize, 1 << (slot % 64));
        self.each[index] = sum.unwrap_or(0);
        self.known[index / 64] = self.known[index / 64] & !bit | if sum.is_some() { bit } else { 0 };
    }

    /// The checksum of a slot.
    pub fn of(&self, slot: Slot) -> Option<u32> {
        (self.known[slot as usize / 64] >> (slot % 64) & 1 == 1).then(|| self.each[slot as usize])
    }
}

impl Lld {
    /// Verifies whole blocks read from this slot on; `Err` with the slot that is wrong. Their segment is pinned.
    pub(super) fn rotten(&self, first: Slot, on: Extent, data: &Buffer) -> Vec<Slot> {
        if data.is_hollow() {
            return Vec::new();
        }
        let state = self.state.borrow();
        let base = on.start.page();
        let whole = data.split(on, PAGE_SECTORS).filter(|(part, _)| part.sectors == PAGE_SECTORS);
        let slots = whole.map(|(part, piece)| (first + (part.start.page() - base) as Slot, piece));
        let differs = |(slot, piece): &(Slot, Buffer)| {
            state.sums.of(*slot).is_some_and(|sum| sum_of_page(piece) != sum)
        };
        slots.filter(differs).map(|(slot, _)| slot).collect()
    }

    /// The error for a client.
    pub(super) fn rotten_block(&self, slot: Slot) -> IoError {
        let block = self.state.borrow().owners[slot as usize];
        let why = format!(
            "found block {block} in slot {slot} changed since it was written, expected it unchanged: there is no \
             other copy of it"
        );
        IoError::new(ErrorKind::Corrupt, "lld", Some(self.layout.extent(slot, 1)), why)
    }

    /// Reads the summaries of these pinned segments, if their checksums may be needed and that was not tried before.
    pub(super) async fn know_sums(&self, slots: &[Slot], how: &Hints) {
        let segments: std::collections::BTreeSet<u32> = {
            let state = self.state.borrow();
            let unknown = |slot: &&Slot| state.sums.of(**slot).is_none();
            let segments = slots.iter().filter(unknown).map(|slot| self.layout.segment_of(*slot));
            let asks = |segment: &u32| {
                !state.sums.requested[*segment as usize] && !state.segments.get(*segment).hollow
            };
            segments.filter(asks).collect()
        };
        join_all(segments.into_iter().map(|segment| self.read_sums(segment, how))).await;
    }

    async fn read_sums(&self, segment: u32, how: &Hints) {
        let found = match self.summaries_of(segment, how).await {
            Ok(found) => found,
            Err(error) if error.is_medium_error() => Vec::new(),
            // Aborted, for example: the next read retries.
            Err(_) => return,
        };
        let state = &mut *self.state.borrow_mut();
        state.sums.requested[segment as usize] = true;
        for summary in found {
            let first = segment * self.layout.segment + summary.key.offset + 1;
            for (slot, (block, sum)) in (first..).zip(summary.entries) {
                if block != NONE && state.owners[slot as usize] == block && state.sums.of(slot).is_none() {
                    state.sums.set(slot, Some(sum));
                }
            }
        }
    }

    /// The summaries of a segment, if it was filled by the log and the last of them is whole.
    async fn summaries_of(&self, segment: u32, how: &Hints) -> Result<Vec<Summary>, IoError> {
        let how = Hints { fua: false, verify: false, ..how.clone() };
        let (recorded, identity) = {
            let state = self.state.borrow();
            (state.segments.get(segment).recorded, state.disk.identity)
        };
        let read = async |offset: u32, blocks: u32| {
            let at = self.layout.extent(segment * self.layout.segment + offset, blocks);
            let bytes = self.below.read(at, Buffer::zeroed(at.bytes()), how.clone()).await?;
            let all = |bytes: &[u8]| -> Vec<_> {
                Summary::all_in(bytes, identity, (segment, offset), &self.layout).collect()
            };
            Ok(bytes.look(all))
        };
        let (mut found, mut offset) = (Vec::<Summary>::new(), 0);
        while self.layout.segment - offset >= 2 {
            let Some(summary) = read(offset, 1).await?.pop() else {
                found.extend(read(offset + 1, self.layout.segment - offset - 1).await?);
                break;
            };
            offset += summary.blocks();
            let last = summary.key.sequence;
            found.push(summary);
            if last == recorded {
                break;
            }
        }
        Ok(of_last_fill(found, recorded))
    }
}

/// Of valid summaries of a segment, in its order, those of its last fill, which ended with the write of this sequence.
/// Sequences that are missing are writes that failed, of a block each at least; in their place may be a summary of
/// before.
fn of_last_fill(mut found: Vec<Summary>, recorded: u64) -> Vec<Summary> {
    let end = found.iter().position(|summary| summary.key.sequence == recorded).map_or(0, |last| last + 1);
    found.truncate(end);
    let mut kept = Vec::new();
    for summary in found.into_iter().rev() {
        let precedes = |next: &Summary| {
            let gap = next.key.offset.checked_sub(summary.key.offset + summary.blocks())?;
            let missing = next.key.sequence.checked_sub(summary.key.sequence + 1)?;
            let fits = missing <= u64::from(gap) && (missing > 0) == (gap > 0);
            Some(fits && summary.key.epoch == next.key.epoch)
        };
        if kept.last().is_none_or(|next| precedes(next) == Some(true)) {
            kept.push(summary);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::super::summary::Key;
    use super::*;

    /// Offset, sequence and number of entries of each.
    fn kept(found: &[(u32, u64, usize)], recorded: u64) -> Vec<u64> {
        let summary = |&(offset, sequence, entries)| Summary {
            key: Key { identity: 1, epoch: 1, sequence, segment: 0, offset },
            durable_before: 0,
            next: NONE,
            moved: Vec::new(),
            deleted: Vec::new(),
            entries: vec![(NONE, 0); entries],
        };
        let kept = of_last_fill(found.iter().map(summary).collect(), recorded);
        kept.iter().map(|summary| summary.key.sequence).collect()
    }

    #[test]
    fn only_summaries_of_the_last_fill_are_used() {
        assert_eq!(kept(&[(0, 5, 1), (2, 6, 2)], 6), [6, 5]);
        assert_eq!(kept(&[(0, 5, 1), (2, 6, 2)], 7), [0; 0], "the last one is not there");
        assert_eq!(kept(&[(0, 5, 1), (2, 6, 2), (5, 3, 1)], 6), [6, 5], "one of before lies behind them");
        assert_eq!(kept(&[(0, 5, 1), (4, 7, 1)], 7), [7, 5], "one failed between them");
        assert_eq!(kept(&[(0, 5, 1), (2, 2, 0), (4, 7, 1)], 7), [7, 5], "and one of before is in its place");
        assert_eq!(kept(&[(0, 5, 1), (4, 8, 1)], 8), [8, 5], "two failed, of a block each");
        assert_eq!(kept(&[(0, 5, 1), (4, 9, 1)], 9), [9], "three have no room");
        assert_eq!(kept(&[(0, 5, 1), (4, 6, 1)], 6), [6], "none failed");
    }
}
