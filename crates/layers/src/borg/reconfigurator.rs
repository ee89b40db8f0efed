//! The reconfigurator (section 4.4): moves pages until the BOPT is as planned, and drains the write buffer.
//!
//! *Outgoing* takes what is not in the plan out of the BOPT, home if it is dirty. *Relocate* moves what is in the BOPT
//! but elsewhere. *Incoming* copies the rest from home. How pages move: see [`super::mover`].
//!
//! What is in the read cache and still planned stays where it is, unless the options say otherwise.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use seekless_core::runtime::edge;
use seekless_core::{
    Account, Class, ErrorKind, Hints, IoError, Nanos, PAGE_SECTORS, Reconfigured, Stage, Ticket, runtime,
};

use super::map::Slot;
use super::mover::{BATCH, Move, Mover};
use super::options::{MoveClass, Placement};
use super::pace::Manner;
use super::planner::{Greedy, Plan, Planner as _};
use super::{Analyzer, Borg, Training};

/// What analysis costs in virtual time, a request. On the safe side, since it is to run on a
/// low-priority thread: a whole comparison of the shipped `appstart2`, with four reconfigurations,
/// takes less than 2 microseconds of processor time a request and reconfiguration.
const ANALYZE_NS: u64 = 2_000;
/// What planning costs in virtual time, a vertex or edge.
const PLAN_NS: u64 = 2_000;

/// Pages of the log that are read at most when a BOPT is opened after a crash, about: 64 MiB.
const LONGEST_UNTOLD: u64 = 16_384;

impl Borg {
    /// Analyses what was seen, plans, and moves what has to be moved. `account` pays for it.
    /// Waits for the one that runs, if any.
    pub async fn reconfigure(&self, account: Account) -> Result<Reconfigured, IoError> {
        let mover = Mover::start(self, account, Manner::Gentle).await?;
        let mut report = Reconfigured { start: runtime::now(), ..Reconfigured::default() };
        let Some(mover) = mover.map(Mover::in_its_class) else { return Ok(report) };
        let (plan, known) = self.make_plan(&mut report).await;
        // Chosen now, after all that was waited for.
        let knows_less = known < self.cached_pages();
        if knows_less {
            edge("the profile knows less than what is placed: nothing goes that is only not planned");
        }
        let targets = self.targets(&plan, knows_less);
        report.stage("outgoing", mover.outgoing(&self.leaving(&targets, knows_less))).await?;
        report.stage("relocate", mover.place(&self.moves(&targets, true))).await?;
        report.stage("incoming", mover.place(&self.moves(&targets, false))).await?;
        self.checkpoint(&mover.raisable()).await?;
        let (copied, paid) = mover.copied();
        let free = self.options.reconfigure_class == MoveClass::Free;
        (report.copied_pages, report.promoted_pages) = (copied, if free { paid } else { 0 });
        Ok(report)
    }

    /// Writes all that is dirty home, and drops those copies: the last figure of a comparison.
    pub async fn write_home(&self, account: Account) -> Result<(), IoError> {
        self.empty(account, |dirty| dirty).await
    }

    /// Takes the pages out of the BOPT that `wanted` accepts by whether they are dirty, home if they are. While clients
    /// write, what they dirty meanwhile is tried again; hold them back to be sure of an end.
    async fn empty(&self, account: Account, wanted: impl Fn(bool) -> bool) -> Result<(), IoError> {
        const TRIES: usize = 16;
        let Some(mover) = Mover::start(self, account, Manner::AtOnce).await? else { return Ok(()) };
        for _ in 0..TRIES {
            let left = self.pages_where(&wanted);
            if left.is_empty() {
                self.checkpoint(&mover.raisable()).await?;
                return self.flush_home(&mover.raisable()).await;
            }
            mover.outgoing(&left).await?;
        }
        let left = self.pages_where(&wanted).len();
        let why =
            format!("{left} pages are still written as fast as they are moved: hold the writers back first");
        Err(IoError::new(ErrorKind::Timeout, "borg", None, why))
    }

    /// Takes all pages out of the BOPT, and the BOPT's marks with them: from then on the layer only hands on.
    pub(super) async fn leave(&self, account: Account) -> Result<(), IoError> {
        self.empty(account, |_| true).await?;
        {
            let mut state = self.state.borrow_mut();
            if !state.left && (state.map.mapped() > 0 || !state.log.is_quiet()) {
                let why = "pages were written as the last ones left: hold the writers back first";
                return Err(IoError::new(ErrorKind::Timeout, "borg", None, why));
            }
            state.left = true;
        }
        self.erase(&Hints::default()).await
    }

