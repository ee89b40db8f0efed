//! The one idea: a layer is a block device made of block devices.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;

use crate::buffer::Buffer;
use crate::error::{ErrorKind, IoError};
use crate::measure::{Cost, Reconfigured, Sides};
use crate::model::Modelled;
use crate::request::{Account, Class, Hints};
use crate::units::{Extent, Lba, Nanos};

/// An I/O under way; may borrow the device.
pub type IoFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, IoError>> + 'a>>;

/// Wraps an `async` block as an [`IoFuture`].
pub fn io<'a, T>(work: impl Future<Output = Result<T, IoError>> + 'a) -> IoFuture<'a, T> {
    Box::pin(work)
}

/// What a device is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Its size.
    pub sectors: u64,
    /// Sectors in a logical block: the unit of addresses and of atomicity.
    pub logical_sectors: u64,
    /// Sectors in a physical block: smaller writes cost a read.
    pub physical_sectors: u64,
    /// Whether acknowledged writes may be lost until a flush.
    pub volatile_cache: bool,
    /// Whether it has an arm and turns.
    pub rotational: bool,
    /// Sectors that a discard is rounded to; 0 where discards do nothing.
    pub discard_sectors: u64,
    /// Sectors in the largest request.
    pub largest_sectors: u64,
}

impl Geometry {
    /// That of memory: sectors that are blocks of their own, durable at once, each as far away as any other.
    pub fn of_memory(sectors: u64) -> Geometry {
        Geometry {
            sectors,
            logical_sectors: 1,
            physical_sectors: 1,
            volatile_cache: false,
            rotational: false,
            discard_sectors: 0,
            largest_sectors: LARGEST_REQUEST_SECTORS,
        }
    }
}

/// The largest request anywhere: 32 MiB.
pub const LARGEST_REQUEST_SECTORS: u64 = (32 << 20) / crate::units::SECTOR_BYTES;

/// How a write of zeroes may be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zeroes {
    /// The space may be given back.
    pub may_unmap: bool,
    /// Only if faster than writing zeroes; else `Unsupported`.
    pub only_if_fast: bool,
}

/// What an extent holds, as far as a device knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes that were written.
    Data,
    /// Nothing was written, reads as zeroes.
    Hole,
    /// Written, and zero.
    Zero,
    /// The device cannot tell.
    Unknown,
}

/// An extent and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentState {
    /// Where.
    pub extent: Extent,
    /// What.
    pub content: Content,
}

/// Where sectors lie on the components, as far as a device knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a component, one after the other.
    On {
        /// The component's number in its volume.
        component: u32,
        /// Where the first of them is.
        at: Lba,
    },
    /// Nowhere: they read as zeroes.
    Nowhere,
    /// The device cannot tell.
    Unknown,
}

/// By what a file is known to be as it was: whoever writes it changes one of these, so that equal ones prove it unchanged.
/// Unequal ones prove nothing. Times are in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its inode.
    pub inode: u64,
    /// Its size.
    pub bytes: u64,
    /// When it was last written.
    pub modified: u64,
    /// When it, or what its file system says of it, was last changed.
    pub changed: u64,
}

/// A named snapshot of a device.
pub struct View {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub device: Rc<dyn BlockDevice>,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({})", self.name)
    }
}

/// Anything that stores sectors: a component, or a layer over other devices.
///
/// Semantics: a read sees every write completed before it was issued; a layer orders overlapping
/// requests in flight by arrival, with range locks. A component carries them out in the order that
/// its queue and its drive choose, as real ones do. A flush covers the writes *completed* before it was issued. FUA
/// covers its own request. Buffers are as long as their extent, and extents are valid: both are
/// checked once, at the top of the volume ([`check`]).
///
/// A filter lists only what it changes: every method that it leaves out is carried out by the device that [`below`]
/// names, at the same sectors. Whoever overrides `write` overrides `write_zeroes` too, which would pass it by.
///
/// [`below`]: BlockDevice::below
pub trait BlockDevice {
    /// The device that carries out the methods that this one leaves out. `None` for a component, and for a layer whose
    /// sectors lie elsewhere below, or on several devices: what these leave out is `Unsupported`, or not known.
    fn below(&self) -> Option<&dyn BlockDevice> {
        None
    }

