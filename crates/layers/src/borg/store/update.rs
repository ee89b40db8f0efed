//! Updates: entries that change together, and become durable together (section 5.1).
//!
//! Invariants: one writes metadata at a time; a slot is handed out only when no entry names it; a clean copy has no
//! newer record. An update holds the metadata lock, so its changes are on disk before other metadata is written.
//!
//! Faults: if an update cannot be made durable, what it unmapped is mapped again: either state may be on disk, and both
//! are valid.

use std::collections::BTreeSet;

use seekless_core::lock::Guard;
use seekless_core::runtime::edge;
use seekless_core::{Hints, IoError, Ticket, invariant, mutant};

use super::map::Slot;
use super::segments::Segments;
use super::{Entry, Store};

/// Changes of the map; the caller holds the locks of their pages.
pub struct Update<'a> {
    store: &'a Store,
    /// Pages that were unmapped.
    unmapped: Vec<(u64, Entry)>,
    /// Slots whose segments' map pages have to be written.
    slots: Vec<Slot>,
    _metadata: Guard,
}

impl Store {
    /// Starts an update, when earlier ones are durable.
    pub async fn update(&self, how: &Hints) -> Update<'_> {
        let metadata = self.lock_metadata(how).await;
        Update { store: self, unmapped: Vec::new(), slots: Vec::new(), _metadata: metadata }
    }

    /// Invalidates superseded entries on disk: they would be valid again when the newest is gone.
    pub async fn persist_stale(&self, how: &Hints) -> Result<(), IoError> {
        self.update(how).await.persist_stale(how).await
    }

    /// Marks copies dirty on disk before they are overwritten: otherwise a crash would leave changed copies that seem
    /// clean. The caller holds their pages' locks.
    pub async fn mark_dirty(&self, slots: &[Slot], how: &Hints) -> Result<(), IoError> {
        if slots.is_empty() {
            return Ok(());
        }
        edge("a clean copy is to be overwritten: its dirty bit is persisted first");
        for &slot in slots {
            self.table.borrow_mut().mark_dirty(slot);
        }
        self.persist_missing(slots, |segments, slot| !segments.is_dirty_on_disk(slot), how).await
    }

    /// Forgets checksums of copies in the log, on disk too, before these are overwritten in place: otherwise the copies
    /// would seem damaged after a start. The caller holds their pages' locks.
    pub async fn forget_sums(&self, slots: &[Slot], how: &Hints) -> Result<(), IoError> {
        edge("a copy in the log is to be overwritten: checksums on disk are given up first");
        for &slot in slots {
            let table = &mut *self.table.borrow_mut();
            table.segments.forget_sum(slot);
            if mutant::is("borg: checksums on disk are not given up") {
                table.segments.get_mut(self.layout.segment_of(slot).0).flag_changes = 0;
            }
        }
        self.persist_missing(slots, Segments::has_sum, how).await
    }

    /// Writes the map pages of those of these slots that `is_missing` still accepts under the metadata lock.
    async fn persist_missing(
        &self,
        slots: &[Slot],
        is_missing: impl Fn(&Segments, Slot) -> bool,
        how: &Hints,
    ) -> Result<(), IoError> {
        // Tasks that wait for the lock raise the class of the work under it.
        let how = Hints { ticket: Some(Ticket::new()), fua: false, ..how.clone() };
        let _metadata = self.lock_metadata(&how).await;
        // The previous holder may have written several.
        let missing: Vec<Slot> = {
            let table = self.table.borrow();
            slots.iter().copied().filter(|slot| is_missing(&table.segments, *slot)).collect()
        };
        self.persist_slots(&missing, &how).await
    }

    /// Whether the header of its batch has the checksum of a copy, as far as is known on disk.
    pub fn has_sum(&self, slot: Slot) -> bool {
        self.table.borrow().segments.has_sum(slot)
    }
}

impl Update<'_> {
    /// As [`Store::persist_stale`], as part of this update.
    pub async fn persist_stale(&self, how: &Hints) -> Result<(), IoError> {
        let stale = self.store.table.borrow().segments.which(|segment| segment.stale);
        self.store.persist(&stale, how).await
    }

    /// Maps a page to this slot, and to no other.
    pub fn map(&mut self, page: u64, entry: Entry) {
        self.store.assert_mapping();
        let table = &mut *self.store.table.borrow_mut();
        invariant!(
            "a slot is handed out only when no entry names it",
            !table.segments.is_pending_free(entry.slot) && table.map.page_at(entry.slot).is_none()
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

    /// Unmaps a page, and returns its entry.
    pub fn unmap(&mut self, page: u64) -> Option<Entry> {
        let entry = self.store.lookup(page)?;
        self.store.assert_mapping();
        self.store.table.borrow_mut().map_out(page);
        self.slots.push(entry.slot);
        self.unmapped.push((page, entry));
        Some(entry)
    }

    /// Unmaps pages in memory alone: the next flush or checkpoint has to make it durable.
    pub fn forget(&mut self, pages: &[u64]) {
        let table = &mut *self.store.table.borrow_mut();
        for page in pages {
            let Some(slot) = table.map_out(*page) else { continue };
            table.segments.get_mut(self.store.layout.segment_of(slot).0).pending = true;
        }
    }

    /// Makes the update durable, or maps again what it unmapped.
    pub async fn persist(&mut self, how: &Hints) -> Result<(), IoError> {
        let reused = self.store.canary.is("early reuse") && !self.unmapped.is_empty();
        let done = if reused {
            self.store.table.borrow_mut().segments.set_free(&self.slots);
            Ok(())
        } else {
            self.store.persist_slots(&self.slots, how).await
        };
        if done.is_err() && !self.unmapped.is_empty() {
            edge("an eviction is undone");
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
    /// Writes the map pages of the segments of these slots; the caller holds the metadata lock.
    async fn persist_slots(&self, slots: &[Slot], how: &Hints) -> Result<(), IoError> {
        let segments: BTreeSet<u32> = slots.iter().map(|slot| self.layout.segment_of(*slot).0).collect();
        self.persist(&segments.into_iter().collect::<Vec<_>>(), how).await
    }
}
