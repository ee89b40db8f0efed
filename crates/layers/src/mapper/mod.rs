//! A page mapper: the smallest layer with a map on disk, and an example for writing a layer.
//!
//! Each page is in any slot; a write goes to a free slot, never over durable data. A flush makes the map durable, in
//! the older of its two copies; after a while without writes, and at a stop, the other copy is updated too. Invariants:
//! a map is written only after the slots that it names are durable; a slot is reused only after a map that does not
//! name it is durable.
//!
//! Fault model: power may fail at any time, and any subset of unflushed sectors may survive. Then the newer whole map
//! is current: that of the last flush, or of one that was not acknowledged. A sector of a map may rot: then the other
//! copy is used if it is the same, otherwise the volume is refused. A write that fails leaves its page unchanged. After
//! a failed flush the map in one copy may be torn, so no map is written any more: every later flush fails. Callers do
//! not drop requests before they complete.

mod format;
mod options;
mod sealed;
mod table;

use std::cell::RefCell;
use std::future::Future;
use std::rc::{Rc, Weak};

use seekless_core::device::{Place, io};
use seekless_core::runtime::edge;
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Counters, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture,
    Layer, Lba, Limits, PAGE_BYTES, PAGE_SECTORS, RangeLocks, mutant,
};

use crate::canary::Canary;
use crate::contents::{self, New};
use crate::durable::{Quiet, not_created, region, writable};
use crate::join::join_all;
use format::Format;
pub use options::{CANARIES, EDGES, Options};
use table::{Map, NONE};

/// The mapper.
pub struct Mapper {
    below: Rc<dyn BlockDevice>,
    /// First slot, after the copies of the map.
    slots_at: Lba,
    state: RefCell<State>,
    locks: RangeLocks,
    /// Lock of flushes.
    flushing: RangeLocks,
    /// Limits page writes in flight, so that there is a slot for each, free or to be freed by a flush.
    room: Limits,
    canary: Canary,
    /// Whether the map before the newest was opened, since that was refused: read-only.
    older: bool,
    /// Delay before the map is copied to its other copy.
    quiet: Quiet,
    /// Weak reference to itself, for background tasks.
    me: Weak<Mapper>,
}

struct State {
    map: Map,
    format: Format,
    /// Whether pages have moved since the last map.
    changed: bool,
    /// Slots without a page that the durable map may still name.
    released: Vec<u32>,
    failed: Option<IoError>,
}

impl Mapper {
    /// Opens the volume; with `create`, on zeroes an empty one.
    pub async fn open(
        below: Rc<dyn BlockDevice>,
        options: &Options,
        create: bool,
    ) -> Result<Rc<Mapper>, IoError> {
        let canary = options.canary();
        let (format, map, is_on_disk) = Format::read(&*below, options, &canary).await?;
        if format.is_new() && !create {
            return Err(not_created("mapper", format.copies(map.slots.len() as u64)));
        }
        // The map may not be durable, if the program crashed before its flush: only a durable one may free slots. And a
        // torn one that the device repaired on reading must not come back.
        if !canary.is("unflushed opening") && !options.older {
            below.flush(Hints::default()).await?;
        }
        let pages = map.slots.len() as u64;
        let spare =
            map.free.len() as u64 + map.slots.iter().filter(|&&slot| slot != NONE).count() as u64 - pages;
        let state = State { map, format, changed: !is_on_disk, released: Vec::new(), failed: None };
        let locks = || RangeLocks::new();
        let mapper = Rc::new_cyclic(|me| Mapper {
            below,
            slots_at: format.copies(pages).end(),
            state: RefCell::new(state),
            locks: locks(),
            flushing: locks(),
            room: Limits::new(u64::MAX, spare),
            canary,
            older: options.older,
            quiet: Quiet::default(),
            me: me.clone(),
        });
        if format.lacks_sectors() && !options.older {
            // From now on no sector of either copy is blank.
            match mapper.write_to_both().await {
                // To be read it needs no second copy; flushes fail.
                Err(error) if error.kind() == ErrorKind::ReadOnly && !format.is_new() => {
                    mapper.state.borrow_mut().failed = Some(error);
                }
                written => written?,
            }
        }
        Ok(mapper)
    }

    /// Creates an empty volume, with its map in both copies. What an interrupted creation left is completed; other
    /// contents are refused, unless `replace`: then they are given up.
    ///
    /// # Errors
    /// `Invalid` for contents that are refused and devices that do not suit, and the devices' errors.
    pub async fn create(below: Rc<dyn BlockDevice>, options: &Options, replace: bool) -> Result<(), IoError> {
        let pages = options.pages_of(below.geometry().sectors)?;
        let new = New { key: "over", device: &*below, metadata: sealed::copies(pages), leaves: None };
        contents::claim(&[new], false, replace).await?;
        Mapper::open(below, options, true).await.map(drop)
    }

    /// Makes everything acknowledged durable, with the map in both copies.
    async fn write_to_both(&self) -> Result<(), IoError> {
        self.flush(Hints::default()).await?;
        self.copy(&Hints::default()).await
    }

