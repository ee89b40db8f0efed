//! Moves pages (sections 4.4 and 5.2), to the origin or from slot to slot, in the background, and in rounds: pages that
//! are copied together, and then mapped or unmapped together.
//!
//! A round makes optimistic copies: no foreground request waits for a copy. Pages are locked only after their copies
//! were written; copies of pages written meanwhile are abandoned, the others are mapped, on disk too. A target slot is
//! emptied before, to the origin if it is dirty. A request that waits for a lock raises the class of the work done
//! under it.
//!
//! Chains and cycles: those pages of a round that are in the read cache, or in a target slot of another, are all read
//! first, then unmapped together, written to the origin if dirty, then all are written. So a cycle needs no special
//! case, and nothing is read twice. Map pages of two segments that exchange dirty pages could not be written in any
//! order otherwise.
//!
//! Faults: a round that fails ends the move with its error. Completed moves stay, other pages stay where they were, and
//! no page is mapped to a slot that was not written. Pages that cannot be read or written keep no others from being
//! evicted.

mod chains;
mod outgoing;
mod shared;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_core::lock::Guard;
use seekless_core::runtime::{self, Task, edge};
use seekless_core::{
    Account, BlockDevice, Class, ErrorKind, Extent, Hints, IoError, Mode, PAGE_SECTORS, Ticket, mutant,
};

use super::options::MoveClass;
use super::pace::{Pace, SHORT_ROUND, Throttle};
use super::store::{Entry, Slot, Update};
use super::{Borg, did};
use crate::destage::{self, Pages};
pub(super) use shared::Movers;
use shared::Moving;

/// Pages drained together: 256 MiB. Larger rounds read and write more contiguously: draining a write buffer of 560 MiB
/// takes 31 s in one round, 40 s in rounds of 256 MiB, and 55 s in those of 64 MiB (recording `mail`, `wd2500aaks`). A
/// drain that is killed begins its round anew.
/// Tests cross many rounds.
pub(super) const ROUND: usize = if cfg!(test) { 7 } else { 65_536 };

/// Pages copied to the read cache together: 64 MiB. Clients use them once all are copied: with rounds of 256 MiB the
/// recording `appstart2` gains 26 %, with this 31 % (net, `lab compare` with its defaults).
const ROUND_TO_CACHE: usize = if cfg!(test) { 7 } else { 16_384 };

/// Segments whose map pages are written together while their pages are locked.
const SEGMENTS_AT_ONCE: u32 = if cfg!(test) { 2 } else { 4 };

/// Page and target slot.
pub(super) type Move = (u64, Slot);

/// Pages of moves.
fn moved(round: &[Move]) -> impl Iterator<Item = u64> {
    round.iter().map(|(page, _)| *page)
}

/// Moves pages in the background; one mover runs at a time. Must not be dropped before it ends: its queued requests are
/// carried out all the same.
pub(super) struct Mover<'a> {
    pub(super) borg: &'a Borg,
    how: Hints,
    /// Hints of copy requests.
    copying: Hints,
    /// Pages copied, and those of them that were not copied in the class `Free`.
    copied: Cell<(u64, u64)>,
    /// Task that raises copies of the class `Free` at the deadline.
    deadline: Option<Task<()>>,
    pub(super) pace: Pace<'a>,
    _alone: Guard,
}

impl Drop for Mover<'_> {
    fn drop(&mut self) {
        self.borg.history.round(0);
        {
            let state = &mut *self.borg.movers.state.borrow_mut();
            (state.free_ticket, state.abortable) = (None, false);
            // No copy is in progress any more.
            state.optimistic.clear();
        }
        drop(self.deadline.take());
    }
}

/// Locked pages whose copies are valid, i.e. were not written since the copies began.
pub(super) struct Locked {
    pub valid: Vec<u64>,
    /// Hints for work under the locks: requests that wait for them raise its class.
    pub how: Hints,
    guards: Vec<Guard>,
}

