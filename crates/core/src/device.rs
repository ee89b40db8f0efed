//! The one idea: a layer is a block device made of block devices.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;

use crate::buffer::Buffer;
use crate::error::{ErrorKind, IoError};
use crate::history::History;
use crate::measure::{Cost, Hits, LayerTraffic, Readiness, Reconfigured, SnapshotSpace};
use crate::model::Modelled;
use crate::names::perhaps;
use crate::record::Record;
use crate::request::{Account, Class, Hints, Op};
use crate::units::{Extent, Lba, Nanos};

/// An I/O in flight; may borrow the device.
pub type IoFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, IoError>> + 'a>>;

/// Wraps an `async` block as an [`IoFuture`].
pub fn io<'a, T>(work: impl Future<Output = Result<T, IoError>> + 'a) -> IoFuture<'a, T> {
    Box::pin(work)
}

/// Properties of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size.
    pub sectors: u64,
    /// Sectors per logical block: the unit of addresses and of atomicity.
    pub logical_sectors: u64,
    /// Sectors per physical block: smaller writes cost a read.
    pub physical_sectors: u64,
    /// Whether acknowledged writes may be lost until a flush.
    pub volatile_cache: bool,
    /// Whether it is a rotating disk.
    pub rotational: bool,
    /// Granularity of discards in sectors; 0 where discards do nothing.
    pub discard_sectors: u64,
    /// Largest request in sectors.
    pub largest_sectors: u64,
}

impl Geometry {
    /// Geometry of memory: every sector is a block, durable at once, without seeks.
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

/// How zeroes may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zeroes {
    /// Whether the space may be deallocated.
    pub may_unmap: bool,
    /// Only if faster than writing zeroes; else `Unsupported`.
    pub only_if_fast: bool,
}

/// Content of an extent, as far as a device knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Written bytes.
    Data,
    /// Not written, reads as zeroes.
    Hole,
    /// Written, and zero.
    Zero,
    /// The device does not know.
    Unknown,
}

/// An extent and its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentState {
    /// The extent.
    pub extent: Extent,
    /// Content.
    pub content: Content,
}

/// Placement of sectors on the components, as far as a device knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Consecutive sectors of a component.
    On {
        /// The component's number in its volume.
        component: u32,
        /// The first sector there.
        at: Lba,
    },
    /// Not stored: they read as zeroes.
    Nowhere,
    /// The device does not know.
    Unknown,
}

/// Evidence that a file is unchanged: every write changes one of these, so equal marks prove it unchanged. Unequal ones
/// prove nothing. Times are in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Inode number.
    pub inode: u64,
    /// Size.
    pub bytes: u64,
    /// Time of the last write.
    pub modified: u64,
    /// Time of the last change of the file or its metadata.
    pub changed: u64,
}

/// A named snapshot or clone of a device.
pub struct View {
    /// Name.
    pub name: String,
    /// Content.
    pub device: Rc<dyn BlockDevice>,
    /// Whether it is a clone: it can be written.
    pub is_clone: bool,
    /// Number that no other view of the device has or had.
    pub number: u32,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({})", self.name)
    }
}

/// Anything that stores sectors: a component, or a layer over other devices.
///
/// Semantics: a read returns every write completed before it was issued; a layer orders overlapping requests in flight
/// by arrival, with range locks. A component serves them in the order that its queue and its drive choose, as real ones
/// do. A flush covers the writes *completed* before it was issued. FUA covers its own request. Buffers are as long as
/// their extent, and extents are valid: both are checked once, at the top of the volume ([`check`]).
///
/// A filter implements only what it changes: every other method is passed, at the same sectors, to the device that
/// [`below`] returns. An implementation that overrides `write` has to override `write_zeroes` too, which would bypass
/// it.
///
/// [`below`]: BlockDevice::below
pub trait BlockDevice {
    /// The device that default methods pass requests to. `None` for a component, and for a layer whose sectors are
    /// mapped or on several devices: then default methods are `Unsupported`, or return nothing known.
    fn below(&self) -> Option<&dyn BlockDevice> {
        None
    }

    /// Properties of the device; they may change. By default, with nothing below, it has no sectors, and [`check`]
    /// refuses every request.
    fn geometry(&self) -> Geometry {
        self.below().map_or(Geometry::of_memory(0), BlockDevice::geometry)
    }