    /// What the device is like; may change. Left out by a device with nothing below, it has no sectors, and
    /// [`check`] refuses every request.
    fn geometry(&self) -> Geometry {
        self.below().map_or(Geometry::of_memory(0), BlockDevice::geometry)
    }

    /// Brings the sectors of `at` into the real pieces of `into`, and gives the buffer back.
    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        self.below().map_or_else(|| left_out("read", at), |below| below.read(at, into, how))
    }

    /// Takes the bytes of `from` into the sectors of `at`.
    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.below().map_or_else(|| left_out("write", at), |below| below.write(at, from, how))
    }

    /// Makes durable all writes completed before.
    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.below().map_or_else(|| left_out("flush", Extent::default()), |below| below.flush(how))
    }

    /// Says that the sectors are not needed: they read as zeroes or as before, the same until written.
    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.below().map_or_else(|| left_out("discard", at), |below| below.discard(at, how))
    }

    /// The sectors read as zeroes afterwards; a write in every other respect, and one of zeroes where a device with
    /// nothing below leaves it out.
    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        match self.below() {
            Some(below) => below.write_zeroes(at, how, zeroes),
            None if zeroes.only_if_fast => {
                let why = "no fast zeroes here";
                io(ready(Err(IoError::new(ErrorKind::Unsupported, "device", Some(at), why))))
            }
            None => self.write(at, Buffer::zeroed(at.bytes()), how),
        }
    }

    /// What the sectors hold, in order, covering `at`.
    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        let unknown = || vec![ExtentState { extent: at, content: Content::Unknown }];
        self.below().map_or_else(|| io(ready(Ok(unknown()))), |below| below.extents(at))
    }

    /// Calls `each` with parts of `at`, in order and all of it, and where a read of them goes now.
    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        match self.below() {
            Some(below) => below.places(at, each),
            None => each(at, Place::Unknown),
        }
    }

    /// Calls `each` with parts of `at`, in order and all of it, and how often they were asked for lately; false, and it
    /// calls nothing, where nobody counts that.
    fn heat(&self, at: Extent, each: &mut dyn FnMut(Extent, u32)) -> bool {
        self.below().is_some_and(|below| below.heat(at, each))
    }

    /// Calls `each` with parts of `at`, in order and all of it, and whether they are known to be unreadable; false, and it
    /// calls nothing, where nobody looks for that.
    fn unreadable(&self, at: Extent, each: &mut dyn FnMut(Extent, bool)) -> bool {
        self.below().is_some_and(|below| below.unreadable(at, each))
    }

    /// By what that which holds the sectors is known to be unchanged from one opening to the next; `None` where there is
    /// nothing of the kind, as of a block device.
    fn mark(&self) -> IoFuture<'_, Option<Mark>> {
        self.below().map_or_else(|| io(ready(Ok(None))), |below| below.mark())
    }

    /// Says that the sectors will be wanted soon.
    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.below().map_or_else(|| io(ready(Ok(()))), |below| below.prefetch(at, how))
    }

    /// What it would cost now to reach the first sector, where that can be told.
    fn estimate(&self, at: Extent, how: &Hints) -> Option<Nanos> {
        self.below()?.estimate(at, how)
    }

    /// Where its sectors lie on a device that has a model; `None` if they do not lie one after the other on one, or it has
    /// none.
    fn model(&self) -> Option<Modelled> {
        self.below()?.model()
    }

    /// Named snapshots.
    fn views(&self) -> Vec<View> {
        Vec::new()
    }
}

/// The error of a request that a device leaves out, with nothing below to carry it out.
fn left_out<'a, T: 'a>(request: &str, at: Extent) -> IoFuture<'a, T> {
    let why = format!("found no {request} of its own and nothing below, expected one of them");
    io(ready(Err(IoError::new(ErrorKind::Unsupported, "device", Some(at).filter(|at| at.sectors > 0), why))))
}

