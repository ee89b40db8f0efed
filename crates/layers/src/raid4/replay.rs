//! Replay: after a crash, what the journal has is written in place, and made durable there.
//!
//! It ends before the first client is served, and is done again from the beginning if it is cut short: nothing in place
//! is read but checksum blocks, of which only the entries of what is replayed change.

use std::collections::{BTreeMap, BTreeSet};

use seekless_core::runtime::edge;
use seekless_core::{Hints, IoError};

use super::Raid;
use super::blocks::Blocks;
use super::journal::Item;
use super::load::Wanted;
use super::sums::Sums;
use super::superblock::State;

impl Raid {
    /// Writes what the journal has.
    pub(super) async fn replay(&self) -> Result<(), IoError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let layout = &self.members.layout;
        let mut groups: BTreeMap<u64, BTreeMap<(usize, u64), Item>> = BTreeMap::new();
        for item in journal.recover(self.members.superblock().state == State::Clean).await? {
            // A checksum of another geometry does not get here: the record is of this array.
            let Some((group, row)) = layout.row_at(item.block) else { continue };
            if item.member < layout.members() {
                groups.entry(group).or_default().insert((item.member, row), item);
            }
        }
        if groups.is_empty() {
            return Ok(());
        }
        edge("the journal is replayed");
        let mut unreadable = BTreeSet::new();
        for (group, items) in &groups {
            if !self.replay_group(*group, items).await? {
                unreadable.insert(*group);
            }
        }
        self.members.flush(&Hints::default()).await?;
        for group in unreadable {
            edge("a checksum block cannot be read in a replay: it follows from the other members");
            self.heal(group, &(0..layout.rows()).collect(), &Hints::default()).await?;
        }
        Ok(())
    }

    /// Writes the blocks of a group; whether all of its checksum blocks could be read.
    async fn replay_group(&self, group: u64, items: &BTreeMap<(usize, u64), Item>) -> Result<bool, IoError> {
        let (layout, missing) = (&self.members.layout, self.members.missing(group));
        let members: BTreeSet<usize> = items.keys().map(|(member, _)| *member).collect();
        let wanted: Wanted = members
            .into_iter()
            .filter(|member| Some(*member) != missing)
            .map(|member| (member, BTreeSet::new()))
            .collect();
        let mut sums = self.load(group, &wanted, &Hints::default()).await.sums;
        let all = sums.len() == wanted.len();
        for member in wanted.into_keys() {
            let sums = sums.entry(member).or_insert_with(Sums::blank);
            let mut blocks = Blocks::new();
            for ((_, row), item) in items.range((member, 0)..(member + 1, 0)) {
                sums.set(*row, item.entry);
                blocks.insert(item.block, item.content.clone());
            }
            blocks.insert(layout.sums(group), sums.block());
            if let Err(error) = self.members.write(member, &blocks, &Hints::default()).await {
                self.members.fail(member, &error).await?;
            }
        }
        Ok(all)
    }
}
