//! BORG copies blocks that are used together next to each other into a small optimised partition, the BOPT, and absorbs
//! writes there (Bhadkamkar et al., FAST 2009).
//!
//! Divided as in the paper: `profiler`, `analyzer`, `planner`, `reconfigurator`, and the `indirector` on the path of
//! every request. `store` is the on-disk state; `mover` moves pages; `drain`, `idle` and `pace` decide when and how
//! fast. `watch` and `policy` decide when to plan; `planning` picks a `course` by `rehearsal` and `choice`, within
//! `budget`. `learned` is what was learned of the workload, `saved` its encoding, `keeping` when it is written.
//!
//! Invariants: a clean copy equals the origin, or is not used; a page that is dirty on disk was written by a client and
//! is not yet on the origin. For the invariants of the on-disk state see `store`.
//!
//! Fault model: power may fail at any time, and any subset of unflushed sectors may survive; any request to a device
//! below may fail. Data that was flushed, or acknowledged with FUA, is read back; a flush that cannot guarantee this
//! fails.

mod analyzer;
mod budget;
mod choice;
mod code;
mod copy_on_read;
mod counted;
mod course;
mod creating;
mod damage;
mod devices;
mod drain;
mod early;
mod examined;
mod failed_writes;
mod heat;
mod idle;
mod indirector;
mod keeping;
mod learned;
mod locking;
mod mover;
mod older;
mod options;
mod origin;
mod pace;
mod planner;
mod planning;
mod policy;
mod profiler;
mod reconfigurator;
mod rehearsal;
mod saved;
mod store;
mod tools;
mod verifier;
mod watch;

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::rc::{Rc, Weak};

use seekless_core::device::{Place, io, unknown_command};
use seekless_core::runtime::{Event, edge};
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Cost, Counters, ErrorKind, Extent, FailedWrites, Geometry, Hints,
    Hits, IoError, IoFuture, Layer, Lba, Nanos, Op, PAGE_BYTES, PAGE_SECTORS, RangeLocks, Readiness, Record,
    Zeroes, runtime,
};

pub use analyzer::{Analyzer, Edge, Edges, Graph, Training, Vertex};
use copy_on_read::CopyOnRead;
use devices::Devices;
use early::Early;
use idle::Idle;
use keeping::Keeping;
use learned::Learned;
use mover::Movers;
pub use older::Older;
pub use options::{
    AtStop, CANARIES, Drain, EDGES, MoveClass, Options, OriginChanged, Overwrite, Placement, REMEDIES,
};
use origin::OriginState;
pub use planner::{Address, Greedy, Order, PathCover, Plan, Planned, Planner, PlannerName, Scene};
use profiler::Arrivals;
pub use profiler::{Access, Arrival, Profiler, Window};
pub use seekless_core::{LayerTraffic, Reconfigured, Stage, Traffic};
pub use store::{BorgMap, Layout, Slot};
use store::{LastStop, Setup, Store};
pub use tools::BorgTools;
use verifier::Verifier;
use watch::Watch;

use crate::canary::Canary;
use crate::traffic::Ledger;

/// Commands of the layer.
pub const COMMANDS: &[&str] = &["reconfigure", "drain", "verify"];

