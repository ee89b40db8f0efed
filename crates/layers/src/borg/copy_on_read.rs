//! Copy on read: pages that clients read from the origin are copied to the read cache with the data in memory, in the
//! order in which they were read.
//!
//! A reconfiguration has to read each page that it copies. Here only a sequential write is paid for, so that a copy
//! costs about a quarter, and the first repetition of a sequence is served from the BOPT. Pages wait in memory until
//! there are enough of them for a long write; then a mover writes and maps them.
//!
//! Nothing is known of a page that was read once: a scan is never repeated. So there is an allowance of pages. Each copy
//! uses it up; rehearsals add the benefit of copies to it: the busy time that those made before a window of requests
//! saved in that window. Copies can also cost time, since they divide what is read together: if they did in two windows
//! one after the other, the read cache is emptied.
//!
//! Invariants: data that wait equal the origin: a page is added under the lock of the read that read it, and removed
//! under the lock of a request that changes it; from the removal for a mover on, an optimistic copy is in progress
//! ([`super::mover`]). Fault model: a failed read adds nothing; if a mover fails, its pages have no copy.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashMap;
use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, Extent, IoError, Nanos, PAGE_SECTORS, mutant};

use super::Borg;
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
/// The largest allowance, 16 TiB.
const MOST: i128 = 1 << 32;

/// State of copy on read.
#[derive(Default)]
pub(super) struct CopyOnRead {
    /// Pages that wait, with their position in the order of reads.
    waiting: RefCell<FxHashMap<u64, (u64, Buffer)>>,
    /// Position of the next page.
    next: Cell<u64>,
    /// Pages that may be copied; below zero, what copies cost beyond that.
    allowance: Cell<i64>,
    /// The slot after the last one that was used.
    hand: Cell<Slot>,
    /// Whether no slot was vacant: until the next decision.
    full: Cell<bool>,
    /// Whether copies cost time in the last window.
    lost: Cell<bool>,
    /// Whether a mover writes pages, or waits for another one.
    writing: Cell<bool>,
    /// Pages copied since the last decision.
    recent: RefCell<Vec<u64>>,
    /// Pages copied in all.
    copied: Cell<u64>,
}

/// The benefit of copies, by rehearsal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Benefit {
    /// Busy time that the copies made before a window saved in it; below zero, what they cost.
    pub saved: i128,
    /// Busy time of the window's requests without copies.
    pub busy: Nanos,
    /// Busy time of copying a page.
    pub page: Nanos,
}

impl Benefit {
    /// Whether the copies cost more than a hundredth of the busy time.
    fn is_loss(self) -> bool {
        self.saved < -i128::from(self.busy.0 / 100)
    }
}

impl CopyOnRead {
    /// With an allowance of pages.
    pub fn new(allowance: u64) -> CopyOnRead {
        let allowance = Cell::new(i64::try_from(allowance).unwrap_or(i64::MAX));
        CopyOnRead { allowance, ..CopyOnRead::default() }
    }

    /// Removes pages that are written or discarded.
    pub fn invalidate(&self, at: Extent) {
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

    /// Pages that may still be copied.
    pub fn allowance(&self) -> u64 {
        self.allowance.get().max(0) as u64
    }

    /// Adds the benefit of copies to the allowance; returns whether the read cache is to be emptied.
    pub fn decided(&self, benefit: Benefit) -> bool {
        let pages = benefit.saved / i128::from(benefit.page.0.max(1));
        self.allowance.set((i128::from(self.allowance.get()) + pages).clamp(-MOST, MOST) as i64);
        self.full.set(false);
        self.lost.replace(benefit.is_loss()) && benefit.is_loss()
    }
}

impl Borg {
    /// Adds the pages of a read of this class that was answered by the origin, under its lock.
    pub(super) fn copy_on_read(&self, at: Extent, data: &Buffer, class: Class) {
        let state = &self.copy_on_read;
        let pages = at.page_count();
        if state.allowance() < pages || pages > LONGEST || state.full.get() {
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
            // Its own memory: the reader may change what it read.
            let own = if self.timing_only { self.buffer(part) } else { Buffer::from_vec(piece.to_vec()) };
            state.waiting.borrow_mut().insert(page, (state.next.get(), own));
            state.next.set(state.next.get() + 1);
            state.allowance.set(state.allowance.get() - 1);
        }
        if state.waiting.borrow().len() >= batch {
            self.write_waiting();
        }
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
    fn an_allowance_grows_by_what_copies_save_and_two_losses_empty_the_read_cache() {
        let state = CopyOnRead::new(10);
        let benefit = |saved| Benefit { saved, busy: Nanos(50_000), page: Nanos(100) };
        assert!(!state.decided(benefit(0)));
        assert_eq!(state.allowance(), 10);
        assert!(!state.decided(benefit(-400)), "less than a hundredth of the busy time");
        assert_eq!(state.allowance(), 6);
        assert!(
            !state.decided(benefit(-1_000))
                && !state.decided(benefit(2_000))
                && !state.decided(benefit(-1_000))
        );
        assert_eq!(state.allowance(), 6);
        assert!(state.decided(benefit(-1_000)), "the second in a row");
        assert_eq!((state.allowance(), state.allowance.get()), (0, -4));
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
