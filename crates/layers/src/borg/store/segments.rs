//! State of each segment: how many of its slots hold a page, and how far its map page on disk records that.
//!
//! An *entry*, in a map page or the header of a batch, records that a slot holds a page. The newest entry of a page is
//! valid. Three rules keep the disk consistent: a slot is reused only when no entry on disk names it; the newest entry
//! of a page is invalidated only after all older ones were invalidated durably; and an older one of a dirty page only
//! when the newer one is durable.

use std::collections::{BTreeMap, BTreeSet};

use seekless_core::runtime::first_number;
use seekless_core::{invariant, mutant};

use super::layout::Layout;
use super::map::Slot;

/// A segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Slots that hold a page.
    pub valid: u32,
    /// Generation of its map page on disk.
    pub generation: u64,
    /// Copy that the map page is in.
    pub copy: u64,
    /// Changes that the map page on disk does not include.
    pub changes: u64,
    /// Changes of its flags that the map page on disk does not include: of dirty bits, and of whether `first` is known.
    pub flag_changes: u64,
    /// Whether it has entries on disk that are superseded, or of pages that are back on the origin.
    pub stale: bool,
    /// Whether its map page could not be written: the next flush has to.
    pub pending: bool,
    /// The last batch in it, for a segment of the log.
    pub last_batch: u64,
    /// The batch up to which its map page on disk covers.
    pub covered: u64,
    /// The first batch in it, if its copies are as they were appended: the headers of its batches have their checksums.
    pub first: Option<u64>,
    /// Position in the order in which segments of the log were taken; 0 is free.
    pub taken: u64,
    /// The segment in which the log continued.
    pub next: Option<u32>,
    /// Copies of the map page, 1 or 2; 0 if there is none.
    pub copies: u32,
}

/// State of all segments.
#[derive(Clone)]
pub struct Segments {
    layout: Layout,
    each: Vec<Segment>,
    /// Slots of the read cache that are empty, but named by an entry on disk (pending free).
    pending_free: BTreeSet<Slot>,
    /// Batches whose copies are not mapped durably, so that they must not be overwritten in place: first slot to end,
    /// and sequence number.
    unstable: BTreeMap<Slot, (Slot, u64)>,
    /// Generation of the map page written last.
    pub generation: u64,
    /// Segments whose map page has fewer than two copies.
    not_duplicated: u32,
}

impl Segments {
    /// Segments of an empty BOPT.
    pub fn new(layout: Layout) -> Segments {
        let each = vec![Segment::default(); layout.segments() as usize];
        Segments {
            layout,
            each,
            pending_free: BTreeSet::new(),
            unstable: BTreeMap::new(),
            generation: first_number(),
            not_duplicated: layout.segments(),
        }
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.layout.slots()
    }

    /// State of a segment.
    pub fn get(&self, segment: u32) -> &Segment {
        &self.each[segment as usize]
    }

    /// As `get`, to change it.
    pub fn get_mut(&mut self, segment: u32) -> &mut Segment {
        &mut self.each[segment as usize]
    }

    /// Numbers of the segments that `wanted` accepts.
    pub fn which(&self, wanted: impl Fn(&Segment) -> bool) -> Vec<u32> {
        (0..).zip(&self.each).filter(|(_, segment)| wanted(segment)).map(|(number, _)| number).collect()
    }

    /// Sum of all generations, recorded by a clean stop.
    pub fn generations(&self) -> u64 {
        self.each.iter().map(|segment| segment.generation).fold(0, u64::wrapping_add)
    }

    /// The last batch that a map page covers, perhaps because it failed.
    pub fn covered(&self) -> u64 {
        self.each.iter().map(|segment| segment.covered).max().unwrap_or(0)
    }

    /// Sets the number of copies of a segment's map page.
    pub fn set_copies(&mut self, segment: u32, copies: u32) {
        let was = std::mem::replace(&mut self.get_mut(segment).copies, copies);
        self.not_duplicated = self.not_duplicated + u32::from(was == 2) - u32::from(copies == 2);
    }

    /// Number of segments whose map page has fewer than two copies.
    pub fn not_duplicated(&self) -> u32 {
        self.not_duplicated
    }

    /// Records that a slot holds a page.
    pub fn filled(&mut self, slot: Slot) {
        let segment = self.get_mut(self.layout.segment_of(slot).0);
        segment.valid += if mutant::is("borg: a page is counted twice") { 2 } else { 1 };
        segment.changes += 1;
        // Was removed, and is put back.
        self.pending_free.remove(&slot);
    }

    /// Records that a slot is empty, which its segment's map page does not include yet.
    pub fn emptied(&mut self, slot: Slot) {
        let segment = self.get_mut(self.layout.segment_of(slot).0);
        invariant!("no count wraps", segment.valid > 0);
        segment.valid -= 1;
        segment.changes += 1;
        segment.stale = true;
        if !self.layout.is_logged(slot) {
            self.pending_free.insert(slot);
        }
    }

    /// Records that a copy became dirty.
    pub fn mark_changed(&mut self, slot: Slot) {
        self.get_mut(self.layout.segment_of(slot).0).flag_changes += 1;
    }

    /// Whether a dirty copy is dirty on disk, in its batch or its segment's map page. Copies in the log are always
    /// dirty.
    pub fn is_dirty_on_disk(&self, slot: Slot) -> bool {
        self.layout.is_logged(slot) || self.get(self.layout.segment_of(slot).0).flag_changes == 0
    }

    /// Whether the header of its batch has the checksum of a copy, as far as the map page on disk says.
    pub fn has_sum(&self, slot: Slot) -> bool {
        let segment = self.get(self.layout.segment_of(slot).0);
        self.layout.is_logged(slot) && (segment.first.is_some() || segment.flag_changes > 0)
    }

    /// Records that a copy in the log will be overwritten in place: headers do not count in its segment from now on.
    pub fn forget_sum(&mut self, slot: Slot) {
        let segment = self.get_mut(self.layout.segment_of(slot).0);
        segment.flag_changes += u64::from(segment.first.take().is_some());
    }

    /// Whether the copy in a slot may be overwritten in place.
    pub fn is_stable(&self, slot: Slot) -> bool {
        self.unstable.range(..=slot).next_back().is_none_or(|(_, (end, _))| *end <= slot)
    }

    /// Records that the slots of a batch, from its header to `end`, are not stable.
    pub fn set_unstable(&mut self, from: Slot, end: Slot, sequence: u64) {
        self.unstable.insert(from, (end, sequence));
    }

    /// Records that the batches of a segment up to this one are stable.
    pub fn set_stable(&mut self, segment: u32, sequence: u64) {
        let batches = self.unstable.range(self.layout.slots_of(segment));
        let stable: Vec<Slot> =
            batches.filter(|(_, (_, number))| *number <= sequence).map(|(slot, _)| *slot).collect();
        for slot in stable {
            self.unstable.remove(&slot);
        }
    }

    /// Whether the slot is empty but an entry on disk still names it.
    pub fn is_pending_free(&self, slot: Slot) -> bool {
        self.pending_free.contains(&slot)
    }

    /// The pending free slots of a segment.
    pub fn pending_free_in(&self, segment: u32) -> Vec<Slot> {
        self.pending_free.range(self.layout.slots_of(segment)).copied().collect()
    }

    /// Records that no entry on disk names these slots any more.
    pub fn set_free(&mut self, slots: &[Slot]) {
        for slot in slots {
            self.pending_free.remove(slot);
        }
    }
}
