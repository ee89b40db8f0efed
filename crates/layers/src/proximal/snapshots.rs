//! Snapshots in the map: created and forgotten by changes of the super page and of records, without a copy of data.
//!
//! A snapshot ends an epoch. One that is deleted stays in the list, unseen, while pages of its epoch are staged: a
//! record that ends with it says that a page was written later, so that the staged version is only for the snapshots
//! before.

use std::collections::BTreeSet;

use seekless_core::{ErrorKind, Extent, Hints, IoError, PAGE_SECTORS, SnapshotSpace};

use super::clones::{NOW, unknown};
use super::format::{NONE, Record};
use super::placed::{Placed, State};
use super::super_page::{MOST, Snapshot, Snapshots, check_name};

/// The error of a request that does not suit the snapshots.
pub fn refused(why: String) -> IoError {
    IoError::new(ErrorKind::Invalid, "proximal", None, why)
}

impl State {
    /// Gives the records that end with this snapshot to the one before it, if that sees them, except those of pages in
    /// `staged`; releases the blocks of the others.
    fn merge(&mut self, number: u32, staged: &BTreeSet<u64>) {
        let before = self.snapshots.before(number);
        let ending: Vec<u32> = {
            let ending = self.map.records.iter().filter(|record| record.last == number);
            ending.map(|record| record.page).filter(|page| !staged.contains(&u64::from(*page))).collect()
        };
        for page in ending {
            let block = self.map.record(|records| records.remove(page, number));
            match before.filter(|last| !self.map.records.has(page, *last)) {
                Some(last) => self.map.record(|records| records.insert(Record { page, last, block })),
                None if block != NONE => self.released.push(u64::from(block)),
                None => {}
            }
        }
    }

    /// Space of the snapshots that are not being deleted, and then of the clones.
    fn space(&self) -> Vec<SnapshotSpace> {
        let Snapshots { all, clones, floor, .. } = &self.snapshots;
        let is_kept = |one: &&Snapshot| !one.deleted || self.snapshots.has_clones(one.number);
        let kept: Vec<&Snapshot> = all.iter().filter(is_kept).collect();
        let (mut space, mut of_clones) = (Vec::new(), Vec::new());
        for (index, snapshot) in kept.iter().enumerate() {
            let older = index.checked_sub(1).map(|older| kept[older].number);
            // What differs from the volume: of each page the first record that does not end before the snapshot.
            let (mut blocks, mut unique, mut seen) = (self.map.mapped(), 0, None);
            let ends = snapshot.number..*floor;
            for record in self.map.records.iter().filter(|record| ends.contains(&record.last)) {
                if seen.replace(record.page) == Some(record.page) {
                    continue;
                }
                blocks += u64::from(record.block != NONE);
                blocks -= u64::from(self.map.block(u64::from(record.page)) != NONE);
                // Nothing else sees it if the next snapshot sees something newer, and the one before something older.
                let newer = kept.get(index + 1).is_none_or(|next| record.last < next.number);
                let last = |older| self.map.records.is_newer(record.page, older, snapshot.number);
                unique += u64::from(record.block != NONE && newer && older.is_none_or(last));
            }
            let above = clones.iter().filter(|clone| clone.base == snapshot.number);
            of_clones.extend(above.map(|clone| self.space_of_clone(clone, (blocks, unique))));
            if !snapshot.deleted {
                let unique = if self.snapshots.has_clones(snapshot.number) { 0 } else { unique };
                space.push(SnapshotSpace { name: snapshot.name.clone(), blocks, unique, is_clone: false });
            }
        }
        space.extend(of_clones);
        space
    }
}

impl Placed {
    /// The epoch in which the volume is written.
    pub fn epoch(&self) -> u32 {
        self.state.borrow().snapshots.epoch
    }

    /// Names and numbers of the snapshots, in the order of their creation.
    pub fn snapshots(&self) -> Vec<(String, u32)> {
        let state = self.state.borrow();
        state.snapshots.named().map(|snapshot| (snapshot.name.clone(), snapshot.number)).collect()
    }

