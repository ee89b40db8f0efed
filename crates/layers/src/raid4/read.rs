//! Reads: blocks with their checksums; those that do not match, or are missing, follow from the rest of their rows.
//!
//! An ordinary read takes no lock of its group: a checksum block that is being written has the same entries of blocks
//! that are not, before and after. What does not match is read again under the lock.

use std::collections::{BTreeMap, BTreeSet};

use seekless_core::runtime::edge;
use seekless_core::{Buffer, Extent, Hints, IoError, PAGE_SECTORS};

use super::Raid;
use super::blocks::Blocks;
use super::geometry::At;
use super::load::Wanted;
use super::sums::{Entry, Sums};

use crate::join::join_all;

/// A block of a request: its place, the sectors of it, and their buffer.
struct Part {
    at: At,
    first: u64,
    into: Buffer,
    /// The whole block, into which it is read.
    block: Buffer,
}

impl Raid {
    /// Reads `at`; the caller holds its lock.
    pub(super) async fn read_parts(&self, at: Extent, into: &Buffer, how: &Hints) -> Result<(), IoError> {
        let layout = &self.members.layout;
        let parts: Vec<Part> = into
            .split(at, PAGE_SECTORS)
            .map(|(part, into)| {
                let whole = part.sectors == PAGE_SECTORS;
                let block = if whole { into.clone() } else { self.block() };
                let first = part.start.0 % PAGE_SECTORS;
                Part { at: layout.locate(part.start.page()), first, into, block }
            })
            .collect();
        let groups: BTreeSet<u64> = parts.iter().map(|part| part.at.group).collect();
        for group in groups {
            self.settle(group, how).await?;
        }
        let again = self.read_from_members(&parts, how).await;
        let mut by_group: BTreeMap<u64, Vec<&Part>> = BTreeMap::new();
        for part in again {
            by_group.entry(part.at.group).or_default().push(part);
        }
        for (group, parts) in by_group {
            let rows = parts.iter().map(|part| part.at.row).collect();
            let solved = {
                let _turn = self.groups.exclusive(Extent::new(group, 1), how).await;
                self.heal(group, &rows, &Hints { fua: false, ..how.clone() }).await?
            };
            for part in parts {
                let block = &solved[&part.at.row].blocks[layout.member(group, part.at.column)];
                part.block.put(0, &block.to_vec());
            }
        }
        for part in parts.iter().filter(|part| part.into.len() < part.block.len()) {
            let sectors = part.into.len() as u64 / seekless_core::SECTOR_BYTES;
            part.into.put(0, &part.block.cut_sectors(part.first, sectors).to_vec());
        }
        Ok(())
    }

    /// Reads the parts that their members have; returns those that do not match, or are on no member in service.
    async fn read_from_members<'a>(&self, parts: &'a [Part], how: &Hints) -> Vec<&'a Part> {
        let layout = &self.members.layout;
        let mut by_member: BTreeMap<usize, (Blocks, Vec<&Part>)> = BTreeMap::new();
        let mut again = Vec::new();
        for part in parts {
            let member = layout.member(part.at.group, part.at.column);
            if self.members.missing(part.at.group) == Some(member) {
                edge("a block of a missing member follows from the others");
                again.push(part);
                continue;
            }
            let (blocks, parts) = by_member.entry(member).or_default();
            blocks.insert(layout.block(part.at.group, part.at.row), part.block.clone());
            blocks.entry(layout.sums(part.at.group)).or_insert_with(|| self.block());
            parts.push(part);
        }
        let reads = by_member.iter().map(async |(member, (blocks, parts))| {
            let failed = self.members.read(*member, blocks, how).await;
            let sums: BTreeMap<u64, Sums> = blocks
                .iter()
                .filter(|(block, _)| {
                    layout.is_sums(**block) && !failed.contains_key(block) && !self.timing_only
                })
                .map(|(block, content)| (*block, Sums::of(content)))
                .collect();
            let matches = |part: &Part| {
                let block = layout.block(part.at.group, part.at.row);
                let sums = sums.get(&layout.sums(part.at.group));
                let place = self.members.place(*member, block);
                let entry = sums.and_then(|sums| Entry::decode(sums.entry(part.at.row), place, &part.block));
                !failed.contains_key(&block) && (self.timing_only || entry.is_some())
            };
            parts.iter().copied().filter(|part| !matches(part)).collect::<Vec<&Part>>()
        });
        again.extend(join_all(reads).await.into_iter().flatten());
        again
    }

    /// Compares blocks of clients with their checksums and their parity's, on the medium, and repairs those that do not
    /// match. What cannot be repaired fails when it is read.
    pub(super) async fn verify(&self, at: Extent, how: &Hints) {
        let layout = &self.members.layout;
        let mut groups: BTreeMap<u64, Wanted> = BTreeMap::new();
        for page in at.pages() {
            let at = layout.locate(page);
            let wanted = groups.entry(at.group).or_default();
            for member in [layout.member(at.group, at.column), layout.parity(at.group)] {
                wanted.entry(member).or_default().insert(at.row);
            }
        }
        for (group, mut wanted) in groups {
            if self.settle(group, how).await.is_err() {
                continue;
            }
            if let Some(missing) = self.members.missing(group) {
                wanted.remove(&missing);
            }
            let damaged = self.load(group, &wanted, how).await.damaged(self, group, &wanted);
            if !damaged.is_empty() {
                edge("a verifying read finds a damaged block");
                let _turn = self.groups.exclusive(Extent::new(group, 1), how).await;
                // It fails where an ordinary read does, too.
                let _ = self.heal(group, &damaged, how).await;
            }
        }
    }
}
