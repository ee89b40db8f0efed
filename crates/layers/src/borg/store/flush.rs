//! Flushes of both devices.
//!
//! Invariant: after a failed flush all later ones fail, since it is unknown what was lost.

use futures_util::future::join;
use seekless_core::runtime::edge;
use seekless_core::{Hints, IoError, mutant};

use super::Store;
use super::table::Table;

impl Store {
    /// Makes everything completed durable. Absorbed writes completed with the headers of their batches, so only pending
    /// metadata and the devices' own flushes remain.
    pub async fn flush(&self, how: &Hints) -> Result<(), IoError> {
        let ended = self.table.borrow().log.ended;
        let (origin, bopt) = join(self.flush_origin(how), self.flush_bopt(how)).await;
        origin.and(bopt)?;
        self.repair(how).await?;
        let Table { log, segments, .. } = &mut *self.table.borrow_mut();
        log.mark_durable(segments, ended);
        Ok(())
    }

    /// Flushes the origin; fails for ever after a failure.
    pub async fn flush_origin(&self, how: &Hints) -> Result<(), IoError> {
        self.ensure_not_failed()?;
        let flushed = self.origin.flush(how.clone()).await;
        self.flushed(flushed)
    }

    /// Flushes the BOPT; fails for ever after a failure.
    pub async fn flush_bopt(&self, how: &Hints) -> Result<(), IoError> {
        self.ensure_not_failed()?;
        let flushed = self.bopt.flush(how.clone()).await;
        self.flushed(flushed)
    }

    /// Makes every later flush fail.
    pub fn fail(&self, error: &IoError) {
        self.disk.borrow_mut().failed.get_or_insert_with(|| error.clone());
    }

    fn ensure_not_failed(&self) -> Result<(), IoError> {
        match &self.disk.borrow().failed {
            Some(error) => {
                edge("a flush failed: all later ones fail");
                Err(error.clone())
            }
            None => Ok(()),
        }
    }

    fn flushed(&self, flushed: Result<(), IoError>) -> Result<(), IoError> {
        if let (Err(error), false) = (&flushed, mutant::is("borg: a failed flush is forgotten")) {
            self.fail(error);
        }
        flushed
    }
}
