//! Concatenation of devices: a BOPT in several pieces, an origin around a BOPT.
//!
//! Like a component it does not order requests: callers hold the locks. Fault model: of a request that fails, any parts
//! may have been carried out.

use std::rc::Rc;

use seekless_core::device::{ExtentState, Place, io};
use seekless_core::{
    BlockDevice, Buffer, Extent, Geometry, Hints, IoError, IoFuture, Lba, Modelled, Nanos, Op, Zeroes,
};

use crate::join::join_all;

/// The devices, at least one.
pub struct Joined {
    parts: Vec<Part>,
}

struct Part {
    device: Rc<dyn BlockDevice>,
    /// Start in the concatenation, and the device.
    window: Extent,
}

impl Joined {
    /// Concatenates these devices; `None` if there are none.
    pub fn new(devices: Vec<Rc<dyn BlockDevice>>) -> Option<Joined> {
        let mut start = Lba(0);
        let parts = devices.into_iter().map(|device| {
            let window = Extent { start, sectors: device.geometry().sectors };
            start = window.end();
            Part { device, window }
        });
        Some(parts.collect::<Vec<_>>()).filter(|parts| !parts.is_empty()).map(|parts| Joined { parts })
    }

    /// The parts of an extent: the device, extent on it, and offset in the request, in sectors.
    fn split(&self, at: Extent) -> impl Iterator<Item = (&dyn BlockDevice, Extent, u64)> {
        let behind = self.parts.partition_point(|part| part.window.end() <= at.start);
        self.parts[behind..].iter().take_while(move |part| part.window.start < at.end()).map(move |part| {
            let (from, to) = (at.start.max(part.window.start), at.end().min(part.window.end()));
            let there = Extent::new(from.0 - part.window.start.0, to.0 - from.0);
            (&*part.device, there, from.0 - at.start.0)
        })
    }

    /// Issues all parts together, and waits for all of them.
    async fn all(work: impl Iterator<Item = IoFuture<'_, ()>>) -> Result<(), IoError> {
        join_all(work).await.into_iter().collect()
    }
}

impl BlockDevice for Joined {
    fn geometry(&self) -> Geometry {
        let each = || self.parts.iter().map(|part| part.device.geometry());
        let most = |of: fn(Geometry) -> u64| each().map(of).max().unwrap_or(0);
        Geometry {
            sectors: self.parts.last().map_or(0, |part| part.window.end().0),
            logical_sectors: most(|geometry| geometry.logical_sectors),
            physical_sectors: most(|geometry| geometry.physical_sectors),
            volatile_cache: each().any(|geometry| geometry.volatile_cache),
            rotational: each().any(|geometry| geometry.rotational),
            discard_sectors: most(|geometry| geometry.discard_sectors),
            largest_sectors: each().map(|geometry| geometry.largest_sectors).min().unwrap_or(0),
        }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let reads = self.split(at).map(|(device, there, from)| {
                device.read(there, into.cut_sectors(from, there.sectors), how.clone())
            });
            let read: Result<Vec<Buffer>, IoError> = join_all(reads).await.into_iter().collect();
            read.map(Buffer::join)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            Joined::all(self.split(at).map(|(device, there, first)| {
                device.write(there, from.cut_sectors(first, there.sectors), how.clone())
            }))
            .await
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { Joined::all(self.parts.iter().map(|part| part.device.flush(how.clone()))).await })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            Joined::all(self.split(at).map(|(device, there, _)| device.discard(there, how.clone()))).await
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            Joined::all(
                self.split(at).map(|(device, there, _)| device.write_zeroes(there, how.clone(), zeroes)),
            )
            .await
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move {
            let mut all = Vec::new();
            for (device, there, from) in self.split(at) {
                let start = at.start + from;
                let here = |found: Extent| Extent { start: start + (found.start.0 - there.start.0), ..found };
                let found = device.extents(there).await?;
                all.extend(
                    found.into_iter().map(|state| ExtentState { extent: here(state.extent), ..state }),
                );
            }
            Ok(all)
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        for (device, there, from) in self.split(at) {
            let start = at.start + from;
            device.places(there, &mut |found, place| {
                each(Extent { start: start + (found.start.0 - there.start.0), ..found }, place);
            });
        }
    }

    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            Joined::all(self.split(at).map(|(device, there, _)| device.prefetch(there, how.clone()))).await
        })
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        let (device, there, _) = self.split(at).next()?;
        device.estimate(op, there, how)
    }

    fn model(&self) -> Option<Modelled> {
        self.parts.iter().map(|part| part.device.model()).collect::<Option<Vec<_>>>().map(Modelled::joined)
    }
}

#[cfg(test)]
mod tests {
    use seekless_core::runtime::Runtime;
    use seekless_core::{SECTOR_BYTES, Slice};
    use seekless_drive::{Disk, QueueOptions, spec};

    use super::*;

    /// Three pieces of one disk, out of order there; what is written through them is where it should be.
    #[test]
    fn pieces_are_one_device() {
        let work = async {
            let disk = Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
            let piece = |start, sectors| -> Rc<dyn BlockDevice> {
                Rc::new(Slice::new(disk.clone(), Extent::new(start, sectors)).unwrap())
            };
            let joined = Joined::new(vec![piece(1_000, 16), piece(500, 24), piece(2_000, 8)]).unwrap();
            assert_eq!(joined.geometry(), Geometry { sectors: 48, ..disk.geometry() });
            let numbered = |at: Extent| {
                Buffer::from_vec(
                    (0..at.bytes()).map(|byte| (at.start.0 + byte / SECTOR_BYTES) as u8).collect(),
                )
            };
            for at in [Extent::new(0, 48), Extent::new(10, 33), Extent::new(15, 1), Extent::new(40, 8)] {
                joined.write(at, numbered(at), Hints::default()).await.unwrap();
                let read = joined.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
                assert_eq!(read.to_vec(), numbered(at).to_vec(), "{at}");
            }
            for (sector, number) in [(1_000, 0), (1_015, 15), (500, 16), (523, 39), (2_000, 40), (2_007, 47)]
            {
                let one = Extent::new(sector, 1);
                let read = disk.read(one, Buffer::zeroed(512), Hints::default()).await.unwrap();
                assert_eq!(read.to_vec(), [number; 512], "sector {sector} of the disk");
            }
            let mut places = Vec::new();
            joined.places(Extent::new(10, 33), &mut |part, place| places.push((part, place)));
            let on = |at| Place::On { component: 0, at: Lba(at) };
            assert_eq!(
                places,
                [
                    (Extent::new(10, 6), on(1_010)),
                    (Extent::new(16, 24), on(500)),
                    (Extent::new(40, 3), on(2_000))
                ]
            );
            joined.discard(Extent::new(0, 48), Hints::default()).await.unwrap();
            joined.flush(Hints::default()).await.unwrap();
        };
        Runtime::new(1).run(work).unwrap();
        assert!(Joined::new(Vec::new()).is_none());
    }
}
