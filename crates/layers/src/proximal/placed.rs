//! The data device with a map: each page in any block (sections 3.2 and 4.3), and versions of pages.
//!
//! A write goes to free blocks in the range of its pages, in ascending order, never over a page, nor over one that a
//! snapshot sees. A flush makes the map durable ([`super::commit`]).
//!
//! Addresses are those of versions: an epoch, and a page in it. What was written in an epoch is read in this one and
//! all later ones, until it is written again. Each snapshot ends an epoch. The last epoch is the volume's. A clone has
//! an epoch of its own ([`super::clones`]).
//!
//! Invariants: a map page is written only after the blocks that it names are durable; a block is free only after map
//! pages that do not name it are durable.
//!
//! Fault model: power may fail at any time, and any subset of unflushed sectors may survive; any request may fail. A
//! write that fails leaves its pages as they were. Without room it fails: as long as snapshots hold that.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::device::{Place, io};
use seekless_core::runtime::edge;
use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, Gate, GateGuard, Geometry, Hints, IoError, IoFuture, PAGE_BYTES,
    PAGE_SECTORS, RangeLocks, mutant,
};

use super::copies::Copies;
use super::format::{NONE, Record, Shape};
use super::map::Map;
use super::opening::Opened;
use super::ranges::{Ranges, Run};
use super::read::Part;
use super::super_page::Snapshots;
use crate::canary::Canary;
use crate::durable::session::Session;
use crate::join::join_all;

/// Pages of a volume, in blocks of the data device.
pub struct Placed {
    pub(super) data: Rc<dyn BlockDevice>,
    pub(super) flash: Rc<dyn BlockDevice>,
    pub shape: Shape,
    pub identity: u128,
    pub(super) state: RefCell<State>,
    pub(super) session: Session,
    /// Locks of pages, in all epochs.
    pub(super) locks: RangeLocks,
    /// Lock of commits.
    pub(super) flushing: RangeLocks,
    /// Lock of copies, and of the anchor.
    pub(super) copying: RangeLocks,
    pub(super) anchoring: RangeLocks,
    /// Writes that have blocks pass. One that finds none closes it: then those that others replace are released.
    taking: Gate,
    /// Pages of other data that a read continues through.
    pub(super) read_gap: u64,
    /// Large writes leave a free block after this many pages.
    spread: Option<u64>,
    /// Whether data is hollow.
    pub(super) timing_only: bool,
    pub(super) canary: Canary,
}

pub(super) struct State {
    pub map: Map,
    pub ranges: Ranges,
    /// Blocks without a page that durable map pages may still name.
    pub released: Vec<u64>,
    pub snapshots: Snapshots,
    /// Whether they differ from those on flash.
    pub snapshots_changed: bool,
    /// The generation up to which commits of several pages count.
    pub committed: u64,
    /// Current copy and generation of the super page, and whether the other copy holds it too.
    pub super_copy: usize,
    pub super_generation: u64,
    /// The newest generation of any of its sectors.
    pub super_newest: u64,
    pub super_copied: bool,
    /// Whether both copies of it were written.
    pub super_written: bool,
    /// Copies on the data device; none in a volume from before there were any.
    pub copies: Option<Copies>,
    pub failed: Option<IoError>,
    pub counts: Counts,
}

impl State {
    /// Takes free blocks for contiguous pages of one range; `None` if there are too few.
    fn take(&mut self, shape: &Shape, pages: std::ops::Range<u64>) -> Option<Vec<Run>> {
        let blocks = pages.end - pages.start;
        let (runs, moved) = self.ranges.choose(self.near(shape, &pages), blocks)?;
        if moved {
            edge("the range of a page's neighbours is full: another one takes it");
            self.counts.pages_displaced += blocks;
        }
        self.counts.pages_placed += blocks;
        self.counts.data_writes += runs.len() as u64;
        if mutant::is("proximal: a block is taken twice") {
            self.ranges.take(runs[0].0);
        }
        Some(runs)
    }

    /// The block at which pages would best lie: beside the page before or after them, if that is in their range,
    /// otherwise where they would be if the range were filled in order.
    fn near(&self, shape: &Shape, pages: &std::ops::Range<u64>) -> u64 {
        let home = shape.home(pages.start);
        let in_range = |block: &u64| *block / shape.range == home;
        let block = |page: u64| Some(u64::from(self.map.block(page))).filter(in_range);
        let before = pages.start.checked_sub(1).and_then(block).map(|block| block + 1).filter(in_range);
        let after = Some(pages.end).filter(|end| *end < shape.pages).and_then(block);
        let after = after.and_then(|block| block.checked_sub(pages.end - pages.start)).filter(in_range);
        before.or(after).unwrap_or_else(|| home * shape.range + pages.start - shape.home_start(pages.start))
    }

