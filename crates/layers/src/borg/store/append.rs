//! Appending writes (sections 3.3 and 4.5): into the log of the write buffer, each batch behind the page that describes
//! it.
//!
//! Writes that are absorbed in one instant form one batch. Its page and its data go out together, so that a drive
//! without a write cache need not turn round between them: data and map entries are one sequential write. A write is
//! answered when its batch and all batches before are written, so a flush finds nothing left to do but the device's
//! own. Which part of a batch reached the disk at a crash is told by the checksums in its page.
//!
//! Invariants: only a stable copy is overwritten, and it is dirty on disk before; a session is begun before its first
//! change.
//!
//! Faults: if any part of a batch fails, all of its writes do. Whether its page is on disk nobody knows; so a map page
//! is written that overrules it, and a super page that has the log begin behind it. Batches behind it are committed
//! only then, since no start would find them before.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use futures_util::future::join;
use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Extent, Hints, IoError, invariant};

use super::format::{BatchPage, Head};
use super::log::Batch;
use super::map::Slot;
use super::table::{Repair, Table};
use super::{Store, did};

/// Pages that have a place in the log, one after the other; to be written with [`Store::write_appended`].
pub struct Appended {
    /// Where, on the BOPT.
    pub at: Extent,
    data: Buffer,
    batch: Rc<Batch>,
}

impl Appended {
    /// Whether both are of one batch, and the other comes right after this one.
    pub fn goes_on(&self, with: &Appended) -> bool {
        self.at.end() == with.at.start && Rc::ptr_eq(&self.batch, &with.batch)
    }

    /// Both as one.
    pub fn join(&mut self, with: Appended) {
        self.at.sectors += with.at.sectors;
        self.data = Buffer::join([self.data.clone(), with.data]);
        with.batch.count_off();
    }
}

impl Store {
    /// A place in the log for a whole page, whose entry counts when it was written; `None` if the log is full. For who
    /// holds its lock.
    pub fn append(&self, page: u64, data: &Buffer) -> Option<Appended> {
        let (slot, batch) = self.table.borrow_mut().take(page, data)?;
        self.unless_clean();
        batch.writes.set(batch.writes.get() + 1);
        let copy = self.layout.page(slot);
        did("absorbed", Extent::of_pages(page, 1), copy * seekless_core::PAGE_SECTORS);
        Some(Appended { at: Extent::of_pages(copy, 1), data: data.clone(), batch })
    }

    /// A copy is about to be overwritten where it is, which it may be ([`Store::is_stable`]). For who holds its lock.
    pub fn overwrite(&self, slot: Slot) {
        self.unless_clean();
        let table = &mut *self.table.borrow_mut();
        invariant!("only a stable copy is overwritten", table.segments.is_stable(slot));
        invariant!(
            "a copy is dirty on disk before it is overwritten",
            table.map.is_dirty(slot) && table.segments.is_dirty_on_disk(slot)
        );
        table.set_dirty(slot, true);
        table.sums.set(slot, None);
    }

    /// Writes pages that were appended, and returns when their entries count.
    pub async fn write_appended(&self, pages: &Appended, how: &Hints) -> Result<(), IoError> {
        let data = async {
            // With its batch's page, which lies in front of it: a drive that is idle would begin with what comes first.
            runtime::quiet().await;
            let written = self.bopt.write(pages.at, pages.data.clone(), how.clone()).await;
            self.written(&pages.batch, &written);
        };
        join(self.lead(&pages.batch, how), data).await;
        self.committed(&pages.batch).await
    }

    /// Some part of a batch is written, or failed. All of it is when its page was led and no write is left.
    fn written(&self, batch: &Rc<Batch>, written: &Result<(), IoError>) {
        if let Err(error) = written {
            batch.failed.borrow_mut().get_or_insert_with(|| error.clone());
        }
        batch.count_off();
        let waited_for = {
            let table = &mut *self.table.borrow_mut();
            table.commit(self.is_durable_at_once());
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

    /// Has the log begin behind what failed, for those that wait behind it; they fail too if it cannot.
    async fn repair_log(&self) {
        edge("runs wait behind one that failed");
        loop {
            let done = self.checkpoint(&Hints::default()).await;
            let table = &mut *self.table.borrow_mut();
            if let Err(error) = &done {
                edge("the log cannot go on behind a run that failed: those behind it fail");
                table.log.fail(error);
                table.commit(false);
            }
            if done.is_err() || table.repair.failed().is_none() || table.log.is_quiet() {
                table.repair.end();
                return;
            }
        }
    }

    /// Sees to it that a batch's page is written: the first write of the batch does it, when the instant's other writes
    /// have joined.
    async fn lead(&self, batch: &Rc<Batch>, how: &Hints) {
        if !batch.is_to_be_led() {
            return;
        }
        runtime::quiet().await;
        let (at, bytes) = {
            let Table { log, segments, .. } = &mut *self.table.borrow_mut();
            let disk = &self.disk.borrow().page;
            let next = log.close_batch(segments, batch);
            batch.stable.set(log.durable);
            let at = self.layout.page(batch.at);
            let page = BatchPage {
                opening: disk.opening,
                stable: log.durable,
                next,
                entries: batch.entries.borrow().clone(),
            };
            let head = Head { at, generation: batch.sequence, identity: disk.identity };
            (at, page.encode(disk.version, &head, &batch.data.take()))
        };
        let place = Extent::of_pages(at, 1);
        did("page of a run", place, place.start.0);
        let written = self.bopt.write(place, Buffer::from_vec(bytes), how.clone()).await;
        self.disk.borrow_mut().map_pages += 1;
        self.written(batch, &written);
    }

    /// Waits until a batch is committed.
    async fn committed(&self, batch: &Rc<Batch>) -> Result<(), IoError> {
        poll_fn(|context| {
            if batch.is_committed() {
                return Poll::Ready(());
            }
            batch.wait(context.waker().clone());
            Poll::Pending
        })
        .await;
        batch.failed.borrow().clone().map_or(Ok(()), Err)
    }
}
