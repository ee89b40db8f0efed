//! Locks of requests (see [`seekless_core::lock`]).
//!
//! Invariant: while sectors of a page are locked for a write to the origin, the page gets no copy: only writes that
//! lock whole pages, and movers, give it one. Fault model: nothing here can fail.

use std::cell::Cell;

use seekless_core::lock::Guard;
use seekless_core::runtime::edge;
use seekless_core::{Class, Extent, Hints, Mode, PAGE_SECTORS, runtime};

use super::Borg;

/// The lock of a write.
pub(super) struct WriteLock<'a> {
    /// Whether the write may be absorbed where there is no copy.
    pub absorbs: bool,
    _guard: Guard,
    _page_write: Option<Counted<'a>>,
}

/// Counts something that is going on, until it is dropped: a write that locks pages, or a task that empties the BOPT.
pub(super) struct Counted<'a>(&'a Cell<u64>);

impl<'a> Counted<'a> {
    /// One more.
    pub fn of(count: &'a Cell<u64>) -> Counted<'a> {
        count.set(count.get() + 1);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Borg {
    /// Locks the pages of a request.
    pub(super) async fn lock_pages(&self, at: Extent, mode: Mode, how: &Hints) -> Guard {
        self.lock(at.whole_pages(), mode, how).await
    }

    /// Locks an extent for a request. One of a client waits as urgent: so the work of a mover that holds the extent
    /// goes before the requests of other clients, and the lock is soon free.
    async fn lock(&self, at: Extent, mode: Mode, how: &Hints) -> Guard {
        let began = runtime::now();
        let contended = self.movers.holds_any(at);
        if contended {
            edge("a request waits for a page that a mover has locked");
        }
        if mode == Mode::Exclusive && self.verifier.is_settling(at) {
            edge("a write waits for the repair of its page");
        }
        let class = if how.class == Class::Foreground { Class::Urgent } else { how.class };
        let guard = self.locks.lock(at, mode, class, None).await;
        if contended {
            self.movers.waited(runtime::now().since(began));
        }
        guard
    }

    /// Locks a write. One that only goes to the origin locks its sectors, not their pages: parts of a page that are
    /// written together can then be merged in the queue, as they are without this layer.
    pub(super) async fn lock_for_write(&self, at: Extent, how: &Hints) -> WriteLock<'_> {
        // Only writes that lock pages, and movers, give a page a copy.
        let (absorbs, writes) = (self.absorbs_of(at), &self.page_writes);
        if !absorbs && writes.get() == 0 && !self.movers.holds_any(at.whole_pages()) && !self.has_copies(at) {
            let guard = self.lock(at, Mode::Exclusive, how).await;
            edge("a write that is not absorbed locks its sectors only");
            return WriteLock { absorbs: false, _guard: guard, _page_write: None };
        }
        let page_write = Some(Counted::of(writes));
        let guard = self.lock_pages(at, Mode::Exclusive, how).await;
        WriteLock { absorbs: self.absorbs_of(at), _guard: guard, _page_write: page_write }
    }

    /// Whether a write of pages without copies is absorbed: not a large one, if the options say so, and none that
    /// begins or ends within a page: only its whole pages would be.
    fn absorbs_of(&self, at: Extent) -> bool {
        let limit = self.options.absorb_below.0;
        if self.emptying.get() > 0 {
            edge("nothing is absorbed while the BOPT is emptied");
            return false;
        }
        self.writes.get().absorbs
            && !self.does_without_log()
            && (limit == 0 || at.bytes() < limit)
            && self.is_whole(at)
    }

    /// Whether an extent has whole pages; the last page of the origin may be cut short.
    fn is_whole(&self, at: Extent) -> bool {
        let ends = at.end().0 % PAGE_SECTORS == 0 || at.end().0 == self.origin.geometry().sectors;
        ends && at.start.0 % PAGE_SECTORS == 0
    }

    /// Whether any of these pages has a copy, proven or not.
    pub(super) fn has_copies(&self, at: Extent) -> bool {
        at.pages().any(|page| self.store.lookup(page).is_some())
    }
}
