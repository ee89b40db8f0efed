//! The path of a request, from memory to the device below.
//!
//! Whole pages are locked: reads share them, other requests are exclusive. A read joins data from below and from memory
//! as both were when the lock was granted, whatever is written back meanwhile.

use seekless_core::runtime::edge;
use seekless_core::{
    Buffer, Class, Extent, Hints, IoError, PAGE_BYTES, PAGE_SECTORS, Ticket, Zeroes, mutant,
};

use super::page::{Page, Sectors, extents, sectors, show};
use super::policy::Access;
use super::state::{Change, State};
use super::{Cache, Writes};

use crate::join::join_all;

/// A request that bypasses the cache.
pub enum Work {
    Write(Buffer),
    Zeroes(Zeroes),
    Discard,
}

/// Memory of a read in flight; released when dropped.
struct Room<'a> {
    cache: &'a Cache,
    pages: u64,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.cache.state.borrow_mut().give_back(self.pages);
        self.cache.changed();
    }
}

impl State {
    /// Dirty data in these sectors.
    pub fn not_below(&self, at: Extent) -> Vec<(Extent, Buffer)> {
        let mut found = Vec::new();
        if self.dirty() == 0 {
            return found;
        }
        for part in at.split(PAGE_SECTORS) {
            let Some(page) = self.page(part.start.page()) else { continue };
            let parts = extents(part.start.page(), page.not_below() & sectors(part));
            found.extend(parts.map(|part| (part, page.cut(part))));
        }
        found
    }
}

impl Cache {
    /// Reads cached sectors from memory, and the others in runs as long as possible.
    pub(super) async fn read_pages(&self, at: Extent, into: &Buffer, how: &Hints) -> Result<(), IoError> {
        let mut missed: Vec<Extent> = Vec::new();
        {
            let state = &mut *self.state.borrow_mut();
            for (part, piece) in into.split(at, PAGE_SECTORS) {
                if state.show(part, &piece) {
                    state.counted.hits += 1;
                    continue;
                }
                state.counted.misses += 1;
                match missed.last_mut().filter(|run| run.end() == part.start) {
                    Some(run) => run.sectors += part.sectors,
                    None => missed.push(part),
                }
            }
        }
        if missed.is_empty() {
            return Ok(());
        }
        // A background scan would only evict pages that others use.
        if at.sectors > self.largest_kept() || how.class > Class::Foreground {
            return self.read_past(at, into, how).await;
        }
        for &run in &missed {
            self.fetch_around(run);
        }
        let piece = |run: Extent| into.cut_sectors(run.start.0 - at.start.0, run.sectors);
        let reads = missed.into_iter().map(|run| self.read_run(run, piece(run), how, Access::Read));
        join_all(reads).await.into_iter().collect()
    }

    /// Caches those of these pages that are not cached, whatever the class.
    pub(super) async fn prefetch_pages(&self, at: Extent, how: &Hints) -> Result<(), IoError> {
        let mut missed: Vec<Extent> = Vec::new();
        for part in at.split(PAGE_SECTORS) {
            if self.state.borrow().page(part.start.page()).is_some_and(|page| page.knows(part)) {
                continue;
            }
            match missed.last_mut().filter(|run| run.end() == part.start) {
                Some(run) => run.sectors += part.sectors,
                None => missed.push(part),
            }
        }
        let into = |run: Extent| Buffer::hollow(run.bytes());
        let reads = missed.into_iter().map(|run| self.read_run(run, into(run), how, Access::Prefetch));
        join_all(reads).await.into_iter().collect()
    }

    /// Reads a run, and caches its pages if there is room.
    async fn read_run(&self, run: Extent, into: Buffer, how: &Hints, by: Access) -> Result<(), IoError> {
        let pages = run.page_count();
        if self.state.borrow().doubts(run) {
            edge("pages of a failed request are not kept");
            return self.read_past(run, &into, how).await;
        }
        if !self.state.borrow_mut().reserve_for(run) {
            edge("a read finds no room, and is not kept");
            return self.read_past(run, &into, how).await;
        }
        let mut room = Room { cache: self, pages };
        // A page of its own, so that it does not keep its neighbours' memory.
        let whole = Buffer::join((0..pages).map(|_| Buffer::zeroed(PAGE_BYTES)));
        let (there, above) = {
            let state = self.state.borrow();
            (state.within(run.whole_pages()), state.known_of(run))
        };
        self.read_below(there, &whole.cut_sectors(0, there.sectors), how).await?;
        let late = mutant::is("cache: a read looks for known sectors when it has ended");
        let above = if late { self.state.borrow().known_of(run) } else { above };
        for (number, part) in (0..).zip(run.split(PAGE_SECTORS)) {
            let page = part.start.page();
            let mut read = Page::unknown();
            read.data = whole.cut_sectors(number * PAGE_SECTORS, PAGE_SECTORS);
            if let Some((_, known, data)) = above.iter().find(|above| above.0 == page) {
                edge("part of a page is merged with the device below");
                read.take(page, *known, data);
            }
            read.show(part, &into.cut_sectors(part.start.0 - run.start.0, part.sectors));
            room.pages -= 1;
            let state = &mut *self.state.borrow_mut();
            state.give_back(1);
            state.keep(page, &read.data, Some(by), false);
        }
        Ok(())
    }