    /// Reads the sectors of `at` into the real pieces of `into`, and returns the buffer.
    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        self.below().map_or_else(|| not_implemented("read", at), |below| below.read(at, into, how))
    }

    /// Writes the bytes of `from` to the sectors of `at`.
    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.below().map_or_else(|| not_implemented("write", at), |below| below.write(at, from, how))
    }

    /// Makes all writes completed before durable.
    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.below().map_or_else(|| not_implemented("flush", Extent::default()), |below| below.flush(how))
    }

    /// Discards sectors that are not needed: they read as zeroes or as before, consistently until written.
    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.below().map_or_else(|| not_implemented("discard", at), |below| below.discard(at, how))
    }

    /// Zeroes sectors; a write in every other respect. The default, with nothing below, writes zeroes.
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

    /// The contents of `at`, in order.
    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        let unknown = || vec![ExtentState { extent: at, content: Content::Unknown }];
        self.below().map_or_else(|| io(ready(Ok(unknown()))), |below| below.extents(at))
    }

    /// Calls `each` with parts of `at`, in order and complete, and the current placement of each.
    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        match self.below() {
            Some(below) => below.places(at, each),
            None => each(at, Place::Unknown),
        }
    }

    /// Calls `each` with parts of `at`, in order and complete, and their recent access counts; false, without a call,
    /// where they are not counted.
    fn heat(&self, at: Extent, each: &mut dyn FnMut(Extent, u32)) -> bool {
        self.below().is_some_and(|below| below.heat(at, each))
    }

    /// Calls `each` with parts of `at`, in order and complete, and whether they are known to be unreadable; false,
    /// without a call, where that is not checked.
    fn unreadable(&self, at: Extent, each: &mut dyn FnMut(Extent, bool)) -> bool {
        self.below().is_some_and(|below| below.unreadable(at, each))
    }

    /// Evidence that the storage is unchanged between two openings; `None` where there is none, as for a block device.
    fn mark(&self) -> IoFuture<'_, Option<Mark>> {
        self.below().map_or_else(|| io(ready(Ok(None))), |below| below.mark())
    }

    /// Announces that the sectors will be read soon.
    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.below().map_or_else(|| io(ready(Ok(()))), |below| below.prefetch(at, how))
    }

    /// Time until a read or write issued now would reach its first sector, behind the request that is being served and
    /// before all that are queued; `None` if that is not known.
    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        self.below()?.estimate(op, at, how)
    }

    /// Where its sectors lie on devices that have models; `None` if one of those has none, or they are not in that
    /// order.
    fn model(&self) -> Option<Modelled> {
        self.below()?.model()
    }

    /// Named snapshots and clones.
    fn views(&self) -> Vec<View> {
        self.below().map_or_else(Vec::new, BlockDevice::views)
    }
}

/// The error of a request that a device does not implement, with nothing below to pass it to.
fn not_implemented<'a, T: 'a>(request: &str, at: Extent) -> IoFuture<'a, T> {
    let why = format!("found no {request} of its own and nothing below, expected one of them");
    io(ready(Err(IoError::new(ErrorKind::Unsupported, "device", Some(at).filter(|at| at.sectors > 0), why))))
}

