//! Absorbing writes (sections 3.3 and 4.5): into the log of the write buffer, each run behind the page that describes it.
//!
//! Writes that are absorbed in one instant form one run. Its page and its data go out together, so that a drive without
//! a write cache need not turn round between them: data and map entries are one sequential write. A write is answered
//! when its run and all runs before are written, so a flush finds nothing left to do but the device's own. Which part
//! of a run reached the disk at a crash is told by the checksums in its page.
//!
//! Faults: if any part of a run fails, all of its writes do. Whether its page is on disk nobody knows; so a map page is
//! written that overrules it, and a super page that has the log begin behind it. Runs behind it are settled only then,
//! since no start would find them before.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Extent, Hints, IoError, Ticket, mutant};

use super::log::Run;
use super::map::Slot;
use super::page::{Head, RunPage};
use super::{Borg, State, did};

impl State {
    /// A page's copy is in this slot from now on, and in no other.
    pub(super) fn map_in(&mut self, page: u64, slot: Slot, dirty: bool) {
        if let Some(was) = self.map.insert(page, slot, dirty) {
            self.origin.unproven.set(was, false);
            self.segments.emptied(was);
        }
        self.segments.filled(slot);
    }

    /// A page has no copy any more, and where it was.
    pub(super) fn map_out(&mut self, page: u64) -> Option<Slot> {
        let slot = self.map.remove(page)?;
        self.origin.unproven.set(slot, false);
        self.segments.emptied(slot);
        Some(slot)
    }

    /// The copy in a slot is newer than home, or as old.
    pub(super) fn set_dirty(&mut self, slot: Slot, dirty: bool) {
        if self.map.is_dirty(slot) != dirty {
            self.map.set_dirty(slot, dirty);
            self.segments.touched(slot);
        }
    }

    /// Settles all runs that are written, in order; behind one that failed, only what failed too.
    pub(super) fn settle(&mut self, durable_at_once: bool) {
        while let Some(run) = self.log.written_first(self.anchor_owed.is_some()) {
            if run.failed.borrow().is_some() && !mutant::is("borg: a run that failed is mapped") {
                edge("a run failed");
                let segment = self.segments.get(run.segment);
                (segment.owed, segment.stale, segment.changes) = (true, true, segment.changes + 1);
                self.anchor_owed = Some(run.sequence);
            } else {
                for ((page, slot), (_, sum)) in run.pages().into_iter().zip(run.entries.borrow().iter()) {
                    self.map_in(page, slot, true);
                    self.sums.set(slot, Some(*sum));
                }
                self.log.remember(&run);
            }
            run.settle();
        }
        if durable_at_once && self.anchor_owed.is_none() {
            let settled = self.log.settled;
            self.log.now_durable(&mut self.segments, settled);
        }
    }
}

impl Borg {
    /// Copies are about to get newer than home: that is on disk before they are, or a crash would leave copies that pass
    /// for clean. For who holds their pages.
    pub(super) async fn mark_dirty(&self, slots: &[Slot], how: &Hints) -> Result<(), IoError> {
        if slots.is_empty() {
            return Ok(());
        }
        edge("a clean copy is to be overwritten: the map says before that it is newer");
        for &slot in slots {
            self.state.borrow_mut().set_dirty(slot, true);
        }
        // Whoever waits for the turn raises what is done in it.
        let how = Hints { ticket: Some(Ticket::new()), fua: false, ..how.clone() };
        let _turn = self.turn(&how).await;
        // Who had the turn before may have said so for several.
        let untold = {
            let state = self.state.borrow();
            let untold = |slot: &Slot| !state.segments.tells_dirty(*slot);
            slots.iter().copied().filter(untold).collect::<Vec<_>>()
        };
        self.say_segments_of(untold.into_iter(), &how).await
    }

    /// Some part of a run is written, or failed. All of it is when its page was led and no write is left.
    pub(super) fn written(&self, run: &Rc<Run>, written: &Result<(), IoError>) {
        if let Err(error) = written {
            run.failed.borrow_mut().get_or_insert_with(|| error.clone());
        }
        run.writes.set(run.writes.get() - 1);
        let waited_for = {
            let state = &mut *self.state.borrow_mut();
            state.settle(!self.bopt.geometry().volatile_cache);
            let waited_for = state.anchor_owed.is_some() && !state.log.is_quiet() && !state.mending;
            state.mending |= waited_for;
            waited_for
        };
        if let Some(borg) = self.me.upgrade().filter(|_| waited_for) {
            runtime::spawn(async move { borg.mend_the_log().await }).detach();
        }
    }

    /// Has the log begin behind what failed, for those that wait behind it; they fail too if it cannot.
    async fn mend_the_log(&self) {
        edge("runs wait behind one that failed");
        loop {
            let mended = self.checkpoint(&Hints::default()).await;
            let state = &mut *self.state.borrow_mut();
            if let Err(error) = &mended {
                edge("the log cannot go on behind a run that failed: those behind it fail");
                state.log.fail(error);
                state.settle(false);
            }
            if mended.is_err() || state.anchor_owed.is_none() || state.log.is_quiet() {
                state.mending = false;
                return;
            }
        }
    }

    /// Sees to it that a run's page is written: the first write of the run does it, when the instant's other writes
    /// have joined.
    pub(super) async fn lead(&self, run: &Rc<Run>, how: &Hints) {
        if run.led.replace(true) {
            return;
        }
        runtime::quiet().await;
        let (at, bytes) = {
            let State { log, segments, disk, .. } = &mut *self.state.borrow_mut();
            let next = log.close_run(segments, run);
            run.confirmed.set(log.durable);
            let at = self.layout.page(run.at);
            let page = RunPage {
                opening: disk.opening,
                confirmed: log.durable,
                next,
                entries: run.entries.borrow().clone(),
            };
            let head = Head { at, generation: run.sequence, identity: disk.identity };
            (at, page.encode(disk.version, &head, &run.data.take()))
        };
        let place = Extent::of_pages(at, 1);
        did("page of a run", place, place.start.0);
        let written = self.bopt.write(place, Buffer::from_vec(bytes), how.clone()).await;
        self.state.borrow_mut().map_pages += 1;
        self.written(run, &written);
    }

    /// Waits until a run is settled.
    pub(super) async fn settled(&self, run: &Rc<Run>) -> Result<(), IoError> {
        poll_fn(|context| {
            if run.is_settled() {
                return Poll::Ready(());
            }
            run.wait(context.waker().clone());
            Poll::Pending
        })
        .await;
        run.failed.borrow().clone().map_or(Ok(()), Err)
    }
}
