//! Return on read: dirty pages that a long read found scattered in the log are written to the origin with the data in
//! memory, so that the next read of that place is sequential again.
//!
//! The write buffer makes one sequential write of many scattered ones, and divides what is read together: a scan of
//! what was written at random takes a positioning for each page. What is read in long runs belongs on the origin. Of
//! such a read only a write has to be paid for. Pages wait in memory until there are enough of them; then a mover
//! writes and unmaps them.
//!
//! Invariants: data that wait are those of the page's copy: a page is added under the lock of the read that read it,
//! and removed under the lock of a request that changes it; from the removal for a mover on, an optimistic copy is in
//! progress ([`super::mover`]). Fault model: a failed read adds nothing; if a mover fails, its pages stay dirty.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashMap;
use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, Extent, IoError, PAGE_SECTORS, mutant};

use super::Borg;
use super::mover::Mover;
use super::pace::Throttle;
use crate::destage::Pages;

/// The shortest read that counts, 64 KiB, in pages.
const SHORTEST: u64 = 16;
/// The fewest parts in which it is scattered.
const FEWEST_PARTS: usize = 4;
/// Pages that are written together, 2 MiB.
const BATCH: usize = 512;
/// Pages that wait at most, 32 MiB.
const MOST: usize = 16 * BATCH;

/// State of return on read.
#[derive(Default)]
pub(super) struct ReturnOnRead {
    /// Pages that wait, with their data.
    waiting: RefCell<FxHashMap<u64, Buffer>>,
    /// Whether a mover writes pages, or waits for another one.
    writing: Cell<bool>,
    /// Pages returned in all.
    returned: Cell<u64>,
}

impl ReturnOnRead {
    /// Removes pages that are written or discarded.
    pub fn invalidate(&self, at: Extent) {
        let waiting = &mut *self.waiting.borrow_mut();
        if waiting.is_empty() || mutant::is("borg: a page that waits for its return does not see a write") {
            return;
        }
        for page in at.pages() {
            if waiting.remove(&page).is_some() {
                edge("a page is written while it waits for its return");
            }
        }
    }

    /// Takes the pages that wait.
    pub fn take(&self) -> Pages {
        self.waiting.take()
    }

    /// Pages returned in all.
    pub fn returned(&self) -> u64 {
        self.returned.get()
    }

    /// Counts returned pages.
    pub fn count(&self, pages: u64) {
        self.returned.set(self.returned.get() + pages);
    }
}

impl Borg {
    /// Adds the dirty pages of a read of this class that was answered in `parts` parts, under its lock.
    pub(super) fn return_on_read(&self, at: Extent, data: &Buffer, class: Class, parts: usize) {
        let state = &self.return_on_read;
        let is_scattered = parts >= FEWEST_PARTS && at.page_count() >= SHORTEST && at == at.whole_pages();
        let has_data = self.timing_only || data.is_real();
        if !is_scattered || !has_data || class != Class::Foreground || self.failed_writes.any_of(at) {
            return;
        }
        let waiting = &mut *state.waiting.borrow_mut();
        for (part, piece) in data.split(at, PAGE_SECTORS) {
            let page = part.start.page();
            let is_dirty = self.store.lookup(page).is_some_and(|entry| entry.dirty);
            if !is_dirty || waiting.len() >= MOST || waiting.contains_key(&page) {
                continue;
            }
            waiting.insert(page, self.own_copy(part, &piece));
        }
        if waiting.len() >= BATCH.min(self.store.dirty() / 4) {
            self.write_returning();
        }
    }

    /// Starts to write the pages that wait, in the background.
    fn write_returning(&self) {
        let Some(borg) = self.me.upgrade().filter(|_| !self.return_on_read.writing.replace(true)) else {
            return;
        };
        let work = async move {
            // More pages may have come meanwhile. An error ends it: the pages that it met stay dirty.
            while let Ok(true) = borg.return_waiting().await {
                if borg.return_on_read.waiting.borrow().len() < BATCH {
                    break;
                }
            }
            borg.return_on_read.writing.set(false);
        };
        runtime::spawn(work).detach();
    }

    /// Writes the pages that wait to the origin, and unmaps them; returns false if there is no mover for them.
    async fn return_waiting(&self) -> Result<bool, IoError> {
        let Some(mover) = Mover::start(self, self.payer(), Throttle::Throttled).await? else {
            return Ok(false);
        };
        edge("dirty pages return to the origin after a long read");
        mover.with_its_share().return_read().await
    }
}
