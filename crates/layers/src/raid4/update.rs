//! Writes: blocks of a group that are written together, their parity, and their checksums (section 4.4).
//!
//! Writes to one group take turns, since they share checksum blocks; those that come meanwhile, or in one instant, go
//! together, and each checksum block is read and written once. Parity follows by *subtraction* of the old contents of
//! the written blocks, or by *addition* of the others, whichever reads from fewer disks; if a member is missing,
//! whichever is possible.
//!
//! Invariants: with a log, blocks are durable there before any of them is written in place. A row is written with
//! its parity, whose entry names the generations of all its data.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, ErrorKind, Extent, Hints, IoError, Ticket, mutant};

use super::Raid;
use super::blocks::Blocks;
use super::done::Done;
use super::geometry::{At, sectors};
use super::journal::Item;
use super::load::{Loaded, Wanted, encoded};
use super::options::NAME;
use super::rows;
use super::sums::{Entry, MOST_DATA, Sums};

use crate::join::join_all;

/// Readings of a group, each after a repair or the failure of a member, after which a write fails.
const ATTEMPTS: u32 = 4;

/// A part of a write that lies in one block.
pub struct Piece {
    /// The block.
    pub at: At,
    /// First sector in it.
    pub first: u64,
    /// Bytes.
    pub data: Buffer,
}

/// Writes to a group that wait for their turn.
pub struct Waiting {
    pieces: Vec<Piece>,
    how: Hints,
    done: Rc<Done>,
}

/// How the parity of a row is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// From the old parity and the old contents of what is written.
    Subtraction,
    /// From the new contents of the written columns, and the contents of the others.
    Addition,
    /// There is no parity to write: it is missing.
    Nothing,
}

/// The written columns of a row.
type Written<'a> = BTreeMap<usize, &'a Piece>;

/// Blocks to write, by member and row, with their entries.
type New = BTreeMap<(usize, u64), (Buffer, Entry)>;

fn is_whole(piece: &Piece) -> bool {
    piece.data.len() as u64 == seekless_core::PAGE_BYTES
}

impl Raid {
    /// Writes pieces of one group, with others that wait for it.
    pub(super) async fn write_group(
        &self,
        group: u64,
        pieces: Vec<Piece>,
        how: &Hints,
    ) -> Result<(), IoError> {
        let pieces = match self.join_waiting(group, pieces, how) {
            Ok(done) => return done.wait().await,
            Err(pieces) => pieces,
        };
        let ticket = (how.class > Class::Foreground).then(Ticket::new);
        let how = Hints { ticket, verify: false, ..how.clone() };
        let done = Rc::new(Done::default());
        let waiting = Waiting { pieces, how: how.clone(), done: done.clone() };
        self.waiting.borrow_mut().insert(group, waiting);
        let _turn = self.groups.exclusive(Extent::new(group, 1), &how).await;
        runtime::quiet().await;
        let Some(waiting) = self.waiting.borrow_mut().remove(&group) else {
            return Err(IoError::new(ErrorKind::Invalid, NAME, None, "a write lost its turn"));
        };
        let written = self.update(group, &waiting.pieces, &waiting.how).await;
        done.set(written.clone());
        written
    }

    /// Adds pieces to the writes that wait for their group; gives them back if none do.
    fn join_waiting(&self, group: u64, pieces: Vec<Piece>, how: &Hints) -> Result<Rc<Done>, Vec<Piece>> {
        let mut waiting = self.waiting.borrow_mut();
        let Some(waiting) = waiting.get_mut(&group) else { return Err(pieces) };
        edge("writes of an instant to one group go together");
        waiting.how.fua |= how.fua && !mutant::is("raid4: FUA of a write that joins others is dropped");
        waiting.how.class = waiting.how.class.min(how.class);
        waiting.how.ticket.iter().for_each(|ticket| ticket.promote(how.class));
        waiting.pieces.extend(pieces);
        Ok(waiting.done.clone())
    }