/// The BORG layer.
pub struct Borg {
    origin: Rc<dyn BlockDevice>,
    bopt: Rc<dyn BlockDevice>,
    /// On-disk state of the BOPT, and the map.
    store: Rc<Store>,
    options: Options,
    /// Profile and plan count in units of `1 << granularity` pages: single pages up to 16 TiB, above which page numbers
    /// do not fit into 32 bits.
    granularity: u32,
    /// Locks of pages, taken by requests and movers.
    locks: RangeLocks,
    movers: Movers,
    copy_on_read: CopyOnRead,
    failed_writes: FailedWrites,
    verifier: Verifier,
    /// Trust in the origin's contents.
    origin_state: RefCell<OriginState>,
    /// Profile and graph of the workload.
    learned: RefCell<Learned>,
    /// Whether another decision pays.
    watch: Cell<Watch>,
    /// State of idle-time work.
    idle: RefCell<Idle>,
    keeping: Keeping,
    /// Traffic above and below.
    ledger: Rc<RefCell<Ledger>>,
    /// Whether copies carry no data (for runs that only measure time).
    timing_only: bool,
    /// Whether writes to pages without a copy are absorbed.
    absorbs: Cell<bool>,
    /// Whether the log is drained all along, where no request notices.
    drains: Cell<bool>,
    /// Whether rehearsals choose the course: until one did, everything goes to the origin.
    rehearses: bool,
    early: Early,
    /// Requests as they come and are answered.
    arrivals: Arrivals,
    /// Writes under way that lock pages.
    page_writes: Cell<u64>,
    canary: Canary,
    /// What follows a drain of all pages.
    after_drains: RefCell<Option<Box<dyn Fn()>>>,
    /// Weak reference to itself, for background tasks.
    me: Weak<Borg>,
}

impl Borg {
    /// Opens BORG over `origin`, with copies in `bopt`, which must have been created for it ([`Borg::format_new`]). A
    /// BOPT of zeroes is refused: the one that was there before may have held newer pages. With `timing_only`, pages
    /// move without their data.
    pub async fn open(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
        timing_only: bool,
    ) -> Result<Rc<Borg>, IoError> {
        let borg = Borg::open_creating(origin, bopt, options, timing_only).await?;
        if borg.store.identity().is_none() {
            let why = "found no BOPT but zeroes, or one whose creation did not end, expected the one that was created \
                       for what it lies over; if there never was one: seekless volume create";
            return Err(IoError::new(ErrorKind::Invalid, "borg", Some(Extent::of_pages(0, 2)), why));
        }
        Ok(borg)
    }

    /// As `open`, but a BOPT of zeroes, or one whose creation was interrupted, is taken for a new one: the store formats
    /// it before its first change.
    pub async fn open_creating(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
        timing_only: bool,
    ) -> Result<Rc<Borg>, IoError> {
        let layout = Borg::layout_of(bopt.geometry().sectors / PAGE_SECTORS, &options)?;
        let devices = Devices::counted(origin, bopt);
        let setup =
            Setup { layout, timing_only, eager: options.eager, canary: options.canary(), lenient: false };
        let store = Store::open(devices.origin.clone(), devices.bopt.clone(), setup).await?;
        let borg = Borg::over(devices, store, options, timing_only);
        borg.check_origin().await?;
        borg.recall().await?;
        borg.ledger.take();
        borg.start_idle_work();
        Ok(borg)
    }

    /// The layer over an open store.
    fn over(devices: Devices, store: Rc<Store>, options: Options, timing_only: bool) -> Rc<Borg> {
        let Devices { origin, bopt, ledger } = devices;
        let pages = origin.geometry().sectors.div_ceil(PAGE_SECTORS);
        // Until a rehearsal finds something better, everything goes to the origin.
        let rehearses = options.rehearse && origin.model().is_some() && bopt.model().is_some();
        Rc::new_cyclic(|me| Borg {
            origin,
            bopt,
            store,
            granularity: (0..32).find(|granularity| pages >> granularity < u64::from(u32::MAX)).unwrap_or(32),
            locks: RangeLocks::new(),
            movers: Movers::default(),
            after_drains: RefCell::default(),
            failed_writes: FailedWrites::default(),
            copy_on_read: CopyOnRead::new(options.copied_on_read()),
            verifier: Verifier::new(),
            origin_state: RefCell::default(),
            learned: RefCell::new(Learned::new(
                pages,
                options.profile_memory.0 / 2,
                options.edges == Edges::Global || options.rehearse,
            )),
            watch: Cell::default(),
            idle: RefCell::new(Idle { last_request: runtime::now(), ..Idle::default() }),
            keeping: Keeping::default(),
            ledger,
            timing_only,
            absorbs: Cell::new(options.absorb && !rehearses),
            drains: Cell::default(),
            rehearses,
            early: Early::default(),
            arrivals: Arrivals::default(),
            page_writes: Cell::new(0),
            canary: options.canary(),
            options,
            me: me.clone(),
        })
    }

