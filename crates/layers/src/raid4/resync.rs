//! Resync: after a crash of an array without a log, each row is made consistent before anything of it is used, and all
//! of them in the background.
//!
//! A write that a crash cut short may have reached any of the sectors of its block, its checksum block and its parity.
//! So in a row of a dirty array a block that does not match is what its checksum says, if that follows from the parity;
//! otherwise what lies there, of which each sector is from some write that was not flushed. Then parity is computed
//! anew. That needs all members: a row of a dirty array with a member missing may be beyond repair.
//!
//! Invariant: what a resync chose is durable before any of it is read. Otherwise the next crash could keep a part of
//! its writes, and the next resync choose what the first one had not, after clients had read that.
//!
//! A group of which a write failed, without a log, is made consistent in the same way before anything more of it is
//! read, with all of its blocks written anew: its members may carry out the failed write later, each its part of it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, ErrorKind, Extent, Hints, IoError, mutant};

use super::Raid;
use super::blocks::Blocks;
use super::geometry::sectors;
use super::load::{Loaded, encoded};
use super::options::NAME;
use super::rows;
use super::sums::{Entry, Sums};
use super::update::all_rows;

/// The groups that a resync still has to see.
#[derive(Default)]
pub struct Unsettled {
    /// A bit for each group.
    bits: RefCell<Vec<u64>>,
    left: Cell<u64>,
    /// Groups besides, of which a write failed that may still be carried out.
    failed: RefCell<BTreeSet<u64>>,
}

impl Unsettled {
    /// All of these groups.
    pub fn all(groups: u64) -> Unsettled {
        let bits = RefCell::new(vec![u64::MAX; groups.div_ceil(64) as usize]);
        Unsettled { bits, left: Cell::new(groups), failed: RefCell::default() }
    }

    /// Number of groups.
    pub fn left(&self) -> u64 {
        self.left.get() + self.failed.borrow().len() as u64
    }

    /// A write to this group failed.
    pub fn fail(&self, group: u64) {
        self.settle(group);
        self.failed.borrow_mut().insert(group);
    }

    fn has_failed(&self, group: u64) -> bool {
        self.failed.borrow().contains(&group)
    }

    fn is_left(&self, group: u64) -> bool {
        self.left.get() > 0 && self.bits.borrow()[(group / 64) as usize] >> (group % 64) & 1 == 1
    }

    fn has(&self, group: u64) -> bool {
        self.is_left(group) || self.has_failed(group)
    }

    fn settle(&self, group: u64) {
        self.failed.borrow_mut().remove(&group);
        if self.is_left(group) {
            self.bits.borrow_mut()[(group / 64) as usize] &= !(1 << (group % 64));
            self.left.set(self.left.get() - 1);
        }
    }
}

/// A block of a row that changes.
type Change = (usize, Buffer, Entry);

impl Raid {
    /// Makes a group consistent, unless it is.
    pub(super) async fn settle(&self, group: u64, how: &Hints) -> Result<(), IoError> {
        if !self.unsettled.has(group) {
            return Ok(());
        }
        let _turn = self.groups.exclusive(Extent::new(group, 1), how).await;
        self.settle_held(group, how).await
    }

    /// As `settle`, for a caller that holds the group's lock.
    pub(super) async fn settle_held(&self, group: u64, how: &Hints) -> Result<(), IoError> {
        if !self.unsettled.has(group) {
            return Ok(());
        }
        let all = self.unsettled.has_failed(group);
        if all {
            edge("a group of which a write failed is made consistent");
        } else {
            edge("a group of a dirty array is made consistent");
        }
        let layout = &self.members.layout;
        let fua = !mutant::is("raid4: a resync without FUA");
        let how = Hints { fua, verify: false, ..how.clone() };
        let loaded = self.load_rows(group, &all_rows(self), &how).await;
        let mut sums = loaded.sums.clone();
        let mut writes: BTreeMap<usize, Blocks> = BTreeMap::new();
        for row in 0..layout.rows() {
            for (member, content, entry) in self.settle_row(group, row, &loaded, all)? {
                let block = layout.block(group, row);
                let entry = encoded(&entry, self.members.place(member, block), &content);
                sums.entry(member).or_insert_with(Sums::blank).set(row, entry);
                writes.entry(member).or_default().insert(block, content);
            }
        }
        for (member, mut blocks) in writes {
            blocks.insert(layout.sums(group), sums[&member].block());
            if let Err(error) = self.members.write(member, &blocks, &how).await {
                if self.members.missing(group).is_none() {
                    self.unsettled.fail(group);
                }
                self.members.fail(member, &error).await?;
            }
        }
        self.unsettled.settle(group);
        Ok(())
    }

