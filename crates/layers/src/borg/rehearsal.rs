//! Rehearsal: a plan is tried in virtual time before a block moves (the paper's section 7).
//!
//! The store's entries are forked onto twins of the origin and the BOPT, in their own runtime. There the same mover
//! carries a course out, and requests that were held out from planning are played as clients that wait for their
//! answers would issue them; then dirty pages are drained. What to make of the busy times is decided in `choice`.
//!
//! Invariant: nothing here touches the real devices. Fault model: if the twins are too small, a request fails, or a
//! trial does not end, there is no result, and the layer goes on as without a model.

use std::cell::OnceCell;
use std::ops::Range;
use std::rc::Rc;

use rustc_hash::FxHashSet;
use seekless_core::runtime::Runtime;
use seekless_core::{
    Account, BlockDevice, Buffer, Extent, Flags, Hints, IoError, Latency, Modelled, Nanos, Op, Origin,
    PAGE_SECTORS, Reconfigured, Record, Twins,
};

use super::Borg;
use super::analyzer::Graph;
use super::copy_on_read::{BATCH, Benefit};
use super::course::{Course, LogFate, Reads, Writes};
use super::devices::Devices;
use super::mover::Mover;
use super::options::Options;
use super::pace::Throttle;
use super::planner::{FirstTouch, Order, Plan};
use super::policy::Verdict;
use super::profiler::{Access, Window};
use super::store::{Fork, Store};
use crate::joined::Joined;
use crate::replay::{OneAccount, Pace, Tally, replay};
use crate::units::Bytes;

/// Seed of the runtimes: any would do; the same one makes trials comparable.
const SEED: u64 = 1;
/// Account of the requests that are played.
const PLAYED: Account = Account(0);
/// Account of the mover.
const MOVED: Account = Account(1);
/// Account of draining at the end.
const DRAINED: Account = Account(2);

/// Copy of a layer's state, to be tried on twins.
pub(super) struct Rehearsal {
    /// Models of the origin and of the BOPT.
    pub models: [Modelled; 2],
    /// The entries of the store.
    pub fork: Fork,
    /// Pages that were copied since the last choice, as clients read them.
    pub recent: Vec<u64>,
    /// `fork` without the entries of the log, once a trial has needed it.
    pub drained: OnceCell<Fork>,
    /// Options of the layer.
    pub options: Options,
    /// Units of requests are `1 << granularity` pages.
    pub granularity: u32,
    /// How much of a plan is to be carried out.
    pub verdict: Verdict,
    /// What the layer does with writes now.
    pub writes: Writes,
}

/// What was known at a time, and the requests after it.
pub(super) struct Part {
    pub known: Known,
    /// The requests to judge on.
    pub later: Window,
}

/// The requests that a plan can be made from.
#[derive(Default)]
pub(super) struct Known {
    /// Graph of all so far, with edges by process.
    pub process: Graph,
    /// The same, with edges between all.
    pub global: Graph,
    /// Those since the last choice.
    pub window: Window,
}

/// Result of a trial: busy time of the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trial {
    /// By the moves of the course, other than draining the log.
    pub moves: Nanos,
    /// By the requests played after them.
    pub requests: Nanos,
    /// By draining what these made dirty.
    pub draining: Nanos,
    /// Pages that were dirty before, and were overwritten instead of drained.
    pub overwritten_pages: u64,
    /// Answers of the requests played.
    pub answers: Answers,
}

impl Trial {
    /// Busy time by the requests, and by draining what they made dirty.
    pub fn busy(&self) -> Nanos {
        self.requests + self.draining
    }
}

/// Answered requests of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// Their number.
    pub count: u64,
    /// Sum of their response times.
    pub sum: Nanos,
}

impl Answers {
    /// These, and more.
    pub fn with(self, more: Answers) -> Answers {
        Answers { count: self.count + more.count, sum: self.sum + more.sum }
    }

    /// Mean response time.
    pub fn mean(self) -> Nanos {
        Nanos(self.sum.0 / self.count.max(1))
    }
}

impl Tally for Answers {
    fn answered(&mut self, _account: Account, _op: Op, _at: Extent, took: Nanos) {
        *self = self.with(Answers { count: 1, sum: took });
    }

    fn failed(&mut self) {}
}

