//! Copies that may differ are made the same before any of them is read: after a crash those of the regions that were
//! being written, and those of pages of which a write failed on all members, which may still carry it out, each its
//! part.
//!
//! Invariant: the choice is durable on all members in service before any of it is read. Otherwise the next crash could
//! keep a part of it, and the next choice be another one, after clients had read that.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, Extent, Hints, IoError, PAGE_BYTES, PAGE_SECTORS, mutant};

use super::Mirror;

use crate::join::join_all;

/// Pages that are compared or copied at once: 1 MiB.
const AT_ONCE: u64 = 256;

/// Ranges of pages of which copies may differ.
#[derive(Debug, Default)]
pub struct Unsettled(RefCell<BTreeMap<u64, u64>>);

impl Unsettled {
    /// Adds a range that overlaps none of those that are there.
    pub fn add(&self, pages: Range<u64>) {
        self.0.borrow_mut().insert(pages.start, pages.end);
    }

    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.0.borrow().iter().map(|(start, end)| end - start).sum()
    }

    /// Parts of this range that are there.
    pub fn within(&self, pages: Range<u64>) -> Vec<Range<u64>> {
        let ranges = self.0.borrow();
        let before = ranges.range(..pages.start).next_back();
        let from = before.filter(|(_, end)| **end > pages.start).map_or(pages.start, |(start, _)| *start);
        let within = ranges.range(from..pages.end);
        within.map(|(start, end)| *start.max(&pages.start)..*end.min(&pages.end)).collect()
    }

    /// Removes a range.
    pub fn remove(&self, pages: Range<u64>) {
        for part in self.within(pages) {
            let ranges = &mut *self.0.borrow_mut();
            let Some((&start, &end)) = ranges.range(..=part.start).next_back() else { continue };
            ranges.remove(&start);
            if start < part.start {
                ranges.insert(start, part.start);
            }
            if part.end < end {
                ranges.insert(part.end, end);
            }
        }
    }
}

impl Mirror {
    /// Whether copies of these sectors may differ.
    pub(super) fn is_unsettled(&self, at: Extent) -> bool {
        !self.unsettled.within(at.pages()).is_empty() || self.failed.any_of(at)
    }

    /// Makes copies of whole pages the same. The caller holds their lock, exclusively. With `always` also if there is
    /// only one copy: it may change later, after it was copied.
    pub(super) async fn settle_held(&self, at: Extent, always: bool, how: &Hints) -> Result<(), IoError> {
        let how = Hints { fua: !mutant::is("mirror: a resync without FUA"), verify: false, ..how.clone() };
        for range in self.unsettled.within(at.pages()) {
            for part in Extent::of_pages(range.start, range.end - range.start).split(AT_ONCE * PAGE_SECTORS) {
                if self.members.are_several() {
                    edge("copies that a crash left different are made the same");
                    self.equalize(part, false, &how).await?;
                }
                self.unsettled.remove(part.pages());
            }
        }
        if self.failed.is_empty() || !always && !self.members.are_several() {
            return Ok(());
        }
        for page in at.pages().filter(|page| self.failed.contains(*page)) {
            edge("a page of which a write failed is written anew");
            self.equalize(Extent::of_pages(page, 1), true, &how).await?;
            self.failed.remove(page);
        }
        Ok(())
    }

    /// Writes what the first member has of whole pages to all those that have something else, or to `all`.
    async fn equalize(&self, at: Extent, all: bool, how: &Hints) -> Result<(), IoError> {
        let _active = self.members.begin(at).await?;
        let chosen = self.read_any(at, how).await?;
        let bytes = chosen.to_vec();
        let members = if all { self.members.written() } else { self.members.serving() };
        let written = members.into_iter().map(async |member| {
            let mut parts = vec![at];
            if !all {
                parts = self.differing(member, at, &bytes, how).await;
            }
            for part in parts {
                edge("a copy differs: it is written anew");
                let from = chosen.cut_sectors(part.start.0 - at.start.0, part.sectors);
                if let Err(error) = self.write_member(member, part, from, how).await {
                    return (member, Err(error));
                }
            }
            (member, Ok(()))
        });
        let written = join_all(written).await;
        self.judge(&written)?;
        self.members.confirm().await
    }