    /// Whether its map is in sealed sectors: not, in a volume of the first format.
    pub fn is_sealed(&self) -> bool {
        self.state.borrow().format != Format::Old
    }

    fn slot_of(&self, part: Extent) -> u32 {
        self.state.borrow().map.slots[part.start.page() as usize]
    }

    /// Extent of a part of a page in this slot.
    fn place(&self, slot: u32, part: Extent) -> Extent {
        let start = self.slots_at + u64::from(slot) * PAGE_SECTORS + part.start.0 % PAGE_SECTORS;
        Extent { start, ..part }
    }

    async fn read_page(&self, part: Extent, into: Buffer, how: &Hints) -> Result<(), IoError> {
        let slot = self.slot_of(part);
        if slot == NONE {
            edge("a page that has no slot");
            into.put(0, &[0; PAGE_BYTES as usize][..into.len()]);
            return Ok(());
        }
        let slot = self.canary.read_from(part.start.page(), slot);
        self.below.read(self.place(slot, part), into, how.clone()).await.map(drop)
    }

    /// Writes the page to a free slot, joined with its old contents where the write does not cover it.
    async fn write_page(&self, part: Extent, from: Buffer, how: &Hints) -> Result<(), IoError> {
        let (whole, mut bytes) = (part.whole_pages(), from);
        if part != whole {
            let old = Buffer::zeroed(PAGE_BYTES);
            if !mutant::is("mapper: part of a page is merged with zeroes") {
                Box::pin(self.read_page(whole, old.clone(), how)).await?;
            }
            bytes = old.with_sectors(part.start.0 - whole.start.0, bytes);
        }
        let _room = self.room.admit(&Hints::default(), 0).await;
        let slot = self.take_slot(how).await?;
        let written = self.below.write(self.place(slot, whole), bytes, how.clone()).await;
        if written.is_ok() || mutant::is("mapper: a write that failed counts") {
            self.remap(part.start.page(), slot);
        } else {
            edge("a write failed: its slot is the last to be tried again");
            self.state.borrow_mut().map.free.push_front(slot);
        }
        written
    }

    /// Takes a free slot; if there is none, a flush frees those that were released.
    async fn take_slot(&self, how: &Hints) -> Result<u32, IoError> {
        let free = || self.state.borrow_mut().map.free.pop_back();
        if let Some(slot) = free() {
            return Ok(slot);
        }
        edge("slots ran out: a flush frees some");
        // Boxed, like all rare paths: every write would have the space for it otherwise.
        Box::pin(self.commit(how, |state| state.map.free.is_empty())).await?;
        free().ok_or_else(|| IoError::new(ErrorKind::NoSpace, "mapper", None, "a request was not let finish"))
    }

    /// Maps a page to this slot, or unmaps it.
    fn remap(&self, page: u64, slot: u32) {
        let mut state = self.state.borrow_mut();
        state.changed = true;
        let old = std::mem::replace(&mut state.map.slots[page as usize], slot);
        if old == NONE {
            return;
        }
        if !self.flushing.is_empty() {
            edge("a page moves while the map is written");
        }
        self.canary.moved(page, old);
        if self.canary.is("early reuse") {
            state.map.free.push_back(old);
        } else {
            state.released.push(old);
        }
    }

    /// Makes earlier writes durable: the slots, then the map; then the slots released before are free.
    /// False if that was not needed.
    async fn commit(&self, how: &Hints, needed: impl Fn(&State) -> bool) -> Result<bool, IoError> {
        if !self.flushing.is_empty() {
            edge("a second flush waits for the first");
        }
        let _turn = self.flushing.exclusive(Extent::new(0, 1), how).await;
        let (copy, map, released) = {
            let mut state = self.state.borrow_mut();
            if let Some(error) = &state.failed {
                edge("a flush failed: all later ones fail");
                return Err(error.clone());
            }
            if !needed(&state) {
                return Ok(false);
            }
            state.map.generation += 1;
            state.changed = false;
            let (copy, map) = state.format.next(&state.map, &self.canary);
            (copy, map, std::mem::take(&mut state.released))
        };
        // Other tasks may wait for this: not delayed, and not aborted with the request that started it.
        let how = Hints { class: how.class.min(Class::Foreground), ticket: None, ..how.clone() };
        let done = async {
            if !self.canary.is("missing flush") {
                self.below.flush(how.clone()).await?;
            }
            region::write(&*self.below, copy, &map, &how).await?;
            if mutant::is("mapper: the map is written and not flushed") {
                return Ok(());
            }
            self.below.flush(how).await
        };
        let done = done.await;
        let state = &mut *self.state.borrow_mut();
        match &done {
            Ok(()) => {
                if mutant::is("mapper: pages that move while the map is written are not in the next") {
                    state.changed = false;
                }
                state.map.free.extend(released);
                state.format.written();
                self.copy_later(state);
            }
            Err(_) if mutant::is("mapper: a failed flush is forgotten") => {}
            Err(error) => state.failed = Some(error.clone()),
        }
        done.map(|()| true)
    }

