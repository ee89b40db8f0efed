//! The reconfigurator (section 4.4): moves pages until the BOPT is as planned.
//!
//! *Outgoing* takes what is not in the plan out of the BOPT, home if it is dirty. *Relocate* moves
//! what is in the BOPT but elsewhere. *Incoming* copies the rest from home. Each works in batches:
//! all reads, then all writes, in background class, so that the scheduler can order them.
//!
//! A batch copies first and asks later: no foreground request waits for a copy. Only when the
//! copies are written are their pages locked; those that were overwritten meanwhile are abandoned,
//! the others' map pages are written, then the map is changed. A slot that other pages are to move
//! into is emptied in the same way before. This differs from the paper, which holds such writes;
//! and chains and cycles (section 5.2) need no case of their own, since a page whose slot is needed
//! goes home and comes in again.
//!
//! Faults: a batch that fails ends the reconfiguration with its error; what was moved stays moved,
//! what was not stays where it was, and nothing is mapped to a slot that was not written.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use rustc_hash::{FxHashMap, FxHashSet};
use seekless_core::lock::Guard;
use seekless_core::{
    Account, BlockDevice, Buffer, Class, ErrorKind, Extent, Hints, IoError, Mode, Nanos, PAGE_SECTORS,
    Ticket, runtime,
};

use super::analyzer::analyze;
use super::bopt::{Division, MAP_ENTRIES, SEGMENT_PAGES};
use super::map::Slot;
use super::planner::{Plan, plan};
use super::{Borg, did};

/// Pages that move together: enough that a batch's reads cross the disk in one sweep, little
/// enough to keep in memory (32 MiB).
const BATCH: usize = 8_192;

/// What analysis costs in virtual time, a request: about ten times what the bench measures, since
/// it runs on a low-priority thread.
const ANALYZE_NS: u64 = 2_000;
/// What planning costs in virtual time, a vertex or edge.
const PLAN_NS: u64 = 2_000;

/// A stage of a reconfiguration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The paper's word.
    pub name: &'static str,
    /// How long it took, foreground requests in between included.
    pub took: Nanos,
    /// Pages it moved or looked at.
    pub pages: u64,
}

/// What a reconfiguration did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconfigured {
    /// When it started.
    pub start: Nanos,
    /// Analyse, plan, outgoing, relocate, incoming.
    pub stages: Vec<Stage>,
    /// Of the access graph.
    pub vertices: u64,
    /// Of the access graph.
    pub edges: u64,
    /// In the plan.
    pub planned_pages: u64,
}

/// A page and where it is to go.
type Move = (u64, Slot);

impl Borg {
    /// Analyses what was seen, plans, and moves what has to be moved. `account` pays for it.
    ///
    /// # Errors
    /// `Invalid` while another one runs; else what the devices reported.
    pub async fn reconfigure(&self, account: Account) -> Result<Reconfigured, IoError> {
        let mover = Mover::start(self, account)?;
        let mut report = Reconfigured { start: runtime::now(), ..Reconfigured::default() };
        let plan = self.make_plan(&mut report).await;
        let targets = targets(&plan);
        let old_maps = self.state.borrow_mut().log.maps();
        report
            .stage("outgoing", mover.outgoing(&self.pages_where(|page, _| !targets.contains_key(&page))))
            .await?;
        report.stage("relocate", mover.place(&self.moves(&targets, true))).await?;
        report.stage("incoming", mover.place(&self.moves(&targets, false))).await?;
        self.redescribe(old_maps, &mover.how).await?;
        Ok(report)
    }

    /// Writes all that is dirty home and drops it. For leaving, and for the last figure of a comparison.
    pub async fn write_home(&self, account: Account) -> Result<(), IoError> {
        let mover = Mover::start(self, account)?;
        mover.outgoing(&self.pages_where(|_, dirty| dirty)).await?;
        self.home.flush(mover.how.clone()).await
    }

    /// The pages in the BOPT that `wanted(page, dirty)` accepts, in order of slots.
    fn pages_where(&self, wanted: impl Fn(u64, bool) -> bool) -> Vec<u64> {
        let state = self.state.borrow();
        state.map.iter().filter(|(_, page, dirty)| wanted(*page, *dirty)).map(|(_, page, _)| page).collect()
    }

