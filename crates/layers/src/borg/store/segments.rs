//! What is known of each segment: how many of its slots hold a page, and what its map page on disk tells of that.
//!
//! A map page, or the page of a batch, has an *entry*: that a slot holds a page. The newest entry on a page counts. So
//! three rules keep what is on disk true: a slot is used again only when no entry on disk names it; the newest entry on
//! a page is invalidated only when all older ones are invalidated durably; and an older one of a dirty page only when
//! the newer one is durable.

use std::collections::BTreeSet;

use seekless_core::runtime::first_number;
use seekless_core::{invariant, mutant};

use super::layout::Layout;
use super::map::Slot;

/// A segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Slots that hold a page.
    pub valid: u32,
    /// Of its map page on disk.
    pub generation: u64,
    /// Which copy that is in.
    pub copy: u64,
    /// How often something has changed that the map page on disk does not tell.
    pub changes: u64,
    /// How often a copy got newer than the origin, or as old, that the map page on disk does not tell.
    pub bits: u64,
    /// It has entries on disk that are not the newest on their pages, or are on pages that are on the origin again.
    pub stale: bool,
    /// Its map page could not be written: the next flush has to.
    pub pending: bool,
    /// The last batch in it, of a segment of the log.
    pub last_batch: u64,
    /// Its map page on disk tells what batches up to this one did.
    pub covered: u64,
    /// In the order in which segments of the log were taken; 0 is free.
    pub taken: u64,
    /// Slots before this one are mapped durably, so that they may be overwritten in place.
    pub stable: u32,
    /// The segment that the log went on in.
    pub next: Option<u32>,
    /// Homes that hold that map page, 1 or 2; 0 if there is none.
    pub copies: u32,
}

/// All of them.
#[derive(Clone)]
pub struct Segments {
    layout: Layout,
    each: Vec<Segment>,
    /// Slots of the read cache that hold nothing, but an entry on disk names them.
    pending_free: BTreeSet<Slot>,
    /// Of the map page written last.
    pub generation: u64,
    /// Segments whose map page is in one copy only.
    once: u32,
}

impl Segments {
    /// Empty ones.
    pub fn new(layout: Layout) -> Segments {
        let each = vec![Segment::default(); layout.segments() as usize];
        Segments {
            layout,
            each,
            pending_free: BTreeSet::new(),
            generation: first_number(),
            once: layout.segments(),
        }
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.layout.slots()
    }

    /// One of them.
    pub fn of(&self, segment: u32) -> &Segment {
        &self.each[segment as usize]
    }

    /// The same to change it.
    pub fn get(&mut self, segment: u32) -> &mut Segment {
        &mut self.each[segment as usize]
    }

    /// The numbers of those that `wanted` accepts.
    pub fn which(&self, wanted: impl Fn(&Segment) -> bool) -> Vec<u32> {
        (0..).zip(&self.each).filter(|(_, segment)| wanted(segment)).map(|(number, _)| number).collect()
    }

    /// The sum of all generations, which a clean stop leaves.
    pub fn generations(&self) -> u64 {
        self.each.iter().map(|segment| segment.generation).fold(0, u64::wrapping_add)
    }

    /// The last batch that a map page tells, perhaps because it failed.
    pub fn covered(&self) -> u64 {
        self.each.iter().map(|segment| segment.covered).max().unwrap_or(0)
    }

    /// Says how many copies hold the map page of a segment.
    pub fn set_copies(&mut self, segment: u32, copies: u32) {
        let was = std::mem::replace(&mut self.get(segment).copies, copies);
        self.once = self.once + u32::from(was == 2) - u32::from(copies == 2);
    }

    /// How many map pages have no second copy.
    pub fn once(&self) -> u32 {
        self.once
    }

    /// A slot holds a page now.
    pub fn filled(&mut self, slot: Slot) {
        let segment = self.get(self.layout.segment_of(slot).0);
        segment.valid += if mutant::is("borg: a page is counted twice") { 2 } else { 1 };
        segment.changes += 1;
        // What was taken out, and is taken back.
        self.pending_free.remove(&slot);
    }

    /// A slot holds no page any more, which its segment's map page does not tell yet.
    pub fn emptied(&mut self, slot: Slot) {
        let segment = self.get(self.layout.segment_of(slot).0);
        invariant!("no count wraps", segment.valid > 0);
        segment.valid -= 1;
        segment.changes += 1;
        segment.stale = true;
        if !self.layout.is_logged(slot) {
            self.pending_free.insert(slot);
        }
    }

    /// A copy got newer than the origin, or as old.
    pub fn touched(&mut self, slot: Slot) {
        self.get(self.layout.segment_of(slot).0).bits += 1;
    }

    /// Whether a copy that is dirty is so on disk: by its batch, or by its segment's map page.
    pub fn is_dirty_on_disk(&self, slot: Slot) -> bool {
        self.layout.is_logged(slot) || self.of(self.layout.segment_of(slot).0).bits == 0
    }

    /// Whether what a slot holds may be overwritten where it is.
    pub fn is_stable(&self, slot: Slot) -> bool {
        let (segment, offset) = self.layout.segment_of(slot);
        !self.layout.is_logged(slot) || offset < self.of(segment).stable
    }

    /// Whether no entry on disk names an empty slot of the read cache.
    pub fn is_free(&self, slot: Slot) -> bool {
        !self.pending_free.contains(&slot)
    }

    /// A segment's slots that hold nothing, but are named on disk.
    pub fn pending_free_in(&self, segment: u32) -> Vec<Slot> {
        self.pending_free.range(self.layout.slots_of(segment)).copied().collect()
    }

    /// No entry on disk names these slots any more.
    pub fn set_free(&mut self, slots: &[Slot]) {
        for slot in slots {
            self.pending_free.remove(slot);
        }
    }
}
