//! The write buffer: segments that are filled one after the other with batches (section 3.3).
//!
//! A batch is a page that describes it and as many pages behind it as it has room for.
//!
//! Invariants: batches are committed in the order of the log: so recovery, which goes along the log from the super
//! page's anchor, meets all that were answered. A segment is freed when it holds nothing, on disk either, and the
//! anchor lies behind it. No count of writes wraps.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::task::Waker;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, IoError, invariant, mutant};

use super::format::{Anchor, NONE, batch};
use super::layout::Layout;
use super::map::Slot;
use super::segments::{Segment, Segments};
use crate::bytes::sum_of_page;

/// Pages that were absorbed in one instant, with the page that describes them.
pub struct Batch {
    /// Its number.
    pub sequence: u64,
    /// Its segment.
    pub segment: u32,
    /// Where its own page is; the others lie behind it.
    pub at: Slot,
    /// Pages that have room.
    room: usize,
    /// The pages that it holds, and their checksums.
    pub entries: RefCell<Vec<(u64, u32)>>,
    /// What these hold, until its own page is made of it.
    pub data: RefCell<Vec<Buffer>>,
    /// All batches up to this one were durable when its page was written.
    pub stable: Cell<u64>,
    /// Writes that are under way, its own page's included.
    pub writes: Cell<usize>,
    /// Why it failed, if it did.
    pub failed: RefCell<Option<IoError>>,
    state: Cell<BatchState>,
    waiting: RefCell<Vec<Waker>>,
}

/// How far a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchState {
    /// Writes of this instant join it.
    Open,
    /// Its page is being written, or was.
    Led,
    /// It and all before it were written, or failed.
    Committed,
}

impl Batch {
    /// Whether it and all before it were written, or failed.
    pub fn is_committed(&self) -> bool {
        self.state.get() == BatchState::Committed
    }

    /// The first who asks is to write its page: true.
    pub fn is_to_be_led(&self) -> bool {
        let open = self.state.get() == BatchState::Open;
        if open {
            self.state.set(BatchState::Led);
        }
        open
    }

    /// Is woken when it is.
    pub fn wait(&self, waker: Waker) {
        self.waiting.borrow_mut().push(waker);
    }

    /// The pages that it holds, and in which slots.
    pub fn pages(&self) -> Vec<(u64, Slot)> {
        let slots = self.at + 1..;
        self.entries.borrow().iter().map(|(page, _)| *page).zip(slots).collect()
    }

    /// One of its writes ended, or was joined with another.
    pub fn count_off(&self) {
        let twice = u32::from(mutant::is("borg: a write of a batch is counted off twice"));
        for _ in 0..=twice {
            invariant!("no count wraps", self.writes.get() > 0);
            self.writes.set(self.writes.get() - 1);
        }
    }

    /// Who waits for it can go on.
    pub fn commit(&self) {
        self.state.set(BatchState::Committed);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

/// The segments of the write buffer in use.
pub struct Log {
    layout: Layout,
    /// Pages that a batch has at most.
    longest: usize,
    free: BTreeSet<u32>,
    end: End,
    /// Segments that were taken so far.
    taken: u64,
    /// Of the last batch.
    pub sequence: u64,
    /// The batch that writes of this instant join.
    open_batch: Option<Rc<Batch>>,
    /// Not committed, in order.
    under_way: VecDeque<Rc<Batch>>,
    /// Up to this batch all are.
    pub committed: u64,
    /// Up to this batch all are durable.
    pub durable: u64,
    /// The last batch that was committed and did not fail.
    pub reached: u64,
    /// Committed batches that are not durably stable.
    unstable: VecDeque<Rc<Batch>>,
}

/// The end of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No batch's page on disk says where the log goes on: only a super page can.
    Closed {
        /// The segment that was filled last, and how far; its last batch may still be joined.
        last: Option<(u32, u32)>,
    },
    /// A segment is being filled.
    Open {
        segment: u32,
        /// How far.
        filled: u32,
        /// The segment after it, if one was free.
        next: Option<u32>,
    },
}

impl Log {
    /// One that is closed, with these segments free, after so many batches.
    pub fn new(layout: Layout, version: u32, free: BTreeSet<u32>, sequence: u64, taken: u64) -> Log {
        Log {
            layout,
            longest: batch::entries(version),
            free,
            end: End::Closed { last: None },
            taken,
            sequence,
            open_batch: None,
            under_way: VecDeque::new(),
            committed: sequence,
            durable: sequence,
            reached: sequence,
            unstable: VecDeque::new(),
        }
    }

