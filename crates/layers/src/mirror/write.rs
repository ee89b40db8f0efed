//! Writes, zeroes and discards, on all members that are written.
//!
//! Invariant: all members in service have each write that was answered; one that lacks it was recorded before as being
//! out of service.

use std::rc::Rc;

use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, IoFuture, PAGE_SECTORS, Zeroes, mutant,
};

use super::Mirror;
use super::members::Members;

use crate::join::join_all;

/// What each member made of a request.
pub type Results = Vec<(usize, Result<(), IoError>)>;

impl Mirror {
    /// Changes sectors on all members, with their lock. The work gets the members, and the place on them.
    async fn change(
        &self,
        at: Extent,
        how: &Hints,
        work: impl AsyncFnOnce(Vec<usize>, Extent) -> Results,
    ) -> Result<(), IoError> {
        let _held = self.locks.exclusive(at.whole_pages(), how).await;
        let _active = self.members.begin(at).await?;
        for part in at.split(PAGE_SECTORS).filter(|part| part.sectors < PAGE_SECTORS) {
            if self.is_unsettled(part) {
                self.settle_held(part.whole_pages(), false, how).await?;
            }
        }
        let results = work(self.members.written(), Members::place(at)).await;
        let changed =
            |result: &Result<(), IoError>| result.as_ref().map_or_else(IoError::may_take_effect, |()| true);
        let has_changed = results.iter().any(|(_, result)| changed(result));
        if let Err(error) = self.judge(&results) {
            if has_changed && !mutant::is("mirror: a write that failed on all members is forgotten") {
                self.failed.add(at.pages());
            }
            return Err(error);
        }
        let whole = at.start.0.div_ceil(PAGE_SECTORS)..at.end().0 / PAGE_SECTORS;
        if !whole.is_empty() {
            self.unsettled.remove(whole);
        }
        self.failed.written(at);
        self.members.confirm().await?;
        self.clean_later();
        Ok(())
    }

    /// What members made of the same change: those that failed are put out of service, if another one in service did
    /// not.
    ///
    /// # Errors
    /// None in service carried it out, or it was aborted: then the copies may differ.
    pub(super) fn judge(&self, results: &Results) -> Result<(), IoError> {
        let serves = |member: usize| !self.members.is_out(member);
        let is_done = results.iter().any(|(member, result)| serves(*member) && result.is_ok());
        let failed = || results.iter().filter_map(|(member, result)| Some((*member, result.as_ref().err()?)));
        let aborted = failed().find(|(_, error)| error.kind() == ErrorKind::Aborted);
        if let Some((_, error)) = aborted {
            return Err(error.clone());
        }
        for (member, error) in failed().filter(|(member, _)| is_done || !serves(*member)) {
            self.members.fail(member, error);
        }
        if is_done {
            Ok(())
        } else {
            Err(failed().next().map_or_else(super::none_left, |(_, error)| error.clone()))
        }
    }

    /// See [`BlockDevice::write`].
    pub(super) async fn write_all(&self, at: Extent, from: Buffer, how: &Hints) -> Result<(), IoError> {
        let how = Hints { fua: how.fua && !mutant::is("mirror: FUA is dropped"), ..how.clone() };
        let work = async |members: Vec<usize>, _| {
            let written = members
                .into_iter()
                .map(async |member| (member, self.write_member(member, at, from.clone(), &how).await));
            join_all(written).await
        };
        self.change(at, &how, work).await
    }

    /// See [`BlockDevice::write_zeroes`]. Where only fast ones are wanted, the first member says whether they are.
    pub(super) async fn zero_all(&self, at: Extent, how: &Hints, zeroes: Zeroes) -> Result<(), IoError> {
        let work = async |members: Vec<usize>, place| {
            let zero = async |member, zeroes| {
                self.writes.set(self.writes.get() + 1);
                (member, self.members.device(member).write_zeroes(place, how.clone(), zeroes).await)
            };
            let (first, others) =
                members.split_first().map_or((None, &[][..]), |(first, others)| (Some(*first), others));
            let mut results = Results::new();
            if let Some(first) = first {
                results.push(zero(first, zeroes).await);
            }
            let is_slow = |(_, result): &(usize, Result<(), IoError>)| {
                result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unsupported)
            };
            if results.iter().any(is_slow) {
                return results;
            }
            let zeroes = Zeroes { only_if_fast: false, ..zeroes };
            results.extend(join_all(others.iter().map(|member| zero(*member, zeroes))).await);
            results
        };
        self.change(at, how, work).await
    }

    /// Frees sectors if they read as zeroes on all members afterwards; otherwise they stay as they are.
    pub(super) async fn free_all(&self, at: Extent, how: &Hints) -> Result<(), IoError> {
        let zeroes = Zeroes { may_unmap: true, only_if_fast: true };
        match self.zero_all(at, how, zeroes).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            freed => freed,
        }
    }

    /// Writes sectors of a member.
    pub(super) fn write_member(
        &self,
        member: usize,
        at: Extent,
        from: Buffer,
        how: &Hints,
    ) -> IoFuture<'static, ()> {
        self.writes.set(self.writes.get() + 1);
        let (device, how): (Rc<dyn BlockDevice>, Hints) = (self.members.device(member), how.clone());
        Box::pin(async move { device.write(Members::place(at), from, how).await })
    }
}
