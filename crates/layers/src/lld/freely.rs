//! The freeblock cleaner: starts earlier than the other one, and reads in class `Free`, at no cost.
//!
//! Several segments are requested together, block by block. Each block is moved when it arrives, in any order: into the
//! open segment, written with clients' blocks; or into a segment of its own, block by block in class `Free` too, and
//! the log records its new slot once written. The latter keeps old blocks together, apart from those that clients write
//! often, and less has to be moved. When clients have to wait for the cleaner all the same, it takes over the best
//! segments: their outstanding requests are aborted and read normally, since a promoted block would wait for its
//! sectors alone. The others continue.
//!
//! Invariant: it leaves as many segments free as clients do. Faults: as for the other cleaner.

use std::rc::Rc;

use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, Extent, Hints, IoError, Ticket};

use super::Lld;
use super::layout::{Block, Slot};
use super::options::{self, Cleaner};
use super::state::{Admitted, State, Who};
use super::summary::Moved;
use crate::bytes::sum_of_page;
use crate::join::join_all;

impl Lld {
    /// Starts cleaning as many segments as allowed, if few are free.
    pub(super) fn clean_freely_when_due(&self) {
        let may = self.options.cleaner == Cleaner::Freeblock && self.cleaning.is_empty();
        while let Some((lld, segment, ticket)) = self.next_to_clean(may) {
            runtime::spawn(async move {
                let how = Hints { class: Class::Free, ticket: Some(ticket), ..Hints::default() };
                // Failures are left to the other cleaner.
                let moved = lld.clean_freely(segment, &how).await.unwrap_or(false);
                {
                    let state = &mut *lld.state.borrow_mut();
                    state.segments.get_mut(segment).cleaning = false;
                    state.freely.remove(&segment);
                }
                lld.changed();
                if moved {
                    lld.clean_freely_when_due();
                }
            })
            .detach();
        }
    }

    /// The next segment to clean, if any.
    fn next_to_clean(&self, may: bool) -> Option<(Rc<Lld>, u32, Ticket)> {
        let lld = self.me.upgrade().filter(|_| may)?;
        let state = &mut *self.state.borrow_mut();
        let short = state.spare() < self.options.free_threshold;
        let more = state.freely.len() < self.options.at_once as usize && state.failed.is_none();
        if !short || !more || !state.session_begun || state.resting > 0 {
            return None;
        }
        let segment = *state.worth_cleaning(1, u32::MAX, false)?.first()?;
        // Marked now, or it could be emptied and refilled before its first block is requested.
        let chosen = state.segments.get_mut(segment);
        chosen.cleaning = true;
        chosen.pins += 1;
        let ticket = Ticket::new();
        state.freely.insert(segment, ticket.clone());
        Some((lld, segment, ticket))
    }

    /// Aborts the requests for these segments, and waits for them to end; false if there were none. After a wait the
    /// segments may be empty, or hold other blocks.
    pub(super) async fn take_over(&self, segments: &[u32]) -> bool {
        let tickets: Vec<Ticket> = {
            let state = self.state.borrow();
            segments.iter().filter_map(|segment| state.freely.get(segment).cloned()).collect()
        };
        if tickets.is_empty() {
            return false;
        }
        edge("the freeblock cleaner is taken over");
        tickets.iter().for_each(Ticket::abort);
        self.changed();
        self.until(|state| !segments.iter().any(|segment| state.freely.contains_key(segment))).await;
        true
    }

    /// As `take_over`, for all segments; none is started meanwhile.
    pub(super) async fn take_over_all(&self) {
        self.state.borrow_mut().resting += 1;
        let all: Vec<u32> = self.state.borrow().freely.keys().copied().collect();
        self.take_over(&all).await;
        self.state.borrow_mut().resting -= 1;
    }

    /// Moves the live blocks of a pinned segment as they arrive; false if none could be moved.
    async fn clean_freely(&self, segment: u32, how: &Hints) -> Result<bool, IoError> {
        let live = self.state.borrow().live_blocks(segment);
        let moves = live.iter().map(|&(block, slot)| self.fetch(segment, block, slot, how));
        let moved: Result<Vec<bool>, IoError> = join_all(moves).await.into_iter().collect();
        self.pin([segment].into_iter(), -1);
        let moved = moved?;
        if !aborted(how) && !self.free_what_is_written(how).await? {
            self.free_behind_a_checkpoint(how).await?;
        }
        Ok(moved.contains(&true))
    }

    /// Frees emptied segments by a checkpoint, if nothing else would.
    async fn free_behind_a_checkpoint(&self, how: &Hints) -> Result<(), IoError> {
        let needed = {
            let state = self.state.borrow();
            state.segments.pending().any(|segment| segment.written > state.disk.sequence)
        };
        if needed {
            let _turn = self.flushing.exclusive(Extent::new(0, 1), how).await;
            self.checkpoint(how).await?;
        }
        Ok(())
    }

