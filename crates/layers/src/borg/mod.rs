//! BORG: blocks that are used together are copied next to each other into a small optimised
//! partition, the BOPT, and writes are absorbed there (Bhadkamkar et al., FAST 2009).
//!
//! Laid out as the paper is: `profiler`, `analyzer`, `planner`, `reconfigurator`, and the
//! `indirector` on the path of every request; `bopt` is what lies where, `map` is `borg_map`.
//!
//! Invariants: a page has at most one copy; a copy that is not dirty equals home; a slot is used
//! again only after what said that it was in use is durably gone. In this version the map pages
//! are written when and where they will be, but hold no entries yet: it runs in virtual time only.

mod absorber;
mod analyzer;
mod bopt;
mod indirector;
mod map;
mod options;
mod planner;
mod profiler;
mod reconfigurator;

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use seekless_core::device::io;
use seekless_core::runtime::Event;
use seekless_core::{
    Account, BlockDevice, Buffer, Counters, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, Layer,
    Nanos, RangeLocks, Zeroes, runtime,
};

pub use analyzer::{Analyzer, Edge, Graph, Vertex};
use bopt::{Division, Log};
pub use map::{BorgMap, Slot};
pub use options::{Options, Training};
pub use planner::{Greedy, Plan, Planner};
pub use profiler::{Access, Profiler};
pub use reconfigurator::{Reconfigured, Stage};

/// The BORG layer.
pub struct Borg {
    home: Rc<dyn BlockDevice>,
    bopt: Rc<dyn BlockDevice>,
    options: Options,
    division: Division,
    locks: RangeLocks,
    /// Movers stand in line here.
    movers: RangeLocks,
    /// Copies carry no bytes.
    timing_only: bool,
    state: RefCell<State>,
}

struct State {
    map: BorgMap,
    log: Log,
    profiler: Profiler,
    /// What was seen before; not here while it is at work.
    analyzer: Option<Analyzer>,
    last_plan: Plan,
    /// How many plans were made.
    plans: u32,
    /// The run that writes of this instant join.
    run: Option<Rc<absorber::Run>>,
    /// Pages that a copy under way was taken from, and whether they were written meanwhile.
    watched: FxHashMap<u64, bool>,
    served: Vec<Served>,
    map_pages: u64,
}

/// Pages asked for, and of them those served from the BOPT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Asked for, reads and writes.
    pub pages: u64,
    /// From or into the BOPT.
    pub from_bopt: u64,
}

impl Borg {
    /// BORG over `home`, with its copies in `bopt`.
    pub fn new(
        home: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
    ) -> Result<Borg, IoError> {
        let invalid = |why: String| IoError::new(ErrorKind::Invalid, "borg", None, why);
        let pages = Extent { start: seekless_core::Lba(0), sectors: home.geometry().sectors }.pages().end;
        options.check().map_err(|refused| invalid(refused.to_string()))?;
        let bopt_pages = bopt.geometry().sectors / seekless_core::PAGE_SECTORS;
        let division = Division::new(bopt_pages, options.write_buffer)
            .ok_or_else(|| invalid(format!("found a BOPT of {bopt_pages} pages, expected 3 to 2^32")))?;
        let state = State {
            map: BorgMap::new(pages, division.slots()),
            log: Log::new(division.read_cache, division.write_buffer),
            profiler: Profiler::default(),
            analyzer: Some(Analyzer::default()),
            last_plan: Plan::default(),
            plans: 0,
            run: None,
            watched: FxHashMap::default(),
            served: Vec::new(),
            map_pages: 0,
        };
        let (locks, movers, state) = (RangeLocks::new(), RangeLocks::new(), RefCell::new(state));
        Ok(Borg { home, bopt, options, division, locks, movers, timing_only: false, state })
    }

    /// For runs that only measure time: pages move without their bytes.
    pub fn timing_only(self) -> Borg {
        Borg { timing_only: true, ..self }
    }

    /// What was served for an account.
    pub fn served(&self, account: Account) -> Served {
        self.state.borrow().served.get(usize::from(account.0)).copied().unwrap_or_default()
    }

    /// Memory of the map, in bytes.
    pub fn map_bytes(&self) -> u64 {
        self.state.borrow().map.bytes()
    }

    /// The profiler sees a request. Of what lies beyond 16 TiB it could not tell the pages apart.
    fn note(&self, at: Extent, how: &Hints, write: bool) {
        if at.pages().end > u64::from(u32::MAX) {
            return;
        }
        let State { profiler, analyzer, .. } = &mut *self.state.borrow_mut();
        profiler.note(&Access::new(runtime::now(), how.origin, at, write));
        if let Some(analyzer) = analyzer {
            let spilled = profiler.spill(self.options.profile_memory.0);
            if !spilled.is_empty() {
                analyzer.add(spilled.iter());
            }
        }
    }

    fn count(&self, how: &Hints, pages: u64, from_bopt: u64) {
        let mut state = self.state.borrow_mut();
        let account = usize::from(how.account.0);
        if account >= state.served.len() {
            state.served.resize_with(account + 1, Served::default);
        }
        state.served[account].pages += pages;
        state.served[account].from_bopt += from_bopt;
    }

    /// A write ended, still under its lock: copies of its pages that are under way are stale.
    fn touch(&self, at: Extent) {
        let mut state = self.state.borrow_mut();
        if !state.watched.is_empty() {
            for page in at.pages() {
                state.watched.entry(page).and_modify(|touched| *touched = true);
            }
        }
    }
}

/// Tells the event log what was done to a page or range.
fn did(what: &'static str, home: Extent, at: u64) {
    runtime::event(&Event::Did { layer: "borg", what, home, at });
}

impl State {
    /// A slot holds no copy any more.
    fn release(&mut self, slot: Slot) {
        if self.log.holds(slot) {
            self.log.give_back(slot);
        }
    }
}

impl BlockDevice for Borg {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: true, ..self.home.geometry() }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(self.read_indirected(at, into, how))
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
            let buffer = if self.timing_only {
                Buffer::hollow_sectors(at.sectors)
            } else {
                Buffer::zeroed(at.bytes())
            };
            self.write_indirected(at, buffer, how).await
        })
    }

    fn estimate(&self, at: Extent, how: &Hints) -> Option<Nanos> {
        let slot = self.state.borrow().map.slot_of(at.start.page());
        match slot {
            Some(slot) => self.bopt.estimate(Extent::of_pages(self.division.page(slot), 1), how),
            None => self.home.estimate(at, how),
        }
    }
}

impl Layer for Borg {
    fn counters(&self) -> Counters {
        let state = self.state.borrow();
        vec![
            ("pages_mapped", state.map.mapped() as u64),
            ("pages_dirty", state.map.dirty() as u64),
            ("write_buffer_free", state.log.free() as u64),
            ("map_pages_written", state.map_pages),
            ("requests_profiled", state.profiler.requests()),
            ("profile_bytes", state.profiler.bytes()),
            ("map_bytes", state.map.bytes()),
        ]
    }

    fn detach(&self) -> IoFuture<'_, ()> {
        io(self.empty(Account::default(), |_| true))
    }
}

#[cfg(test)]
mod tests;
