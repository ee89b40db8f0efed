//! BORG: blocks that are used together are copied next to each other into a small optimised
//! partition, the BOPT, and writes are absorbed there (Bhadkamkar et al., FAST 2009).
//!
//! Laid out as the paper is: `profiler`, `analyzer`, `planner`, `reconfigurator`, and the
//! `indirector` on the path of every request; `layout` is what lies where, `map` is `borg_map`.
//!
//! Invariants: a page has at most one copy that counts; a copy that is not dirty equals home, or nobody uses it; what is
//! dirty on disk was written by a client and is not home yet; a slot is used again only after what said that it was in
//! use is durably gone.
//!
//! Fault model: power may go at any time, and any sectors of what was not flushed may survive; any request below may
//! fail. What was flushed, or acknowledged with FUA, is read again; a flush that could not make it so fails.

mod absorber;
mod analyzer;
mod chains;
mod creating;
mod heat;
mod homes;
mod idle;
mod indirector;
mod layout;
mod log;
mod map;
mod mover;
mod opening;
mod options;
mod origin;
mod pace;
mod page;
mod planner;
mod profiler;
mod reconfigurator;
mod segments;
mod sides;
mod sums;
mod table;
mod upgrade;
mod verifier;

use std::cell::RefCell;
use std::future::ready;
use std::rc::{Rc, Weak};

use rustc_hash::FxHashMap;
use seekless_core::device::{Place, io, unknown_command};
use seekless_core::lock::Guard;
use seekless_core::runtime::{Event, edge};
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Cost, Counters, ErrorKind, Extent, Geometry, Hints, IoError,
    IoFuture, Layer, Lba, Limits, Mode, Nanos, PAGE_BYTES, PAGE_SECTORS, RangeLocks, Ticket, Zeroes, runtime,
};

pub use analyzer::{Analyzer, Edge, Graph, Vertex};
use heat::Heat;
use homes::Supers;
use idle::Idle;
use layout::Layout;
use log::Log;
pub use map::{BorgMap, Slot};
pub use options::{
    AtStop, CANARIES, EDGES, MoveClass, Options, OriginChanged, Overwrite, Placement, Training,
};
use origin::Origin;
use page::Super;
pub use planner::{Greedy, Plan, Planner};
pub use profiler::{Access, Profiler};
pub use seekless_core::{Reconfigured, Sides, Stage, Traffic};
use segments::Segments;
use sides::{Counted, Ledger};
use sums::Sums;
use table::Session;
use verifier::Verified;

use crate::canary::Canary;

/// What it can be told to do besides requests.
pub const COMMANDS: &[&str] = &["reconfigure", "drain", "verify"];

/// The BORG layer.
pub struct Borg {
    home: Rc<dyn BlockDevice>,
    bopt: Rc<dyn BlockDevice>,
    options: Options,
    layout: Layout,
    /// Profile and plan count by two to this power of pages: by single ones up to 16 TiB, above which a number of 32
    /// bits would not tell them apart.
    grain: u32,
    locks: RangeLocks,
    /// Movers stand in line here.
    movers: RangeLocks,
    /// Who writes metadata does so here.
    saying: RangeLocks,
    /// What is held in memory to compare home and copies.
    comparing: Limits,
    /// Copies carry no bytes.
    timing_only: bool,
    canary: Canary,
    state: RefCell<State>,
    /// What went through it.
    ledger: Rc<RefCell<Ledger>>,
    /// Itself, for what it does in the background.
    me: Weak<Borg>,
}

