//! Updates: entries that are made and taken away together, and become durable together (section 5.1).
//!
//! Invariants: an update holds the metadata lock, so what it changes is on disk before anybody else writes metadata; a
//! slot is handed out only when no entry names it; a clean copy has no newer record.
//!
//! Faults: if it cannot be made durable, what it unmapped is mapped again, since nobody knows what is on disk, and it
//! is still right.

use std::collections::BTreeSet;

use seekless_core::lock::Guard;
use seekless_core::runtime::edge;
use seekless_core::{Hints, IoError, Ticket, invariant};

use super::map::Slot;
use super::{Entry, Store};

/// Changes of the map. Whoever makes them holds the locks of their pages.
pub struct Update<'a> {
    store: &'a Store,
    /// What was unmapped.
    unmapped: Vec<(u64, Entry)>,
    /// Slots whose segments' map pages are to be written.
    slots: Vec<Slot>,
    _metadata: Guard,
}

impl Store {
    /// An update, once those before it are durable.
    pub async fn update(&self, how: &Hints) -> Update<'_> {
        let metadata = self.lock_metadata(how).await;
        Update { store: self, unmapped: Vec::new(), slots: Vec::new(), _metadata: metadata }
    }

    /// Makes older entries invalid on disk that are not the newest of their pages: they would count again when the
    /// newest is gone.
    pub async fn persist_stale(&self, how: &Hints) -> Result<(), IoError> {
        self.update(how).await.persist_stale(how).await
    }

    /// Copies are about to get newer than their origin: that is on disk before they are, or a crash would leave copies
    /// that pass for clean. For who holds their pages.
    pub async fn mark_dirty(&self, slots: &[Slot], how: &Hints) -> Result<(), IoError> {
        if slots.is_empty() {
            return Ok(());
        }
        edge("a clean copy is to be overwritten: the map says before that it is newer");
        for &slot in slots {
            self.table.borrow_mut().set_dirty(slot, true);
        }
        // Whoever waits for the lock raises what is done under it.
        let how = Hints { ticket: Some(Ticket::new()), fua: false, ..how.clone() };
        let _metadata = self.lock_metadata(&how).await;
        // Who held the lock before may have written several.
        let missing: Vec<Slot> = {
            let table = self.table.borrow();
            slots.iter().copied().filter(|slot| !table.segments.is_dirty_on_disk(*slot)).collect()
        };
        self.persist_slots(&missing, &how).await
    }
}

impl Update<'_> {
    /// As [`Store::persist_stale`], as a part of this.
    pub async fn persist_stale(&self, how: &Hints) -> Result<(), IoError> {
        let stale = self.store.table.borrow().segments.which(|segment| segment.stale);
        self.store.persist(&stale, how).await
    }

    /// A page's copy is in this slot from now on, and in no other.
    pub fn map(&mut self, page: u64, entry: Entry) {
        self.store.unless_untouched();
        let table = &mut *self.store.table.borrow_mut();
        invariant!(
            "a slot is handed out only when no entry names it",
            table.segments.is_free(entry.slot) && table.map.page_at(entry.slot).is_none()
        );
        let replaces = table.map.slot_of(page).is_some_and(|was| table.map.is_dirty(was));
        invariant!(
            "a clean copy has no newer record",
            entry.dirty || !(replaces || table.log.is_appending(page))
        );
        table.map_in(page, entry.slot, entry.dirty);
        table.unproven.set(entry.slot, !entry.proven);
        self.slots.push(entry.slot);
    }

    /// A page has no copy from now on; what it had.
    pub fn unmap(&mut self, page: u64) -> Option<Entry> {
        let entry = self.store.lookup(page)?;
        self.store.unless_untouched();
        self.store.table.borrow_mut().map_out(page);
        self.slots.push(entry.slot);
        self.unmapped.push((page, entry));
        Some(entry)
    }

    /// Makes it durable, or takes back what was unmapped.
    pub async fn commit(&mut self, how: &Hints) -> Result<(), IoError> {
        let reused = self.store.canary.is("early reuse") && !self.unmapped.is_empty();
        let done = if reused {
            self.store.table.borrow_mut().segments.set_free(&self.slots);
            Ok(())
        } else {
            self.store.persist_slots(&self.slots, how).await
        };
        if done.is_err() && !self.unmapped.is_empty() {
            edge("an eviction is taken back");
            let table = &mut *self.store.table.borrow_mut();
            for &(page, Entry { slot, dirty, proven }) in &self.unmapped {
                table.map_in(page, slot, dirty);
                table.unproven.set(slot, !proven);
            }
        }
        done
    }
}

impl Store {
    /// Writes the map pages of the segments that these slots are in; for who holds the metadata lock.
    async fn persist_slots(&self, slots: &[Slot], how: &Hints) -> Result<(), IoError> {
        let segments: BTreeSet<u32> = slots.iter().map(|slot| self.layout.segment_of(*slot).0).collect();
        self.persist(&segments.into_iter().collect::<Vec<_>>(), how).await
    }
}
