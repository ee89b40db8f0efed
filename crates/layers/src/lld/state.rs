//! The state of a volume in memory, and what changes it in one step.
//!
//! Invariants: a block has at most one slot, and that slot has this block; a segment's live blocks are the slots of it
//! that have one. Nothing here waits.

use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, ErrorKind, IoError, Ticket, mutant};

use super::checkpoint::{Head, Place};
use super::layout::{Block, Layout, NONE, Slot};
use super::log::{Log, Sealed};
use super::segments::Segments;
use super::summary::Moved;
use super::sums::Sums;

/// Writes under way above which nothing new is gathered.
const IN_FLIGHT: usize = 4;

/// The state.
pub struct State {
    pub layout: Layout,
    /// Of each block.
    pub slots: Vec<Slot>,
    /// Of each slot.
    pub owners: Vec<Block>,
    pub segments: Segments,
    pub log: Log,
    /// The checkpoint that is durable.
    pub disk: Head,
    /// Whether it is of this epoch: before that nothing is written to segments.
    pub session_begun: bool,
    /// A copy that is not whole.
    pub torn: Option<Head>,
    /// The generation of the checkpoint that was tried last.
    pub tried: u64,
    /// All up to this sequence is durable, and found by a start.
    pub durable: u64,
    /// The last sequence that has something of a client.
    pub requested: u64,
    /// Only the next checkpoint makes anything durable: a start would not find what is written now.
    pub checkpoint_pending: bool,
    /// How often that became so.
    pub breaks: u64,
    /// Writes of segments that failed, since one succeeded.
    pub failures: u32,
    /// Segments that were filled since the last checkpoint.
    pub filled: u32,
    /// Why nothing is written any more.
    pub failed: Option<IoError>,
    /// That is because there is no room below: it is tried again, and goes on when there is.
    pub full: bool,
    /// Segments that the freeblock cleaner is at, and what it asks for.
    pub freely: BTreeMap<u32, Ticket>,
    /// So many want the freeblock cleaner to begin with no more segments.
    pub resting: u32,
    /// Where the freeblock cleaner writes the next block that it moves, if it has a segment for that.
    pub apart: Option<Place>,
    pub counted: Counted,
    pub sums: Sums,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Blocks that clients wrote.
    pub blocks: u64,
    /// Blocks that a cleaner moved, those of them that were read for free, and those that were also written so.
    pub moved: u64,
    pub moved_free: u64,
    pub moved_apart: u64,
    /// Blocks that the freeblock cleaner asked for in vain.
    pub aborted: u64,
    /// Segments that a cleaner emptied, and those of them by the freeblock cleaner.
    pub cleaned: u64,
    pub cleaned_free: u64,
    /// Bytes that cleaners read.
    pub read: u64,
    /// How often clients had to wait for the cleaner, and how long it took all in all.
    pub waits: u64,
    pub waited_ns: u64,
    /// Summaries and blocks of checkpoints that were written, and all blocks.
    pub summaries: u64,
    pub checkpoints: u64,
    pub checkpoint_blocks: u64,
    pub written: u64,
    /// Writes of segments that failed.
    pub failures: u64,
}

/// Who has something for the segment under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Has to leave enough segments free for the cleaner.
    Client,
    /// Fills what is left.
    Cleaner,
    /// Was in the log before: waits for nothing.
    Rescue,
}

/// Whether it can be gathered now.
#[derive(Debug)]
pub enum Admitted {
    Now,
    /// When a checkpoint of this epoch is durable.
    Begin,
    /// When fewer writes are under way.
    InFlight,
    /// When segments were cleaned.
    Clean,
    /// Not at all.
    No(IoError),
}

