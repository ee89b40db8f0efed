//! Blocks of a group with their checksums: reading them, comparing them, and repairing what does not match from the
//! rest of its row.
//!
//! A repair writes what was there, with the same generation, durably before it counts. The caller holds the group's
//! lock wherever something is written, or computed from several members.

use std::collections::{BTreeMap, BTreeSet};

use seekless_core::runtime::edge;
use seekless_core::{Buffer, ErrorKind, Hints, IoError, PAGE_BYTES, mutant};

use super::Raid;
use super::blocks::Blocks;
use super::geometry::sectors;
use super::options::NAME;
use super::rows::{Row, Solved};
use super::sums::{ENTRY, Entry, Sums};

use crate::join::join_all;

/// Rows of members.
pub type Wanted = BTreeMap<usize, BTreeSet<u64>>;

/// What was read of a group.
#[derive(Default)]
pub struct Loaded {
    /// Blocks that could be read, by member and row.
    pub blocks: BTreeMap<(usize, u64), Buffer>,
    /// Entries of those that match them.
    pub entries: BTreeMap<(usize, u64), Entry>,
    /// Checksum blocks that could be read.
    pub sums: BTreeMap<usize, Sums>,
    /// An error of a member, if there was one.
    pub error: Option<IoError>,
}

impl Loaded {
    /// The rows with a wanted block that is missing or does not match, or whose parity covers another generation.
    pub fn damaged(&self, raid: &Raid, group: u64, wanted: &Wanted) -> BTreeSet<u64> {
        let mut damaged = BTreeSet::new();
        if raid.timing_only {
            return damaged;
        }
        let layout = &raid.members.layout;
        for (&member, rows) in wanted {
            if !self.sums.contains_key(&member) {
                damaged.extend(0..layout.rows());
            }
            for &row in rows {
                let entry = self.entries.get(&(member, row));
                let parity = self.entries.get(&(layout.parity(group), row));
                let covered =
                    layout.column(group, member).zip(parity).map(|(column, parity)| parity.covers[column]);
                if entry.is_none_or(|entry| covered.is_some_and(|covered| covered != entry.low())) {
                    damaged.insert(row);
                }
            }
        }
        damaged
    }

    /// A row, by member.
    pub fn row(&self, members: usize, row: u64) -> Row {
        Row {
            blocks: (0..members).map(|member| self.blocks.get(&(member, row)).cloned()).collect(),
            entries: (0..members).map(|member| self.entries.get(&(member, row)).copied()).collect(),
        }
    }
}

/// The bytes of an entry: zeroes for a block that was never written.
pub fn encoded(entry: &Entry, place: super::sums::Place, block: &Buffer) -> [u8; ENTRY] {
    if entry.generation == 0 { [0; ENTRY] } else { entry.encode(place, block) }
}

impl Raid {
    /// A block to read into: hollow, if only time is measured.
    pub(super) fn block(&self) -> Buffer {
        if self.timing_only { Buffer::hollow(PAGE_BYTES) } else { Buffer::zeroed(PAGE_BYTES) }
    }

    /// Reads rows of members, each with its checksum block.
    pub(super) async fn load(&self, group: u64, wanted: &Wanted, how: &Hints) -> Loaded {
        let layout = &self.members.layout;
        let read = wanted.iter().map(async |(&member, rows)| {
            let blocks = rows.iter().map(|row| layout.block(group, *row)).chain([layout.sums(group)]);
            let blocks: Blocks = blocks.map(|block| (block, self.block())).collect();
            let failed = self.members.read(member, &blocks, how).await;
            (member, blocks, failed)
        });
        let mut loaded = Loaded::default();
        for (member, mut blocks, failed) in join_all(read).await {
            blocks.retain(|block, _| !failed.contains_key(block));
            loaded.error = loaded.error.or(failed.into_values().next());
            let sums = blocks.remove(&layout.sums(group)).map(|block| Sums::of(&block));
            for (block, content) in blocks {
                let Some((_, row)) = layout.row_at(block) else { continue };
                let place = self.members.place(member, block);
                let decode = |sums: &Sums| {
                    if self.timing_only {
                        return Some(Entry::default());
                    }
                    Entry::decode(sums.entry(row), place, &content)
                };
                if let Some(entry) = sums.as_ref().and_then(decode) {
                    loaded.entries.insert((member, row), entry);
                }
                loaded.blocks.insert((member, row), content);
            }
            loaded.sums.extend(sums.map(|sums| (member, sums)));
        }
        loaded
    }

