//! Pages of which a write in place failed ([`seekless_core::failed_writes`]).
//!
//! Invariant: such a page is neither copied, moved nor drained before the data stored there are rewritten, under its
//! lock. Otherwise a client could read the new data before the page moves, and the old data afterwards.

use std::collections::BTreeMap;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, Extent, Hints, IoError, Mode, PAGE_SECTORS, Ticket, mutant};

use super::Borg;
use super::mover::Mover;

impl Borg {
    /// Notes how the parts of a write or discard ended, under its lock. A write has `joined` pages, of which all is
    /// written although it covers only a part.
    pub(super) fn note_outcome(
        &self,
        at: Extent,
        parts: &[Result<(), IoError>],
        joined: Option<&BTreeMap<u64, Buffer>>,
    ) {
        let failed = &self.failed_writes;
        let may_take_effect = |error: &IoError| {
            error.may_take_effect() && !mutant::is("borg: a write in place that failed is forgotten")
        };
        if parts.iter().any(|part| part.as_ref().is_err_and(may_take_effect)) {
            // Only dirty copies are overwritten in place; what was absorbed elsewhere is not mapped.
            let in_place = |page: &u64| self.store.lookup(*page).is_none_or(|entry| entry.dirty);
            failed.add(at.pages().filter(in_place));
        } else if let Some(joined) = joined.filter(|_| parts.iter().all(Result::is_ok)) {
            failed.written(at);
            for page in joined.keys() {
                failed.remove(*page);
            }
        }
    }

    /// Rewrites all copies of which a write failed: none of those writes is carried out later.
    ///
    /// # Errors
    /// The first error of the BOPT; that copy is tried again the next time.
    pub(crate) async fn rewrite_failed_copies(&self, how: &Hints) -> Result<(), IoError> {
        let failed = self.failed_writes.pages();
        for page in failed.into_iter().filter(|page| self.has_copy(*page)) {
            self.rewrite_locked(page, how.clone()).await?;
        }
        Ok(())
    }

    /// Rewrites the data of a page of which a write failed, under its lock. Requests that wait for it raise the class.
    async fn rewrite_locked(&self, page: u64, how: Hints) -> Result<(), IoError> {
        let (at, ticket) = (Extent::of_pages(page, 1), Ticket::new());
        let _held = self.locks.lock(at, Mode::Exclusive, how.class, Some(ticket.clone())).await;
        self.rewrite(page, &Hints { ticket: Some(ticket), ..how }).await
    }

    /// Rewrites the data of a page of which a write failed, where they are stored; the caller holds its lock. Durably:
    /// a sector that a verifying read found weak is repaired by that.
    async fn rewrite(&self, page: u64, how: &Hints) -> Result<(), IoError> {
        if !self.failed_writes.contains(page) {
            return Ok(());
        }
        let fua = !mutant::is("borg: a rewrite of a failed write without FUA");
        let durably = Hints { fua, ..how.clone() };
        edge("a page of which a write failed is rewritten before it is moved");
        match self.store.lookup(page) {
            Some(entry) if self.store.is_stable(entry.slot) => {
                self.store.read_sums(std::iter::once(page), how).await;
                let (there, known) =
                    (Extent::of_pages(self.store.layout().page(entry.slot), 1), self.store.known_sum(page));
                let data = self.bopt.read(there, self.buffer(there), how.clone()).await?;
                self.store.verify_sum(page, known, &data)?;
                self.bopt.write(there, data, durably).await?;
            }
            // Absorbed elsewhere since.
            Some(_) => {}
            None => {
                let at = Extent::of_pages(page, 1);
                let sectors = PAGE_SECTORS.min(self.origin.geometry().sectors - at.start.0);
                let at = Extent { sectors, ..at };
                let data = self.origin.read(at, self.buffer(at), how.clone()).await?;
                self.origin_written(self.origin.write(at, data, durably).await)?;
            }
        }
        self.failed_writes.remove(page);
        Ok(())
    }
}

impl Mover<'_> {
    /// Rewrites those of these pages of which a write failed; returns the first error, after the others.
    pub(super) async fn rewrite_failed(&self, pages: impl Iterator<Item = u64>) -> Result<(), IoError> {
        let borg = self.borg;
        let failed: Vec<u64> = pages.filter(|page| borg.failed_writes.contains(*page)).collect();
        let mut result = Ok(());
        for page in failed {
            result = result.and(borg.rewrite_locked(page, self.with_ticket()).await);
        }
        result
    }
}
