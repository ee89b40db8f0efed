//! The in-memory state of a volume, and its atomic changes.
//!
//! Invariants: a block has at most one slot, and that slot has this block; the live blocks of a segment are its slots
//! that have one. Nothing here waits.

use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, ErrorKind, IoError, Ticket, invariant, mutant};

use super::checkpoint::{Head, Place};
use super::holes::Holes;
use super::layout::{Block, Layout, NONE, Slot};
use super::log::{Log, Sealed};
use super::segments::Segments;
use super::summary::Moved;
use super::sums::Sums;

/// Segment writes in flight above which the open record accepts nothing new.
const IN_FLIGHT: usize = 4;

/// The state.
pub struct State {
    pub layout: Layout,
    /// Slot of each block.
    pub slots: Vec<Slot>,
    /// Block in each slot.
    pub owners: Vec<Block>,
    pub segments: Segments,
    pub log: Log,
    /// The durable checkpoint.
    pub disk: Head,
    /// Whether that is of this epoch: before, no segment is written.
    pub session_begun: bool,
    /// A torn copy.
    pub torn: Option<Head>,
    /// Generation of the last checkpoint that was tried.
    pub tried: u64,
    /// The sequence up to which everything is durable, and found by recovery.
    pub durable: u64,
    /// The last sequence that contains a client's change.
    pub requested: u64,
    /// Whether only the next checkpoint makes anything durable: the log is broken, and recovery would not find later
    /// records.
    pub checkpoint_pending: bool,
    /// How often the log broke.
    pub breaks: u64,
    /// Consecutive segment writes that failed.
    pub failures: u32,
    /// Segments filled since the last checkpoint.
    pub filled: u32,
    /// The error that stopped all writes.
    pub failed: Option<IoError>,
    /// Whether the reason is a full component: it is retried, and continues when there is room.
    pub full: bool,
    /// Segments that the freeblock cleaner works on, and the tickets of its requests.
    pub freely: BTreeMap<u32, Ticket>,
    /// Number of tasks that keep the freeblock cleaner from starting with more segments.
    pub resting: u32,
    /// Next slot for a block moved by the freeblock cleaner, if it has a segment for that.
    pub apart: Option<Place>,
    pub counted: Counted,
    pub sums: Sums,
    /// Number of live blocks.
    pub live: u64,
    pub holes: Holes,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Blocks written by clients.
    pub blocks: u64,
    /// Blocks moved by a cleaner, those of them read for free, and those written for free too.
    pub moved: u64,
    pub moved_free: u64,
    pub moved_apart: u64,
    /// Blocks that the freeblock cleaner requested in vain.
    pub aborted: u64,
    /// Segments emptied by a cleaner, and by the freeblock cleaner.
    pub cleaned: u64,
    pub cleaned_free: u64,
    /// Bytes read by cleaners.
    pub read: u64,
    /// Number of waits of clients for the cleaner, and total time of these.
    pub waits: u64,
    pub waited_ns: u64,
    /// Summaries and blocks of checkpoints written, and all blocks.
    pub summaries: u64,
    pub checkpoints: u64,
    pub checkpoint_blocks: u64,
    pub written: u64,
    /// Segment writes that failed.
    pub failures: u64,
}

/// Origin of a change that joins the open record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A client: has to leave enough segments free for the cleaner.
    Client,
    /// The cleaner: may use the remaining segments.
    Cleaner,
    /// A change that was in the log before: does not wait.
    Rescue,
}

/// Whether the open record accepts a change now.
#[derive(Debug)]
pub enum Admitted {
    Now,
    /// After a checkpoint of this epoch.
    Begin,
    /// After some writes in flight.
    InFlight,
    /// After segments were cleaned.
    Clean,
    /// Never.
    No(IoError),
}

impl State {
    /// Whether the open record accepts a change now; then there is room for a block.
    pub fn admit(&mut self, who: Who, threshold: u32) -> Admitted {
        if let Some(error) = &self.failed {
            return Admitted::No(error.clone());
        }
        if !self.session_begun {
            return Admitted::Begin;
        }
        if who == Who::Client && self.segments.free() < threshold {
            return Admitted::Clean;
        }
        if who != Who::Rescue && self.log.is_empty() && self.log.in_flight.len() >= IN_FLIGHT {
            return Admitted::InFlight;
        }
        if self.log.place.is_none() {
            let Some(segment) = self.take_segment() else {
                return Admitted::No(no_room());
            };
            edge("the log continues where only a checkpoint can lead");
            self.log.place = Some((segment, 0));
            self.broke();
        }
        Admitted::Now
    }

