//! The data device with a map: each page in any block (sections 3.2 and 4.3).
//!
//! A write goes to free blocks in the range of its pages, in ascending order, never over a page. A flush makes the map
//! durable, each changed map page in the older of its two copies.
//!
//! Invariants: a map page is written only after the blocks that it names are durable; a block is free only after map
//! pages that do not name it are durable.
//!
//! Fault model: power may fail at any time, and any subset of unflushed sectors may survive; any request may fail. A
//! write that fails leaves its pages as they were. After a failed flush a copy of a map page may be torn, so no map is
//! written any more: every later flush fails.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::join_all;
use seekless_core::device::{Place, io};
use seekless_core::runtime::edge;
use seekless_core::{
    BlockDevice, Buffer, Class, Extent, Geometry, Hints, IoError, IoFuture, Limits, PAGE_BYTES, PAGE_SECTORS,
    RangeLocks, mutant,
};

use super::format::{self, NONE, Shape};
use super::map::{Map, MapWrite};
use super::opening::Opened;
use super::ranges::{Ranges, Run};
use super::read::Part;
use crate::canary::Canary;

/// Pages of a volume, in blocks of the data device.
pub struct Placed {
    pub(super) data: Rc<dyn BlockDevice>,
    flash: Rc<dyn BlockDevice>,
    pub shape: Shape,
    pub identity: u128,
    pub(super) state: RefCell<State>,
    locks: RangeLocks,
    /// Lock of flushes.
    flushing: RangeLocks,
    /// Limits writes in flight, so that there are blocks for each, free or to be freed by a flush.
    room: Limits,
    /// Pages of other data that a read continues through.
    pub(super) read_gap: u64,
    /// Large writes leave a free block after this many pages.
    spread: Option<u64>,
    /// Whether data is hollow.
    pub(super) timing_only: bool,
    canary: Canary,
}

