//! Clones: writable versions of what a snapshot sees, its base (section 3.2). They begin without a copy of data.
//!
//! A clone is written in an epoch of its own, which nothing else sees. A page that was written there, and destaged, has
//! a record with its number; any other is seen as the base sees it. So the block of a record is its clone's alone, and
//! a block of the base is never written over. A clone of the volume's present state has a base without a name.
//!
//! Invariants: the base stays in the list as long as there are clones over it, with or without a name, and its records
//! are not merged; the number of a clone is given once, so that what is staged for a deleted one belongs to nothing.

use seekless_core::runtime::edge;
use seekless_core::{ErrorKind, Extent, Hints, IoError, PAGE_SECTORS, SnapshotSpace};

use super::format::{NONE, Record};
use super::placed::{Placed, State};
use super::snapshots::refused;
use super::super_page::{Cloned, Snapshot};
use crate::canary::Canary;

/// The name that stands for the volume's present state.
pub const NOW: &str = "now";

impl State {
    /// The block in which a page is seen by the snapshot that ended this epoch, by the clone that is written in it, or
    /// by the volume.
    pub fn block_in(&self, page: u64, epoch: u32) -> u32 {
        let number = page as u32;
        let mut seen = epoch;
        if self.snapshots.is_of_clone(epoch) {
            let Some(base) = self.snapshots.base(epoch) else { return NONE };
            if let Some(block) = self.map.records.block(number, epoch) {
                return block;
            }
            seen = base;
        }
        match self.map.records.holder(number, seen..self.snapshots.floor) {
            Some((_, block)) => block,
            None => self.map.block(page),
        }
    }

    /// Maps a page of a clone to this block, or unmaps it; the block that nothing sees any more, if one.
    pub fn remap_in_clone(&mut self, page: u32, number: u32, block: u32, canary: &Canary) -> Option<u64> {
        let old = if self.map.records.has(page, number) {
            edge("a page of a clone is written again");
            self.map.record(|records| records.replace(page, number, block))
        } else {
            let below = self.block_in(u64::from(page), number);
            if below != NONE || block != NONE {
                edge("a clone has a page of its own");
                self.map.record(|records| records.insert(Record { page, last: number, block }));
            }
            if canary.is("a block below a clone is reused") { below } else { NONE }
        };
        (old != NONE).then_some(u64::from(old))
    }

    /// Space of a clone, whose base sees `blocks`, of which `unique` only it and its clones see.
    pub fn space_of_clone(&self, clone: &Cloned, (blocks, unique): (u64, u64)) -> SnapshotSpace {
        let with_base = self.snapshots.all.iter().any(|base| base.number == clone.base && base.deleted)
            && self.snapshots.clones.iter().filter(|other| other.base == clone.base).count() == 1;
        let (mut blocks, mut unique) = (blocks, if with_base { unique } else { 0 });
        for page in self.map.records.pages_of(clone.number) {
            let own = self.map.records.block(page, clone.number).is_some_and(|block| block != NONE);
            blocks += u64::from(own);
            blocks -= u64::from(self.block_in(u64::from(page), clone.base) != NONE);
            unique += u64::from(own);
        }
        SnapshotSpace { name: clone.name.clone(), blocks, unique, is_clone: true }
    }
}

impl Placed {
    /// Names and numbers of the clones, in the order of their creation.
    pub fn clones(&self) -> Vec<(String, u32)> {
        let state = self.state.borrow();
        state.snapshots.clones.iter().map(|clone| (clone.name.clone(), clone.number)).collect()
    }

    /// Number of the base, if this is the number of a clone.
    pub fn base(&self, number: u32) -> Option<u32> {
        self.state.borrow().snapshots.base(number)
    }

    /// Number of the clone of this name.
    pub fn clone_number(&self, name: &str) -> Option<u32> {
        self.state.borrow().snapshots.find_clone(name).map(|clone| clone.number)
    }

