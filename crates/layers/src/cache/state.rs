//! The cached pages, their eviction order, and the queues of write-back.
//!
//! Prefetched unused pages are evicted first, then those that the policy chooses. Large requests and background scans
//! bypass the cache, so that they do not flush its lists.
//!
//! Invariants: pages, versions being written and reserved memory never exceed the cache's size, except until it has
//! become smaller. A dirty page is never
//! evicted, and is in exactly one of the two queues, waiting or being written, unless nothing of it is left to be
//! written; at most one version of it is being written. The policy knows all pages except unused ones.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;
use seekless_core::runtime::{edge, now};
use seekless_core::{
    Buffer, Class, Extent, FailedWrites, IoError, Nanos, PAGE_SECTORS, Ticket, invariant, mutant,
};

use super::fetch::Fetches;
use super::page::{Flight, Page, Sectors, extents, sectors};
use super::policy::{Access, Policy};

/// What is in memory.
pub struct State {
    pages: FxHashMap<u64, Page>,
    /// Maximum number of pages; and of dirty ones, from which on writes wait.
    pub capacity: u64,
    pub dirty_at_most: u64,
    /// The device's sectors.
    sectors: u64,
    /// Prefetched and unused pages that may be evicted, by age.
    unused: BTreeMap<u64, u64>,
    /// Chooses among the other pages.
    policy: Box<dyn Policy>,
    /// Dirty pages that are not being written, and those that are, by first write.
    pub waiting: BTreeMap<u64, u64>,
    pub flying: BTreeMap<u64, u64>,
    /// Pages of memory used by reads in flight, and by second versions of pages being written.
    reserved: u64,
    superseded: u64,
    pub fetches: Fetches,
    /// Number of writes, and of pages read from below, so far.
    pub sequence: u64,
    kept: u64,
    /// Waiting flushes, by number: up to which write, and the error if any.
    flushes: BTreeMap<u64, (u64, Option<IoError>)>,
    next_flush: u64,
    /// Number of failed write-backs, and the last error.
    pub failures: (u64, Option<IoError>),
    /// Whether a flush below failed: earlier writes may be lost.
    pub failed: Option<IoError>,
    /// Pages of failed requests that bypassed the cache: what they did below may still change.
    pub doubtful: FailedWrites,
    /// Whether the maintenance task runs.
    pub maintaining: bool,
    /// Whether the layer is stopping or detaching: no prefetching.
    pub quiescing: bool,
    pub counted: Counted,
}

/// Counters, in pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    pub hits: u64,
    pub misses: u64,
    pub passed_by: u64,
    pub fetched: u64,
    pub fetched_used: u64,
    pub written: u64,
    pub prewritten: u64,
    pub promoted: u64,
    pub overwritten: u64,
    pub waits: u64,
}

/// Effect of a bypassing request on the device below.
pub enum Change {
    /// It holds this data.
    Written(Buffer),
    /// It holds zeroes.
    Zeroed,
    /// Only a read can tell.
    Unknown,
}

/// Parts of pages with their data, contiguous ones joined.
pub type Parts = Vec<(Extent, Vec<Buffer>)>;

impl State {
    pub fn new(capacity: u64, dirty_at_most: u64, sectors: u64, policy: Box<dyn Policy>) -> State {
        State {
            pages: FxHashMap::default(),
            capacity,
            dirty_at_most,
            sectors,
            unused: BTreeMap::new(),
            policy,
            waiting: BTreeMap::new(),
            flying: BTreeMap::new(),
            reserved: 0,
            superseded: 0,
            fetches: Fetches::default(),
            sequence: 0,
            kept: 0,
            flushes: BTreeMap::new(),
            next_flush: 0,
            failures: (0, None),
            failed: None,
            doubtful: FailedWrites::default(),
            maintaining: false,
            quiescing: false,
            counted: Counted::default(),
        }
    }

    /// Room for this many pages from now on; those beyond leave as [`State::make_room`] finds them clean.
    pub fn resize(&mut self, capacity: u64, dirty_at_most: u64) {
        (self.capacity, self.dirty_at_most) = (capacity, dirty_at_most);
        self.policy.resize(capacity);
    }

    /// What the policy fetches beside a read of these pages that missed, if it is the one that decides.
    pub fn chosen_to_fetch(&mut self, missed: Range<u64>) -> Option<Vec<u64>> {
        self.policy.prefetch(missed)
    }

    /// Maximum number of prefetched pages, in flight or unused.
    pub fn fetched_at_most(&self) -> u64 {
        self.capacity / 16
    }

    /// The part of these sectors that the device has: its last page may be cut short.
    pub fn within(&self, at: Extent) -> Extent {
        Extent { sectors: at.sectors.min(self.sectors - at.start.0), ..at }
    }

