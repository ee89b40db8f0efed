//! A device that is only read: what is written to it stays in memory. For tools that examine a volume.
//!
//! Invariant: nothing reaches the device below. Fault model: as the device's.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::device::{Content, ExtentState, Mark, io};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoFuture, SECTOR_BYTES, Zeroes};

/// See the file's header.
pub struct Overlay {
    below: Rc<dyn BlockDevice>,
    written: RefCell<BTreeMap<u64, Vec<u8>>>,
}

impl Overlay {
    /// An overlay over a device.
    pub fn new(below: Rc<dyn BlockDevice>) -> Overlay {
        Overlay { below, written: RefCell::default() }
    }

    /// Sectors that were written.
    pub fn written(&self) -> u64 {
        self.written.borrow().len() as u64
    }

    fn keep(&self, at: Extent, bytes: &[u8]) {
        let sectors = (at.start.0..).zip(bytes.chunks(SECTOR_BYTES as usize));
        self.written.borrow_mut().extend(sectors.map(|(sector, bytes)| (sector, bytes.to_vec())));
    }
}

impl BlockDevice for Overlay {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let read = self.below.read(at, into, how).await?;
            for (sector, bytes) in self.written.borrow().range(at.start.0..at.end().0) {
                read.put(((sector - at.start.0) * SECTOR_BYTES) as usize, bytes);
            }
            Ok(read)
        })
    }

    fn write(&self, at: Extent, from: Buffer, _: Hints) -> IoFuture<'_, ()> {
        self.keep(at, &from.to_vec());
        io(async { Ok(()) })
    }

    fn flush(&self, _: Hints) -> IoFuture<'_, ()> {
        io(async { Ok(()) })
    }

    fn discard(&self, _: Extent, _: Hints) -> IoFuture<'_, ()> {
        io(async { Ok(()) })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, _: Zeroes) -> IoFuture<'_, ()> {
        self.write(at, Buffer::zeroed(at.bytes()), how)
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move { Ok(vec![ExtentState { extent: at, content: Content::Unknown }]) })
    }

    fn mark(&self) -> IoFuture<'_, Option<Mark>> {
        self.below.mark()
    }
}

#[cfg(test)]
mod tests {
    use seekless_core::runtime::Runtime;
    use seekless_drive::{Disk, QueueOptions, spec};

    use super::*;

    #[test]
    fn what_is_written_is_read_and_does_not_reach_the_device() {
        let run = async {
            let disk: Rc<dyn BlockDevice> =
                Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
            let how = Hints::default;
            let read = async |device: &dyn BlockDevice, at: Extent| {
                device.read(at, Buffer::zeroed(at.bytes()), how()).await.unwrap().to_vec()
            };
            let at = Extent::new(8, 3);
            disk.write(at, Buffer::from_vec(vec![1; 1536]), how()).await.unwrap();
            let overlay = Overlay::new(disk.clone());
            overlay.write(Extent::new(9, 1), Buffer::from_vec(vec![2; 512]), how()).await.unwrap();
            overlay.write_zeroes(Extent::new(10, 1), how(), Zeroes::default()).await.unwrap();
            overlay.flush(how()).await.unwrap();
            let expected = [[1; 512], [2; 512], [0; 512]].concat();
            assert_eq!((read(&overlay, at).await, overlay.written()), (expected, 2));
            assert_eq!(read(&*disk, at).await, vec![1; 1536]);
        };
        Runtime::new(1).run(run).unwrap();
    }
}
