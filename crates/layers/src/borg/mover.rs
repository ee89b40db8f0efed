//! Moves pages (sections 4.4 and 5.2), home or from slot to slot, in batches and in the background.
//!
//! A batch copies first and asks later: no foreground request waits for a copy. Only when the copies are written are
//! their pages locked; those that were written meanwhile are abandoned, the others are claimed on disk, then mapped.
//! A slot that others are to move into is emptied before, home if it is dirty. Who waits for a lock raises what is
//! done under it to its own class.
//!
//! Chains and cycles: of the pages of a batch those in the read cache, and those whose slots others want, are all read
//! first, then unmapped together, home if they are dirty, then all are written; so a cycle needs no case of its own, and
//! nothing is read twice. Nor could the map pages of two segments that exchange dirty pages be written in any order.
//!
//! Faults: a batch that fails ends the move with its error. What was moved stays moved, what was not stays where it
//! was, and nothing is mapped to a slot that was not written.

use std::cell::Cell;
use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_core::lock::Guard;
use seekless_core::runtime::{self, Task, edge};
use seekless_core::{
    Account, BlockDevice, Buffer, Class, ErrorKind, Extent, Hints, IoError, Mode, PAGE_SECTORS, Ticket,
    mutant,
};

use super::map::Slot;
use super::options::MoveClass;
use super::pace::{Manner, Pace};
use super::table::Session;
use super::{Borg, State, did};
use crate::destage;

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
        self.borg.state.borrow_mut().freely = None;
        drop(self.deadline.take());
    }
}

