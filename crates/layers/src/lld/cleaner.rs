//! The cleaner: selects segments by cost and benefit, and moves their live blocks into the open segment.
//!
//! Selection is Sprite LFS's: (1 - u) * age / (1 + u), where u is the live share of a segment, and its age is the
//! amount written since. A writer that needs a segment when fewer than the threshold are free waits for the cleaner,
//! which meanwhile has the log for itself: it moves blocks to segments of its own, so that after a crash in between
//! either the source segment is empty or the target segment is.
//!
//! Faults: blocks that cannot be read stay where they are, and their segment is not cleaned again. Moved blocks are not
//! lost: the old slot is reused only after the new one is durable.

use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, ErrorKind, Extent, Hints, IoError, PAGE_SECTORS, mutant};

use super::Lld;
use super::layout::{Block, NONE, Slot};
use super::segments::Segment;
use super::state::{State, no_room};

use crate::join::join_all;

/// Live blocks of a segment, and their slots.
pub(super) type Live = Vec<(Block, Slot)>;

impl State {
    /// The live blocks of a segment.
    pub(super) fn live_blocks(&self, segment: u32) -> Live {
        let slots = self.layout.slots_of(segment);
        slots.map(|slot| (self.owners[slot as usize], slot)).filter(|(block, _)| *block != NONE).collect()
    }

    /// Segments that can be cleaned; with `waiting`, also those that the freeblock cleaner works on.
    fn candidates(&self, behind_checkpoint: bool, waiting: bool) -> Vec<(u32, &Segment)> {
        let committed = self.log.committed();
        let last = if behind_checkpoint { committed.min(self.disk.sequence) } else { committed };
        let room = self.layout.room();
        let can = |(number, segment): &(u32, &Segment)| {
            let pays =
                segment.live > 0 && segment.live < room && segment.written <= last && segment.coming == 0;
            pays && !segment.spared && (waiting || !segment.cleaning) && !self.is_filled_now(*number)
        };
        self.segments.iter().filter(can).collect()
    }

    /// The best of these candidates, limited by number and by live blocks in total.
    fn best(&self, mut candidates: Vec<(u32, &Segment)>, most: u32, room: u32, by_age: bool) -> Vec<u32> {
        let all = f64::from(self.layout.room());
        let value = |segment: &Segment| {
            let live = f64::from(segment.live);
            let age = (self.log.sequence - segment.written) as f64;
            if by_age { (all - live) * age / (all + live) } else { all - live }
        };
        // Equal scores are resolved by segment number.
        candidates.sort_by(|(one, a), (other, b)| value(b).total_cmp(&value(a)).then(one.cmp(other)));
        let mut left = room;
        let mut chosen = Vec::new();
        for (number, segment) in candidates {
            if chosen.len() < most as usize && segment.live <= left {
                left -= segment.live;
                chosen.push(number);
            }
        }
        chosen
    }

    /// Blocks that are dead in these segments.
    fn dead(&self, segments: &[u32]) -> u32 {
        segments.iter().map(|&segment| self.layout.room() - self.segments.get(segment).live).sum()
    }

    /// Segments that are worth cleaning into this room: preferably those before the checkpoint, which need no other one
    /// to become free.
    pub(super) fn worth_cleaning(&self, most: u32, room: u32, waiting: bool) -> Option<Vec<u32>> {
        // The summaries of moved blocks and of the open record.
        let gains = |chosen: &Vec<u32>| self.dead(chosen) > 2;
        let tries = [(true, true), (false, true)].into_iter();
        let mut tries =
            tries.map(|(behind, by_age)| self.best(self.candidates(behind, waiting), most, room, by_age));
        tries.find(gains)
    }

    /// If there are none: the emptiest ones.
    fn emptiest(&self, most: u32) -> Vec<u32> {
        edge("only the emptiest segments are worth cleaning");
        self.best(self.candidates(false, true), most.max(2), self.room_to_move(), false)
    }

    /// Blocks that can be moved before a segment has to become free.
    pub(super) fn room_to_move(&self) -> u32 {
        self.log.room() + self.segments.free() * self.layout.room()
    }
}

