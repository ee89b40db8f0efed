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
//! goes home and comes in again. What is in the read cache and still planned stays where it is.
//!
//! Faults: a batch that fails ends the reconfiguration with its error; what was moved stays moved,
//! what was not stays where it was, and nothing is mapped to a slot that was not written.

use futures_util::future::join_all;
use rustc_hash::{FxHashMap, FxHashSet};
use seekless_core::lock::{Guard, lock_all};
use seekless_core::{
    Account, BlockDevice, Buffer, Class, ErrorKind, Extent, Hints, IoError, Mode, Nanos, PAGE_SECTORS,
    Ticket, runtime,
};

use super::bopt::{Division, MAP_ENTRIES, SEGMENT_PAGES};
use super::map::Slot;
use super::planner::{Greedy, Plan, Planner as _};
use super::{Analyzer, Borg, Training, did};

/// Pages that move together: 64 MiB, as much as may be in flight in a volume. The more, the closer
/// together on the disk is what a batch reads.
/// Tests cross many batches.
const BATCH: usize = if cfg!(test) { 7 } else { 16_384 };

/// Pages that are copied by one request (4 MiB): a foreground request may have to wait for it.
const LARGEST_COPY: u64 = if cfg!(test) { 3 } else { 1_024 };

/// What analysis costs in virtual time, a request. On the safe side, since it is to run on a
/// low-priority thread: a whole comparison of the shipped `appstart2`, with four reconfigurations,
/// takes less than 2 microseconds of processor time a request and reconfiguration.
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
    /// Of the access graph that was planned.
    pub vertices: u64,
    /// Of the access graph that was planned.
    pub edges: u64,
    /// In the plan.
    pub planned_pages: u64,
}

/// A page and where it is to go.
type Move = (u64, Slot);

impl Borg {
    /// Analyses what was seen, plans, and moves what has to be moved. `account` pays for it.
    /// Waits for the one that runs, if any.
    pub async fn reconfigure(&self, account: Account) -> Result<Reconfigured, IoError> {
        let mover = Mover::start(self, account).await;
        let mut report = Reconfigured { start: runtime::now(), ..Reconfigured::default() };
        let plan = self.make_plan(&mut report).await;
        let targets = self.targets(&plan);
        let old_maps = self.state.borrow().log.map_pages();
        report.stage("outgoing", mover.outgoing(&self.leaving(&targets))).await?;
        report.stage("relocate", mover.place(&self.moves(&targets, true))).await?;
        report.stage("incoming", mover.place(&self.moves(&targets, false))).await?;
        self.redescribe(old_maps, &mover.how).await?;
        Ok(report)
    }

    /// Writes all that is dirty home, and drops those copies: the last figure of a comparison.
    pub async fn write_home(&self, account: Account) -> Result<(), IoError> {
        self.empty(account, |dirty| dirty).await
    }

    /// Takes all pages out of the BOPT, home if they are dirty. While clients write, what they dirty
    /// meanwhile is tried again; hold them back to be sure of an end.
    pub(super) async fn empty(&self, account: Account, wanted: impl Fn(bool) -> bool) -> Result<(), IoError> {
        const TRIES: usize = 16;
        let mover = Mover::start(self, account).await;
        for _ in 0..TRIES {
            let left = self.pages_where(|_, dirty| wanted(dirty));
            if left.is_empty() {
                return self.home.flush(mover.how.clone()).await;
            }
            mover.outgoing(&left).await?;
        }
        let left = self.pages_where(|_, dirty| wanted(dirty)).len();
        let why =
            format!("{left} pages are still written as fast as they are moved: hold the writers back first");
        Err(IoError::new(ErrorKind::Timeout, "borg", None, why))
    }

    /// The pages in the BOPT that `wanted(page, dirty)` accepts, in order of slots.
    fn pages_where(&self, wanted: impl Fn(u64, bool) -> bool) -> Vec<u64> {
        let state = self.state.borrow();
        state.map.iter().filter(|(_, page, dirty)| wanted(*page, *dirty)).map(|(_, page, _)| page).collect()
    }

