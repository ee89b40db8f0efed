//! The path of a request: reads from the slots of blocks, writes into the open segment.
//!
//! A write completes when its blocks are in memory; flushes make them durable. A partial block is joined with the rest
//! of it first. Requests lock their range; the cleaner does not: it moves a block only if its slot is unchanged since
//! it was read. So a segment being read is pinned, or it could be reused meanwhile.
//!
//! Faults: a failed read fails the request, including a write of part of a block.

use futures_util::future::join;
use seekless_core::runtime::edge;
use seekless_core::{Buffer, Extent, Hints, IoError, PAGE_BYTES, PAGE_SECTORS, mutant};

use super::Lld;
use super::layout::{Block, NONE, Slot};
use super::state::{Admitted, Who};

use crate::join::join_all;

/// Copies the data, since the client may reuse its buffer; hollow buffers stay hollow.
fn owned(data: Buffer) -> Buffer {
    if data.is_hollow() { data } else { Buffer::from_vec(data.to_vec()) }
}

/// Part of a request that is contiguous on the component.
struct Run {
    on: Extent,
    segment: u32,
    /// Slot of its first block.
    slot: Slot,
    /// Offset in the request, in sectors.
    from: u64,
}

impl Run {
    /// Its blocks, as they are read and verified.
    fn whole(&self) -> Extent {
        let parts = mutant::is("lld: parts of blocks are read without their checksums");
        if parts { self.on } else { self.on.whole_pages() }
    }

    /// Numbers of its blocks.
    fn slots(&self) -> std::ops::Range<Slot> {
        self.slot..self.slot + self.on.pages().count() as Slot
    }
}

impl Lld {
    pub(super) async fn read_blocks(&self, at: Extent, into: &Buffer, how: &Hints) -> Result<(), IoError> {
        let runs = self.locate(at, into);
        if runs.is_empty() {
            return Ok(());
        }
        let pins = i32::from(!mutant::is("lld: a read does not pin its segment"));
        self.pin(runs.iter().map(|run| run.segment), pins);
        let reads = runs.iter().map(|run| self.read_run(run, into, how));
        let read: Result<Vec<Buffer>, IoError> = if into.is_hollow() {
            join_all(reads).await.into_iter().collect()
        } else {
            let slots: Vec<Slot> = runs.iter().flat_map(Run::slots).collect();
            join(join_all(reads), self.know_sums(&slots, how)).await.0.into_iter().collect()
        };
        let rotten = |(run, data): (&Run, &Buffer)| self.rotten(run.slot, run.whole(), data).first().copied();
        let rotten = read.as_ref().map_or(None, |read| runs.iter().zip(read).find_map(rotten));
        self.pin(runs.iter().map(|run| run.segment), -pins);
        let read = rotten.map_or(read, |slot| Err(self.rotten_block(slot)))?;
        for (run, data) in runs.iter().zip(read).filter(|(run, data)| data.len() as u64 > run.on.bytes()) {
            let needed = data.cut_sectors(run.on.start.0 % PAGE_SECTORS, run.on.sectors);
            needed.look(|bytes| into.cut_sectors(run.from, run.on.sectors).put(0, bytes));
        }
        Ok(())
    }

    /// Reads the blocks of a run, all of them if only a part is needed: only whole ones have checksums.
    async fn read_run(&self, run: &Run, into: &Buffer, how: &Hints) -> Result<Buffer, IoError> {
        let whole = run.whole();
        if run.on == whole || into.is_hollow() {
            return self.below.read(run.on, into.cut_sectors(run.from, run.on.sectors), how.clone()).await;
        }
        edge("part of a block is read: all of it is verified");
        self.below.read(whole, Buffer::zeroed(whole.bytes()), how.clone()).await
    }

    /// Copies blocks that are in memory, and returns the parts to read.
    fn locate(&self, at: Extent, into: &Buffer) -> Vec<Run> {
        let state = self.state.borrow();
        let mut runs: Vec<Run> = Vec::new();
        for (part, piece) in into.split(at, PAGE_SECTORS) {
            let skip = part.start.0 % PAGE_SECTORS;
            if let Some(staged) = state.holes.staged(part.start.page() as Block) {
                staged.cut_sectors(skip, part.sectors).look(|bytes| piece.put(0, bytes));
                continue;
            }
            let slot = state.slots[part.start.page() as usize];
            if slot == NONE {
                edge("a block that has no place");
                piece.put(0, &[0; PAGE_BYTES as usize][..piece.len()]);
                continue;
            }
            if let Some(held) = state.log.held(slot) {
                edge("a block is read from memory");
                held.cut_sectors(skip, part.sectors).look(|bytes| piece.put(0, bytes));
                continue;
            }
            let block = self.layout.extent(slot, 1);
            let on = Extent { start: block.start + skip, sectors: part.sectors };
            let (segment, from) = (self.layout.segment_of(slot), part.start.0 - at.start.0);
            match runs.last_mut() {
                Some(last)
                    if last.on.end() == on.start
                        && last.from + last.on.sectors == from
                        && last.segment == segment =>
                {
                    last.on.sectors += on.sectors;
                }
                _ => runs.push(Run { on, segment, slot, from }),
            }
        }
        runs
    }

