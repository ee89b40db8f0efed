//! Lookups: the slot and state of a page's copy.

use seekless_core::Extent;

use super::Store;
use super::map::Slot;
use super::session::Session;

/// The copy of a page in the BOPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its slot.
    pub slot: Slot,
    /// Whether it is newer than the origin.
    pub dirty: bool,
    /// Whether it is dirty, or known to equal the origin: it may be read and changed.
    pub proven: bool,
}

/// A segment of the write buffer that is in use, and not the open one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Number of the segment.
    pub segment: u32,
    /// Slots that hold a page.
    pub pages: u64,
    /// Segments taken since, inclusive: its age.
    pub age: u64,
}

impl Store {
    /// The copy of a page, if there is one.
    pub fn lookup(&self, page: u64) -> Option<Entry> {
        let table = self.table.borrow();
        let slot = table.map.slot_of(page)?;
        Some(Entry { slot, dirty: table.map.is_dirty(slot), proven: !table.unproven.has(slot) })
    }

    /// The page that a slot holds.
    pub fn page_at(&self, slot: Slot) -> Option<u64> {
        self.table.borrow().map.page_at(slot)
    }

    /// The pages whose copies `wanted` accepts, in the order of their addresses.
    pub fn pages_where(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<u64> {
        let mut pages = self.pages_by_slot(wanted);
        pages.sort_unstable();
        pages
    }

    /// The pages whose copies `wanted` accepts, in the order of their slots.
    pub fn pages_by_slot(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<u64> {
        let table = self.table.borrow();
        let entry = |slot| Entry { slot, dirty: table.map.is_dirty(slot), proven: !table.unproven.has(slot) };
        let accepted = table.map.mapped_slots().filter(|slot| wanted(&entry(*slot)));
        accepted.filter_map(|slot| table.map.page_at(slot)).collect()
    }

    /// Number of pages that have a copy.
    pub fn mapped(&self) -> usize {
        self.table.borrow().map.mapped()
    }

    /// Number of pages in the read cache.
    pub fn cached(&self) -> usize {
        let table = self.table.borrow();
        table.map.mapped_slots().take_while(|slot| !self.layout.is_logged(*slot)).count()
    }

    /// Number of dirty copies.
    pub fn dirty(&self) -> usize {
        self.table.borrow().map.dirty()
    }

    /// Memory of the map in bytes.
    pub fn map_bytes(&self) -> u64 {
        self.table.borrow().map.bytes()
    }

    /// Slots of the write buffer that are free.
    pub fn room(&self) -> u64 {
        self.table.borrow().log.room()
    }

    /// Whether this many pages can be appended now, however they are divided into batches.
    pub fn has_room(&self, pages: u64) -> bool {
        self.table.borrow().log.has_room(pages)
    }

    /// Whether a copy may be overwritten in place: recovery does not depend on its checksum.
    pub fn is_stable(&self, slot: Slot) -> bool {
        self.table.borrow().segments.is_stable(slot)
    }

    /// Whether a slot of the read cache is empty, and no entry on disk names it.
    pub fn is_vacant(&self, slot: Slot) -> bool {
        let table = self.table.borrow();
        table.map.page_at(slot).is_none() && !table.segments.is_pending_free(slot)
    }

    /// Whether a dirty copy is dirty on disk too.
    pub fn is_dirty_on_disk(&self, slot: Slot) -> bool {
        self.table.borrow().segments.is_dirty_on_disk(slot)
    }

    /// Whether no session was ever begun: the BOPT is empty.
    pub fn is_new(&self) -> bool {
        let disk = self.disk.borrow();
        disk.session == Session::Unchanged && disk.super_page.sessions == 0
    }

    /// Whether the BOPT was given up: nothing is mapped any more.
    pub fn is_given_up(&self) -> bool {
        self.disk.borrow().session == Session::GivenUp
    }

    /// Whether nothing is mapped or being appended.
    pub fn is_empty(&self) -> bool {
        let table = self.table.borrow();
        table.map.mapped() == 0 && table.log.is_quiet()
    }

    /// Whether a start could find other data of one of these pages, in a batch that failed and that may be whole on
    /// disk.
    pub fn is_uncertain(&self, at: Extent) -> bool {
        let uncertain = &self.table.borrow().uncertain;
        !uncertain.is_empty() && uncertain.range(at.pages()).next().is_some()
    }

    /// Number of pages in batches that failed and that may be whole on disk.
    pub fn uncertain(&self) -> usize {
        self.table.borrow().uncertain.len()
    }

    /// Whether a start after a crash would find no dirty page. The caller holds the metadata lock: an update that is
    /// not durable yet may be undone.
    pub fn will_find_nothing_dirty(&self) -> bool {
        let table = self.table.borrow();
        table.map.dirty() == 0 && table.log.is_quiet() && table.uncertain.is_empty()
    }

    /// Whether metadata has to be written before a flush may succeed.
    pub fn has_pending_metadata(&self) -> bool {
        let table = self.table.borrow();
        !table.segments.which(|segment| segment.pending).is_empty() || table.repair.failed().is_some()
    }

    /// The segments of the write buffer that hold pages, by number, except those that batches are being written to.
    pub fn used_segments(&self) -> Vec<Used> {
        let table = self.table.borrow();
        let (first, open) = (table.log.anchor().segment, table.log.open_segment());
        let used = table.segments.which(|segment| segment.taken > 0 && segment.valid > 0);
        let of = |number: u32| {
            let segment = table.segments.get(number);
            Used {
                segment: number,
                pages: u64::from(segment.valid),
                age: table.log.taken_since(segment.taken),
            }
        };
        used.into_iter().filter(|&number| number != first && Some(number) != open).map(of).collect()
    }

    /// The pages of a segment, in slot order.
    pub fn pages_of(&self, segment: u32) -> Vec<u64> {
        let table = self.table.borrow();
        self.layout.slots_of(segment).filter_map(|slot| table.map.page_at(slot)).collect()
    }

    /// Approximate number of log slots that recovery would read.
    pub fn unpersisted_log(&self) -> u64 {
        let anchor_taken = self.disk.borrow().anchor_taken;
        self.table.borrow().log.taken_since(anchor_taken) * u64::from(self.layout.segment)
    }

    /// Number of unproven copies.
    pub fn unproven(&self) -> usize {
        self.table.borrow().unproven.left()
    }

    /// Those of `pages` whose copy is unproven.
    pub fn unproven_of(&self, pages: impl Iterator<Item = u64>) -> Vec<u64> {
        if self.unproven() == 0 {
            return Vec::new();
        }
        pages.filter(|page| self.lookup(*page).is_some_and(|entry| !entry.proven)).collect()
    }

    /// Whether pages carry no data.
    pub fn is_timing_only(&self) -> bool {
        self.timing_only
    }

    /// Slot and checksum of a dirty page's copy; `None` if it is clean, or its checksum is not known.
    pub fn known_sum(&self, page: u64) -> Option<(Slot, u32)> {
        let table = self.table.borrow();
        let slot = table.map.slot_of(page).filter(|slot| table.map.is_dirty(*slot))?;
        Some((slot, table.sums.of(slot)?))
    }
}
