//! Deduplication and compression (section 2.2 of the IOLab paper): pages with the same content are stored once, pages
//! of zeroes not at all, and compressed pages share a block.
//!
//! `path` is the path of a request, `map` has the piece of each page and decides when that is durable, `space` counts
//! the pages of each piece, `content` compares and compresses pages; on disk is what `format` says. A page that is
//! written goes to a free piece, never over another one. Invariants: those of `map` and `path`.
//!
//! Fault model: power may fail at any time, and any subset of unflushed sectors may survive; one copy of a sector of
//! the map may rot. Data that rots is not returned, where a page is read whole. A write that fails leaves its page
//! unchanged. After a failed flush every later one fails. Callers do not drop requests before they complete.

mod content;
mod format;
mod map;
mod opening;
mod options;
mod path;
mod space;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use seekless_core::device::{Content, ExtentState, Place, io};
use seekless_core::{
    BlockDevice, Buffer, Counters, Extent, Geometry, Hints, IoError, IoFuture, Layer, Limits, Nanos, Op,
    PAGE_BYTES, PAGE_SECTORS, RangeLocks, SECTOR_BYTES, Zeroes, mutant,
};

use crate::canary::Canary;
use crate::contents;
use crate::registry::{self, Built, Entry};
use map::Map;
pub use options::{CANARIES, Compress, EDGES, Options};

/// Contents of a request that are looked for and stored at once, at most: 1 MiB.
const AT_ONCE: u64 = 256;

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    title: "deduplication",
    readme: include_str!("README.md"),
    edges: EDGES,
    edges_of_tests: options::EDGES_OF_TESTS,
    canaries: CANARIES,
    sealed: true,
    checks_data: |_, _| true,
    shares: true,
    check: |table| registry::parse_options(table, Options::check).map(drop),
    defaults: registry::defaults::<Options>,
    sectors: Some(|table, below| {
        let shape = registry::parse_options(table, Options::check)?.shape(below.sum())?;
        Ok(shape.pages * PAGE_SECTORS)
    }),
    create: Some(|below, table, replace| {
        Box::pin(async move {
            let options = registry::options("dedup", table, Options::check)?;
            contents::create(below.one()?, replace, async |over| {
                Dedup::open(over, &options, true, false).await
            })
            .await
        })
    }),
    ..Entry::new("dedup", "stores pages with the same content once, compressed if wanted", |below, table| {
        Box::pin(async move {
            let options = registry::options("dedup", table, Options::check)?;
            Ok(Built::new(Dedup::open(below.one()?, &options, below.create, below.timing_only).await?))
        })
    })
};

/// The layer.
pub struct Dedup {
    below: Rc<dyn BlockDevice>,
    identity: u128,
    compress: Compress,
    map: RefCell<Map>,
    /// Of pages.
    locks: RangeLocks,
    /// Fingerprints of contents that are being stored.
    storing: RangeLocks,
    /// Held while the map is written.
    committing: RangeLocks,
    /// Limits contents in flight, each of which may take a new piece, or keep one that its last page leaves: so in a
    /// volume that is no larger than its device there is one for each, free or to be freed.
    room: Limits,
    /// Contents of a request that are stored at once.
    at_once: usize,
    /// Pages that were stored already when they were written; and those compared in vain.
    found: Cell<u64>,
    differed: Cell<u64>,
    canary: Canary,
}

impl Dedup {
    /// Opens the volume; with `create`, on a device of zeroes a new one. With `timing_only`, data is hollow.
    ///
    /// # Errors
    /// A device that is too small, damaged metadata, and the device's errors.
    pub async fn open(
        below: Rc<dyn BlockDevice>,
        options: &Options,
        create: bool,
        timing_only: bool,
    ) -> Result<Rc<Dedup>, IoError> {
        let canary = options.canary();
        let opened = opening::open(&below, options, (create, timing_only), &canary).await?;
        let shape = opened.map.shape;
        let spare = shape.blocks.checked_sub(shape.pages).filter(|spare| *spare > 0);
        let room = spare.unwrap_or(u64::MAX);
        Ok(Rc::new(Dedup {
            below,
            identity: opened.identity,
            compress: options.compress,
            map: RefCell::new(opened.map),
            locks: RangeLocks::new(),
            storing: RangeLocks::new(),
            committing: RangeLocks::new(),
            room: Limits::new(room, u64::MAX),
            at_once: room.min(AT_ONCE) as usize,
            found: Cell::default(),
            differed: Cell::default(),
            canary,
        }))
    }