    /// Slots of segments that are free, and what is left of the open one.
    pub fn room(&self) -> u64 {
        let (left, next) = match self.end {
            End::Closed { last } => (last.map_or(0, |(_, filled)| self.layout.segment - filled), None),
            End::Open { filled, next, .. } => (self.layout.segment - filled, next),
        };
        let segments = (self.free.len() + usize::from(next.is_some())) as u64;
        u64::from(left) + segments * u64::from(self.layout.segment)
    }

    /// Whether so many pages can be absorbed now, however they are cut into batches.
    pub fn has_room(&self, pages: u64) -> bool {
        let usable = |slots: u32| u64::from(slots - slots.div_ceil(self.longest as u32 + 1));
        let End::Open { filled, next, .. } = self.end else { return false };
        let segments = (self.free.len() + usize::from(next.is_some())) as u64;
        usable(self.layout.segment - filled) + segments * usable(self.layout.segment) >= pages
    }

    /// Whether the log does not go on until the super page says where.
    pub fn is_closed(&self) -> bool {
        matches!(self.end, End::Closed { .. })
    }

    /// A segment to open a closed log in: the one that follows a segment.
    pub fn first_free(&self) -> Option<u32> {
        self.free.first().copied()
    }

    /// These segments are free. What is stable of their batches says nothing of those that come after them.
    pub fn give_back(&mut self, segments: &mut Segments, which: &[u32]) {
        self.unstable.retain(|batch| !which.contains(&batch.segment));
        for &segment in which {
            let entry = segments.get(segment);
            invariant!(
                "a segment is freed when it holds nothing, on disk either",
                entry.valid == 0 && entry.changes == 0
            );
            let Segment { generation, copy, covered, copies, .. } = *entry;
            *entry = Segment { generation, copy, covered, copies, ..Segment::default() };
            self.free.insert(segment);
        }
        if let End::Open { segment, filled, next: None } = self.end {
            let next = self.free_behind(segment);
            self.end = End::Open { segment, filled, next };
        }
    }

    /// The free segment that comes next behind one, round and round.
    fn free_behind(&mut self, segment: u32) -> Option<u32> {
        let next = self.free.range(segment..).next().or_else(|| self.free.first()).copied()?;
        self.free.remove(&next);
        Some(next)
    }

    /// A closed log goes on in this free segment, which the super page says.
    pub fn reopen(&mut self, segments: &mut Segments, segment: u32) {
        self.free.remove(&segment);
        self.fill(segments, segment);
    }

    /// This segment, which was free, is filled from now on.
    fn fill(&mut self, segments: &mut Segments, segment: u32) {
        self.taken += 1;
        let taken = self.taken;
        let entry = segments.get(segment);
        (entry.taken, entry.stable, entry.next, entry.changes) = (taken, 0, None, entry.changes + 1);
        self.end = End::Open { segment, filled: 0, next: self.free_behind(segment) };
    }

    /// Whether a segment is filled so far that no batch fits behind.
    fn is_full(&self, filled: u32) -> bool {
        self.layout.segment - filled < 2
    }

    /// A slot for a page that is absorbed now, and the batch that it is part of. `None` if the log is full.
    pub fn take(&mut self, segments: &mut Segments, page: u64, data: &Buffer) -> Option<(Slot, Rc<Batch>)> {
        let full = |batch: &Rc<Batch>| batch.entries.borrow().len() == batch.room;
        if self.open_batch.as_ref().is_none_or(full) {
            self.begin_batch(segments)?;
        }
        let batch = self.open_batch.clone()?;
        let (End::Open { segment, filled, .. } | End::Closed { last: Some((segment, filled)) }) =
            &mut self.end
        else {
            return None;
        };
        batch.entries.borrow_mut().push((page, sum_of_page(data)));
        batch.data.borrow_mut().push(data.clone());
        *filled += 1;
        let offset = if mutant::is("borg: a slot of the log is taken twice") { 1 } else { *filled - 1 };
        Some((self.layout.slots_of(*segment).start + offset, batch))
    }

    /// The segment that the next batch goes to, and how far that is filled.
    fn room_for_a_batch(&mut self, segments: &mut Segments) -> Option<(u32, u32)> {
        match self.end {
            End::Closed { .. } => None,
            End::Open { segment, filled, .. } if !self.is_full(filled) => Some((segment, filled)),
            End::Open { segment, filled, next: None } => {
                edge("the write buffer is full");
                self.end = End::Closed { last: Some((segment, filled)) };
                None
            }
            End::Open { segment, next: Some(next), .. } => {
                segments.get(segment).next = Some(next);
                self.fill(segments, next);
                Some((next, 0))
            }
        }
    }