    /// The pages that are not in the plan: all of the read cache's, and of the write buffer's the
    /// oldest, until half of it is free. The rest may stay: it is written again where it is.
    fn leaving(&self, targets: &FxHashMap<u64, Slot>) -> Vec<u64> {
        let state = self.state.borrow();
        let unplanned = state.map.iter().filter(|(_, page, _)| !targets.contains_key(page));
        let (logged, cached): (Vec<_>, Vec<_>) = unplanned.partition(|(slot, _, _)| state.log.holds(*slot));
        let relocated =
            state.map.iter().filter(|(slot, page, _)| state.log.holds(*slot) && targets.contains_key(page));
        let free = state.log.free() + relocated.count();
        let surplus = (self.division.write_buffer as usize / 2).saturating_sub(free);
        let oldest =
            state.log.oldest_first(logged.iter().map(|(slot, _, _)| *slot)).into_iter().take(surplus);
        cached
            .iter()
            .map(|(_, page, _)| *page)
            .chain(oldest.filter_map(|slot| state.map.page_at(slot)))
            .collect()
    }

    /// The slot that each planned page is to have. What is in the read cache stays where it is; the
    /// others fill what is free, in the plan's order.
    fn targets(&self, plan: &Plan) -> FxHashMap<u64, Slot> {
        let pages =
            || plan.ranges.iter().flat_map(|range| range.start..range.start + range.pages).map(u64::from);
        let state = self.state.borrow();
        let stays = |page: u64| state.map.slot_of(page).filter(|slot| *slot < self.division.read_cache);
        let mut targets: FxHashMap<u64, Slot> =
            pages().filter_map(|page| Some((page, stays(page)?))).collect();
        let keeps = |slot: Slot| state.map.page_at(slot).is_some_and(|page| targets.contains_key(&page));
        let free: Vec<Slot> = (0..self.division.read_cache).filter(|&slot| !keeps(slot)).collect();
        let coming: Vec<u64> = pages().filter(|page| !targets.contains_key(page)).collect();
        targets.extend(coming.into_iter().zip(free));
        targets
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

    /// A plan of all that is in the training window, or the last one with what was seen since.
    async fn make_plan(&self, report: &mut Reconfigured) -> Plan {
        let (window, mut analyzer, last) = {
            let mut state = self.state.borrow_mut();
            let anew =
                self.options.training == Training::Partial || state.plans % self.options.full_plan_every == 0;
            state.plans += 1;
            let last = (!anew).then(|| state.last_plan.clone());
            (state.profiler.take(), state.analyzer.take().unwrap_or_default(), last)
        };
        let (requests, extends) = (window.requests(), last.is_some());
        let (begin, training) = (runtime::now(), self.options.training);
        let analysis = move || {
            analyzer.add(window.iter());
            let graph = if extends { Analyzer::of(window.iter()).graph() } else { analyzer.graph() };
            analyzer.close(training);
            (graph, analyzer)
        };
        let (graph, analyzer) = runtime::offload(analysis, |_| Nanos(requests * ANALYZE_NS)).await;
        self.state.borrow_mut().analyzer = Some(analyzer);
        report.stages.push(Stage { name: "analyse", took: runtime::now() - begin, pages: requests });
        (report.vertices, report.edges) = (graph.vertices().len() as u64, graph.edge_count() as u64);
        let (begin, cost) = (runtime::now(), Nanos((report.vertices + report.edges) * PLAN_NS));
        let planner = Greedy { threshold: self.options.threshold };
        let capacity = u64::from(self.division.read_cache);
        let planning = move || match last {
            Some(last) => planner.extend(&last, &graph, capacity),
            None => planner.plan(&graph, capacity),
        };
        let plan = runtime::offload(planning, |_| cost).await;
        self.state.borrow_mut().last_plan = plan.clone();
        report.planned_pages = plan.pages();
        report.stages.push(Stage { name: "plan", took: runtime::now() - begin, pages: plan.pages() });
        plan
    }

    /// What is still in the log is described by new map pages; then the old ones, the first
    /// `old_maps` of the log, are free.
    async fn redescribe(&self, old_maps: usize, how: &Hints) -> Result<(), IoError> {
        let maps: Option<Vec<Slot>> = {
            let mut state = self.state.borrow_mut();
            let stayed = state.map.iter().filter(|(slot, _, _)| state.log.holds(*slot)).count();
            (0..stayed.div_ceil(MAP_ENTRIES)).map(|_| state.spare_map_slot()).collect()
        };
        // Without room they stay for another time.
        let Some(maps) = maps else { return Ok(()) };
        let places: Vec<Extent> =
            maps.iter().map(|slot| Extent::of_pages(self.division.page(*slot), 1)).collect();
        self.write_map_pages(&places, how).await?;
        self.bopt.flush(how.clone()).await?;
        self.state.borrow_mut().log.give_back_maps(old_maps);
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

/// Moves pages in the background. There is one at a time. It is not to be dropped before its end:
/// what it has in a device's queue is carried out all the same.
struct Mover<'a> {
    borg: &'a Borg,
    how: Hints,
    _alone: Guard,
}

/// Pages that are locked and were not written since they were watched.
struct Locked {
    untouched: Vec<u64>,
    /// Raised by whoever waits for the locks: what is done under them carries it.
    ticket: Ticket,
    _guards: Vec<Guard>,
}

impl<'a> Mover<'a> {
    async fn start(borg: &'a Borg, account: Account) -> Mover<'a> {
        let alone = borg.movers.lock(Extent::new(0, 1), Mode::Exclusive, Class::Background, None).await;
        let how = Hints { class: Class::Background, account, ..Hints::default() };
        Mover { borg, how, _alone: alone }
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
        for &(page, slot) in &dirty {
            did("drained", Extent::of_pages(page, 1), borg.division.page(slot) * PAGE_SECTORS);
        }
        let pairs: Vec<Pair> = dirty.iter().map(|&(page, slot)| (borg.division.page(slot), page)).collect();
        self.transfer(pairs, &*borg.bopt, &*borg.home).await?;
        if borg.home.geometry().volatile_cache && !dirty.is_empty() {
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
        for &(page, copy) in &incoming {
            did("copied", Extent::of_pages(page, 1), copy * PAGE_SECTORS);
        }
        self.transfer(within, &*borg.bopt, &*borg.bopt).await?;
        self.transfer(incoming, &*borg.home, &*borg.bopt).await?;
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

    /// Locks the watched pages.
    async fn lock_untouched(&self, pages: &[u64]) -> Locked {
        let ticket = Ticket::new();
        let lock = |run| self.borg.locks.lock(run, Mode::Exclusive, self.how.class, Some(ticket.clone()));
        let guards = lock_all(contiguous(pages.iter().copied(), u64::MAX).into_iter().map(lock)).await;
        let watched = std::mem::take(&mut self.borg.state.borrow_mut().watched);
        let untouched = pages.iter().copied().filter(|page| watched.get(page) == Some(&false)).collect();
        Locked { untouched, ticket, _guards: guards }
    }

    /// Copies pages: all reads, then all writes, each as large as what is contiguous there.
    async fn transfer(
        &self,
        pairs: Vec<Pair>,
        from: &dyn BlockDevice,
        to: &dyn BlockDevice,
    ) -> Result<(), IoError> {
        let sources = contiguous(pairs.iter().map(|(source, _)| *source), LARGEST_COPY);
        let reads = sources.iter().map(|at| from.read(*at, self.buffer(*at), self.how.clone()));
        let read: Vec<Buffer> = join_all(reads).await.into_iter().collect::<Result<_, _>>()?;
        let page_of = |page: u64| {
            let run = sources.partition_point(|at| at.start.page() <= page) - 1;
            read[run].cut_sectors((page - sources[run].start.page()) * PAGE_SECTORS, PAGE_SECTORS)
        };
        let source_of: FxHashMap<u64, u64> =
            pairs.iter().map(|(source, target)| (*target, *source)).collect();
        let targets = contiguous(pairs.iter().map(|(_, target)| *target), LARGEST_COPY);
        let writes = targets.iter().map(|at| {
            let data = if self.borg.timing_only {
                self.buffer(*at)
            } else {
                Buffer::join(at.pages().map(|page| page_of(source_of[&page])))
            };
            to.write(*at, data, self.how.clone())
        });
        join_all(writes).await.into_iter().collect()
    }

    fn buffer(&self, at: Extent) -> Buffer {
        if self.borg.timing_only { Buffer::hollow_sectors(at.sectors) } else { Buffer::zeroed(at.bytes()) }
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

/// A page's place on the device it is copied from, and on the one it is copied to.
type Pair = (u64, u64);

/// The extents that pages form, in ascending order, none longer than `longest` pages.
fn contiguous(pages: impl Iterator<Item = u64>, longest: u64) -> Vec<Extent> {
    let mut sorted: Vec<u64> = pages.collect();
    sorted.sort_unstable();
    let mut runs: Vec<Extent> = Vec::new();
    for page in sorted {
        match runs.last_mut() {
            Some(run) if run.end().page() == page && run.sectors / PAGE_SECTORS < longest => {
                run.sectors += PAGE_SECTORS;
            }
            _ => runs.push(Extent::of_pages(page, 1)),
        }
    }
    runs
}