/// The twins of the origin and of the BOPT; `None` if a model is too small.
fn on(twins: &Twins) -> Option<[Rc<dyn BlockDevice>; 2]> {
    let [Some(origin), Some(bopt)] = &twins.devices[..] else { return None };
    let joined = |pieces: &Vec<Rc<dyn BlockDevice>>| -> Option<Rc<dyn BlockDevice>> {
        match &pieces[..] {
            [one] => Some(one.clone()),
            several => Some(Rc::new(Joined::new(several.to_vec())?)),
        }
    };
    Some([joined(origin)?, joined(bopt)?])
}

impl Rehearsal {
    /// Busy time of draining all that is dirty now; `None` without a result.
    pub fn drain(&self) -> Option<Nanos> {
        if self.fork.map().dirty() == 0 {
            return Some(Nanos::ZERO);
        }
        let drain = async {
            let twins = Twins::new(&self.models);
            let Some([origin, bopt]) = on(&twins) else { return Ok(None) };
            self.open(self.fork.clone(), origin, bopt).drain_all(DRAINED).await?;
            Ok::<_, IoError>(Some(twins.busy(DRAINED)))
        };
        Runtime::new(SEED).run(drain).ok()?.ok()?
    }

    /// Carries out a course, with its plan if it has one, and plays `window`; `None` without a result. A course that
    /// drains the log begins with an empty one.
    pub fn trial(&self, course: Course, plan: Option<&Plan>, window: &Window) -> Option<Trial> {
        let is_drained = course.log == LogFate::Drained;
        let fork =
            if is_drained { self.drained.get_or_init(|| self.fork.drained()) } else { &self.fork }.clone();
        Runtime::new(SEED).run(self.play(fork, course, plan, window)).ok()?.ok()?
    }

    /// The benefit that copies of all that was read before these parts would have in them; `None` without a result.
    pub fn benefit_of_copies(&self, parts: &[Part]) -> Option<Benefit> {
        if self.options.copied_on_read() == 0 {
            return Some(Benefit::default());
        }
        let page = self.cost_of_a_copy()?;
        let pages = |count: usize| Nanos(page.0 * count as u64);
        let earlier = self.fork.clone().without(&self.recent);
        let now = Course::as_it_is(self.writes);
        let map = self.fork.map();
        let mut benefit = Benefit { again: pages(map.mapped() - map.dirty()), ..Benefit::default() };
        for Part { known, later } in parts {
            let fork = earlier.clone().with(self.in_the_order_of_reads(&known.process));
            let new = later.iter().filter(|access| !access.write).flat_map(|access| self.pages(&access));
            let new: FxHashSet<u64> = new.filter(|page| fork.map().slot_of(*page).is_none()).collect();
            let play = |course| {
                let played = self.play(fork.clone(), course, None, later);
                Some(Runtime::new(SEED).run(played).ok()?.ok()??.requests)
            };
            let with = play(now)?;
            let without =
                if fork.map().mapped() > 0 { play(Course { reads: Reads::Emptied, ..now })? } else { with };
            benefit.saved += i128::from(without.0) - i128::from(with.0);
            benefit.busy += without;
            benefit.copying += pages(new.len());
        }
        Some(benefit)
    }

    /// The pages of an access.
    fn pages(&self, access: &Access) -> Range<u64> {
        let page = |units: u32| u64::from(units) << self.granularity;
        page(access.first)..page(access.first) + page(access.pages)
    }

    /// The pages of a graph that were read, in the order of their first request.
    fn in_the_order_of_reads(&self, graph: &Graph) -> impl Iterator<Item = u64> + use<> {
        let granularity = self.granularity;
        let capacity = u64::from(self.fork.layout().cached_slots()) >> granularity;
        FirstTouch.order(graph, capacity).ranges.into_iter().flat_map(move |planned| {
            let first = u64::from(planned.range.start) << granularity;
            first..first + (u64::from(planned.range.pages) << granularity)
        })
    }

    /// Busy time of copying a page as it is read: a long write, and one of the map.
    fn cost_of_a_copy(&self) -> Option<Nanos> {
        let write = async {
            let twins = Twins::new(&self.models);
            let Some([_, bopt]) = on(&twins) else { return Ok(None) };
            let layout = self.fork.layout();
            let pages = (BATCH as u64).min(u64::from(layout.cached_slots()).max(1));
            for at in [Extent::of_pages(layout.page(0), pages), Extent::of_pages(layout.map_page(0, 0), 1)] {
                bopt.write(at, Buffer::hollow_sectors(at.sectors), Hints::default()).await?;
            }
            Ok::<_, IoError>(Some(Nanos(twins.busy(PLAYED).0 / pages)))
        };
        Runtime::new(SEED).run(write).ok()?.ok()?
    }

