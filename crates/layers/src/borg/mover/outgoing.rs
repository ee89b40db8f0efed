//! Evicting pages: dirty ones are written to the origin, then all are unmapped.
//!
//! Faults: pages that cannot be read or written are narrowed down, and stay; the others are evicted. An error of no
//! particular page, such as that of a flush, ends the move.

use seekless_core::{Extent, IoError, PAGE_SECTORS, mutant};

use super::{Move, Mover, ROUND};
use crate::borg::did;
use crate::destage::Pages;

/// Pages that cannot be evicted, after which the others are not tried any more: a device fails as a whole.
const FAILURES: usize = 16;

impl Mover<'_> {
    /// Evicts pages from the BOPT, and returns how many; if some cannot be read or written, the first error of one,
    /// after the others.
    pub async fn outgoing(&self, pages: &[u64]) -> Result<u64, IoError> {
        let (mut removed, mut failed) = (0, Vec::new());
        if !self.compare_if_doubtful().await? {
            return Ok(0);
        }
        self.borg.store.begin_mapping(&self.how).await?;
        for round in pages.chunks(self.pace.round_size(ROUND)) {
            if !self.may_continue(round.len()).await? {
                break;
            }
            self.borg.history.round(round.len());
            removed += self.evict_by_halves(round, &mut failed).await?;
            self.borg.history.moved(round.len());
        }
        failed.into_iter().next().map_or(Ok(removed), Err)
    }

    /// Writes dirty pages that clients read to the origin, with the data that they read, and unmaps them; returns false
    /// if the origin is in doubt, or the mover should end.
    pub async fn return_read(&self) -> Result<bool, IoError> {
        let borg = self.borg;
        if !self.compare_if_doubtful().await? {
            return Ok(false);
        }
        borg.store.begin_mapping(&self.how).await?;
        // May drain overdue pages.
        if !self.may_continue(1).await? {
            return Ok(false);
        }
        // From here to the begin of the copies nothing may wait: a write would not be noticed.
        let mut read = borg.return_on_read.take();
        read.retain(|page, _| !borg.failed_writes.contains(*page));
        let mut pages: Vec<u64> = read.keys().copied().collect();
        pages.sort_unstable();
        self.begin_copies(&pages);
        let returned = self.evict(&pages, &read).await?;
        borg.return_on_read.count(returned);
        Ok(true)
    }

    /// Evicts a round. Pages that cannot be read or written are narrowed down by halving; their errors are added to
    /// `failed`.
    pub(super) async fn evict_by_halves(
        &self,
        round: &[u64],
        failed: &mut Vec<IoError>,
    ) -> Result<u64, IoError> {
        let (mut removed, mut left) = (0, vec![round]);
        while let Some(pages) = left.pop() {
            let evicted = async {
                self.rewrite_failed(pages.iter().copied()).await?;
                self.begin_copies(pages);
                self.evict(pages, &Pages::default()).await
            };
            match evicted.await {
                Ok(count) => removed += count,
                // Such as a flush that failed.
                Err(error) if !error.is_medium_error() || error.extent().is_none() => return Err(error),
                Err(error) if failed.len() >= FAILURES || !self.pace.take(0) => return Err(error),
                Err(_) if pages.len() > 1 => {
                    let (one, other) = pages.split_at(pages.len() / 2);
                    left.extend([other, one]);
                }
                Err(error) => failed.push(error),
            }
        }
        Ok(removed)
    }

    /// Copies dirty pages to the origin, then unmaps those of `pages` that were not written since.
    pub(super) async fn evict(&self, pages: &[u64], buffered: &Pages) -> Result<u64, IoError> {
        let borg = self.borg;
        // A page that is just being written or repaired may be marked dirty in memory alone. The origin must not be
        // written before its dirty bit is durable.
        let pages = if mutant::is("borg: a page is drained before its mark is durable") {
            pages.to_vec()
        } else {
            self.without_locked(pages)
        };
        let pages = &pages[..];
        let is_dirty = |page: &u64| borg.store.lookup(*page).is_some_and(|entry| entry.dirty);
        let dirty: Vec<u64> = pages.iter().copied().filter(is_dirty).collect();
        if !dirty.is_empty() && !mutant::is("borg: an eviction drops a dirty page") {
            let unread: Vec<u64> =
                dirty.iter().copied().filter(|page| !buffered.contains_key(page)).collect();
            let mut data = self.read_copies(&unread).await?;
            data.extend(dirty.iter().filter_map(|page| Some((*page, buffered.get(page)?.clone()))));
            for &page in data.keys() {
                did("drained", Extent::of_pages(page, 1), page * PAGE_SECTORS);
            }
            // Newer copies become durable before the origin does: otherwise an older entry could count again, for a
            // copy that differs from the origin.
            if !mutant::is("borg: the origin is written before newer copies are durable") {
                borg.store.flush_bopt(&self.how).await?;
            }
            borg.origin_written(self.write(&*borg.origin, &data).await)?;
            self.count_copied(data.len());
            if !mutant::is("borg: an eviction does not flush the origin") {
                borg.store.flush_origin(&self.how).await?;
            }
        }
        // Otherwise older entries of these pages would count again once the newest is gone.
        if !mutant::is("borg: a page is evicted before older entries of it") {
            borg.store.persist_stale(&self.with_ticket()).await?;
        }
        let there: Vec<Move> = {
            let there = pages.iter().filter_map(|&page| Some((page, borg.store.lookup(page)?.slot)));
            let mut there: Vec<Move> = there.collect();
            there.sort_unstable_by_key(|(_, slot)| *slot);
            there
        };
        let mut removed = 0;
        for group in self.groups(&there) {
            removed += self.unmap(group).await?;
        }
        Ok(removed)
    }

    /// Unmaps pages whose origin is up to date and that were not written since their copies began.
    async fn unmap(&self, group: &[Move]) -> Result<u64, IoError> {
        let borg = self.borg;
        // Before the pages are locked: requests that wait for them should not wait for other metadata writers.
        let mut update = borg.store.update(&self.how).await;
        let locked = self.lock_valid(group.iter().map(|(page, _)| *page));
        let (mut removed, mut drained) = (0, 0);
        for &page in &locked.valid {
            let Some(entry) = update.unmap(page) else { continue };
            let place = borg.store.layout().page(entry.slot) * PAGE_SECTORS;
            did("evicted", Extent::of_pages(page, 1), place);
            (removed, drained) = (removed + 1, drained + u64::from(entry.dirty));
        }
        let done = self.persist(update, locked).await;
        if done.is_ok() {
            borg.tally(&self.how, |traffic| traffic.drained += drained);
        }
        done.map(|()| removed)
    }
}
