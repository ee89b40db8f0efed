//! The hybrid drive (section 6.4 of the IOLab paper): one volume on a fast device and another one, each part of it on one
//! of them, by its address or by how often it is accessed.
//!
//! A request goes to where its units are (`map`); a write overwrites them in place, so only moves change the map. `mover`
//! moves units by their `heat`. Invariants: those of `map`; a unit is in one slot, and a request finds it there while it
//! holds the unit's lock. Fault model: power may fail at any time, and any subset of unflushed sectors may survive; one
//! copy of a sector of the map may rot. A move that fails leaves its unit where it is. Of a write that fails any parts may
//! have been carried out. After a failed flush every later one fails.

mod format;
mod heat;
mod map;
mod mover;
mod opening;
mod options;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use futures_util::future::join_all;
use seekless_core::device::{ExtentState, Place, io};
use seekless_core::runtime::{edge, now};
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Counters, ErrorKind, Extent, Geometry, Hints, Hits, IoError,
    IoFuture, Layer, Nanos, Op, RangeLocks, Zeroes,
};

use crate::canary::Canary;
use crate::contents::{self, New};
use crate::registry::{self, Built, Entry};
use heat::Heat;
use map::Map;
pub use options::{CANARIES, EDGES, Options, Pinned, Placement};

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    title: "hybrid drive",
    readme: include_str!("README.md"),
    devices: &["fast"],
    edges: EDGES,
    canaries: CANARIES,
    sealed: true,
    check: |table| registry::parse_options(table, Options::check).map(drop),
    defaults: registry::defaults::<Options>,
    sectors: Some(|table, below| {
        let options = registry::parse_options(table, Options::check)?;
        let shape = options.shape_on(below)?;
        options.pinned(&shape)?;
        Ok(u64::from(shape.units()) * shape.unit_sectors())
    }),
    create: Some(|below, table, replace| {
        Box::pin(async move {
            let options = registry::options("hybrid", table, Options::check)?;
            Hybrid::create(below.device("fast")?, below.one()?, &options, replace).await
        })
    }),
    ..Entry::new(
        "hybrid",
        "keeps the most accessed parts of a volume on a fast device, and the others on another one",
        |below, table| {
            Box::pin(async move {
                let options = registry::options("hybrid", table, Options::check)?;
                let (fast, over) = (below.device("fast")?, below.one()?);
                Ok(Built::new(Hybrid::open(fast, over, &options, below.create, below.timing_only).await?))
            })
        },
    )
};

/// The layer.
pub struct Hybrid {
    fast: Rc<dyn BlockDevice>,
    over: Rc<dyn BlockDevice>,
    identity: u128,
    map: RefCell<Map>,
    /// Of units; `None` if nothing is moved.
    heat: RefCell<Option<Heat>>,
    locks: RangeLocks,
    /// Held by the one that writes the map.
    committing: RangeLocks,
    /// Held by a move.
    relocating: RangeLocks,
    /// Whether the mover is at work; and whether it has to end.
    moving: Cell<bool>,
    stopping: Cell<bool>,
    idle: Nanos,
    sequential: u64,
    /// Requests of clients in flight, the time of the last one's arrival or answer, and its account.
    in_flight: Cell<u64>,
    last: Cell<Nanos>,
    payer: Cell<Account>,
    reads: Cell<u64>,
    reads_fast: Cell<u64>,
    promoted: Cell<u64>,
    demoted: Cell<u64>,
    canary: Canary,
    timing_only: bool,
    me: Weak<Hybrid>,
}

/// Part of a request, on one device.
struct Piece {
    is_fast: bool,
    there: Extent,
    /// Its part of the volume.
    here: Extent,
}

impl Hybrid {
    /// Opens the volume; with `create`, on devices of zeroes a new one. With `timing_only`, data is hollow.
    ///
    /// # Errors
    /// Devices that are too small or do not belong together, damaged metadata, and the devices' errors.
    pub async fn open(
        fast: Rc<dyn BlockDevice>,
        over: Rc<dyn BlockDevice>,
        options: &Options,
        create: bool,
        timing_only: bool,
    ) -> Result<Rc<Hybrid>, IoError> {
        let opened = opening::open(&*fast, &*over, options, create, timing_only).await?;
        let refused = |why: crate::Refused| IoError::new(ErrorKind::Invalid, "hybrid", None, why.to_string());
        let (identity, shape) = (opened.identity, opened.shape);
        let pinned = options.pinned(&shape).map_err(refused)?;
        let map = Map::new(opened);
        let moves = options.placement == Placement::Heat;
        let heat = moves.then(|| Heat::new(shape.units(), shape.fast, &pinned, |unit| map.is_fast(unit)));
        let hybrid = Rc::new_cyclic(|me| Hybrid {
            fast,
            over,
            identity,
            map: RefCell::new(map),
            heat: RefCell::new(heat),
            locks: RangeLocks::new(),
            committing: RangeLocks::new(),
            relocating: RangeLocks::new(),
            moving: Cell::default(),
            stopping: Cell::default(),
            idle: options.idle,
            sequential: options.sequential.0,
            in_flight: Cell::default(),
            last: Cell::new(now()),
            payer: Cell::default(),
            reads: Cell::default(),
            reads_fast: Cell::default(),
            promoted: Cell::default(),
            demoted: Cell::default(),
            canary: options.canary(),
            timing_only,
            me: me.clone(),
        });
        hybrid.move_later();
        Ok(hybrid)
    }

