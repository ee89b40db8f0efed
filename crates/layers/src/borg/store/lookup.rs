//! Lookups: where the copy of a page is, and what is known of it.

use seekless_core::{Buffer, ErrorKind, Extent, IoError};

use super::map::Slot;
use super::session::Session;
use super::{Store, format};
use crate::bytes::sum_of_page;

/// The copy of a page in the BOPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub slot: Slot,
    /// It is newer than its origin.
    pub dirty: bool,
    /// It is newer, or is known to be as its origin is: it may be read, and changed.
    pub proven: bool,
}

/// A segment of the write buffer that is in use and is not being filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Its number.
    pub segment: u32,
    /// Slots that hold a page.
    pub pages: u64,
    /// Segments that were taken since it was, itself included.
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

    /// The pages whose copies `wanted` accepts, in the order of slots.
    pub fn pages_where(&self, wanted: impl Fn(u64, &Entry) -> bool) -> Vec<u64> {
        let table = self.table.borrow();
        let entry = |(slot, page, dirty)| (page, Entry { slot, dirty, proven: !table.unproven.has(slot) });
        table
            .map
            .iter()
            .map(entry)
            .filter(|(page, entry)| wanted(*page, entry))
            .map(|(page, _)| page)
            .collect()
    }

    /// Number of pages that have a copy.
    pub fn mapped(&self) -> usize {
        self.table.borrow().map.mapped()
    }

    /// Number of pages in the read cache.
    pub fn cached(&self) -> usize {
        let table = self.table.borrow();
        table.map.iter().take_while(|(slot, ..)| !self.layout.is_logged(*slot)).count()
    }

    /// Number of pages whose copy is newer.
    pub fn dirty(&self) -> usize {
        self.table.borrow().map.dirty()
    }

    /// A bit a slot: whether its copy is newer.
    pub fn dirty_bits(&self) -> Vec<u64> {
        self.table.borrow().map.dirty_bits().to_vec()
    }

    /// Memory of the map in bytes.
    pub fn map_bytes(&self) -> u64 {
        self.table.borrow().map.bytes()
    }

    /// Slots of the write buffer that are free.
    pub fn room(&self) -> u64 {
        self.table.borrow().log.room()
    }

    /// Whether so many pages can be appended now, however they are cut into batches.
    pub fn has_room(&self, pages: u64) -> bool {
        self.table.borrow().log.has_room(pages)
    }

    /// Whether a copy may be overwritten where it is: more than the log's checksums tells of it.
    pub fn is_stable(&self, slot: Slot) -> bool {
        self.table.borrow().segments.is_stable(slot)
    }

    /// Whether a slot of the read cache holds nothing, and no entry on disk names it.
    pub fn is_free(&self, slot: Slot) -> bool {
        let table = self.table.borrow();
        table.map.page_at(slot).is_none() && table.segments.is_free(slot)
    }

    /// Whether a copy that is dirty is so on disk.
    pub fn is_dirty_on_disk(&self, slot: Slot) -> bool {
        self.table.borrow().segments.is_dirty_on_disk(slot)
    }

    /// Whether no session was ever begun: it holds nothing.
    pub fn is_new(&self) -> bool {
        let disk = self.disk.borrow();
        disk.session == Session::Untouched && disk.page.opening == 0
    }

    /// Whether the BOPT was given up: nothing is mapped any more.
    pub fn is_detached(&self) -> bool {
        self.disk.borrow().session == Session::Detached
    }

    /// Whether it holds nothing, and nothing is being appended.
    pub fn is_empty(&self) -> bool {
        let table = self.table.borrow();
        table.map.mapped() == 0 && table.log.is_quiet()
    }

    /// The segments of the write buffer that hold pages and are not being filled, in the order of their numbers.
    pub fn used_segments(&self) -> Vec<Used> {
        let table = self.table.borrow();
        let open = table.log.anchor().segment;
        let used = table.segments.which(|segment| segment.taken > 0 && segment.valid > 0);
        let of = |number: u32| {
            let segment = table.segments.of(number);
            Used {
                segment: number,
                pages: u64::from(segment.valid),
                age: table.log.taken_since(segment.taken),
            }
        };
        used.into_iter().filter(|&number| number != open).map(of).collect()
    }

    /// The pages that a segment holds, in the order of slots.
    pub fn pages_of(&self, segment: u32) -> Vec<u64> {
        let table = self.table.borrow();
        self.layout.slots_of(segment).filter_map(|slot| table.map.page_at(slot)).collect()
    }

    /// Slots of the log that recovery would read, about.
    pub fn unpersisted_log(&self) -> u64 {
        let anchored_at = self.disk.borrow().anchored_at;
        self.table.borrow().log.taken_since(anchored_at) * u64::from(self.layout.segment)
    }

    /// Number of clean copies that nobody compared with their origin.
    pub fn unproven(&self) -> usize {
        self.table.borrow().unproven.left()
    }

    /// Those of `pages` that have an unproven copy.
    pub fn unproven_of(&self, pages: impl Iterator<Item = u64>) -> Vec<u64> {
        if self.unproven() == 0 {
            return Vec::new();
        }
        pages.filter(|page| self.lookup(*page).is_some_and(|entry| !entry.proven)).collect()
    }

    /// All clean copies are unproven.
    pub fn doubt_all(&self) {
        let table = &mut *self.table.borrow_mut();
        for (slot, _, _) in table.map.iter().filter(|(_, _, dirty)| !dirty) {
            table.unproven.set(slot, true);
        }
    }

    /// The copy in a slot was found to be as its origin.
    pub fn prove(&self, slot: Slot) {
        self.table.borrow_mut().unproven.set(slot, false);
    }

    /// The slot of a page that is newer than its origin, and the checksum of what it holds, as far as that is known.
    pub fn sum_of(&self, page: u64) -> Option<(Slot, u32)> {
        let table = self.table.borrow();
        let slot = table.map.slot_of(page).filter(|slot| table.map.is_dirty(*slot))?;
        Some((slot, table.sums.of(slot)?))
    }

    /// Checks that a whole page was read from its slot as it was written; `known` is what was known of it before it was
    /// read. Who reads without a lock may read what is written meanwhile: then more is known now, or less.
    pub fn unless_rotten(&self, page: u64, known: Option<(Slot, u32)>, data: &Buffer) -> Result<(), IoError> {
        let Some((slot, sum)) = known.filter(|_| !self.timing_only) else { return Ok(()) };
        if sum_of_page(data) == sum || self.sum_of(page) != known {
            return Ok(());
        }
        let why = format!(
            "found the copy of page {page} in slot {slot} not as it was written, expected it unchanged: it is newer than the origin, \
             and there is no other copy; it is not written to the origin"
        );
        Err(IoError::new(ErrorKind::Corrupt, "borg", Some(Extent::of_pages(self.layout.page(slot), 1)), why))
    }

    /// What the last clean stop left; `None` if there was none.
    pub fn last_stop(&self) -> Option<super::LastStop> {
        let disk = self.disk.borrow();
        let format::Super { clean, samples, mark, .. } = &disk.page;
        clean.then(|| super::LastStop { samples: samples.clone(), mark: *mark })
    }
}