    /// Writes pieces of one group. The caller holds the group's lock.
    async fn update(&self, group: u64, pieces: &[Piece], how: &Hints) -> Result<(), IoError> {
        let _writing = self.writing.enter();
        self.members.begin().await?;
        self.settle_held(group, how).await?;
        let mut rows: BTreeMap<u64, Written> = BTreeMap::new();
        for piece in pieces {
            rows.entry(piece.at.row).or_default().insert(piece.at.column, piece);
        }
        let read = Hints { fua: false, ..how.clone() };
        for _ in 0..ATTEMPTS {
            let missing = self.members.missing(group);
            let methods: BTreeMap<u64, Method> =
                rows.iter().map(|(row, written)| (*row, self.method(group, written, missing))).collect();
            let wanted = self.wanted(group, &rows, &methods, missing);
            let loaded = self.load(group, &wanted, &read).await;
            let damaged = loaded.damaged(self, group, &wanted);
            if !damaged.is_empty() {
                edge("a write finds a damaged block");
                self.heal(group, &damaged, &read).await?;
                continue;
            }
            let again = !mutant::is("raid4: members are not looked at again after a wait");
            if self.members.missing(group) != missing && again {
                edge("a member fails while a row is read");
                continue;
            }
            let generation = self.members.next_generation();
            let new = self.compute(group, &rows, &methods, &loaded, generation);
            return self.store(group, new, loaded.sums, how).await;
        }
        let why = "found a row that stays damaged, expected its repair to be read";
        Err(IoError::new(ErrorKind::Medium, NAME, Some(sectors(self.members.layout.sums(group))), why))
    }

    /// How the parity of a row follows.
    fn method(&self, group: u64, written: &Written, missing: Option<usize>) -> Method {
        let layout = &self.members.layout;
        let method = match missing.map(|missing| layout.column(group, missing)) {
            Some(None) => return Method::Nothing,
            Some(Some(column)) if written.contains_key(&column) => Method::Addition,
            Some(Some(_)) => Method::Subtraction,
            None => {
                let parts = written.values().filter(|piece| !is_whole(piece)).count();
                let (subtraction, addition) = (written.len() + 1, layout.data - written.len() + parts);
                if subtraction <= addition { Method::Subtraction } else { Method::Addition }
            }
        };
        match method {
            Method::Subtraction => edge("a row is updated by subtraction"),
            _ => edge("a row is updated by addition"),
        }
        method
    }

    /// What has to be read: blocks, and the checksum blocks that are not overwritten as a whole.
    fn wanted(
        &self,
        group: u64,
        rows: &BTreeMap<u64, Written>,
        methods: &BTreeMap<u64, Method>,
        missing: Option<usize>,
    ) -> Wanted {
        let layout = &self.members.layout;
        let parity = layout.parity(group);
        let mut wanted: Wanted = BTreeMap::new();
        let mut written_rows: BTreeMap<usize, u64> = BTreeMap::new();
        for (&row, written) in rows {
            let method = methods[&row];
            // Part of a missing block: its old contents follow from all others.
            let lost = written
                .iter()
                .any(|(column, piece)| missing == Some(layout.member(group, *column)) && !is_whole(piece));
            for column in 0..layout.data {
                let member = layout.member(group, column);
                let piece = written.get(&column);
                if piece.is_some() {
                    *written_rows.entry(member).or_default() += 1;
                }
                let part = piece.is_some_and(|piece| !is_whole(piece));
                let needed = match method {
                    Method::Subtraction => piece.is_some(),
                    Method::Addition => piece.is_none(),
                    Method::Nothing => false,
                };
                if (needed || part || lost) && Some(member) != missing {
                    wanted.entry(member).or_default().insert(row);
                }
            }
            if method != Method::Nothing {
                *written_rows.entry(parity).or_default() += 1;
                if method == Method::Subtraction || lost {
                    wanted.entry(parity).or_default().insert(row);
                }
            }
        }
        for (member, count) in written_rows {
            if count < layout.rows() && Some(member) != missing {
                wanted.entry(member).or_default();
            }
        }
        wanted
    }

    /// The new blocks, with the parity of their rows.
    fn compute(
        &self,
        group: u64,
        rows: &BTreeMap<u64, Written>,
        methods: &BTreeMap<u64, Method>,
        loaded: &Loaded,
        generation: u64,
    ) -> New {
        let layout = &self.members.layout;
        let parity = layout.parity(group);
        let mut new = New::new();
        for (&row, written) in rows {
            let old = |member: usize| loaded.blocks.get(&(member, row));
            let entry_of = |member: usize| loaded.entries.get(&(member, row)).copied();
            let mut contents: BTreeMap<usize, Buffer> = BTreeMap::new();
            for (&column, piece) in written {
                let member = layout.member(group, column);
                let content = if self.timing_only || is_whole(piece) {
                    piece.data.clone()
                } else {
                    let others = (0..layout.members()).filter(|other| *other != member);
                    let before = old(member).cloned();
                    before
                        .unwrap_or_else(|| rows::sum(others.filter_map(old)))
                        .with_sectors(piece.first, piece.data.clone())
                };
                contents.insert(column, content);
            }
            let mut covers = entry_of(parity).map_or([0; MOST_DATA], |entry| entry.covers);
            for (column, covered) in covers.iter_mut().enumerate().take(layout.data) {
                let unchanged = || entry_of(layout.member(group, column)).map(|entry| entry.low());
                let changed = contents.contains_key(&column).then_some(generation as u32);
                *covered = changed.or_else(unchanged).unwrap_or(*covered);
            }
            if methods[&row] != Method::Nothing {
                let block = self.new_parity(group, row, methods[&row], &contents, loaded);
                new.insert((parity, row), (block, Entry { generation, covers }));
            }
            for (column, content) in contents {
                let entry = Entry { generation, ..Entry::default() };
                new.insert((layout.member(group, column), row), (content, entry));
            }
        }
        new
    }