    /// Records that these pages need to be mapped anew in an epoch, at most.
    fn records_for(&self, pages: std::ops::Range<u64>, epoch: u32) -> u64 {
        let is_of_clone = self.snapshots.is_of_clone(epoch);
        let last = if is_of_clone { Some(epoch) } else { self.snapshots.before(epoch) };
        let Some(last) = last else { return 0 };
        pages.filter(|page| !self.map.records.has(*page as u32, last)).count() as u64
    }

    /// Maps a page of an epoch to this block, or unmaps it; the block that nothing sees any more, if one.
    fn remap(&mut self, page: u64, epoch: u32, block: u32, canary: &Canary) -> Option<u64> {
        let number = page as u32;
        if self.snapshots.is_of_clone(epoch) {
            return self.remap_in_clone(number, epoch, block, canary);
        }
        let old = match self.map.records.holder(number, epoch..self.snapshots.floor) {
            Some((last, _)) => {
                edge("a page is destaged for a snapshot");
                self.map.record(|records| records.replace(number, last, block))
            }
            None => self.map.set_block(page, block),
        };
        let last = self.snapshots.before(epoch).filter(|_| old != NONE || block != NONE);
        let last = last.filter(|last| !self.map.records.has(number, *last));
        let Some(last) = last.filter(|_| !canary.is("a block of a snapshot is reused")) else {
            return (old != NONE).then_some(u64::from(old));
        };
        edge("a snapshot keeps the block that a write replaces");
        self.map.record(|records| records.insert(Record { page: number, last, block: old }));
        None
    }
}

/// The error of a write for which there is no room, since snapshots hold it.
fn no_room(at: Extent) -> IoError {
    edge("there is no room: snapshots hold it");
    let why = "found no room for these pages, since snapshots hold the reserve; delete some";
    IoError::new(ErrorKind::NoSpace, "proximal", Some(at), why)
}

/// What was done.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Pages written.
    pub pages_placed: u64,
    /// Pages written to another range than their own.
    pub pages_displaced: u64,
    /// Requests to the data device for them.
    pub data_writes: u64,
    /// Map pages written.
    pub map_pages_written: u64,
}

impl Placed {
    /// The volume over its devices; all that was read is made durable first.
    pub async fn open(
        data: Rc<dyn BlockDevice>,
        flash: Rc<dyn BlockDevice>,
        opened: Opened,
        options: &super::Options,
        timing_only: bool,
    ) -> Result<Rc<Placed>, IoError> {
        let Opened {
            page, current: (super_copy, super_generation, super_copied), map, ranges, anchor, ..
        } = opened;
        let copies = anchor.map(|anchor| Copies::new(anchor, |generation| map.pages.newer(generation)));
        let super_newest = opened.newest;
        let (shape, identity) = (page.shape, page.identity);
        // The map may not be durable, if the program ended before its flush: only a durable one may free blocks.
        data.flush(Hints::default()).await?;
        flash.flush(Hints::default()).await?;
        let state = State {
            map,
            ranges,
            released: Vec::new(),
            snapshots: page.snapshots,
            snapshots_changed: false,
            committed: page.committed,
            super_copy,
            super_generation,
            super_newest,
            super_copied,
            super_written: opened.super_written,
            copies,
            failed: None,
            counts: Counts::default(),
        };
        let placed = Rc::new(Placed {
            data,
            flash,
            shape,
            identity,
            state: RefCell::new(state),
            session: Session::new(opened.session),
            locks: RangeLocks::new(),
            flushing: RangeLocks::new(),
            copying: RangeLocks::new(),
            anchoring: RangeLocks::new(),
            taking: Gate::default(),
            read_gap: options.read_gap.0 / PAGE_BYTES,
            spread: options.spread.then(|| (shape.pages / shape.spare()).max(1)),
            timing_only,
            canary: options.canary(),
        });
        placed.begin_copies().await?;
        Ok(placed)
    }

    /// The epoch of an address, and the place in it.
    pub(super) fn in_epoch(&self, at: Extent) -> (u32, Extent) {
        let (bits, page) = (self.shape.stride_bits(), at.start.page());
        let epoch = page >> bits;
        (epoch as u32, Extent::new(at.start.0 - (epoch << bits) * PAGE_SECTORS, at.sectors))
    }

    /// Free blocks, and what was done.
    pub fn counts(&self) -> (u64, Counts) {
        let state = self.state.borrow();
        let waiting = state.copies.as_ref().map_or(0, |copies| copies.waiting.len());
        (state.ranges.free() + (state.released.len() + waiting) as u64, state.counts)
    }