struct State {
    map: BorgMap,
    segments: Segments,
    log: Log,
    /// What is in the write buffer, as checksums.
    sums: Sums,
    /// What the super page on disk says.
    disk: Super,
    /// What has changed since it was opened, or stopped.
    session: Session,
    /// Where that is.
    supers: Supers,
    /// Pages of metadata of version 1 that are not whole.
    torn: Vec<u64>,
    /// A super page has to say that the log begins behind this run, which failed.
    anchor_owed: Option<u64>,
    /// That is being written.
    mending: bool,
    /// Why every later flush fails.
    failed: Option<IoError>,
    /// What is known of home.
    origin: Origin,
    /// Taken away: it only hands on.
    left: bool,
    /// Whether clients rest.
    idle: Idle,
    /// How many wait for movers to end.
    awaited: u32,
    /// The ticket of a mover that copies for free.
    freely: Option<Ticket>,
    /// The log is tended in the background.
    tending: bool,
    /// When the segment was taken that the log begins in for who opens the BOPT.
    anchored_at: u64,
    profiler: Profiler,
    /// How often parts were asked for.
    heat: Heat,
    /// What was seen before; not here while it is at work.
    analyzer: Option<Analyzer>,
    last_plan: Plan,
    /// How many plans were made.
    plans: u32,
    /// Pages that a copy under way was taken from, and whether they were written meanwhile.
    watched: FxHashMap<u64, bool>,
    /// Pages of metadata written, but for super pages.
    map_pages: u64,
    /// What a mover holds, or waits for, in ascending order.
    moving: Vec<Extent>,
    /// The longest that a request waited for its pages when a mover held some of them.
    longest_wait: Nanos,
    verified: Verified,
}

impl Borg {
    /// BORG over `home`, with its copies in `bopt`, which was created for it: [`Borg::create`]. One that holds only zeroes
    /// is refused: there may have been newer pages in what was there before.
    /// `timing_only` is for runs that only measure time: pages move without their bytes.
    pub async fn open(
        home: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
        timing_only: bool,
    ) -> Result<Rc<Borg>, IoError> {
        let borg = Borg::create(home, bopt, options, timing_only).await?;
        if borg.state.borrow().disk.identity == 0 {
            let why = "found no BOPT but zeroes, or one whose creation did not end, expected the one that was created \
                       for what it lies over; if there never was one: seekless volume create";
            return Err(IoError::new(ErrorKind::Invalid, "borg", Some(Extent::of_pages(0, 2)), why));
        }
        Ok(borg)
    }

    /// The same where there may be none yet: of zeroes, and of what a creation that did not end has left, it makes one,
    /// before the first change.
    pub async fn create(
        home: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
        timing_only: bool,
    ) -> Result<Rc<Borg>, IoError> {
        let home_sectors = home.geometry().sectors;
        let pages = Extent { start: Lba(0), sectors: home_sectors }.pages().end;
        let bopt_pages = bopt.geometry().sectors / PAGE_SECTORS;
        let layout = Borg::divide(bopt_pages, &options)?;
        let blank = Super::blank(layout, bopt_pages, home_sectors);
        let opened = opening::open(&*bopt, pages, blank).await?;
        let opening::Opened { map, segments, log, disk, aside } = opened;
        let state = State {
            map,
            segments,
            log,
            sums: aside.sums,
            disk,
            session: Session::Untouched,
            supers: aside.supers,
            torn: aside.torn,
            anchor_owed: None,
            mending: false,
            failed: None,
            origin: Origin::new(layout.slots()),
            left: false,
            idle: Idle { asked: runtime::now(), ..Idle::default() },
            awaited: 0,
            freely: None,
            tending: false,
            anchored_at: 0,
            profiler: Profiler::default(),
            heat: Heat::new(pages),
            analyzer: Some(Analyzer::bounded(options.profile_memory.0 / 2)),
            last_plan: Plan::default(),
            plans: 0,
            watched: FxHashMap::default(),
            map_pages: 0,
            moving: Vec::new(),
            longest_wait: Nanos::ZERO,
            verified: Verified::default(),
        };
        let canary = options.canary();
        let (locks, movers, saying) = (RangeLocks::new(), RangeLocks::new(), RangeLocks::new());
        let ledger = Rc::<RefCell<Ledger>>::default();
        let borg = Rc::new_cyclic(|me| Borg {
            home: Counted::new(home, 0, &ledger),
            bopt: Counted::new(bopt, 1, &ledger),
            ledger,
            options,
            layout,
            grain: (0..32).find(|grain| pages >> grain < u64::from(u32::MAX)).unwrap_or(32),
            locks,
            movers,
            saying,
            comparing: verifier::comparing(),
            timing_only,
            canary,
            state: RefCell::new(state),
            me: me.clone(),
        });
        borg.made_ready(aside.mended).await?;
        Ok(borg)
    }

