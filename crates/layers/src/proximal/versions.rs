//! The volume and its snapshots over the staging area: each version of a page has an address, which is its epoch and
//! its page. So a staged page of a snapshot is not overwritten in the staging area, and is destaged for the snapshot.
//!
//! The volume is written in the current epoch, a clone in one of its own. A page is read in the newest epoch in which
//! it was written and is staged; but in its own epoch if it is on the data device in a newer version: there, what was
//! written in earlier epochs is found.
//! A page of a clone is read as its base reads it, unless it was written in the clone.
//!
//! Invariants: epochs before the current one are not written, except those of clones, which nothing else sees; those
//! with staged pages are known.
//!
//! Fault model: as of `placed` and of BORG's store.

mod copying;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use seekless_core::device::{Place, View, io};
use seekless_core::lock::Guard;
use seekless_core::runtime::edge;
use seekless_core::{
    Account, BlockDevice, Buffer, ErrorKind, Extent, Gate, Geometry, Hints, IoError, IoFuture, Layer, Nanos,
    Op, PAGE_SECTORS, RangeLocks, Zeroes, mutant,
};

use super::clones::gone;
use super::placed::Placed;
use crate::Borg;
use crate::canary::Canary;
use crate::join::join_all;

/// See the file's header.
pub struct Versions {
    pub placed: Rc<Placed>,
    pub staging: Rc<Borg>,
    /// Epochs before the current one with staged pages, in ascending order.
    earlier: RefCell<Vec<u32>>,
    /// Pages destaged when that was looked at last.
    destaged: Cell<u64>,
    /// Writes pass; a new snapshot closes it.
    gate: Gate,
    /// The error of a snapshot of which it is open whether it was taken: from then on nothing is written, as either the
    /// snapshot would change, or what is written would be staged in an epoch, or for a clone, that is to come.
    failed: RefCell<Option<IoError>>,
    /// Locks of pages that are joined with what is staged for a snapshot.
    joins: RangeLocks,
    /// Lock of changes of the snapshots.
    changing: RangeLocks,
    canary: Canary,
}

/// A snapshot or clone as a device.
struct Seen {
    versions: Rc<Versions>,
    number: u32,
    is_clone: bool,
}

impl Versions {
    /// The versions in these devices. Deletions of snapshots that a crash interrupted are carried on.
    pub async fn open(
        placed: Rc<Placed>,
        staging: Rc<Borg>,
        canary: Canary,
    ) -> Result<Rc<Versions>, IoError> {
        let versions = Versions {
            placed,
            staging,
            earlier: RefCell::default(),
            destaged: Cell::new(0),
            gate: Gate::default(),
            failed: RefCell::default(),
            joins: RangeLocks::new(),
            changing: RangeLocks::new(),
            canary,
        };
        versions.look();
        // What is staged and was never flushed may be read now, and then has to be found again, or be marked.
        versions.placed.touch_pages(versions.staged().map(|(_, page)| page));
        versions.placed.mark(&Hints::default()).await?;
        versions.settle(&Hints::default()).await?;
        // Opening again has nothing to copy then.
        versions.placed.begin_copies().await?;
        let versions = Rc::new(versions);
        versions.copy_after_drains();
        Ok(versions)
    }

    /// The address of a part of the volume in an epoch.
    fn address(&self, at: Extent, epoch: u32) -> Extent {
        let first = u64::from(epoch) << self.placed.shape.stride_bits();
        Extent { start: at.start + first * PAGE_SECTORS, ..at }
    }

    /// Epochs and pages of what is staged.
    fn staged(&self) -> impl Iterator<Item = (u32, u64)> + use<> {
        let bits = self.placed.shape.stride_bits();
        let pages = self.staging.pages_copied().into_iter();
        pages.map(move |address| ((address >> bits) as u32, address & ((1 << bits) - 1)))
    }

    /// Pages that are staged in epochs after the snapshot `before`, up to this one.
    fn staged_between(&self, before: Option<u32>, number: u32) -> BTreeSet<u64> {
        let between = self
            .staged()
            .filter(|(epoch, _)| before.is_none_or(|before| *epoch > before) && *epoch <= number);
        between.map(|(_, page)| page).collect()
    }

    /// Looks which earlier epochs have staged pages.
    fn look(&self) {
        let current = self.placed.epoch();
        self.destaged.set(self.pages_destaged());
        let earlier: BTreeSet<u32> =
            self.staged().map(|(epoch, _)| epoch).filter(|epoch| *epoch < current).collect();
        self.earlier.replace(earlier.into_iter().collect());
    }

    fn pages_destaged(&self) -> u64 {
        let counters = self.staging.counters();
        counters.iter().find(|(name, _)| *name == "pages_drained").map_or(0, |(_, count)| *count)
    }

