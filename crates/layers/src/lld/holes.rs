//! Holes: dead slots of segments in use, and the blocks that wait for one (hole plugging).
//!
//! A block that clients write is *staged* in memory, with a slot chosen among the holes, and written there in class
//! `Free` when the head passes. The open record then lists it as a block that was moved: so recovery treats it as one,
//! and until then its old copy counts. A flush puts what is still staged into the log.
//!
//! Invariants: a hole has no block, and its death is behind the durable checkpoint, so that no recovery reads it; no
//! read or cleaning of its segment is in flight when it is chosen, and its segment is neither freed nor cleaned before
//! the write has ended. After that write nothing waits: the block is recorded at once, or stays staged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, Ticket, mutant};

use super::layout::{Block, NONE, Slot};
use super::state::{Admitted, State, Who};
use super::summary::Moved;
use crate::bytes::sum_of_page;

/// Segments that are considered for a hole.
const TRIES: u32 = 32;
/// Consecutive writes to holes that may fail: then there are no more in this session.
const FAILURES: u32 = 8;

/// The holes, and the staged blocks.
#[derive(Default)]
pub struct Holes {
    /// Blocks that may be staged; zero if none are.
    most: usize,
    staged: BTreeMap<Block, Staged>,
    /// Staged blocks without a hole, some of them perhaps staged no more.
    queue: VecDeque<Block>,
    /// Writes in flight, by hole.
    plugs: BTreeMap<Slot, Ticket>,
    /// Holes that can be chosen.
    usable: BTreeSet<Slot>,
    /// Slots that died, and the sequences that are to be behind the checkpoint, in order of these.
    pending: VecDeque<(Slot, u64)>,
    /// Where the last hole was looked for.
    cursor: Slot,
    /// Number of tasks that keep holes from being plugged.
    resting: u32,
    /// Whether a checkpoint for pending holes was started.
    settling: bool,
    failures: u32,
    /// Blocks written to holes, and writes to holes that were aborted, failed, or came too late.
    pub plugged: u64,
    pub unplugged: u64,
}

/// A staged block.
struct Staged {
    data: Buffer,
    /// The hole that it is being written to.
    hole: Option<Slot>,
}

/// A write to a hole.
pub struct Plug {
    pub block: Block,
    pub hole: Slot,
    pub data: Buffer,
    pub ticket: Ticket,
}

impl Holes {
    /// None yet, with room for `most` staged blocks.
    pub fn new(most: usize) -> Holes {
        Holes { most, ..Holes::default() }
    }

    /// Data of a staged block.
    pub fn staged(&self, block: Block) -> Option<&Buffer> {
        self.staged.get(&block).map(|staged| &staged.data)
    }

    /// All staged blocks.
    pub fn all_staged(&self) -> Vec<Block> {
        self.staged.keys().copied().collect()
    }

    /// Numbers of staged blocks, and of holes.
    pub fn numbers(&self) -> (u64, u64) {
        (self.staged.len() as u64, self.usable.len() as u64)
    }

    /// Whether no write to a hole is in flight.
    pub fn at_rest(&self) -> bool {
        self.plugs.is_empty()
    }

    /// A slot has died with the record of this sequence.
    pub fn died(&mut self, slot: Slot, sequence: u64) {
        if self.most > 0 {
            self.pending.push_back((slot, sequence));
        }
    }

    /// Slots whose death is behind the durable checkpoint can be chosen.
    pub fn settle(&mut self, checkpoint: u64) {
        let early = mutant::is("lld: a hole is plugged before its death is behind a checkpoint");
        while let Some(&(slot, sequence)) = self.pending.front() {
            if sequence > checkpoint && !early {
                break;
            }
            self.pending.pop_front();
            self.usable.insert(slot);
        }
    }

    /// A free segment is going to be filled.
    pub fn segment_taken(&mut self, slots: &Range<Slot>) {
        if self.most > 0 {
            let holes: Vec<Slot> = self.usable.range(slots.clone()).copied().collect();
            for hole in holes {
                self.usable.remove(&hole);
            }
            if !mutant::is("lld: dead slots of a segment that is filled anew become holes") {
                self.pending.retain(|(slot, _)| !slots.contains(slot));
            }
        }
    }

    /// The holes of a volume that was opened: a checkpoint is behind all that is on it.
    pub fn found(&mut self, slots: impl Iterator<Item = Slot>) {
        if self.most > 0 {
            self.usable.extend(slots);
        }
    }

    /// Removes a staged block, to be written elsewhere or not at all; a write of it to a hole is aborted.
    pub fn unstage(&mut self, block: Block) -> Option<Buffer> {
        let staged = self.staged.remove(&block)?;
        self.abort(staged.hole);
        Some(staged.data)
    }

    fn abort(&self, hole: Option<Slot>) {
        if let Some(ticket) = hole.and_then(|hole| self.plugs.get(&hole)) {
            edge("a block is used while it is written to a hole");
            ticket.abort();
        }
    }

    /// Whether a checkpoint would turn enough dead slots into holes; `true` once until [`Holes::settled`].
    pub fn settles(&mut self) -> bool {
        let due = !self.settling && self.pending.len() > self.usable.len() / 2 + 8;
        self.settling |= due;
        due
    }

    /// That checkpoint was written, or failed.
    pub fn settled(&mut self) {
        self.settling = false;
    }

    /// Aborts all writes to holes; none is started before [`Holes::resume`].
    pub fn rest(&mut self) {
        self.resting += 1;
        self.plugs.values().for_each(Ticket::abort);
    }