impl State {
    /// Whether something can be gathered now; then there is room for a block.
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
            let Some(segment) = self.segments.take() else {
                return Admitted::No(no_room());
            };
            edge("the log goes on where only a checkpoint can tell");
            self.log.place = Some((segment, 0));
            self.broke();
        }
        Admitted::Now
    }

    /// What is written from now on a start finds only by the next checkpoint.
    pub fn broke(&mut self) {
        self.checkpoint_pending = !mutant::is("lld: a log that broke passes for whole");
        self.breaks += 1;
    }

    /// Gathers a block, for which there is room.
    pub fn put(&mut self, block: Block, data: Buffer) {
        let was = self.slots[block as usize];
        let hollow = data.is_hollow();
        let Some(slot) = self.log.put(block, was, data) else { return };
        let segment = self.layout.segment_of(slot);
        self.segments.get(segment).hollow &= hollow;
        if slot != was {
            self.vacate(was);
            self.slots[block as usize] = slot;
            self.owners[slot as usize] = block;
            self.segments.get(segment).live += 1;
        }
    }

    /// Deletes a block.
    pub fn delete(&mut self, block: Block) {
        let was = std::mem::replace(&mut self.slots[block as usize], NONE);
        if was != NONE {
            self.log.delete(block, was);
            self.vacate(was);
        }
    }

    /// A slot has no block any more, once what is gathered now is durable.
    fn vacate(&mut self, slot: Slot) {
        if slot == NONE {
            return;
        }
        self.owners[slot as usize] = NONE;
        let number = self.layout.segment_of(slot);
        let segment = self.segments.get(number);
        segment.live -= 1;
        let (empty, cleaning) = (segment.live == 0 && segment.coming == 0, segment.cleaning);
        if empty && !self.is_filled_now(number) {
            self.counted.cleaned += u64::from(cleaning);
            self.counted.cleaned_free += u64::from(self.freely.contains_key(&number));
            self.segments.emptied(number, self.log.sequence);
        }
    }

    /// Of what was sealed, the blocks that are still there.
    pub fn live_of(&self, sealed: &Sealed) -> Vec<(Block, Buffer)> {
        let there = |(slot, (block, _)): &(Slot, &(Block, Buffer))| {
            *block != NONE && self.owners[*slot as usize] == *block
        };
        let slots = (sealed.at + 1..).zip(&sealed.entries);
        slots.filter(there).map(|(_, entry)| entry.clone()).collect()
    }

    /// Whether more comes to this segment.
    pub fn is_filled_now(&self, segment: u32) -> bool {
        [self.log.place, self.apart].iter().flatten().any(|&(filled, _)| filled == segment)
    }

    /// Segments that are free, or soon will be.
    pub fn spare(&self) -> u32 {
        self.segments.free() + self.segments.pending().count() as u32
    }

    /// A slot for a block that the freeblock cleaner moves, if that leaves clients and the other cleaner what they
    /// need.
    pub fn slot_apart(&mut self, threshold: u32) -> Option<Slot> {
        if self.apart.is_none() && self.segments.free() > threshold {
            // Its first block would be for a summary.
            self.apart = self.segments.take().map(|segment| (segment, 1));
        }
        let (segment, offset) = self.apart?;
        self.segments.get(segment).coming += 1;
        self.apart = Some((segment, offset + 1));
        if offset + 1 == self.layout.segment {
            self.apart = None;
        }
        Some(segment * self.layout.segment + offset)
    }

    /// What was to come to a segment is there, or will not come.
    pub fn came(&mut self, segment: u32) {
        self.segments.get(segment).coming -= 1;
        self.close_if_empty(segment);
    }

    /// No more blocks come to the segment of the freeblock cleaner than are on their way.
    pub fn close_apart(&mut self) {
        if let Some((segment, _)) = self.apart.take() {
            self.close_if_empty(segment);
        }
    }

    /// Whether the freeblock cleaner has segments that cannot be cleaned yet.
    pub fn is_anything_coming(&self) -> bool {
        self.apart.is_some() || self.segments.iter().any(|(_, segment)| segment.coming > 0)
    }

    /// Whether segments are empty, or will be.
    pub fn is_anything_left(&self) -> bool {
        self.segments.pending().next().is_some() || !self.freely.is_empty()
    }

    fn close_if_empty(&mut self, number: u32) {
        let segment = self.segments.of(number);
        if segment.live == 0 && segment.coming == 0 && !self.is_filled_now(number) {
            edge("nothing that came to a segment is still wanted");
            // What overrules the last block of it is gathered, or was sealed before.
            self.segments.emptied(number, self.log.sequence - u64::from(self.log.is_empty()));
        }
    }

    /// A block was written to another slot; there is room to say so.
    pub fn moved(&mut self, moved: Moved, hollow: bool) {
        let Moved { block, slot, sum } = moved;
        self.log.moved(moved);
        self.sums.set(slot, (!hollow).then_some(sum));
        let was = std::mem::replace(&mut self.slots[block as usize], slot);
        self.owners[slot as usize] = block;
        let (sequence, number) = (self.log.sequence, self.layout.segment_of(slot));
        let segment = self.segments.get(number);
        segment.live += 1;
        segment.written = sequence;
        segment.hollow &= hollow;
        self.vacate(was);
    }

    /// Seals what is gathered.
    pub fn seal(&mut self, forgets: bool) -> Option<Rc<Sealed>> {
        let (segment, _) = self.log.place.filter(|_| !self.log.is_empty())?;
        let fills = self.log.fills();
        let next = if fills { self.segments.take() } else { None };
        self.segments.get(segment).written = self.log.sequence;
        let more = u64::from(mutant::is("lld: one more is confirmed than is durable"));
        let stable = (self.durable + more).min(self.log.sequence - 1);
        let sealed = self.log.seal(next, stable, forgets)?;
        for (slot, ((_, data), sum)) in (sealed.at + 1..).zip(sealed.entries.iter().zip(&sealed.sums)) {
            self.sums.set(slot, (!data.is_hollow()).then_some(*sum));
        }
        self.counted.summaries += 1;
        self.counted.written += 1 + sealed.entries.len() as u64;
        if fills {
            self.filled += 1;
            if next.is_none() {
                edge("no segment is left for the log to go on in");
                self.broke();
            }
            if self.segments.of(segment).live == 0 {
                self.segments.emptied(segment, sealed.sequence);
            }
        }
        Some(sealed)
    }

    /// All up to this sequence is durable.
    pub fn now_durable(&mut self, sequence: u64) {
        self.durable = self.durable.max(sequence);
        self.segments.free_up(self.durable, self.disk.sequence);
    }

    /// Blocks that are live.
    pub fn live(&self) -> u64 {
        self.segments.iter().map(|(_, segment)| u64::from(segment.live)).sum()
    }
}

/// Nothing can be written.
pub fn no_room() -> IoError {
    IoError::new(ErrorKind::NoSpace, "lld", None, "found no segment that can be cleaned, expected one")
}
