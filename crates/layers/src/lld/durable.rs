//! Durability: writing segments, flushes, and checkpoints.
//!
//! Order: a segment of an epoch is written only after a checkpoint of that epoch is durable; a checkpoint only after
//! everything it covers; and an empty segment is reused only after the writes that emptied it are durable and a durable
//! checkpoint covers its contents.
//!
//! Faults: blocks of a segment that could not be written join the open one; since the log is broken there, the next
//! flush is a checkpoint. A checkpoint that could not be written fails its flush, and the next flush retries. After a
//! failed flush of the component nothing is written any more. When the component is full, segments wait in memory, and
//! clients and flushes get that error until there is room again.

use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, ErrorKind, Extent, Hints, IoError, Nanos, SECTOR_BYTES, mutant};

use super::Lld;
use super::checkpoint::{self, Head};
use super::log::Sealed;
use super::sealed;
use super::state::{Admitted, Who, no_room};
use crate::durable::region;

/// Consecutive segment writes that may fail.
const FAILURES: u32 = 8;
/// Interval of retries when the component was full.
const ROOM_AGAIN: Nanos = Nanos::from_millis(200);

/// Hints for work that other tasks wait for: not delayed, and not aborted with the request that started it.
fn waited_for(how: &Hints) -> Hints {
    Hints { class: how.class.min(Class::Foreground), ticket: None, fua: false, ..how.clone() }
}

impl Lld {
    /// Seals the open record, and writes it.
    pub(super) fn seal(&self, how: &Hints) {
        if self.canary.is("early reuse") {
            self.state.borrow_mut().segments.free_up(u64::MAX, u64::MAX);
        }
        let sealed = self.state.borrow_mut().seal(self.canary.is("lost deletion"));
        if let (Some(sealed), Some(lld)) = (sealed, self.me.upgrade()) {
            let how = waited_for(how);
            runtime::spawn(async move { lld.write_out(&sealed, &how).await }).detach();
        }
    }

    async fn write_out(&self, sealed: &Sealed, how: &Hints) {
        while let Err(error) = self.write_once(sealed, how).await {
            if self.rescue(sealed, &error, how) {
                break;
            }
            if self.state.borrow().full {
                runtime::sleep(ROOM_AGAIN).await;
            }
        }
        self.changed();
        self.checkpoint_when_due(how);
        self.clean_freely_when_due();
    }

    async fn write_once(&self, sealed: &Sealed, how: &Hints) -> Result<(), IoError> {
        let at = self.layout.extent(sealed.at, 1 + sealed.entries.len() as u32);
        region::write(&*self.below, at, &sealed.bytes, how).await?;
        let state = &mut *self.state.borrow_mut();
        state.log.in_flight.remove(&sealed.sequence);
        state.failures = 0;
        if std::mem::take(&mut state.full) {
            state.failed = None;
        }
        let breaks = mutant::is("lld: behind a broken log, records count as durable at once");
        if !self.volatile && (!state.checkpoint_pending || breaks) {
            let committed = state.log.committed();
            state.now_durable(committed);
        }
        Ok(())
    }

    /// Moves the blocks of a segment that could not be written to another; false if it is to be retried in place,
    /// because the cleaner needs the remaining room.
    fn rescue(&self, sealed: &Sealed, error: &IoError, how: &Hints) -> bool {
        if self.state.borrow().full {
            return false;
        }
        let (live, room, failures) = {
            let state = &mut *self.state.borrow_mut();
            state.failures += 1;
            state.counted.failures += 1;
            (state.live_of(sealed), state.room_to_move() as usize, state.failures)
        };
        let tight = live.len() > room || !self.cleaning.is_empty();
        if tight && failures <= FAILURES / 2 {
            edge("a segment could not be written, and there is no room: it is written again");
            return false;
        }
        if live.len() > room || failures > FAILURES {
            edge("nothing can be written any more");
            self.fail(error);
            // Other errors are permanent.
            let state = &mut *self.state.borrow_mut();
            let why = state.failed.as_ref().map(IoError::kind);
            state.full = error.kind() == ErrorKind::NoSpace && why == Some(ErrorKind::NoSpace);
            return !state.full;
        }
        edge("a segment could not be written: its blocks join the next one");
        self.state.borrow_mut().broke();
        for (block, data) in live {
            {
                let state = &mut *self.state.borrow_mut();
                if let Admitted::No(error) = state.admit(Who::Rescue, 0) {
                    state.failed.get_or_insert(error);
                    return true;
                }
                state.put(block, data);
                state.requested = state.log.sequence;
            }
            self.seal_if_full(how);
        }
        let state = &mut *self.state.borrow_mut();
        state.log.in_flight.remove(&sealed.sequence);
        state.unrecorded(sealed);
        true
    }

    /// Stops all writes.
    fn fail(&self, error: &IoError) {
        {
            let state = &mut *self.state.borrow_mut();
            if std::mem::take(&mut state.full) {
                state.failed = None;
            }
            state.failed.get_or_insert_with(|| error.clone());
        }
        self.changed();
    }

