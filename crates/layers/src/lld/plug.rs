//! Plugging holes: staged blocks are written to dead slots near the head's way, in class `Free`.
//!
//! A block that the head does not pass is written with the log by the next flush. While clients wait for the cleaner
//! nothing is plugged, since no other writes enter the log then.
//!
//! Faults: a write to a hole that fails leaves the block staged; after several in a row there are no more.

use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, ErrorKind, Extent, Hints, IoError, mutant};

use super::Lld;
use super::layout::Block;
use super::state::State;

/// No hole is plugged until it is dropped.
pub(super) struct Rest<'a>(&'a Lld);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().holes.resume();
        self.0.plug_holes();
    }
}

impl Lld {
    /// Stages a client's block, if holes are in use; false if it has to join the log.
    pub(super) fn stage(&self, block: Block, data: &Buffer) -> bool {
        let staged = self.state.borrow_mut().stage(block, data);
        if staged {
            edge("a block is staged for a hole");
            self.plug_holes();
        }
        self.settle_holes();
        staged
    }

    /// Starts the writes of staged blocks to holes.
    pub(super) fn plug_holes(&self) {
        loop {
            let next = self.state.borrow_mut().next_plug();
            let (Some(plug), Some(lld)) = (next, self.me.upgrade()) else { return };
            runtime::spawn(async move {
                let (at, ticket) = (lld.layout.extent(plug.hole, 1), plug.ticket.clone());
                let how = Hints { class: Class::Free, ticket: Some(ticket), ..Hints::default() };
                let written = lld.below.write(at, plug.data.clone(), how).await;
                let failed = written.as_ref().is_err_and(|error| error.kind() != ErrorKind::Aborted);
                let threshold = lld.options.threshold;
                let plugged = lld.state.borrow_mut().plugged(plug, written.is_ok(), failed, threshold);
                lld.changed();
                if plugged {
                    lld.seal_if_full(&Hints::default());
                    lld.plug_holes();
                }
            })
            .detach();
        }
    }

    /// Aborts all writes to holes, and waits for them to end; none is started before the result is dropped.
    pub(super) async fn rest_plugs(&self) -> Rest<'_> {
        self.state.borrow_mut().holes.rest();
        let rest = Rest(self);
        self.until(|state| state.holes.at_rest()).await;
        rest
    }

    /// Puts all staged blocks into the log.
    pub(super) async fn log_staged(&self, how: &Hints) -> Result<(), IoError> {
        if mutant::is("lld: a flush does not cover staged blocks") {
            return Ok(());
        }
        let staged = |state: &State, block| state.holes.staged(block).is_some();
        let blocks = self.state.borrow().holes.all_staged();
        for block in blocks {
            if !staged(&self.state.borrow(), block) {
                continue;
            }
            self.admitted(how).await?;
            {
                let state = &mut *self.state.borrow_mut();
                let Some(data) = state.holes.unstage(block) else { continue };
                edge("a flush puts a staged block into the log");
                state.put(block, data);
                state.requested = state.log.sequence;
            }
            self.seal_if_full(how);
        }
        Ok(())
    }

    /// Writes a checkpoint if that makes holes of many dead slots.
    fn settle_holes(&self) {
        let due = {
            let state = &mut *self.state.borrow_mut();
            state.uses_holes() && state.session_begun && state.failed.is_none() && state.holes.settles()
        };
        let Some(lld) = self.me.upgrade().filter(|_| due) else { return };
        runtime::spawn(async move {
            edge("a checkpoint makes holes of dead slots");
            let how = Hints::default();
            {
                let _turn = lld.flushing.exclusive(Extent::new(0, 1), &how).await;
                // If it fails, the next one covers the same.
                let _ = lld.checkpoint(&how).await;
            }
            lld.state.borrow_mut().holes.settled();
            lld.changed();
            lld.plug_holes();
        })
        .detach();
    }
}