    fn begin_batch(&mut self, segments: &mut Segments) -> Option<()> {
        let (segment, filled) = self.room_for_a_batch(segments)?;
        self.sequence += 1;
        segments.get(segment).last_batch = self.sequence;
        let batch = Rc::new(Batch {
            sequence: self.sequence,
            segment,
            at: self.layout.slots_of(segment).start + filled,
            room: self.longest.min((self.layout.segment - filled - 1) as usize),
            entries: RefCell::default(),
            data: RefCell::default(),
            stable: Cell::new(0),
            writes: Cell::new(1),
            failed: RefCell::default(),
            state: Cell::new(BatchState::Open),
            waiting: RefCell::default(),
        });
        if let End::Open { filled, .. } = &mut self.end {
            *filled += 1;
        }
        self.under_way.push_back(batch.clone());
        self.open_batch = Some(batch);
        Some(())
    }

    /// Nothing joins a batch any more; where the log goes on behind its segment.
    pub fn close_batch(&mut self, segments: &Segments, batch: &Rc<Batch>) -> u32 {
        if self.open_batch.as_ref().is_some_and(|open_batch| Rc::ptr_eq(open_batch, batch)) {
            self.open_batch = None;
        }
        match self.end {
            End::Open { segment, filled, next } if segment == batch.segment => {
                if next.is_none() && self.is_full(filled) {
                    self.end = End::Closed { last: Some((segment, filled)) };
                }
                next.unwrap_or(NONE)
            }
            _ => segments.of(batch.segment).next.unwrap_or(NONE),
        }
    }

    /// The first batch that is not committed, if all of it is written, or failed.
    pub fn written_first(&mut self, only_failed: bool) -> Option<Rc<Batch>> {
        let looked_at = if mutant::is("borg: batches are committed in any order") { usize::MAX } else { 1 };
        let first = self.under_way.iter().take(looked_at).position(|batch| batch.writes.get() == 0)?;
        if only_failed && self.under_way[first].failed.borrow().is_none() {
            return None;
        }
        let batch = self.under_way.remove(first)?;
        invariant!("batches are committed in the order of the log", batch.sequence == self.committed + 1);
        self.committed = batch.sequence;
        Some(batch)
    }

    /// Whether a page is in a batch that is not committed.
    pub fn is_appending(&self, page: u64) -> bool {
        self.under_way.iter().any(|batch| batch.entries.borrow().iter().any(|(entry, _)| *entry == page))
    }

    /// All batches fail that are not committed.
    pub fn fail(&self, error: &IoError) {
        for batch in &self.under_way {
            batch.failed.borrow_mut().get_or_insert_with(|| error.clone());
        }
    }

    /// A batch was committed, without failing.
    pub fn remember(&mut self, batch: &Rc<Batch>) {
        self.reached = batch.sequence;
        self.unstable.push_back(batch.clone());
    }

    /// No batch is under way.
    pub fn is_quiet(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Batches up to this one are durable: what their pages call stable is so for good.
    pub fn now_durable(&mut self, segments: &mut Segments, sequence: u64) {
        self.durable = self.durable.max(sequence);
        let told = self.unstable.iter().filter(|batch| batch.sequence <= self.durable);
        let stable = told.map(|batch| batch.stable.get()).max().unwrap_or(0);
        while let Some(batch) = self.unstable.front().filter(|batch| batch.sequence <= stable) {
            let end = self.layout.segment_of(batch.at).1 + 1 + batch.entries.borrow().len() as u32;
            let segment = segments.get(batch.segment);
            segment.stable = segment.stable.max(end);
            self.unstable.pop_front();
        }
    }

    /// Where whoever goes along the log has to begin, to meet all batches that are not committed.
    pub fn anchor(&self) -> Anchor {
        let sequence = self.committed + 1;
        let place = |segment, offset| Anchor { segment, offset, sequence };
        if let Some(batch) = self.under_way.front() {
            return place(batch.segment, self.layout.segment_of(batch.at).1);
        }
        match self.end {
            End::Open { segment, filled, .. } if !self.is_full(filled) => place(segment, filled),
            End::Open { next, .. } => place(next.unwrap_or(NONE), 0),
            End::Closed { .. } => place(NONE, 0),
        }
    }

    /// The number of the segment that is taken next.
    pub fn next_to_take(&self) -> u64 {
        self.taken + 1
    }

    /// How many segments were taken since this one, itself included.
    pub fn taken_since(&self, taken: u64) -> u64 {
        (self.taken + 1).saturating_sub(taken)
    }
}