    /// All sectors of a page.
    fn all_of(&self, page: u64) -> Sectors {
        sectors(self.within(Extent::of_pages(page, 1)))
    }

    pub fn page(&self, page: u64) -> Option<&Page> {
        self.pages.get(&page)
    }

    /// Those of these pages that are cached, in ascending order; iterates over the smaller set.
    pub fn here(&self, at: Extent) -> Vec<u64> {
        let pages = at.pages();
        if (self.pages.len() as u64) >= at.page_count() {
            return pages.filter(|page| self.pages.contains_key(page)).collect();
        }
        let mut here: Vec<u64> = self.pages.keys().copied().filter(|page| pages.contains(page)).collect();
        here.sort_unstable();
        here
    }

    /// Number of dirty pages, including those being written.
    pub fn dirty(&self) -> u64 {
        (self.waiting.len() + self.flying.len()) as u64
    }

    /// Pages of memory in use.
    pub fn held(&self) -> u64 {
        self.pages.len() as u64 + self.reserved + self.superseded
    }

    /// Those that belong to pages, which may be evicted once clean.
    #[cfg(test)]
    pub fn held_by_pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Applies `change` to a page, and then pins or unpins it; drops it if nothing of it is known any more.
    fn change<R>(&mut self, page: u64, change: impl FnOnce(&mut Page) -> R) -> Option<R> {
        let found = self.pages.get_mut(&page)?;
        if found.unused {
            self.unused.remove(&found.number);
        }
        let result = change(found);
        let evictable = found.is_idle() || mutant::is("cache: a dirty page may be evicted");
        if evictable && found.known == 0 {
            self.pages.remove(&page);
            self.policy.remove(page);
        } else if !found.unused {
            self.policy.pin(page, !evictable);
        } else if evictable {
            self.unused.insert(found.number, page);
        }
        while let Some(spent) = self.policy.next_spent() {
            self.pages.remove(&spent);
        }
        Some(result)
    }

    /// Accounts for a client's access of a page, which is or will be cached.
    fn access(&mut self, page: u64, by: Access) {
        if self.pages.get(&page).is_some_and(|found| !found.unused) {
            self.policy.hit(page, by);
        } else {
            self.policy.admit(page, by);
        }
    }

    /// Accounts for a page that is about to be cached, if it is not.
    pub fn miss(&mut self, page: u64) {
        if !self.pages.contains_key(&page) {
            self.policy.miss(page);
        }
    }

    /// Reads part of a page, if all of that is known.
    pub fn show(&mut self, part: Extent, into: &Buffer) -> bool {
        let page = part.start.page();
        if !self.pages.get(&page).is_some_and(|found| found.knows(part)) {
            return false;
        }
        self.access(page, Access::Read);
        let first = self.change(page, |page| {
            page.show(part, into);
            std::mem::take(&mut page.unused)
        });
        self.counted.fetched_used += u64::from(first == Some(true));
        true
    }

    /// Reserves memory for this many pages, evicting others as needed.
    pub fn make_room(&mut self, pages: u64) -> bool {
        while self.held() + pages > self.capacity {
            let unused = self.unused.pop_first().map(|(_, page)| page);
            let Some(page) = unused.or_else(|| self.policy.evict()) else { return false };
            let evicted = self.pages.remove(&page);
            invariant!("a dirty page is not evicted", evicted.is_none_or(|page| page.is_idle()));
        }
        true
    }

    /// Reserves memory for a prefetched page, within the limit of prefetched pages.
    pub fn room_to_fetch(&mut self) -> bool {
        if self.fetches.in_flight() + self.unused.len() as u64 >= self.fetched_at_most() {
            let Some((_, first)) = self.unused.pop_first() else { return false };
            edge("a fetched page makes room for the next");
            self.pages.remove(&first);
        }
        self.reserve(1)
    }

    /// Counts memory of reads in flight.
    pub fn reserve(&mut self, pages: u64) -> bool {
        let there = self.make_room(pages);
        self.reserved += if there { pages } else { 0 };
        there
    }

    /// Counts memory of the read of a run, whose pages will be cached.
    pub fn reserve_for(&mut self, run: Extent) -> bool {
        let mut pages = 0;
        for page in run.pages() {
            self.miss(page);
            pages += 1;
            if !self.make_room(pages) {
                return false;
            }
        }
        self.reserved += pages;
        true
    }

    /// Releases memory of reads in flight.
    pub fn give_back(&mut self, pages: u64) {
        self.reserved -= pages;
    }