    /// Whether there is a snapshot with this number.
    pub fn has_snapshot(&self, number: u32) -> bool {
        self.state.borrow().snapshots.named().any(|snapshot| snapshot.number == number)
    }

    /// Space of the snapshots.
    pub fn space(&self) -> Vec<SnapshotSpace> {
        self.state.borrow().space()
    }

    /// Blocks that only snapshots and clones see.
    pub fn blocks_kept(&self) -> u64 {
        self.state.borrow().map.records.blocks()
    }

    /// Whether a page was written in epochs after `epoch`, up to `view`, and is on the data device.
    pub fn is_newer(&self, page: u64, epoch: u32, view: u32) -> bool {
        self.state.borrow().map.records.is_newer(page as u32, epoch, view)
    }

    /// Refuses a snapshot of this name, or a clone, which needs this number of entries in the list.
    pub fn check_new(&self, name: &str, entries: usize) -> Result<(), IoError> {
        check_name(name).map_err(|expected| {
            refused(format!("found the name '{}', expected {expected}", name.escape_debug()))
        })?;
        if name == NOW {
            return Err(refused(format!(
                "found the name '{NOW}', expected another: it stands for the present state"
            )));
        }
        let state = self.state.borrow();
        if self.shape.records == 0 {
            let why = "found a volume that an earlier version created, which has no room for snapshots, expected one of this \
                       version: create one, and copy the data";
            return Err(IoError::new(ErrorKind::Unsupported, "proximal", None, why));
        }
        if state.snapshots.names().any(|known| known == name) {
            return Err(refused(format!("found a snapshot '{name}' already, expected another name")));
        }
        let Snapshots { epoch, all, clones, floor } = &state.snapshots;
        if all.len() + clones.len() + entries > MOST {
            let why =
                format!("found {} snapshots, expected fewer: delete one first", all.len() + clones.len());
            return Err(refused(why));
        }
        // A clone of the present state ends an epoch, and takes one.
        let end = u64::from(*floor).min(self.shape.epochs());
        if u64::from(*epoch) + entries as u64 >= end {
            let why = format!("found that {} snapshots were taken, expected fewer", self.shape.epochs() - 1);
            return Err(refused(why));
        }
        Ok(())
    }

    /// Ends the epoch with a snapshot of this name, which was checked; all of its writes have ended, and are durable.
    pub async fn end_epoch(&self, name: &str, how: &Hints) -> Result<(), IoError> {
        {
            let state = &mut *self.state.borrow_mut();
            let number = state.snapshots.epoch;
            state.snapshots.all.push(Snapshot { name: name.to_owned(), number, deleted: false });
            state.snapshots.epoch += 1;
            state.snapshots_changed = true;
        }
        self.commit(how, |_| true).await
    }

    /// Number of the snapshot of this name, and of the one before it.
    pub fn numbers(&self, name: &str) -> Result<(u32, Option<u32>), IoError> {
        let state = self.state.borrow();
        let Some(snapshot) = state.snapshots.find(name) else {
            return Err(refused(unknown(name, state.snapshots.names())));
        };
        Ok((snapshot.number, state.snapshots.before(snapshot.number)))
    }

    /// Deletes a snapshot, durably: its view is gone. Blocks that only it sees are free then, but for pages in
    /// `staged`: those that are staged in its epoch, or in one of a snapshot deleted before.
    pub async fn forget(&self, number: u32, staged: &BTreeSet<u64>, how: &Hints) -> Result<(), IoError> {
        {
            // No read of a block that is released is under way.
            let all = Extent::new(0, self.shape.pages * PAGE_SECTORS);
            let _alone = self.locks.exclusive(all, how).await;
            let state = &mut *self.state.borrow_mut();
            state.merge(number, staged);
            state.snapshots.mark_deleted(number);
            if staged.is_empty() {
                state.snapshots.all.retain(|snapshot| snapshot.number != number);
            }
            state.snapshots_changed = true;
        }
        self.commit(how, |_| true).await
    }
}
