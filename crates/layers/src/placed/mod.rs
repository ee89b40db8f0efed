//! A volume of units, each in a slot, of which the hottest are moved to the fast slots: what `hybrid` and `hot` share,
//! the device mapper of the IOLab paper (5.5).
//!
//! A request goes to where its units are (`map`); a write overwrites them in place, so only moves change the map.
//! `mover` moves units by their `heat`. Invariants: those of `map`; a unit is in one slot, and a request finds it there
//! while it holds the unit's lock. Fault model: power may fail at any time, and any subset of unflushed sectors may
//! survive; one copy of a sector of the map may rot. A move that fails leaves its unit where it is. Of a write that
//! fails any parts may have been carried out, then or later. After a failed flush every later one fails.

mod clients;
mod format;
mod heat;
mod map;
mod mover;
mod opening;
mod order;
mod session;
mod zone;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use seekless_core::device::{ExtentState, Place, io, unknown_command};
use seekless_core::runtime::{self, edge};
use seekless_core::{
    Account, BlockDevice, Buffer, Counters, ErrorKind, Extent, Geometry, Hints, Hits, IoError, IoFuture,
    Layer, Nanos, Op, RangeLocks, Readiness, Reconfigured, Zeroes,
};

use crate::Refused;
use crate::canary::Canary;
use crate::durable::session::Session;
use crate::join::join_all;
pub use clients::{Access, Clients, InFlight};
pub use format::{Shape, check_unit};
pub use heat::Heat;
use map::Map;
pub use map::{beside, there};
pub use mover::{Left, in_steps};
pub use opening::{NONE, Opening};
use order::Order;
pub use zone::{When, Zone};

/// A kind of such volumes.
#[derive(Debug)]
pub struct Kind {
    /// Layer.
    pub name: &'static str,
    /// Name of the random numbers of identities.
    pub identity: &'static str,
    /// Magic numbers: of the super page, of the map, and of the label of the other device, if there is one.
    pub super_page: [u8; 8],
    pub map: [u8; 8],
    pub label: Option<[u8; 8]>,
    /// Whether the fast slots have copies of units, and the map says of which.
    pub copies: bool,
    /// Counters of reads served by fast slots alone, and of moves to them and from there.
    pub counted: [&'static str; 3],
    /// Commands.
    pub commands: &'static [&'static str],
}

/// Rare code paths that an exploration of any kind has to reach.
pub const EDGES: &[&str] = &[
    "a request to slots of both kinds",
    "a unit moves to a fast slot",
    "a unit moves away from a fast slot",
    "slots ran out: the map is written to free some",
    "a write with FUA writes the map",
    "a unit moves while the map is written",
    "a move failed: its unit stays",
    "a flush failed: all later ones fail",
    "the copies of a sector of the map differ: the newer one counts",
];

/// Canaries of every kind.
pub const CANARIES: &[&str] = if cfg!(feature = "canaries") {
    &["a move without its lock", "a map before its data", "stale read", "early reuse", "unforced write"]
} else {
    &[]
};

/// Canaries of a kind that is on one device: on two, a session begins with a flush.
pub const CANARIES_OF_ONE: &[&str] = if cfg!(feature = "canaries") {
    &[
        "a move without its lock",
        "a map before its data",
        "stale read",
        "early reuse",
        "unforced write",
        "unflushed opening",
    ]
} else {
    &[]
};

/// The devices of a volume: the one with the map and the fast slots, and the one with all others, unless it is the
/// same.
pub struct Devices {
    pub first: Rc<dyn BlockDevice>,
    pub second: Option<Rc<dyn BlockDevice>>,
}

impl Devices {
    fn each(&self) -> impl Iterator<Item = &Rc<dyn BlockDevice>> {
        std::iter::once(&self.first).chain(&self.second)
    }

    fn get(&self, number: usize) -> &dyn BlockDevice {
        match (number, &self.second) {
            (1, Some(second)) => &**second,
            _ => &*self.first,
        }
    }
}