    /// The moves that are left to do, in order of slots: of pages that are in the BOPT, or of those
    /// that are not.
    fn moves(&self, targets: &FxHashMap<u64, Slot>, in_bopt: bool) -> Vec<Move> {
        let state = self.state.borrow();
        let left = |(page, slot): (&u64, &Slot)| {
            let now = state.map.slot_of(*page);
            (now.is_some() == in_bopt && now != Some(*slot)).then_some((*page, *slot))
        };
        let mut moves: Vec<Move> = targets.iter().filter_map(left).collect();
        moves.sort_unstable_by_key(|(_, slot)| *slot);
        moves
    }

    async fn make_plan(&self, report: &mut Reconfigured) -> Plan {
        let window = self.state.borrow().profiler.window();
        let requests = window.len() as u64;
        let begin = runtime::now();
        let graph = runtime::offload(move || analyze(&window), |_| Nanos(requests * ANALYZE_NS)).await;
        report.stages.push(Stage { name: "analyse", took: runtime::now() - begin, pages: requests });
        (report.vertices, report.edges) = (graph.vertices().len() as u64, graph.edge_count() as u64);
        let (begin, cost) = (runtime::now(), Nanos((report.vertices + report.edges) * PLAN_NS));
        let (threshold, capacity) = (self.options.threshold, u64::from(self.division.read_cache));
        let plan = runtime::offload(move || plan(&graph, threshold, capacity), |_| cost).await;
        report.planned_pages = plan.pages();
        report.stages.push(Stage { name: "plan", took: runtime::now() - begin, pages: plan.pages() });
        plan
    }

    /// What is still in the log is described by new map pages; then the pages of the old ones are free.
    async fn redescribe(&self, old_maps: Vec<Slot>, how: &Hints) -> Result<(), IoError> {
        {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            let stayed: BTreeSet<Slot> =
                state.map.iter().map(|(slot, _, _)| slot).filter(|&slot| state.log.holds(slot)).collect();
            if old_maps.is_empty()
                || stayed.len().div_ceil(MAP_ENTRIES) + state.maps_to_come > state.log.free()
            {
                state.log.keep_maps(old_maps);
                return Ok(());
            }
            state.unflushed = stayed;
        }
        self.flush_map(how).await?;
        let mut state = self.state.borrow_mut();
        for slot in old_maps {
            state.log.give_back(slot);
        }
        Ok(())
    }
}

impl Reconfigured {
    async fn stage(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Result<u64, IoError>>,
    ) -> Result<(), IoError> {
        let begin = runtime::now();
        let pages = work.await?;
        self.stages.push(Stage { name, took: runtime::now() - begin, pages });
        Ok(())
    }
}

/// The slot that each planned page is to have.
fn targets(plan: &Plan) -> FxHashMap<u64, Slot> {
    let pages = plan.ranges.iter().flat_map(|range| range.start..range.start + range.pages);
    pages.map(u64::from).zip(0..).collect()
}

/// Moves pages in the background. There is one at a time.
struct Mover<'a> {
    borg: &'a Borg,
    how: Hints,
}

impl Drop for Mover<'_> {
    fn drop(&mut self) {
        let mut state = self.borg.state.borrow_mut();
        state.moving = false;
        state.watched.clear();
    }
}

/// Pages that are locked and were not written since they were watched.
struct Locked {
    untouched: Vec<u64>,
    /// Raised by whoever waits for the locks: what is done under them carries it.
    ticket: Ticket,
    _guards: Vec<Guard>,
}