    /// After a change of pages: makes it durable, if the request has to.
    async fn changed(&self, fua: bool, how: &Hints) -> Result<(), IoError> {
        if !fua || self.canary.is("unforced write") {
            return Ok(());
        }
        seekless_core::runtime::edge("a write with FUA writes the map");
        self.commit(how).await
    }

    /// Pages that lie in an extent as a whole are not stored any more.
    fn drop_whole(&self, at: Extent, discards: bool) {
        for part in at.split(PAGE_SECTORS).filter(|part| part.sectors == PAGE_SECTORS) {
            let page = part.start.page();
            let piece = self.map.borrow().piece(page);
            if let Some(piece) =
                piece.filter(|_| discards && self.canary.is("a discard frees what others share"))
            {
                while self.map.borrow().space.pages(piece.at) > 1 {
                    self.map.borrow_mut().leave(&piece, false);
                }
            }
            self.remap(page, None);
        }
    }
}

impl BlockDevice for Dedup {
    fn geometry(&self) -> Geometry {
        Geometry {
            sectors: self.map.borrow().shape.pages * PAGE_SECTORS,
            volatile_cache: true,
            physical_sectors: PAGE_SECTORS,
            discard_sectors: PAGE_SECTORS,
            ..self.below.geometry()
        }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let _held = self.locks.shared(at, &how).await;
            self.read_pages(at, &into, &how).await?;
            Ok(into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, mut how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            // The flush that makes the map durable covers the pieces too.
            let fua = std::mem::take(&mut how.fua);
            let sectors = mutant::is("dedup: a write locks sectors, not pages");
            let held = self.locks.exclusive(if sectors { at } else { at.whole_pages() }, &how).await;
            self.write_pages(at, &from, &how).await?;
            drop(held);
            self.changed(fua, &how).await
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.commit(&how).await })
    }

    /// Whole pages read as zeroes afterwards; partly discarded pages are unchanged.
    fn discard(&self, at: Extent, mut how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let fua = std::mem::take(&mut how.fua);
            let held = self.locks.exclusive(at, &how).await;
            self.drop_whole(at, true);
            drop(held);
            self.changed(fua, &how).await
        })
    }

    fn write_zeroes(&self, at: Extent, mut how: Hints, _: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            let fua = std::mem::take(&mut how.fua);
            let held = self.locks.exclusive(at.whole_pages(), &how).await;
            for part in at.split(PAGE_SECTORS).filter(|part| part.sectors < PAGE_SECTORS) {
                self.write_pages(part, &Buffer::zeroed(part.bytes()), &how).await?;
            }
            self.drop_whole(at, false);
            drop(held);
            self.changed(fua, &how).await
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move {
            let map = self.map.borrow();
            let content = |part: Extent| {
                if map.piece(part.start.page()).is_some() { Content::Data } else { Content::Hole }
            };
            let mut all: Vec<ExtentState> = Vec::new();
            for part in at.split(PAGE_SECTORS) {
                let content = content(part);
                match all.last_mut().filter(|last| last.content == content) {
                    Some(last) => last.extent.sectors += part.sectors,
                    None => all.push(ExtentState { extent: part, content }),
                }
            }
            Ok(all)
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        for part in at.split(PAGE_SECTORS) {
            let piece = self.map.borrow().piece(part.start.page());
            let Some(piece) = piece else {
                each(part, Place::Nowhere);
                continue;
            };
            if piece.is_compressed() {
                each(part, Place::Unknown);
                continue;
            }
            let there = self.place(&piece, part);
            let here = |found: Extent| part.start + (found.start.0 - there.start.0);
            self.below.places(there, &mut |found, on| each(Extent { start: here(found), ..found }, on));
        }
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        let first = at.split(PAGE_SECTORS).next()?;
        let piece = self.map.borrow().piece(first.start.page())?;
        self.below.estimate(op, self.map.borrow().shape.place(&piece), how)
    }
}

impl Layer for Dedup {
    fn counters(&self) -> Counters {
        let map = self.map.borrow();
        let (logical, stored) = (map.counts.pages * PAGE_BYTES, map.counts.sectors * SECTOR_BYTES);
        vec![
            ("logical_bytes", logical),
            ("stored_bytes", stored),
            ("shared_bytes", (map.counts.pages - map.counts.pieces) * PAGE_BYTES),
            ("saved_bytes", logical.saturating_sub(stored)),
            ("free_bytes", map.space.free() * SECTOR_BYTES),
            ("pages_found", self.found.get()),
            ("pages_compared_in_vain", self.differed.get()),
            ("map_sectors_written", map.sectors_written()),
        ]
    }

    /// Identity of the volume, on its device.
    fn identity(&self) -> Option<u128> {
        Some(self.identity)
    }
}