/// What is moved, and when.
pub struct Moves {
    /// Time without requests of clients before a unit is moved; 0 to move beside them, `None` to move only when asked.
    pub idle: Option<Nanos>,
    /// Requests of this many bytes and more do not heat what they touch.
    pub sequential: u64,
    /// Whether requests that begin where a recent one ended do not heat it either.
    pub streams: bool,
    /// The least count of a unit that moves to a fast slot.
    pub least: u8,
    /// Units that are in fast slots whatever their heat.
    pub pinned: Vec<u32>,
    /// What gives the units that are in fast slots, and no others, and their order there; asked now and by commands.
    pub arranges: Option<Arranges>,
}

/// Gives units in an order.
pub type Arranges = Arc<dyn Fn(&Shape) -> Result<Vec<u32>, Refused> + Send + Sync>;

/// Virtual time of arranging per unit: an upper estimate, since it is done by a thread of low priority.
const ARRANGE_NS: u64 = 1_000;

/// The command that has units arranged as its file says now, and the one that has them return to their own places.
const RECONFIGURE: &str = "reconfigure";
pub const UNDO: &str = "undo";

/// The layer.
pub struct Placed {
    kind: &'static Kind,
    devices: Devices,
    identity: u128,
    map: RefCell<Map>,
    /// How units are arranged, and what has to move for that.
    arranges: Option<Arranges>,
    order: RefCell<Option<Order>>,
    /// Of units; `None` if nothing is moved.
    heat: RefCell<Option<Heat>>,
    session: Session,
    locks: RangeLocks,
    /// Held by the one that writes the map.
    committing: RangeLocks,
    /// Held by the one that chooses and moves a unit.
    relocating: RangeLocks,
    /// Whether the mover is at work; and whether it has to end.
    moving: Cell<bool>,
    stopping: Cell<bool>,
    clients: Clients,
    reads: Cell<u64>,
    reads_fast: Cell<u64>,
    promoted: Cell<u64>,
    demoted: Cell<u64>,
    canary: Canary,
    timing_only: bool,
    me: Weak<Placed>,
}

/// Part of a request, on one device.
struct Piece {
    device: usize,
    /// Whether it is in fast slots alone, and whether it is in others alone.
    is_fast: bool,
    is_slow: bool,
    there: Extent,
    /// Its part of the volume.
    here: Extent,
}

impl Placed {
    /// Opens the volume. `moves` gives what is moved on a volume of this shape; `None` to move nothing.
    ///
    /// # Errors
    /// Devices that are too small or do not belong together, damaged metadata, and the devices' errors.
    pub async fn open(
        devices: Devices,
        opening: Opening<'_>,
        moves: impl FnOnce(&Shape) -> Result<Option<Moves>, crate::Refused>,
        canary: Canary,
    ) -> Result<Rc<Placed>, IoError> {
        let kind = opening.kind;
        let opened = opening.open(&devices, &canary).await?;
        let (identity, shape, session) =
            (opened.identity, opened.shape, Session::new(opened.session.newest()));
        let moves = moves(&shape).map_err(|why| {
            IoError::new(seekless_core::ErrorKind::Invalid, kind.name, None, why.to_string())
        })?;
        let map = Map::new(opened);
        let heat = moves.as_ref().map(|moves| {
            Heat::new(shape.units(), shape.fast, moves.least, &moves.pinned, |unit| map.is_fast(unit))
        });
        let placed = Rc::new_cyclic(|me| Placed {
            kind,
            devices,
            identity,
            map: RefCell::new(map),
            heat: RefCell::new(heat),
            session,
            locks: RangeLocks::new(),
            committing: RangeLocks::new(),
            relocating: RangeLocks::new(),
            moving: Cell::default(),
            stopping: Cell::default(),
            clients: moves.as_ref().map_or_else(
                || Clients::new(None, u64::MAX, false),
                |moves| Clients::new(moves.idle, moves.sequential, moves.streams),
            ),
            arranges: moves.and_then(|moves| moves.arranges),
            order: RefCell::default(),
            reads: Cell::default(),
            reads_fast: Cell::default(),
            promoted: Cell::default(),
            demoted: Cell::default(),
            canary,
            timing_only: opening.timing_only,
            me: me.clone(),
        });
        placed.arrange(RECONFIGURE).await?;
        placed.move_later();
        Ok(placed)
    }

