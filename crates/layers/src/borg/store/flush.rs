//! Flushes of both devices.
//!
//! Invariant: no flush succeeds after one that failed. What the device lost with that one is unknown, and may be what
//! the later one is for.

use futures_util::future::join;
use seekless_core::runtime::edge;
use seekless_core::{Hints, IoError, PAGE_BYTES, Size, invariant, mutant};

use super::Store;
use super::table::Table;

impl Store {
    /// Makes everything completed durable. Absorbed writes completed with the headers of their batches, so only pending
    /// metadata and the devices' own flushes remain. With `spares_bopt`, the BOPT may fail while it holds nothing newer
    /// than the origin.
    pub async fn flush(&self, spares_bopt: bool, how: &Hints) -> Result<(), IoError> {
        let ended = self.table.borrow().log.ended;
        let (origin, bopt) = join(self.flush_origin(how), self.flush_bopt(how)).await;
        origin?;
        let durable = match bopt {
            Ok(()) => self.repair(how).await,
            failed => failed,
        };
        match durable {
            Ok(()) => {}
            Err(_)
                if spares_bopt && self.dirty() == 0
                    || mutant::is("borg: a flush does without a BOPT that holds newer pages") =>
            {
                edge("a flush does without the BOPT: nothing in it is newer");
                return Ok(());
            }
            Err(error) if self.dirty() > 0 => {
                let bytes = Size(self.dirty() as u64 * PAGE_BYTES);
                return Err(error.and(&format!("{bytes} in the BOPT are newer than the device below")));
            }
            Err(error) => return Err(error),
        }
        {
            let Table { log, segments, .. } = &mut *self.table.borrow_mut();
            log.mark_durable(segments, ended);
        }
        self.witness_later();
        Ok(())
    }

    /// Flushes the origin; fails for ever after a failure.
    pub async fn flush_origin(&self, how: &Hints) -> Result<(), IoError> {
        let failed = || self.disk.borrow().failed.clone();
        ensure_not_failed(failed())?;
        let flushed = self.origin.flush(how.clone()).await;
        if let Some(error) = failed_flush(&flushed) {
            self.fail(error);
        }
        succeeded(flushed, failed)
    }

    /// Flushes the BOPT; fails for ever after a failure.
    pub async fn flush_bopt(&self, how: &Hints) -> Result<(), IoError> {
        let failed = || {
            let disk = self.disk.borrow();
            disk.failed.clone().or_else(|| disk.bopt_failed.clone())
        };
        ensure_not_failed(failed())?;
        let flushed = self.bopt.flush(how.clone()).await;
        if let Some(error) = failed_flush(&flushed) {
            self.disk.borrow_mut().bopt_failed.get_or_insert_with(|| error.clone());
        }
        succeeded(flushed, failed)
    }

    /// The error of a flush of the BOPT, if one failed.
    pub fn bopt_failed(&self) -> Option<IoError> {
        self.disk.borrow().bopt_failed.clone()
    }

    /// Makes every later flush fail.
    pub fn fail(&self, error: &IoError) {
        self.disk.borrow_mut().failed.get_or_insert_with(|| error.clone());
    }
}

fn ensure_not_failed(failed: Option<IoError>) -> Result<(), IoError> {
    let Some(error) = failed.filter(|_| !mutant::is("borg: flushes go on after one that failed")) else {
        return Ok(());
    };
    edge("a flush failed: all later ones fail");
    Err(error)
}

/// The result of a flush, which another one that failed meanwhile makes fail too.
fn succeeded(flushed: Result<(), IoError>, failed: impl Fn() -> Option<IoError>) -> Result<(), IoError> {
    flushed?;
    ensure_not_failed(failed())?;
    invariant!("no flush succeeds after one that failed", failed().is_none());
    Ok(())
}

fn failed_flush(flushed: &Result<(), IoError>) -> Option<&IoError> {
    flushed.as_ref().err().filter(|_| !mutant::is("borg: a failed flush is forgotten"))
}
