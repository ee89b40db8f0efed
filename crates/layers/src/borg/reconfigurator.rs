//! The reconfigurator (section 4.4): plans, has the plan judged, and moves pages until the BOPT is as planned.
//!
//! *Outgoing* evicts pages that are not in the plan, to the origin if dirty. *Relocate* moves pages within the BOPT.
//! *Incoming* copies the rest from the origin. For how pages move see [`super::mover`].
//!
//! Planned pages already in the read cache stay where they are, unless the options say otherwise.

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_core::{Account, IoError, PAGE_SECTORS, Reconfigured, runtime};

use super::Borg;
use super::course::{Course, LogFate, Reads};
use super::history::Decided;
use super::mover::{Move, Mover};
use super::options::MoveClass;
use super::pace::Throttle;
use super::planner::Plan;
use super::planning::Planning;
use super::policy::Verdict;
use super::store::Slot;

impl Borg {
    /// Analyses the profile, plans, and moves pages, on behalf of `account`. Waits for a running reconfiguration first.
    pub async fn reconfigure_now(&self, account: Account) -> Result<Reconfigured, IoError> {
        self.end_draining_for_free();
        let mover = Mover::start(self, account, Throttle::Throttled).await?;
        let mut report = Reconfigured { start: runtime::now(), ..Reconfigured::default() };
        let Some(mover) = mover.map(Mover::in_its_class).map(Mover::with_its_share) else {
            return Ok(report);
        };
        let why = self.watch.get().why();
        let mut decided = Decided::default();
        let done = self.decide_and_move(&mover, &mut decided, &mut report).await;
        let (copied, paid) = mover.copied();
        let free = self.options.reconfigure_class == MoveClass::Free;
        (report.copied_pages, report.promoted_pages) = (copied, if free { paid } else { 0 });
        self.history.ended(why, decided, &report, done.as_ref().err());
        done.map(|()| report)
    }

    /// Chooses a course, and carries it out.
    async fn decide_and_move(
        &self,
        mover: &Mover<'_>,
        decided: &mut Decided,
        report: &mut Reconfigured,
    ) -> Result<(), IoError> {
        self.history.stage("plan");
        let planning = self.plan(report).await;
        *decided = planning.decided(report.planned_pages);
        let Planning { course, plan, verdict, .. } = planning;
        let mut watch = self.watch.get();
        let choosing = report.stages.iter().map(|stage| stage.took).sum();
        watch.decided(verdict != Verdict::Decline, runtime::now(), choosing);
        self.watch.set(watch);
        if verdict != Verdict::Decline {
            self.writes.set(course.writes());
            self.carry_out(mover, course, plan.as_ref(), verdict, report).await?;
        }
        self.keep_soon();
        Ok(())
    }

    /// Moves pages until the BOPT is as the course and its plan have it.
    pub(super) async fn carry_out(
        &self,
        mover: &Mover<'_>,
        course: Course,
        plan: Option<&Plan>,
        verdict: Verdict,
        report: &mut Reconfigured,
    ) -> Result<(), IoError> {
        let targets = plan.map(|plan| self.targets(plan, verdict)).unwrap_or_default();
        let to_move = |in_bopt| self.moves(&targets, in_bopt).len() as u64;
        let leaving = self.leaving(&targets, course, verdict);
        self.history.moves("outgoing", || leaving.len() as u64 + to_move(true) + to_move(false));
        report.stage("outgoing", mover.outgoing(&leaving)).await?;
        self.history.moves("relocate", || to_move(true) + to_move(false));
        report.stage("relocate", mover.place(&self.moves(&targets, true))).await?;
        self.history.moves("incoming", || to_move(false));
        report.stage("incoming", mover.place(&self.moves(&targets, false))).await?;
        self.store.checkpoint(&mover.with_ticket()).await
    }

    /// The pages to evict. Of the read cache: those without a target, if the verdict is to replace what is there. Of
    /// the log, as the course has it: none; all; or those of the segments that are best to drain until half of it is
    /// free, except pages with a target. Pages that stay in the log may be overwritten in place there.
    fn leaving(&self, targets: &FxHashMap<u64, Slot>, course: Course, verdict: Verdict) -> Vec<u64> {
        let planned = |page: u64| targets.contains_key(&page);
        let layout = self.store.layout();
        let half = u64::from(layout.write_buffer) * u64::from(layout.segment) / 2;
        let logged = match course.log {
            LogFate::Kept => Vec::new(),
            LogFate::Half => self.best_to_drain(half, usize::MAX, |page| !planned(page)),
            LogFate::Drained => self.store.pages_where(|entry| layout.is_logged(entry.slot)),
        };
        let replaces = verdict == Verdict::Replace && course.reads != Reads::Kept;
        let mut cached = self.store.pages_where(|entry| replaces && !layout.is_logged(entry.slot));
        cached.retain(|page| !planned(*page));
        cached.extend(logged);
        cached
    }

    /// The target slot of each planned page: the one named by the plan. Otherwise, pages in the read cache stay where
    /// they are, and the others fill the remaining slots in the plan's order. A plan that only adds fills empty slots
    /// first.
    fn targets(&self, plan: &Plan, verdict: Verdict) -> FxHashMap<u64, Slot> {
        let (origin_pages, granularity) =
            (self.origin.geometry().sectors.div_ceil(PAGE_SECTORS), self.granularity);
        let each = plan.ranges.iter().flat_map(|planned| {
            let (start, pages) =
                (u64::from(planned.range.start) << granularity, planned.range.pages << granularity);
            let slot = planned.slot;
            (0..pages).map(move |at| (start + u64::from(at), slot.map(|slot| slot + at)))
        });
        let each: Vec<(u64, Option<Slot>)> = each.filter(|(page, _)| *page < origin_pages).collect();
        let cached = self.store.layout().cached_slots();
        let named = each.iter().filter_map(|(page, slot)| Some((*page, (*slot)?)));
        let mut targets: FxHashMap<u64, Slot> = named.filter(|(_, slot)| *slot < cached).collect();
        let named: FxHashSet<Slot> = targets.values().copied().collect();
        let store = &self.store;
        let pages = || each.iter().filter(|(_, slot)| slot.is_none()).map(|(page, _)| *page);
        let stays = |page: u64| {
            let slot = store.lookup(page).map(|entry| entry.slot);
            slot.filter(|slot| *slot < cached && !named.contains(slot))
        };
        targets.extend(pages().filter_map(|page| Some((page, stays(page)?))));
        let keeps = |slot: Slot| store.page_at(slot).is_some_and(|page| targets.contains_key(&page));
        let is_vacant = |slot: &Slot| !named.contains(slot) && !keeps(*slot);
        let mut vacant: Vec<Slot> = (0..cached).filter(is_vacant).collect();
        if verdict == Verdict::Add {
            vacant.sort_by_key(|&slot| store.page_at(slot).is_some());
        }
        let coming: Vec<u64> = pages().filter(|page| !targets.contains_key(page)).collect();
        targets.extend(coming.into_iter().zip(vacant));
        targets
    }

    /// The remaining moves, in slot order: of pages that are in the BOPT, or of those that are not.
    fn moves(&self, targets: &FxHashMap<u64, Slot>, in_bopt: bool) -> Vec<Move> {
        let left = |(page, slot): (&u64, &Slot)| {
            let now = self.store.lookup(*page).map(|entry| entry.slot);
            (now.is_some() == in_bopt && now != Some(*slot)).then_some((*page, *slot))
        };
        let mut moves: Vec<Move> = targets.iter().filter_map(left).collect();
        moves.sort_unstable_by_key(|(_, slot)| *slot);
        moves
    }
}