impl<'a> Mover<'a> {
    /// Starts when earlier movers have ended; `None` if the layer was detached, and has no pages.
    pub async fn start(
        borg: &'a Borg,
        account: Account,
        throttle: Throttle,
    ) -> Result<Option<Mover<'a>>, IoError> {
        let _stopping = (throttle == Throttle::Unthrottled).then(|| borg.request_movers_stop());
        let alone = borg.movers.one.lock(Extent::new(0, 1), Mode::Exclusive, Class::Background, None).await;
        let how = Hints { class: Class::Background, account, ..Hints::default() };
        if borg.store.is_given_up() {
            return Ok(None);
        }
        let (copying, pace) = (how.clone(), Pace::new(borg, throttle));
        Ok(Some(Mover { borg, how, copying, copied: Cell::default(), deadline: None, pace, _alone: alone }))
    }

    /// Has the share of a reconfiguration.
    pub fn with_its_share(mut self) -> Mover<'a> {
        self.how.share_pct = self.borg.options.reconfigure_share;
        self.copying.share_pct = self.how.share_pct;
        self
    }

    /// Copies in the class that the options set.
    pub fn in_its_class(self) -> Mover<'a> {
        if self.borg.options.reconfigure_class == MoveClass::Free { self.in_class_free() } else { self }
    }

    /// Copies in the class `Free`, where no request notices, until the deadline of the options.
    pub fn in_class_free(mut self) -> Mover<'a> {
        let ticket = Ticket::new();
        self.borg.movers.state.borrow_mut().free_ticket = Some(ticket.clone());
        self.copying = Hints { class: Class::Free, ticket: Some(ticket.clone()), ..self.how.clone() };
        let deadline = runtime::now() + self.borg.options.free_deadline;
        self.deadline = Some(runtime::spawn(async move {
            runtime::sleep_until(deadline).await;
            ticket.promote(Class::Background);
        }));
        self
    }

    /// Lets its copies of the class `Free` be aborted when something else has to be moved.
    pub fn allow_abort(&self) {
        self.borg.movers.state.borrow_mut().abortable = true;
    }

    /// Pages copied, and those of them that were not copied (completely) in the class `Free`.
    pub fn copied(&self) -> (u64, u64) {
        self.copied.get()
    }

    /// Counts copied pages.
    fn count_copied(&self, pages: usize) {
        let ((all, paid), pages) = (self.copied.get(), pages as u64);
        let is_free = self.copying.effective_class() == Class::Free;
        self.copied.set((all + pages, paid + if is_free { 0 } else { pages }));
    }

    /// Hints with a ticket, for metadata writes: requests that wait for them raise their class.
    pub fn with_ticket(&self) -> Hints {
        Hints { ticket: Some(Ticket::new()), ..self.how.clone() }
    }

    /// Copies pages to slots, and returns how many.
    pub async fn place(&self, moves: &[Move]) -> Result<u64, IoError> {
        let mut placed = 0;
        if !self.compare_if_doubtful().await? {
            return Ok(0);
        }
        self.borg.store.begin_mapping(&self.how).await?;
        let most = self.pace.round_size(ROUND_TO_CACHE);
        for round in chains::rounds(moves, most, |slot| self.borg.store.page_at(slot)) {
            if !self.may_continue(round.len()).await? {
                break;
            }
            self.borg.history.round(round.len());
            placed += self.place_round(&round).await?;
            self.borg.history.moved(round.len());
        }
        Ok(placed)
    }

    /// Copies pages that clients read to vacant slots, with the data that they read; returns false if the origin is in
    /// doubt.
    pub async fn place_read(&self) -> Result<bool, IoError> {
        if !self.compare_if_doubtful().await? {
            return Ok(false);
        }
        let borg = self.borg;
        borg.store.begin_mapping(&self.how).await?;
        // From here to the begin of the copies nothing may wait: a write would not be noticed.
        let mut read = borg.copy_on_read.take();
        read.retain(|(page, _)| borg.store.lookup(*page).is_none());
        let slots = borg.slots_for(read.len());
        read.truncate(slots.len());
        let round: Vec<Move> = read.iter().map(|(page, _)| *page).zip(slots).collect();
        self.begin_copies(&round.iter().map(|(page, _)| *page).collect::<Vec<_>>());
        borg.copy_on_read.copies(round.iter().map(|(page, _)| *page));
        // A clean copy must not survive a power cut that the origin's data do not.
        if !mutant::is("borg: pages that clients read are copied without a flush of the origin") {
            borg.store.flush_origin(&self.how).await?;
        }
        self.copy(&round, &read.into_iter().collect()).await.map(|_| true)
    }

    /// Waits until `pages` more pages may be moved, and drains pages that reached their maximum age meanwhile; false if
    /// the mover should end.
    async fn may_continue(&self, pages: usize) -> Result<bool, IoError> {
        loop {
            self.pace.turn().await;
            let overdue = self.pace.take_overdue();
            if overdue.is_empty() {
                return Ok(self.pace.take(pages));
            }
            let mut failed = Vec::new();
            for round in overdue.chunks(SHORT_ROUND).take_while(|_| !self.pace.must_stop()) {
                self.evict_by_halves(round, &mut failed).await?;
            }
        }
    }

    async fn place_round(&self, round: &[Move]) -> Result<u64, IoError> {
        if !self.borg.failed_writes.is_empty() {
            let certain = self.rewrite_failed(self.leaving(round).into_iter().chain(moved(round))).await;
            // Pages that stay uncertain are not moved.
            certain.or_else(|error| if error.is_medium_error() { Ok(()) } else { Err(error) })?;
        }
        let leaving = self.leaving(round);
        let moving: FxHashSet<u64> = moved(round).collect();
        let copied: Vec<u64> = leaving.iter().chain(&moving).copied().collect();
        self.begin_copies(&copied);
        // Valid copies of pages that are evicted and copied in again are kept.
        let kept = |page: &u64| {
            moving.contains(page) && self.borg.store.lookup(*page).is_some_and(|entry| entry.proven)
        };
        let (both, away): (Vec<u64>, Vec<u64>) = leaving.into_iter().partition(kept);
        let buffered = self.read_copies(&both).await?;
        if !both.is_empty() {
            edge("pages move within the read cache");
        }
        let evicted = [both, away].concat();
        if !evicted.is_empty() {
            self.evict(&evicted, &buffered).await?;
        }
        self.copy(round, &buffered).await
    }

    /// Pages that a round evicts first: those in its slots, and those that move within the read cache.
    fn leaving(&self, round: &[Move]) -> BTreeSet<u64> {
        let store = &self.borg.store;
        let occupant = |&(page, slot): &Move| store.page_at(slot).filter(|&there| there != page);
        let cached = |&(page, _): &Move| {
            store.lookup(page).filter(|entry| !store.layout().is_logged(entry.slot)).map(|_| page)
        };
        round.iter().filter_map(occupant).chain(round.iter().filter_map(cached)).collect()
    }

    /// Reads pages of the origin or BOPT.
    pub(super) async fn read(
        &self,
        from: &dyn BlockDevice,
        pages: impl Iterator<Item = u64>,
    ) -> Result<Pages, IoError> {
        let buffer = |at| self.borg.buffer(at);
        if !self.pace.is_sequential() {
            return destage::read_counted(from, pages, buffer, &self.copying, self.progress(from)).await;
        }
        let mut buffered = Pages::default();
        for strand in destage::strands(pages) {
            self.ensure_undisturbed()?;
            let read =
                destage::read_counted(from, strand.pages(), buffer, &self.copying, self.progress(from));
            buffered.extend(read.await?);
        }
        Ok(buffered)
    }

    /// Notes progress with pages of this device: those of the origin take most of the time of a round.
    fn progress(&self, of: &dyn BlockDevice) -> impl Fn(u64) + use<'a> {
        let borg = self.borg;
        let counts = std::ptr::addr_eq(of, Rc::as_ptr(&borg.origin));
        move |pages| {
            if counts {
                borg.history.moved_some(pages);
            }
        }
    }

    /// Fails if the round was interrupted; until then only the origin was changed.
    fn ensure_undisturbed(&self) -> Result<(), IoError> {
        let disturbed = || IoError::new(ErrorKind::Timeout, "borg", None, "a client asks");
        if self.pace.is_interrupted() { Err(disturbed()) } else { Ok(()) }
    }

    /// Writes pages to the origin or BOPT.
    async fn write(&self, to: &dyn BlockDevice, pages: &Pages) -> Result<(), IoError> {
        if !self.pace.is_sequential() {
            return destage::write_counted(to, pages, &self.copying, self.progress(to)).await;
        }
        for strand in destage::strands(pages.keys().copied()) {
            self.ensure_undisturbed()?;
            let part: Pages = strand.pages().map(|page| (page, pages[&page].clone())).collect();
            destage::write_counted(to, &part, &self.copying, self.progress(to)).await?;
        }
        Ok(())
    }

    /// Reads the copies of those pages that are mapped.
    async fn read_copies(&self, pages: &[u64]) -> Result<Pages, IoError> {
        let borg = self.borg;
        borg.store.read_sums(pages.iter().copied(), &self.copying).await;
        let places: FxHashMap<u64, (u64, Option<(Slot, u32)>)> = {
            let layout = borg.store.layout();
            let place = |&page: &u64| {
                let slot = borg.store.lookup(page)?.slot;
                Some((layout.page(slot), (page, borg.store.known_sum(page))))
            };
            pages.iter().filter_map(place).collect()
        };
        let mut read: Vec<_> = self.read(&*borg.bopt, places.keys().copied()).await?.into_iter().collect();
        // In order, so that the same error is returned each time.
        read.sort_unstable_by_key(|(place, _)| *place);
        for (place, data) in &read {
            let (page, known_sum) = places[place];
            borg.store.verify_sum(page, known_sum, data)?;
        }
        Ok(read.into_iter().map(|(place, data)| (places[&place].0, data)).collect())
    }

    /// Divides moves in slot order into groups of few segments, so that their map pages are written quickly: requests
    /// may wait for that.
    fn groups<'b>(&self, moves: &'b [Move]) -> impl Iterator<Item = &'b [Move]> + use<'b> {
        let layout = self.borg.store.layout();
        let group = move |&(_, slot): &Move| layout.segment_of(slot).0 / SEGMENTS_AT_ONCE;
        moves.chunk_by(move |one, other| group(one) == group(other))
    }

    /// Copies pages to empty slots, from the BOPT or the origin, and maps those that were not written meanwhile.
    async fn copy(&self, round: &[Move], buffered: &Pages) -> Result<u64, IoError> {
        let borg = self.borg;
        let (mut within, mut incoming, mut data) = (Vec::new(), Vec::new(), FxHashMap::default());
        let moves: Vec<Move> = {
            let is_vacant = |&(_, slot): &Move| borg.store.is_vacant(slot);
            let moves: Vec<Move> = round.iter().copied().filter(is_vacant).collect();
            for &(page, slot) in &moves {
                let to = borg.store.layout().page(slot);
                match (buffered.get(&page), borg.store.lookup(page)) {
                    (Some(bytes), _) => drop(data.insert(to, bytes.clone())),
                    (None, Some(_)) => within.push((page, to)),
                    (None, None) => incoming.push((page, to)),
                }
            }
            moves
        };
        for &(page, to) in &incoming {
            did("copied", Extent::of_pages(page, 1), to * PAGE_SECTORS);
        }
        let copies = self.read_copies(&within.iter().map(|(page, _)| *page).collect::<Vec<_>>()).await?;
        let pages = incoming.iter().map(|(page, _)| *page);
        let from_origin = self.read(&*borg.origin, pages).await?;
        let read = |(page, to): &(u64, u64)| Some((*to, copies.get(page).or(from_origin.get(page))?.clone()));
        data.extend(within.iter().chain(&incoming).filter_map(read));
        self.write(&*borg.bopt, &data).await?;
        self.count_copied(data.len());
        if !incoming.is_empty() && !mutant::is("borg: a copy without a flush of its source") {
            // A clean copy must not survive a power cut that the origin's data, possibly in a volatile cache, does not.
            borg.store.flush_origin(&self.how).await?;
        }
        borg.store.flush_bopt(&self.how).await?;
        let mut placed = 0;
        let mut moves = moves;
        moves.sort_unstable_by_key(|(_, slot)| *slot);
        for group in self.groups(&moves) {
            placed += self.map(group).await?;
        }
        Ok(placed)
    }

    /// Maps the copies that are still valid.
    async fn map(&self, moves: &[Move]) -> Result<u64, IoError> {
        let borg = self.borg;
        // Before the pages are locked: requests that wait for them should not wait for other metadata writers.
        let mut update = borg.store.update(&self.how).await;
        let locked = self.lock_valid(moves.iter().map(|(page, _)| *page));
        let valid: FxHashSet<u64> = locked.valid.iter().copied().collect();
        let placed: Vec<Move> = moves.iter().copied().filter(|(page, _)| valid.contains(page)).collect();
        for &(page, slot) in &placed {
            let was = borg.store.lookup(page);
            let dirty = was.is_some_and(|was| was.dirty) && !borg.canary.is("dropped by a relocate");
            update.map(page, Entry { slot, dirty, proven: was.is_none_or(|was| was.proven) });
            if was.is_some() {
                let place = borg.store.layout().page(slot) * PAGE_SECTORS;
                did("relocated", Extent::of_pages(page, 1), place);
            }
        }
        self.persist(update, locked).await.map(|()| placed.len() as u64)
    }

    /// Makes an update durable; its pages stay locked until then.
    async fn persist(&self, mut update: Update<'_>, mut locked: Locked) -> Result<(), IoError> {
        if mutant::is("borg: locks are dropped before a move is durable") {
            locked.guards.clear();
        }
        let done = update.persist(&locked.how).await;
        self.borg.movers.locks_released();
        done
    }

    /// Begins optimistic copies of these pages: from now on, writes to them are noticed.
    pub(super) fn begin_copies(&self, pages: &[u64]) {
        // One of which a write failed, and which could not be rewritten, stays where it is.
        let optimistic = pages.iter().map(|page| (*page, self.borg.failed_writes.contains(*page))).collect();
        self.borg.movers.state.borrow_mut().optimistic = optimistic;
    }

    /// These pages without those that a request has locked to change them.
    fn without_locked(&self, pages: &[u64]) -> Vec<u64> {
        let is_unlocked = |at: &Extent| {
            let class = self.how.class;
            self.borg.locks.try_lock(*at, Mode::Shared, class, None).is_some()
        };
        let pages_of = |strand: Extent| strand.pages().map(|page| Extent::of_pages(page, 1));
        let locked: BTreeSet<u64> = destage::strands(pages.iter().copied())
            .into_iter()
            .filter(|strand| !is_unlocked(strand))
            .flat_map(pages_of)
            .filter(|page| !is_unlocked(page))
            .map(|page| page.start.page())
            .collect();
        if !locked.is_empty() {
            edge("a page is changed as it is to be evicted: it stays");
        }
        pages.iter().copied().filter(|page| !locked.contains(page)).collect()
    }

    /// Locks pages whose copies are valid, except those locked by a request, to avoid waiting for it.
    pub(super) fn lock_valid(&self, pages: impl Iterator<Item = u64> + Clone) -> Locked {
        let ticket = Ticket::new();
        let lock = |at| self.borg.locks.try_lock(at, Mode::Exclusive, self.how.class, Some(ticket.clone()));
        let Moving { optimistic, locked, .. } = &mut *self.borg.movers.state.borrow_mut();
        let unwritten = pages.clone().filter(|page| optimistic.get(page) == Some(&false));
        let (mut guards, mut valid) = (Vec::new(), Vec::new());
        for strand in destage::strands(unwritten) {
            let whole = lock(strand).map(|guard| (strand, guard));
            let parts = if whole.is_none() { strand.pages() } else { 0..0 };
            let parts =
                parts.map(|page| Extent::of_pages(page, 1)).filter_map(|page| Some((page, lock(page)?)));
            for (extent, guard) in whole.into_iter().chain(parts) {
                guards.push(guard);
                locked.push(extent);
                valid.extend(extent.pages());
            }
        }
        if valid.len() < pages.count() {
            edge("a page is used while it is copied: its move is abandoned");
        }
        let how = Hints { ticket: Some(ticket), ..self.how.clone() };
        Locked { valid, how, guards }
    }
}
