//! Copy on read: pages that clients read from the origin are copied to the read cache with the data in memory, in the
//! order in which they were read.
//!
//! A reconfiguration has to read each page that it copies. Here only a sequential write is paid for, so that a copy
//! costs about a quarter, and the first repetition of a sequence is served from the BOPT. Pages wait in memory until
//! there are enough of them for a long write; then a mover writes and maps them.
//!
//! Nothing is known of a page that was read once: a scan is never repeated. So a first allowance of pages is copied
//! without a judgement. After that pages are copied while rehearsals say that it pays: that with copies of all that was
//! read before a window of requests, in the order in which it was read, that window would have taken less time, whether
//! those pages were copied or not. Copies can also cost time, since they divide what is read together: if they did in
//! two windows one after the other, by a third of what copying them again would cost, the read cache is emptied.
//!
//! A page that is written again and again is not copied: while it has a copy, its writes go there, and have to be
//! drained. Without a judgement that goes for each page that was written.
//!
//! Invariants: data that wait equal the origin: a page is added under the lock of the read that read it, and removed
//! under the lock of a request that changes it; from the removal for a mover on, an optimistic copy is in progress
//! ([`super::mover`]). Fault model: a failed read adds nothing; if a mover fails, its pages have no copy.

use std::cell::{Cell, RefCell};

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, Extent, IoError, Nanos, PAGE_SECTORS, mutant};

use super::Borg;
use super::course::{ERROR, wins};
use super::mover::Mover;
use super::pace::Throttle;
use super::store::Slot;

/// Pages written together, 4 MiB: fewer in a small BOPT.
pub(super) const BATCH: usize = 1_024;
/// A read of more pages is not copied, 256 KiB: its transfer takes longer than its positioning.
const LONGEST: u64 = 64;
/// Batches that wait at most, 64 MiB: a mover that gives way to clients takes a while, and pages left out would divide
/// what is read together.
const MOST_BATCHES: usize = 16;
/// Pages written once, and more than once, that are kept in mind at most: then they are forgotten. 9 MiB.
const MOST_WRITTEN: usize = 1 << 18;

/// Halves of a window that copies are expected to serve.
const SERVES: i128 = 3;

/// State of copy on read.
#[derive(Default)]
pub(super) struct CopyOnRead {
    /// Pages that wait, with their position in the order of reads.
    waiting: RefCell<FxHashMap<u64, (u64, Buffer)>>,
    /// Position of the next page.
    next: Cell<u64>,
    /// Pages that may be copied without a judgement.
    allowance: Cell<u64>,
    /// Whether copies pay, by the last rehearsal.
    pays: Cell<bool>,
    /// Pages written lately: once, and more than once.
    written: RefCell<[FxHashSet<u64>; 2]>,
    /// The slot after the last one that was used.
    hand: Cell<Slot>,
    /// Whether no slot was vacant: until the next decision.
    full: Cell<bool>,
    /// Busy time that copies cost in the last windows, since the last one in which they did not, in nanoseconds.
    losses: Cell<i128>,
    /// Whether a mover writes pages, or waits for another one.
    writing: Cell<bool>,
    /// Pages copied since the last decision.
    recent: RefCell<Vec<u64>>,
    /// Pages copied in all.
    copied: Cell<u64>,
}

/// The benefit of copies of all that was read before, in a window of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Benefit {
    /// Busy time that they save, in nanoseconds; below zero, what they cost.
    pub saved: i128,
    /// Busy time of the window's requests without copies.
    pub busy: Nanos,
    /// Busy time of copying the pages that the window was the first to read.
    pub copying: Nanos,
    /// Busy time of copying again what the read cache holds.
    pub again: Nanos,
}

impl CopyOnRead {
    /// With an allowance of pages.
    pub fn new(allowance: u64) -> CopyOnRead {
        CopyOnRead { allowance: Cell::new(allowance), ..CopyOnRead::default() }
    }

    /// Removes pages that are written or discarded, and keeps them in mind.
    pub fn invalidate(&self, at: Extent) {
        if self.is_on() {
            let [once, again] = &mut *self.written.borrow_mut();
            for page in at.pages() {
                if !once.insert(page) {
                    again.insert(page);
                }
            }
            for pages in [once, again] {
                if pages.len() > MOST_WRITTEN {
                    pages.clear();
                }
            }
        }
        let waiting = &mut *self.waiting.borrow_mut();
        if waiting.is_empty() || mutant::is("borg: a page that waits for its copy does not see a write") {
            return;
        }
        for page in at.pages() {
            if waiting.remove(&page).is_some() {
                edge("a page is written while it waits for its copy");
            }
        }
    }