    /// Has units arranged, if they are, by a command.
    async fn arrange(&self, command: &str) -> Result<(), IoError> {
        let Some(arranges) = &self.arranges else { return Ok(()) };
        // A unit that is being moved counts where it then is.
        let _turn = self.relocating.exclusive(Extent::new(0, 1), &Hints::default()).await;
        let units = if command == UNDO {
            Vec::new()
        } else {
            let (arranges, shape) = (arranges.clone(), self.map.borrow().shape);
            let cost =
                |units: &Result<Vec<u32>, Refused>| Nanos(units.iter().flatten().count() as u64 * ARRANGE_NS);
            let units = runtime::offload(move || arranges(&shape), cost).await;
            units.map_err(|why| IoError::new(ErrorKind::Invalid, self.kind.name, None, why.to_string()))?
        };
        let order = Order::new(&units, &self.map.borrow());
        self.order.replace(Some(order));
        Ok(())
    }

    /// Whether its mover is at work.
    #[cfg(test)]
    pub fn is_moving(&self) -> bool {
        self.moving.get()
    }

    /// Where part of a unit is if the unit is in this slot.
    fn place(&self, slot: u32, part: Extent) -> (&dyn BlockDevice, Extent) {
        let (device, there) = map::there(&self.map.borrow().shape, slot, part);
        (self.devices.get(device), there)
    }

    /// The parts of a request, as long as they are contiguous on one device.
    fn pieces(&self, at: Extent) -> Vec<Piece> {
        let map = self.map.borrow();
        let unit = map.shape.unit_sectors();
        let mut pieces: Vec<Piece> = Vec::with_capacity(1);
        for here in at.split(unit) {
            let number = (here.start.0 / unit) as u32;
            let slot = self.canary.read_from(u64::from(number), map.slot(number));
            let (device, there) = map::there(&map.shape, slot, here);
            let is_fast = slot < map.shape.fast;
            match pieces.last_mut().filter(|last| last.device == device && last.there.end() == there.start) {
                Some(last) => {
                    last.there.sectors += there.sectors;
                    last.here.sectors += here.sectors;
                    last.is_fast &= is_fast;
                    last.is_slow &= !is_fast;
                }
                None => pieces.push(Piece { device, is_fast, is_slow: !is_fast, there, here }),
            }
        }
        if !pieces.iter().all(|piece| piece.is_fast) && !pieces.iter().all(|piece| piece.is_slow) {
            edge("a request to slots of both kinds");
        }
        pieces
    }

    /// Notes a request of a client, and has units moved if that changes which are hot. It is in flight until the result
    /// is dropped.
    fn arrived(&self, at: Extent, how: &Hints) -> InFlight<'_> {
        if self.clients.access(at, how) == Access::Counts
            && let Some(heat) = self.heat.borrow_mut().as_mut()
        {
            let map = self.map.borrow();
            let unit = map.shape.unit_sectors();
            for number in at.start.0 / unit..at.end().0.div_ceil(unit) {
                heat.touch(number as u32, map.is_fast(number as u32));
            }
        }
        let in_flight = self.clients.in_flight(how);
        if in_flight.counts {
            self.move_later();
        }
        in_flight
    }

    /// A request that changes data: `each` issues a part of it.
    async fn modify<'a>(
        &'a self,
        at: Extent,
        mut how: Hints,
        each: impl Fn(&'a dyn BlockDevice, &Piece, Hints) -> IoFuture<'a, ()>,
    ) -> Result<(), IoError> {
        let in_flight = self.arrived(at, &how);
        self.begin(&how).await?;
        let held = self.locks.exclusive(at, &how).await;
        // What this depends on must be durable too: the map may name another slot, until it is written.
        let commits = how.fua && self.has_changes();
        how.fua &= !commits && !self.canary.is("unforced write");
        let pieces = self.pieces(at);
        let parts = pieces.iter().map(|piece| each(self.devices.get(piece.device), piece, how.clone()));
        join_all(parts).await.into_iter().collect::<Result<(), IoError>>()?;
        drop((held, in_flight));
        if !commits || self.canary.is("unforced write") {
            return Ok(());
        }
        edge("a write with FUA writes the map");
        self.commit(&how).await
    }
}