pub(super) struct State {
    pub map: Map,
    ranges: Ranges,
    /// Blocks without a page that durable map pages may still name.
    released: Vec<u64>,
    failed: Option<IoError>,
    counts: Counts,
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
        let (Opened { shape, identity, map, ranges, .. }, canary) = (opened, options.canary());
        // The map may not be durable, if the program ended before its flush: only a durable one may free blocks.
        data.flush(Hints::default()).await?;
        flash.flush(Hints::default()).await?;
        let state = State { map, ranges, released: Vec::new(), failed: None, counts: Counts::default() };
        Ok(Rc::new(Placed {
            data,
            flash,
            shape,
            identity,
            state: RefCell::new(state),
            locks: RangeLocks::new(),
            flushing: RangeLocks::new(),
            room: Limits::new(shape.spare() * PAGE_BYTES, u64::MAX),
            read_gap: options.read_gap.0 / PAGE_BYTES,
            spread: options.spread.then(|| (shape.pages / shape.spare()).max(1)),
            timing_only,
            canary,
        }))
    }

    /// Free blocks, and what was done.
    pub fn counts(&self) -> (u64, Counts) {
        let state = self.state.borrow();
        (state.ranges.free() + state.released.len() as u64, state.counts)
    }

    /// Writes whole pages of one range to free blocks, and maps them there; the caller holds their locks.
    async fn write_pages(&self, at: Extent, from: Buffer, how: &Hints) -> Result<(), IoError> {
        let _room = self.room.admit(&Hints::default(), at.bytes()).await;
        if let Some((run, every)) = self.take_spread(at) {
            return self.write_spread(at, &from, (run, every), how).await;
        }
        let runs = self.take(at, how).await?;
        let mut first = 0;
        let writes = runs.iter().map(|&(block, blocks)| {
            let piece = from.cut_sectors(first, blocks * PAGE_SECTORS);
            first += blocks * PAGE_SECTORS;
            self.data.write(Extent::of_pages(block, blocks), piece, how.clone())
        });
        let written: Result<Vec<()>, IoError> =
            join_all(writes.collect::<Vec<_>>()).await.into_iter().collect();
        let blocks = runs.iter().flat_map(|&(first, blocks)| first..first + blocks);
        if written.is_ok() || self.canary.is("a failed write counts") {
            at.pages().zip(blocks).for_each(|(page, block)| self.remap(page, block as u32));
        } else {
            edge("a write failed: its blocks are free again");
            let ranges = &mut self.state.borrow_mut().ranges;
            blocks.for_each(|block| ranges.release(block));
        }
        written.map(drop)
    }

    /// Takes blocks for the pages of a large write, with free ones between them; the blocks between which, and after how
    /// many pages.
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
        at: Extent,
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
            at.pages().zip(placed).for_each(|(page, block)| self.remap(page, block as u32));
        } else {
            edge("a write failed: its blocks are free again");
        }
        written
    }

    /// Writes part of a page, joined with the rest of it.
    async fn write_part(&self, at: Extent, from: Buffer, how: &Hints) -> Result<(), IoError> {
        edge("part of a block is joined with the rest of it");
        let whole = at.whole_pages();
        let old = Buffer::zeroed(PAGE_BYTES);
        self.read_parts(whole, &old, how).await?;
        self.write_pages(whole, old.with_sectors(at.start.0 - whole.start.0, from), how).await
    }

    /// Takes free blocks for contiguous pages of one range; while there are too few, a flush frees those released. It ends:
    /// with the requests that `room` admitted, those free, released, and taken are as many as the reserve at least.
    async fn take(&self, at: Extent, how: &Hints) -> Result<Vec<Run>, IoError> {
        let blocks = at.page_count();
        loop {
            if let Some(runs) = self.state.borrow_mut().take(&self.shape, at.pages()) {
                return Ok(runs);
            }
            edge("blocks ran out: a flush frees some");
            Box::pin(self.commit(how, |state| state.ranges.free() < blocks)).await?;
        }
    }

    /// Maps a page to this block, or unmaps it.
    fn remap(&self, page: u64, block: u32) {
        let mut state = self.state.borrow_mut();
        let old = state.map.set_block(page, block);
        if old == NONE {
            return;
        }
        if !self.flushing.is_empty() {
            edge("a page moves while the map is written");
        }
        if self.canary.is("a block is free too early") {
            state.ranges.release(u64::from(old));
        } else {
            state.released.push(u64::from(old));
        }
    }

    /// Makes earlier writes durable: the data, then the changed map pages; then blocks released before are free.
    async fn commit(&self, how: &Hints, needed: impl Fn(&State) -> bool) -> Result<(), IoError> {
        if !self.flushing.is_empty() {
            edge("a second flush waits for the first");
        }
        let _turn = self.flushing.exclusive(Extent::new(0, 1), how).await;
        let (writes, released) = {
            let mut state = self.state.borrow_mut();
            if let Some(error) = &state.failed {
                edge("a flush failed: all later ones fail");
                return Err(error.clone());
            }
            if !needed(&state) {
                return Ok(());
            }
            let over = self.canary.is("a map page over the current one");
            let writes = state.map.changes(self.identity, over);
            state.counts.map_pages_written += writes.len() as u64;
            (writes, std::mem::take(&mut state.released))
        };
        // Other tasks may wait for this: not delayed, and not aborted with the request that started it.
        let how = Hints { class: how.class.min(Class::Foreground), ticket: None, fua: false, ..how.clone() };
        let early = self.canary.is("a map before its data");
        let done = async {
            if !early {
                self.data.flush(how.clone()).await?;
            }
            self.write_maps(&writes, &how).await?;
            if early {
                self.data.flush(how.clone()).await?;
            }
            self.flash.flush(how).await
        };
        let done = done.await;
        let state = &mut *self.state.borrow_mut();
        match &done {
            Ok(()) => {
                let twice = mutant::is("proximal: a block is freed twice");
                for block in released {
                    (0..=u32::from(twice)).for_each(|_| state.ranges.release(block));
                }
                state.map.written(&writes);
            }
            Err(error) => state.failed = Some(error.clone()),
        }
        done
    }

    async fn write_maps(&self, writes: &[MapWrite], how: &Hints) -> Result<(), IoError> {
        let write = |write: &MapWrite| {
            let at = format::map_at(write.map, write.copy);
            self.flash.write(at, write.bytes.clone(), how.clone())
        };
        join_all(writes.iter().map(write)).await.into_iter().collect()
    }

    /// Makes everything durable, with each map page in both copies.
    pub async fn stop(&self) -> Result<(), IoError> {
        let how = Hints::default();
        self.commit(&how, |_| true).await?;
        let _turn = self.flushing.exclusive(Extent::new(0, 1), &how).await;
        let writes = {
            let state = self.state.borrow();
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state.map.duplicates(self.identity)
        };
        if writes.is_empty() {
            return Ok(());
        }
        edge("map pages are written to their other copies");
        let copied = async {
            self.write_maps(&writes, &how).await?;
            self.flash.flush(how.clone()).await
        };
        let copied = copied.await;
        let state = &mut *self.state.borrow_mut();
        match &copied {
            Ok(()) => state.map.duplicated(&writes),
            Err(error) => state.failed = Some(error.clone()),
        }
        copied
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
            sectors: self.shape.pages * page,
            volatile_cache: true,
            physical_sectors: page,
            discard_sectors: page,
            ..below
        }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let _held = self.locks.shared(at, &how).await;
            self.read_parts(at, &into, &how).await.map(|()| into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, mut how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            // The flush that makes the map durable covers the blocks too.
            let fua = std::mem::take(&mut how.fua);
            let held = self.locks.exclusive(at.whole_pages(), &how).await;
            let writes = self.pieces(at).into_iter().map(async |part: Extent| {
                let piece = from.cut_sectors(part.start.0 - at.start.0, part.sectors);
                if part == part.whole_pages() {
                    self.write_pages(part, piece, &how).await
                } else {
                    self.write_part(part, piece, &how).await
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
            let held = self.locks.exclusive(at, &how).await;
            let whole = at.split(PAGE_SECTORS).filter(|part| part.sectors == PAGE_SECTORS);
            whole.for_each(|part| self.remap(part.start.page(), NONE));
            drop(held);
            if std::mem::take(&mut how.fua) { self.commit(&how, |_| true).await } else { Ok(()) }
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        for Part { at, there } in self.parts(at) {
            let Some(there) = there else {
                each(at, Place::Nowhere);
                continue;
            };
            let here = |found: Extent| at.start + (found.start.0 - there.start.0);
            self.data.places(there, &mut |found, on| each(Extent { start: here(found), ..found }, on));
        }
    }
}
