//! The freeblock cleaner: begins earlier than the other one, and reads in class `Free`, where it costs nothing.
//!
//! Several segments are asked for at once, in runs of live blocks. Each run is moved as it comes, in any order, into the
//! segment that clients fill too; its write is theirs. When clients have to wait for the cleaner all the same, what is
//! still asked for is withdrawn, and read again as the other cleaner reads, a segment at once: a promoted run would
//! wait for its sectors alone.
//!
//! Invariant: it leaves as many segments free as clients do. Faults: as of the other cleaner.

use std::rc::Rc;

use futures_util::future::join_all;
use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, Extent, Hints, IoError, Ticket};

use super::Lld;
use super::layout::{Block, Slot};
use super::options::Cleaner;
use super::state::{Admitted, Who};

/// Blocks in the longest run: what has passed under the head is not moved before the rest of its run has.
const RUN: usize = 16;

/// What the freeblock cleaner is at.
pub struct Freely {
    /// Of all that it asks for.
    ticket: Ticket,
    /// Segments that are being cleaned.
    segments: u32,
}

impl Lld {
    /// Begins with as many segments as it may, if few are free.
    pub(super) fn clean_freely_when_due(&self) {
        let may = self.options.cleaner == Cleaner::Freeblock && self.cleaning.is_empty();
        while let Some((lld, segment, ticket)) = self.next_to_clean(may) {
            runtime::spawn(async move {
                let how = Hints { class: Class::Free, ticket: Some(ticket), ..Hints::default() };
                // What fails here is left to the other cleaner.
                let moved = lld.clean_freely(segment, &how).await.unwrap_or(false);
                {
                    let state = &mut *lld.state.borrow_mut();
                    state.segments.get(segment).cleaning = false;
                    let left = |freely: &mut Freely| {
                        freely.segments -= 1;
                        freely.segments > 0
                    };
                    state.freely =
                        state.freely.take().and_then(|mut freely| left(&mut freely).then_some(freely));
                }
                lld.changed();
                if moved {
                    lld.clean_freely_when_due();
                }
            })
            .detach();
        }
    }

    /// A segment to clean now, if there is one: it is counted.
    fn next_to_clean(&self, may: bool) -> Option<(Rc<Lld>, u32, Ticket)> {
        let lld = self.me.upgrade().filter(|_| may)?;
        let state = &mut *self.state.borrow_mut();
        let at_work = state.freely.as_ref().map_or(0, |freely| freely.segments);
        let withdrawn = state.freely.as_ref().is_some_and(|freely| freely.ticket.is_aborted());
        let there = state.segments.free() as usize + state.segments.pending().count();
        let short = there < self.options.free_threshold as usize && at_work < self.options.at_once;
        if !short || withdrawn || !state.begun || state.failed.is_some() {
            return None;
        }
        let segment = *state.worth_cleaning(1, u32::MAX)?.first()?;
        state.segments.get(segment).cleaning = true;
        let freely = state.freely.get_or_insert_with(|| Freely { ticket: Ticket::new(), segments: 0 });
        freely.segments += 1;
        Some((lld, segment, freely.ticket.clone()))
    }

    /// Withdraws what it asked for, and waits until it has ended.
    pub(super) async fn take_over(&self) {
        let ticket = self.state.borrow().freely.as_ref().map(|freely| freely.ticket.clone());
        let Some(ticket) = ticket else { return };
        edge("the freeblock cleaner is taken over");
        ticket.abort();
        self.changed();
        self.until(|state| state.freely.is_none()).await;
    }

    /// Moves the live blocks of a segment, as they come; false if none of them could be.
    async fn clean_freely(&self, segment: u32, how: &Hints) -> Result<bool, IoError> {
        let mut runs: Vec<Vec<(Block, Slot)>> = Vec::new();
        for (block, slot) in self.state.borrow().live_blocks(segment) {
            match runs.last_mut() {
                Some(run) if run.len() < RUN && run.last().is_some_and(|(_, last)| last + 1 == slot) => {
                    run.push((block, slot));
                }
                _ => runs.push(vec![(block, slot)]),
            }
        }
        let moves = runs.iter().map(|run| self.move_run(segment, run, how));
        let moved: Vec<bool> = join_all(moves).await.into_iter().collect::<Result<_, _>>()?;
        let withdrawn = how.ticket.as_ref().is_some_and(Ticket::is_aborted);
        if !withdrawn && !self.free_what_is_written(how).await? {
            self.free_behind_a_checkpoint(how).await?;
        }
        Ok(moved.contains(&true))
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

    /// Whether all of a run was read.
    async fn move_run(&self, segment: u32, run: &[(Block, Slot)], how: &Hints) -> Result<bool, IoError> {
        // Or its blocks could be overwritten, it be used again, and a block come back to the same slot.
        self.pin([segment].into_iter(), 1);
        let read = self.read_live(segment, run, how).await;
        let withdrawn = how.ticket.as_ref().is_some_and(Ticket::is_aborted);
        self.state.borrow_mut().counted.withdrawn += if withdrawn { run.len() as u64 } else { 0 };
        let all = read.len() == run.len();
        let mut moved = Ok(());
        for (block, slot, data) in read {
            moved = self.move_freely(block, slot, data, how).await;
            if moved.is_err() {
                break;
            }
        }
        self.pin([segment].into_iter(), -1);
        moved.map(|()| all)
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