    /// The blocks of a row that have to change, or `all` of them.
    fn settle_row(&self, group: u64, row: u64, loaded: &Loaded, all: bool) -> Result<Vec<Change>, IoError> {
        let layout = &self.members.layout;
        let found = loaded.row(layout.members(), row);
        let newest = found.entries.iter().flatten().map(|entry| entry.generation).max().unwrap_or(0);
        let mut changes = Vec::new();
        let mut blocks: Vec<Buffer> =
            found.blocks.iter().map(|block| block.clone().unwrap_or_default()).collect();
        let mut entries: Vec<Entry> = found.entries.iter().map(|entry| entry.unwrap_or_default()).collect();
        for column in 0..layout.data {
            let member = layout.member(group, column);
            if found.entries[member].is_some() {
                if all {
                    changes.push((member, blocks[member].clone(), entries[member]));
                }
                continue;
            }
            let follows = found.solve(layout, group).ok().filter(|solved| solved.damaged == [member]);
            let place = self.members.place(member, layout.block(group, row));
            let says = |content: &Buffer| Entry::decode(loaded.sums.get(&member)?.entry(row), place, content);
            let (content, entry) = match (follows, &found.blocks[member]) {
                (Some(solved), lies) => {
                    let content = solved.blocks[member].clone();
                    match (says(&content), lies) {
                        (Some(entry), _) => (content, entry),
                        (None, None) => (content, solved.entries[member]),
                        (None, Some(lies)) => {
                            (lies.clone(), Entry { generation: newest + 1, ..Entry::default() })
                        }
                    }
                }
                (None, Some(lies)) => (lies.clone(), Entry { generation: newest + 1, ..Entry::default() }),
                (None, None) => return Err(self.beyond_repair(group, row, member, loaded)),
            };
            (blocks[member], entries[member]) = (content.clone(), entry);
            changes.push((member, content, entry));
        }
        let parity = layout.parity(group);
        let data = (0..layout.data).map(|column| layout.member(group, column));
        let content = rows::sum(data.clone().map(|member| &blocks[member]));
        let generation = data.map(|member| entries[member].generation).max().unwrap_or(0);
        let entry = Entry { generation, covers: rows::covers(layout, group, &entries) };
        let same = found.entries[parity].is_some_and(|found| found.covers == entry.covers)
            && found.blocks[parity].as_ref().is_some_and(|found| found.to_vec() == content.to_vec());
        if (all || !same)
            && !mutant::is("raid4: a resync keeps the parity")
            && self.members.missing(group) != Some(parity)
        {
            changes.push((parity, content, entry));
        }
        Ok(changes)
    }

    fn beyond_repair(&self, group: u64, row: u64, member: usize, loaded: &Loaded) -> IoError {
        let block = self.members.layout.block(group, row);
        let why =
            format!("found block {block} of member {member} unreadable in a row that a crash cut short");
        let at = Some(sectors(block));
        loaded.error.clone().unwrap_or_else(|| IoError::new(ErrorKind::Corrupt, NAME, at, why))
    }

    /// Makes all groups consistent in the background.
    pub(super) fn resync_in_background(self: &Rc<Self>) {
        let me = Rc::downgrade(self);
        let groups = self.members.layout.groups();
        let work = async move {
            for group in 0..groups {
                let Some(raid) = me.upgrade() else { return };
                // A group that cannot be made consistent fails again when it is used.
                let _ = raid.settle(group, &Hints { class: Class::Background, ..Hints::default() }).await;
            }
        };
        if self.unsettled.left() > 0 {
            runtime::spawn(work).detach();
        }
    }
}