    /// Epochs of the volume that a view sees besides its own: those before the returned one.
    fn below(&self, view: u32) -> u32 {
        self.placed.base(view).map_or(view, |base| base + 1)
    }

    /// Divides a part of the volume by the epochs in which its pages are read, in this view.
    fn parts(&self, at: Extent, view: u32) -> Vec<(Extent, u32)> {
        let earlier = self.earlier_of(view);
        if earlier.is_empty() {
            return vec![(at, view)];
        }
        let mut parts: Vec<(Extent, u32)> = Vec::with_capacity(1);
        for part in at.split(PAGE_SECTORS) {
            let epoch = self.epoch_of(part.start.page(), view, &earlier);
            match parts.last_mut() {
                Some((last, same)) if *same == epoch => last.sectors += part.sectors,
                _ => parts.push((part, epoch)),
            }
        }
        parts
    }

    /// The earlier epochs with staged pages that a view sees.
    fn earlier_of(&self, view: u32) -> Vec<u32> {
        let below = self.below(view);
        self.earlier.borrow().iter().copied().filter(|epoch| *epoch < below).collect()
    }

    /// The epoch in which a view reads a page; the `earlier` ones that it sees have staged pages.
    fn epoch_of(&self, page: u64, view: u32, earlier: &[u32]) -> u32 {
        let is_staged = |epoch: u32| {
            let at = self.address(Extent::of_pages(page, 1), epoch);
            self.staging.has_copy(at.start.page())
        };
        let base = self.placed.base(view);
        if is_staged(view) || base.is_some() && self.placed.is_own(page, view) {
            return view;
        }
        let newest = earlier.iter().rev().copied().find(|epoch| is_staged(*epoch));
        newest.filter(|epoch| !self.placed.is_newer(page, *epoch, base.unwrap_or(view))).unwrap_or(view)
    }

    async fn read_in(&self, view: u32, at: Extent, into: Buffer, how: Hints) -> Result<Buffer, IoError> {
        let below = self.below(view);
        if self.earlier.borrow().first().is_none_or(|first| *first >= below) {
            return self.staging.read(self.address(at, view), into, how).await;
        }
        let parts = self.parts(at, view);
        let reads = parts.into_iter().map(|(part, epoch)| {
            let piece = into.cut_sectors(part.start.0 - at.start.0, part.sectors);
            self.staging.read(self.address(part, epoch), piece, how.clone())
        });
        join_all(reads).await.into_iter().collect::<Result<Vec<_>, _>>().map(|_| into)
    }

    /// The epoch that is written: the current one, or that of a clone, if it is there. No snapshot is being taken.
    fn written(&self, clone: Option<u32>, at: Extent) -> Result<u32, IoError> {
        if let Some(error) = &*self.failed.borrow() {
            edge("a snapshot failed: nothing is written any more");
            return Err(error.clone());
        }
        match clone {
            Some(number) if self.placed.base(number).is_none() => Err(gone(at, "clone")),
            Some(number) => Ok(number),
            None => Ok(self.placed.epoch()),
        }
    }

    /// Writes in the current epoch, or in a clone. Part of a page that is staged in an earlier epoch is joined with the
    /// rest of it.
    async fn write_in(
        &self,
        clone: Option<u32>,
        at: Extent,
        from: Buffer,
        how: Hints,
    ) -> Result<(), IoError> {
        let written = self.stage(clone, at, from, how.clone()).await;
        self.touched(at, &how).await?;
        written
    }

    async fn stage(&self, clone: Option<u32>, at: Extent, from: Buffer, how: Hints) -> Result<(), IoError> {
        self.placed.begin(&how).await?;
        let _passed = self.gate.pass().await;
        let into = self.written(clone, at)?;
        let Some(_joining) = self.lock_joins(at, &how).await else {
            return self.staging.write(self.address(at, into), from, how).await;
        };
        let whole = at.whole_pages();
        let pages = [whole.start.page(), whole.end().page() - 1];
        let earlier = self.earlier_of(into);
        let from_earlier = |page: u64| self.epoch_of(page, into, &earlier) != into;
        let (mut at, mut from) = (at, from);
        let pages = if mutant::is("proximal: the last page of a write is not joined") {
            [pages[0]; 2]
        } else {
            pages
        };
        if at != whole && pages.into_iter().any(from_earlier) {
            edge("part of a page is joined with what is staged for a snapshot");
            let hollow = self.placed.timing_only || from.is_hollow();
            let old =
                if hollow { Buffer::hollow_sectors(whole.sectors) } else { Buffer::zeroed(whole.bytes()) };
            let joined = Hints { fua: false, ..how.clone() };
            let old = self.read_in(into, whole, old, joined).await?;
            (at, from) = (whole, old.with_sectors(at.start.0 - whole.start.0, from));
        }
        let mistaken = clone.is_none() && self.canary.is("a staged page of a snapshot is that of the volume");
        let over = earlier.last().filter(|_| mistaken);
        self.staging.write(self.address(at, over.copied().unwrap_or(into)), from, how).await
    }

