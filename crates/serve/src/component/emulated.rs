//! A component that is as slow as a simulated drive, in real time; its data is on another component.
//!
//! The drive is the lab's, with its queue, scheduler and caches, on the machine's clock. The drive decides when a
//! request completes, the data component what is read; the later of the two counts. Invariants: the drive gets requests
//! in the order in which they arrive, and no data. Fault model: that of the data component. If the machine wakes the
//! server up late, the drive is slower by that, and never faster.

use std::rc::Rc;

use futures_util::future::try_join;
use seekless_core::device::{ExtentState, Mark, Place, io};
use seekless_core::{BlockDevice, Buffer, Extent, Geometry, Hints, IoError, IoFuture, Nanos, Op, Zeroes};
use seekless_drive::Simulated;

/// See the file's header.
pub struct EmulatedComponent {
    drive: Rc<dyn Simulated>,
    data: Rc<dyn BlockDevice>,
}

impl EmulatedComponent {
    /// `data` at the speed of `drive`, on the drive's first sectors; `data` is no larger than the drive.
    pub fn new(drive: Rc<dyn Simulated>, data: Rc<dyn BlockDevice>) -> EmulatedComponent {
        EmulatedComponent { drive, data }
    }

    /// Writes to both. A write aborted before the drive has it is not written at all.
    async fn write_both(&self, at: Extent, from: Buffer, how: Hints) -> Result<(), IoError> {
        let slow = self.drive.write(at, Buffer::hollow_sectors(at.sectors), how.clone());
        if how.ticket.is_some() {
            slow.await?;
            return self.data.write(at, from, how).await;
        }
        try_join(slow, self.data.write(at, from, how)).await.map(drop)
    }
}

impl BlockDevice for EmulatedComponent {
    fn geometry(&self) -> Geometry {
        let (drive, data) = (self.drive.geometry(), self.data.geometry());
        Geometry {
            sectors: data.sectors,
            logical_sectors: drive.logical_sectors.max(data.logical_sectors),
            physical_sectors: drive.physical_sectors.max(data.physical_sectors),
            volatile_cache: drive.volatile_cache || data.volatile_cache,
            largest_sectors: drive.largest_sectors.min(data.largest_sectors),
            ..drive
        }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let slow = self.drive.read(at, Buffer::hollow_sectors(at.sectors), how.clone());
            if how.verify {
                // Verification reads that wait for free time may be numerous: they hold no data meanwhile.
                slow.await?;
                return self.data.read(at, into, how).await;
            }
            try_join(slow, self.data.read(at, into, how)).await.map(|(_, read)| read)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(self.write_both(at, from, how))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { try_join(self.drive.flush(how.clone()), self.data.flush(how)).await.map(drop) })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.drive.discard(at, how.clone()).await?;
            if self.geometry().discard_sectors == 0 { Ok(()) } else { self.data.discard(at, how).await }
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            // The drive first: it may refuse the request.
            self.drive.write_zeroes(at, how.clone(), zeroes).await?;
            self.data.write_zeroes(at, how, zeroes).await
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        self.data.extents(at)
    }

    fn mark(&self) -> IoFuture<'_, Option<Mark>> {
        self.data.mark()
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        self.drive.places(at, each);
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        self.drive.estimate(op, at, how)
    }
}