    /// What is to be done before the first request.
    async fn made_ready(&self, mended: Vec<(Extent, Vec<u8>)>) -> Result<(), IoError> {
        self.write_mended(mended).await?;
        if self.state.borrow().disk.is_upgrading() {
            self.end_upgrade(&Hints::default()).await?;
        }
        self.look_at_home().await?;
        self.ledger.take();
        self.tend_in_idle_time();
        Ok(())
    }

    /// How a BOPT of so many pages is divided.
    fn divide(pages: u64, options: &Options) -> Result<Layout, IoError> {
        let invalid = |why: String| IoError::new(ErrorKind::Invalid, "borg", None, why);
        options.check().map_err(|refused| invalid(refused.to_string()))?;
        Layout::new(pages, options.segment.0 / PAGE_BYTES, options.write_buffer).ok_or_else(|| {
            let least = layout::FEWEST_PAGES;
            invalid(format!("found a BOPT of {pages} pages of 4 KiB, expected at least {least}"))
        })
    }

    /// The longest that a request waited for its pages when a mover held some of them.
    pub fn longest_wait(&self) -> Nanos {
        self.state.borrow().longest_wait
    }

    /// The pages of a request, when it is its turn. What a mover does under their locks is little, and goes first.
    async fn hold(&self, at: Extent, mode: Mode, how: &Hints) -> Guard {
        let began = runtime::now();
        let met = {
            let moving = &self.state.borrow().moving;
            let behind = moving.partition_point(|held| held.end() <= at.start);
            moving.get(behind).is_some_and(|held| held.overlaps(at))
        };
        let class = if how.class == Class::Foreground { Class::Urgent } else { how.class };
        let guard = self.locks.lock(at.whole_pages(), mode, class, None).await;
        if met {
            let waited = runtime::now().since(began);
            let state = &mut *self.state.borrow_mut();
            state.longest_wait = state.longest_wait.max(waited);
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
        self.state.borrow().map.bytes()
    }

    /// The profiler and the ledger see a request.
    fn note(&self, at: Extent, how: &Hints, write: bool) {
        self.ledger.borrow_mut().above(at, how, write);
        self.learn(at, how, write);
        self.tend_in_idle_time();
    }

    fn learn(&self, at: Extent, how: &Hints, write: bool) {
        let State { idle, profiler, heat, analyzer, .. } = &mut *self.state.borrow_mut();
        (idle.asked, idle.stopped) = (runtime::now(), false);
        heat.note(at);
        let (pages, grain) = (at.pages(), self.grain);
        let (first, end) = (pages.start >> grain, pages.end.div_ceil(1 << grain));
        profiler.note(&Access::new(idle.asked, how.origin, Extent::of_pages(first, end - first), write));
        if let Some(analyzer) = analyzer {
            let spilled = profiler.spill(self.options.profile_memory.0 / 2);
            if !spilled.is_empty() {
                analyzer.add(spilled.iter());
            }
        }
    }

    /// Counts something for who asks.
    fn tally(&self, how: &Hints, change: impl FnOnce(&mut Sides)) {
        change(self.ledger.borrow_mut().of(how.account));
    }

    /// A write ended, still under its lock: copies of its pages that are under way are stale. Whether any are.
    fn touch(&self, at: Extent) -> bool {
        self.tend_in_idle_time();
        let mut state = self.state.borrow_mut();
        let mut any = false;
        if !state.watched.is_empty() {
            for page in at.pages() {
                state.watched.entry(page).and_modify(|touched| {
                    *touched = true;
                    any = true;
                });
            }
        }
        any
    }
}

/// Tells the event log what was done to a page or range.
fn did(what: &'static str, home: Extent, at: u64) {
    runtime::event(&Event::Did { layer: "borg", what, home, at });
}

impl BlockDevice for Borg {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: true, ..self.home.geometry() }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        if how.verify { io(self.verify(at, into, how)) } else { io(self.read_indirected(at, into, how)) }
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(self.write_indirected(at, from, how))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(self.flush_indirected(how))
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
        let state = self.state.borrow();
        match state.map.slot_of(at.start.page()).filter(|slot| state.is_of_use(*slot)) {
            Some(slot) => self.bopt.estimate(Extent::of_pages(self.layout.page(slot), 1), how),
            None => self.home.estimate(at, how),
        }
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        self.places_indirected(at, each);
    }

    fn heat(&self, at: Extent, each: &mut dyn FnMut(Extent, u32)) -> bool {
        self.state.borrow().heat.each(at, each);
        true
    }
}

