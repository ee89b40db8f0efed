//! Write-back: flushes, writes that find no room, age, and prewriting.
//!
//! A write-back takes all dirty sectors of a page; later writes make it dirty again, and it is written again when the
//! first write-back has ended. Contiguous pages are written with one request, except when prewritten, since each of
//! those is carried out when it passes under the head, and may be cancelled alone. A task that waits for a page raises
//! its class.
//!
//! Faults: a page that could not be written back stays dirty, and is retried alone: its neighbours may succeed.

use seekless_core::runtime::{self, edge, now, sleep};
use seekless_core::{Buffer, Class, ErrorKind, Extent, Hints, IoError, Nanos, Ticket, mutant};

use super::page::Flight;
use super::state::{Parts, State};
use super::{Cache, own};
use crate::destage::strands;
use crate::join::join_all;

/// Pages written back together for a writer that waits for room, and in the background: enough for the scheduler to
/// choose from, few enough to let reads in between.
pub const BATCH: usize = 64;

/// Maximum interval of maintenance.
const OFTEN: Nanos = Nanos::from_millis(100);

/// Pages prewritten together.
const PREWRITTEN: usize = 1_024;

impl Cache {
    /// Begins the write-back of these pages.
    fn start(&self, pages: Vec<u64>, class: Class) {
        let alone = |state: &State, page: u64| {
            class == Class::Free || state.page(page).is_some_and(|page| page.failed)
        };
        let (single, others): (Vec<u64>, Vec<u64>) = {
            let state = self.state.borrow();
            pages.into_iter().partition(|&page| alone(&state, page))
        };
        if class != Class::Free && !single.is_empty() {
            edge("a page that could not be written back is tried alone");
        }
        let single = single.into_iter().map(|page| Extent::of_pages(page, 1));
        for strand in single.chain(strands(others.into_iter())) {
            self.start_strand(strand, class);
        }
    }

    fn start_strand(&self, strand: Extent, class: Class) {
        let Some(cache) = self.me.upgrade() else { return };
        let (ticket, mut parts) = (Ticket::new(), Parts::new());
        for page in strand.pages() {
            self.state.borrow_mut().begin_write_back(page, &ticket, &mut parts);
        }
        ticket.promote(class);
        runtime::spawn(async move {
            let written = cache.write_below(parts, &own(class, &ticket)).await;
            let aborted = ticket.is_aborted()
                && written.as_ref().is_err_and(|error| error.kind() == ErrorKind::Aborted);
            {
                let state = &mut *cache.state.borrow_mut();
                for page in strand.pages() {
                    let lost = cache.canary.is("lost overwrite");
                    state.arrived(page, written.as_ref().err(), aborted, lost);
                }
                let promoted = class == Class::Free && ticket.class() != Class::Free;
                state.counted.promoted += u64::from(promoted);
            }
            cache.changed();
        })
        .detach();
    }

    async fn write_below(&self, parts: Parts, how: &Hints) -> Result<(), IoError> {
        let largest = self.below.geometry().largest_sectors;
        let mut requests = Vec::new();
        for (at, pieces) in parts {
            requests.extend(Buffer::join(pieces).split(at, largest));
        }
        let writes = requests.into_iter().map(|(at, from)| self.below.write(at, from, how.clone()));
        join_all(writes).await.into_iter().collect()
    }

    /// Raises the class of write-backs, up to a write.
    fn raise(&self, until: u64, most: usize, class: Class) {
        let tickets: Vec<Ticket> = {
            let state = self.state.borrow();
            state.on_their_way(until).take(most).map(|flight| flight.ticket.clone()).collect()
        };
        for ticket in tickets {
            ticket.promote(class);
        }
    }

    /// Waits until a page can be written to memory.
    pub(super) async fn room_for(&self, page: u64, how: &Hints) -> Result<(), IoError> {
        edge("a write waits for room");
        self.state.borrow_mut().counted.waits += 1;
        let class = how.class.min(Class::Foreground);
        let mut since = self.ended();
        loop {
            if self.state.borrow_mut().takes(page) {
                return Ok(());
            }
            let before = self.ended();
            {
                let state = self.state.borrow();
                // As many as that failed, together and alone, without a success in between.
                if before.1 != since.1 {
                    since = before;
                }
                let stuck = before.0 - since.0 >= 2 * state.dirty().max(1);
                if let Some(error) = state.failures.1.as_ref().filter(|_| stuck) {
                    edge("nothing can be written back: a write fails");
                    return Err(error.clone());
                }
            }
            self.abort_fetches();
            self.raise(u64::MAX, BATCH, class);
            let ready = {
                let state = self.state.borrow();
                let more = BATCH.saturating_sub(state.flying.len());
                let mut ready = state.ready(u64::MAX, Nanos::ZERO, Nanos::ZERO, more);
                // Failed ones are retried after the others.
                let wait = !state.flying.is_empty();
                ready.retain(|&page| !(wait && state.page(page).is_some_and(|page| page.failed)));
                ready
            };
            self.start(ready, class);
            let ended = |state: &State| (state.failures.0, state.counted.written) != before;
            self.until(|state| ended(state) || state.takes(page)).await;
        }
    }