impl<'a> Mover<'a> {
    fn start(borg: &'a Borg, account: Account) -> Result<Mover<'a>, IoError> {
        if std::mem::replace(&mut borg.state.borrow_mut().moving, true) {
            return Err(IoError::new(ErrorKind::Invalid, "borg", None, "pages are being moved already"));
        }
        let how = Hints { class: Class::Background, account, ..Hints::default() };
        Ok(Mover { borg, how })
    }

    /// Takes pages out of the BOPT, and returns how many went.
    async fn outgoing(&self, pages: &[u64]) -> Result<u64, IoError> {
        let mut gone = 0;
        for batch in pages.chunks(BATCH) {
            gone += self.evict(batch).await?;
        }
        Ok(gone)
    }

    /// Brings pages to slots, and returns how many came.
    async fn place(&self, moves: &[Move]) -> Result<u64, IoError> {
        let mut came = 0;
        for batch in moves.chunks(BATCH) {
            self.make_room(batch).await?;
            came += self.copy(batch).await?;
        }
        Ok(came)
    }

    /// Empties the slots that a batch is to fill.
    async fn make_room(&self, batch: &[Move]) -> Result<(), IoError> {
        let occupants: Vec<u64> = {
            let state = self.borg.state.borrow();
            let occupant = |&(page, slot): &Move| state.map.page_at(slot).filter(|&there| there != page);
            batch.iter().filter_map(occupant).collect()
        };
        self.evict(&occupants).await.map(drop)
    }

    /// Copies what is dirty home, then unmaps all of `pages` that were not written meanwhile.
    async fn evict(&self, pages: &[u64]) -> Result<u64, IoError> {
        let borg = self.borg;
        let dirty: Vec<(u64, Slot)> = {
            let state = borg.state.borrow();
            let copy = |&page: &u64| state.map.slot_of(page).map(|slot| (page, slot));
            pages.iter().filter_map(copy).filter(|(_, slot)| state.map.is_dirty(*slot)).collect()
        };
        self.watch(pages);
        let runs = runs(dirty.iter().map(|&(page, slot)| (borg.division.page(slot), page)));
        for run in &runs {
            did("drained", run.to, run.from.start.0);
        }
        self.transfer(&runs, &*borg.bopt, &*borg.home).await?;
        if borg.home.geometry().volatile_cache && !runs.is_empty() {
            borg.home.flush(self.how.clone()).await?;
        }
        let locked = self.lock_untouched(pages).await;
        let leaving: Vec<(u64, Slot)> = {
            let state = borg.state.borrow();
            locked.untouched.iter().filter_map(|&page| Some((page, state.map.slot_of(page)?))).collect()
        };
        self.write_maps(leaving.iter().map(|(_, slot)| *slot), &locked.ticket).await?;
        let mut state = borg.state.borrow_mut();
        for &(page, slot) in &leaving {
            state.map.remove(page);
            state.release(slot);
            did("evicted", Extent::of_pages(page, 1), borg.division.page(slot) * PAGE_SECTORS);
        }
        Ok(leaving.len() as u64)
    }

    /// Copies pages to empty slots, from the BOPT or from home, and maps those that were not written
    /// meanwhile.
    async fn copy(&self, batch: &[Move]) -> Result<u64, IoError> {
        let borg = self.borg;
        let moves: Vec<Move> = {
            let state = borg.state.borrow();
            batch.iter().copied().filter(|&(_, slot)| state.map.page_at(slot).is_none()).collect()
        };
        let pages: Vec<u64> = moves.iter().map(|(page, _)| *page).collect();
        self.watch(&pages);
        let (mut within, mut incoming) = (Vec::new(), Vec::new());
        for &(page, slot) in &moves {
            match borg.state.borrow().map.slot_of(page) {
                Some(now) => within.push((borg.division.page(now), borg.division.page(slot))),
                None => incoming.push((page, borg.division.page(slot))),
            }
        }
        let (within, incoming) = (runs(within.into_iter()), runs(incoming.into_iter()));
        for run in &incoming {
            did("copied", run.from, run.to.start.0);
        }
        self.transfer(&within, &*borg.bopt, &*borg.bopt).await?;
        self.transfer(&incoming, &*borg.home, &*borg.bopt).await?;
        if borg.bopt.geometry().volatile_cache && !moves.is_empty() {
            borg.bopt.flush(self.how.clone()).await?;
        }
        self.commit(&moves, &pages).await
    }

    /// Maps the copies that are still good.
    async fn commit(&self, moves: &[Move], pages: &[u64]) -> Result<u64, IoError> {
        let borg = self.borg;
        let locked = self.lock_untouched(pages).await;
        let good: FxHashSet<u64> = locked.untouched.iter().copied().collect();
        let came: Vec<Move> = moves.iter().copied().filter(|(page, _)| good.contains(page)).collect();
        self.write_maps(came.iter().map(|(_, slot)| *slot), &locked.ticket).await?;
        let mut state = borg.state.borrow_mut();
        for &(page, slot) in &came {
            let was = state.map.slot_of(page);
            let dirty = was.is_some_and(|was| state.map.is_dirty(was));
            state.map.insert(page, slot, dirty);
            if let Some(was) = was {
                state.release(was);
                did("relocated", Extent::of_pages(page, 1), borg.division.page(slot) * PAGE_SECTORS);
            }
        }
        Ok(came.len() as u64)
    }

    /// From now on, writes to these pages are noticed.
    fn watch(&self, pages: &[u64]) {
        self.borg.state.borrow_mut().watched = pages.iter().map(|page| (*page, false)).collect();
    }

    /// Locks the watched pages, in ascending order as everybody does.
    async fn lock_untouched(&self, pages: &[u64]) -> Locked {
        let mut sorted: Vec<(u64, u64)> = pages.iter().map(|page| (*page, *page)).collect();
        sorted.sort_unstable();
        let (ticket, mut guards) = (Ticket::new(), Vec::new());
        for run in runs(sorted.into_iter()) {
            let lock = self.borg.locks.lock(run.from, Mode::Exclusive, self.how.class, Some(ticket.clone()));
            guards.push(lock.await);
        }
        let watched = std::mem::take(&mut self.borg.state.borrow_mut().watched);
        let untouched = pages.iter().copied().filter(|page| watched.get(page) == Some(&false)).collect();
        Locked { untouched, ticket, _guards: guards }
    }

    /// All reads, then all writes.
    async fn transfer(
        &self,
        runs: &[Run],
        from: &dyn BlockDevice,
        to: &dyn BlockDevice,
    ) -> Result<(), IoError> {
        let reads = runs.iter().map(|run| {
            let into = if self.borg.timing_only {
                Buffer::hollow_sectors(run.from.sectors)
            } else {
                Buffer::zeroed(run.from.bytes())
            };
            from.read(run.from, into, self.how.clone())
        });
        let buffers: Vec<Buffer> = join_all(reads).await.into_iter().collect::<Result<_, _>>()?;
        let writes = runs.iter().zip(buffers).map(|(run, buffer)| to.write(run.to, buffer, self.how.clone()));
        join_all(writes).await.into_iter().collect()
    }

    /// Writes the map pages that describe these slots: of each read-cache segment its own, and for
    /// so many entries of the log one at its head, or over the metadata page if the log is full.
    async fn write_maps(&self, slots: impl Iterator<Item = Slot>, ticket: &Ticket) -> Result<(), IoError> {
        let borg = self.borg;
        let (in_log, cached): (Vec<Slot>, Vec<Slot>) =
            slots.partition(|slot| *slot >= borg.division.read_cache);
        let mut places: Vec<Extent> =
            cached.iter().map(|slot| Division::segment_map(slot / SEGMENT_PAGES)).collect();
        places.sort_unstable_by_key(|place| place.start);
        places.dedup();
        for _ in 0..in_log.len().div_ceil(MAP_ENTRIES) {
            let slot = borg.state.borrow_mut().spare_map_slot();
            places.push(Extent::of_pages(slot.map_or(0, |slot| borg.division.page(slot)), 1));
        }
        if places.is_empty() {
            return Ok(());
        }
        let how = Hints { fua: true, ticket: Some(ticket.clone()), ..self.how.clone() };
        borg.write_map_pages(&places, &how).await?;
        borg.bopt.flush(how).await
    }
}

/// Pages that are contiguous where they are and where they go.
struct Run {
    from: Extent,
    to: Extent,
}

/// Joins (from page, to page) pairs that follow each other on both sides.
fn runs(pairs: impl Iterator<Item = (u64, u64)>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (from, to) in pairs {
        match runs.last_mut() {
            Some(run) if run.from.end().page() == from && run.to.end().page() == to => {
                run.from.sectors += PAGE_SECTORS;
                run.to.sectors += PAGE_SECTORS;
            }
            _ => runs.push(Run { from: Extent::of_pages(from, 1), to: Extent::of_pages(to, 1) }),
        }
    }
    runs
}