impl Lld {
    /// Waits until enough segments are free.
    pub(super) async fn clean(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.cleaning.exclusive(Extent::new(0, 1), how).await;
        if self.state.borrow().segments.free() >= self.options.threshold {
            return Ok(());
        }
        edge("a client waits for the cleaner");
        let _rest = self.rest_plugs().await;
        // Blocks written by clients earlier are theirs to wait for.
        let given = self.state.borrow().log.sequence - 1;
        self.until(|state| state.log.committed() >= given || state.failed.is_some()).await;
        let began = runtime::now();
        let how = Hints { ticket: None, fua: false, ..how.clone() };
        let mut passes = 0;
        let cleaned = loop {
            if self.state.borrow().segments.free() >= self.options.threshold {
                break Ok(());
            }
            passes += 1;
            if passes > 4 * self.layout.segments + 16 {
                break Err(no_room());
            }
            match self.clean_some(&how).await {
                Ok(true) => {}
                // The freeblock cleaner's moves have used the room meanwhile, and emptied segments.
                Ok(false) if self.state.borrow().is_anything_left() => self.take_over_all().await,
                Ok(false) => break Err(no_room()),
                Err(error) => break Err(error),
            }
        };
        let counted = &mut self.state.borrow_mut().counted;
        counted.waits += 1;
        counted.waited_ns += runtime::now().since(began).0;
        cleaned
    }

    /// One step towards more free segments; false if there is none.
    async fn clean_some(&self, how: &Hints) -> Result<bool, IoError> {
        if self.free_what_is_written(how).await? {
            return Ok(true);
        }
        let (segments, enough, coming) = {
            let state = self.state.borrow();
            let pending = state.segments.pending().filter(|segment| segment.pins == 0).count() as u32;
            let chosen = state.worth_cleaning(self.options.at_once, state.room_to_move(), true);
            let coming = chosen.is_none() && state.is_anything_coming();
            let chosen = chosen.unwrap_or_else(|| state.emptiest(self.options.at_once));
            (chosen, pending + state.segments.free() >= self.options.threshold, coming)
        };
        if coming {
            edge("a segment that the freeblock cleaner fills is cleaned too");
            self.state.borrow_mut().close_apart();
            self.take_over_all().await;
            return Ok(true);
        }
        if enough || segments.is_empty() {
            return self.free_all(how).await;
        }
        let waited = self.take_over(&segments).await;
        if waited && !mutant::is("lld: segments are not chosen anew after a wait") {
            edge("segments are chosen anew after a wait for the freeblock cleaner");
            return Ok(true);
        }
        self.empty(&segments, how).await
    }

    /// Frees empty segments, if that needs only writes in flight and a flush.
    pub(super) async fn free_what_is_written(&self, how: &Hints) -> Result<bool, IoError> {
        let sealed = {
            let state = self.state.borrow();
            let ready = |segment: &&Segment| {
                let written = segment.emptied < state.log.sequence && segment.written <= state.disk.sequence;
                written && segment.pins == 0
            };
            state.segments.pending().filter(ready).map(|segment| segment.emptied).min()
        };
        let Some(sealed) = sealed.filter(|_| !self.state.borrow().checkpoint_pending) else {
            return Ok(false);
        };
        self.make_durable(sealed, how).await?;
        Ok(true)
    }

    /// Frees all segments that are empty.
    async fn free_all(&self, how: &Hints) -> Result<bool, IoError> {
        // Requests for blocks of empty segments may never be served: nothing else is pending.
        let empty: Vec<u32> = {
            let state = self.state.borrow();
            state.freely.keys().copied().filter(|&segment| state.segments.get(segment).live == 0).collect()
        };
        if self.take_over(&empty).await {
            edge("empty segments became free while the freeblock cleaner was taken over");
            return Ok(true);
        }
        let (newest, behind, pinned) = {
            let state = self.state.borrow();
            let pending = || state.segments.pending();
            let Some(newest) = pending().map(|segment| segment.emptied).max() else { return Ok(false) };
            let behind = pending().all(|segment| segment.written <= state.disk.sequence);
            (newest, behind, state.segments.all_pending_pinned())
        };
        if pinned {
            let free = self.state.borrow().segments.free();
            // One that becomes free may be filled before this is polled: then there may be no pending segment.
            self.until(|state| {
                state.segments.free() > free || !state.segments.all_pending_pinned() || state.failed.is_some()
            })
            .await;
            return Ok(true);
        }
        if behind {
            self.make_durable(newest, how).await?;
        } else {
            edge("empty segments are free only behind a checkpoint");
            let _turn = self.flushing.exclusive(Extent::new(0, 1), how).await;
            self.checkpoint(how).await?;
        }
        Ok(true)
    }