    /// Ends the write-back of pages that failed, and that succeeded.
    fn ended(&self) -> (u64, u64) {
        let state = self.state.borrow();
        (state.failures.0, state.counted.written)
    }

    /// Makes everything acknowledged durable.
    pub(super) async fn sync(&self, how: &Hints) -> Result<(), IoError> {
        let (flush, until) = self.state.borrow_mut().begin_flush();
        let written = self.write_back(flush, until, how.class.min(Class::Foreground)).await;
        self.state.borrow_mut().end_flush(flush);
        written?;
        if self.canary.is("missing flush") {
            return Ok(());
        }
        // Others rely on it: not delayed, and not aborted with the request that started it.
        let how = Hints { class: how.class.min(Class::Foreground), ticket: None, fua: false, ..how.clone() };
        let flushed = self.below.flush(how).await;
        let state = &mut *self.state.borrow_mut();
        if let Err(error) = flushed {
            edge("a flush failed: all later ones fail");
            if mutant::is("cache: a failed flush is forgotten") {
                return Err(error);
            }
            state.failed.get_or_insert(error);
        }
        state.failed.clone().map_or(Ok(()), Err)
    }

    /// Writes back everything up to a write.
    async fn write_back(&self, flush: u64, until: u64, class: Class) -> Result<(), IoError> {
        if let Some(error) = &self.state.borrow().failed {
            return Err(error.clone());
        }
        let forgets = self.canary.is("forgotten on its way");
        loop {
            if let Some(error) = self.state.borrow().wrong(flush) {
                return Err(error);
            }
            if self.state.borrow().on_their_way(until).next().is_some() {
                edge("a flush waits for a page that is being written");
            }
            self.raise(until, usize::MAX, class);
            let ready = self.state.borrow().ready(until, Nanos::ZERO, Nanos::ZERO, usize::MAX);
            self.start(ready, class);
            let left = |state: &State| {
                let until_last = mutant::is("cache: a flush does not wait for the last page being written");
                let flying =
                    state.flying.range(..=until - u64::from(until_last && until > 0)).next().is_some()
                        && !forgets;
                flying || state.waiting.range(..=until).next().is_some()
            };
            let ready = |state: &State| !state.ready(until, Nanos::ZERO, Nanos::ZERO, 1).is_empty();
            self.until(|state| state.wrong(flush).is_some() || !left(state) || ready(state)).await;
            let state = self.state.borrow();
            if state.wrong(flush).is_none() && !left(&state) {
                return Ok(());
            }
        }
    }

    /// Starts the maintenance task, which runs as long as there are dirty pages.
    pub(super) fn maintain(&self) {
        if std::mem::replace(&mut self.state.borrow_mut().maintaining, true) {
            return;
        }
        let (me, often) = (self.me.clone(), self.options.settle.min(self.options.expire).min(OFTEN));
        runtime::spawn(async move {
            loop {
                sleep(often).await;
                let Some(cache) = me.upgrade() else { return };
                if cache.state.borrow().dirty() == 0 {
                    cache.state.borrow_mut().maintaining = false;
                    return;
                }
                cache.write_old();
                cache.prewrite();
            }
        })
        .detach();
    }

    /// Writes old dirty pages in the background, and the oldest ones above half of the dirty limit.
    fn write_old(&self) {
        let (old, pressed) = {
            let state = self.state.borrow();
            let is_old = |flight: &&Flight| now().since(flight.since) >= self.options.expire;
            let old = state.on_their_way(u64::MAX).take_while(is_old).count();
            (old, state.dirty() > state.dirty_at_most / 4 * 3)
        };
        self.raise(u64::MAX, if pressed { old.max(BATCH) } else { old }, Class::Background);
        let ready = {
            let state = self.state.borrow();
            let (age, more) = if pressed {
                (Nanos::ZERO, BATCH.saturating_sub(state.flying.len()))
            } else {
                (self.options.expire, BATCH)
            };
            state.ready(u64::MAX, age, Nanos::ZERO, more)
        };
        self.start(ready, Class::Background);
    }

    /// Prewrites pages that were not written recently.
    fn prewrite(&self) {
        if !self.options.prewrite {
            return;
        }
        let ready = {
            let state = self.state.borrow();
            let more = PREWRITTEN.saturating_sub(state.flying.len());
            state.ready(u64::MAX, self.options.settle, self.options.settle, more)
        };
        self.start(ready, Class::Free);
    }
}