impl Layer for Borg {
    /// That of the BOPT, once it was created.
    fn identity(&self) -> Option<u128> {
        Some(self.state.borrow().disk.identity).filter(|identity| *identity != 0)
    }

    fn counters(&self) -> Counters {
        let (state, counted) = (self.state.borrow(), self.ledger.borrow_mut().all());
        vec![
            ("pages_mapped", state.map.mapped() as u64),
            ("pages_dirty", state.map.dirty() as u64),
            ("write_buffer_free", state.log.room()),
            ("map_pages_written", state.map_pages),
            ("longest_wait_for_a_mover_us", state.longest_wait.0 / 1_000),
            ("pages_absorbed", counted.absorbed),
            ("pages_drained", counted.drained),
            ("pages_asked_for", counted.pages),
            ("pages_hit", counted.hits),
            ("requests_split", counted.splits),
            ("requests_profiled", state.profiler.requests()),
            ("profile_bytes", state.profiler.bytes()),
            ("graph_bytes", state.analyzer.as_ref().map_or(0, Analyzer::bytes)),
            ("map_bytes", state.map.bytes()),
            ("copies_not_compared", state.origin.unproven.left() as u64),
            ("copies_differing", state.origin.differed),
            ("verify_home_blocks_repaired", state.verified.home_repaired),
            ("verify_copy_blocks_repaired", state.verified.copies_repaired),
            ("verify_blocks_not_repaired", state.verified.unrepaired),
            ("verify_blocks_differing", state.verified.differing),
            ("verify_unreadable", state.verified.unreadable),
        ]
    }

    fn drain_to_stop(&self, limit: Nanos) -> IoFuture<'_, ()> {
        io(self.drain_for(limit))
    }

    /// Everything acknowledged is durable, and the map is on disk with its dirty bits: the next start is warm.
    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move {
            let how = Hints::default();
            if !self.movers.is_empty() {
                edge("it stops while pages are moved");
            }
            let _alone = {
                let _awaited = self.await_movers();
                self.movers.exclusive(Extent::new(0, 1), &how).await
            };
            let all = Extent { start: Lba(0), sectors: self.home.geometry().sectors };
            let _held = self.locks.exclusive(all, &how).await;
            self.flush_indirected(how.clone()).await?;
            self.end_session(&how).await?;
            self.state.borrow_mut().idle.stopped = true;
            Ok(())
        })
    }

    fn command(&self, name: &str, how: Hints) -> IoFuture<'_, ()> {
        match name {
            "reconfigure" => io(async move { self.reconfigure(how.account).await.map(drop) }),
            "drain" => io(self.write_home(how.account)),
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
        io(self.write_home(account))
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
