//! Prefetching: neighbours of a read that missed are requested in class `Free` before the read itself, so that they
//! arrive during its rotational wait, or later, or never (Figure 1(b)).
//!
//! Invariants: data written meanwhile takes precedence, since fetches of its pages are discarded when the write begins,
//! and again when a bypassing write has completed. Fetched pages, in flight or unused, are at most a sixteenth of the
//! cache; the oldest fetches make room. Faults: a page that cannot be read is not cached.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, Extent, Hints, IoError, Mode, PAGE_BYTES, PAGE_SECTORS, Ticket, mutant};

use super::write_back::BATCH;
use super::{Cache, own};

/// Fetches in flight.
#[derive(Default)]
pub struct Fetches {
    by_page: FxHashMap<u64, u64>,
    by_age: BTreeMap<u64, (u64, Ticket)>,
    next: u64,
    /// Those that have memory, including cancelled ones.
    in_flight: u64,
}

impl Fetches {
    /// Number of fetches that have memory.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    fn add(&mut self, page: u64) -> (u64, Ticket) {
        let ticket = Ticket::new();
        self.next += 1;
        self.by_page.insert(page, self.next);
        self.by_age.insert(self.next, (page, ticket.clone()));
        (self.next, ticket)
    }

    fn forget(&mut self, page: u64) -> Option<Ticket> {
        let number = self.by_page.remove(&page)?;
        self.by_age.remove(&number).map(|(_, ticket)| ticket)
    }

    /// The oldest fetch.
    fn forget_oldest(&mut self) -> Option<Ticket> {
        let (_, (page, ticket)) = self.by_age.pop_first()?;
        self.by_page.remove(&page);
        Some(ticket)
    }

    fn is_wanted(&self, page: u64, number: u64) -> bool {
        self.by_page.get(&page) == Some(&number)
    }
}

impl Cache {
    /// Fetches the neighbours of a run that is about to be read.
    pub(super) fn fetch_around(&self, run: Extent) {
        self.forget_fetches(run);
        let last = self.below.geometry().sectors.div_ceil(PAGE_SECTORS);
        let chosen = {
            let state = &mut *self.state.borrow_mut();
            let chosen = state.chosen_to_fetch(run.pages());
            // Prewriting saves a request for certain, fetching only perhaps: where both wait for the same time,
            // prewriting has precedence.
            if state.quiescing || state.flying.len() > BATCH {
                return;
            }
            chosen.unwrap_or_else(|| {
                let pages = self.options.prefetch.0 / PAGE_BYTES / 2;
                let (first, end) = (run.pages().start, run.pages().end);
                let around = (first.saturating_sub(pages)..first).chain(end..last.min(end + pages));
                let used = |page| state.page(page).is_some_and(|page| !page.unused);
                if around.clone().any(used) { around.collect() } else { Vec::new() }
            })
        };
        for page in chosen.into_iter().filter(|page| *page < last) {
            self.fetch(page);
        }
    }

    fn fetch(&self, page: u64) {
        let at = Extent::of_pages(page, 1);
        let Some(cache) = self.me.upgrade() else { return };
        // Bypassing writes are not seen here, so pages that they may write are not fetched.
        let under = mutant::is("cache: a page is fetched under a write that bypasses it");
        if !under && self.locks.try_lock(at, Mode::Shared, Class::Free, None).is_none() {
            return;
        }
        let (number, ticket, oldest) = {
            let state = &mut *self.state.borrow_mut();
            if state.page(page).is_some() || state.doubts(at) || state.fetches.by_page.contains_key(&page) {
                return;
            }
            let full = state.fetches.by_age.len() as u64 >= state.fetched_at_most();
            let oldest = if full { state.fetches.forget_oldest() } else { None };
            let (number, ticket) = state.fetches.add(page);
            (number, ticket, oldest)
        };
        oldest.inspect(Ticket::abort);
        runtime::spawn(async move { cache.fetch_page(page, number, &ticket).await }).detach();
    }

    async fn fetch_page(&self, page: u64, number: u64, ticket: &Ticket) {
        let at = {
            let state = &mut *self.state.borrow_mut();
            // The cancelled ones have ended by now, and released their memory.
            if !state.fetches.is_wanted(page, number) {
                return;
            }
            if !state.room_to_fetch() {
                state.fetches.forget(page);
                return;
            }
            state.fetches.in_flight += 1;
            state.within(Extent::of_pages(page, 1))
        };
        let data = Buffer::zeroed(PAGE_BYTES);
        let into = data.cut_sectors(0, at.sectors);
        let read = self.below.read(at, into, own(Class::Free, ticket)).await;
        self.fetched(page, number, &data, read.is_ok());
        self.changed();
    }

    /// Records the end of a fetch.
    fn fetched(&self, page: u64, number: u64, data: &Buffer, came: bool) {
        let state = &mut *self.state.borrow_mut();
        state.fetches.in_flight -= 1;
        state.give_back(1);
        let wanted = state.fetches.is_wanted(page, number);
        if wanted {
            state.fetches.forget(page);
        }
        let stale = self.canary.is("stale prefetch");
        if came && wanted && (state.page(page).is_none() || stale) {
            state.counted.fetched += 1;
            state.keep(page, data, None, stale);
        }
    }

    /// Cancels fetches of these pages, which are read or written by others; returns whether there were any.
    pub(super) fn forget_fetches(&self, at: Extent) -> bool {
        let forgotten: Vec<Ticket> = {
            let fetches = &mut self.state.borrow_mut().fetches;
            if fetches.by_page.is_empty() || self.canary.is("stale prefetch") {
                return false;
            }
            at.pages().filter_map(|page| fetches.forget(page)).collect()
        };
        if !forgotten.is_empty() {
            edge("others read a page while it is fetched");
        }
        forgotten.iter().for_each(Ticket::abort);
        !forgotten.is_empty()
    }

    /// Cancels all fetches.
    pub(super) fn abort_fetches(&self) {
        let all: Vec<Ticket> = {
            let fetches = &mut self.state.borrow_mut().fetches;
            std::iter::from_fn(|| fetches.forget_oldest()).collect()
        };
        all.iter().for_each(Ticket::abort);
    }

    /// Writes everything back, flushes, and waits for fetches to end.
    pub(super) async fn quiesce(&self) -> Result<(), IoError> {
        self.state.borrow_mut().quiescing = true;
        self.abort_fetches();
        let done = self.sync(&Hints::default()).await;
        self.until(|state| state.fetches.in_flight == 0).await;
        self.state.borrow_mut().quiescing = false;
        done
    }
}