    async fn play(
        &self,
        fork: Fork,
        course: Course,
        plan: Option<&Plan>,
        window: &Window,
    ) -> Result<Option<Trial>, IoError> {
        let twins = Twins::new(&self.models);
        let Some([origin, bopt]) = on(&twins) else { return Ok(None) };
        let dirty_before = fork.map().dirty();
        let borg = self.open(fork, origin, bopt);
        borg.writes.set(course.writes());
        if course.reads != Reads::Kept {
            if let Some(mover) = Mover::start(&borg, MOVED, Throttle::Unthrottled).await? {
                borg.carry_out(&mover, course, plan, self.verdict, &mut Reconfigured::default()).await?;
            }
        }
        if course.absorbs {
            // A BOPT is formatted once, not again and again.
            borg.store.begin_mapping(&Hints { account: MOVED, ..Hints::default() }).await?;
        }
        // What the store did on its own account is paid for the course too.
        let before = twins.busy(PLAYED);
        let (records, total) = (self.records(window), window.requests());
        let pace = Pace::Answered;
        let mut account = OneAccount(PLAYED);
        let replayed = replay::<Answers>(records, total, borg.clone(), pace, &mut account, &mut |_| ()).await;
        if let Some(error) = replayed.failure {
            return Err(error);
        }
        let (moves, requests) = (twins.busy(MOVED) + before, twins.busy(PLAYED) - before);
        let drained;
        let (borg, twins) = if course.drains {
            // Free copies under way are not awaited, and do not count, since the next decision may abort them: the
            // layer on new twins drains all pages that are still dirty.
            drained = Twins::new(&self.models);
            let Some([origin, bopt]) = on(&drained) else { return Ok(None) };
            (self.open(borg.store.fork(), origin, bopt), &drained)
        } else {
            (borg, &twins)
        };
        let dirty = borg.store.pages_where(|entry| entry.dirty);
        let cached = borg.store.layout().cached_slots();
        let was_dirty_before = |page: &u64| {
            let slot = borg.store.lookup(*page).map(|entry| entry.slot);
            slot.is_some_and(|slot| slot < cached || self.fork.holds_dirty(*page, slot))
        };
        let (old, new): (Vec<u64>, Vec<u64>) = dirty.into_iter().partition(was_dirty_before);
        if !new.is_empty() {
            if let Some(mover) = Mover::start(&borg, DRAINED, Throttle::Unthrottled).await? {
                mover.outgoing(&new).await?;
            }
        }
        let draining = twins.busy(DRAINED);
        let overwritten_pages = dirty_before.saturating_sub(old.len()) as u64;
        Ok(Some(Trial { moves, requests, draining, overwritten_pages, answers: replayed.answers }))
    }

    /// Whether there is a log that can be drained where no request notices.
    pub fn can_drain_for_free(&self) -> bool {
        self.fork.layout().write_buffer > 0 && self.options.absorb
    }

    /// The layer with its entries, over twins.
    fn open(&self, fork: Fork, origin: Rc<dyn BlockDevice>, bopt: Rc<dyn BlockDevice>) -> Rc<Borg> {
        let devices = Devices::counted(origin, bopt);
        let store = Store::from_map(devices.origin.clone(), devices.bopt.clone(), fork);
        let options = Options { copy_on_read: Bytes(0), rehearse: false, ..self.options.clone() };
        Borg::over(devices, store, options, true)
    }

    /// The requests of a window, from time zero on.
    fn records<'a>(&self, window: &'a Window) -> impl Iterator<Item = (Record, u32)> + use<'a> {
        let (granularity, end) = (self.granularity, self.models[0].sectors());
        let begin = window.iter().next().map_or(Nanos::ZERO, |first| first.paused);
        window.iter().filter_map(move |access| {
            let Access { paused, depth, process, name, first, pages, write } = access;
            let sectors = |units: u32| (u64::from(units) << granularity) * PAGE_SECTORS;
            // The last unit may reach past the end.
            let sectors_left = end.checked_sub(sectors(first))?;
            let record = Record {
                time: paused - begin,
                device: 0,
                op: if write { Op::Write } else { Op::Read },
                extent: Extent::new(sectors(first), sectors(pages).min(sectors_left)),
                flags: Flags::default(),
                origin: Origin { process, name, ..Origin::default() },
                latency: Latency::UNKNOWN,
            };
            Some((record, depth))
        })
    }
}
