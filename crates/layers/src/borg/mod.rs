//! BORG: blocks that are used together are copied next to each other into a small optimised
//! partition, the BOPT, and writes are absorbed there (Bhadkamkar et al., FAST 2009).
//!
//! Laid out as the paper is: `profiler`, `analyzer`, `planner`, `reconfigurator`, and the `indirector` on the path of
//! every request. The `store` is what is on disk; the `mover` moves pages; `drain`, `idle` and `pace` are when and how
//! fast.
//!
//! Invariants: a copy that is not dirty equals the origin, or nobody uses it; what is dirty on disk was written by a
//! client and is not on the origin yet. Those of what is on disk are the store's.
//!
//! Fault model: power may go at any time, and any sectors of what was not flushed may survive; any request below may
//! fail. What was flushed, or acknowledged with FUA, is read again; a flush that could not make it so fails.

mod analyzer;
mod creating;
mod drain;
mod heat;
mod idle;
mod indirector;
mod learned;
mod mover;
mod options;
mod origin;
mod pace;
mod planner;
mod planning;
mod policy;
mod profiler;
mod reconfigurator;
mod rehearsal;
mod store;
mod verifier;

use std::cell::RefCell;
use std::future::ready;
use std::rc::{Rc, Weak};

use seekless_core::device::{Place, io, unknown_command};
use seekless_core::lock::Guard;
use seekless_core::runtime::{Event, edge};
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Cost, Counters, ErrorKind, Extent, Geometry, Hints, IoError,
    IoFuture, Layer, Lba, Mode, Nanos, PAGE_BYTES, PAGE_SECTORS, RangeLocks, Zeroes, runtime,
};

pub use analyzer::{Analyzer, Edge, Graph, Vertex};
use idle::Idle;
use learned::Learned;
use mover::Movers;
pub use options::{
    AtStop, CANARIES, EDGES, MoveClass, Options, OriginChanged, Overwrite, Placement, Training,
};
use origin::OriginState;
pub use planner::{Greedy, Plan, Planned, Planner, Scene};
pub use profiler::{Access, Profiler, Window};
pub use seekless_core::{Reconfigured, Sides, Stage, Traffic};
pub use store::{BorgMap, Layout, Slot};
use store::{LastStop, Setup, Store};
use verifier::Verifier;

use crate::canary::Canary;
use crate::traffic::{Counted, Ledger};

/// What it can be told to do besides requests.
pub const COMMANDS: &[&str] = &["reconfigure", "drain", "verify"];

/// The BORG layer.
pub struct Borg {
    origin: Rc<dyn BlockDevice>,
    bopt: Rc<dyn BlockDevice>,
    /// What the BOPT holds.
    store: Rc<Store>,
    options: Options,
    /// Profile and plan count by two to this power of pages: by single ones up to 16 TiB, above which a number of 32
    /// bits would not tell them apart.
    grain: u32,
    /// Held by requests and movers for their pages.
    locks: RangeLocks,
    movers: Movers,
    verifier: Verifier,
    /// What is known of the origin.
    origin_state: RefCell<OriginState>,
    /// What was learnt of the workload.
    learned: RefCell<Learned>,
    /// Whether clients rest.
    idle: RefCell<Idle>,
    /// What went through it.
    ledger: Rc<RefCell<Ledger>>,
    /// Copies carry no bytes.
    timing_only: bool,
    canary: Canary,
    /// Itself, for what it does in the background.
    me: Weak<Borg>,
}

impl Borg {
    /// BORG over `origin`, with its copies in `bopt`, which was created for it: [`Borg::create`]. One that holds only
    /// zeroes is refused: there may have been newer pages in what was there before. `timing_only` is for runs that only
    /// measure time: pages move without their bytes.
    pub async fn open(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
        timing_only: bool,
    ) -> Result<Rc<Borg>, IoError> {
        let borg = Borg::create(origin, bopt, options, timing_only).await?;
        if borg.store.identity().is_none() {
            let why = "found no BOPT but zeroes, or one whose creation did not end, expected the one that was created \
                       for what it lies over; if there never was one: seekless volume create";
            return Err(IoError::new(ErrorKind::Invalid, "borg", Some(Extent::of_pages(0, 2)), why));
        }
        Ok(borg)
    }

    /// The same where there may be none yet: of zeroes, and of what a creation that did not end has left, it makes one,
    /// before the first change.
    pub async fn create(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
        timing_only: bool,
    ) -> Result<Rc<Borg>, IoError> {
        let layout = Borg::divide(bopt.geometry().sectors / PAGE_SECTORS, &options)?;
        let devices = Devices::counted(origin, bopt);
        let setup = Setup { layout, timing_only, canary: options.canary() };
        let store = Store::open(devices.origin.clone(), devices.bopt.clone(), setup).await?;
        let borg = Borg::over(devices, store, options, timing_only);
        borg.check_origin().await?;
        borg.ledger.take();
        borg.tend_in_idle_time();
        Ok(borg)
    }

