//! A page mapper: the smallest layer that keeps a map on disk. An example for who writes a first one.
//!
//! Each page lies in any slot; a write goes to a free one. A flush makes the map durable, in the home of the two
//! that is the older. Invariants: a slot is written again only after a map that does not name it is durable; a
//! map is written only after the slots that it names are durable. Fault model: power may go at any time, and any
//! sectors of what was not flushed may survive; then the last map that is whole counts, which is that of the last
//! flush, or of one that was not answered.

mod options;
mod table;

use std::cell::RefCell;
use std::rc::Rc;

use crate::canary::Canary;
pub use options::{CANARIES, Options};
use seekless_core::device::{Place, io};
use seekless_core::lock::{Mode, RangeLocks};
use seekless_core::runtime::edge;
use seekless_core::{
    BlockDevice, Buffer, Class, Counters, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, Layer,
    PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES,
};
use table::NONE;

/// The rare places of its code, which an exploration has to reach.
pub const EDGES: &[&str] = &[
    "torn home: the other counts",
    "slots ran out: a flush frees some",
    "part of a page that lies nowhere",
    "write over a page that is being flushed",
    "discard of a page that is being flushed",
    "second flush waits for the first",
    "a write failed: its slot is free again",
    "a flush failed: all later ones fail",
];

/// The mapper.
pub struct Mapper {
    below: Rc<dyn BlockDevice>,
    pages: u64,
    home_pages: u64,
    state: RefCell<State>,
    locks: RangeLocks,
    /// One flush at a time.
    flushing: RangeLocks,
    canary: Canary,
}

struct State {
    slots: Vec<u32>,
    free: Vec<u32>,
    /// Slots that only a map still names that may be the durable one.
    released: Vec<u32>,
    generation: u64,
    /// A flush that failed is never repeated into success: what it may have lost is nowhere else.
    failed: Option<IoError>,
}

impl Mapper {
    /// Formats `below` for a volume of `pages` pages, all zeroes.
    pub async fn create(below: Rc<dyn BlockDevice>, options: &Options) -> Result<Mapper, IoError> {
        let mapper = Mapper::new(below, options)?;
        let pages = mapper.pages;
        for generation in [1, 2] {
            mapper.write_map(generation, &vec![NONE; pages as usize]).await?;
        }
        mapper.below.flush(Hints::default()).await?;
        mapper.load(2, vec![NONE; pages as usize]);
        Ok(mapper)
    }

    /// Opens what was created before; creates it where there are only zeroes.
    pub async fn open_or_create(below: Rc<dyn BlockDevice>, options: &Options) -> Result<Mapper, IoError> {
        let homes = Extent::of_pages(0, 2 * Mapper::new(below.clone(), options)?.home_pages);
        let bytes = below.read(homes, Buffer::zeroed(homes.bytes()), Hints::default()).await?.to_vec();
        let blank = bytes.iter().all(|&byte| byte == 0);
        if blank { Mapper::create(below, options).await } else { Mapper::open(below, options).await }
    }

    /// Opens what was created before, as the last flush left it.
    pub async fn open(below: Rc<dyn BlockDevice>, options: &Options) -> Result<Mapper, IoError> {
        let mapper = Mapper::new(below, options)?;
        let mut whole = 0;
        let mut best: Option<(u64, Vec<u32>)> = None;
        for home in 0..2 {
            let at = Extent::of_pages(home * mapper.home_pages, mapper.home_pages);
            let bytes = mapper.below.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await?.to_vec();
            let read = table::decode(&bytes, mapper.pages, mapper.slots(), &mapper.canary);
            whole += u8::from(read.is_some());
            best = best.into_iter().chain(read).max_by_key(|(generation, _)| *generation);
        }
        let why = "found no map that is whole, expected one in two homes";
        let (generation, slots) =
            best.ok_or_else(|| IoError::new(ErrorKind::Corrupt, "mapper", None, why))?;
        if whole == 1 {
            edge("torn home: the other counts");
        }
        mapper.load(generation, slots);
        Ok(mapper)
    }