    /// Layout of a BOPT of `pages` pages.
    fn layout_of(pages: u64, options: &Options) -> Result<Layout, IoError> {
        let invalid = |why: String| IoError::new(ErrorKind::Invalid, "borg", None, why);
        options.check().map_err(|refused| invalid(refused.to_string()))?;
        Layout::new(pages, options.segment.0 / PAGE_BYTES, options.write_buffer).ok_or_else(|| {
            let least = store::FEWEST_PAGES;
            invalid(format!("found a BOPT of {pages} pages of 4 KiB, expected at least {least}"))
        })
    }

    /// The longest that a request waited for pages locked by a mover.
    pub fn longest_wait(&self) -> Nanos {
        self.movers.longest_wait()
    }

    /// A buffer for a copy, without data in a `timing_only` layer.
    fn buffer(&self, at: Extent) -> Buffer {
        if self.timing_only { Buffer::hollow_sectors(at.sectors) } else { Buffer::zeroed(at.bytes()) }
    }

    /// Traffic of an account.
    pub fn traffic_of(&self, account: Account) -> LayerTraffic {
        self.ledger.borrow_mut().get(account)
    }

    /// Whether a page has a copy.
    pub(crate) fn has_copy(&self, page: u64) -> bool {
        self.store.lookup(page).is_some()
    }

    /// Pages that have a copy, in no order.
    pub(crate) fn pages_copied(&self) -> Vec<u64> {
        self.store.pages_where(|_| true)
    }

    /// Memory used by the map, in bytes.
    pub fn map_bytes(&self) -> u64 {
        self.store.map_bytes()
    }

    /// Passes a request that arrived to the ledger, the profiler, the watch and idle-time work.
    fn request_arrived(&self, at: Extent, how: &Hints, write: bool, arrival: Arrival) {
        self.ledger.borrow_mut().above(at, how, write);
        let now = runtime::now();
        self.idle.borrow_mut().request(now, how.account);
        let access = Access::new(arrival, how.origin, self.units(at), write);
        self.learned.borrow_mut().note(at, &access);
        let mut watch = self.watch.get();
        watch.request(|| self.ledger.borrow().counted());
        self.watch.set(watch);
        self.choose_early_if_due();
        self.keep_from_time_to_time();
        self.start_idle_work();
    }

    /// The units of the profile that an extent touches, as an extent with a page for each unit.
    fn units(&self, at: Extent) -> Extent {
        let (pages, granularity) = (at.pages(), self.granularity);
        let (first, end) = (pages.start >> granularity, pages.end.div_ceil(1 << granularity));
        Extent::of_pages(first, end - first)
    }

    /// Updates the counters of the request's account.
    fn tally(&self, how: &Hints, change: impl FnOnce(&mut LayerTraffic)) {
        change(self.ledger.borrow_mut().of(how.account));
    }

    /// Invalidates optimistic copies of these pages, after a write and still under its lock; returns whether there were
    /// any.
    fn invalidate_copies(&self, at: Extent) -> bool {
        self.start_idle_work();
        self.copy_on_read.invalidate(at);
        self.movers.invalidate(at)
    }
}

/// Writes an operation on a page or extent to the event log.
fn did(what: &'static str, extent: Extent, at: u64) {
    runtime::event(&Event::Did { layer: "borg", what, extent, at });
}