    /// Takes the pages that wait, in the order in which they were read.
    pub fn take(&self) -> Vec<(u64, Buffer)> {
        let mut taken: Vec<(u64, (u64, Buffer))> = self.waiting.borrow_mut().drain().collect();
        taken.sort_unstable_by_key(|(_, (position, _))| *position);
        taken.into_iter().map(|(page, (_, data))| (page, data)).collect()
    }

    /// Records pages that get a copy.
    pub fn copies(&self, pages: impl Iterator<Item = u64>) {
        let recent = &mut *self.recent.borrow_mut();
        let before = recent.len();
        recent.extend(pages);
        self.copied.set(self.copied.get() + (recent.len() - before) as u64);
    }

    /// Takes the pages copied since the last decision.
    pub fn take_recent(&self) -> Vec<u64> {
        self.recent.take()
    }

    /// Pages copied in all.
    pub fn copied(&self) -> u64 {
        self.copied.get()
    }

    /// Pages that may still be copied without a judgement.
    pub fn allowance(&self) -> u64 {
        self.allowance.get()
    }

    /// Whether pages are copied now.
    pub fn is_on(&self) -> bool {
        self.pays.get() || self.allowance.get() > 0
    }

    /// Whether one of these pages was written, without a judgement; or while copies pay, again and again.
    fn is_written(&self, at: Extent) -> bool {
        let [once, again] = &*self.written.borrow();
        let written = if self.pays.get() { again } else { once };
        !written.is_empty() && at.pages().any(|page| written.contains(&page))
    }

    /// Decides by the benefit in two fifths of a window whether pages are copied from now on; returns whether the read
    /// cache, if nothing else is done with it (`keeps`), is to be emptied: since the copies cost time in this window
    /// and in the last one, at least a third of what copying them again would.
    pub fn decided(&self, benefit: Benefit, keeps: bool) -> bool {
        let Benefit { saved, busy, copying, again } = benefit;
        let busy = i128::from(busy.0);
        self.pays.set(wins(busy - saved, busy, ERROR) && saved * SERVES > 2 * i128::from(copying.0));
        self.full.set(false);
        let before = self.losses.get();
        // The whole window has five fifths.
        let losses = if saved < 0 { before - saved * 5 / 2 } else { 0 };
        let empties = keeps && again > Nanos::ZERO && before > 0 && losses * 3 > i128::from(again.0);
        self.losses.set(if empties { 0 } else { losses });
        empties
    }
}

impl Borg {
    /// Adds the pages of a read of this class that was answered by the origin, under its lock.
    pub(super) fn copy_on_read(&self, at: Extent, data: &Buffer, class: Class) {
        let state = &self.copy_on_read;
        let pages = at.page_count();
        if !state.is_on()
            || pages > LONGEST
            || state.full.get()
            || state.is_written(at)
            || self.failed_writes.any_of(at)
        {
            return;
        }
        let (batch, waits) = (self.batch(), state.waiting.borrow().len());
        // Part of a page is no copy; without data in memory there is nothing to copy.
        let is_whole = at == at.whole_pages() && (self.timing_only || data.is_real());
        if !is_whole || class != Class::Foreground || batch == 0 {
            return;
        }
        if waits >= MOST_BATCHES * batch {
            return self.write_waiting();
        }
        for (part, piece) in data.split(at, PAGE_SECTORS) {
            let page = part.start.page();
            if self.store.lookup(page).is_some() || state.waiting.borrow().contains_key(&page) {
                continue;
            }
            let own = self.own_copy(part, &piece);
            state.waiting.borrow_mut().insert(page, (state.next.get(), own));
            state.next.set(state.next.get() + 1);
            state.allowance.set(state.allowance.get().saturating_sub(1));
        }
        if state.waiting.borrow().len() >= batch {
            self.write_waiting();
        }
    }

    /// What was read, in memory of its own: the reader may change what it read.
    pub(super) fn own_copy(&self, at: Extent, data: &Buffer) -> Buffer {
        if self.timing_only { self.buffer(at) } else { Buffer::from_vec(data.to_vec()) }
    }

    /// Pages written together; 0 if there is no read cache.
    fn batch(&self) -> usize {
        (self.store.layout().cached_slots() as usize).div_ceil(64).min(BATCH)
    }