impl BlockDevice for Placed {
    fn geometry(&self) -> Geometry {
        let first = self.devices.first.geometry();
        let other = self.devices.second.as_ref().map_or(first, |second| second.geometry());
        let map = self.map.borrow();
        Geometry {
            sectors: map.shape.sectors(),
            logical_sectors: first.logical_sectors.max(other.logical_sectors),
            physical_sectors: first.physical_sectors.max(other.physical_sectors),
            volatile_cache: true,
            rotational: first.rotational || other.rotational,
            discard_sectors: first.discard_sectors.max(other.discard_sectors),
            largest_sectors: first.largest_sectors.min(other.largest_sectors),
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
                return self.devices.get(piece.device).read(piece.there, into, how).await;
            }
            let reads = pieces.iter().map(|piece| {
                let part = into.cut_sectors(piece.here.start.0 - at.start.0, piece.here.sectors);
                self.devices.get(piece.device).read(piece.there, part, how.clone())
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
                pieces.iter().map(|piece| self.devices.get(piece.device).prefetch(piece.there, how.clone()));
            join_all(parts).await.into_iter().collect()
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move {
            let _held = self.locks.shared(at, &Hints::default()).await;
            let mut all = Vec::new();
            for piece in self.pieces(at) {
                for state in self.devices.get(piece.device).extents(piece.there).await? {
                    let start = piece.here.start + (state.extent.start.0 - piece.there.start.0);
                    all.push(ExtentState { extent: Extent { start, ..state.extent }, ..state });
                }
            }
            Ok(all)
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        for piece in self.pieces(at) {
            self.devices.get(piece.device).places(piece.there, &mut |found, place| {
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
        self.devices.get(piece.device).estimate(op, piece.there, how)
    }
}

impl Layer for Placed {
    fn counters(&self) -> Counters {
        let [reads_fast, promoted, demoted] = self.kind.counted;
        vec![
            ("reads", self.reads.get()),
            (reads_fast, self.reads_fast.get()),
            (promoted, self.promoted.get()),
            (demoted, self.demoted.get()),
            ("map_sectors_written", self.map.borrow().sectors_written()),
        ]
    }

    fn hits(&self) -> Option<Hits> {
        Some(Hits { lookups: self.reads.get(), hit: self.reads_fast.get() })
    }

    /// Identity of the volume, on its devices.
    fn identity(&self) -> Option<u128> {
        Some(self.identity)
    }

    fn command(&self, name: &str, how: Hints) -> IoFuture<'_, ()> {
        let name = name.to_owned();
        io(async move {
            if !self.kind.commands.contains(&name.as_str()) {
                return Err(unknown_command(self.kind.name, &name, self.kind.commands));
            }
            self.arrange(&name).await?;
            self.move_now(how.account).await.map(drop)
        })
    }

    fn reconfigure(&self, account: Account) -> IoFuture<'_, Option<Reconfigured>> {
        io(async move {
            self.arrange(RECONFIGURE).await?;
            self.move_now(account).await.map(Some)
        })
    }

    fn readiness(&self) -> Readiness {
        self.clients.readiness(self.can_improve())
    }

    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move {
            self.stop_moving().await;
            self.flush(Hints::default()).await
        })
    }
}