    fn failure(&self) -> Result<(), IoError> {
        self.state.borrow().failed.clone().map_or(Ok(()), Err)
    }

    /// Flushes the component. After a failed flush there are no more.
    async fn flush_below(&self, how: &Hints) -> Result<(), IoError> {
        if self.canary.is("missing flush") {
            return Ok(());
        }
        let flushed = self.below.flush(how.clone()).await;
        if let Err(error) = &flushed {
            edge("a flush failed: nothing is written any more");
            if !mutant::is("lld: a failed flush is forgotten") {
                self.fail(error);
            }
        }
        flushed
    }

    /// Makes everything acknowledged durable.
    pub(super) async fn sync_all(&self, how: &Hints) -> Result<(), IoError> {
        self.log_staged(how).await?;
        self.sync(how).await
    }

    /// As `sync_all`, without the blocks that are staged.
    pub(super) async fn sync(&self, how: &Hints) -> Result<(), IoError> {
        let asked = self.state.borrow().requested;
        self.make_durable(asked, how).await?;
        self.witness_later();
        Ok(())
    }

    /// As `make_durable`, and covered by a checkpoint.
    pub(super) async fn settle(&self) -> Result<(), IoError> {
        let how = Hints::default();
        self.sync_all(&how).await?;
        let stale = {
            let state = self.state.borrow();
            state.session_begun && state.disk.sequence + 1 < state.log.sequence
        };
        if stale {
            let _turn = self.flushing.exclusive(Extent::new(0, 1), &how).await;
            self.checkpoint(&how).await?;
        }
        Ok(())
    }

    /// Makes everything up to this sequence durable.
    pub(super) async fn make_durable(&self, sequence: u64, how: &Hints) -> Result<(), IoError> {
        let how = &waited_for(how);
        loop {
            self.failure()?;
            if self.state.borrow().durable >= sequence {
                return Ok(());
            }
            if self.state.borrow().log.sequence <= sequence {
                self.seal(how);
            }
            self.until(|state| state.log.committed() >= sequence || state.failed.is_some()).await;
            if !self.flushing.is_empty() {
                edge("a second flush waits for the first");
            }
            let _turn = self.flushing.exclusive(Extent::new(0, 1), how).await;
            self.failure()?;
            let (durable, committed, checkpoint_pending) = {
                let state = self.state.borrow();
                (state.durable, state.log.committed(), state.checkpoint_pending)
            };
            if durable >= sequence {
                return Ok(());
            }
            if checkpoint_pending {
                self.checkpoint(how).await?;
            } else {
                self.flush_below(how).await?;
                let state = &mut *self.state.borrow_mut();
                // Recovery finds what was committed while the log was whole, even if it broke since.
                state.now_durable(committed);
            }
            self.changed();
        }
    }

    /// Writes a checkpoint of a new epoch, before anything else is written.
    pub(super) async fn begin(&self, how: &Hints) -> Result<(), IoError> {
        let how = &waited_for(how);
        let _turn = self.flushing.exclusive(Extent::new(0, 1), how).await;
        self.failure()?;
        if self.state.borrow().session_begun {
            return Ok(());
        }
        let torn = self.state.borrow().torn;
        if let Some(torn) = torn.filter(|_| !self.layout.sealed) {
            // Otherwise the next one, if torn too, could make it whole.
            let first = Extent { sectors: 1, ..self.layout.copy(torn.generation) };
            self.below.write(first, Buffer::zeroed(SECTOR_BYTES), how.clone()).await?;
            self.flush_below(how).await?;
            self.state.borrow_mut().torn = None;
        }
        let (segment, twice, identity, epoch) = {
            let state = &mut *self.state.borrow_mut();
            let Some(segment) = state.take_segment() else { return Err(no_room()) };
            let identity = Some(state.disk.identity).filter(|identity| *identity != 0);
            let identity = identity.unwrap_or_else(|| {
                let mut rng = runtime::rng("lld identity");
                (u128::from(rng.bits()) << 64 | u128::from(rng.bits())).max(1)
            });
            let epoch = state.disk.epoch + u64::from(!mutant::is("lld: the epoch stays"));
            state.log.begin(identity, epoch, segment);
            let one_only = self.layout.sealed && !state.disk.both_written;
            (segment, state.disk.identity == 0 || one_only, identity, epoch)
        };
        // Both copies of a new volume are written, and of one whose first session wrote one only, so that a damaged
        // copy differs from one never written: until a rewrite, both have to name this log.
        for _ in 0..if twice { 2 } else { 1 } {
            let written = self.write_checkpoint(identity, epoch, how).await;
            if let Err(error) = written {
                let state = &mut *self.state.borrow_mut();
                state.log.place = None;
                state.segments.give_back(segment);
                return Err(error);
            }
        }
        {
            let state = &mut *self.state.borrow_mut();
            state.session_begun = true;
            // This checkpoint went to the copy that was not current.
            state.disk.both_written = self.layout.sealed;
            state.find_holes();
        }
        self.changed();
        Ok(())
    }

