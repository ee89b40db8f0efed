//! The freeblock cleaner: begins earlier than the other one, and reads in class `Free`, where it costs nothing.
//!
//! Several segments are asked for at once, in runs of live blocks. Each run is moved as it comes, in any order, into the
//! segment that clients fill too; its write is theirs. When clients have to wait for the cleaner all the same, what is
//! still asked for is withdrawn, and read again as the other cleaner reads, a segment at once: a promoted run would
//! wait for its sectors alone.
//!
//! Invariant: it leaves as many segments free as clients do. Faults: as of the other cleaner.

use futures_util::future::join_all;
use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, Extent, Hints, IoError, Ticket};

use super::Lld;
use super::layout::{Block, Slot};
use super::options::Cleaner;
use super::state::{Admitted, Who};

/// Blocks in the longest run: what has passed under the head is not moved before the rest of its run has.
const RUN: usize = 16;

impl Lld {
    /// Begins if segments are few, and it does not clean already.
    pub(super) fn clean_freely_when_due(&self) {
        let due = self.options.cleaner == Cleaner::Freeblock && self.is_short() && self.cleaning.is_empty();
        let state = &mut *self.state.borrow_mut();
        let Some(lld) = self.me.upgrade().filter(|_| due && state.begun && state.freely.is_none()) else {
            return;
        };
        let ticket = Ticket::new();
        state.freely = Some(ticket.clone());
        runtime::spawn(async move {
            // What fails here is left to the other cleaner.
            let _ = lld.clean_freely(&ticket).await;
            lld.state.borrow_mut().freely = None;
            lld.changed();
        })
        .detach();
    }

    /// Withdraws what it asked for, and waits until it has ended.
    pub(super) async fn take_over(&self) {
        let Some(ticket) = self.state.borrow().freely.clone() else { return };
        edge("the freeblock cleaner is taken over");
        ticket.abort();
        self.changed();
        self.until(|state| state.freely.is_none()).await;
    }

    /// Whether fewer segments are free, or will be, than the freeblock cleaner likes.
    fn is_short(&self) -> bool {
        let state = self.state.borrow();
        let there = state.segments.free() as usize + state.segments.pending().count();
        there < self.options.free_threshold as usize && state.failed.is_none()
    }

    async fn clean_freely(&self, ticket: &Ticket) -> Result<(), IoError> {
        let how = Hints { class: Class::Free, ticket: Some(ticket.clone()), ..Hints::default() };
        while self.is_short() && !ticket.is_aborted() {
            let chosen = self.state.borrow().worth_cleaning(self.options.at_once, u32::MAX);
            let Some(segments) = chosen else { break };
            let before = self.state.borrow().counted.moved;
            self.empty_freely(&segments, &how).await?;
            if self.state.borrow().counted.moved == before {
                break;
            }
            if !ticket.is_aborted() && !self.free_what_is_written(&how).await? {
                self.free_behind_a_checkpoint(&how).await?;
            }
        }
        Ok(())
    }

    /// Where nothing else would free them: a checkpoint.
    async fn free_behind_a_checkpoint(&self, how: &Hints) -> Result<(), IoError> {
        let needed = {
            let state = self.state.borrow();
            state.segments.pending().any(|segment| segment.written > state.disk.sequence)
        };
        if needed {
            let _turn = self.saying.exclusive(Extent::new(0, 1), how).await;
            self.checkpoint(how).await?;
        }
        Ok(())
    }

    /// Moves the live blocks of these segments, as they come.
    async fn empty_freely(&self, segments: &[u32], how: &Hints) -> Result<(), IoError> {
        let mut runs: Vec<(u32, Vec<(Block, Slot)>)> = Vec::new();
        for &segment in segments {
            let state = &mut *self.state.borrow_mut();
            state.segments.get(segment).cleaning = true;
            for (block, slot) in state.live_blocks(segment) {
                match runs.last_mut() {
                    Some((_, run))
                        if run.len() < RUN && run.last().is_some_and(|(_, last)| last + 1 == slot) =>
                    {
                        run.push((block, slot));
                    }
                    _ => runs.push((segment, vec![(block, slot)])),
                }
            }
        }
        let moves = runs.iter().map(|(segment, run)| self.move_run(*segment, run, how));
        let moved: Result<(), IoError> = join_all(moves).await.into_iter().collect();
        for &segment in segments {
            self.state.borrow_mut().segments.get(segment).cleaning = false;
        }
        moved
    }

    async fn move_run(&self, segment: u32, run: &[(Block, Slot)], how: &Hints) -> Result<(), IoError> {
        // Or its blocks could be overwritten, it be used again, and a block come back to the same slot.
        self.pin([segment].into_iter(), 1);
        let read = self.read_live(segment, run, how).await;
        let withdrawn = how.ticket.as_ref().is_some_and(Ticket::is_aborted);
        self.state.borrow_mut().counted.withdrawn += if withdrawn { run.len() as u64 } else { 0 };
        let mut moved = Ok(());
        for (block, slot, data) in read {
            moved = self.move_freely(block, slot, data, how).await;
            if moved.is_err() {
                break;
            }
        }
        self.pin([segment].into_iter(), -1);
        moved
    }

    /// A block joins the segment under construction, if it is where it was and clients can do that too.
    async fn move_freely(&self, block: Block, was: Slot, data: Buffer, how: &Hints) -> Result<(), IoError> {
        let withdrawn = || how.ticket.as_ref().is_some_and(Ticket::is_aborted);
        loop {
            if withdrawn() {
                return Ok(());
            }
            let admitted = {
                let state = &mut *self.state.borrow_mut();
                if state.slots[block as usize] != was {
                    edge("a block is used while it is cleaned: it is not moved");
                    return Ok(());
                }
                state.admit(Who::Client, self.options.threshold)
            };
            match admitted {
                Admitted::Now => break,
                Admitted::No(error) => return Err(error),
                Admitted::InFlight => self.room_in_flight().await,
                Admitted::Begin | Admitted::Clean => {
                    edge("the freeblock cleaner waits for a free segment");
                    let threshold = self.options.threshold;
                    let enough = |state: &super::state::State| state.segments.free() >= threshold;
                    self.until(|state| withdrawn() || enough(state) || state.failed.is_some()).await;
                }
            }
        }
        {
            let state = &mut *self.state.borrow_mut();
            state.put(block, data);
            state.counted.moved += 1;
            state.counted.moved_free += 1;
        }
        self.seal_if_full(&Hints::default());
        Ok(())
    }
}