    /// The layer over a store that is open.
    fn over(devices: Devices, store: Rc<Store>, options: Options, timing_only: bool) -> Rc<Borg> {
        let Devices { origin, bopt, ledger } = devices;
        let pages = origin.geometry().sectors.div_ceil(PAGE_SECTORS);
        Rc::new_cyclic(|me| Borg {
            origin,
            bopt,
            store,
            grain: (0..32).find(|grain| pages >> grain < u64::from(u32::MAX)).unwrap_or(32),
            locks: RangeLocks::new(),
            movers: Movers::default(),
            verifier: Verifier::new(),
            origin_state: RefCell::default(),
            learned: RefCell::new(Learned::new(pages, options.profile_memory.0 / 2)),
            idle: RefCell::new(Idle { asked: runtime::now(), ..Idle::default() }),
            ledger,
            timing_only,
            canary: options.canary(),
            options,
            me: me.clone(),
        })
    }

    /// How a BOPT of so many pages is divided.
    fn divide(pages: u64, options: &Options) -> Result<Layout, IoError> {
        let invalid = |why: String| IoError::new(ErrorKind::Invalid, "borg", None, why);
        options.check().map_err(|refused| invalid(refused.to_string()))?;
        Layout::new(pages, options.segment.0 / PAGE_BYTES, options.write_buffer).ok_or_else(|| {
            let least = store::FEWEST_PAGES;
            invalid(format!("found a BOPT of {pages} pages of 4 KiB, expected at least {least}"))
        })
    }

    /// The longest that a request waited for its pages when a mover held some of them.
    pub fn longest_wait(&self) -> Nanos {
        self.movers.longest_wait()
    }

    /// The pages of a request, when it is its turn. What a mover does under their locks is little, and goes first.
    async fn hold(&self, at: Extent, mode: Mode, how: &Hints) -> Guard {
        let began = runtime::now();
        let met = self.movers.hold(at);
        let class = if how.class == Class::Foreground { Class::Urgent } else { how.class };
        let guard = self.locks.lock(at.whole_pages(), mode, class, None).await;
        if met {
            self.movers.waited(runtime::now().since(began));
        }
        guard
    }

    /// A buffer for a copy.
    fn buffer(&self, at: Extent) -> Buffer {
        if self.timing_only { Buffer::hollow_sectors(at.sectors) } else { Buffer::zeroed(at.bytes()) }
    }

    /// What was counted for an account.
    pub fn sides(&self, account: Account) -> Sides {
        self.ledger.borrow_mut().get(account)
    }

    /// Memory of the map, in bytes.
    pub fn map_bytes(&self) -> u64 {
        self.store.map_bytes()
    }

    /// The profiler and the ledger see a request.
    fn note(&self, at: Extent, how: &Hints, write: bool) {
        self.ledger.borrow_mut().above(at, how, write);
        let now = runtime::now();
        self.idle.borrow_mut().request(now);
        let (pages, grain) = (at.pages(), self.grain);
        let (first, end) = (pages.start >> grain, pages.end.div_ceil(1 << grain));
        let access = Access::new(now, how.origin, Extent::of_pages(first, end - first), write);
        self.learned.borrow_mut().note(at, &access);
        self.tend_in_idle_time();
    }

    /// Counts something for who asks.
    fn tally(&self, how: &Hints, change: impl FnOnce(&mut Sides)) {
        change(self.ledger.borrow_mut().of(how.account));
    }

    /// A write ended, still under its lock: copies of its pages that are under way are stale. Whether any are.
    fn touch(&self, at: Extent) -> bool {
        self.tend_in_idle_time();
        self.movers.invalidate(at)
    }
}

/// The devices below, with their traffic counted.
struct Devices {
    origin: Rc<dyn BlockDevice>,
    bopt: Rc<dyn BlockDevice>,
    ledger: Rc<RefCell<Ledger>>,
}

impl Devices {
    fn counted(origin: Rc<dyn BlockDevice>, bopt: Rc<dyn BlockDevice>) -> Devices {
        let ledger = Rc::<RefCell<Ledger>>::default();
        let (origin, bopt) = (Counted::new(origin, 0, &ledger), Counted::new(bopt, 1, &ledger));
        Devices { origin, bopt, ledger }
    }
}

/// Tells the event log what was done to a page or range.
fn did(what: &'static str, extent: Extent, at: u64) {
    runtime::event(&Event::Did { layer: "borg", what, extent, at });
}