    /// Writes a checkpoint of everything up to now; the caller holds the lock of flushes.
    pub(super) async fn checkpoint(&self, how: &Hints) -> Result<(), IoError> {
        let Head { identity, epoch, .. } = self.state.borrow().disk;
        self.write_checkpoint(identity, epoch, &waited_for(how)).await
    }

    async fn write_checkpoint(&self, identity: u128, epoch: u64, how: &Hints) -> Result<(), IoError> {
        loop {
            self.seal(how);
            let (head, bytes, breaks) = {
                let state = &mut *self.state.borrow_mut();
                let sequence = state.log.sequence - 1;
                let reached = if state.checkpoint_pending { state.durable } else { sequence };
                let (disk, anchor) = (state.disk, state.log.place);
                // A failed one may have left sectors of its generation, which is not reused.
                let next = disk.generation + 1;
                let generation = if state.tried >= next { state.tried + 2 } else { next };
                let head = Head { identity, generation, epoch, sequence, reached, anchor, ..disk };
                let recorded: Vec<u64> = state.segments.iter().map(|(_, segment)| segment.recorded).collect();
                (head, checkpoint::encode(&head, &state.slots, &recorded, &self.layout), state.breaks)
            };
            let early = mutant::is("lld: a checkpoint does not wait for the records that it covers");
            let ended = |state: &super::state::State| early || state.log.committed() >= head.sequence;
            self.until(|state| ended(state) || state.failed.is_some()).await;
            self.failure()?;
            if self.state.borrow().breaks != breaks {
                edge("the log failed during a checkpoint: another one is made");
                continue;
            }
            self.flush_below(how).await?;
            self.copied.set(mutant::is("lld: a checkpoint leaves its other copy old") && self.copied.get());
            self.state.borrow_mut().tried = head.generation;
            checkpoint::write(&*self.below, &self.layout, head.generation, &bytes, how).await?;
            self.flush_below(how).await?;
            let state = &mut *self.state.borrow_mut();
            (state.disk, state.filled) = (head, 0);
            self.copy_later(head.generation);
            state.counted.checkpoints += 1;
            state.counted.checkpoint_blocks += bytes.len() as u64 / 4_096;
            state.counted.written += bytes.len() as u64 / 4_096;
            if state.breaks == breaks && head.anchor.is_some() {
                state.checkpoint_pending = false;
            }
            state.now_durable(head.sequence);
            return Ok(());
        }
    }

    /// Copies the newest checkpoint to its other copy when there was none for a while.
    fn copy_later(&self, generation: u64) {
        if self.layout.sealed {
            let now = |lld: &Lld| lld.state.borrow().disk.generation;
            self.quiet.wait(self.me.clone(), generation, now, async |lld: &Lld| {
                // Flushes wait for it. If it fails, there is one copy only.
                let _ = lld.copy_checkpoint(&Hints::default()).await;
            });
        }
    }

    /// Both copies hold the checkpoint.
    pub(super) async fn copy_checkpoint(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.flushing.exclusive(Extent::new(0, 1), how).await;
        let generation = {
            let state = self.state.borrow();
            if !state.session_begun || self.copied.get() || !self.layout.sealed || state.failed.is_some() {
                return Ok(());
            }
            state.disk.generation
        };
        edge("a checkpoint is written to its other copy too");
        sealed::copy(&*self.below, &self.layout, generation, how).await?;
        self.flush_below(how).await?;
        self.copied.set(true);
        Ok(())
    }

    /// Starts a checkpoint when recovery would have to read many summaries.
    fn checkpoint_when_due(&self, how: &Hints) {
        let due = {
            let state = &mut *self.state.borrow_mut();
            let due = state.filled >= self.layout.window();
            // Started once.
            state.filled = if due { 0 } else { state.filled };
            due && state.failed.is_none()
        };
        if let (true, Some(lld)) = (due, self.me.upgrade()) {
            edge("a checkpoint is due");
            let how = how.clone();
            runtime::spawn(async move {
                let _turn = lld.flushing.exclusive(Extent::new(0, 1), &how).await;
                // If it fails, the next one covers the same.
                let _ = lld.checkpoint(&how).await;
                lld.changed();
            })
            .detach();
        }
    }

    /// Seals the open record if it is full.
    pub(super) fn seal_if_full(&self, how: &Hints) {
        if self.state.borrow().log.is_full() {
            self.seal(how);
        }
    }

    /// Waits until a condition of the state holds.
    pub(super) async fn until(&self, is_so: impl Fn(&super::state::State) -> bool) {
        std::future::poll_fn(|context| {
            if is_so(&self.state.borrow()) {
                return std::task::Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            std::task::Poll::Pending
        })
        .await;
    }

    /// Wakes all waiters.
    pub(super) fn changed(&self) {
        self.waiting.take().into_iter().for_each(std::task::Waker::wake);
    }
}