    /// Counts further reads of these segments.
    pub(super) fn pin(&self, segments: impl Iterator<Item = u32>, change: i32) {
        let freed = {
            let state = &mut *self.state.borrow_mut();
            let mut last = false;
            for segment in segments {
                let segment = state.segments.get_mut(segment);
                segment.pins = segment.pins.saturating_add_signed(change);
                last |= segment.pins == 0 && segment.live == 0;
            }
            if last {
                edge("a segment is free when the last read of it ends");
                state.now_durable(0);
            }
            last
        };
        if freed {
            self.changed();
        }
    }

    /// Writes blocks; if `may_wait`, they may be staged in memory until the next flush.
    pub(super) async fn write_blocks(
        &self,
        at: Extent,
        from: &Buffer,
        may_wait: bool,
        how: &Hints,
    ) -> Result<(), IoError> {
        for (part, piece) in from.split(at, PAGE_SECTORS) {
            let whole = part.whole_pages();
            let data = if part == whole {
                piece
            } else {
                edge("part of a block is merged with the rest");
                let old = Buffer::zeroed(PAGE_BYTES);
                if !mutant::is("lld: part of a block is merged with zeroes") {
                    self.read_blocks(whole, &old, how).await?;
                }
                old.with_sectors(part.start.0 - whole.start.0, piece)
            };
            self.put(part.start.page() as Block, owned(data), may_wait, how).await?;
        }
        Ok(())
    }

    /// Adds a client's block to the open segment, or stages it.
    async fn put(&self, block: Block, data: Buffer, may_wait: bool, how: &Hints) -> Result<(), IoError> {
        self.admitted(how).await?;
        if may_wait && self.stage(block, &data) {
            self.state.borrow_mut().counted.blocks += 1;
            return Ok(());
        }
        {
            let state = &mut *self.state.borrow_mut();
            if !mutant::is("lld: a block in the log leaves an older one staged") {
                state.holes.unstage(block);
            }
            state.put(block, data);
            state.requested = state.log.sequence;
            state.counted.blocks += 1;
        }
        self.seal_if_full(how);
        Ok(())
    }

    /// Waits until the open record accepts something of a client, immediately afterwards.
    pub(super) async fn admitted(&self, how: &Hints) -> Result<(), IoError> {
        loop {
            let admitted = self.state.borrow_mut().admit(Who::Client, self.options.threshold);
            match admitted {
                Admitted::Now => return Ok(()),
                Admitted::No(error) => return Err(error),
                Admitted::Begin => self.begin(how).await?,
                Admitted::InFlight => self.room_in_flight().await,
                Admitted::Clean => self.clean(how).await?,
            }
        }
    }

    /// Waits until fewer writes are in flight.
    pub(super) async fn room_in_flight(&self) {
        let in_flight = self.state.borrow().log.in_flight.len();
        self.until(|state| state.log.in_flight.len() < in_flight || state.failed.is_some()).await;
    }

    /// Adds a block to the open segment if it is still in the slot that it was read from; false if there is no room.
    pub(super) async fn move_block(&self, block: Block, was: Slot, data: Buffer) -> Result<bool, IoError> {
        loop {
            let admitted = {
                let state = &mut *self.state.borrow_mut();
                let anyway = mutant::is("lld: a block is moved that was written meanwhile");
                if state.slots[block as usize] != was && !anyway {
                    edge("a block is used while it is cleaned: it is not moved");
                    return Ok(true);
                }
                state.admit(Who::Cleaner, 0)
            };
            match admitted {
                Admitted::Now => {
                    let state = &mut *self.state.borrow_mut();
                    state.put(block, data);
                    state.counted.moved += 1;
                    break;
                }
                Admitted::InFlight => self.room_in_flight().await,
                Admitted::No(error) if self.state.borrow().failed.is_some() => return Err(error),
                _ => return Ok(false),
            }
        }
        self.seal_if_full(&Hints::default());
        Ok(true)
    }

    /// Deletes whole blocks: they read as zeroes from now on.
    pub(super) async fn delete_blocks(&self, at: Extent, how: &Hints) -> Result<(), IoError> {
        let whole = at.split(PAGE_SECTORS).filter(|part| part.sectors == PAGE_SECTORS);
        for block in whole.map(|part| part.start.page() as Block) {
            let nowhere = {
                let state = self.state.borrow();
                let none = mutant::is("lld: zeroes miss a block that is only staged");
                state.slots[block as usize] == NONE && (none || state.holes.staged(block).is_none())
            };
            if nowhere {
                continue;
            }
            self.admitted(how).await?;
            {
                let state = &mut *self.state.borrow_mut();
                if state.delete(block) && !mutant::is("lld: a flush does not cover deletions") {
                    state.requested = state.log.sequence;
                }
            }
            self.seal_if_full(how);
        }
        Ok(())
    }

    /// Writes zeroes to the partial blocks at both ends, as `write_blocks`, and deletes the others.
    pub(super) async fn zero_blocks(&self, at: Extent, may_wait: bool, how: &Hints) -> Result<(), IoError> {
        for part in at.split(PAGE_SECTORS).filter(|part| part.sectors < PAGE_SECTORS) {
            self.write_blocks(part, &Buffer::zeroed(part.bytes()), may_wait, how).await?;
        }
        self.delete_blocks(at, how).await
    }
}
