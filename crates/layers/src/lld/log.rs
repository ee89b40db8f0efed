//! The log: the segment under construction, and what of it is on its way to the disk.
//!
//! Blocks and deletions are gathered until the segment is full, or somebody needs them durable: then they are *sealed*
//! behind a summary, and written with one request. What is in memory is read from there. Sequences number what is
//! sealed; it is *settled* when it and all before it were written.

use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::Buffer;

use super::checkpoint::Place;
use super::layout::{Block, Layout, NONE, Slot};
use super::summary::{self, Key, Moved, Summary};
use crate::bytes::sum_of_page;
use crate::durable::parity;

/// What was sealed, until it is written.
pub struct Sealed {
    /// Its number.
    pub sequence: u64,
    /// Where its summary goes; the blocks lie behind it.
    pub at: Slot,
    /// The blocks, `NONE` for one that is dead.
    pub entries: Vec<(Block, Buffer)>,
    /// Their checksums.
    pub sums: Vec<u32>,
    /// All of it.
    pub bytes: Buffer,
}

/// The log.
pub struct Log {
    layout: Layout,
    identity: u128,
    epoch: u64,
    /// Of what is gathered now.
    pub sequence: u64,
    /// Where that goes; nowhere before the first segment is taken, or if none was free when the last one was full.
    pub place: Option<Place>,
    entries: Vec<(Block, Buffer)>,
    deleted: Vec<(Block, u32)>,
    moved: Vec<Moved>,
    /// Sealed, and not written.
    pub in_flight: BTreeMap<u64, Rc<Sealed>>,
}

impl Log {
    /// One that has no segment, and goes on behind `settled`.
    pub fn new(layout: Layout, settled: u64) -> Log {
        Log {
            layout,
            identity: 0,
            epoch: 0,
            sequence: settled + 1,
            place: None,
            entries: Vec::new(),
            deleted: Vec::new(),
            moved: Vec::new(),
            in_flight: BTreeMap::new(),
        }
    }

    /// It goes on in this segment from now on, in this epoch.
    pub fn begin(&mut self, identity: u128, epoch: u64, segment: u32) {
        (self.identity, self.epoch, self.place) = (identity, epoch, Some((segment, 0)));
    }

    /// Whether nothing is gathered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.deleted.is_empty() && self.moved.is_empty()
    }

    /// Blocks that there is room for in the segment under construction.
    pub fn room(&self) -> u32 {
        self.place.map_or(0, |(_, offset)| self.layout.segment - offset - 1 - self.entries.len() as u32)
    }

    /// Whether nothing more can be gathered.
    pub fn is_full(&self) -> bool {
        // Another deletion or move.
        let more = summary::fit(&self.layout, self.deleted.len() + 1, self.moved.len() + 1);
        self.place.is_some() && (self.room() == 0 || !more)
    }

    /// The slot of the next block that is gathered.
    fn next_slot(&self) -> Option<Slot> {
        let (segment, offset) = self.place?;
        Some(segment * self.layout.segment + offset + 1 + self.entries.len() as u32)
    }

    /// Which of what is gathered is in this slot.
    fn gathered(&self, slot: Slot) -> Option<usize> {
        let first = self.next_slot()? - self.entries.len() as u32;
        let index = slot.checked_sub(first)? as usize;
        (index < self.entries.len()).then_some(index)
    }

    /// Gathers a block, and returns its slot: the one it has if that is under construction.
    pub fn put(&mut self, block: Block, was: Slot, data: Buffer) -> Option<Slot> {
        if let Some(index) = self.gathered(was).filter(|_| was != NONE) {
            self.entries[index].1 = data;
            return Some(was);
        }
        let slot = self.next_slot()?;
        self.entries.push((block, data));
        Some(slot)
    }

    /// Gathers that a block is deleted, which was in this slot.
    pub fn delete(&mut self, block: Block, was: Slot) {
        if let Some(index) = self.gathered(was) {
            self.entries[index].0 = NONE;
        }
        match self.deleted.last_mut() {
            Some((first, blocks)) if *first + *blocks == block => *blocks += 1,
            _ => self.deleted.push((block, 1)),
        }
    }

    /// Gathers that a block was written elsewhere.
    pub fn moved(&mut self, moved: Moved) {
        self.moved.push(moved);
    }

    /// What a slot holds, if that is in memory.
    pub fn held(&self, slot: Slot) -> Option<&Buffer> {
        if let Some(index) = self.gathered(slot) {
            return Some(&self.entries[index].1);
        }
        let within =
            |sealed: &&Rc<Sealed>| slot > sealed.at && slot - sealed.at <= sealed.entries.len() as u32;
        let sealed = self.in_flight.values().find(within)?;
        sealed.entries.get((slot - sealed.at - 1) as usize).map(|(_, data)| data)
    }

    /// All up to this sequence are written.
    pub fn settled(&self) -> u64 {
        self.in_flight.keys().next().map_or(self.sequence, |first| *first) - 1
    }

    /// Whether the segment is full when what is gathered now is sealed, so that the log goes on in another.
    pub fn fills(&self) -> bool {
        let filled = |(_, offset): Place| offset + 1 + self.entries.len() as u32;
        self.place.is_some_and(|place| self.layout.segment - filled(place) < 2)
    }

    /// Seals what is gathered; if that fills its segment, the log goes on in `next`.
    pub fn seal(&mut self, next: Option<u32>, confirmed: u64, forgets: bool) -> Option<Rc<Sealed>> {
        let (segment, offset) = self.place.filter(|_| !self.is_empty())?;
        let fills = self.fills();
        let (sequence, entries) = (self.sequence, std::mem::take(&mut self.entries));
        let (deleted, moved) = (std::mem::take(&mut self.deleted), std::mem::take(&mut self.moved));
        let key = Key { identity: self.identity, epoch: self.epoch, sequence, segment, offset };
        let summary = Summary {
            key,
            confirmed,
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