    /// Whether this page can be written to memory now; makes room for it.
    pub fn takes(&mut self, page: u64) -> bool {
        let (more, dirty) = match self.pages.get(&page) {
            None => (1, false),
            Some(found) => match &found.flight {
                Some(flight) => (u64::from(!flight.superseded), true),
                None => (0, found.dirty != 0),
            },
        };
        (dirty || self.dirty() < self.dirty_at_most) && self.make_room(more)
    }

    /// Writes part of a page, for which there is room. Returns the ticket of a write-back that is superseded.
    pub fn put(&mut self, part: Extent, from: &Buffer) -> Option<Ticket> {
        self.sequence += 1;
        let (sequence, time, page) = (self.sequence, now(), part.start.page());
        self.access(page, Access::Write);
        self.pages.entry(page).or_insert_with(Page::unknown);
        let (mut again, mut needless) = (false, None);
        let written = self.change(page, |page| {
            if page.dirty == 0 {
                (page.sequence, page.since) = (sequence, time);
            }
            if let Some(flight) = &mut page.flight {
                edge("a page is overwritten while it is written back");
                again = !std::mem::replace(&mut flight.superseded, true);
                needless = Some(flight.ticket.clone()).filter(|ticket| ticket.class() == Class::Free);
            }
            let overwritten = page.not_below() & sectors(part) != 0;
            page.put(part, from);
            page.dirty |= sectors(part);
            (page.written, page.unused) = (time, false);
            let waits = page.flight.is_none() || mutant::is("cache: a page is written back twice at once");
            (overwritten, waits.then_some(page.sequence))
        });
        let (overwritten, waits) = written?;
        self.superseded += u64::from(again);
        self.counted.overwritten += u64::from(overwritten);
        if let Some(sequence) = waits {
            self.waiting.insert(sequence, page);
        }
        needless
    }

    /// Caches sectors read from below that are not known yet; there is room. A page without an access is unused. (Only
    /// a canary overwrites known sectors.)
    pub fn keep(&mut self, page: u64, data: &Buffer, by: Option<Access>, overrules: bool) {
        let all = self.all_of(page);
        self.kept += 1;
        if let Some(by) = by.filter(|_| self.pages.get(&page).is_none_or(|found| !found.unused)) {
            self.access(page, by);
        }
        let number = self.kept;
        self.pages.entry(page).or_insert_with(|| Page { unused: by.is_none(), number, ..Page::unknown() });
        self.change(page, |found| {
            found.take(page, if overrules { all } else { all & !found.known }, data);
            found.number = number;
        });
    }

    /// Begins the write-back of a page, and adds its dirty sectors to `parts`; the whole page if it is known, as one
    /// request is better than several.
    pub fn begin_write_back(&mut self, page: u64, ticket: &Ticket, parts: &mut Parts) {
        let all = self.all_of(page);
        let Some(found) = self.pages.get_mut(&page) else { return };
        let given = if found.known == all { all } else { found.dirty };
        let last = mutant::is("cache: a last page is cut short") && all != Sectors::MAX;
        let given = if last { given & all >> 1 } else { given };
        if given != all {
            edge("part of a page is written back");
        }
        for part in extents(page, given) {
            let piece = found.cut(part);
            match parts.last_mut().filter(|(before, _)| before.end() == part.start) {
                Some((before, pieces)) => {
                    before.sectors += part.sectors;
                    pieces.push(piece);
                }
                None => parts.push((part, vec![piece])),
            }
        }
        self.waiting.remove(&found.sequence);
        self.flying.insert(found.sequence, page);
        let (sequence, since) = (found.sequence, found.since);
        let sectors = std::mem::take(&mut found.dirty);
        invariant!("one version of a page is being written", found.flight.is_none());
        found.flight = Some(Flight { sequence, since, sectors, superseded: false, ticket: ticket.clone() });
    }