    /// The pages of a member that cannot be read, or are not these.
    async fn differing(&self, member: usize, at: Extent, bytes: &[u8], how: &Hints) -> Vec<Extent> {
        let read = self.read_member(member, at, self.buffer(at), how).await;
        let Ok(read) = read else { return vec![at] };
        if self.timing_only {
            return Vec::new();
        }
        let read = read.to_vec();
        let size = PAGE_BYTES as usize;
        let same = |page: &Extent| {
            let first = ((page.start.0 - at.start.0) * seekless_core::SECTOR_BYTES) as usize;
            read[first..first + size] == bytes[first..first + size]
        };
        at.split(PAGE_SECTORS).filter(|page| !same(page)).collect()
    }

    /// Pages as the first member in service has them, of those with the newest label; each page from the first one that
    /// can read it.
    pub(super) async fn read_any(&self, at: Extent, how: &Hints) -> Result<Buffer, IoError> {
        let Some(first) = self.members.newest_first().first().copied() else { return Ok(self.buffer(at)) };
        if let Ok(read) = self.read_member(first, at, self.buffer(at), how).await {
            return Ok(read);
        }
        let mut pages = Vec::new();
        for page in at.split(PAGE_SECTORS) {
            pages.push(self.read_first(page, how).await?);
        }
        Ok(Buffer::join(pages))
    }

    /// Sectors from the first member in service that can read them.
    pub(super) async fn read_first(&self, at: Extent, how: &Hints) -> Result<Buffer, IoError> {
        let mut failed = None;
        for member in self.members.newest_first() {
            match self.read_member(member, at, self.buffer(at), how).await {
                Ok(read) => return Ok(read),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(super::none_left))
    }

    /// Settles everything in the background.
    pub(super) fn settle_in_background(self: &Rc<Self>) {
        let me = Rc::downgrade(self);
        let work = async move {
            let how = Hints { class: Class::Background, ..Hints::default() };
            let mut from = 0;
            loop {
                let Some(mirror) = me.upgrade() else { return };
                let Some(next) = mirror.unsettled.within(from..u64::MAX).into_iter().next() else { return };
                let at = Extent::of_pages(next.start, (next.end - next.start).min(AT_ONCE));
                let _held = mirror.locks.exclusive(at, &how).await;
                // What cannot be made the same fails again when it is read.
                let _ = mirror.settle_held(at, false, &how).await;
                from = at.end().page();
            }
        };
        if self.unsettled.pages() > 0 {
            runtime::spawn(work).detach();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Ranges against a set of pages.
        #[test]
        fn what_was_removed_is_not_there(
            ends in proptest::collection::btree_set(0..60_u64, 2..12),
            removed in proptest::collection::vec((0..60_u64, 1..20_u64), 0..8),
            asked in (0..60_u64, 1..30_u64),
        ) {
            let ends: Vec<u64> = ends.into_iter().collect();
            let (unsettled, mut model) = (Unsettled::default(), std::collections::BTreeSet::new());
            for pair in ends.chunks_exact(2) {
                unsettled.add(pair[0]..pair[1]);
                model.extend(pair[0]..pair[1]);
            }
            for (start, pages) in removed {
                unsettled.remove(start..start + pages);
                model.retain(|page| !(start..start + pages).contains(page));
            }
            prop_assert_eq!(unsettled.pages() as usize, model.len());
            let within: Vec<u64> = unsettled.within(asked.0..asked.0 + asked.1).into_iter().flatten().collect();
            let expected: Vec<u64> = model.range(asked.0..asked.0 + asked.1).copied().collect();
            prop_assert_eq!(within, expected);
        }
    }
}
