//! Rebuild: a member that was replaced gets what follows from the others, group by group, while clients continue.
//!
//! A group is in service on the member from the moment that it was written: under the group's lock, so that no write
//! comes between. How far it got is recorded now and then, and it goes on there after a restart. Requests of it take
//! only time that costs clients nothing, for a while; then they are background work. What it writes is in no record of
//! the journal, so none from before is replayed over it. Fault model: a member that fails again is
//! out of service, with all of its groups.

use seekless_core::runtime::edge;
use seekless_core::{ErrorKind, Extent, Hints, IoError, mutant};

use super::Raid;
use super::blocks::Blocks;
use super::load::encoded;
use super::options::NAME;
use super::sums::Sums;
use super::update::all_rows;
use crate::arrays;

/// Groups between two notes of how far it got.
const NOTED: u64 = 256;

impl Raid {
    /// Rebuilds the member out of service; nothing to do if there is none.
    pub(super) async fn rebuild(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.rebuilding.exclusive(Extent::new(0, 1), how).await;
        let Some(member) = self.members.out() else { return Ok(()) };
        edge("a member is rebuilt");
        self.members.begin().await?;
        let renews = !mutant::is("raid4: a rebuild leaves the journal as it is");
        if let Some(journal) = self.journal.as_ref().filter(|_| renews) {
            journal.renew(&self.members, how).await?;
        }
        self.members.begin_rebuild().await?;
        let groups = self.members.layout.groups();
        for group in self.members.rebuilt()..groups {
            self.rebuild_group(member, group, how).await?;
            if (group + 1) % NOTED == 0 {
                self.members.device(member).flush(Hints::default()).await?;
                self.members.record_rebuild(false).await?;
            }
        }
        self.members.flush(&Hints::default()).await?;
        self.members.record_rebuild(true).await?;
        edge("a member is in service again");
        Ok(())
    }

    pub(super) async fn rebuild_group(&self, member: usize, group: u64, how: &Hints) -> Result<(), IoError> {
        let (how, _waits) = arrays::patient(how);
        let turn = self.groups.exclusive(Extent::new(group, 1), &how).await;
        self.settle_held(group, &how).await?;
        let solved = self.heal(group, &all_rows(self), &how).await?;
        let layout = &self.members.layout;
        let (mut sums, mut blocks) = (Sums::blank(), Blocks::new());
        for (row, solved) in solved {
            let block = layout.block(group, row);
            let content = solved.blocks[member].clone();
            if !self.timing_only {
                sums.set(row, encoded(&solved.entries[member], self.members.place(member, block), &content));
            }
            blocks.insert(block, content);
        }
        blocks.insert(layout.sums(group), sums.block());
        let failed = || IoError::new(ErrorKind::Medium, NAME, None, "the member being rebuilt failed");
        if !self.members.rebuilds() {
            return Err(failed());
        }
        if let Err(error) = self.members.write(member, &blocks, &how).await {
            edge("the member being rebuilt fails");
            self.members.fail(member, &error).await?;
            return Err(error);
        }
        if !self.members.rebuilds() {
            return Err(failed());
        }
        self.members.has_rebuilt(group + 1);
        drop(turn);
        Ok(())
    }
}