impl BlockDevice for Borg {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: true, ..self.origin.geometry() }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        if how.verify { io(self.verify(at, into, how)) } else { io(self.read_indirected(at, into, how)) }
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(self.write_indirected(at, from, how))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.store.flush(&how).await })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(self.discard_indirected(at, how))
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            if zeroes.only_if_fast {
                let why = "zeroes are written as data";
                return Err(IoError::new(ErrorKind::Unsupported, "borg", Some(at), why));
            }
            self.write_indirected(at, self.buffer(at), how).await
        })
    }

    fn estimate(&self, at: Extent, how: &Hints) -> Option<Nanos> {
        match self.store.lookup(at.start.page()).filter(|entry| entry.proven) {
            Some(entry) => self.bopt.estimate(Extent::of_pages(self.store.layout().page(entry.slot), 1), how),
            None => self.origin.estimate(at, how),
        }
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        self.places_indirected(at, each);
    }

    fn heat(&self, at: Extent, each: &mut dyn FnMut(Extent, u32)) -> bool {
        self.learned.borrow().heat.each(at, each);
        true
    }
}

impl Layer for Borg {
    /// That of the BOPT, once it was created.
    fn identity(&self) -> Option<u128> {
        self.store.identity()
    }

    fn counters(&self) -> Counters {
        let (store, counted) = (&self.store, self.ledger.borrow_mut().all());
        let (learned, verified) = (self.learned.borrow(), self.verifier.found());
        let (predicted, declined) = learned.rehearsal();
        vec![
            ("pages_mapped", store.mapped() as u64),
            ("pages_dirty", store.dirty() as u64),
            ("write_buffer_free", store.room()),
            ("map_pages_written", store.map_pages()),
            ("longest_wait_for_a_mover_us", self.longest_wait().0 / 1_000),
            ("pages_absorbed", counted.absorbed),
            ("pages_drained", counted.drained),
            ("pages_asked_for", counted.pages),
            ("pages_hit", counted.hits),
            ("requests_split", counted.splits),
            ("requests_profiled", learned.requests()),
            ("profile_bytes", learned.profile_bytes()),
            ("graph_bytes", learned.graph_bytes()),
            ("plans_declined", declined),
            ("rehearsed_requests", predicted.requests),
            ("rehearsed_busy_as_it_is_us", predicted.kept.requests.0 / 1_000),
            ("rehearsed_busy_as_planned_us", predicted.planned.requests.0 / 1_000),
            ("rehearsed_moves_us", predicted.planned.moves.0 / 1_000),
            ("map_bytes", store.map_bytes()),
            ("copies_not_compared", store.unproven() as u64),
            ("copies_differing", self.origin_state.borrow().differed),
            ("verify_home_blocks_repaired", verified.origin_repaired),
            ("verify_copy_blocks_repaired", verified.copies_repaired),
            ("verify_blocks_not_repaired", verified.unrepaired),
            ("verify_blocks_differing", verified.differing),
            ("verify_unreadable", verified.unreadable),
        ]
    }

    fn drain_to_stop(&self, limit: Nanos) -> IoFuture<'_, ()> {
        io(self.drain_for(limit))
    }

    /// Everything acknowledged is durable, and the map is on disk with its dirty bits: the next start is warm.
    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move {
            let how = Hints::default();
            if self.movers.is_one_at_work() {
                edge("it stops while pages are moved");
            }
            let _alone = {
                let _awaited = self.await_movers();
                self.movers.alone(&how).await
            };
            let all = Extent { start: Lba(0), sectors: self.origin.geometry().sectors };
            let _held = self.locks.exclusive(all, &how).await;
            self.store.flush(&how).await?;
            let left = async || {
                let samples = self.samples(&how).await?;
                let mark = if self.store.unproven() == 0 { self.origin_mark().await } else { None };
                Ok(LastStop { samples, mark })
            };
            self.store.stop(left, &how).await?;
            self.idle.borrow_mut().stopped = true;
            Ok(())
        })
    }

    fn command(&self, name: &str, how: Hints) -> IoFuture<'_, ()> {
        match name {
            "reconfigure" => io(async move { self.reconfigure(how.account).await.map(drop) }),
            "drain" => io(self.drain_all(how.account)),
            "verify" => io(self.verify_copies(how)),
            _ => io(ready(Err(unknown_command("borg", name, COMMANDS)))),
        }
    }

    fn reconfigure(&self, account: Account) -> IoFuture<'_, Option<Reconfigured>> {
        io(async move { self.reconfigure(account).await.map(Some) })
    }

    fn hurry(&self, class: Class) {
        self.hurry(class);
    }

    fn write_back(&self, account: Account) -> IoFuture<'_, ()> {
        io(self.drain_all(account))
    }

    fn traffic(&self, account: Account) -> Option<Sides> {
        Some(self.sides(account))
    }

    fn cost(&self) -> Cost {
        Cost { map_bytes: self.map_bytes(), longest_wait: self.longest_wait() }
    }

    fn detach(&self) -> IoFuture<'_, ()> {
        io(self.leave(Account::default()))
    }
}

#[cfg(test)]
mod tests;
