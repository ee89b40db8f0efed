//! BORG copies blocks that are used together next to each other into a small optimised partition, the BOPT, and absorbs
//! writes there (Bhadkamkar et al., FAST 2009).
//!
//! Divided as in the paper: `profiler`, `analyzer`, `planner`, `reconfigurator`, and the `indirector` on the path of
//! every request. `store` is the on-disk state; `mover` moves pages; `drain`, `idle` and `pace` decide when and how
//! fast. `watch` and `policy` decide when to plan; `planning` picks a `course` by `rehearsal` and `choice`, within
//! `budget`; `gain` measures what was gained, `accuracy` how well the model predicts, and `history` keeps both.
//! `learned` is what was learned of the workload, `saved` its encoding, `keeping` when it is written.
//!
//! Invariants: a clean copy equals the origin, or is not used; a page that is dirty on disk was written by a client and
//! is not yet on the origin. For the invariants of the on-disk state see `store`.
//!
//! Fault model: power may fail at any time, and any subset of unflushed sectors may survive; any request to a device
//! below may fail. Data that was flushed, or acknowledged with FUA, is read back; a flush that cannot guarantee this
//! fails.

mod accuracy;
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
mod fallback;
mod gain;
mod heat;
mod history;
mod homing;
mod idle;
mod indirector;
mod keeping;
mod learned;
mod locking;
mod mover;
mod older;
mod opening;
mod options;
mod origin;
mod pace;
mod parts;
mod planner;
mod planning;
mod policy;
mod profiler;
mod reconfigurator;
mod rehearsal;
mod return_on_read;
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
    Hits, IoError, IoFuture, Layer, Lba, Nanos, Op, RangeLocks, Readiness, Record, Zeroes, mutant, runtime,
};

use accuracy::Accuracy;
pub use analyzer::{Analyzer, Edge, Edges, Graph, Training, Vertex};
use copy_on_read::CopyOnRead;
use course::Writes;
use devices::Devices;
use early::Early;
use fallback::Fallback;
use gain::{Measuring, Source};
use history::{History, Pages};
use homing::Homing;
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
use return_on_read::ReturnOnRead;
pub use seekless_core::{LayerTraffic, Reconfigured, Stage, Traffic};
pub use store::{BorgMap, Layout, Slot};
use store::{LastStop, Store};
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
    return_on_read: ReturnOnRead,
    homing: Homing,
    failed_writes: FailedWrites,
    fallback: Fallback,
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
    /// What is done with writes until the next decision.
    writes: Cell<Writes>,
    /// Number of tasks that empty the BOPT: meanwhile nothing is absorbed, or they might not end.
    emptying: Cell<u64>,
    /// Whether rehearsals choose the course: until one did, everything goes to the origin.
    rehearses: bool,
    early: Early,
    accuracy: Accuracy,
    measuring: Measuring,
    history: History,
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

    /// Pages that have a copy, in the order of their addresses.
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
        self.history.roll(now, || self.pages());
        self.choose_early_if_due();
        self.keep_from_time_to_time();
        self.start_idle_work();
    }

    /// A request that came at `begin` was answered.
    fn request_answered(&self, begin: Nanos) {
        let now = runtime::now();
        self.arrivals.answer(now);
        self.accuracy.answered(now - begin);
    }

    /// Pages that clients read and wrote, and those that copies served.
    fn pages(&self) -> Pages {
        let counted = self.ledger.borrow_mut().all();
        Pages { all: counted.pages, hits: counted.hits }
    }

    /// Where a read that copies could serve goes if it is timed.
    fn source(&self, now: Nanos) -> Option<Source> {
        self.measuring.source(now, |gain| self.history.gained(gain))
    }

    /// A read that came at `begin` was answered; `source` if it is timed.
    fn time(&self, source: Option<Source>, begin: Nanos) {
        if let Some(source) = source {
            self.measuring.answered(source, runtime::now() - begin);
        }
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
        self.return_on_read.invalidate(at);
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
            let begin = runtime::now();
            let read = self.read_indirected(at, into, how).await;
            self.request_answered(begin);
            read
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let begin = runtime::now();
            let written = self.write_indirected(at, from, how).await;
            self.request_answered(begin);
            written
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.flush_all(&how).await })
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
            self.flush_all(&how).await?;
            let last_stop = async || {
                let samples = self.samples(&how).await?;
                let compared = self.store.unproven() == 0
                    || mutant::is("borg: copies that were not compared count as compared at a stop");
                let mark = if compared { self.origin_mark().await } else { None };
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
        let pays = watch.pays(runtime::now()) && self.options.rehearse && self.models().is_some();
        Readiness { requests: watch.requests(), last_request, pays }
    }

    fn history(&self) -> seekless_core::History {
        self.history.all(self.pages())
    }

    fn trouble(&self) -> Option<String> {
        self.absorbing_trouble().or_else(|| self.accuracy.trouble())
    }

    fn on_trouble(&self, tell: Box<dyn Fn(&str)>) {
        let tell: Rc<dyn Fn(&str)> = tell.into();
        self.fallback.on_trouble(tell.clone());
        self.accuracy.on_trouble(Box::new(move |why| tell(why)));
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