    async fn discard_in(&self, clone: Option<u32>, at: Extent, how: Hints) -> Result<(), IoError> {
        self.placed.begin(&how).await?;
        let _passed = self.gate.pass().await;
        let into = self.written(clone, at)?;
        // A write that joins a page would bring back what it read before.
        let _joining = self.lock_joins(at, &how).await;
        let done = self.staging.discard(self.address(at, into), how.clone()).await;
        self.touched(at, &how).await?;
        done
    }

    /// Locks pages that are changed, if pages may be joined.
    async fn lock_joins(&self, at: Extent, how: &Hints) -> Option<Guard> {
        let joins = !self.earlier.borrow().is_empty() || !self.joins.is_empty();
        if joins { Some(self.joins.exclusive(at.whole_pages(), how).await) } else { None }
    }

    async fn write_zeroes_in(
        &self,
        clone: Option<u32>,
        at: Extent,
        how: Hints,
        zeroes: Zeroes,
    ) -> Result<(), IoError> {
        if zeroes.only_if_fast {
            let why = "zeroes are written as data";
            return Err(IoError::new(ErrorKind::Unsupported, "proximal", Some(at), why));
        }
        let hollow = self.placed.timing_only;
        let data = if hollow { Buffer::hollow_sectors(at.sectors) } else { Buffer::zeroed(at.bytes()) };
        self.write_in(clone, at, data, how).await
    }

    async fn flush_all(&self, how: Hints) -> Result<(), IoError> {
        self.flush_marked(&how).await?;
        if !self.earlier.borrow().is_empty() && self.destaged.get() != self.pages_destaged() {
            self.look();
        }
        Ok(())
    }

    /// Takes a snapshot: writes that have ended are in it, those that have not begun are not. They wait for it.
    pub async fn create(&self, name: &str, how: &Hints) -> Result<(), IoError> {
        self.end_epoch(name, how).await?;
        self.copy_later().await;
        Ok(())
    }

    async fn end_epoch(&self, name: &str, how: &Hints) -> Result<(), IoError> {
        self.placed.begin(how).await?;
        let _changing = self.changing.exclusive(Extent::new(0, 1), how).await;
        self.placed.check_new(name, 1)?;
        let _alone = self.gate.close().await;
        self.end_writes(how).await?;
        self.taken(self.placed.end_epoch(name, how).await)
    }

    /// Takes a clone of a snapshot, or of the present state, as a snapshot is taken.
    pub async fn clone_of(&self, name: &str, from: Option<&str>, how: &Hints) -> Result<(), IoError> {
        self.begin_clone(name, from, how).await?;
        self.copy_later().await;
        Ok(())
    }

    async fn begin_clone(&self, name: &str, from: Option<&str>, how: &Hints) -> Result<(), IoError> {
        self.placed.begin(how).await?;
        let _changing = self.changing.exclusive(Extent::new(0, 1), how).await;
        self.placed.check_new(name, if from.is_some() { 1 } else { 2 })?;
        let from = from.map(|from| self.placed.cloned(from)).transpose()?;
        let _alone = self.gate.close().await;
        if from.is_none() {
            self.end_writes(how).await?;
        }
        self.taken(self.placed.begin_clone(name, from, how).await)
    }

    /// Makes durable what was written in the epoch that ends. Writes that failed are not carried out later, so that a
    /// page does not change after it was read to be joined.
    async fn end_writes(&self, how: &Hints) -> Result<(), IoError> {
        if !mutant::is("proximal: failed writes go on after a snapshot") {
            self.staging.rewrite_failed_copies(how).await?;
        }
        self.flush_marked(how).await
    }

    /// Ends the creation of a snapshot or clone.
    fn taken(&self, done: Result<(), IoError>) -> Result<(), IoError> {
        if let Err(error) = &done {
            self.failed.replace(Some(error.clone()));
        }
        self.look();
        done
    }

    /// Deletes a snapshot or clone, and destages the pages staged in its epoch: other snapshots may see some of them.
    pub async fn delete(&self, name: &str, how: &Hints) -> Result<(), IoError> {
        self.placed.begin(how).await?;
        let staged = {
            let _changing = self.changing.exclusive(Extent::new(0, 1), how).await;
            if let Some(clone) = self.placed.clone_number(name) {
                self.delete_clone(clone, how).await?
            } else {
                let (number, before) = self.placed.numbers(name)?;
                if self.placed.has_clones(number) {
                    return self.placed.hide(number, how).await;
                }
                self.delete_staged(number, before, how).await?
            }
        };
        if !staged {
            self.copy_later().await;
            return Ok(());
        }
        edge("a deleted snapshot has pages that are staged");
        // If it fails, the deletion goes on after the next one.
        drop(self.destage(how.account).await);
        Ok(())
    }