    /// Number of the snapshot of this name, to clone it.
    pub fn cloned(&self, name: &str) -> Result<u32, IoError> {
        let snapshots = &self.state.borrow().snapshots;
        let found = snapshots.find(name).map(|snapshot| snapshot.number);
        found.ok_or_else(|| refused(unknown(name, snapshots.named().map(|one| one.name.as_str()))))
    }

    /// Whether clones are over the snapshot with this number.
    pub fn has_clones(&self, number: u32) -> bool {
        self.state.borrow().snapshots.has_clones(number)
    }

    /// Whether an epoch is that of a clone that was deleted.
    pub(super) fn is_gone(&self, epoch: u32) -> bool {
        let state = self.state.borrow();
        state.snapshots.is_of_clone(epoch) && state.snapshots.base(epoch).is_none()
    }

    /// Whether a page was written in this clone, and is on the data device.
    pub fn is_own(&self, page: u64, clone: u32) -> bool {
        self.state.borrow().map.records.has(page as u32, clone)
    }

    /// Begins a clone of this name, which was checked, durably: of the snapshot with this number, or of the volume's
    /// present state. For the latter all writes have ended, and are durable. No write may begin before this has ended.
    pub async fn begin_clone(&self, name: &str, from: Option<u32>, how: &Hints) -> Result<(), IoError> {
        {
            let state = &mut *self.state.borrow_mut();
            let snapshots = &mut state.snapshots;
            let base = from.unwrap_or_else(|| {
                let number = snapshots.epoch;
                snapshots.all.push(Snapshot { name: name.to_owned(), number, deleted: true });
                snapshots.epoch += 1;
                number
            });
            let number = snapshots.floor.min(self.shape.epochs() as u32) - 1;
            snapshots.floor = number;
            snapshots.clones.push(Cloned { name: name.to_owned(), number, base });
            state.snapshots_changed = true;
        }
        self.commit(how, |_| true).await
    }

    /// Deletes a clone, durably: its view is gone, and its own blocks are free. Returns its base, if that has no name
    /// and no other clone.
    pub async fn forget_clone(&self, number: u32, how: &Hints) -> Result<Option<u32>, IoError> {
        let left = {
            // No read of a block that is released is under way.
            let all = Extent::new(0, self.shape.pages * PAGE_SECTORS);
            let _alone = self.locks.exclusive(all, how).await;
            let state = &mut *self.state.borrow_mut();
            for page in state.map.records.pages_of(number) {
                let block = state.map.record(|records| records.remove(page, number));
                if block != NONE {
                    state.released.push(u64::from(block));
                }
            }
            let base = state.snapshots.base(number);
            state.snapshots.clones.retain(|clone| clone.number != number);
            state.snapshots_changed = true;
            base.filter(|base| state.snapshots.is_unseen(*base))
        };
        self.commit(how, |_| true).await?;
        Ok(left)
    }

    /// The snapshots that are being deleted and have no clones, each with the number of the one before it.
    pub fn deleted(&self) -> Vec<(u32, Option<u32>)> {
        let state = self.state.borrow();
        let numbers = state.snapshots.all.iter().map(|snapshot| snapshot.number);
        let deleted = numbers.filter(|number| state.snapshots.is_unseen(*number));
        deleted.map(|number| (number, state.snapshots.before(number))).collect()
    }

    /// Marks a snapshot with clones as deleted, durably: it stays below them, without a view.
    pub async fn hide(&self, number: u32, how: &Hints) -> Result<(), IoError> {
        edge("a deleted snapshot stays below its clones");
        {
            let state = &mut *self.state.borrow_mut();
            state.snapshots.mark_deleted(number);
            state.snapshots_changed = true;
        }
        self.commit(how, |_| true).await
    }
}

/// What was found instead of a known name.
pub fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let known = if known.is_empty() { "none: there is none".to_owned() } else { known.join(" or ") };
    format!("found the snapshot '{}', expected {known}", name.escape_debug())
}

/// The error of a request to something that was deleted.
pub fn gone(at: Extent, what: &str) -> IoError {
    let why = format!("found a request to a {what} that was deleted, expected one that is there");
    IoError::new(ErrorKind::Gone, "proximal", Some(at), why)
}
