//! Byte-granular access to a device of blocks: clients may send unaligned requests.
//!
//! Invariants: a partial write of a block keeps the remainder. A read-modify-write of a block has exclusive access to
//! it: all other writes of the device go through here too, whole blocks concurrently. As long as no client may write
//! partial blocks, as is usual, no locks are taken. Fault model: as the device's; a failed write may have written any
//! of its blocks, and loses nothing beside it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use seekless_core::device::{ExtentState, View};
use seekless_core::gate::GateGuard;
use seekless_core::lock::Guard;
use seekless_core::{
    BlockDevice, Buffer, Extent, Gate, Geometry, Hints, IoError, RangeLocks, SECTOR_BYTES, Top, Zeroes,
};

use super::write_tracker::WriteTracker;

/// A range of bytes of a device; empty only for requests without a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// End, exclusive.
    pub end: u64,
}

impl ByteRange {
    fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether this is whole blocks of `block` bytes.
    pub fn are_whole(self, block: u64) -> bool {
        self.start % block == 0 && self.end % block == 0
    }

    /// The blocks that it touches.
    pub fn touched(self, block: u64) -> Extent {
        sectors(self.start / block * block, self.end.next_multiple_of(block))
    }

    /// The blocks that lie wholly within it, if any.
    fn within(self, block: u64) -> Option<Extent> {
        let (start, end) = (self.start.next_multiple_of(block), self.end / block * block);
        (start < end).then(|| sectors(start, end))
    }
}

fn sectors(start: u64, end: u64) -> Extent {
    Extent::new(start / SECTOR_BYTES, (end - start) / SECTOR_BYTES)
}

/// See the file's header. Shared by all exports of a device.
pub struct ByteAdapter {
    device: Rc<dyn BlockDevice>,
    /// Bytes of a block, and sectors of the largest request. A swap below never makes blocks larger or the largest
    /// request smaller ([`seekless_core::Switch::swap`]).
    block: u64,
    largest_sectors: u64,
    locks: RangeLocks,
    /// Clients that may write partial blocks.
    unaligned_clients: Cell<u32>,
    /// Passed by writes without locks.
    unlocked: Gate,
    writes: WriteTracker,
    /// Those of the snapshots and clones that clients use, by number: all clients of a clone share one.
    views: RefCell<BTreeMap<u32, Weak<ByteAdapter>>>,
}

/// Permission for unaligned writes, until it is dropped.
pub struct UnalignedPermit(Rc<ByteAdapter>);

impl Drop for UnalignedPermit {
    fn drop(&mut self) {
        self.0.unaligned_clients.set(self.0.unaligned_clients.get() - 1);
    }
}

impl ByteAdapter {
    /// Byte-granular access to `device`.
    pub fn new(device: Rc<dyn BlockDevice>) -> Rc<ByteAdapter> {
        let Geometry { logical_sectors, largest_sectors, .. } = device.geometry();
        let (block, locks, unlocked) = (logical_sectors * SECTOR_BYTES, RangeLocks::new(), Gate::default());
        let (unaligned_clients, writes, views) = Default::default();
        Rc::new(ByteAdapter {
            device,
            block,
            largest_sectors,
            locks,
            unaligned_clients,
            unlocked,
            writes,
            views,
        })
    }

    /// Its snapshots and clones, each with the access to it.
    pub fn views(&self) -> Vec<(View, Rc<ByteAdapter>)> {
        let known = &mut *self.views.borrow_mut();
        known.retain(|_, view| view.strong_count() > 0);
        let shared = |view: View| {
            let used = known.get(&view.number).and_then(Weak::upgrade);
            let adapter = used.unwrap_or_else(|| ByteAdapter::new(Rc::new(Top::new(view.device.clone()))));
            known.insert(view.number, Rc::downgrade(&adapter));
            (view, adapter)
        };
        self.device.views().into_iter().map(shared).collect()
    }

    /// Permits unaligned writes, when all writes without locks have ended. Until the permit is dropped, writes take
    /// locks.
    pub async fn allow_unaligned(self: &Rc<Self>) -> UnalignedPermit {
        self.unaligned_clients.set(self.unaligned_clients.get() + 1);
        let permit = UnalignedPermit(self.clone());
        drop(self.unlocked.close().await);
        permit
    }

    /// Locks the blocks of a write, if needed.
    async fn lock(&self, at: ByteRange, how: &Hints) -> (Option<Guard>, Option<GateGuard<'_>>) {
        if at.are_whole(self.block) && self.unaligned_clients.get() == 0 {
            return (None, Some(self.unlocked.pass().await));
        }
        // Boxed, or the future of every write would have room for it.
        (Some(Box::pin(self.lock_blocks(at, how)).await), None)
    }

    /// The lock of a write while clients may write partial blocks.
    async fn lock_blocks(&self, at: ByteRange, how: &Hints) -> Guard {
        let blocks = at.touched(self.block);
        if at.are_whole(self.block) {
            return self.locks.shared(blocks, how).await;
        }
        debug_assert!(self.unaligned_clients.get() > 0, "no client has a permit for unaligned writes");
        self.locks.exclusive(blocks, how).await
    }