    fn new_parity(
        &self,
        group: u64,
        row: u64,
        method: Method,
        contents: &BTreeMap<usize, Buffer>,
        loaded: &Loaded,
    ) -> Buffer {
        if self.timing_only {
            return self.block();
        }
        let layout = &self.members.layout;
        let old = |member: usize| loaded.blocks.get(&(member, row));
        // A known bug: the last of several columns does not get into the parity.
        let skipped = contents.len() - usize::from(contents.len() > 1 && self.canary.is("hole in parity"));
        let changed = contents.iter().take(skipped);
        let old: Vec<&Buffer> = if method == Method::Subtraction {
            let columns = changed.clone().map(|(column, _)| layout.member(group, *column));
            columns.chain([layout.parity(group)]).filter_map(old).collect()
        } else {
            let unchanged = (0..layout.data).filter(|column| !contents.contains_key(column));
            unchanged.filter_map(|column| old(layout.member(group, column))).collect()
        };
        rows::sum(changed.map(|(_, content)| content).chain(old))
    }

    /// Writes new blocks and their checksum blocks, to the log first.
    async fn store(
        &self,
        group: u64,
        new: New,
        mut sums: BTreeMap<usize, Sums>,
        how: &Hints,
    ) -> Result<(), IoError> {
        let layout = &self.members.layout;
        let mut items = Vec::new();
        let mut writes: BTreeMap<usize, Blocks> = BTreeMap::new();
        for ((member, row), (content, entry)) in new {
            let block = layout.block(group, row);
            if !self.timing_only {
                let entry = encoded(&entry, self.members.place(member, block), &content);
                let stale = self.canary.is("stale checksum")
                    && row == 0
                    && Some(member) != Some(layout.parity(group));
                if !stale {
                    sums.entry(member).or_insert_with(Sums::blank).set(row, entry);
                }
                items.push(Item { member, block, entry, content: content.clone() });
            }
            writes.entry(member).or_default().insert(block, content);
        }
        for (member, blocks) in &mut writes {
            let sums =
                sums.get(member).filter(|_| !self.timing_only).map_or_else(|| self.block(), Sums::block);
            blocks.insert(layout.sums(group), sums);
        }
        let fua = how.fua && self.journal.is_none() && !mutant::is("raid4: FUA is dropped");
        let how = Hints { fua, ..how.clone() };
        let logged = match &self.journal {
            Some(journal) => Some(journal.append(&self.members, items, &how).await?),
            None => None,
        };
        let logged =
            if mutant::is("raid4: records are not held until they are in place") { None } else { logged };
        let missing = self.members.missing(group);
        let writes = writes.iter().filter(|(member, _)| Some(**member) != missing);
        let written =
            writes.map(async |(member, blocks)| (*member, self.members.write(*member, blocks, &how).await));
        for (member, written) in join_all(written).await {
            if let Err(error) = written {
                edge("a write fails: its member is out of service");
                let refused = self.members.fail(member, &error).await;
                // With a log it is repeated at the next start; without a member nothing else follows from the row.
                if refused.is_err() && self.journal.is_none() && missing.is_none() {
                    self.unsettled.fail(group);
                }
                refused?;
            }
        }
        // Another write may have put out of service what this one could not write to.
        self.members.record_failures().await?;
        drop(logged);
        Ok(())
    }

    /// The groups of a write, with its pieces in each.
    pub(super) fn pieces(&self, at: Extent, from: &Buffer) -> BTreeMap<u64, Vec<Piece>> {
        let mut groups: BTreeMap<u64, Vec<Piece>> = BTreeMap::new();
        for (part, data) in from.split(at, seekless_core::PAGE_SECTORS) {
            let at = self.members.layout.locate(part.start.page());
            let first = part.start.0 % seekless_core::PAGE_SECTORS;
            groups.entry(at.group).or_default().push(Piece { at, first, data });
        }
        groups
    }
}

/// Rows of a group, all of them.
pub fn all_rows(raid: &Raid) -> BTreeSet<u64> {
    (0..raid.members.layout.rows()).collect()
}