    /// Starts to write the pages that wait, in the background.
    fn write_waiting(&self) {
        let Some(borg) = self.me.upgrade().filter(|_| !self.copy_on_read.writing.replace(true)) else {
            return;
        };
        let work = async move {
            // More pages may have come meanwhile. An error ends it: the pages that it met have no copy, like others.
            while let Ok(true) = borg.copy_waiting().await {
                if borg.copy_on_read.waiting.borrow().len() < borg.batch() {
                    break;
                }
            }
            borg.copy_on_read.writing.set(false);
        };
        runtime::spawn(work).detach();
    }

    /// Copies the pages that wait; returns false if there is no mover for them.
    async fn copy_waiting(&self) -> Result<bool, IoError> {
        let Some(mover) = Mover::start(self, self.payer(), Throttle::Throttled).await? else {
            return Ok(false);
        };
        edge("pages are copied as clients read them");
        mover.place_read().await
    }

    /// Vacant slots of the read cache for up to `count` pages, from the last one used on.
    pub(super) fn slots_for(&self, count: usize) -> Vec<Slot> {
        let (cached, hand) = (self.store.layout().cached_slots(), self.copy_on_read.hand.get());
        let from_hand = (hand..cached).chain(0..hand.min(cached));
        let slots: Vec<Slot> = from_hand.filter(|slot| self.store.is_vacant(*slot)).take(count).collect();
        self.copy_on_read.full.set(slots.len() < count);
        if let Some(last) = slots.last() {
            self.copy_on_read.hand.set(last + 1);
        }
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_pay_go_on_beyond_the_allowance() {
        let state = CopyOnRead::new(10);
        let benefit = |saved, copying| Benefit {
            saved,
            busy: Nanos(50_000),
            copying: Nanos(copying),
            again: Nanos(10_000),
        };
        let pays = |benefit| (state.decided(benefit, true), state.pays.get()).1;
        assert!(!pays(benefit(1_500, 0)), "no more than three hundredths of the busy time");
        assert!(pays(benefit(1_600, 2_390)), "in a window and a half it saves what it costs");
        assert!(!pays(benefit(1_600, 2_410)));
        assert!(pays(benefit(2_010, 3_010)));
        assert_eq!((state.allowance(), state.is_on()), (10, true));
        state.allowance.set(0);
        assert!(state.is_on() && !pays(benefit(0, 0)) && !state.is_on());
    }

    #[test]
    fn copies_that_cost_time_in_two_windows_are_dropped() {
        let state = CopyOnRead::new(10);
        let benefit =
            |saved| Benefit { saved, busy: Nanos(50_000), again: Nanos(10_000), ..Benefit::default() };
        let decided = |saved| state.decided(benefit(saved), true);
        assert!(!decided(-1_000) && !decided(1), "once");
        assert!(!decided(-1_000) && decided(-1_000), "twice, half of what copying them again costs");
        assert!(!decided(-1_000) && !decided(-300), "that is not yet a third");
        let empty = Benefit { again: Nanos::ZERO, ..benefit(-50_000) };
        assert!(!state.decided(empty, true), "there is nothing to drop");
        assert!(!decided(1) && !decided(-1_000), "begun anew");
        assert!(!state.decided(benefit(-1_000), false), "something else is done with it");
        assert!(decided(-1_000), "what it lost is not forgotten");
    }

    #[test]
    fn written_pages_are_known_as_long_as_there_is_room() {
        let state = CopyOnRead::new(10);
        let page = |number| Extent::of_pages(number, 1);
        state.invalidate(page(1));
        assert!(state.is_written(Extent::of_pages(0, 2)) && !state.is_written(page(2)));
        state.pays.set(true);
        assert!(!state.is_written(page(1)), "once is not enough");
        state.invalidate(page(1));
        state.invalidate(Extent::of_pages(10, MOST_WRITTEN as u64 + 1));
        assert!(state.is_written(page(1)) && !state.is_written(page(10)));
        state.pays.set(false);
        assert!(!state.is_written(page(10)), "all that were written once are forgotten");
    }

    #[test]
    fn pages_wait_in_the_order_of_their_reads_until_they_are_written() {
        let state = CopyOnRead::new(10);
        for (position, page) in [7, 3, 9, 5].into_iter().enumerate() {
            state.waiting.borrow_mut().insert(page, (position as u64, Buffer::hollow_sectors(PAGE_SECTORS)));
        }
        let write = async { state.invalidate(Extent::new(3 * PAGE_SECTORS + 1, 1)) };
        runtime::Runtime::new(1).run(write).unwrap();
        let taken: Vec<u64> = state.take().into_iter().map(|(page, _)| page).collect();
        assert_eq!(taken, [7, 9, 5]);
        assert!(state.take().is_empty());
    }
}