    fn new(below: Rc<dyn BlockDevice>, options: &Options) -> Result<Mapper, IoError> {
        let refused =
            |refused: crate::Refused| IoError::new(ErrorKind::Invalid, "mapper", None, refused.to_string());
        let pages = options.pages(below.geometry().sectors).map_err(refused)?;
        let home_pages = table::home_pages(pages);
        let state =
            State { slots: Vec::new(), free: Vec::new(), released: Vec::new(), generation: 0, failed: None };
        let (locks, flushing) = (RangeLocks::new(), RangeLocks::new());
        let (state, canary) = (RefCell::new(state), options.canary());
        Ok(Mapper { below, pages, home_pages, state, locks, flushing, canary })
    }

    /// Slots behind the two homes of the map.
    fn slots(&self) -> u64 {
        (self.below.geometry().sectors / PAGE_SECTORS)
            .saturating_sub(2 * self.home_pages)
            .min(u64::from(NONE))
    }

    fn load(&self, generation: u64, slots: Vec<u32>) {
        let mut used = vec![false; self.slots() as usize];
        slots.iter().filter(|&&slot| slot != NONE).for_each(|&slot| used[slot as usize] = true);
        let free = (0..used.len() as u32).rev().filter(|&slot| !used[slot as usize]).collect();
        *self.state.borrow_mut() = State { slots, free, released: Vec::new(), generation, failed: None };
    }

    fn place(&self, slot: u32, within: u64, sectors: u64) -> Extent {
        let first = Extent::of_pages(2 * self.home_pages + u64::from(slot), 1).start;
        Extent { start: first + within, sectors }
    }

    async fn write_map(&self, generation: u64, slots: &[u32]) -> Result<(), IoError> {
        let at = Extent::of_pages((generation % 2) * self.home_pages, self.home_pages);
        self.below.write(at, Buffer::from_vec(table::encode(generation, slots)), Hints::default()).await
    }

    /// The parts of `at` by page: the page, the first sector within it, sectors, sectors of `at` before.
    fn parts(at: Extent) -> impl Iterator<Item = (u64, u64, u64, u64)> {
        at.pages().map(move |page| {
            let start = at.start.0.max(page * PAGE_SECTORS);
            let end = at.end().0.min((page + 1) * PAGE_SECTORS);
            (page, start - page * PAGE_SECTORS, end - start, start - at.start.0)
        })
    }

    async fn read_part(&self, part: (u64, u64, u64, u64), into: &Buffer, how: &Hints) -> Result<(), IoError> {
        let (page, within, sectors, before) = part;
        let slot = self.state.borrow().slots[page as usize];
        let piece = into.cut_sectors(before, sectors);
        if slot == NONE {
            if sectors < PAGE_SECTORS {
                edge("part of a page that lies nowhere");
            }
            piece.put(0, &vec![0; (sectors * SECTOR_BYTES) as usize]);
            return Ok(());
        }
        let slot = self.canary.read_from(page, slot);
        self.below.read(self.place(slot, within, sectors), piece, how.clone()).await.map(drop)
    }

    /// A page goes to a free slot, with what a write does not say as it was.
    async fn write_part(
        &self,
        part: (u64, u64, u64, u64),
        from: &Buffer,
        how: &Hints,
    ) -> Result<(), IoError> {
        let (page, within, sectors, before) = part;
        let mut bytes = from.cut_sectors(before, sectors);
        if sectors < PAGE_SECTORS {
            let whole = Buffer::zeroed(PAGE_BYTES);
            self.read_part((page, 0, PAGE_SECTORS, 0), &whole, how).await?;
            whole.put((within * SECTOR_BYTES) as usize, &bytes.to_vec());
            bytes = whole;
        }
        let slot = self.take_slot().await?;
        let written = self.below.write(self.place(slot, 0, PAGE_SECTORS), bytes, how.clone()).await;
        let mut state = self.state.borrow_mut();
        if let Err(error) = written {
            edge("a write failed: its slot is free again");
            state.free.push(slot);
            return Err(error);
        }
        if !self.flushing.is_empty() && state.slots[page as usize] != NONE {
            edge("write over a page that is being flushed");
        }
        state.map(page, slot, &self.canary);
        Ok(())
    }

    /// A free slot; if there is none, a flush lets go of those that were released.
    async fn take_slot(&self) -> Result<u32, IoError> {
        loop {
            let free = self.state.borrow_mut().free.pop();
            if let Some(slot) = free {
                return Ok(slot);
            }
            if self.state.borrow().released.is_empty() {
                return Err(IoError::new(ErrorKind::NoSpace, "mapper", None, "all slots are being written"));
            }
            edge("slots ran out: a flush frees some");
            self.commit(&Hints::default()).await?;
        }
    }

