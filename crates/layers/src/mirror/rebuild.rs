//! Rebuild: a member out of service gets what it lacks, region by region, while clients continue.
//!
//! From its beginning on, all that is written goes to that member too; reads do not, until it has everything. What it
//! lacks are the regions of which the labels say that copies may differ: all, if the device is another one. A region
//! that it has is clean again like any other once nothing writes to it, so a rebuild goes on after a restart where it
//! was. Requests of it take only time that costs clients nothing, for a while; then they are background work.
//!
//! Fault model: a member that fails again stays out of service, and lacks what the labels say.

use std::rc::Rc;

use seekless_core::lock::Guard;
use seekless_core::runtime::{self, edge};
use seekless_core::{Extent, Hints, IoError, PAGE_SECTORS, mutant};

use super::Mirror;
use crate::arrays;

/// Pages that are copied at once: 1 MiB.
const AT_ONCE: u64 = 256;

impl Mirror {
    /// Rebuilds all members out of service, one after the other.
    pub(super) async fn rebuild(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.rebuilding.exclusive(Extent::new(0, 1), how).await;
        while let Some(member) = self.members.first_out() {
            let rebuilt = self.rebuild_one(member, how).await;
            self.members.end_target(member);
            rebuilt?;
        }
        Ok(())
    }

    async fn rebuild_one(&self, member: usize, how: &Hints) -> Result<(), IoError> {
        self.begin_rebuild(member).await?;
        while self.rebuild_region(member, how).await? {}
        self.end_rebuild(member).await
    }

    async fn begin_rebuild(&self, member: usize) -> Result<(), IoError> {
        edge("a member is rebuilt");
        self.members.begin_rebuild(member).await
    }

    async fn end_rebuild(&self, member: usize) -> Result<(), IoError> {
        if !mutant::is("mirror: a rebuilt member is not flushed") {
            self.members.flush(&Hints::default()).await?;
        }
        self.members.end_rebuild(member).await?;
        self.clean_later();
        edge("a member is in service again");
        Ok(())
    }

    /// Copies the next region that a member lacks; false if it lacks none.
    async fn rebuild_region(&self, member: usize, how: &Hints) -> Result<bool, IoError> {
        let Some(region) = self.members.next_region(member)? else { return Ok(false) };
        for at in region.split(AT_ONCE * PAGE_SECTORS) {
            let (how, _waits) = arrays::patient(how);
            let held = self.settled(at, &how).await?;
            let _held =
                if mutant::is("mirror: a rebuild does not hold what it copies") { None } else { Some(held) };
            let content = self.read_any(at, &how).await?;
            self.members.next_region(member)?;
            if let Err(error) = self.write_member(member, at, content, &how).await {
                self.members.fail(member, &error);
                return Err(error);
            }
        }
        // It may have failed meanwhile.
        self.members.next_region(member)?;
        self.members.has_copied(region);
        Ok(true)
    }

    /// Locks whole pages against writes, once their copies are the same and stay so.
    async fn settled(&self, at: Extent, how: &Hints) -> Result<Guard, IoError> {
        loop {
            let held = self.locks.shared(at, how).await;
            if !self.is_unsettled(at) {
                return Ok(held);
            }
            drop(held);
            let _held = self.locks.exclusive(at, how).await;
            self.settle_held(at, true, how).await?;
        }
    }

    /// Rebuilds members in the background of which is known what they lack: those that were gone for a while.
    pub(super) fn catch_up_in_background(self: &Rc<Self>) {
        let known: Vec<usize> = (0..self.members.count())
            .filter(|member| self.members.is_out(*member) && self.members.is_known(*member))
            .collect();
        if known.is_empty() {
            return;
        }
        let me = Rc::downgrade(self);
        let locks = self.rebuilding.clone();
        let work = async move {
            let how = Hints::default();
            let _turn = locks.exclusive(Extent::new(0, 1), &how).await;
            for member in known {
                let Some(mirror) = me.upgrade().filter(|mirror| mirror.members.is_out(member)) else {
                    continue;
                };
                edge("a member that was gone catches up");
                // One that fails again stays out of service.
                if mirror.begin_rebuild(member).await.is_err() {
                    continue;
                }
                drop(mirror);
                loop {
                    let Some(mirror) = me.upgrade() else { return };
                    match mirror.rebuild_region(member, &how).await {
                        Ok(true) => {}
                        Ok(false) => {
                            let _ = mirror.end_rebuild(member).await;
                            break;
                        }
                        Err(_) => break,
                    }
                }
                me.upgrade().iter().for_each(|mirror| mirror.members.end_target(member));
            }
        };
        runtime::spawn(work).detach();
    }
}
