//! Snapshots in the map: created and forgotten by changes of the super page and of records, without a copy of data.
//!
//! A snapshot ends an epoch. One that is deleted stays in the list, unseen, while pages of its epoch are staged: a record
//! that ends with it says that a page was written later, so that the staged version is only for the snapshots before.

use std::collections::BTreeSet;

use seekless_core::{ErrorKind, Extent, Hints, IoError, PAGE_SECTORS, SnapshotSpace};

use super::format::{NONE, Record};
use super::placed::{Placed, State};
use super::super_page::{MOST, Snapshot, check_name};

fn refused(why: String) -> IoError {
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

    /// Space of the snapshots that are not being deleted.
    fn space(&self) -> Vec<SnapshotSpace> {
        let named: Vec<&Snapshot> = self.snapshots.named().collect();
        let mut space: Vec<SnapshotSpace> = Vec::new();
        for (index, snapshot) in named.iter().enumerate() {
            let older = index.checked_sub(1).map(|older| named[older].number);
            // What differs from the volume: of each page the first record that does not end before the snapshot.
            let (mut blocks, mut unique, mut seen) = (self.map.mapped(), 0, None);
            for record in self.map.records.iter().filter(|record| record.last >= snapshot.number) {
                if seen.replace(record.page) == Some(record.page) {
                    continue;
                }
                blocks += u64::from(record.block != NONE);
                blocks -= u64::from(self.map.block(u64::from(record.page)) != NONE);
                // Nothing else sees it if the next snapshot sees something newer, and the one before something older.
                let newer = named.get(index + 1).is_none_or(|next| record.last < next.number);
                let last = |older| self.map.records.is_newer(record.page, older, snapshot.number);
                unique += u64::from(record.block != NONE && newer && older.is_none_or(last));
            }
            space.push(SnapshotSpace { name: snapshot.name.clone(), blocks, unique });
        }
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

    /// Snapshots that are being deleted, each with the number of the one before it.
    pub fn deleted(&self) -> Vec<(u32, Option<u32>)> {
        let state = self.state.borrow();
        let deleted = state.snapshots.all.iter().filter(|snapshot| snapshot.deleted);
        deleted.map(|snapshot| (snapshot.number, state.snapshots.before(snapshot.number))).collect()
    }

    /// Space of the snapshots.
    pub fn space(&self) -> Vec<SnapshotSpace> {
        self.state.borrow().space()
    }

    /// Blocks that only snapshots see.
    pub fn blocks_kept(&self) -> u64 {
        self.state.borrow().map.records.blocks()
    }

    /// Whether a page was written in epochs after `epoch`, up to `view`, and is on the data device.
    pub fn is_newer(&self, page: u64, epoch: u32, view: u32) -> bool {
        self.state.borrow().map.records.is_newer(page as u32, epoch, view)
    }

    /// Refuses a snapshot of this name.
    pub fn check_new(&self, name: &str) -> Result<(), IoError> {
        check_name(name).map_err(|expected| {
            refused(format!("found the name '{}', expected {expected}", name.escape_debug()))
        })?;
        let state = self.state.borrow();
        if self.shape.records == 0 {
            let why = "found a volume that an earlier version created, which has no room for snapshots, expected one of this \
                       version: create one, and copy the data";
            return Err(IoError::new(ErrorKind::Unsupported, "proximal", None, why));
        }
        if state.snapshots.find(name).is_some() {
            return Err(refused(format!("found a snapshot '{name}' already, expected another name")));
        }
        if state.snapshots.all.len() == MOST {
            return Err(refused(format!("found {MOST} snapshots, expected fewer: delete one first")));
        }
        if u64::from(state.snapshots.epoch) + 1 >= self.shape.epochs() {
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
            let known: Vec<&str> = state.snapshots.named().map(|known| known.name.as_str()).collect();
            let known = if known.is_empty() { "none: there is none".to_owned() } else { known.join(" or ") };
            return Err(refused(format!("found the snapshot '{}', expected {known}", name.escape_debug())));
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
            let found = state.snapshots.all.iter_mut().find(|snapshot| snapshot.number == number);
            if let Some(snapshot) = found {
                snapshot.deleted = true;
            }
            if staged.is_empty() {
                state.snapshots.all.retain(|snapshot| snapshot.number != number);
            }
            state.snapshots_changed = true;
        }
        self.commit(how, |_| true).await
    }
}