    /// Ends the write-back of a page.
    pub fn arrived(&mut self, page: u64, wrong: Option<&IoError>, aborted: bool, lost: bool) {
        let Some(flight) = self.pages.get_mut(&page).and_then(|found| found.flight.take()) else { return };
        self.flying.remove(&flight.sequence);
        self.superseded -= u64::from(flight.superseded);
        let time = now();
        let waits = self.change(page, |page| {
            let forgets = mutant::is("cache: a failed write-back is forgotten")
                || (flight.superseded
                    && mutant::is("cache: a failed write-back of a page written meanwhile is forgotten"));
            if wrong.is_some() && forgets {
                (page.sequence, page.since) = (flight.sequence, time);
            } else if wrong.is_some() {
                page.dirty |= flight.sectors;
                (page.sequence, page.since) = (flight.sequence, if aborted { flight.since } else { time });
            } else if lost {
                page.dirty = 0;
            }
            page.failed = wrong.is_some() && !aborted;
            (page.dirty != 0).then_some(page.sequence)
        });
        if let Some(Some(sequence)) = waits {
            self.waiting.insert(sequence, page);
        }
        if let Some(error) = wrong.cloned() {
            if !aborted {
                edge("a page could not be written back: it stays dirty");
                let theirs = self.flushes.values_mut().filter(|(until, _)| *until >= flight.sequence);
                theirs.for_each(|(_, wrong)| *wrong = Some(error.clone()));
                self.failures = (self.failures.0 + 1, Some(error));
            }
        } else {
            if flight.sectors == self.all_of(page) {
                self.doubtful.remove(page);
            }
            let free = flight.ticket.class() == Class::Free;
            self.counted.written += 1;
            self.counted.prewritten += u64::from(free);
        }
    }

    /// Pins these pages for a request: none is being written, and none is written back until unpinned.
    pub fn hold(&mut self, at: Extent) {
        for page in self.here(at) {
            self.change(page, |page| page.held = true);
        }
    }

    /// Unpins these pages, after the request has changed the device below.
    pub fn let_go(&mut self, at: Extent, change: &Change) {
        for part in at.split(PAGE_SECTORS) {
            let (page, of) = (part.start.page(), sectors(part));
            let was = self.pages.get(&page).map_or((0, 0), |found| (found.dirty, found.sequence));
            let dirty = self.change(page, |page| {
                page.held = false;
                match change {
                    Change::Written(data) => {
                        page.put(part, &data.cut_sectors(part.start.0 - at.start.0, part.sectors));
                        page.dirty &= !of;
                    }
                    Change::Zeroed => (page.known, page.dirty) = (page.known & !of, page.dirty & !of),
                    // Other dirty sectors are still written back.
                    Change::Unknown if mutant::is("cache: a discard leaves pages in the cache") => {}
                    Change::Unknown => page.known &= !of | page.dirty,
                }
                page.dirty
            });
            if was.0 != 0 && dirty == Some(0) {
                self.waiting.remove(&was.1);
                self.counted.overwritten += 1;
            }
        }
    }

    /// Caches what was written below, as far as there is room.
    pub fn keep_written(&mut self, at: Extent, data: &Buffer) {
        for part in at.split(PAGE_SECTORS) {
            let page = part.start.page();
            self.miss(page);
            if !self.pages.contains_key(&page) && !self.make_room(1) {
                return;
            }
            self.access(page, Access::Write);
            self.pages.entry(page).or_insert_with(Page::unknown);
            self.change(page, |page| {
                page.put(part, &data.cut_sectors(part.start.0 - at.start.0, part.sectors));
                page.unused = false;
            });
        }
    }

    /// Registers a flush of all writes so far: its number, and up to which write.
    pub fn begin_flush(&mut self) -> (u64, u64) {
        self.next_flush += 1;
        let until = self.sequence
            - u64::from(self.sequence > 0 && mutant::is("cache: a flush misses the last write"));
        self.flushes.insert(self.next_flush, (until, None));
        (self.next_flush, until)
    }

    /// The error of this flush, if any.
    pub fn wrong(&self, flush: u64) -> Option<IoError> {
        self.flushes.get(&flush).and_then(|(_, wrong)| wrong.clone())
    }

    pub fn end_flush(&mut self, flush: u64) {
        self.flushes.remove(&flush);
    }

    /// Dirty pages that can be written now, oldest first: up to a write, and of those of this age without recent
    /// writes. Pages whose write-back failed come last.
    pub fn ready(&self, until: u64, age: Nanos, quiet: Nanos, most: usize) -> Vec<u64> {
        let (time, mut ready, mut failed) = (now(), Vec::new(), Vec::new());
        for (number, found) in
            self.waiting.range(..=until).filter_map(|(_, page)| self.pages.get_key_value(page))
        {
            if !found.failed && (ready.len() == most || time.since(found.since) < age) {
                break;
            }
            let holds =
                found.held && !mutant::is("cache: a page is written back under a request that bypasses");
            if !holds && time.since(found.since) >= age && time.since(found.written) >= quiet {
                let list = if found.failed { &mut failed } else { &mut ready };
                list.push(*number);
            }
        }
        ready.extend(failed);
        ready.truncate(most);
        ready
    }

    /// Pages being written, up to a write, in order.
    pub fn on_their_way(&self, until: u64) -> impl Iterator<Item = &Flight> {
        let flying = self.flying.range(..=until).filter_map(|(_, page)| self.pages.get(page));
        flying.filter_map(|page| page.flight.as_ref())
    }
}