/// Numbers a layer keeps about itself: names in the order in which people should see them.
pub type Counters = Vec<(&'static str, u64)>;

/// A block device made of block devices; built from a volume file, watched, stopped, taken away.
pub trait Layer: BlockDevice {
    /// For metrics and reports.
    fn counters(&self) -> Counters;

    /// The identity of what it keeps on devices of its own, by which a server knows it again; `None` if there is none.
    fn identity(&self) -> Option<u128> {
        None
    }

    /// Before it is stopped for good: brings to the device below what only the layer holds, if its options say so, for at
    /// most so long. What is left then it keeps.
    fn drain_to_stop(&self, _limit: Nanos) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Everything acknowledged is durable; the layer can be restarted warm.
    fn stop(&self) -> IoFuture<'_, ()> {
        self.flush(Hints::default())
    }

    /// Does what it can be told to do besides requests, such as to reconfigure itself; the names are in the layer's
    /// page. `how` says how urgent it is and who pays. `Unsupported` if it has no such command.
    fn command(&self, name: &str, _how: Hints) -> IoFuture<'_, ()> {
        Box::pin(ready(Err(unknown_command("layer", name, &[]))))
    }

    /// Adapts its layout to what it has seen, at the expense of `account`; `None` if there is nothing to adapt. A layer
    /// that does names the command `reconfigure` in its registry entry.
    fn reconfigure(&self, _account: Account) -> IoFuture<'_, Option<Reconfigured>> {
        Box::pin(ready(Ok(None)))
    }

    /// Raises background work that others wait for to this class.
    fn hurry(&self, _class: Class) {}

    /// Writes to the devices below what only the layer holds in memory or in a device of its own, at the expense of
    /// `account`. The layer stays in place.
    fn write_back(&self, _account: Account) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Traffic above and below it for one account; `None` if it does not count.
    fn traffic(&self, _account: Account) -> Option<Sides> {
        None
    }

    /// What it costs besides the time of the devices below.
    fn cost(&self) -> Cost {
        Cost::default()
    }

    /// Writes home what is not home: afterwards the layer can be left out. A layer that owns the order of what is
    /// below cannot be.
    fn detach(&self) -> IoFuture<'_, ()> {
        let why = "it owns the order of what is below: copy out";
        Box::pin(ready(Err(IoError::new(ErrorKind::Unsupported, "layer", None, why))))
    }
}

/// The error of a layer that has these commands, and not this one.
pub fn unknown_command(layer: &'static str, found: &str, commands: &[&str]) -> IoError {
    let expected =
        if commands.is_empty() { "none: it has no commands".to_owned() } else { commands.join(" or ") };
    let why = format!("found the command '{found}', expected {expected}");
    IoError::new(ErrorKind::Unsupported, layer, None, why)
}

/// Refuses, once at the top of a volume, what no layer below needs to think of: empty requests,
/// overflow, the past-the-end, and requests larger than the device takes.
pub fn check(geometry: &Geometry, at: Extent, component: &'static str) -> Result<(), IoError> {
    let refuse = |why| Err(IoError::new(ErrorKind::Invalid, component, Some(at), why));
    let Lba(start) = at.start;
    match start.checked_add(at.sectors) {
        _ if at.sectors == 0 => refuse("expected at least one sector".to_owned()),
        None => Err(IoError::new(ErrorKind::Invalid, component, None, "the end overflows 64 bits")),
        Some(end) if end > geometry.sectors => {
            refuse(format!("expected an end of at most sector {}", geometry.sectors))
        }
        Some(_) if at.sectors > geometry.largest_sectors => {
            refuse(format!("expected at most {} sectors in one request", geometry.largest_sectors))
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_refuses_what_makes_no_sense() {
        let geometry = Geometry::of_memory(1 << 20);
        let kind =
            |start, sectors| check(&geometry, Extent::new(start, sectors), "top").map_err(|e| e.kind());
        assert_eq!(kind(0, 1), Ok(()));
        assert_eq!(kind((1 << 20) - 1, 1), Ok(()));
        for (start, sectors) in [(0, 0), (1 << 20, 1), (u64::MAX, 2), (0, LARGEST_REQUEST_SECTORS + 1)] {
            assert_eq!(kind(start, sectors), Err(ErrorKind::Invalid));
        }
    }
}