    /// Writes whole pages of one range to free blocks, and maps them there; the caller holds their locks.
    async fn write_pages(&self, at: Extent, epoch: u32, from: Buffer, how: &Hints) -> Result<(), IoError> {
        let (runs, _taken) = {
            let taken = self.taking.pass().await;
            if let Some((run, every)) = self.take_spread(at) {
                return self.write_spread((at, epoch), &from, (run, every), how).await;
            }
            let runs = self.state.borrow_mut().take(&self.shape, at.pages());
            if let Some(runs) = runs {
                (runs, taken)
            } else {
                drop(taken);
                Box::pin(self.take_alone(at, how)).await?
            }
        };
        let mut first = 0;
        let writes = runs.iter().map(|&(block, blocks)| {
            let piece = from.cut_sectors(first, blocks * PAGE_SECTORS);
            first += blocks * PAGE_SECTORS;
            self.data.write(Extent::of_pages(block, blocks), piece, how.clone())
        });
        let written: Result<Vec<()>, IoError> =
            join_all(writes.collect::<Vec<_>>()).await.into_iter().collect();
        let blocks = runs.iter().flat_map(|&(first, blocks)| first..first + blocks);
        let written = written.map(drop).and_then(|()| self.ensure_records(at, epoch));
        if written.is_ok() || self.canary.is("a failed write counts") {
            at.pages().zip(blocks).for_each(|(page, block)| self.remap(page, epoch, block as u32));
        } else {
            edge("a write failed: its blocks are free again");
            let ranges = &mut self.state.borrow_mut().ranges;
            blocks.for_each(|block| ranges.release(block));
        }
        written
    }

    /// Fails without room for the records that these pages need.
    fn ensure_records(&self, at: Extent, epoch: u32) -> Result<(), IoError> {
        let state = self.state.borrow();
        let fits = state.records_for(at.pages(), epoch) <= state.map.records.room();
        if fits { Ok(()) } else { Err(no_room(at)) }
    }

    /// Takes blocks for the pages of a large write, with free ones between them; the blocks between which, and after
    /// how many pages.
    fn take_spread(&self, at: Extent) -> Option<(Run, u64)> {
        let (every, pages) = (self.spread?, at.page_count());
        let state = &mut *self.state.borrow_mut();
        // More blocks than pages are taken for a while: not while there are few.
        if pages <= every || state.ranges.free() < self.shape.spare() + 2 * pages {
            return None;
        }
        let near = state.near(&self.shape, &at.pages());
        let run = state.ranges.choose_spread(near, pages, every)?;
        edge("a large write leaves free blocks between its pages");
        state.counts.pages_placed += pages;
        state.counts.data_writes += 1;
        Some((run, every))
    }

    /// Writes pages in one request, through the free blocks between them.
    async fn write_spread(
        &self,
        (at, epoch): (Extent, u32),
        from: &Buffer,
        ((first, blocks), every): (Run, u64),
        how: &Hints,
    ) -> Result<(), IoError> {
        let gap = || if from.is_hollow() { Buffer::hollow(PAGE_BYTES) } else { Buffer::zeroed(PAGE_BYTES) };
        let pieces =
            from.split(Extent::new(0, at.sectors), every * PAGE_SECTORS).flat_map(|(part, piece)| {
                let whole = part.page_count() == every;
                std::iter::once(piece).chain(whole.then(gap))
            });
        let data = Buffer::join(pieces);
        let written = self.data.write(Extent::of_pages(first, blocks), data, how.clone()).await;
        let written = written.and_then(|()| self.ensure_records(at, epoch));
        let done = written.is_ok() || self.canary.is("a failed write counts");
        let is_gap = |block: &u64| (block - first) % (every + 1) == every;
        {
            let ranges = &mut self.state.borrow_mut().ranges;
            (first..first + blocks)
                .filter(|block| !done || is_gap(block))
                .for_each(|block| ranges.release(block));
        }
        if done {
            let placed = (first..first + blocks).filter(|block| !is_gap(block));
            at.pages().zip(placed).for_each(|(page, block)| self.remap(page, epoch, block as u32));
        } else {
            edge("a write failed: its blocks are free again");
        }
        written
    }

    /// Writes part of a page, joined with the rest of it.
    async fn write_part(&self, at: Extent, epoch: u32, from: Buffer, how: &Hints) -> Result<(), IoError> {
        edge("part of a block is joined with the rest of it");
        let whole = at.whole_pages();
        let old = Buffer::zeroed(PAGE_BYTES);
        self.read_parts(whole, epoch, &old, how).await?;
        self.write_pages(whole, epoch, old.with_sectors(at.start.0 - whole.start.0, from), how).await
    }