    /// Makes all that was written before durable: the slots, then the map, then what the old map held is free.
    async fn commit(&self, how: &Hints) -> Result<(), IoError> {
        if !self.flushing.is_empty() {
            edge("second flush waits for the first");
        }
        let _held = self.flushing.lock(Extent::new(0, 1), Mode::Exclusive, Class::Foreground, None).await;
        let (mut slots, released, generation) = {
            let mut state = self.state.borrow_mut();
            if let Some(error) = &state.failed {
                edge("a flush failed: all later ones fail");
                return Err(error.clone());
            }
            (state.slots.clone(), std::mem::take(&mut state.released), state.generation + 1)
        };
        self.canary.lose_entry(generation, &mut slots, NONE);
        let done = async {
            if !self.canary.is("missing flush") {
                self.below.flush(how.clone()).await?;
            }
            self.write_map(generation, &slots).await?;
            self.below.flush(how.clone()).await
        };
        let done = done.await;
        let mut state = self.state.borrow_mut();
        match &done {
            Ok(()) => (state.free.extend(released), state.generation = generation).1,
            Err(error) => state.failed = Some(error.clone()),
        }
        done
    }

    async fn write_all(&self, at: Extent, from: Buffer, how: Hints) -> Result<(), IoError> {
        let whole = Extent::of_pages(at.pages().start, at.pages().end - at.pages().start);
        let held = self.locks.lock(whole, Mode::Exclusive, how.class, how.ticket.clone()).await;
        for part in Mapper::parts(at) {
            self.write_part(part, &from, &how).await?;
        }
        if let Some((at, from)) = self.canary.again(at, &from) {
            for part in Mapper::parts(at) {
                self.write_part(part, &from, &how).await?;
            }
        }
        drop(held);
        if how.fua { self.commit(&how).await } else { Ok(()) }
    }
}

impl State {
    /// A page lies in this slot from now on.
    fn map(&mut self, page: u64, slot: u32, canary: &Canary) {
        let old = std::mem::replace(&mut self.slots[page as usize], slot);
        if old != NONE {
            canary.moved(page, old);
            if canary.is("early reuse") { &mut self.free } else { &mut self.released }.push(old);
        }
    }
}

impl BlockDevice for Mapper {
    fn geometry(&self) -> Geometry {
        let below = self.below.geometry();
        Geometry { sectors: self.pages * PAGE_SECTORS, volatile_cache: true, physical_sectors: 8, ..below }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let _held = self.locks.lock(at, Mode::Shared, how.class, how.ticket.clone()).await;
            for part in Mapper::parts(at) {
                self.read_part(part, &into, &how).await?;
            }
            Ok(into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(self.write_all(at, from, how))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.commit(&how).await })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        for (page, within, sectors, before) in Mapper::parts(at) {
            let part = Extent { start: at.start + before, sectors };
            let slot = self.state.borrow().slots[page as usize];
            if slot == NONE {
                each(part, Place::Nowhere);
            } else {
                let place = self.place(slot, within, sectors);
                let back = |below: Extent| part.start + (below.start.0 - place.start.0);
                self.below.places(place, &mut |p, on| each(Extent { start: back(p), ..p }, on));
            }
        }
    }

    /// Whole pages read as zeroes afterwards; parts of pages stay.
    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let _held = self.locks.lock(at, Mode::Exclusive, how.class, how.ticket.clone()).await;
            for (page, ..) in Mapper::parts(at).filter(|part| part.2 == PAGE_SECTORS) {
                if !self.flushing.is_empty() {
                    edge("discard of a page that is being flushed");
                }
                self.state.borrow_mut().map(page, NONE, &self.canary);
            }
            Ok(())
        })
    }
}

impl Layer for Mapper {
    fn counters(&self) -> Counters {
        let state = self.state.borrow();
        vec![("free_slots", state.free.len() as u64), ("generation", state.generation)]
    }

    fn stop(&self) -> IoFuture<'_, ()> {
        self.flush(Hints::default())
    }

    /// A layer that owns its components' order is left by copying out.
    fn detach(&self) -> IoFuture<'_, ()> {
        let why = "the mapper owns the order of what is below: copy out";
        io(std::future::ready(Err(IoError::new(ErrorKind::Unsupported, "mapper", None, why))))
    }
}

#[cfg(test)]
mod tests;