    /// Moves the live blocks of these segments; false if none could be, and no segment is spared from now on.
    async fn empty(&self, segments: &[u32], how: &Hints) -> Result<bool, IoError> {
        let live: Vec<Live> = {
            let state = &mut *self.state.borrow_mut();
            for &segment in segments {
                state.segments.get_mut(segment).cleaning = true;
            }
            segments.iter().map(|&segment| state.live_blocks(segment)).collect()
        };
        self.pin(segments.iter().copied(), 1);
        let reads = segments.iter().zip(&live).map(|(&segment, live)| self.read_live(segment, live, how));
        let read = join_all(reads).await;
        let moved = self.move_all(read.into_iter().flatten()).await;
        let mut spares = false;
        for &segment in segments {
            let state = &mut *self.state.borrow_mut();
            let segment = state.segments.get_mut(segment);
            segment.cleaning = false;
            spares |= segment.spared;
        }
        self.pin(segments.iter().copied(), -1);
        Ok(moved? || spares)
    }

    async fn move_all(&self, blocks: impl Iterator<Item = (Block, Slot, Buffer)>) -> Result<bool, IoError> {
        let mut moved = false;
        for (block, slot, data) in blocks {
            if !self.move_block(block, slot, data).await? {
                break;
            }
            moved = true;
        }
        Ok(moved)
    }

    /// Reads live blocks of a pinned segment with one request, or one by one if that fails, as far as they can be read.
    pub(super) async fn read_live(
        &self,
        segment: u32,
        live: &[(Block, Slot)],
        how: &Hints,
    ) -> Vec<(Block, Slot, Buffer)> {
        let (Some(&(_, first)), Some(&(_, last))) = (live.first(), live.last()) else { return Vec::new() };
        let hollow = self.state.borrow().segments.get(segment).hollow;
        let all = self.read_slots(first, last + 1 - first, hollow, how).await;
        if !hollow {
            self.know_sums(&live.iter().map(|(_, slot)| *slot).collect::<Vec<_>>(), how).await;
        }
        let mut blocks = Vec::with_capacity(live.len());
        match all {
            Ok(all) => {
                let cut = |slot: Slot| all.cut_sectors(u64::from(slot - first) * PAGE_SECTORS, PAGE_SECTORS);
                blocks.extend(live.iter().map(|&(block, slot)| (block, slot, cut(slot))));
            }
            Err(error) if error.kind() == ErrorKind::Aborted => {}
            Err(_) => {
                edge("a segment cannot be read at once: block by block");
                for &(block, slot) in live {
                    match self.read_slots(slot, 1, hollow, how).await {
                        Ok(data) => blocks.push((block, slot, data)),
                        Err(error) if error.kind() == ErrorKind::Aborted => {}
                        Err(_) => self.state.borrow_mut().segments.get_mut(segment).spared = true,
                    }
                }
            }
        }
        let read = blocks.len();
        blocks.retain(|(_, slot, data)| self.rotten(*slot, self.layout.extent(*slot, 1), data).is_empty());
        if blocks.len() < read {
            self.state.borrow_mut().segments.get_mut(segment).spared = true;
        }
        blocks
    }

    /// Reads contiguous slots.
    async fn read_slots(
        &self,
        first: Slot,
        slots: u32,
        hollow: bool,
        how: &Hints,
    ) -> Result<Buffer, IoError> {
        let at = self.layout.extent(first, slots);
        let buffer = if hollow { Buffer::hollow_sectors(at.sectors) } else { Buffer::zeroed(at.bytes()) };
        self.state.borrow_mut().counted.read += at.bytes();
        self.below.read(at, buffer.clone(), how.clone()).await.map(|_| buffer)
    }
}
