//! Moves pages (sections 4.4 and 5.2), to the origin or from slot to slot, in batches and in the background.
//!
//! A batch copies first and asks later: no foreground request waits for a copy. Only when the copies are written are
//! their pages locked; those that were written meanwhile are abandoned, the others are mapped, on disk too. A slot that
//! others are to move into is emptied before, to the origin if it is dirty. Who waits for a lock raises what is done
//! under it to its own class.
//!
//! Chains and cycles: of the pages of a batch those in the read cache, and those whose slots others want, are all read
//! first, then unmapped together, to the origin if they are dirty, then all are written; so a cycle needs no case of
//! its own, and nothing is read twice. Nor could the map pages of two segments that exchange dirty pages be written in
//! any order.
//!
//! Faults: a batch that fails ends the move with its error. What was moved stays moved, what was not stays where it
//! was, and nothing is mapped to a slot that was not written.

mod chains;
mod shared;

use std::cell::Cell;
use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_core::lock::Guard;
use seekless_core::runtime::{self, Task, edge};
use seekless_core::{
    Account, BlockDevice, Buffer, Class, ErrorKind, Extent, Hints, IoError, Mode, PAGE_SECTORS, Ticket,
    mutant,
};

use super::options::MoveClass;
use super::pace::{Manner, Pace};
use super::store::{Entry, Slot};
use super::{Borg, did};
use crate::destage;
pub(super) use shared::Movers;
use shared::Moving;

/// Pages that move together: 64 MiB, as much as may be in flight in a volume. The more, the closer together on the
/// disk is what a batch reads. Tests cross many batches.
pub(super) const BATCH: usize = if cfg!(test) { 7 } else { 16_384 };

/// Segments whose map pages are written together while their pages are locked.
const SEGMENTS_AT_ONCE: u32 = if cfg!(test) { 2 } else { 4 };

/// A page and where it is to go.
pub(super) type Move = (u64, Slot);
/// Pages and what they hold.
type Held = FxHashMap<u64, Buffer>;

/// Moves pages in the background. There is one at a time. It is not to be dropped before its end: what it has in a
/// device's queue is carried out all the same.
pub(super) struct Mover<'a> {
    pub(super) borg: &'a Borg,
    how: Hints,
    /// How pages are copied.
    copying: Hints,
    /// Pages that were copied, and those of them that were not for free in the end.
    copied: Cell<(u64, u64)>,
    /// From when on copies are not for free any more.
    deadline: Option<Task<()>>,
    pub(super) pace: Pace<'a>,
    _alone: Guard,
}

impl Drop for Mover<'_> {
    fn drop(&mut self) {
        self.borg.movers.state.borrow_mut().free = None;
        drop(self.deadline.take());
    }
}

/// Pages that are locked, and whose copies are valid: they were not written since the copies were begun.
pub(super) struct Locked {
    pub valid: Vec<u64>,
    /// What is done under the locks: whoever waits for them raises it.
    pub how: Hints,
    guards: Vec<Guard>,
}