    /// Reads rows of all members that have them.
    pub(super) async fn load_rows(&self, group: u64, rows: &BTreeSet<u64>, how: &Hints) -> Loaded {
        let wanted = self.members.having(group).map(|member| (member, rows.clone())).collect();
        self.load(group, &wanted, how).await
    }

    /// Rows as they should be; blocks that are not are repaired. The caller holds the group's lock.
    ///
    /// # Errors
    /// A row with more damaged blocks than parity, and the group stays as it is.
    pub(super) async fn heal(
        &self,
        group: u64,
        rows: &BTreeSet<u64>,
        how: &Hints,
    ) -> Result<BTreeMap<u64, Solved>, IoError> {
        let layout = &self.members.layout;
        let mut rows = rows.clone();
        let mut loaded = self.load_rows(group, &rows, how).await;
        if loaded.sums.len() < self.members.having(group).count() {
            edge("a checksum block cannot be read: it follows from the other members");
            rows.extend(0..layout.rows());
            loaded = self.load_rows(group, &rows, how).await;
        }
        let (mut solved, mut left) = (BTreeMap::new(), BTreeMap::new());
        for row in rows {
            match loaded.row(layout.members(), row).solve(layout, group) {
                Ok(found) => drop(solved.insert(row, found)),
                Err(damaged) => drop(left.insert(row, damaged)),
            }
        }
        if how.verify && !left.is_empty() {
            edge("a row with several weak blocks is read without verifying");
            let how = Hints { verify: false, ..how.clone() };
            let read = self.load_rows(group, &left.keys().copied().collect(), &how).await;
            left.retain(|row, weak| {
                let Ok(mut found) = read.row(layout.members(), *row).solve(layout, group) else {
                    return true;
                };
                weak.retain(|member| !found.damaged.contains(member));
                found.damaged.append(weak);
                solved.insert(*row, found);
                false
            });
            loaded.error = read.error.or(loaded.error);
            for (member, sums) in read.sums {
                loaded.sums.entry(member).or_insert(sums);
            }
        }
        if let Some((row, damaged)) = left.first_key_value() {
            return Err(self.unsolvable(group, *row, damaged, &loaded));
        }
        self.repair(group, &solved, loaded.sums).await;
        Ok(solved)
    }

    fn unsolvable(&self, group: u64, row: u64, damaged: &[usize], loaded: &Loaded) -> IoError {
        let block = self.members.layout.block(group, row);
        let list: Vec<String> = damaged.iter().map(usize::to_string).collect();
        let (kind, why) = match &loaded.error {
            Some(error) => (ErrorKind::Medium, format!(": {error}")),
            None => (ErrorKind::Corrupt, String::new()),
        };
        let why = format!(
            "found block {block} damaged or missing on members {}, expected it on one at most{why}",
            list.join(" and ")
        );
        IoError::new(kind, NAME, Some(sectors(block)), why)
    }

    /// Writes the damaged blocks of solved rows to members in service, with their entries.
    async fn repair(&self, group: u64, solved: &BTreeMap<u64, Solved>, mut sums: BTreeMap<usize, Sums>) {
        let (layout, missing) = (&self.members.layout, self.members.missing(group));
        let mut writes: BTreeMap<usize, Blocks> = BTreeMap::new();
        for (row, solved) in solved {
            for member in solved.damaged.iter().copied().filter(|member| Some(*member) != missing) {
                let (block, content) = (layout.block(group, *row), &solved.blocks[member]);
                let entry = encoded(&solved.entries[member], self.members.place(member, block), content);
                sums.entry(member).or_insert_with(Sums::blank).set(*row, entry);
                writes.entry(member).or_default().insert(block, content.clone());
            }
        }
        let how = Hints { fua: !mutant::is("raid4: a repair without FUA"), ..Hints::default() };
        for (member, mut blocks) in writes {
            edge("a damaged block is repaired");
            self.repaired.set(self.repaired.get() + blocks.len() as u64);
            blocks.insert(layout.sums(group), sums[&member].block());
            if let Err(error) = self.members.write(member, &blocks, &how).await {
                edge("a repair fails: its member is out of service");
                // If it cannot be, writes will say so; the row was read nevertheless.
                let _ = self.members.fail(member, &error).await;
            }
        }
    }
}
