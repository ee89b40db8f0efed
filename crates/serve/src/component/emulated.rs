//! A component that answers as slowly as a drive would, in real time: its data is on another one.
//!
//! The drive is the simulated one of the lab, with its queue, its scheduler and its caches; live, its clock is the
//! machine's. It says when a request is answered, the component below says what is read; whoever is later decides.
//! Invariants: the drive sees what is asked for in the order in which it comes, and no bytes. Fault model: that of the
//! component below. A machine that wakes the server up late makes the drive slower by so much, and no faster.

use std::rc::Rc;

use futures_util::future::try_join;
use seekless_core::device::{ExtentState, Mark, Place, io};
use seekless_core::{BlockDevice, Buffer, Extent, Geometry, Hints, IoError, IoFuture, Nanos, Zeroes};
use seekless_drive::Simulated;

/// See the file's header.
pub struct EmulatedComponent {
    drive: Rc<dyn Simulated>,
    data: Rc<dyn BlockDevice>,
}

impl EmulatedComponent {
    /// `data`, which is no larger than the drive, as slow as `drive`: on its first sectors.
    pub fn new(drive: Rc<dyn Simulated>, data: Rc<dyn BlockDevice>) -> EmulatedComponent {
        EmulatedComponent { drive, data }
    }

    /// Both write. What is withdrawn before the drive has it is not written at all.
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
                // There may be very many, as long as they wait for free time.
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
            // The drive first: it may refuse.
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

    fn estimate(&self, at: Extent, how: &Hints) -> Option<Nanos> {
        self.drive.estimate(at, how)
    }
}