    /// Creates a volume. Existing contents of either device are refused, unless `replace`: then their metadata is given
    /// up. Returns the new identity.
    ///
    /// # Errors
    /// `Invalid` for contents that are refused and devices that do not suit, and the devices' errors.
    pub async fn create(
        fast: Rc<dyn BlockDevice>,
        over: Rc<dyn BlockDevice>,
        options: &Options,
        replace: bool,
    ) -> Result<Option<u128>, IoError> {
        let nothing = Extent::new(0, 0);
        let new = |key, device, leaves| New { key, device, metadata: nothing, leaves };
        let slow = new("over", &*over, Some("the slow device of a hybrid drive"));
        contents::claim(&[new("fast", &*fast, None), slow], false, replace).await?;
        let volume = Hybrid::open(fast, over, options, true, false).await?;
        Layer::stop(&*volume).await?;
        Ok(volume.identity())
    }

    fn device(&self, is_fast: bool) -> &dyn BlockDevice {
        if is_fast { &*self.fast } else { &*self.over }
    }

    /// Where part of a unit is if the unit is in this slot.
    fn place(&self, slot: u32, part: Extent) -> (&dyn BlockDevice, Extent) {
        let (is_fast, there) = map::there(&self.map.borrow().shape, slot, part);
        (self.device(is_fast), there)
    }

    /// The parts of a request, as long as they are contiguous on one device.
    fn pieces(&self, at: Extent) -> Vec<Piece> {
        let map = self.map.borrow();
        let unit = map.shape.unit_sectors();
        let mut pieces: Vec<Piece> = Vec::with_capacity(1);
        for here in at.split(unit) {
            let number = (here.start.0 / unit) as u32;
            let slot = self.canary.read_from(u64::from(number), map.slot(number));
            let (is_fast, there) = map::there(&map.shape, slot, here);
            match pieces.last_mut().filter(|last| last.is_fast == is_fast && last.there.end() == there.start)
            {
                Some(last) => {
                    last.there.sectors += there.sectors;
                    last.here.sectors += here.sectors;
                }
                None => pieces.push(Piece { is_fast, there, here }),
            }
        }
        if pieces.iter().any(|piece| piece.is_fast != pieces[0].is_fast) {
            edge("a request on both devices");
        }
        pieces
    }

    /// Notes a request of a client, and has units moved if that changes which are hot. It is in flight until the result is
    /// dropped.
    fn arrived(&self, at: Extent, how: &Hints) -> InFlight<'_> {
        let clients = how.class <= Class::Foreground;
        if clients {
            self.payer.set(how.account);
            if at.bytes() < self.sequential
                && let Some(heat) = self.heat.borrow_mut().as_mut()
            {
                let map = self.map.borrow();
                let unit = map.shape.unit_sectors();
                for number in at.start.0 / unit..at.end().0.div_ceil(unit) {
                    heat.touch(number as u32, map.is_fast(number as u32));
                }
            }
            self.move_later();
        }
        self.in_flight.set(self.in_flight.get() + u64::from(clients));
        InFlight { of: self, clients }
    }

    /// A request that changes data: `each` issues a part of it.
    async fn modify<'a>(
        &'a self,
        at: Extent,
        mut how: Hints,
        each: impl Fn(&'a dyn BlockDevice, &Piece, Hints) -> IoFuture<'a, ()>,
    ) -> Result<(), IoError> {
        let in_flight = self.arrived(at, &how);
        let held = self.locks.exclusive(at, &how).await;
        // What this depends on must be durable too: the map may name another slot, until it is written.
        let commits = how.fua && self.has_changes();
        how.fua &= !commits && !self.canary.is("unforced write");
        let pieces = self.pieces(at);
        let parts = pieces.iter().map(|piece| each(self.device(piece.is_fast), piece, how.clone()));
        join_all(parts).await.into_iter().collect::<Result<(), IoError>>()?;
        drop((held, in_flight));
        if !commits || self.canary.is("unforced write") {
            return Ok(());
        }
        edge("a write with FUA writes the map");
        self.commit(&how).await
    }
}

