//! Replication (sections 2.2 and 5.5 of the IOLab paper): parts of a volume that are read often have further copies on
//! the same disk, and a read goes to the one that the head reaches first.
//!
//! A volume of `placed` whose fast slots have copies. `path` is the path of requests, `copies` which copies there are,
//! and `copier` makes them. Invariants: a unit's own place has what was written last, always; those of `copies`. Fault
//! model: power may fail at any time, and any subset of unflushed sectors may survive: copies count again after a stop,
//! and are made anew after a crash. One copy of a sector of the map may rot. A copy that cannot be read or written is
//! used no more. A write that failed may be carried out later: its units have no copies until the next opening. After a
//! failed flush every later one fails, and there are no copies.

mod copier;
mod copies;
mod options;
mod path;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};

use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, Lba, RangeLocks};

use crate::canary::Canary;
use crate::contents;
use crate::placed::{self, Clients, Devices, Heat, Kind, Opening};
use crate::registry::{self, Built, Entry};
use copies::Copies;
pub use options::{Options, Spread, Writes};

/// Its kind of volumes.
pub(crate) const KIND: Kind = Kind {
    name: "replicas",
    identity: "replicas identity",
    super_page: *b"SKLREPL1",
    map: *b"SKLREPLM",
    label: None,
    copies: true,
    counted: ["reads_of_copies", "copies_made", "copies_removed"],
    commands: &["reconfigure"],
};

/// Rare code paths that an exploration has to reach.
const EDGES: &[&str] = &[
    "a unit has copies",
    "a unit loses its copies to a hotter one",
    "a unit is written while it is copied",
    "a copy failed",
    "a write removes copies",
    "a write updates copies",
    "an update of a copy failed",
    "a copy cannot be read: another one is",
    "a unit's own place cannot be read: a copy is, and it is written again",
    "all free places are in use",
    "a sequence goes on: its copies are removed",
    "the map is made void",
    "the map names the copies",
    "a unit whose write failed has no copies",
    "a flush failed: all later ones fail",
    "the copies of a sector of the map differ: the newer one counts",
];

/// Its known bugs.
pub const CANARIES: &[&str] = if cfg!(feature = "canaries") {
    &[
        "stale copy",
        "a map before its copies",
        "copies of before count after a crash",
        "a write passes a copy",
    ]
} else {
    &[]
};

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    title: "replication",
    readme: include_str!("README.md"),
    commands: KIND.commands,
    edges: EDGES,
    canaries: CANARIES,
    sealed: true,
    check: |table| registry::parse_options(table, Options::check).map(drop),
    defaults: registry::defaults::<Options>,
    sectors: Some(|table, below| {
        Ok(registry::parse_options(table, Options::check)?.shape(below.sum())?.sectors())
    }),
    create: Some(|below, table, replace| {
        Box::pin(async move {
            let options = registry::options("replicas", table, Options::check)?;
            contents::create(below.one()?, replace, async |over| {
                Replicas::open(over, &options, true, false).await
            })
            .await
        })
    }),
    ..Entry::new(
        "replicas",
        "copies what is read often, and reads the copy nearest to the head",
        |below, table| {
            Box::pin(async move {
                let options = registry::options("replicas", table, Options::check)?;
                Ok(Built::new(Replicas::open(below.one()?, &options, below.create, below.timing_only).await?))
            })
        },
    )
};

