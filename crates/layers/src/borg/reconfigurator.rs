//! The reconfigurator (section 4.4): plans, has the plan judged, and moves pages until the BOPT is as planned.
//!
//! *Outgoing* takes what is not in the plan out of the BOPT, home if it is dirty. *Relocate* moves what is in the BOPT
//! but elsewhere. *Incoming* copies the rest from home. How pages move: see [`super::mover`].
//!
//! What is in the read cache and still planned stays where it is, unless the options say otherwise.

use rustc_hash::FxHashMap;
use seekless_core::{Account, IoError, Nanos, PAGE_SECTORS, Reconfigured, Stage, runtime};

use super::Borg;
use super::mover::{Move, Mover};
use super::options::{MoveClass, Placement};
use super::pace::Manner;
use super::planner::{Greedy, Plan, Planner as _};
use super::policy::Verdict;
use super::store::Slot;

/// What analysis costs in virtual time, a request. On the safe side, since it is to run on a
/// low-priority thread: a whole comparison of the shipped `appstart2`, with four reconfigurations,
/// takes less than 2 microseconds of processor time a request and reconfiguration.
const ANALYZE_NS: u64 = 2_000;
/// What planning costs in virtual time, a vertex or edge.
const PLAN_NS: u64 = 2_000;

impl Borg {
    /// Analyses what was seen, plans, and moves what has to be moved. `account` pays for it.
    /// Waits for the one that runs, if any.
    pub async fn reconfigure(&self, account: Account) -> Result<Reconfigured, IoError> {
        let mover = Mover::start(self, account, Manner::Gentle).await?;
        let mut report = Reconfigured { start: runtime::now(), ..Reconfigured::default() };
        let Some(mover) = mover.map(Mover::in_its_class) else { return Ok(report) };
        let (plan, known) = self.plan(&mut report).await;
        // Judged now, after all that was waited for.
        let verdict = self.judge(known);
        self.carry_out(&mover, &plan, verdict, &mut report).await?;
        let (copied, paid) = mover.copied();
        let free = self.options.reconfigure_class == MoveClass::Free;
        (report.copied_pages, report.promoted_pages) = (copied, if free { paid } else { 0 });
        Ok(report)
    }

    /// Moves pages until the BOPT is as planned.
    async fn carry_out(
        &self,
        mover: &Mover<'_>,
        plan: &Plan,
        verdict: Verdict,
        report: &mut Reconfigured,
    ) -> Result<(), IoError> {
        let targets = self.targets(plan, verdict);
        report.stage("outgoing", mover.outgoing(&self.leaving(&targets, verdict))).await?;
        report.stage("relocate", mover.place(&self.moves(&targets, true))).await?;
        report.stage("incoming", mover.place(&self.moves(&targets, false))).await?;
        self.store.checkpoint(&mover.raisable()).await
    }

    /// The pages that are not in the plan: all of the read cache's, unless the plan only adds;
    /// and of the write buffer's those of the segments that are the best to drain, until half of it is free. The rest
    /// may stay: it is written again where it is.
    fn leaving(&self, targets: &FxHashMap<u64, Slot>, verdict: Verdict) -> Vec<u64> {
        let planned = |page: u64| targets.contains_key(&page);
        let layout = self.store.layout();
        let half = u64::from(layout.write_buffer) * u64::from(layout.segment) / 2;
        let logged = self.best_to_drain(half, usize::MAX, |page| !planned(page));
        let mut cached = self.store.pages_where(|page, entry| {
            !layout.is_logged(entry.slot) && verdict == Verdict::Replace && !planned(page)
        });
        cached.extend(logged);
        cached
    }

    /// The slot that each planned page is to have. What is in the read cache stays where it is, and the
    /// others fill what is free, in the plan's order; or all have the slots that the plan has for them. A plan that
    /// only adds fills what is empty before what it would take from others.
    fn targets(&self, plan: &Plan, verdict: Verdict) -> FxHashMap<u64, Slot> {
        let (home, grain) = (self.home.geometry().sectors.div_ceil(PAGE_SECTORS), self.grain);
        let pages = || {
            let grains =
                plan.ranges.iter().flat_map(|range| range.start..range.start + range.pages).map(u64::from);
            grains.flat_map(move |at| at << grain..(at + 1) << grain).filter(move |page| *page < home)
        };
        let cached = self.store.layout().cached_slots();
        if self.options.placement == Placement::Planned {
            return pages().zip(0..cached).collect();
        }
        let store = &self.store;
        let stays = |page: u64| store.lookup(page).map(|entry| entry.slot).filter(|slot| *slot < cached);
        let mut targets: FxHashMap<u64, Slot> =
            pages().filter_map(|page| Some((page, stays(page)?))).collect();
        let keeps = |slot: Slot| store.page_at(slot).is_some_and(|page| targets.contains_key(&page));
        let mut free: Vec<Slot> = (0..cached).filter(|&slot| !keeps(slot)).collect();
        if verdict == Verdict::Add {
            free.sort_by_key(|&slot| store.page_at(slot).is_some());
        }
        let coming: Vec<u64> = pages().filter(|page| !targets.contains_key(page)).collect();
        targets.extend(coming.into_iter().zip(free));
        targets
    }

    /// The moves that are left to do, in order of slots: of pages that are in the BOPT, or of those
    /// that are not.
    fn moves(&self, targets: &FxHashMap<u64, Slot>, in_bopt: bool) -> Vec<Move> {
        let left = |(page, slot): (&u64, &Slot)| {
            let now = self.store.lookup(*page).map(|entry| entry.slot);
            (now.is_some() == in_bopt && now != Some(*slot)).then_some((*page, *slot))
        };
        let mut moves: Vec<Move> = targets.iter().filter_map(left).collect();
        moves.sort_unstable_by_key(|(_, slot)| *slot);
        moves
    }

    /// A plan of all that is in the training window, or the last one with what was seen since; and how many pages it
    /// knows of.
    async fn plan(&self, report: &mut Reconfigured) -> (Plan, u64) {
        let (window, mut analyzer, last) = {
            let learned = &mut *self.learned.borrow_mut();
            let anew = self.plans_anew(learned.plans());
            learned.begin_plan(anew)
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
        self.learned.borrow_mut().analyzed(analyzer);
        report.stages.push(Stage { name: "analyse", took: runtime::now() - begin, pages: requests });
        (report.vertices, report.edges) = (graph.vertices().len() as u64, graph.edge_count() as u64);
        let read = graph.vertices().iter().filter(|vertex| vertex.read);
        let seen: u64 = read.map(|vertex| u64::from(vertex.pages)).sum();
        let (begin, cost) = (runtime::now(), Nanos((report.vertices + report.edges) * PLAN_NS));
        let planner = Greedy { threshold: self.options.threshold };
        let capacity = u64::from(self.store.layout().cached_slots()) >> self.grain;
        let planning = move || match last {
            Some(last) => planner.extend(&last, &graph, capacity),
            None => planner.plan(&graph, capacity),
        };
        let plan = runtime::offload(planning, |_| cost).await;
        self.learned.borrow_mut().planned(plan.clone());
        report.planned_pages = plan.pages() << self.grain;
        report.stages.push(Stage { name: "plan", took: runtime::now() - begin, pages: report.planned_pages });
        (plan, report.planned_pages.max(seen << self.grain))
    }
}