    /// Deletes a snapshot; whether pages are staged in its epoch.
    async fn delete_staged(&self, number: u32, before: Option<u32>, how: &Hints) -> Result<bool, IoError> {
        let staged = self.staged_between(before, number);
        self.placed.forget(number, &staged, how).await?;
        Ok(!staged.is_empty())
    }

    /// Deletes a clone, and its base if nothing else sees that; whether pages of one of them are staged.
    async fn delete_clone(&self, number: u32, how: &Hints) -> Result<bool, IoError> {
        let base = self.placed.forget_clone(number, how).await?;
        let mut staged = self.staged().any(|(epoch, _)| epoch == number);
        let deleted = self.placed.deleted().into_iter().find(|(number, _)| Some(*number) == base);
        if let Some((base, before)) = deleted {
            staged |= self.delete_staged(base, before, how).await?;
        }
        Ok(staged)
    }

    /// Destages everything.
    pub async fn destage(&self, account: Account) -> Result<(), IoError> {
        let done = self.staging.write_back(account).await;
        self.look();
        self.settle(&Hints { account, ..Hints::default() }).await?;
        self.copy(&Hints { account, ..Hints::default() }).await?;
        done
    }

    /// Forgets snapshots that were deleted, of whose epochs nothing is staged any more.
    async fn settle(&self, how: &Hints) -> Result<(), IoError> {
        if self.placed.deleted().is_empty() {
            return Ok(());
        }
        let _changing = self.changing.exclusive(Extent::new(0, 1), how).await;
        for (number, before) in self.placed.deleted() {
            let staged = self.staged_between(before, number);
            if staged.is_empty() {
                self.placed.forget(number, &staged, how).await?;
            }
        }
        Ok(())
    }

    /// Its snapshots and clones as devices.
    pub fn views(self: &Rc<Self>) -> Vec<View> {
        let view = |(name, number): (String, u32), is_clone: bool| {
            let device = Rc::new(Seen { versions: self.clone(), number, is_clone });
            View { name, device, is_clone, number }
        };
        let snapshots = self.placed.snapshots().into_iter().map(|one| view(one, false));
        snapshots.chain(self.placed.clones().into_iter().map(|one| view(one, true))).collect()
    }
}

impl BlockDevice for Versions {
    fn geometry(&self) -> Geometry {
        Geometry { sectors: self.placed.shape.pages * PAGE_SECTORS, ..self.staging.geometry() }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(self.read_in(self.placed.epoch(), at, into, how))
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(self.write_in(None, at, from, how))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(self.flush_all(how))
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(self.discard_in(None, at, how))
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(self.write_zeroes_in(None, at, how, zeroes))
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        for (part, epoch) in self.parts(at, self.placed.epoch()) {
            let there = self.address(part, epoch);
            self.staging.places(there, &mut |found, on| {
                each(Extent { start: part.start + (found.start.0 - there.start.0), ..found }, on);
            });
        }
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        self.staging.estimate(op, self.address(at, self.placed.epoch()), how)
    }
}

impl Seen {
    fn ensure_exists(&self, at: Extent) -> Result<(), IoError> {
        let placed = &self.versions.placed;
        let (there, what) = if self.is_clone {
            (placed.base(self.number).is_some(), "clone")
        } else {
            (placed.has_snapshot(self.number), "snapshot")
        };
        if there { Ok(()) } else { Err(gone(at, what)) }
    }

    /// The clone to which a request goes.
    fn writable(&self, at: Extent) -> Result<Option<u32>, IoError> {
        let why = "found a write to a snapshot, expected reads";
        let read_only = || IoError::new(ErrorKind::ReadOnly, "proximal", Some(at), why);
        self.is_clone.then_some(Some(self.number)).ok_or_else(read_only)
    }
}

impl BlockDevice for Seen {
    fn geometry(&self) -> Geometry {
        let all = self.versions.geometry();
        if self.is_clone { all } else { Geometry { discard_sectors: 0, ..all } }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            self.ensure_exists(at)?;
            let read = self.versions.read_in(self.number, at, into, how).await?;
            // If it was deleted meanwhile, something newer may have been read.
            self.ensure_exists(at).map(|()| read)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.versions.write_in(self.writable(at)?, at, from, how).await })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { if self.is_clone { self.versions.flush_all(how).await } else { Ok(()) } })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.versions.discard_in(self.writable(at)?, at, how).await })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move { self.versions.write_zeroes_in(self.writable(at)?, at, how, zeroes).await })
    }
}
