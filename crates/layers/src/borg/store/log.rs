//! The write buffer: segments filled one after the other with batches (section 3.3).
//!
//! A batch is a header page, followed by the pages it describes.
//!
//! Invariants: batches are committed in the order of the log; a segment is freed when it holds nothing, on disk either;
//! no count wraps. So recovery, which follows the log from the super page's anchor, finds all that were acknowledged.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::task::Waker;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, IoError, invariant, mutant};

use super::format::{Anchor, NONE, OLD, batch};
use super::holes::{Holes, usable};
use super::layout::Layout;
use super::map::Slot;
use super::segments::{Segment, Segments};
use crate::bytes::sum_of_page;

/// Pages absorbed in one instant, with the header that describes them.
pub struct Batch {
    /// Sequence number.
    pub sequence: u64,
    /// Segment.
    pub segment: u32,
    /// Slot of the header; the data slots follow.
    pub at: Slot,
    /// Capacity in pages.
    room: usize,
    /// Pages and their checksums.
    pub entries: RefCell<Vec<(u64, u32)>>,
    /// Data of the pages, until the header is encoded.
    pub data: RefCell<Vec<Buffer>>,
    /// The batch up to which all earlier ones were durable when the header was encoded.
    pub durable_before: Cell<u64>,
    /// Writes in flight, including the header's.
    pub writes: Cell<usize>,
    /// The first error, if any.
    pub failed: RefCell<Option<IoError>>,
    state: Cell<BatchState>,
    waiting: RefCell<Vec<Waker>>,
}

/// State of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchState {
    /// Writes of this instant join it.
    Open,
    /// A write has undertaken to write the header, after this instant: until then others join.
    HeaderClaimed,
    /// The batch and all earlier ones are mapped, or failed.
    Ended,
}

impl Batch {
    /// Whether the batch and all earlier ones are mapped, or failed.
    pub fn is_ended(&self) -> bool {
        self.state.get() == BatchState::Ended
    }

    /// Claims the header; true for the first caller, which has to write it.
    pub fn claim_header(&self) -> bool {
        let open = self.state.get() == BatchState::Open;
        if open {
            self.state.set(BatchState::HeaderClaimed);
        }
        open
    }

    /// Registers a waker for the end.
    pub fn wait(&self, waker: Waker) {
        self.waiting.borrow_mut().push(waker);
    }

    /// The pages of the batch and their slots.
    pub fn pages(&self) -> Vec<(u64, Slot)> {
        let slots = self.at + 1..;
        self.entries.borrow().iter().map(|(page, _)| *page).zip(slots).collect()
    }

    /// Records that one of its writes ended, or was joined with another.
    pub fn finish_one_write(&self) {
        let twice = u32::from(mutant::is("borg: a write of a batch is counted off twice"));
        for _ in 0..=twice {
            invariant!("no count wraps", self.writes.get() > 0);
            self.writes.set(self.writes.get() - 1);
        }
    }

    /// Marks the batch as ended, and wakes its waiters.
    pub fn end(&self) {
        self.state.set(BatchState::Ended);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

/// The segments of the write buffer in use.
pub struct Log {
    layout: Layout,
    /// Pages of the longest batch.
    longest: usize,
    /// Whether map pages name the first batches of segments: in version 2, if pages carry data.
    pub summed: bool,
    free: BTreeSet<u32>,
    end: End,
    /// Segments taken so far.
    taken: u64,
    /// Sequence number of the last batch.
    pub sequence: u64,
    /// The batch that writes of this instant join.
    open_batch: Option<Rc<Batch>>,
    /// Batches that have not ended, in order.
    in_flight: VecDeque<Rc<Batch>>,
    /// All batches up to this one have ended: mapped, or failed.
    pub ended: u64,
    /// All batches up to this one are durable.
    pub durable: u64,
    /// The last batch that was committed: it ended without failing, and is mapped.
    pub last_committed: u64,
    /// Committed batches that are not stable yet.
    unstable: VecDeque<Rc<Batch>>,
    /// The last batch without pages ([`super::witness`]).
    pub(super) witness: u64,
}

/// The end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// No header on disk says where the log continues: only a super page can.
    Closed {
        /// The segment filled last, and what is free there; its last batch may still be joined.
        last: Option<(u32, Holes)>,
    },
    /// A segment is being filled.
    Open {
        segment: u32,
        free: Holes,
        /// The segment after it, if one was free.
        next: Option<u32>,
    },
}

impl Log {
    /// A closed log with these free segments, after batch `sequence`, when `taken` segments had been taken.
    pub fn new(layout: Layout, version: u32, free: BTreeSet<u32>, sequence: u64, taken: u64) -> Log {
        Log {
            layout,
            longest: batch::entries(version),
            summed: version != OLD,
            free,
            end: End::Closed { last: None },
            taken,
            sequence,
            open_batch: None,
            in_flight: VecDeque::new(),
            ended: sequence,
            durable: sequence,
            last_committed: sequence,
            unstable: VecDeque::new(),
            witness: 0,
        }
    }