    /// Ends [`Holes::rest`].
    pub fn resume(&mut self) {
        self.resting -= 1;
    }
}

impl State {
    /// Whether holes are in use: in a volume that is at least half full, unless writes to them fail.
    pub fn uses_holes(&self) -> bool {
        let half = u64::from(self.layout.segments) * u64::from(self.layout.room()) / 2;
        self.holes.most > 0 && self.live >= half && self.holes.failures < FAILURES
    }

    /// Stages a client's block, if holes are in use; false if it has to join the log, and an earlier one is to be
    /// unstaged.
    pub fn stage(&mut self, block: Block, data: &Buffer) -> bool {
        let in_use = self.uses_holes();
        let holes = &mut self.holes;
        let room = holes.staged.len() < holes.most || holes.staged.contains_key(&block);
        if !in_use || !room || holes.usable.is_empty() {
            return false;
        }
        let was = holes.staged.insert(block, Staged { data: data.clone(), hole: None });
        match was {
            Some(Staged { hole: None, .. }) => {}
            Some(Staged { hole, .. }) => {
                holes.abort(hole);
                holes.queue.push_back(block);
            }
            None => holes.queue.push_back(block),
        }
        true
    }

    /// A hole of a segment that is not among the emptiest, which are left to the cleaner.
    fn hole(&mut self) -> Option<Slot> {
        let slots = u64::from(self.layout.slots());
        // Spread over the disk: steps of the golden ratio.
        self.holes.cursor = ((u64::from(self.holes.cursor) + slots * 618 / 1_000) % slots) as Slot;
        let average = self.live / u64::from(self.layout.segments);
        let mut from = self.holes.cursor;
        for _ in 0..TRIES {
            let usable = &self.holes.usable;
            let hole = *usable.range(from..).next().or_else(|| usable.first())?;
            let number = self.layout.segment_of(hole);
            let segment = self.segments.get(number);
            let free = segment.live == 0 || segment.cleaning || segment.spared || self.is_filled_now(number);
            let read = segment.pins > 0 && !mutant::is("lld: a hole is plugged while its segment is read");
            if !free && !read && u64::from(segment.live) >= average {
                self.holes.usable.remove(&hole);
                return Some(hole);
            }
            from = (number + 1) * self.layout.segment;
        }
        None
    }

    /// The next staged block, with the hole that it is to be written to.
    pub fn next_plug(&mut self) -> Option<Plug> {
        if self.holes.resting > 0 || self.failed.is_some() || !self.session_begun {
            return None;
        }
        let waits =
            |holes: &Holes, block| holes.staged.get(&block).is_some_and(|staged| staged.hole.is_none());
        while self.holes.queue.front().is_some_and(|&block| !waits(&self.holes, block)) {
            self.holes.queue.pop_front();
        }
        let block = *self.holes.queue.front()?;
        let hole = self.hole()?;
        self.holes.queue.pop_front();
        let staged = self.holes.staged.get_mut(&block)?;
        staged.hole = Some(hole);
        let (data, ticket) = (staged.data.clone(), Ticket::new());
        self.holes.plugs.insert(hole, ticket.clone());
        self.segments.get_mut(self.layout.segment_of(hole)).coming += 1;
        Some(Plug { block, hole, data, ticket })
    }

    /// A write to a hole has ended: the open record gets the block, if it is unchanged and clients may write; false if
    /// it does not.
    pub fn plugged(&mut self, plug: Plug, written: bool, failed: bool, threshold: u32) -> bool {
        let Plug { block, hole, data, .. } = plug;
        self.holes.plugs.remove(&hole);
        let holes = &mut self.holes;
        holes.failures = if written { 0 } else { holes.failures + u32::from(failed) };
        let written = written || mutant::is("lld: a write to a hole that failed counts");
        let any = mutant::is("lld: an older version of a block in a hole counts");
        let same = holes.staged.get(&block).is_some_and(|staged| any || staged.hole == Some(hole));
        let joins = same && written && matches!(self.admit(Who::Client, threshold), Admitted::Now);
        // A record holds moves before its deletions and blocks: a block that it has already joins it once more.
        let again = self.log.names(block, self.slots[block as usize])
            && !mutant::is("lld: a block of the open record is recorded in a hole");
        if joins {
            self.holes.staged.remove(&block);
            self.requested = self.log.sequence;
            if again {
                edge("a block in a hole was in the open record before");
                self.put(block, data);
            } else {
                self.moved(Moved { block, slot: hole, sum: sum_of_page(&data) }, data.is_hollow());
                self.holes.plugged += 1;
            }
        } else if let Some(staged) = self.holes.staged.get_mut(&block).filter(|_| same) {
            staged.hole = None;
            self.holes.queue.push_back(block);
        }
        if !joins || again {
            self.holes.unplugged += 1;
            // A place that cannot be written is not chosen again.
            if !failed {
                self.holes.usable.insert(hole);
            }
        }
        self.came(self.layout.segment_of(hole));
        joins
    }

    /// The holes when the checkpoint of a new session is durable.
    pub fn find_holes(&mut self) {
        let in_use = |(number, segment): &(u32, &super::segments::Segment)| {
            segment.live > 0 && !self.is_filled_now(*number)
        };
        let numbers: Vec<u32> = self.segments.iter().filter(in_use).map(|(number, _)| number).collect();
        let owners = &self.owners;
        // The first slot is a summary's.
        let slots = numbers.into_iter().flat_map(|number| self.layout.slots_of(number).skip(1));
        self.holes.found(slots.filter(|slot| owners[*slot as usize] == NONE));
    }
}
