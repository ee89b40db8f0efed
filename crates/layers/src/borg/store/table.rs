//! What is mapped, in memory: the map, and with it what is known of segments, log, checksums and unproven copies.
//!
//! Invariants: a segment counts the pages of its map; a slot is handed out only when no entry names it; a slot that is
//! emptied is unproven no more.

use std::rc::Rc;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, invariant, mutant};

use super::log::{Batch, Log};
use super::map::{BorgMap, Slot};
use super::segments::Segments;
use super::sums::Sums;
use super::unproven::Unproven;

/// What is mapped.
pub struct Table {
    pub map: BorgMap,
    pub segments: Segments,
    pub log: Log,
    pub sums: Sums,
    pub unproven: Unproven,
    pub repair: Repair,
}

/// Repair of the log behind a batch that failed: a super page has to say that the log begins after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// No batch has failed.
    None,
    /// This batch has.
    Pending(u64),
    /// The super page is being written, perhaps after another batch failed.
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

    /// A batch failed.
    fn fail(&mut self, batch: u64) {
        *self = match self {
            Repair::Running(_) => Repair::Running(Some(batch)),
            _ => Repair::Pending(batch),
        };
    }

    /// The log begins at `sequence` for recovery: batches that failed before are repaired.
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
    /// That of a BOPT as recovery found it.
    pub fn new(map: BorgMap, segments: Segments, log: Log, sums: Sums) -> Table {
        let unproven = Unproven::new(segments.slots());
        Table { map, segments, log, sums, unproven, repair: Repair::None }
    }

    /// A page's copy is in this slot from now on, and in no other.
    pub fn map_in(&mut self, page: u64, slot: Slot, dirty: bool) {
        if let Some(was) = self.map.insert(page, slot, dirty) {
            self.unproven.set(was, false);
            self.segments.emptied(was);
        }
        self.segments.filled(slot);
    }

    /// A page has no copy any more; where it was.
    pub fn map_out(&mut self, page: u64) -> Option<Slot> {
        let slot = self.map.remove(page)?;
        self.unproven.set(slot, false);
        self.segments.emptied(slot);
        Some(slot)
    }

    /// The copy in a slot is newer than its origin, or as old.
    pub fn set_dirty(&mut self, slot: Slot, dirty: bool) {
        if self.map.is_dirty(slot) != dirty {
            self.map.set_dirty(slot, dirty);
            self.segments.touched(slot);
        }
    }

    /// A slot of the log for a page that is absorbed now, and the batch that it is part of. `None` if the log is full.
    pub fn take(&mut self, page: u64, data: &Buffer) -> Option<(Slot, Rc<Batch>)> {
        let (slot, batch) = self.log.take(&mut self.segments, page, data)?;
        invariant!("a slot is handed out only when no entry names it", self.map.page_at(slot).is_none());
        Some((slot, batch))
    }

    /// Commits all batches that are written, in order; behind one that failed, only what failed too.
    pub fn commit(&mut self, durable_at_once: bool) {
        while let Some(batch) = self.log.written_first(self.repair.failed().is_some()) {
            if batch.failed.borrow().is_some() && !mutant::is("borg: a run that failed is mapped") {
                edge("a run failed");
                let segment = self.segments.get(batch.segment);
                (segment.pending, segment.stale, segment.changes) = (true, true, segment.changes + 1);
                self.repair.fail(batch.sequence);
            } else {
                for ((page, slot), (_, sum)) in batch.pages().into_iter().zip(batch.entries.borrow().iter()) {
                    self.map_in(page, slot, true);
                    self.sums.set(slot, Some(*sum));
                }
                self.log.remember(&batch);
            }
            batch.commit();
        }
        if durable_at_once && self.repair.failed().is_none() {
            let committed = self.log.committed;
            self.log.now_durable(&mut self.segments, committed);
        }
    }
}