    /// Records that the log is broken: later records are found only through the next checkpoint.
    pub fn broke(&mut self) {
        self.checkpoint_pending = !mutant::is("lld: a failed log counts as whole");
        self.breaks += 1;
    }

    /// Adds a block to the open record, which has room.
    pub fn put(&mut self, block: Block, data: Buffer) {
        let was = self.slots[block as usize];
        let hollow = data.is_hollow();
        let Some(slot) = self.log.put(block, was, data) else { return };
        let segment = self.layout.segment_of(slot);
        self.segments.get_mut(segment).hollow &= hollow;
        if slot != was {
            self.vacate(was);
            self.occupy(block, slot);
        }
    }

    /// Makes an empty slot that of a block.
    fn occupy(&mut self, block: Block, slot: Slot) {
        self.slots[block as usize] = slot;
        let taken = mutant::is("lld: a slot is taken twice") && slot % self.layout.segment > 1;
        let slot = slot - u32::from(taken);
        let was = std::mem::replace(&mut self.owners[slot as usize], block);
        invariant!("a slot has one block", was == NONE);
        self.segments.get_mut(self.layout.segment_of(slot)).live += 1;
        self.live += 1;
    }

    /// Deletes a block; false if that needs no record.
    pub fn delete(&mut self, block: Block) -> bool {
        self.holes.unstage(block);
        let was = std::mem::replace(&mut self.slots[block as usize], NONE);
        if was != NONE {
            self.log.delete(block, was);
            self.vacate(was);
        }
        was != NONE
    }

    /// Empties a slot, effective once the open record is durable.
    fn vacate(&mut self, slot: Slot) {
        if slot == NONE {
            return;
        }
        self.owners[slot as usize] = NONE;
        self.holes.died(slot, self.log.sequence);
        let number = self.layout.segment_of(slot);
        let segment = self.segments.get_mut(number);
        let left = 1 + u32::from(mutant::is("lld: a block leaves its segment twice"));
        invariant!("a segment counts its live blocks", segment.live >= left);
        segment.live -= left;
        self.live -= u64::from(left);
        let most = u32::from(mutant::is("lld: a segment is freed that holds a block"));
        let (empty, cleaning) = (segment.live <= most && segment.coming == 0, segment.cleaning);
        if empty && !self.is_filled_now(number) {
            self.counted.cleaned += u64::from(cleaning);
            self.counted.cleaned_free += u64::from(self.freely.contains_key(&number));
            self.segments.emptied(number, self.log.sequence);
        }
    }

    /// Blocks of a sealed record that are still in their slots.
    pub fn live_of(&self, sealed: &Sealed) -> Vec<(Block, Buffer)> {
        let there = |(slot, (block, _)): &(Slot, &(Block, Buffer))| {
            *block != NONE && self.owners[*slot as usize] == *block
        };
        let slots = (sealed.at + 1..).zip(&sealed.entries);
        slots.filter(there).map(|(_, entry)| entry.clone()).collect()
    }

    /// Records that a record failed, and that none of its blocks lies in its segment any more: it has no summary there.
    pub fn unrecorded(&mut self, sealed: &Sealed) {
        let segment = self.segments.get_mut(self.layout.segment_of(sealed.at));
        segment.recorded -= u64::from(segment.recorded == sealed.sequence);
    }

    /// Whether more will be written to this segment.
    pub fn is_filled_now(&self, segment: u32) -> bool {
        [self.log.place, self.apart].iter().flatten().any(|&(filled, _)| filled == segment)
    }

    /// Number of segments that are free, or soon will be.
    pub fn spare(&self) -> u32 {
        self.segments.free() + self.segments.pending().count() as u32
    }