/// A request of a client in flight.
struct InFlight<'a> {
    of: &'a Hybrid,
    clients: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.of.in_flight.set(self.of.in_flight.get() - u64::from(self.clients));
        self.of.last.set(now());
    }
}

impl BlockDevice for Hybrid {
    fn geometry(&self) -> Geometry {
        let (fast, over) = (self.fast.geometry(), self.over.geometry());
        let map = self.map.borrow();
        Geometry {
            sectors: u64::from(map.shape.units()) * map.shape.unit_sectors(),
            logical_sectors: fast.logical_sectors.max(over.logical_sectors),
            physical_sectors: fast.physical_sectors.max(over.physical_sectors),
            volatile_cache: true,
            rotational: fast.rotational || over.rotational,
            discard_sectors: fast.discard_sectors.max(over.discard_sectors),
            largest_sectors: fast.largest_sectors.min(over.largest_sectors),
        }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let _in_flight = self.arrived(at, &how);
            let _held = self.locks.shared(at, &how).await;
            let pieces = self.pieces(at);
            self.reads.set(self.reads.get() + 1);
            self.reads_fast.set(self.reads_fast.get() + u64::from(pieces.iter().all(|piece| piece.is_fast)));
            if let [piece] = &pieces[..] {
                return self.device(piece.is_fast).read(piece.there, into, how).await;
            }
            let reads = pieces.iter().map(|piece| {
                let part = into.cut_sectors(piece.here.start.0 - at.start.0, piece.here.sectors);
                self.device(piece.is_fast).read(piece.there, part, how.clone())
            });
            let read: Result<Vec<Buffer>, IoError> = join_all(reads).await.into_iter().collect();
            read.map(Buffer::join)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(self.modify(at, how, move |device, piece, how| {
            let part = from.cut_sectors(piece.here.start.0 - at.start.0, piece.here.sectors);
            device.write(piece.there, part, how)
        }))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.commit(&how).await })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(self.modify(at, how, |device, piece, how| device.discard(piece.there, how)))
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(self.modify(at, how, move |device, piece, how| device.write_zeroes(piece.there, how, zeroes)))
    }

    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let pieces = self.pieces(at);
            let parts =
                pieces.iter().map(|piece| self.device(piece.is_fast).prefetch(piece.there, how.clone()));
            join_all(parts).await.into_iter().collect()
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move {
            let _held = self.locks.shared(at, &Hints::default()).await;
            let mut all = Vec::new();
            for piece in self.pieces(at) {
                for state in self.device(piece.is_fast).extents(piece.there).await? {
                    let start = piece.here.start + (state.extent.start.0 - piece.there.start.0);
                    all.push(ExtentState { extent: Extent { start, ..state.extent }, ..state });
                }
            }
            Ok(all)
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        for piece in self.pieces(at) {
            self.device(piece.is_fast).places(piece.there, &mut |found, place| {
                let start = piece.here.start + (found.start.0 - piece.there.start.0);
                each(Extent { start, ..found }, place);
            });
        }
    }

    fn heat(&self, at: Extent, each: &mut dyn FnMut(Extent, u32)) -> bool {
        let (heat, map) = (self.heat.borrow(), self.map.borrow());
        let Some(heat) = heat.as_ref() else { return false };
        let unit = map.shape.unit_sectors();
        at.split(unit).for_each(|part| each(part, u32::from(heat.of((part.start.0 / unit) as u32))));
        true
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        let piece = self.pieces(at).into_iter().next()?;
        self.device(piece.is_fast).estimate(op, piece.there, how)
    }
}

impl Layer for Hybrid {
    fn counters(&self) -> Counters {
        let (_, _, map_sectors_written) = self.map.borrow().counts();
        vec![
            ("reads", self.reads.get()),
            ("reads_fast", self.reads_fast.get()),
            ("units_promoted", self.promoted.get()),
            ("units_demoted", self.demoted.get()),
            ("map_sectors_written", map_sectors_written),
        ]
    }

    fn hits(&self) -> Option<Hits> {
        Some(Hits { lookups: self.reads.get(), hit: self.reads_fast.get() })
    }

    /// Identity of the volume, on both devices.
    fn identity(&self) -> Option<u128> {
        Some(self.identity)
    }

    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move {
            self.stop_moving().await;
            self.flush(Hints::default()).await
        })
    }
}

#[cfg(test)]
mod tests;
