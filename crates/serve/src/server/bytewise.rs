//! Bytes on a device of blocks: clients ask for any bytes.
//!
//! Invariants: a block of which a part is written keeps the rest. Whoever reads a block to write it back is alone with
//! it: all other writes of the device go through here too, whole blocks beside each other. While nobody is here who may
//! write parts of blocks there are no locks to take: that is nearly always. Fault model: as the device's; of a write
//! that fails any blocks may have been written, and nothing beside it is lost.

use std::cell::Cell;
use std::rc::Rc;

use seekless_core::device::ExtentState;
use seekless_core::gate::GateGuard;
use seekless_core::lock::Guard;
use seekless_core::{
    BlockDevice, Buffer, Extent, Gate, Geometry, Hints, IoError, RangeLocks, SECTOR_BYTES, Zeroes,
};

use super::written::Written;

/// Bytes of a device, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// From this one on.
    pub start: u64,
    /// To the one before this.
    pub end: u64,
}

impl Bytes {
    fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether these are blocks of so many bytes, and no parts of any.
    pub fn are_whole(self, block: u64) -> bool {
        self.start % block == 0 && self.end % block == 0
    }

    /// The blocks that they touch.
    pub fn touched(self, block: u64) -> Extent {
        sectors(self.start / block * block, self.end.next_multiple_of(block))
    }

    /// The blocks that are whole in them, if there are any.
    fn within(self, block: u64) -> Option<Extent> {
        let (start, end) = (self.start.next_multiple_of(block), self.end / block * block);
        (start < end).then(|| sectors(start, end))
    }
}

fn sectors(start: u64, end: u64) -> Extent {
    Extent::new(start / SECTOR_BYTES, (end - start) / SECTOR_BYTES)
}

/// See the file's header. Exports of one device share one of these.
pub struct Bytewise {
    device: Rc<dyn BlockDevice>,
    /// Bytes of a block, and sectors of the largest request: a device that is changed for another has the same, or a
    /// part of the one and more of the other.
    block: u64,
    largest_sectors: u64,
    locks: RangeLocks,
    /// Those who may write parts of blocks.
    careless: Cell<u32>,
    /// Writes without locks are inside.
    unlocked: Gate,
    written: Written,
}

/// Leave to write any bytes, until it is dropped.
pub struct AnyBytes(Rc<Bytewise>);

impl Drop for AnyBytes {
    fn drop(&mut self) {
        self.0.careless.set(self.0.careless.get() - 1);
    }
}

impl Bytewise {
    /// The bytes of this device.
    pub fn new(device: Rc<dyn BlockDevice>) -> Rc<Bytewise> {
        let Geometry { logical_sectors, largest_sectors, .. } = device.geometry();
        let (block, locks, unlocked) = (logical_sectors * SECTOR_BYTES, RangeLocks::new(), Gate::default());
        let (careless, written) = (Cell::new(0), Written::default());
        Rc::new(Bytewise { device, block, largest_sectors, locks, careless, unlocked, written })
    }

    /// Lets somebody write parts of blocks, when all writes without locks have ended. Until then, and from then on,
    /// there are none.
    pub async fn any_bytes(self: &Rc<Self>) -> AnyBytes {
        self.careless.set(self.careless.get() + 1);
        let leave = AnyBytes(self.clone());
        drop(self.unlocked.close().await);
        leave
    }

    /// Blocks that are to be written whole, or in parts.
    async fn hold(&self, at: Bytes, how: &Hints) -> (Option<Guard>, Option<GateGuard<'_>>) {
        let blocks = at.touched(self.block);
        if !at.are_whole(self.block) {
            debug_assert!(self.careless.get() > 0, "nobody was let write parts of blocks");
            return (Some(self.locks.exclusive(blocks, how).await), None);
        }
        if self.careless.get() > 0 {
            return (Some(self.locks.shared(blocks, how).await), None);
        }
        (None, Some(self.unlocked.pass().await))
    }

    /// The device, for what writes nothing.
    pub fn device(&self) -> &dyn BlockDevice {
        &*self.device
    }

    /// What these sectors hold. Others write meanwhile; what they write is told as data.
    pub async fn extents(&self, at: Extent) -> Result<Vec<ExtentState>, IoError> {
        let question = self.written.asks();
        self.device.extents(at).await.map(|found| question.told(found))
    }

    /// Bytes of a block.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// The parts in which the device takes an extent.
    pub fn parts(&self, at: Extent) -> impl Iterator<Item = Extent> + use<> {
        at.split(self.largest_sectors)
    }

    /// Whether these are whole blocks that the device takes in one request.
    pub fn takes(&self, at: Bytes) -> bool {
        at.are_whole(self.block) && self.fits(at.touched(self.block))
    }

    /// These bytes, in a buffer that has room for all blocks that they touch.
    pub async fn read(&self, at: Bytes, mut into: Buffer, how: Hints) -> Result<Buffer, IoError> {
        let blocks = at.touched(self.block);
        if self.fits(blocks) {
            into = self.device.read(blocks, into, how).await?;
        } else {
            for (part, piece) in into.split(blocks, self.largest_sectors) {
                self.device.read(part, piece, how.clone()).await?;
            }
        }
        if blocks.bytes() == at.len() {
            return Ok(into);
        }
        Ok(into.cut((at.start - blocks.start.0 * SECTOR_BYTES) as usize, at.len() as usize))
    }

    /// Takes `from` for these bytes; for parts of blocks somebody has to have leave.
    pub async fn write(&self, at: Bytes, from: Buffer, how: Hints) -> Result<(), IoError> {
        let _held = self.hold(at, &how).await;
        let _writing = self.written.begins(at.touched(self.block));
        if at.are_whole(self.block) {
            return self.write_blocks(at.touched(self.block), from, how).await;
        }
        self.overwrite(at, from, &how).await
    }

    /// These bytes read as zeroes afterwards; as with a write.
    pub async fn write_zeroes(&self, at: Bytes, how: Hints, zeroes: Zeroes) -> Result<(), IoError> {
        let _held = self.hold(at, &how).await;
        let _writing = self.written.begins(at.touched(self.block));
        let Some(whole) = at.within(self.block) else {
            return self.overwrite(at, Buffer::zeroed(at.len()), &how).await;
        };
        for part in self.parts(whole) {
            self.device.write_zeroes(part, how.clone(), zeroes).await?;
        }
        let (start, end) = (whole.start.0 * SECTOR_BYTES, whole.end().0 * SECTOR_BYTES);
        let edges = [Bytes { end: start, ..at }, Bytes { start: end, ..at }];
        for edge in edges.into_iter().filter(|edge| edge.start < edge.end) {
            self.overwrite(edge, Buffer::zeroed(edge.len()), &how).await?;
        }
        Ok(())
    }

    /// The blocks that are whole in these bytes are not needed.
    pub async fn discard(&self, at: Bytes, how: Hints) -> Result<(), IoError> {
        let Some(whole) = at.within(self.block) else { return Ok(()) };
        let bytes = Bytes { start: whole.start.0 * SECTOR_BYTES, end: whole.end().0 * SECTOR_BYTES };
        let _held = self.hold(bytes, &how).await;
        for part in self.parts(whole) {
            self.device.discard(part, how.clone()).await?;
        }
        Ok(())
    }

    /// Writes parts of blocks, for who is alone with them.
    async fn overwrite(&self, at: Bytes, from: Buffer, how: &Hints) -> Result<(), IoError> {
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

    /// Whether the device takes so much at once.
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