/// The layer.
pub struct Replicas {
    below: Rc<dyn BlockDevice>,
    identity: u128,
    copies: RefCell<Copies>,
    heat: RefCell<Heat>,
    clients: Clients,
    /// Whether writes update copies.
    updates: bool,
    /// The least count of a unit that is copied.
    least: u8,
    locks: RangeLocks,
    /// Held by the one that writes the map.
    committing: RangeLocks,
    /// Held by the one that chooses and copies a unit.
    relocating: RangeLocks,
    /// Whether the copier is at work; and whether it has to end.
    copying: Cell<bool>,
    stopping: Cell<bool>,
    /// The unit that is being copied, and whether it was written since it was read.
    passed: Cell<Option<(u32, bool)>>,
    /// Units of which a write has failed.
    uncertain: RefCell<BTreeSet<u32>>,
    /// Why all flushes fail.
    failed: RefCell<Option<IoError>>,
    /// Where the last request ends: about where the head is.
    head: Cell<Lba>,
    reads: Cell<u64>,
    reads_of_copies: Cell<u64>,
    copied: Cell<u64>,
    removed: Cell<u64>,
    updated: Cell<u64>,
    canary: Canary,
    timing_only: bool,
    me: Weak<Replicas>,
}

impl Replicas {
    /// Opens the volume; with `create`, on a device of zeroes a new one. With `timing_only`, data is hollow.
    ///
    /// # Errors
    /// A device that is too small, damaged metadata, and the device's errors.
    pub async fn open(
        over: Rc<dyn BlockDevice>,
        options: &Options,
        create: bool,
        timing_only: bool,
    ) -> Result<Rc<Replicas>, IoError> {
        let sectors = over.geometry().sectors;
        let shape = || options.shape(sectors);
        let opening = Opening { kind: &KIND, create: create.then_some(&shape), timing_only };
        let canary = options.canary();
        let devices = Devices { first: over, second: None };
        let opened = opening.open(&devices, &canary).await?;
        let identity = opened.identity;
        let copies = Copies::new(opened.shape, opened.map)?;
        let shape = copies.shape;
        let heat = Heat::new(shape.units(), shape.band(), options.least, &[], |unit| copies.has(unit));
        let idle = options.when.pause(options.idle);
        Ok(Rc::new_cyclic(|me| Replicas {
            below: devices.first,
            identity,
            copies: RefCell::new(copies),
            heat: RefCell::new(heat),
            clients: Clients::new(idle, options.sequential.0, true),
            updates: options.writes == Writes::Update,
            least: options.least,
            locks: RangeLocks::new(),
            committing: RangeLocks::new(),
            relocating: RangeLocks::new(),
            copying: Cell::default(),
            stopping: Cell::default(),
            passed: Cell::default(),
            uncertain: RefCell::default(),
            failed: RefCell::default(),
            head: Cell::new(Lba(0)),
            reads: Cell::default(),
            reads_of_copies: Cell::default(),
            copied: Cell::default(),
            removed: Cell::default(),
            updated: Cell::default(),
            canary,
            timing_only,
            me: me.clone(),
        }))
    }

    /// Whether copies are being made.
    #[cfg(test)]
    pub fn is_copying(&self) -> bool {
        self.copying.get()
    }

    /// A buffer for sectors: hollow, if only time is measured.
    fn buffer(&self, at: Extent) -> Buffer {
        if self.timing_only { Buffer::hollow(at.bytes()) } else { Buffer::zeroed(at.bytes()) }
    }

    /// Where part of a unit lies in a slot.
    fn slot(&self, slot: u32, part: Extent) -> Extent {
        placed::there(&self.copies.borrow().shape, slot, part).1
    }

    /// Makes earlier writes durable.
    async fn commit(&self, how: &Hints) -> Result<(), IoError> {
        if let Some(error) = &*self.failed.borrow() {
            edge("a flush failed: all later ones fail");
            return Err(error.clone());
        }
        self.flush_below(how).await
    }

    /// All that is acknowledged is durable, and then the map names the copies, for the next opening.
    async fn stop_with_copies(&self) -> Result<(), IoError> {
        self.stop_copying().await;
        let how = Hints::default();
        let whole = Extent::new(0, self.geometry().sectors);
        let _held = self.locks.exclusive(whole, &how).await;
        if self.canary.is("a map before its copies") {
            self.name(&how).await?;
        }
        self.commit(&how).await?;
        self.name(&how).await
    }
}

#[cfg(test)]
mod tests;
