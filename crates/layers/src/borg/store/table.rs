//! The mapping state in memory: the map, segments, log, checksums and unproven copies.
//!
//! Invariants: a segment counts the pages of its map; a slot is handed out only when no entry names it. An emptied slot
//! is not unproven.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, invariant, mutant};

use super::log::{Batch, Log};
use super::map::{BorgMap, Slot};
use super::segments::Segments;
use super::sums::Sums;
use super::unproven::Unproven;

/// The mapping state in memory.
pub struct Table {
    pub map: BorgMap,
    pub segments: Segments,
    pub log: Log,
    pub sums: Sums,
    /// Segments of the log with checksums on disk that are not known.
    pub unread: BTreeSet<u32>,
    pub unproven: Unproven,
    pub repair: Repair,
    /// Pages of batches that failed and are not repaired, each with the number of the last such batch: a start may find
    /// it whole.
    pub uncertain: BTreeMap<u64, u64>,
}

/// Repair of the log after a failed batch: a super page has to move the log's anchor after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// No batch has failed that is not repaired.
    None,
    /// This batch has failed, and the repair waits for the batches before it.
    Pending(u64),
    /// The super page is being written. With it the last batch that failed and is not repaired: at first the one that
    /// the repair is for; none once the super page is durable, unless another one failed meanwhile.
    Running(Option<u64>),
}

impl Repair {
    /// The last batch that failed and is not repaired.
    pub fn failed(self) -> Option<u64> {
        match self {
            Repair::None => None,
            Repair::Pending(batch) => Some(batch),
            Repair::Running(batch) => batch,
        }
    }

    /// Records that a batch failed.
    fn fail(&mut self, batch: u64) {
        *self = match self {
            Repair::Running(_) => Repair::Running(Some(batch)),
            _ => Repair::Pending(batch),
        };
    }

    /// Recovery begins at `sequence` now: earlier failed batches are repaired.
    pub fn anchored(&mut self, sequence: u64) {
        let failed = self.failed().filter(|failed| *failed >= sequence);
        *self = match (*self, failed) {
            (Repair::Running(_), failed) => Repair::Running(failed),
            (_, Some(batch)) => Repair::Pending(batch),
            (_, None) => Repair::None,
        };
    }

    /// The repair that was running ended.
    pub fn end(&mut self) {
        *self = self.failed().map_or(Repair::None, Repair::Pending);
    }
}

impl Table {
    /// The state of a BOPT as recovery found it.
    pub fn new(map: BorgMap, segments: Segments, log: Log, sums: Sums) -> Table {
        let unproven = Unproven::new(segments.slots());
        let (unread, uncertain) = (BTreeSet::new(), BTreeMap::new());
        Table { map, segments, log, sums, unread, unproven, repair: Repair::None, uncertain }
    }

    /// Maps a page to this slot, and to no other.
    pub fn map_in(&mut self, page: u64, slot: Slot, dirty: bool) {
        if let Some(was) = self.map.insert(page, slot, dirty) {
            self.unproven.set(was, false);
            self.segments.emptied(was);
        }
        self.segments.filled(slot);
    }

    /// Unmaps a page, and returns its slot.
    pub fn map_out(&mut self, page: u64) -> Option<Slot> {
        let slot = self.map.remove(page)?;
        self.unproven.set(slot, false);
        self.segments.emptied(slot);
        Some(slot)
    }

    /// Sets the dirty bit of a slot. Nothing clears one: a page that is drained is unmapped.
    pub fn mark_dirty(&mut self, slot: Slot) {
        if !self.map.is_dirty(slot) {
            self.map.set_dirty(slot, true);
            self.segments.mark_changed(slot);
        }
    }

    /// Allocates a slot of the log for a page to absorb, in the open batch; `None` if the log is full.
    pub fn allocate_slot(&mut self, page: u64, data: &Buffer) -> Option<(Slot, Rc<Batch>)> {
        let (slot, batch) = self.log.allocate_slot(&mut self.segments, page, data)?;
        invariant!("a slot is handed out only when no entry names it", self.map.page_at(slot).is_none());
        Some((slot, batch))
    }

    /// Ends the batches that were written, in order, and maps their pages; after a failed one, ends only batches that
    /// failed too.
    pub fn end_written_batches(&mut self, durable_at_once: bool) {
        while let Some(batch) = self.log.pop_ended(self.repair.failed().is_some()) {
            if batch.failed.borrow().is_some() && !mutant::is("borg: a failed batch is mapped") {
                edge("a batch failed");
                let segment = self.segments.get_mut(batch.segment);
                (segment.pending, segment.stale, segment.changes) = (true, true, segment.changes + 1);
                self.repair.fail(batch.sequence);
                let pages = batch.pages().into_iter().map(|(page, _)| (page, batch.sequence));
                if !mutant::is("borg: pages of a failed batch are certain") {
                    self.uncertain.extend(pages);
                }
            } else {
                for ((page, slot), (_, sum)) in batch.pages().into_iter().zip(batch.entries.borrow().iter()) {
                    self.map_in(page, slot, true);
                    self.sums.set(slot, Some(*sum));
                }
                self.log.record_committed(&batch);
            }
            batch.end();
        }
        if durable_at_once && self.repair.failed().is_none() {
            let ended = self.log.ended;
            self.log.mark_durable(&mut self.segments, ended);
        }
    }
}