    /// The device, for requests that write nothing.
    pub fn device(&self) -> &dyn BlockDevice {
        &*self.device
    }

    /// The content of these sectors. Sectors written concurrently count as data.
    pub async fn extents(&self, at: Extent) -> Result<Vec<ExtentState>, IoError> {
        let query = self.writes.begin_query();
        self.device.extents(at).await.map(|states| query.overlay(states))
    }

    /// Bytes of a block.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Splits an extent into requests that the device takes.
    pub fn parts(&self, at: Extent) -> impl Iterator<Item = Extent> + use<> {
        at.split(self.largest_sectors)
    }

    /// Whether this is whole blocks that the device takes in one request.
    pub fn takes(&self, at: ByteRange) -> bool {
        at.are_whole(self.block) && self.fits(at.touched(self.block))
    }

    /// Reads these bytes; `into` has room for all blocks that they touch.
    pub async fn read(&self, at: ByteRange, into: Buffer, how: Hints) -> Result<Buffer, IoError> {
        if self.takes(at) {
            return self.device.read(at.touched(self.block), into, how).await;
        }
        // Boxed, or the future of every read would have room for it.
        Box::pin(self.read_parts(at, into, how)).await
    }

    /// As `read`, in several requests or of partial blocks.
    async fn read_parts(&self, at: ByteRange, into: Buffer, how: Hints) -> Result<Buffer, IoError> {
        let blocks = at.touched(self.block);
        for (part, piece) in into.split(blocks, self.largest_sectors) {
            self.device.read(part, piece, how.clone()).await?;
        }
        if blocks.bytes() == at.len() {
            return Ok(into);
        }
        Ok(into.cut((at.start - blocks.start.0 * SECTOR_BYTES) as usize, at.len() as usize))
    }

    /// Writes `from`; partial blocks need a permit.
    pub async fn write(&self, at: ByteRange, from: Buffer, how: Hints) -> Result<(), IoError> {
        let _held = self.lock(at, &how).await;
        let _writing = self.writes.begin_write(at.touched(self.block));
        if self.takes(at) {
            return self.device.write(at.touched(self.block), from, how).await;
        }
        // Boxed, or the future of every write would have room for it.
        if at.are_whole(self.block) {
            Box::pin(self.write_blocks(at.touched(self.block), from, how)).await
        } else {
            Box::pin(self.overwrite(at, from, &how)).await
        }
    }

    /// Writes zeroes; partial blocks need a permit.
    pub async fn write_zeroes(&self, at: ByteRange, how: Hints, zeroes: Zeroes) -> Result<(), IoError> {
        let _held = self.lock(at, &how).await;
        let _writing = self.writes.begin_write(at.touched(self.block));
        let Some(whole) = at.within(self.block) else {
            return self.overwrite(at, Buffer::zeroed(at.len()), &how).await;
        };
        for part in self.parts(whole) {
            self.device.write_zeroes(part, how.clone(), zeroes).await?;
        }
        let (start, end) = (whole.start.0 * SECTOR_BYTES, whole.end().0 * SECTOR_BYTES);
        let edges = [ByteRange { end: start, ..at }, ByteRange { start: end, ..at }];
        for edge in edges.into_iter().filter(|edge| edge.start < edge.end) {
            self.overwrite(edge, Buffer::zeroed(edge.len()), &how).await?;
        }
        Ok(())
    }

    /// Discards the blocks that lie wholly within these bytes.
    pub async fn discard(&self, at: ByteRange, how: Hints) -> Result<(), IoError> {
        let Some(whole) = at.within(self.block) else { return Ok(()) };
        let bytes = ByteRange { start: whole.start.0 * SECTOR_BYTES, end: whole.end().0 * SECTOR_BYTES };
        let _held = self.lock(bytes, &how).await;
        for part in self.parts(whole) {
            self.device.discard(part, how.clone()).await?;
        }
        Ok(())
    }

    /// Read-modify-write of partial blocks; the caller holds their lock.
    async fn overwrite(&self, at: ByteRange, from: Buffer, how: &Hints) -> Result<(), IoError> {
        let block = self.block;
        let blocks = at.touched(block);
        let edge = async |start: u64| {
            let one = sectors(start, start + block);
            self.device.read(one, Buffer::zeroed(block), Hints { fua: false, ..how.clone() }).await
        };
        let (first, last) = (at.start / block * block, (at.end - 1) / block * block);
        let before = edge(first).await?.cut(0, (at.start - first) as usize);
        let after = (at.end - last) as usize;
        let after = edge(last).await?.cut(after, block as usize - after);
        self.write_blocks(blocks, Buffer::join([before, from, after]), how.clone()).await
    }

    /// Whether the device takes this extent in one request.
    fn fits(&self, at: Extent) -> bool {
        at.sectors <= self.largest_sectors
    }

    async fn write_blocks(&self, at: Extent, from: Buffer, how: Hints) -> Result<(), IoError> {
        if self.fits(at) {
            return self.device.write(at, from, how).await;
        }
        for (part, piece) in from.split(at, self.largest_sectors) {
            self.device.write(part, piece, how.clone()).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