    /// A slot for a block moved by the freeblock cleaner, if that leaves enough segments for clients and the other
    /// cleaner.
    pub fn slot_apart(&mut self, threshold: u32) -> Option<Slot> {
        if self.apart.is_none() && self.segments.free() > threshold {
            // The first block is for a summary.
            self.apart = self.take_segment().map(|segment| (segment, 1));
        }
        let (segment, offset) = self.apart?;
        self.segments.get_mut(segment).coming += 1;
        self.apart = Some((segment, offset + 1));
        if offset + 1 == self.layout.segment {
            self.apart = None;
        }
        Some(segment * self.layout.segment + offset)
    }

    /// A write to a segment has ended, or will not happen.
    pub fn came(&mut self, segment: u32) {
        self.segments.get_mut(segment).coming -= 1;
        self.close_if_empty(segment);
    }

    /// Closes the freeblock cleaner's segment, except for writes in flight.
    pub fn close_apart(&mut self) {
        if let Some((segment, _)) = self.apart.take() {
            self.close_if_empty(segment);
        }
    }

    /// Whether the freeblock cleaner has segments that cannot be cleaned yet.
    pub fn is_anything_coming(&self) -> bool {
        self.apart.is_some() || self.segments.iter().any(|(_, segment)| segment.coming > 0)
    }

    /// Whether segments are pending, or will be.
    pub fn is_anything_left(&self) -> bool {
        self.segments.pending().next().is_some() || !self.freely.is_empty()
    }

    fn close_if_empty(&mut self, number: u32) {
        let segment = self.segments.get(number);
        if segment.live == 0 && segment.coming == 0 && !self.is_filled_now(number) {
            edge("no block of a segment is live any more");
            // The change that supersedes the last block of it is in the open record, or was sealed before.
            self.segments.emptied(number, self.log.sequence - u64::from(self.log.is_empty()));
            // If that is durable, no later flush would free it.
            self.now_durable(0);
        }
    }

    /// Records that a block was written to another slot; the open record has room.
    pub fn moved(&mut self, moved: Moved, hollow: bool) {
        let Moved { block, slot, sum } = moved;
        self.log.moved(moved);
        self.sums.set(slot, (!hollow).then_some(sum));
        let was = self.slots[block as usize];
        self.occupy(block, slot);
        let (sequence, number) = (self.log.sequence, self.layout.segment_of(slot));
        let segment = self.segments.get_mut(number);
        (segment.written, segment.recorded) = (sequence, sequence);
        segment.hollow &= hollow;
        self.vacate(was);
    }

    /// Seals the open record.
    pub fn seal(&mut self, forgets: bool) -> Option<Rc<Sealed>> {
        let (segment, _) = self.log.place.filter(|_| !self.log.is_empty())?;
        let fills = self.log.fills();
        let next = if fills { self.take_segment() } else { None };
        let entry = self.segments.get_mut(segment);
        (entry.written, entry.recorded) = (self.log.sequence, self.log.sequence);
        let more = u64::from(mutant::is("lld: one record more is committed than is durable"));
        let durable_before = (self.durable + more).min(self.log.sequence - 1);
        let sealed = self.log.seal(next, durable_before, forgets)?;
        for (slot, ((_, data), sum)) in (sealed.at + 1..).zip(sealed.entries.iter().zip(&sealed.sums)) {
            self.sums.set(slot, (!data.is_hollow()).then_some(*sum));
        }
        self.counted.summaries += 1;
        self.counted.written += 1 + sealed.entries.len() as u64;
        if fills {
            self.filled += 1;
            if next.is_none() {
                edge("no segment is left for the log to continue in");
                self.broke();
            }
            if self.segments.get(segment).live == 0 {
                self.segments.emptied(segment, sealed.sequence);
            }
        }
        Some(sealed)
    }

    /// Records that everything up to this sequence is durable.
    pub fn now_durable(&mut self, sequence: u64) {
        self.durable = self.durable.max(sequence);
        self.segments.free_up(self.durable, self.disk.sequence);
        self.holes.settle(self.disk.sequence);
    }

    /// Takes a free segment to be filled.
    pub fn take_segment(&mut self) -> Option<u32> {
        let segment = self.segments.take()?;
        self.holes.segment_taken(&self.layout.slots_of(segment));
        Some(segment)
    }
}

/// Fails if nothing can be written.
pub fn no_room() -> IoError {
    IoError::new(ErrorKind::NoSpace, "lld", None, "found no segment that can be cleaned, expected one")
}