impl<'a> Mover<'a> {
    /// When those before have ended; `None` if the layer was taken away, and has no pages.
    pub async fn start(
        borg: &'a Borg,
        account: Account,
        manner: Manner,
    ) -> Result<Option<Mover<'a>>, IoError> {
        let _awaited = (manner == Manner::AtOnce).then(|| borg.await_movers());
        let alone = borg.movers.one.lock(Extent::new(0, 1), Mode::Exclusive, Class::Background, None).await;
        let how = Hints { class: Class::Background, account, ..Hints::default() };
        if borg.store.is_detached() {
            return Ok(None);
        }
        if manner != Manner::Idle {
            borg.store.begin_mapping(&how).await?;
        }
        let (copying, pace) = (how.clone(), Pace::new(borg, manner));
        Ok(Some(Mover { borg, how, copying, copied: Cell::default(), deadline: None, pace, _alone: alone }))
    }

    /// The same, its copies in the class that the options say.
    pub fn in_its_class(mut self) -> Mover<'a> {
        if self.borg.options.reconfigure_class == MoveClass::Free {
            let ticket = Ticket::new();
            self.borg.movers.state.borrow_mut().free = Some(ticket.clone());
            self.copying = Hints { class: Class::Free, ticket: Some(ticket.clone()), ..self.how.clone() };
            let deadline = runtime::now() + self.borg.options.free_deadline;
            self.deadline = Some(runtime::spawn(async move {
                runtime::sleep_until(deadline).await;
                ticket.promote(Class::Background);
            }));
        }
        self
    }

    /// Pages that were copied, and those of them that were not, or not to the end, copied for free.
    pub fn copied(&self) -> (u64, u64) {
        self.copied.get()
    }

    /// So many pages were copied.
    fn count_copied(&self, pages: usize) {
        let ((all, paid), pages) = (self.copied.get(), pages as u64);
        let free = self.copying.effective_class() == Class::Free;
        self.copied.set((all + pages, paid + if free { 0 } else { pages }));
    }

    /// How metadata is written: whoever waits for that raises it.
    pub fn raisable(&self) -> Hints {
        Hints { ticket: Some(Ticket::new()), ..self.how.clone() }
    }

    /// Takes pages out of the BOPT, and returns how many went.
    pub async fn outgoing(&self, pages: &[u64]) -> Result<u64, IoError> {
        let mut gone = 0;
        if !self.settle_doubts().await? {
            return Ok(0);
        }
        self.borg.store.begin_mapping(&self.how).await?;
        for batch in pages.chunks(self.pace.batch(BATCH)) {
            if !self.pace.goes_on(batch.len()).await {
                break;
            }
            self.begin_copies(batch);
            gone += self.evict(batch, &Held::default()).await?;
        }
        Ok(gone)
    }

    /// Brings pages to slots, and returns how many came.
    pub async fn place(&self, moves: &[Move]) -> Result<u64, IoError> {
        let mut came = 0;
        if !self.settle_doubts().await? {
            return Ok(0);
        }
        let most = self.pace.batch(BATCH);
        for batch in chains::batches(moves, most, |slot| self.borg.store.page_at(slot)) {
            if !self.pace.goes_on(batch.len()).await {
                break;
            }
            came += self.place_batch(&batch).await?;
        }
        Ok(came)
    }

    async fn place_batch(&self, batch: &[Move]) -> Result<u64, IoError> {
        let displaced: BTreeSet<u64> = {
            let store = &self.borg.store;
            let occupant = |&(page, slot): &Move| store.page_at(slot).filter(|&there| there != page);
            let cached = |&(page, _): &Move| {
                store.lookup(page).filter(|entry| !store.layout().is_logged(entry.slot)).map(|_| page)
            };
            batch.iter().filter_map(occupant).chain(batch.iter().filter_map(cached)).collect()
        };
        let moving: FxHashSet<u64> = batch.iter().map(|(page, _)| *page).collect();
        let copied: Vec<u64> = displaced.iter().chain(&moving).copied().collect();
        self.begin_copies(&copied);
        // Of those that go and come again the copies are kept, if they are of use.
        let kept = |page: &u64| {
            moving.contains(page) && self.borg.store.lookup(*page).is_some_and(|entry| entry.proven)
        };
        let (both, away): (Vec<u64>, Vec<u64>) = displaced.into_iter().partition(kept);
        let held = self.read_copies(&both).await?;
        if !both.is_empty() {
            edge("pages move within the read cache");
        }
        let leaving = [both, away].concat();
        if !leaving.is_empty() {
            self.evict(&leaving, &held).await?;
        }
        self.copy(batch, &held).await
    }

    /// Reads pages of the origin or BOPT.
    pub(super) async fn read(
        &self,
        from: &dyn BlockDevice,
        pages: impl Iterator<Item = u64>,
    ) -> Result<Held, IoError> {
        if !self.pace.is_one_by_one() {
            return destage::read(from, pages, |at| self.borg.buffer(at), &self.copying).await;
        }
        let mut held = Held::default();
        for strand in destage::strands(pages) {
            self.unless_disturbed()?;
            let read = destage::read(from, strand.pages(), |at| self.borg.buffer(at), &self.copying);
            held.extend(read.await?);
        }
        Ok(held)
    }

    /// What ends a batch; nothing was changed but what went to the origin.
    fn unless_disturbed(&self) -> Result<(), IoError> {
        let disturbed = || IoError::new(ErrorKind::Timeout, "borg", None, "a client asks");
        if self.pace.is_disturbed() { Err(disturbed()) } else { Ok(()) }
    }

    /// Writes pages to the origin or into the BOPT.
    async fn write(&self, to: &dyn BlockDevice, pages: &Held) -> Result<(), IoError> {
        if !self.pace.is_one_by_one() {
            return destage::write(to, pages, &self.copying).await;
        }
        for strand in destage::strands(pages.keys().copied()) {
            self.unless_disturbed()?;
            let part: Held = strand.pages().map(|page| (page, pages[&page].clone())).collect();
            destage::write(to, &part, &self.copying).await?;
        }
        Ok(())
    }

    /// What the copies of pages hold that are mapped.
    async fn read_copies(&self, pages: &[u64]) -> Result<Held, IoError> {
        let borg = self.borg;
        let places: FxHashMap<u64, (u64, Option<(Slot, u32)>)> = {
            let layout = borg.store.layout();
            let place = |&page: &u64| {
                let slot = borg.store.lookup(page)?.slot;
                Some((layout.page(slot), (page, borg.store.sum_of(page))))
            };
            pages.iter().filter_map(place).collect()
        };
        let mut read: Vec<_> = self.read(&*borg.bopt, places.keys().copied()).await?.into_iter().collect();
        // In order, so that it is the same error each time.
        read.sort_unstable_by_key(|(place, _)| *place);
        for (place, data) in &read {
            let (page, told) = places[place];
            borg.store.unless_rotten(page, told, data)?;
        }
        Ok(read.into_iter().map(|(place, data)| (places[&place].0, data)).collect())
    }

    /// Copies what is dirty to the origin, then unmaps all of `pages` that were not written since their copies were
    /// begun.
    async fn evict(&self, pages: &[u64], held: &Held) -> Result<u64, IoError> {
        let borg = self.borg;
        let is_dirty = |page: &u64| borg.store.lookup(*page).is_some_and(|entry| entry.dirty);
        let dirty: Vec<u64> = pages.iter().copied().filter(is_dirty).collect();
        if !dirty.is_empty() && !mutant::is("borg: an eviction leaves what is dirty") {
            let unread: Vec<u64> = dirty.iter().copied().filter(|page| !held.contains_key(page)).collect();
            let mut data = self.read_copies(&unread).await?;
            data.extend(dirty.iter().filter_map(|page| Some((*page, held.get(page)?.clone()))));
            for &page in data.keys() {
                did("drained", Extent::of_pages(page, 1), page * PAGE_SECTORS);
            }
            // What is newer is durable before the origin is: or an older entry could count again, on a copy that is not
            // as the origin.
            borg.store.flush_bopt(&self.how).await?;
            self.write(&*borg.origin, &data).await?;
            self.count_copied(data.len());
            if !mutant::is("borg: an eviction does not flush home") {
                borg.store.flush_origin(&self.how).await?;
            }
        }
        // Older entries of these pages would count again when the newest is gone.
        borg.store.persist_stale(&self.raisable()).await?;
        let there: Vec<Move> = {
            let there = pages.iter().filter_map(|&page| Some((page, borg.store.lookup(page)?.slot)));
            let mut there: Vec<Move> = there.collect();
            there.sort_unstable_by_key(|(_, slot)| *slot);
            there
        };
        let mut gone = 0;
        for group in self.groups(&there) {
            gone += self.unmap(group).await?;
        }
        Ok(gone)
    }

    /// Unmaps pages whose origin is as new, as far as they were not written since their copies were begun.
    async fn unmap(&self, group: &[Move]) -> Result<u64, IoError> {
        let borg = self.borg;
        // Before the pages are locked: who waits for those is not to wait for whoever writes metadata.
        let mut update = borg.store.update(&self.how).await;
        let locked = self.lock_valid(group.iter().map(|(page, _)| *page));
        let (mut gone, mut drained) = (0, 0);
        for &page in &locked.valid {
            let Some(entry) = update.unmap(page) else { continue };
            let place = borg.store.layout().page(entry.slot) * PAGE_SECTORS;
            did("evicted", Extent::of_pages(page, 1), place);
            (gone, drained) = (gone + 1, drained + u64::from(entry.dirty));
        }
        let done = update.commit(&locked.how).await;
        borg.movers.unlocked();
        if done.is_ok() {
            borg.tally(&self.how, |sides| sides.drained += drained);
        }
        done.map(|()| gone)
    }

    /// Parts of what is in order of slots, each in few segments: so their map pages are soon written, for which a
    /// request may have to wait.
    fn groups<'b>(&self, moves: &'b [Move]) -> impl Iterator<Item = &'b [Move]> + use<'b> {
        let layout = self.borg.store.layout();
        let group = move |&(_, slot): &Move| layout.segment_of(slot).0 / SEGMENTS_AT_ONCE;
        moves.chunk_by(move |one, other| group(one) == group(other))
    }

    /// Copies pages to empty slots, from the BOPT or from the origin, and maps those that were not written meanwhile.
    async fn copy(&self, batch: &[Move], held: &Held) -> Result<u64, IoError> {
        let borg = self.borg;
        let (mut within, mut incoming, mut data) = (Vec::new(), Vec::new(), FxHashMap::default());
        let moves: Vec<Move> = {
            let is_free = |&(_, slot): &Move| borg.store.is_free(slot);
            let moves: Vec<Move> = batch.iter().copied().filter(is_free).collect();
            for &(page, slot) in &moves {
                let to = borg.store.layout().page(slot);
                match (held.get(&page), borg.store.lookup(page)) {
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
            // A clean copy must not outlive what was read, which may be in the cache of another component only.
            borg.store.flush_origin(&self.how).await?;
        }
        borg.store.flush_bopt(&self.how).await?;
        let mut came = 0;
        let mut moves = moves;
        moves.sort_unstable_by_key(|(_, slot)| *slot);
        for group in self.groups(&moves) {
            came += self.map(group).await?;
        }
        Ok(came)
    }

    /// Maps the copies that are still valid.
    async fn map(&self, moves: &[Move]) -> Result<u64, IoError> {
        let borg = self.borg;
        // Before the pages are locked: who waits for those is not to wait for whoever writes metadata.
        let mut update = borg.store.update(&self.how).await;
        let mut locked = self.lock_valid(moves.iter().map(|(page, _)| *page));
        let valid: FxHashSet<u64> = locked.valid.iter().copied().collect();
        let came: Vec<Move> = moves.iter().copied().filter(|(page, _)| valid.contains(page)).collect();
        for &(page, slot) in &came {
            let was = borg.store.lookup(page);
            let dirty = was.is_some_and(|was| was.dirty) && !borg.canary.is("dropped by a relocate");
            update.map(page, Entry { slot, dirty, proven: was.is_none_or(|was| was.proven) });
            if was.is_some() {
                let place = borg.store.layout().page(slot) * PAGE_SECTORS;
                did("relocated", Extent::of_pages(page, 1), place);
            }
        }
        if mutant::is("borg: locks are dropped before a move is durable") {
            locked.guards.clear();
        }
        let done = update.commit(&locked.how).await;
        borg.movers.unlocked();
        done.map(|()| came.len() as u64)
    }

    /// Copies of these pages are begun, without their locks: from now on, writes to them are noticed.
    pub(super) fn begin_copies(&self, pages: &[u64]) {
        self.borg.movers.state.borrow_mut().optimistic = pages.iter().map(|page| (*page, false)).collect();
    }

    /// Locks pages whose copies are valid, but for those that a request is at: nobody waits for who waits.
    pub(super) fn lock_valid(&self, pages: impl Iterator<Item = u64> + Clone) -> Locked {
        let ticket = Ticket::new();
        let lock = |at| self.borg.locks.try_lock(at, Mode::Exclusive, self.how.class, Some(ticket.clone()));
        let Moving { optimistic, locked, .. } = &mut *self.borg.movers.state.borrow_mut();
        let free = pages.clone().filter(|page| optimistic.get(page) == Some(&false));
        let (mut guards, mut valid) = (Vec::new(), Vec::new());
        for strand in destage::strands(free) {
            let whole = lock(strand).map(|guard| (strand, guard));
            let parts = if whole.is_none() { strand.pages() } else { 0..0 };
            let parts =
                parts.map(|page| Extent::of_pages(page, 1)).filter_map(|page| Some((page, lock(page)?)));
            for (held, guard) in whole.into_iter().chain(parts) {
                guards.push(guard);
                locked.push(held);
                valid.extend(held.pages());
            }
        }
        if valid.len() < pages.count() {
            edge("a page is used while it is copied: its move is abandoned");
        }
        let how = Hints { ticket: Some(ticket), ..self.how.clone() };
        Locked { valid, how, guards }
    }
}