    /// Reads from below, with dirty sectors from memory.
    async fn read_past(&self, at: Extent, into: &Buffer, how: &Hints) -> Result<(), IoError> {
        let mut above = self.state.borrow().not_below(at);
        if mutant::is("cache: a read that bypasses misses dirty pages") {
            above.clear();
        }
        self.state.borrow_mut().counted.passed_by += at.page_count();
        self.read_below(at, into, how).await?;
        if mutant::is("cache: a read that bypasses looks for dirty pages when it has ended") {
            above = self.state.borrow().not_below(at);
        }
        for (part, data) in above {
            edge("a request bypasses dirty pages");
            show(&data, &into.cut_sectors(part.start.0 - at.start.0, part.sectors));
        }
        Ok(())
    }

    /// Reads from below, in requests that the device accepts.
    async fn read_below(&self, at: Extent, into: &Buffer, how: &Hints) -> Result<(), IoError> {
        let parts = into.split(at, self.below.geometry().largest_sectors);
        let reads = parts.map(|(part, piece)| self.below.read(part, piece, how.clone()));
        join_all(reads).await.into_iter().try_for_each(|read| read.map(drop))
    }

    /// Writes to memory, page by page as there is room.
    pub(super) async fn write_pages(&self, at: Extent, from: &Buffer, how: &Hints) -> Result<(), IoError> {
        self.forget_fetches(at);
        for (part, piece) in from.split(at, PAGE_SECTORS) {
            let page = part.start.page();
            let takes = {
                let state = &mut *self.state.borrow_mut();
                state.miss(page);
                state.takes(page)
            };
            if !takes {
                Box::pin(self.room_for(page, how)).await?;
            }
            let needless = self.state.borrow_mut().put(part, &piece);
            needless.inspect(Ticket::abort);
        }
        self.maintain();
        Ok(())
    }

    /// Carries out a request below, and then updates cached pages.
    pub(super) async fn pass_by(&self, at: Extent, work: Work, how: Hints) -> Result<(), IoError> {
        let _held = self.locks.exclusive(at.whole_pages(), &how).await;
        if self.forget_fetches(at) {
            edge("a request bypasses a page that is being fetched");
        }
        if !mutant::is("cache: a request bypasses pages being written") {
            self.land(at, how.class).await;
        }
        self.state.borrow_mut().hold(at);
        let (done, change) = match work {
            Work::Write(from) => (self.below.write(at, from.clone(), how).await, Change::Written(from)),
            Work::Zeroes(zeroes) => (self.below.write_zeroes(at, how, zeroes).await, Change::Zeroed),
            Work::Discard => (self.below.discard(at, how).await, Change::Unknown),
        };
        let change = if done.is_ok() { change } else { Change::Unknown };
        let keeps = self.options.write == Writes::Through && at.sectors <= self.largest_kept();
        {
            let state = &mut *self.state.borrow_mut();
            if done.is_err() && !state.here(at).is_empty() {
                edge("a request that bypasses pages fails: clean ones are dropped");
            }
            state.let_go(at, &change);
            state.bypassed(at, &change, done.is_err());
            if let (true, Change::Written(data)) = (keeps, &change) {
                state.keep_written(at, data);
            }
        }
        // Fetches issued meanwhile may have read old data.
        if !mutant::is("cache: a page is fetched under a write that bypasses it") {
            self.forget_fetches(at);
        }
        self.changed();
        done
    }

    /// Waits until no page of these is being written.
    async fn land(&self, at: Extent, class: Class) {
        let flying = |state: &State| -> Vec<Ticket> {
            let here = state.here(at);
            let pages = here.into_iter().filter_map(|page| state.page(page));
            pages.filter_map(|page| page.flight.as_ref().map(|flight| flight.ticket.clone())).collect()
        };
        let tickets = flying(&self.state.borrow());
        for ticket in &tickets {
            if ticket.class() == Class::Free { ticket.abort() } else { ticket.promote(class) }
        }
        if !tickets.is_empty() {
            self.until(|state| flying(state).is_empty()).await;
        }
    }
}

impl State {
    /// A request that bypassed the cache has ended. One that failed may take effect later; a write of whole pages over
    /// it does so after it.
    fn bypassed(&mut self, at: Extent, change: &Change, failed: bool) {
        if failed {
            let one = mutant::is("cache: only the first page of a failed request is doubtful");
            self.doubtful.add(at.pages().take(if one { 1 } else { usize::MAX }));
        } else if !matches!(change, Change::Unknown) {
            self.doubtful.written(at);
        }
    }

    /// Whether what is below may still change in these pages.
    pub fn doubts(&self, at: Extent) -> bool {
        self.doubtful.any_of(at)
    }

    /// Numbers of the pages cached in part, and their known sectors.
    fn known_of(&self, run: Extent) -> Vec<(u64, Sectors, Buffer)> {
        let here = run.pages().filter_map(|number| self.page(number).map(|page| (number, page)));
        here.map(|(number, page)| (number, page.known, page.data.clone())).collect()
    }
}
