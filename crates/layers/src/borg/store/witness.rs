//! Witnesses: batches without pages, each written after a pause that follows a flush.
//!
//! The header of a batch says that those before it are durable. Of the last batch nothing says that: if its header is
//! lost as a whole, as when a drive or a file system leaves zeroes in its place, the log seems to end before it, and
//! what was flushed with it is gone without a word. With a witness behind it the volume is refused instead. A witness
//! that is lost takes nothing with it. Where the log has no room for one, map pages that cover all batches are written.
//!
//! No session ends, and no BOPT is given up, while a witness is being written: both hold its lock.
//!
//! Faults: a witness that cannot be written is a failed batch like any other.

use seekless_core::lock::Guard;
use seekless_core::runtime::edge;
use seekless_core::{Class, Extent, Hints, IoError, RangeLocks};

use super::Store;
use super::format::OLD;
use super::log::Log;
use super::session::Session;
use super::table::Table;
use crate::durable::Quiet;

/// State of witnesses.
#[derive(Default)]
pub(super) struct Witness {
    quiet: Quiet,
    /// Held while one is written, while a session ends, and while the BOPT is given up.
    writing: RangeLocks,
}

impl Log {
    /// Whether nothing says that the last batch is durable, although it is.
    fn lacks_witness(&self, anchor: u64) -> bool {
        let last = self.sequence;
        let is_whole = self.is_quiet() && self.last_committed == last && self.durable >= last;
        is_whole && last >= anchor && self.witness != last
    }
}

impl Store {
    /// Has a witness follow the last batch, if there is no other one in a pause from now.
    pub(super) fn witness_later(&self) {
        if self.lacks_witness() {
            let last = |store: &Store| store.table.borrow().log.sequence;
            self.witness.quiet.wait(self.me.clone(), last(self), last, async |store: &Store| {
                // A failure is one of a batch.
                drop(store.write_witness().await);
            });
        }
    }

    async fn write_witness(&self) -> Result<(), IoError> {
        let how = Hints { class: Class::Background, ..Hints::default() };
        let _writing = self.no_witness(&how).await;
        if !self.lacks_witness() {
            return Ok(());
        }
        let batch = {
            let Table { log, segments, .. } = &mut *self.table.borrow_mut();
            log.begin_witness(segments)
        };
        let Some(batch) = batch else {
            edge("no room for a batch without pages: map pages say what is durable");
            return self.checkpoint(&how).await;
        };
        edge("a batch without pages says that the last one is durable");
        self.write_header(&batch, &how).await;
        self.wait_until_ended(&batch).await?;
        self.flush_bopt(&how).await
    }

    /// Whether the last batch needs a witness, and one may be written.
    fn lacks_witness(&self) -> bool {
        let (disk, Table { log, repair, .. }) = (self.disk.borrow(), &*self.table.borrow());
        let failed = disk.failed.is_some() || disk.bopt_failed.is_some() || repair.failed().is_some();
        let has_log = disk.super_page.version != OLD && !self.timing_only;
        has_log
            && !failed
            && disk.session == Session::Dirty
            && log.lacks_witness(disk.super_page.anchor.sequence)
    }

    /// Waits until no witness is being written; none is until the result is dropped.
    pub(super) async fn no_witness(&self, how: &Hints) -> Guard {
        self.witness.writing.exclusive(Extent::new(0, 1), how).await
    }
}