impl BlockDevice for Borg {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: true, ..self.origin.geometry() }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        if how.verify {
            return io(self.verify(at, into, how));
        }
        io(async move {
            let read = self.read_indirected(at, into, how).await;
            self.arrivals.answer(runtime::now());
            read
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let written = self.write_indirected(at, from, how).await;
            self.arrivals.answer(runtime::now());
            written
        })
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

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        match self.store.lookup(at.start.page()).filter(|entry| entry.proven) {
            // The place of a write in the log is chosen when it arrives.
            _ if op != Op::Read => None,
            Some(entry) => {
                self.bopt.estimate(op, Extent::of_pages(self.store.layout().page(entry.slot), 1), how)
            }
            None => self.origin.estimate(op, at, how),
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
    /// Identity of the BOPT, once created.
    fn identity(&self) -> Option<u128> {
        self.store.identity()
    }

    fn generation(&self) -> Option<u64> {
        self.store.generation()
    }

    fn counters(&self) -> Counters {
        self.counted()
    }

    fn drain_to_stop(&self, limit: Nanos) -> IoFuture<'_, ()> {
        io(self.drain_for(limit))
    }

    /// Makes everything acknowledged durable and writes the map with its dirty bits, so that the next start is warm.
    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move {
            let how = Hints::default();
            if self.movers.is_running() {
                edge("a stop while pages are moved");
            }
            let _alone = {
                let _stopping = self.request_movers_stop();
                self.movers.alone(&how).await
            };
            let all = Extent { start: Lba(0), sectors: self.origin.geometry().sectors };
            let _held = self.locks.exclusive(all, &how).await;
            self.store.flush(&how).await?;
            let last_stop = async || {
                let samples = self.samples(&how).await?;
                let mark = if self.store.unproven() == 0 { self.origin_mark().await } else { None };
                Ok(LastStop { samples, mark })
            };
            // Without it the layer learns anew.
            if let Some(borg) = self.me.upgrade() {
                drop(borg.keep(&how).await);
            }
            self.store.stop(last_stop, &how).await?;
            self.idle.borrow_mut().stopped = true;
            Ok(())
        })
    }

    fn command(&self, name: &str, how: Hints) -> IoFuture<'_, ()> {
        match name {
            "reconfigure" => io(async move { self.reconfigure_now(how.account).await.map(drop) }),
            "drain" => io(self.drain_all(how.account)),
            "verify" => io(self.verify_copies(how)),
            _ => io(ready(Err(unknown_command("borg", name, COMMANDS)))),
        }
    }

    fn reconfigure(&self, account: Account) -> IoFuture<'_, Option<Reconfigured>> {
        io(async move { self.reconfigure_now(account).await.map(Some) })
    }

    fn readiness(&self) -> Readiness {
        let watch = self.watch.get();
        let last_request = self.idle.borrow().last_request;
        // Without a rehearsal nothing says whether a plan pays.
        let pays = watch.pays() && self.options.rehearse && self.models().is_some();
        Readiness { requests: watch.requests(), last_request, pays }
    }

    fn foresee(&self, requests: &[Record]) {
        let learned = &mut *self.learned.borrow_mut();
        learned.forget();
        for Record { op, extent, origin, .. } in requests {
            if let Op::Read | Op::Write | Op::WriteZeroes = op {
                let units = self.units(*extent);
                learned.note(*extent, &Access::new(Arrival::default(), *origin, units, *op != Op::Read));
            }
        }
    }

    fn boost(&self, class: Class) {
        self.boost_free_copies(class);
    }

    fn write_back(&self, account: Account) -> IoFuture<'_, ()> {
        io(self.drain_all(account))
    }

    fn give_up(&self) -> IoFuture<'_, ()> {
        io(self.give_up_now())
    }

    fn traffic(&self, account: Account) -> Option<LayerTraffic> {
        Some(self.traffic_of(account))
    }

    fn hits(&self) -> Option<Hits> {
        let counted = self.ledger.borrow_mut().all();
        Some(Hits { lookups: counted.pages, hit: counted.hits })
    }

    fn cost(&self) -> Cost {
        Cost { map_bytes: self.map_bytes(), longest_wait: self.longest_wait() }
    }

    fn detach(&self) -> IoFuture<'_, ()> {
        io(self.detach_now(Account::default()))
    }
}

#[cfg(test)]
mod tests;