/// Pages that are locked and were not written since they were watched.
pub(super) struct Locked {
    pub untouched: Vec<u64>,
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
        let alone = borg.movers.lock(Extent::new(0, 1), Mode::Exclusive, Class::Background, None).await;
        let how = Hints { class: Class::Background, account, ..Hints::default() };
        if borg.state.borrow().left {
            return Ok(None);
        }
        if manner != Manner::Idle {
            borg.begin(Session::Mapped, &how).await?;
        }
        let (copying, pace) = (how.clone(), Pace::new(borg, manner));
        Ok(Some(Mover { borg, how, copying, copied: Cell::default(), deadline: None, pace, _alone: alone }))
    }

    /// The same, its copies in the class that the options say.
    pub fn in_its_class(mut self) -> Mover<'a> {
        if self.borg.options.reconfigure_class == MoveClass::Free {
            let ticket = Ticket::new();
            self.borg.state.borrow_mut().freely = Some(ticket.clone());
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
        self.borg.begin(Session::Mapped, &self.how).await?;
        for batch in pages.chunks(self.pace.batch(BATCH)) {
            if !self.pace.goes_on(batch.len()).await {
                break;
            }
            self.watch(batch);
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
        for batch in super::chains::batches(moves, most, |slot| self.borg.state.borrow().map.page_at(slot)) {
            if !self.pace.goes_on(batch.len()).await {
                break;
            }
            came += self.place_batch(&batch).await?;
        }
        Ok(came)
    }

    async fn place_batch(&self, batch: &[Move]) -> Result<u64, IoError> {
        let displaced: BTreeSet<u64> = {
            let state = self.borg.state.borrow();
            let occupant = |&(page, slot): &Move| state.map.page_at(slot).filter(|&there| there != page);
            let cached = |&(page, _): &Move| {
                state.map.slot_of(page).filter(|&slot| !self.borg.layout.is_logged(slot)).map(|_| page)
            };
            batch.iter().filter_map(occupant).chain(batch.iter().filter_map(cached)).collect()
        };
        let moving: FxHashSet<u64> = batch.iter().map(|(page, _)| *page).collect();
        let watched: Vec<u64> = displaced.iter().chain(&moving).copied().collect();
        self.watch(&watched);
        // Of those that go and come again the copies are kept, if they are of use.
        let kept = |page: &u64| {
            let state = self.borg.state.borrow();
            moving.contains(page) && state.map.slot_of(*page).is_some_and(|slot| state.is_of_use(slot))
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

    /// Reads pages of home or BOPT.
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

    /// What ends a batch; nothing was changed but what went home.
    fn unless_disturbed(&self) -> Result<(), IoError> {
        let disturbed = || IoError::new(ErrorKind::Timeout, "borg", None, "a client asks");
        if self.pace.is_disturbed() { Err(disturbed()) } else { Ok(()) }
    }

    /// Writes pages home or into the BOPT.
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
            let state = borg.state.borrow();
            let place =
                |&page: &u64| Some((borg.layout.page(state.map.slot_of(page)?), (page, state.sum_of(page))));
            pages.iter().filter_map(place).collect()
        };
        let mut read: Vec<_> = self.read(&*borg.bopt, places.keys().copied()).await?.into_iter().collect();
        // In order, so that it is the same error each time.
        read.sort_unstable_by_key(|(place, _)| *place);
        for (place, data) in &read {
            let (page, told) = places[place];
            borg.unless_rotten(page, told, data)?;
        }
        Ok(read.into_iter().map(|(place, data)| (places[&place].0, data)).collect())
    }

    /// Copies what is dirty home, then unmaps all of `pages` that were not written since they were watched.
    async fn evict(&self, pages: &[u64], held: &Held) -> Result<u64, IoError> {
        let borg = self.borg;
        let dirty: Vec<u64> = {
            let state = borg.state.borrow();
            let is_dirty = |page: &u64| state.map.slot_of(*page).is_some_and(|slot| state.map.is_dirty(slot));
            pages.iter().copied().filter(is_dirty).collect()
        };
        if !dirty.is_empty() && !mutant::is("borg: an eviction leaves what is dirty") {
            let unread: Vec<u64> = dirty.iter().copied().filter(|page| !held.contains_key(page)).collect();
            let mut data = self.read_copies(&unread).await?;
            data.extend(dirty.iter().filter_map(|page| Some((*page, held.get(page)?.clone()))));
            for &page in data.keys() {
                did("drained", Extent::of_pages(page, 1), page * PAGE_SECTORS);
            }
            // What is newer is durable before home is: or an older claim could count again, on a copy that is not as home.
            borg.flush_bopt(&self.how).await?;
            self.write(&*borg.home, &data).await?;
            self.count_copied(data.len());
            if !mutant::is("borg: an eviction does not flush home") {
                borg.flush_home(&self.how).await?;
            }
        }
        // Older claims on these pages would count again when the newest is gone.
        borg.say(|segment| segment.stale, &self.raisable()).await?;
        let there: Vec<Move> = {
            let state = borg.state.borrow();
            let mut there: Vec<Move> =
                pages.iter().filter_map(|&page| Some((page, state.map.slot_of(page)?))).collect();
            there.sort_unstable_by_key(|(_, slot)| *slot);
            there
        };
        let mut gone = 0;
        for group in self.groups(&there) {
            gone += self.withdraw(group).await?;
        }
        Ok(gone)
    }

    /// Unmaps pages whose home is as new, as far as they were not written since they were watched.
    async fn withdraw(&self, group: &[Move]) -> Result<u64, IoError> {
        let borg = self.borg;
        // Before the pages are locked: who waits for those is not to wait for whoever has the turn.
        let _turn = borg.turn(&self.how).await;
        let locked = self.lock_untouched(group.iter().map(|(page, _)| *page));
        let leaving: Vec<(u64, Slot, bool, bool)> = {
            let mut state = borg.state.borrow_mut();
            let leaving = locked.untouched.iter().filter_map(|&page| {
                let slot = state.map.slot_of(page)?;
                let was = (page, slot, state.map.is_dirty(slot), !state.is_of_use(slot));
                state.map_out(page);
                did("evicted", Extent::of_pages(page, 1), borg.layout.page(slot) * PAGE_SECTORS);
                Some(was)
            });
            leaving.collect()
        };
        let said = if borg.canary.is("early reuse") {
            let slots: Vec<Slot> = leaving.iter().map(|(_, slot, ..)| *slot).collect();
            borg.state.borrow_mut().segments.out_of_limbo(&slots);
            Ok(())
        } else {
            borg.say_segments_of(leaving.iter().map(|(_, slot, ..)| *slot), &locked.how).await
        };
        borg.state.borrow_mut().moving.clear();
        if said.is_err() {
            // Whether they are still claimed nobody knows; they are still right.
            edge("an eviction is taken back");
            let mut state = borg.state.borrow_mut();
            for &(page, slot, dirty, unproven) in &leaving {
                state.map_in(page, slot, dirty);
                state.origin.unproven.set(slot, unproven);
            }
        } else {
            let drained = leaving.iter().filter(|(_, _, dirty, _)| *dirty).count() as u64;
            borg.tally(&self.how, |sides| sides.drained += drained);
        }
        said.map(|()| leaving.len() as u64)
    }

    /// Parts of what is in order of slots, each in few segments: so their map pages are soon written, for which a
    /// request may have to wait.
    fn groups<'b>(&self, moves: &'b [Move]) -> impl Iterator<Item = &'b [Move]> + use<'b> {
        let layout = self.borg.layout;
        let group = move |&(_, slot): &Move| layout.segment_of(slot).0 / SEGMENTS_AT_ONCE;
        moves.chunk_by(move |one, other| group(one) == group(other))
    }

    /// Copies pages to empty slots, from the BOPT or from home, and maps those that were not written since they were
    /// watched.
    async fn copy(&self, batch: &[Move], held: &Held) -> Result<u64, IoError> {
        let borg = self.borg;
        let (mut within, mut incoming, mut data) = (Vec::new(), Vec::new(), FxHashMap::default());
        let moves: Vec<Move> = {
            let state = borg.state.borrow();
            let is_empty = |slot| state.map.page_at(slot).is_none() && state.segments.is_free(slot);
            let moves: Vec<Move> = batch.iter().copied().filter(|&(_, slot)| is_empty(slot)).collect();
            for &(page, slot) in &moves {
                let to = borg.layout.page(slot);
                match (held.get(&page), state.map.slot_of(page)) {
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
        let from_home = self.read(&*borg.home, pages).await?;
        let read = |(page, to): &(u64, u64)| Some((*to, copies.get(page).or(from_home.get(page))?.clone()));
        data.extend(within.iter().chain(&incoming).filter_map(read));
        self.write(&*borg.bopt, &data).await?;
        self.count_copied(data.len());
        if !incoming.is_empty() && !mutant::is("borg: a copy without a flush of its source") {
            // A clean copy must not outlive what was read, which may be in the cache of another component only.
            borg.flush_home(&self.how).await?;
        }
        borg.flush_bopt(&self.how).await?;
        let mut came = 0;
        let mut moves = moves;
        moves.sort_unstable_by_key(|(_, slot)| *slot);
        for group in self.groups(&moves) {
            came += self.commit(group).await?;
        }
        Ok(came)
    }

    /// Maps the copies that are still good.
    async fn commit(&self, moves: &[Move]) -> Result<u64, IoError> {
        let borg = self.borg;
        // Before the pages are locked: who waits for those is not to wait for whoever has the turn.
        let _turn = borg.turn(&self.how).await;
        let mut locked = self.lock_untouched(moves.iter().map(|(page, _)| *page));
        let good: FxHashSet<u64> = locked.untouched.iter().copied().collect();
        let came: Vec<Move> = moves.iter().copied().filter(|(page, _)| good.contains(page)).collect();
        {
            let mut state = borg.state.borrow_mut();
            for &(page, slot) in &came {
                let was = state.map.slot_of(page);
                let dirty = was.is_some_and(|was| state.map.is_dirty(was));
                let unproven = was.is_some_and(|was| !state.is_of_use(was));
                state.map_in(page, slot, dirty && !borg.canary.is("dropped by a relocate"));
                state.origin.unproven.set(slot, unproven);
                if was.is_some() {
                    did("relocated", Extent::of_pages(page, 1), borg.layout.page(slot) * PAGE_SECTORS);
                }
            }
        }
        if mutant::is("borg: locks are dropped before a move is durable") {
            locked.guards.clear();
        }
        let said = borg.say_segments_of(came.iter().map(|(_, slot)| *slot), &locked.how).await;
        borg.state.borrow_mut().moving.clear();
        said.map(|()| came.len() as u64)
    }

    /// From now on, writes to these pages are noticed.
    pub(super) fn watch(&self, pages: &[u64]) {
        self.borg.state.borrow_mut().watched = pages.iter().map(|page| (*page, false)).collect();
    }

    /// Locks watched pages, but for those that a request is at: nobody waits for who waits.
    pub(super) fn lock_untouched(&self, pages: impl Iterator<Item = u64> + Clone) -> Locked {
        let ticket = Ticket::new();
        let lock = |at| self.borg.locks.try_lock(at, Mode::Exclusive, self.how.class, Some(ticket.clone()));
        let mut state = self.borg.state.borrow_mut();
        let State { watched, moving, .. } = &mut *state;
        let free = pages.clone().filter(|page| watched.get(page) == Some(&false));
        let (mut guards, mut untouched) = (Vec::new(), Vec::new());
        for strand in destage::strands(free) {
            let whole = lock(strand).map(|guard| (strand, guard));
            let parts = if whole.is_none() { strand.pages() } else { 0..0 };
            let parts =
                parts.map(|page| Extent::of_pages(page, 1)).filter_map(|page| Some((page, lock(page)?)));
            for (held, guard) in whole.into_iter().chain(parts) {
                guards.push(guard);
                moving.push(held);
                untouched.extend(held.pages());
            }
        }
        if untouched.len() < pages.count() {
            edge("a page is used while it is copied: its move is abandoned");
        }
        let how = Hints { ticket: Some(ticket), ..self.how.clone() };
        Locked { untouched, how, guards }
    }
}
