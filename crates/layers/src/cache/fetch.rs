//! Prefetching: what lies around a read that missed is asked for in class `Free` before the read itself, so that it
//! comes in the time that the head waits for that, or later, or never (Figure 1(b)).
//!
//! Invariants: what is written meanwhile wins, since what was asked for before is forgotten when the write begins, and
//! again when it has passed by. Fetched pages are at most a sixteenth of the cache, on their way or not used; what was
//! asked for longest ago makes room. Faults: what cannot be read is not there.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, Extent, Hints, IoError, Mode, PAGE_BYTES, PAGE_SECTORS, Ticket, mutant};

use super::write_back::BATCH;
use super::{Cache, own};

/// What is asked for.
#[derive(Default)]
pub struct Fetches {
    by_page: FxHashMap<u64, u64>,
    by_age: BTreeMap<u64, (u64, Ticket)>,
    next: u64,
    /// Those that have memory, wanted or not.
    under_way: u64,
}

impl Fetches {
    /// Those that have memory.
    pub fn under_way(&self) -> u64 {
        self.under_way
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

    /// The one that was asked for longest ago.
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
    /// Asks for what lies around a run that is to be read.
    pub(super) fn fetch_around(&self, run: Extent) {
        let pages = self.options.prefetch.0 / PAGE_BYTES / 2;
        self.forget_fetches(run);
        let (first, end) = (run.pages().start, run.pages().end);
        let last = self.below.geometry().sectors.div_ceil(PAGE_SECTORS);
        let around = (first.saturating_sub(pages)..first).chain(end..last.min(end + pages));
        {
            let state = self.state.borrow();
            let used = |page| state.page(page).is_some_and(|page| !page.unused);
            // What is prewritten saves a request, what is fetched may: where both wait for the same time, it is left to
            // the first.
            if state.quiescing || state.flying.len() > BATCH || !around.clone().any(used) {
                return;
            }
        }
        for page in around {
            self.fetch(page, self.options.fetched_pages());
        }
    }

    fn fetch(&self, page: u64, most: u64) {
        let at = Extent::of_pages(page, 1);
        let Some(cache) = self.me.upgrade() else { return };
        // Nobody writes there: not even what passes by, which is not seen here.
        let under = mutant::is("cache: a page is fetched under a write that passes by");
        if !under && self.locks.try_lock(at, Mode::Shared, Class::Free, None).is_none() {
            return;
        }
        let (number, ticket, oldest) = {
            let state = &mut *self.state.borrow_mut();
            if state.page(page).is_some() || state.fetches.by_page.contains_key(&page) {
                return;
            }
            let full = state.fetches.by_age.len() as u64 >= most;
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
            // Those that it displaces have had their turn by now, and given their memory back.
            if !state.fetches.is_wanted(page, number) {
                return;
            }
            if !state.room_to_fetch(self.options.fetched_pages()) {
                state.fetches.forget(page);
                return;
            }
            state.fetches.under_way += 1;
            state.within(Extent::of_pages(page, 1))
        };
        let data = Buffer::zeroed(PAGE_BYTES);
        let into = data.cut_sectors(0, at.sectors);
        let read = self.below.read(at, into, own(Class::Free, ticket)).await;
        self.fetched(page, number, &data, read.is_ok());
        self.changed();
    }

    /// It has come, or not.
    fn fetched(&self, page: u64, number: u64, data: &Buffer, came: bool) {
        let state = &mut *self.state.borrow_mut();
        state.fetches.under_way -= 1;
        state.give_back(1);
        let wanted = state.fetches.is_wanted(page, number);
        if wanted {
            state.fetches.forget(page);
        }
        let stale = self.canary.is("stale prefetch");
        if came && wanted && (state.page(page).is_none() || stale) {
            state.counted.fetched += 1;
            state.keep(page, data, true, stale);
        }
    }

    /// These pages are read or written by others: what comes of them is not wanted. Whether any were on their way.
    pub(super) fn forget_fetches(&self, at: Extent) -> bool {
        let forgotten: Vec<Ticket> = {
            let fetches = &mut self.state.borrow_mut().fetches;
            if fetches.by_page.is_empty() || self.canary.is("stale prefetch") {
                return false;
            }
            at.pages().filter_map(|page| fetches.forget(page)).collect()
        };
        if !forgotten.is_empty() {
            edge("a page is asked for by others while it is fetched");
        }
        forgotten.iter().for_each(Ticket::abort);
        !forgotten.is_empty()
    }

    /// None is wanted any more.
    pub(super) fn abort_fetches(&self) {
        let all: Vec<Ticket> = {
            let fetches = &mut self.state.borrow_mut().fetches;
            std::iter::from_fn(|| fetches.forget_oldest()).collect()
        };
        all.iter().for_each(Ticket::abort);
    }

    /// Everything is below and durable, and nothing is on its way that was asked for ahead.
    pub(super) async fn quiesce(&self) -> Result<(), IoError> {
        self.state.borrow_mut().quiescing = true;
        self.abort_fetches();
        let done = self.sync(&Hints::default()).await;
        self.until(|state| state.fetches.under_way == 0).await;
        self.state.borrow_mut().quiescing = false;
        done
    }
}