    /// Updates the other copy of the map after a while without writes.
    fn copy_later(&self, state: &State) {
        if state.format.lacks_copy() {
            let generation = |mapper: &Mapper| mapper.state.borrow().map.generation;
            self.quiet.wait(self.me.clone(), state.map.generation, generation, async |mapper: &Mapper| {
                // If it fails, the next flush reports that.
                let _ = mapper.copy(&Hints::default()).await;
            });
        }
    }

    /// Writes the durable map to the other copy, unless pages have moved since: then the next flush writes another.
    async fn copy(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.flushing.exclusive(Extent::new(0, 1), how).await;
        let (copy, map) = {
            let state = self.state.borrow();
            let moved =
                state.changed && !mutant::is("mapper: a map that has changed is written as a second copy");
            if moved || state.failed.is_some() || !state.format.lacks_copy() {
                return Ok(());
            }
            edge("the map is written to its other copy too");
            state.format.again(&state.map, &self.canary)
        };
        let copied = async {
            region::write(&*self.below, copy, &map, how).await?;
            self.below.flush(how.clone()).await
        };
        let copied = copied.await;
        let state = &mut *self.state.borrow_mut();
        match &copied {
            Ok(()) => state.format.copied(),
            Err(error) => state.failed = Some(error.clone()),
        }
        copied
    }
}

/// Issues several parts together.
async fn all(parts: impl Iterator<Item = impl Future<Output = Result<(), IoError>>>) -> Result<(), IoError> {
    join_all(parts).await.into_iter().collect()
}

/// Fast path: most requests are within a page, and need no split.
fn within_a_page(at: Extent) -> bool {
    at.whole_pages().sectors == PAGE_SECTORS
}

impl BlockDevice for Mapper {
    fn geometry(&self) -> Geometry {
        let below = self.below.geometry();
        let page = PAGE_SECTORS;
        let sectors = self.state.borrow().map.slots.len() as u64 * page;
        Geometry { sectors, volatile_cache: true, physical_sectors: page, discard_sectors: page, ..below }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let _held = self.locks.shared(at, &how).await;
            if within_a_page(at) {
                self.read_page(at, into.clone(), &how).await?;
                return Ok(into);
            }
            let parts = into.split(at, PAGE_SECTORS).map(|(part, piece)| self.read_page(part, piece, &how));
            Box::pin(all(parts)).await?;
            Ok(into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, mut how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            writable("mapper", self.older)?;
            // The flush that makes the map durable covers the slots too.
            let fua = std::mem::take(&mut how.fua) && !mutant::is("mapper: FUA is dropped");
            let sectors = mutant::is("mapper: a write locks sectors, not pages");
            let held = self.locks.exclusive(if sectors { at } else { at.whole_pages() }, &how).await;
            if within_a_page(at) {
                self.write_page(at, from.clone(), &how).await?;
            } else {
                let parts = from.split(at, PAGE_SECTORS);
                let parts = parts.map(|(part, piece)| self.write_page(part, piece, &how));
                Box::pin(all(parts)).await?;
            }
            drop(held);
            if fua {
                self.flush(how.clone()).await?;
            }
            match self.canary.again(at, &from) {
                Some((at, from)) => self.write(at, from, how).await,
                None => Ok(()),
            }
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            if self.older || self.commit(&how, |state| state.changed).await? {
                return Ok(());
            }
            edge("nothing has changed since the last map: a flush writes none");
            self.below.flush(how).await
        })
    }

    /// Whole pages read as zeroes afterwards; partly discarded pages are unchanged.
    fn discard(&self, at: Extent, mut how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            writable("mapper", self.older)?;
            let held = self.locks.exclusive(at, &how).await;
            let whole = at.split(PAGE_SECTORS).filter(|part| part.sectors == PAGE_SECTORS);
            whole.for_each(|part| self.remap(part.start.page(), NONE));
            drop(held);
            let fua = std::mem::take(&mut how.fua) && !mutant::is("mapper: FUA of a discard is dropped");
            if fua { self.flush(how).await } else { Ok(()) }
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        for part in at.split(PAGE_SECTORS) {
            let slot = self.slot_of(part);
            if slot == NONE {
                each(part, Place::Nowhere);
                continue;
            }
            let there = self.place(slot, part);
            let here = |found: Extent| part.start + (found.start.0 - there.start.0);
            self.below.places(there, &mut |found, on| each(Extent { start: here(found), ..found }, on));
        }
    }
}

impl Layer for Mapper {
    fn counters(&self) -> Counters {
        let state = self.state.borrow();
        vec![("free_slots", state.map.free.len() as u64), ("generation", state.map.generation)]
    }

    fn stop(&self) -> IoFuture<'_, ()> {
        io(self.write_to_both())
    }

    /// The map.
    fn write_back(&self, account: Account) -> IoFuture<'_, ()> {
        self.flush(Hints { account, ..Hints::default() })
    }
}

#[cfg(test)]
mod tests;
