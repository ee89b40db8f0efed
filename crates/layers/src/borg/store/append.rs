//! Appending writes (sections 3.3 and 4.5) to the log of the write buffer, in batches, each with a header page.
//!
//! Writes absorbed in the same instant form one batch. Its header and data are issued together, as one sequential
//! write, so that a drive without a write cache loses no rotation between them. A write completes when its batch and
//! all earlier ones were written, so a flush only has to flush the device. After a crash, the checksums in the header
//! show which part of a batch reached the disk.
//!
//! Invariants: only a stable copy is overwritten; a copy is dirty on disk before it is overwritten; a session is begun
//! before its first change.
//!
//! Faults: if any part of a batch fails, all of its writes fail. Its header may or may not be on disk; so a map page is
//! written that overrules it, and a super page that makes the log begin after it. Later batches are committed only
//! then, since recovery would not find them before.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use futures_util::future::join;
use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Extent, Hints, IoError, invariant};

use super::format::{BatchHeader, PageIdentity};
use super::log::Batch;
use super::map::Slot;
use super::table::{Repair, Table};
use super::{Store, did};

/// Contiguous pages with slots in the log, to be written with [`Store::write_appended`].
pub struct Appended {
    /// Extent on the BOPT.
    pub at: Extent,
    data: Buffer,
    batch: Rc<Batch>,
}

impl Appended {
    /// Whether `with` is of the same batch and follows directly.
    pub fn is_followed_by(&self, with: &Appended) -> bool {
        self.at.end() == with.at.start && Rc::ptr_eq(&self.batch, &with.batch)
    }

    /// Appends `with`.
    pub fn join(&mut self, with: Appended) {
        self.at.sectors += with.at.sectors;
        self.data = Buffer::join([self.data.clone(), with.data]);
        with.batch.finish_one_write();
    }
}

impl Store {
    /// Allocates a slot in the log for a whole page, whose entry becomes valid when written; `None` if the log is full.
    /// The caller holds the page's lock.
    pub fn append(&self, page: u64, data: &Buffer) -> Option<Appended> {
        let (slot, batch) = self.table.borrow_mut().allocate_slot(page, data)?;
        self.assert_writing();
        batch.writes.set(batch.writes.get() + 1);
        let copy = self.layout.page(slot);
        did("absorbed", Extent::of_pages(page, 1), copy * seekless_core::PAGE_SECTORS);
        Some(Appended { at: Extent::of_pages(copy, 1), data: data.clone(), batch })
    }

    /// Prepares overwriting a stable copy ([`Store::is_stable`]) in place; the caller holds the page's lock.
    pub fn overwrite(&self, slot: Slot) {
        self.assert_writing();
        let table = &mut *self.table.borrow_mut();
        invariant!("only a stable copy is overwritten", table.segments.is_stable(slot));
        invariant!(
            "a copy is dirty on disk before it is overwritten",
            table.map.is_dirty(slot) && table.segments.is_dirty_on_disk(slot)
        );
        invariant!("a checksum is given up before its copy is overwritten", !table.segments.has_sum(slot));
        table.sums.set(slot, None);
    }

    /// Writes appended pages, and returns when their entries are valid. Must not be dropped before: the batch counts
    /// its writes, and later batches wait for it.
    pub async fn write_appended(&self, pages: &Appended, how: &Hints) -> Result<(), IoError> {
        let data = async {
            // Issued after the header, which precedes the data on disk: an idle drive starts with whichever request
            // comes first.
            runtime::quiet().await;
            let written = self.bopt.write(pages.at, pages.data.clone(), how.clone()).await;
            self.written(&pages.batch, &written);
        };
        join(self.write_header(&pages.batch, how), data).await;
        self.wait_until_ended(&pages.batch).await
    }

    /// Records that a part of a batch was written, or failed.
    fn written(&self, batch: &Rc<Batch>, written: &Result<(), IoError>) {
        if let Err(error) = written {
            batch.failed.borrow_mut().get_or_insert_with(|| error.clone());
        }
        batch.finish_one_write();
        let waited_for = {
            let table = &mut *self.table.borrow_mut();
            table.end_written_batches(self.is_durable_at_once());
            match table.repair {
                Repair::Pending(batch) if !table.log.is_quiet() => {
                    table.repair = Repair::Running(Some(batch));
                    true
                }
                _ => false,
            }
        };
        if let Some(store) = self.me.upgrade().filter(|_| waited_for) {
            runtime::spawn(async move { store.repair_log().await }).detach();
        }
    }

    /// Makes the log begin after a failed batch, for the batches after it; these fail too if that fails.
    async fn repair_log(&self) {
        edge("batches wait behind a failed one");
        loop {
            let done = self.checkpoint(&Hints::default()).await;
            let table = &mut *self.table.borrow_mut();
            if let Err(error) = &done {
                edge("the log cannot continue behind a failed batch: those behind it fail");
                table.log.fail(error);
                table.end_written_batches(false);
            }
            if done.is_err() || table.repair.failed().is_none() || table.log.is_quiet() {
                table.repair.end();
                return;
            }
        }
    }

    /// Writes the batch's header, once: called by the first write of the batch, when the other writes of the instant
    /// have joined.
    pub(super) async fn write_header(&self, batch: &Rc<Batch>, how: &Hints) {
        if !batch.claim_header() {
            return;
        }
        runtime::quiet().await;
        let (at, bytes) = {
            let Table { log, segments, .. } = &mut *self.table.borrow_mut();
            let disk = &self.disk.borrow().super_page;
            let next = log.close_batch(segments, batch);
            batch.durable_before.set(log.durable);
            let at = self.layout.page(batch.at);
            let page = BatchHeader {
                session: disk.sessions,
                durable_before: log.durable,
                next,
                entries: batch.entries.borrow().clone(),
            };
            let page_id = PageIdentity { at, generation: batch.sequence, identity: disk.identity };
            (at, page.encode(disk.version, &page_id, &batch.data.take()))
        };
        let place = Extent::of_pages(at, 1);
        did("header of a batch", place, place.start.0);
        let written = self.bopt.write(place, Buffer::from_vec(bytes), how.clone()).await;
        self.disk.borrow_mut().metadata_pages += 1;
        self.written(batch, &written);
    }

    /// Waits until a batch has ended; its error, if it failed.
    pub(super) async fn wait_until_ended(&self, batch: &Rc<Batch>) -> Result<(), IoError> {
        poll_fn(|context| {
            if batch.is_ended() {
                return Poll::Ready(());
            }
            batch.wait(context.waker().clone());
            Poll::Pending
        })
        .await;
        batch.failed.borrow().clone().map_or(Ok(()), Err)
    }
}