    /// Takes free blocks for contiguous pages of one range when no other write has any that are not mapped yet, after a
    /// commit that frees those released: these and the free ones are the whole reserve, but for what snapshots hold.
    async fn take_alone(&self, at: Extent, how: &Hints) -> Result<(Vec<Run>, GateGuard<'_>), IoError> {
        edge("blocks ran out: a flush frees some");
        let blocks = at.page_count();
        let taken = self.taking.close().await;
        self.commit(how, |state| state.ranges.free() < blocks).await?;
        if self.state.borrow().ranges.free() < blocks {
            // Those that the copies name.
            self.copy(how, || None).await?;
        }
        let runs = self.state.borrow_mut().take(&self.shape, at.pages());
        runs.map(|runs| (runs, taken)).ok_or_else(|| no_room(at))
    }

    /// Maps a page of an epoch to this block, or unmaps it.
    fn remap(&self, page: u64, epoch: u32, block: u32) {
        let mut state = self.state.borrow_mut();
        state.touch(page);
        let Some(old) = state.remap(page, epoch, block, &self.canary) else { return };
        if !self.flushing.is_empty() {
            edge("a page moves while the map is written");
        }
        if self.canary.is("a block is free too early") {
            state.ranges.release(old);
        } else {
            state.released.push(old);
        }
    }

    /// Divides a write into parts of pages, and whole pages of one range, no more than the reserve allows at once.
    fn pieces(&self, at: Extent) -> Vec<Extent> {
        let most = (self.shape.spare() / 2).max(1);
        let mut pieces = Vec::new();
        let mut left = at;
        while left.sectors > 0 {
            let in_page = left.start.0 % PAGE_SECTORS;
            let whole = left.sectors / PAGE_SECTORS;
            let sectors = if in_page > 0 || whole == 0 {
                (PAGE_SECTORS - in_page).min(left.sectors)
            } else {
                let page = left.start.page();
                whole.min(self.shape.home_end(page) - page).min(most) * PAGE_SECTORS
            };
            pieces.push(Extent { sectors, ..left });
            left = Extent { start: left.start + sectors, sectors: left.sectors - sectors };
        }
        pieces
    }
}

impl BlockDevice for Placed {
    fn geometry(&self) -> Geometry {
        let (below, page) = (self.data.geometry(), PAGE_SECTORS);
        Geometry {
            sectors: self.shape.addresses() * page,
            volatile_cache: true,
            physical_sectors: page,
            discard_sectors: page,
            ..below
        }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let (epoch, at) = self.in_epoch(at);
            let _held = self.locks.shared(at, &how).await;
            self.read_parts(at, epoch, &into, &how).await.map(|()| into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, mut how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            // The flush that makes the map durable covers the blocks too.
            let fua = std::mem::take(&mut how.fua);
            let (epoch, at) = self.in_epoch(at);
            let held = self.locks.exclusive(at.whole_pages(), &how).await;
            if self.is_gone(epoch) {
                edge("a page of a deleted clone goes nowhere");
                return Ok(());
            }
            let writes = self.pieces(at).into_iter().map(async |part: Extent| {
                let piece = from.cut_sectors(part.start.0 - at.start.0, part.sectors);
                if part == part.whole_pages() {
                    self.write_pages(part, epoch, piece, &how).await
                } else {
                    self.write_part(part, epoch, piece, &how).await
                }
            });
            join_all(writes).await.into_iter().collect::<Result<(), _>>()?;
            drop(held);
            if fua { self.commit(&how, |_| true).await } else { Ok(()) }
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.commit(&how, |_| true).await })
    }

    /// Whole pages read as zeroes afterwards; partly discarded pages are unchanged.
    fn discard(&self, at: Extent, mut how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let (epoch, at) = self.in_epoch(at);
            let held = self.locks.exclusive(at, &how).await;
            if self.is_gone(epoch) {
                return Ok(());
            }
            let whole = at.split(PAGE_SECTORS).filter(|part| part.sectors == PAGE_SECTORS);
            // Without room for its record a page keeps its contents.
            whole
                .filter(|part| self.ensure_records(*part, epoch).is_ok())
                .for_each(|part| self.remap(part.start.page(), epoch, NONE));
            drop(held);
            if std::mem::take(&mut how.fua) { self.commit(&how, |_| true).await } else { Ok(()) }
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        let (epoch, local) = self.in_epoch(at);
        let outside = at.start.0 - local.start.0;
        for Part { at, there } in self.parts(local, epoch) {
            let at = Extent { start: at.start + outside, ..at };
            let Some(there) = there else {
                each(at, Place::Nowhere);
                continue;
            };
            let here = |found: Extent| at.start + (found.start.0 - there.start.0);
            self.data.places(there, &mut |found, on| each(Extent { start: here(found), ..found }, on));
        }
    }
}