    /// Moves a block when it arrives; false if it does not.
    async fn fetch(&self, segment: u32, block: Block, slot: Slot, how: &Hints) -> Result<bool, IoError> {
        let read = self.read_live(segment, &[(block, slot)], how).await.pop();
        let moved = match read {
            Some((block, slot, data)) => match self.write_apart(block, slot, &data, how).await {
                Some(moved) => self.say_moved(moved, slot, &data, how).await,
                None => self.move_freely(block, slot, data, how).await,
            },
            None => Ok(false),
        };
        self.state.borrow_mut().counted.aborted += u64::from(matches!(moved, Ok(false)) && aborted(how));
        moved
    }

    /// Writes a block to the segment for moved blocks; `None` if there is none, or the write is aborted or fails.
    async fn write_apart(&self, block: Block, was: Slot, data: &Buffer, how: &Hints) -> Option<Moved> {
        let slot = {
            let state = &mut *self.state.borrow_mut();
            let apart = self.options.moved == options::Moved::Apart && !aborted(how);
            if !apart || state.slots[block as usize] != was || state.failed.is_some() {
                return None;
            }
            // With too many writes outstanding, blocks go with those of clients instead.
            let behind = state.spare() < self.options.free_threshold * 3 / 4;
            let slot = if behind { None } else { state.slot_apart(self.options.threshold) };
            if slot.is_none() {
                edge("there is no segment to move blocks to: they join the log");
            }
            slot?
        };
        let written = self.below.write(self.layout.extent(slot, 1), data.clone(), how.clone()).await;
        if written.is_err() {
            self.came(slot);
            return None;
        }
        Some(Moved { block, slot, sum: sum_of_page(data) })
    }

    /// Records the new slot of a block in the log, if it is still current.
    async fn say_moved(&self, moved: Moved, was: Slot, data: &Buffer, how: &Hints) -> Result<bool, IoError> {
        let admitted = self.admitted_freely(moved.block, was, how).await;
        if matches!(admitted, Ok(Some(true))) {
            let state = &mut *self.state.borrow_mut();
            state.moved(moved, data.is_hollow());
            state.counted.moved += 1;
            state.counted.moved_free += 1;
            state.counted.moved_apart += 1;
        }
        self.came(moved.slot);
        self.seal_if_full(&Hints::default());
        admitted.map(|admitted| admitted.is_some())
    }

    /// The write to a slot has ended, or will not happen.
    fn came(&self, slot: Slot) {
        self.state.borrow_mut().came(self.layout.segment_of(slot));
        self.changed();
    }

    /// Adds a block to the open segment, if it is unchanged and clients may do the same, or the cleaner that they wait
    /// for takes over; false if it is left where it is.
    async fn move_freely(&self, block: Block, was: Slot, data: Buffer, how: &Hints) -> Result<bool, IoError> {
        let admitted = self.admitted_freely(block, was, how).await?;
        if admitted == Some(true) {
            let state = &mut *self.state.borrow_mut();
            state.put(block, data);
            state.counted.moved += 1;
            state.counted.moved_free += 1;
        }
        self.seal_if_full(&Hints::default());
        Ok(admitted.is_some())
    }

    /// Waits until part of a block can join the open record; `Some(false)` if it is not in its slot any more, `None` if
    /// it is to be left there.
    async fn admitted_freely(&self, block: Block, was: Slot, how: &Hints) -> Result<Option<bool>, IoError> {
        loop {
            let admitted = {
                let state = &mut *self.state.borrow_mut();
                // The last free segments are for blocks of segments that the other cleaner has chosen: it has room for
                // all of these, and for no others.
                if aborted(how) && (self.cleaning.is_empty() || state.resting > 0) {
                    return Ok(None);
                }
                if state.slots[block as usize] != was {
                    edge("a block is used while it is cleaned: it is not moved");
                    return Ok(Some(false));
                }
                state.admit(if aborted(how) { Who::Cleaner } else { Who::Client }, self.options.threshold)
            };
            match admitted {
                Admitted::Now => return Ok(Some(true)),
                Admitted::No(error) if self.state.borrow().failed.is_some() => return Err(error),
                Admitted::No(_) => return Ok(None),
                Admitted::InFlight => self.room_in_flight().await,
                Admitted::Begin | Admitted::Clean => {
                    edge("the freeblock cleaner waits for a free segment");
                    let threshold = self.options.threshold;
                    let enough = |state: &State| state.segments.free() >= threshold;
                    self.until(|state| aborted(how) || enough(state) || state.failed.is_some()).await;
                }
            }
        }
    }
}

/// Whether the request was aborted.
fn aborted(how: &Hints) -> bool {
    how.ticket.as_ref().is_some_and(Ticket::is_aborted)
}