    /// Free slots: free segments, and the remainder of the open one.
    pub fn room(&self) -> u64 {
        let (left, next) = match &self.end {
            End::Closed { last } => (last.as_ref().map_or(0, |(_, free)| free.pages()), None),
            End::Open { free, next, .. } => (free.pages(), *next),
        };
        let segments = (self.free.len() + usize::from(next.is_some())) as u64;
        u64::from(left) + segments * u64::from(self.layout.segment)
    }

    /// Whether this many pages can be absorbed now, however they are divided into batches.
    pub fn has_room(&self, pages: u64) -> bool {
        let longest = self.longest as u32;
        let End::Open { free, next, .. } = &self.end else { return false };
        let segments = (self.free.len() + usize::from(next.is_some())) as u64;
        u64::from(free.usable(longest)) + segments * u64::from(usable(self.layout.segment, longest)) >= pages
    }

    /// Slots at which a batch of this many pages can begin, in the segment that is being filled. None while batches are
    /// being written, which the next one should follow; and none in an empty segment: recovery checks the beginnings of
    /// segments for batches behind a damaged one.
    pub fn possible_starts(&self, pages: u64) -> Vec<Range<Slot>> {
        let pages = pages.min(self.longest as u64) as u32 + 1;
        match &self.end {
            End::Open { segment, free, .. }
                if self.is_quiet() && free.next().is_some_and(|next| next > 0) =>
            {
                let start = self.layout.slots_of(*segment).start;
                free.possible_starts(pages).map(|hole| start + hole.start..start + hole.end).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The slot in which the next batch would begin, if there is room in the segment that is being filled.
    pub fn next_slot(&self) -> Option<Slot> {
        let End::Open { segment, free, .. } = &self.end else { return None };
        Some(self.layout.slots_of(*segment).start + free.next()?)
    }

    /// The segment that is being filled.
    pub fn open_segment(&self) -> Option<u32> {
        match &self.end {
            End::Open { segment, .. } => Some(*segment),
            End::Closed { .. } => None,
        }
    }

    /// Lets the next batch begin in this slot, one of [`Log::possible_starts`].
    pub fn begin_at(&mut self, slot: Slot) {
        if let End::Open { free, .. } = &mut self.end {
            free.move_to(self.layout.segment_of(slot).1);
        }
    }

    /// Whether the log continues only where the super page will say.
    pub fn is_closed(&self) -> bool {
        matches!(self.end, End::Closed { .. })
    }

    /// A free segment to reopen a closed log in.
    pub fn first_free(&self) -> Option<u32> {
        self.free.first().copied()
    }

    /// Frees these segments, which are empty. Nothing is kept of their batches: whether those are stable says nothing
    /// of later batches in the same slots.
    pub fn free_segments(&mut self, segments: &mut Segments, which: &[u32]) {
        self.unstable.retain(|batch| !which.contains(&batch.segment));
        for &segment in which {
            let entry = segments.get_mut(segment);
            invariant!(
                "a segment is freed when it holds nothing, on disk either",
                entry.valid == 0 && entry.changes == 0
            );
            let Segment { generation, copy, covered, copies, .. } = *entry;
            *entry = Segment { generation, copy, covered, copies, ..Segment::default() };
            segments.set_stable(segment, u64::MAX);
            self.free.insert(segment);
        }
        if let End::Open { segment, next: None, .. } = self.end {
            let taken = self.take_next_free(segment);
            if let End::Open { next, .. } = &mut self.end {
                *next = taken;
            }
        }
    }

    /// Takes these segments out of the log; false, and nothing changes, unless all of them are free and others too.
    pub fn take_out(&mut self, segments: Range<u32>) -> bool {
        let all = segments.clone().all(|segment| self.free.contains(&segment));
        let takes = all && self.free.len() > segments.len();
        if takes {
            self.free.retain(|segment| !segments.contains(segment));
        }
        takes
    }

    /// Gives segments that were taken out of the log back to it.
    pub fn put_back(&mut self, segments: Range<u32>) {
        self.free.extend(segments);
    }

    /// Takes the next free segment after `segment`, cyclically.
    fn take_next_free(&mut self, segment: u32) -> Option<u32> {
        let next = self.free.range(segment..).next().or_else(|| self.free.first()).copied()?;
        self.free.remove(&next);
        Some(next)
    }

    /// Reopens a closed log in this free segment, which the super page names.
    pub fn reopen(&mut self, segments: &mut Segments, segment: u32) {
        self.free.remove(&segment);
        self.fill(segments, segment);
    }

    /// Starts filling this free segment.
    fn fill(&mut self, segments: &mut Segments, segment: u32) {
        self.taken += 1;
        let taken = self.taken;
        let entry = segments.get_mut(segment);
        (entry.taken, entry.next, entry.changes) = (taken, None, entry.changes + 1);
        entry.first = self.summed.then_some(self.sequence + 1);
        let next = self.take_next_free(segment);
        self.end = End::Open { segment, free: Holes::new(self.layout.segment), next };
    }

    /// A slot for a page to absorb, and its batch; `None` if the log is full.
    pub fn allocate_slot(
        &mut self,
        segments: &mut Segments,
        page: u64,
        data: &Buffer,
    ) -> Option<(Slot, Rc<Batch>)> {
        let full = |batch: &Rc<Batch>| batch.entries.borrow().len() == batch.room;
        if self.open_batch.as_ref().is_none_or(full) {
            self.begin_batch(segments)?;
        }
        let batch = self.open_batch.clone()?;
        let (End::Open { segment, free, .. } | End::Closed { last: Some((segment, free)) }) = &mut self.end
        else {
            return None;
        };
        batch.entries.borrow_mut().push((page, sum_of_page(data)));
        batch.data.borrow_mut().push(data.clone());
        let taken = free.take();
        let offset = if mutant::is("borg: a slot of the log is taken twice") { 1 } else { taken };
        segments.set_unstable(batch.at, self.layout.slots_of(*segment).start + taken + 1, batch.sequence);
        Some((self.layout.slots_of(*segment).start + offset, batch))
    }

    /// Finds room for a batch, perhaps in the next segment: the slot of its header, and how many pages can follow.
    fn take_header(&mut self, segments: &mut Segments) -> Option<(Slot, u32)> {
        let End::Open { segment, free, next } = &mut self.end else { return None };
        let place = |segment, (at, room)| (self.layout.slots_of(segment).start + at, room);
        if let Some(found) = free.begin() {
            return Some(place(*segment, found));
        }
        let segment = *segment;
        let Some(next) = *next else {
            edge("the write buffer is full");
            self.end = End::Closed { last: Some((segment, free.clone())) };
            return None;
        };
        segments.get_mut(segment).next = Some(next);
        self.fill(segments, next);
        self.take_header(segments)
    }

    fn begin_batch(&mut self, segments: &mut Segments) -> Option<()> {
        let (at, room) = self.take_header(segments)?;
        let segment = self.layout.segment_of(at).0;
        self.sequence += 1;
        segments.get_mut(segment).last_batch = self.sequence;
        let batch = Rc::new(Batch {
            sequence: self.sequence,
            segment,
            at,
            room: self.longest.min(room as usize),
            entries: RefCell::default(),
            data: RefCell::default(),
            durable_before: Cell::new(0),
            writes: Cell::new(1),
            failed: RefCell::default(),
            state: Cell::new(BatchState::Open),
            waiting: RefCell::default(),
        });
        self.in_flight.push_back(batch.clone());
        self.open_batch = Some(batch);
        Some(())
    }

    /// Begins a batch that needs no page, if there is room for one.
    pub(super) fn begin_witness(&mut self, segments: &mut Segments) -> Option<Rc<Batch>> {
        let End::Open { free, next, .. } = &self.end else { return None };
        if free.next().is_none() && next.is_none() {
            return None;
        }
        self.begin_batch(segments)?;
        self.witness = self.sequence;
        self.open_batch.clone()
    }

    /// Closes a batch; returns the segment after its own, in which the log continues.
    pub fn close_batch(&mut self, segments: &Segments, batch: &Rc<Batch>) -> u32 {
        if self.open_batch.as_ref().is_some_and(|open_batch| Rc::ptr_eq(open_batch, batch)) {
            self.open_batch = None;
        }
        match &self.end {
            End::Open { segment, free, next } if *segment == batch.segment => {
                let next = *next;
                if next.is_none() && free.next().is_none() {
                    self.end = End::Closed { last: Some((*segment, free.clone())) };
                }
                next.unwrap_or(NONE)
            }
            _ => segments.get(batch.segment).next.unwrap_or(NONE),
        }
    }

    /// Removes and returns the first batch that has not ended, if all of it was written, or failed.
    pub fn pop_ended(&mut self, only_failed: bool) -> Option<Rc<Batch>> {
        let looked_at = if mutant::is("borg: batches are committed in any order") { usize::MAX } else { 1 };
        let first = self.in_flight.iter().take(looked_at).position(|batch| batch.writes.get() == 0)?;
        if only_failed && self.in_flight[first].failed.borrow().is_none() {
            return None;
        }
        let batch = self.in_flight.remove(first)?;
        invariant!("batches are committed in the order of the log", batch.sequence == self.ended + 1);
        self.ended = batch.sequence;
        Some(batch)
    }

    /// Whether a page is in a batch that has not ended.
    pub fn is_appending(&self, page: u64) -> bool {
        self.in_flight.iter().any(|batch| batch.entries.borrow().iter().any(|(entry, _)| *entry == page))
    }

    /// Fails all batches that have not ended.
    pub fn fail(&self, error: &IoError) {
        for batch in &self.in_flight {
            batch.failed.borrow_mut().get_or_insert_with(|| error.clone());
        }
    }

    /// Records that a batch was committed: it ended without failing.
    pub fn record_committed(&mut self, batch: &Rc<Batch>) {
        self.last_committed = batch.sequence;
        self.unstable.push_back(batch.clone());
    }

    /// Whether no batch is in flight.
    pub fn is_quiet(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Records that batches up to this one are durable. Recovery then finds in the header of a durable batch which ones
    /// were durable before it, and does not depend on the checksums of those: their copies are stable from now on.
    pub fn mark_durable(&mut self, segments: &mut Segments, sequence: u64) {
        self.durable = self.durable.max(sequence);
        let durable = self.unstable.iter().filter(|batch| batch.sequence <= self.durable);
        let stable = durable.map(|batch| batch.durable_before.get()).max().unwrap_or(0);
        while let Some(batch) = self.unstable.front().filter(|batch| batch.sequence <= stable) {
            segments.set_stable(batch.segment, batch.sequence);
            self.unstable.pop_front();
        }
    }

    /// The anchor at which recovery has to begin to find all batches that have not ended.
    pub fn anchor(&self) -> Anchor {
        let sequence = self.ended + 1;
        let place = |segment, offset| Anchor { segment, offset, sequence };
        if let Some(batch) = self.in_flight.front() {
            return place(batch.segment, self.layout.segment_of(batch.at).1);
        }
        match &self.end {
            End::Open { segment, free, next } => match free.next() {
                Some(offset) => place(*segment, offset),
                None => place(next.unwrap_or(NONE), 0),
            },
            End::Closed { .. } => place(NONE, 0),
        }
    }

    /// Number of the next segment to be taken.
    pub fn next_to_take(&self) -> u64 {
        self.taken + 1
    }

    /// Segments taken since this one, inclusive.
    pub fn taken_since(&self, taken: u64) -> u64 {
        (self.taken + 1).saturating_sub(taken)
    }
}