/// A layer's counters: names and values, in display order.
pub type Counters = Vec<(&'static str, u64)>;

/// A block device made of block devices; built from a volume file, monitored, stopped, attached and detached.
pub trait Layer: BlockDevice {
    /// Counters for metrics and reports.
    fn counters(&self) -> Counters;

    /// The identity of its metadata on devices of its own, by which a server recognizes it; `None` if there is none.
    fn identity(&self) -> Option<u128> {
        None
    }

    /// Number that grows whenever the metadata of [`Layer::identity`] begins or ends a session: of two copies of it,
    /// the one with the smaller number is older. `None` if there is none.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// Drains before the final stop: writes data that only the layer holds to the device below, if its options say so,
    /// for at most `limit`. The layer keeps the rest.
    fn drain_to_stop(&self, _limit: Nanos) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Makes everything acknowledged durable; the layer can be restarted warm.
    fn stop(&self) -> IoFuture<'_, ()> {
        self.flush(Hints::default())
    }

    /// Executes a command of the layer, such as reconfiguring; the names are in the layer's page. `how` gives its class
    /// and account. `Unsupported` if there is no such command.
    fn command(&self, name: &str, _how: Hints) -> IoFuture<'_, ()> {
        Box::pin(ready(Err(unknown_command("layer", name, &[]))))
    }

    /// Adapts the layout to the observed accesses, charged to `account`; `None` if there is nothing to adapt. A layer
    /// that implements this names the command `reconfigure` in its registry entry.
    fn reconfigure(&self, _account: Account) -> IoFuture<'_, Option<Reconfigured>> {
        Box::pin(ready(Ok(None)))
    }

    /// Its snapshots in the order of their creation; `None` if it is a layer that has none. [`BlockDevice::views`]
    /// gives their contents.
    fn snapshots(&self) -> Option<Vec<SnapshotSpace>> {
        None
    }

    /// Takes a snapshot of this name: writes that have ended are in it, durably, those that begin later are not.
    fn create_snapshot(&self, _name: &str) -> IoFuture<'_, ()> {
        Box::pin(ready(Err(without_snapshots())))
    }

    /// Takes a writable copy of this name: of the snapshot `from`, or of the present state as a snapshot would be.
    fn create_clone(&self, _name: &str, _from: Option<&str>) -> IoFuture<'_, ()> {
        Box::pin(ready(Err(without_snapshots())))
    }

    /// Deletes the snapshot or clone of this name.
    fn delete_snapshot(&self, _name: &str) -> IoFuture<'_, ()> {
        Box::pin(ready(Err(without_snapshots())))
    }

    /// Replaces one of its devices, `number` of those that `key` names in a volume file, by another one of its size,
    /// while it is in use. Its contents follow from the others, once a command of the layer has made it so. `commit` is
    /// awaited when a crash before it leads back to the old device, and one after it to the new. `overwrites` gives up
    /// what the new device holds.
    ///
    /// # Errors
    /// `Unsupported` if the layer needs what the device holds; `Invalid` for a device that does not fit; those of the
    /// devices and of `commit`: the old device stays.
    fn replace_device<'a>(
        &'a self,
        _at: (&'a str, usize),
        _with: Rc<dyn BlockDevice>,
        _overwrites: bool,
        _commit: IoFuture<'a, ()>,
    ) -> IoFuture<'a, ()> {
        let why = "it needs what the device holds, expected an array, which makes up for it: raid4";
        Box::pin(ready(Err(IoError::new(ErrorKind::Unsupported, "layer", None, why))))
    }

    /// What speaks for reconfiguring it now.
    fn readiness(&self) -> Readiness {
        Readiness::default()
    }

    /// Its latest reconfigurations, hits and gain. Empty for a layer that keeps none.
    fn history(&self) -> History {
        History::default()
    }

    /// Replaces all that it has learned from requests by these, which are still to come: so an experiment finds what it
    /// could reach if it knew the future.
    fn foresee(&self, _requests: &[Record]) {}

    /// Raises background work that others wait for to this class.
    fn boost(&self, _class: Class) {}

    /// Writes data that only the layer holds, in memory or on a device of its own, to the devices below, charged to
    /// `account`. The layer stays attached.
    fn write_back(&self, _account: Account) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Ends a run of the laboratory, after its last request, charged to `account`. Nothing for most layers: what they
    /// do at a stop belongs to no workload. A layer that a caller brings along is stopped, as its author expects.
    fn end_run(&self, _account: Account) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Invalidates its metadata on devices of its own, which are not used any more. Only after everything was written
    /// back, and when nothing uses the layer.
    fn give_up(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Traffic above and below it for one account; `None` if it does not count.
    fn traffic(&self, _account: Account) -> Option<LayerTraffic> {
        None
    }

    /// How often its own copies served a request; `None` for a layer without copies.
    fn hits(&self) -> Option<Hits> {
        None
    }

    /// Why a part of it is turned off or out of service, for status; `None` while all of it works.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Has `tell` called with what is new in [`Layer::trouble`] when that begins, so that a server prints it.
    fn on_trouble(&self, _tell: Box<dyn Fn(&str)>) {}

    /// Costs besides the time of the devices below.
    fn cost(&self) -> Cost {
        Cost::default()
    }

    /// Writes all data back to their origin: afterwards the layer can be removed. A layer that owns the order of the
    /// data below cannot be detached.
    fn detach(&self) -> IoFuture<'_, ()> {
        let why = "it owns the order of the data below it: to give it up, copy the data to another volume";
        Box::pin(ready(Err(IoError::new(ErrorKind::Unsupported, "layer", None, why))))
    }
}

/// The error of a layer that has no snapshots.
fn without_snapshots() -> IoError {
    let why = "found a layer without snapshots, expected one that has them: proximal";
    IoError::new(ErrorKind::Unsupported, "layer", None, why)
}

/// The error of a layer without the command `found`; `commands` are those that it has.
pub fn unknown_command(layer: &'static str, found: &str, commands: &[&str]) -> IoError {
    let expected =
        if commands.is_empty() { "none: it has no commands".to_owned() } else { commands.join(" or ") };
    let perhaps = perhaps(found, commands.iter().copied());
    let why = format!("found the command '{found}', expected {expected}{perhaps}");
    IoError::new(ErrorKind::Unsupported, layer, None, why)
}

/// Refuses, once at the top of a volume, invalid requests: empty, overflowing, past the end, and larger than the device
/// takes.
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
    fn the_top_refuses_invalid_requests() {
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
