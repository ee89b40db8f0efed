//! The log: the open segment, and the records of it that are being written.
//!
//! Blocks and deletions are collected in the open record until the segment is full or they have to be durable: then the
//! record is *sealed* with a summary in front, and written with one request. Until written, it is read from memory.
//! Sequences number records; a record is *committed* when it and all before it were written.

use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::Buffer;

use super::checkpoint::Place;
use super::layout::{Block, Layout, NONE, Slot};
use super::summary::{self, Key, Moved, Summary};
use crate::bytes::sum_of_page;
use crate::durable::parity;

/// A sealed record that is being written.
pub struct Sealed {
    /// Its sequence.
    pub sequence: u64,
    /// Slot of its summary; the blocks follow.
    pub at: Slot,
    /// The blocks, `NONE` for a dead one.
    pub entries: Vec<(Block, Buffer)>,
    /// Their checksums.
    pub sums: Vec<u32>,
    /// Its bytes.
    pub bytes: Buffer,
}

/// The log.
pub struct Log {
    layout: Layout,
    identity: u128,
    epoch: u64,
    /// Sequence of the open record.
    pub sequence: u64,
    /// Its segment; `None` before the first one, or if none was free when the last one became full.
    pub place: Option<Place>,
    entries: Vec<(Block, Buffer)>,
    deleted: Vec<(Block, u32)>,
    moved: Vec<Moved>,
    /// Whether the open record is sealed though it is empty ([`super::witness`]); and the last one that was.
    pub(super) is_witness: bool,
    pub(super) witness: u64,
    /// Whether a record had data: where it is hollow, only times matter.
    pub(super) has_data: bool,
    /// Sealed records that are not yet written.
    pub in_flight: BTreeMap<u64, Rc<Sealed>>,
}

impl Log {
    /// A log without a segment, continuing after `committed`.
    pub fn new(layout: Layout, committed: u64) -> Log {
        Log {
            layout,
            identity: 0,
            epoch: 0,
            sequence: committed + 1,
            place: None,
            entries: Vec::new(),
            deleted: Vec::new(),
            moved: Vec::new(),
            is_witness: false,
            witness: 0,
            has_data: false,
            in_flight: BTreeMap::new(),
        }
    }

    /// Continues in this segment, in this epoch.
    pub fn begin(&mut self, identity: u128, epoch: u64, segment: u32) {
        (self.identity, self.epoch, self.place) = (identity, epoch, Some((segment, 0)));
    }

    /// Whether the open record is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.deleted.is_empty() && self.moved.is_empty() && !self.is_witness
    }

    /// Blocks that fit into the open segment.
    pub fn room(&self) -> u32 {
        self.place.map_or(0, |(_, offset)| self.layout.segment - offset - 1 - self.entries.len() as u32)
    }

    /// Whether the open record is full.
    pub fn is_full(&self) -> bool {
        // Room for another deletion or move.
        let more = summary::fit(&self.layout, self.deleted.len() + 1, self.moved.len() + 1);
        self.place.is_some() && (self.room() == 0 || !more)
    }

    /// The slot of the next block.
    fn next_slot(&self) -> Option<Slot> {
        let (segment, offset) = self.place?;
        Some(segment * self.layout.segment + offset + 1 + self.entries.len() as u32)
    }

    /// Index in the open record of the block in this slot.
    fn gathered(&self, slot: Slot) -> Option<usize> {
        let first = self.next_slot()? - self.entries.len() as u32;
        let index = slot.checked_sub(first)? as usize;
        (index < self.entries.len()).then_some(index)
    }

    /// Adds a block, and returns its slot: its present one if that is in the open record.
    pub fn put(&mut self, block: Block, was: Slot, data: Buffer) -> Option<Slot> {
        if let Some(index) = self.gathered(was).filter(|_| was != NONE) {
            self.entries[index].1 = data;
            return Some(was);
        }
        let slot = self.next_slot()?;
        self.entries.push((block, data));
        Some(slot)
    }

    /// Adds the deletion of a block, formerly in this slot.
    pub fn delete(&mut self, block: Block, was: Slot) {
        if let Some(index) = self.gathered(was) {
            self.entries[index].0 = NONE;
        }
        match self.deleted.last_mut() {
            Some((first, blocks)) if *first + *blocks == block => *blocks += 1,
            _ => self.deleted.push((block, 1)),
        }
    }

    /// Whether the open record holds a block, which has this slot, or deletes it.
    pub fn names(&self, block: Block, slot: Slot) -> bool {
        let deletes = |&(first, blocks): &(Block, u32)| (first..first + blocks).contains(&block);
        (slot != NONE && self.gathered(slot).is_some()) || self.deleted.iter().any(deletes)
    }

    /// Adds the record of a block written elsewhere.
    pub fn moved(&mut self, moved: Moved) {
        self.moved.push(moved);
    }

    /// Contents of a slot, if in memory.
    pub fn held(&self, slot: Slot) -> Option<&Buffer> {
        if let Some(index) = self.gathered(slot) {
            return Some(&self.entries[index].1);
        }
        let within =
            |sealed: &&Rc<Sealed>| slot > sealed.at && slot - sealed.at <= sealed.entries.len() as u32;
        let sealed = self.in_flight.values().find(within)?;
        sealed.entries.get((slot - sealed.at - 1) as usize).map(|(_, data)| data)
    }

    /// The sequence up to which all records are written.
    pub fn committed(&self) -> u64 {
        self.in_flight.keys().next().map_or(self.sequence, |first| *first) - 1
    }

    /// Whether sealing the open record fills the segment, so that the log continues in another.
    pub fn fills(&self) -> bool {
        let filled = |(_, offset): Place| offset + 1 + self.entries.len() as u32;
        self.place.is_some_and(|place| self.layout.segment - filled(place) < 2)
    }

    /// Seals the open record; if that fills its segment, the log continues in `next`.
    pub fn seal(&mut self, next: Option<u32>, durable_before: u64, forgets: bool) -> Option<Rc<Sealed>> {
        let (segment, offset) = self.place.filter(|_| !self.is_empty())?;
        let fills = self.fills();
        let (sequence, entries) = (self.sequence, std::mem::take(&mut self.entries));
        let (deleted, moved) = (std::mem::take(&mut self.deleted), std::mem::take(&mut self.moved));
        self.is_witness = false;
        self.has_data |= entries.iter().any(|(_, data)| !data.is_hollow());
        let key = Key { identity: self.identity, epoch: self.epoch, sequence, segment, offset };
        let summary = Summary {
            key,
            durable_before,
            next: next.unwrap_or(NONE),
            moved,
            deleted: if forgets { Vec::new() } else { deleted },
            entries: entries.iter().map(|(block, data)| (*block, sum_of_page(data))).collect(),
        };
        let sums = summary.entries.iter().map(|(_, sum)| *sum).collect();
        let mut summary = summary.encode(&self.layout);
        if self.layout.sealed {
            parity::put(&mut summary, entries.iter().map(|(_, data)| data));
        }
        let summary = Buffer::from_vec(summary);
        let bytes =
            Buffer::join(std::iter::once(summary).chain(entries.iter().map(|(_, data)| data.clone())));
        self.sequence += 1;
        self.place = if fills {
            next.map(|next| (next, 0))
        } else {
            Some((segment, offset + 1 + entries.len() as u32))
        };
        let at = segment * self.layout.segment + offset;
        let sealed = Rc::new(Sealed { sequence, at, entries, sums, bytes });
        self.in_flight.insert(sequence, sealed.clone());
        Some(sealed)
    }
}