    /// The pages in the BOPT that `wanted` accepts by whether they are dirty, in order of slots.
    pub(super) fn pages_where(&self, wanted: impl Fn(bool) -> bool) -> Vec<u64> {
        let state = self.state.borrow();
        state.map.iter().filter(|(_, _, dirty)| wanted(*dirty)).map(|(_, page, _)| page).collect()
    }

    /// Pages in the read cache.
    fn cached_pages(&self) -> u64 {
        let state = self.state.borrow();
        state.map.iter().take_while(|(slot, _, _)| !self.layout.is_logged(*slot)).count() as u64
    }

    /// The pages that are not in the plan: all of the read cache's, unless the profile knows less than what is placed;
    /// and of the write buffer's those of the segments that are the best to drain, until half of it is free. The rest
    /// may stay: it is written again where it is.
    fn leaving(&self, targets: &FxHashMap<u64, Slot>, knows_less: bool) -> Vec<u64> {
        let planned = |page: u64| targets.contains_key(&page);
        let half = u64::from(self.layout.write_buffer) * u64::from(self.layout.segment) / 2;
        let logged = self.best_to_drain(half, usize::MAX, |page| !planned(page));
        let state = self.state.borrow();
        let cached = state
            .map
            .iter()
            .filter(|(slot, page, _)| !knows_less && !self.layout.is_logged(*slot) && !planned(*page));
        cached.map(|(_, page, _)| page).chain(logged).collect()
    }

    /// Pages of the segments that are the best to drain, until so many slots are free: those whose emptying costs
    /// little for what it frees, the older the better. Only pages that `wanted` accepts, and about `most`.
    fn best_to_drain(&self, goal: u64, most: usize, wanted: impl Fn(u64) -> bool) -> Vec<u64> {
        let state = self.state.borrow();
        let size = u64::from(self.layout.segment);
        let open = state.log.anchor().segment;
        let candidates = state.segments.which(|segment| segment.taken > 0 && segment.valid > 0);
        let mut candidates: Vec<(u64, u32)> = candidates
            .into_iter()
            .filter(|&number| number != open)
            .map(|number| {
                let segment = state.segments.of(number);
                let valid = u64::from(segment.valid);
                // (1 - u) age / (1 + u), in a thousand parts.
                (1_000 * (size - valid) * state.log.taken_since(segment.taken) / (size + valid), number)
            })
            .collect();
        candidates.sort_unstable_by_key(|&(benefit, number)| (std::cmp::Reverse(benefit), number));
        let (mut free, mut pages) = (state.log.room(), Vec::new());
        for (_, number) in candidates {
            if free >= goal || pages.len() >= most {
                break;
            }
            let held = self.layout.slots_of(number).filter_map(|slot| state.map.page_at(slot));
            pages.extend(held.filter(|page| wanted(*page)));
            free += size;
        }
        pages
    }

    /// What is due in the background once a write was absorbed: to drain segments of the write buffer, if few are
    /// free; or to have the map tell what the log does, if whoever opens the BOPT would have to read much of it.
    pub(super) fn tend_the_log(&self) {
        let slots = u64::from(self.layout.write_buffer * self.layout.segment);
        let low = (slots as f64 * self.options.drain_below) as u64;
        if self.state.borrow().log.room() < low / 2 {
            // Clients will soon wait for room: nothing that is copied for free is to keep them waiting.
            self.hurry(Class::Background);
        }
        let mut state = self.state.borrow_mut();
        if state.tending || state.left {
            return;
        }
        // For free it takes longer: it begins earlier.
        let low = if self.options.reconfigure_class == MoveClass::Free { 2 * low } else { low };
        let drains = state.log.room() < low;
        let untold = state.log.taken_since(state.anchored_at) * u64::from(self.layout.segment);
        if !drains && untold < LONGEST_UNTOLD.min(slots / 4) {
            return;
        }
        let Some(borg) = self.me.upgrade() else { return };
        state.tending = true;
        let work = async move {
            // What fails is tried again with the next write.
            if drains {
                edge("the write buffer is drained in the background");
                drop(borg.drain(low.saturating_mul(3) / 2).await);
            } else {
                edge("the map tells what the log does, in the background");
                let how = Hints { class: Class::Background, ticket: Some(Ticket::new()), ..Hints::default() };
                drop(borg.checkpoint(&how).await);
            }
            borg.state.borrow_mut().tending = false;
        };
        runtime::spawn(work).detach();
    }

