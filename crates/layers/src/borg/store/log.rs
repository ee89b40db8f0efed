//! The write buffer: segments that are filled one after the other with runs (section 3.3).
//!
//! A run is a page that describes it and as many pages behind it as it has room for. Runs are settled in the order in which
//! they lie in the log: so whoever goes along the log from the super page's anchor meets all that were answered.
//! A segment is free again when its map page tells durably that it holds nothing, and the anchor lies behind it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::task::Waker;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, IoError};

use super::format::{Anchor, NONE, run};
use super::layout::Layout;
use super::map::Slot;
use super::segments::{Segment, Segments};
use crate::bytes::sum_of_page;

/// Pages that were absorbed in one instant, with the page that describes them.
pub struct Run {
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
    /// All runs up to this one were durable when its page was written.
    pub confirmed: Cell<u64>,
    /// Whether somebody writes its page.
    pub led: Cell<bool>,
    /// Writes that are under way, its own page's included.
    pub writes: Cell<usize>,
    /// Why it failed, if it did.
    pub failed: RefCell<Option<IoError>>,
    settled: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Run {
    /// Whether it and all before it were written, or failed.
    pub fn is_settled(&self) -> bool {
        self.settled.get()
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

    /// Who waits for it can go on.
    pub fn settle(&self) {
        self.settled.set(true);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

/// The segments of the write buffer in use.
pub struct Log {
    layout: Layout,
    /// Pages that a run has at most.
    longest: usize,
    free: BTreeSet<u32>,
    /// The segment that is being filled, and how far.
    open: Option<(u32, u32)>,
    /// The one behind it.
    next: Option<u32>,
    /// No run's page on disk says where the log goes on: only a super page can.
    closed: bool,
    /// Segments that were taken so far.
    taken: u64,
    /// Of the last run.
    pub sequence: u64,
    /// The run that writes of this instant join.
    gathering: Option<Rc<Run>>,
    /// Not settled, in order.
    under_way: VecDeque<Rc<Run>>,
    /// Up to this run all are.
    pub settled: u64,
    /// Up to this run all are durable.
    pub durable: u64,
    /// The last run that was settled and did not fail.
    pub reached: u64,
    /// Settled runs that are not confirmed durably.
    unconfirmed: VecDeque<Rc<Run>>,
}

impl Log {
    /// One that is closed, with these segments free, after so many runs.
    pub fn new(layout: Layout, version: u32, free: BTreeSet<u32>, sequence: u64, taken: u64) -> Log {
        Log {
            layout,
            longest: run::entries(version),
            free,
            open: None,
            next: None,
            closed: true,
            taken,
            sequence,
            gathering: None,
            under_way: VecDeque::new(),
            settled: sequence,
            durable: sequence,
            reached: sequence,
            unconfirmed: VecDeque::new(),
        }
    }

    /// Slots of segments that are free, and what is left of the open one.
    pub fn room(&self) -> u64 {
        let left = self.open.map_or(0, |(_, filled)| self.layout.segment - filled);
        u64::from(left)
            + (self.free.len() + usize::from(self.next.is_some())) as u64 * u64::from(self.layout.segment)
    }

    /// Whether so many pages can be absorbed now, however they are cut into runs.
    pub fn has_room(&self, pages: u64) -> bool {
        let usable = |slots: u32| u64::from(slots - slots.div_ceil(self.longest as u32 + 1));
        let open = self.open.map_or(0, |(_, filled)| usable(self.layout.segment - filled));
        let others =
            (self.free.len() + usize::from(self.next.is_some())) as u64 * usable(self.layout.segment);
        !self.closed && open + others >= pages
    }

    /// Whether the log does not go on until the super page says where.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// A segment to open a closed log in: the one that follows a segment.
    pub fn first_free(&self) -> Option<u32> {
        self.free.first().copied()
    }

    /// These segments are free. What is confirmed of their runs says nothing of those that come after them.
    pub fn give_back(&mut self, segments: &mut Segments, which: &[u32]) {
        self.unconfirmed.retain(|run| !which.contains(&run.segment));
        for &segment in which {
            let entry = segments.get(segment);
            let Segment { generation, home, covered, homes, .. } = *entry;
            *entry = Segment { generation, home, covered, homes, ..Segment::default() };
            self.free.insert(segment);
        }
        if !self.closed && self.next.is_none() {
            self.next = self.free_behind(self.open.map_or(0, |(segment, _)| segment));
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
        self.next = Some(segment);
        self.closed = false;
        self.open = None;
        self.open_next(segments);
    }

    fn open_next(&mut self, segments: &mut Segments) -> Option<(u32, u32)> {
        let segment = self.next.take()?;
        if let Some((last, _)) = self.open {
            segments.get(last).next = Some(segment);
        }
        self.taken += 1;
        let taken = self.taken;
        let entry = segments.get(segment);
        (entry.taken, entry.confirmed, entry.next, entry.changes) = (taken, 0, None, entry.changes + 1);
        self.open = Some((segment, 0));
        self.next = self.free_behind(segment);
        self.open
    }

    /// Whether a segment is filled so far that no run fits behind.
    fn is_full(&self, filled: u32) -> bool {
        self.layout.segment - filled < 2
    }

    /// A slot for a page that is absorbed now, and the run that it is part of. `None` if the log is full.
    pub fn take(&mut self, segments: &mut Segments, page: u64, data: &Buffer) -> Option<(Slot, Rc<Run>)> {
        let full = |run: &Rc<Run>| run.entries.borrow().len() == run.room;
        if self.gathering.as_ref().is_none_or(full) {
            self.begin_run(segments)?;
        }
        let run = self.gathering.clone()?;
        let (segment, filled) = self.open?;
        run.entries.borrow_mut().push((page, sum_of_page(data)));
        run.data.borrow_mut().push(data.clone());
        self.open = Some((segment, filled + 1));
        Some((self.layout.slots_of(segment).start + filled, run))
    }

    fn begin_run(&mut self, segments: &mut Segments) -> Option<()> {
        if self.closed {
            return None;
        }
        let (segment, filled) = match self.open {
            Some(open) if !self.is_full(open.1) => open,
            _ => {
                let Some(next) = self.open_next(segments) else {
                    edge("the write buffer is full");
                    self.closed = true;
                    return None;
                };
                next
            }
        };
        self.sequence += 1;
        segments.get(segment).last_run = self.sequence;
        let run = Rc::new(Run {
            sequence: self.sequence,
            segment,
            at: self.layout.slots_of(segment).start + filled,
            room: self.longest.min((self.layout.segment - filled - 1) as usize),
            entries: RefCell::default(),
            data: RefCell::default(),
            confirmed: Cell::new(0),
            led: Cell::new(false),
            writes: Cell::new(1),
            failed: RefCell::default(),
            settled: Cell::new(false),
            waiting: RefCell::default(),
        });
        self.open = Some((segment, filled + 1));
        self.under_way.push_back(run.clone());
        self.gathering = Some(run);
        Some(())
    }

    /// Nothing joins a run any more; where the log goes on behind its segment.
    pub fn close_run(&mut self, segments: &Segments, run: &Rc<Run>) -> u32 {
        if self.gathering.as_ref().is_some_and(|gathering| Rc::ptr_eq(gathering, run)) {
            self.gathering = None;
        }
        match self.open {
            Some((segment, filled)) if segment == run.segment => {
                if self.next.is_none() && self.is_full(filled) {
                    self.closed = true;
                }
                self.next.unwrap_or(NONE)
            }
            _ => segments.of(run.segment).next.unwrap_or(NONE),
        }
    }

    /// The first run that is not settled, if all of it is written, or failed.
    pub fn written_first(&mut self, only_failed: bool) -> Option<Rc<Run>> {
        let first = self.under_way.front().filter(|run| run.writes.get() == 0)?;
        if only_failed && first.failed.borrow().is_none() {
            return None;
        }
        self.settled = first.sequence;
        self.under_way.pop_front()
    }

    /// All runs fail that are not settled.
    pub fn fail(&self, error: &IoError) {
        for run in &self.under_way {
            run.failed.borrow_mut().get_or_insert_with(|| error.clone());
        }
    }

    /// A run was settled, without failing.
    pub fn remember(&mut self, run: &Rc<Run>) {
        self.reached = run.sequence;
        self.unconfirmed.push_back(run.clone());
    }

    /// No run is under way.
    pub fn is_quiet(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Runs up to this one are durable: what their pages call confirmed is so for good.
    pub fn now_durable(&mut self, segments: &mut Segments, sequence: u64) {
        self.durable = self.durable.max(sequence);
        let told = self.unconfirmed.iter().filter(|run| run.sequence <= self.durable);
        let confirmed = told.map(|run| run.confirmed.get()).max().unwrap_or(0);
        while let Some(run) = self.unconfirmed.front().filter(|run| run.sequence <= confirmed) {
            let end = self.layout.segment_of(run.at).1 + 1 + run.entries.borrow().len() as u32;
            let segment = segments.get(run.segment);
            segment.confirmed = segment.confirmed.max(end);
            self.unconfirmed.pop_front();
        }
    }

    /// Where whoever goes along the log has to begin, to meet all runs that are not settled.
    pub fn anchor(&self) -> Anchor {
        let sequence = self.settled + 1;
        let place = |segment, offset| Anchor { segment, offset, sequence };
        if let Some(run) = self.under_way.front() {
            return place(run.segment, self.layout.segment_of(run.at).1);
        }
        match self.open {
            Some((segment, filled)) if !self.is_full(filled) => place(segment, filled),
            _ => place(self.next.filter(|_| !self.closed).unwrap_or(NONE), 0),
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