    /// Drains until so many slots of the write buffer are free, or it does not get on.
    async fn drain(self: &Rc<Self>, goal: u64) -> Result<(), IoError> {
        let mover = Mover::start(self, Account::default(), Manner::Gentle).await?.map(Mover::in_its_class);
        let Some(mover) = mover else { return Ok(()) };
        loop {
            let before = self.state.borrow().log.room();
            let pages = self.best_to_drain(goal, BATCH, |_| true);
            mover.outgoing(&pages).await?;
            self.checkpoint(&mover.raisable()).await?;
            let now = self.state.borrow().log.room();
            if now >= goal || now <= before {
                return Ok(());
            }
        }
    }

    /// The slot that each planned page is to have. What is in the read cache stays where it is, and the
    /// others fill what is free, in the plan's order; or all have the slots that the plan has for them. If the profile
    /// knows less than what is placed, they fill what is empty before what they would take from others.
    fn targets(&self, plan: &Plan, knows_less: bool) -> FxHashMap<u64, Slot> {
        let (home, grain) = (self.home.geometry().sectors.div_ceil(PAGE_SECTORS), self.grain);
        let pages = || {
            let grains =
                plan.ranges.iter().flat_map(|range| range.start..range.start + range.pages).map(u64::from);
            grains.flat_map(move |at| at << grain..(at + 1) << grain).filter(move |page| *page < home)
        };
        let cached = self.layout.cached_slots();
        if self.options.placement == Placement::Planned {
            return pages().zip(0..cached).collect();
        }
        let state = self.state.borrow();
        let stays = |page: u64| state.map.slot_of(page).filter(|slot| *slot < cached);
        let mut targets: FxHashMap<u64, Slot> =
            pages().filter_map(|page| Some((page, stays(page)?))).collect();
        let keeps = |slot: Slot| state.map.page_at(slot).is_some_and(|page| targets.contains_key(&page));
        let mut free: Vec<Slot> = (0..cached).filter(|&slot| !keeps(slot)).collect();
        if knows_less {
            free.sort_by_key(|&slot| state.map.page_at(slot).is_some());
        }
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

    /// A plan of all that is in the training window, or the last one with what was seen since; and how many pages it
    /// knows of.
    async fn make_plan(&self, report: &mut Reconfigured) -> (Plan, u64) {
        let (window, mut analyzer, last) = {
            let mut state = self.state.borrow_mut();
            let anew =
                self.options.training == Training::Partial || state.plans % self.options.full_plan_every == 0;
            state.plans += 1;
            state.heat.age();
            let last = (!anew).then(|| state.last_plan.clone());
            let bytes = self.options.profile_memory.0 / 2;
            let analyzer = state.analyzer.take().unwrap_or_else(|| Analyzer::bounded(bytes));
            (state.profiler.take(), analyzer, last)
        };
        let (requests, extends) = (window.requests(), last.is_some());
        let (begin, training) = (runtime::now(), self.options.training);
        let analysis = move || {
            analyzer.add(window.iter());
            let graph = if extends {
                let mut newer = analyzer.anew();
                newer.add(window.iter());
                newer.graph()
            } else {
                analyzer.graph()
            };
            analyzer.close(training);
            (graph, analyzer)
        };
        let (graph, analyzer) = runtime::offload(analysis, |_| Nanos(requests * ANALYZE_NS)).await;
        self.state.borrow_mut().analyzer = Some(analyzer);
        report.stages.push(Stage { name: "analyse", took: runtime::now() - begin, pages: requests });
        (report.vertices, report.edges) = (graph.vertices().len() as u64, graph.edge_count() as u64);
        let read = graph.vertices().iter().filter(|vertex| vertex.read);
        let seen: u64 = read.map(|vertex| u64::from(vertex.pages)).sum();
        let (begin, cost) = (runtime::now(), Nanos((report.vertices + report.edges) * PLAN_NS));
        let planner = Greedy { threshold: self.options.threshold };
        let capacity = u64::from(self.layout.cached_slots()) >> self.grain;
        let planning = move || match last {
            Some(last) => planner.extend(&last, &graph, capacity),
            None => planner.plan(&graph, capacity),
        };
        let plan = runtime::offload(planning, |_| cost).await;
        self.state.borrow_mut().last_plan = plan.clone();
        report.planned_pages = plan.pages() << self.grain;
        report.stages.push(Stage { name: "plan", took: runtime::now() - begin, pages: report.planned_pages });
        (plan, report.planned_pages.max(seen << self.grain))
    }
}
