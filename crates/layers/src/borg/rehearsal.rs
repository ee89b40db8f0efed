//! Rehearsal: a plan is tried in virtual time before a block moves (the paper's section 7).
//!
//! The store's entries are forked onto twins of the origin and the BOPT, in their own runtime. There the same mover
//! carries the plan out, and requests that were held out from planning are played at their recorded times; and again on
//! a fork without the plan. The difference of the busy times is the plan's gain, and the busy time of the moves is its
//! cost.
//!
//! Invariant: nothing here touches the real devices. Fault model: if the twins are too small, a request fails, or a
//! trial does not end, there is no prediction, and the plan is carried out as without a model.

use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{
    Account, BlockDevice, Extent, Flags, IoError, Latency, Modelled, Nanos, Op, Origin, PAGE_SECTORS,
    Reconfigured, Record, Twins,
};

use super::mover::Mover;
use super::options::Options;
use super::pace::Throttle;
use super::planner::Plan;
use super::policy::Verdict;
use super::profiler::{Access, Window};
use super::store::{Fork, Store};
use super::{Borg, Devices};
use crate::replay::{OneAccount, Pace, Tally, replay};

/// Account of the requests that are played.
const PLAYED: Account = Account(0);
/// Account of the mover.
const MOVED: Account = Account(1);

/// Copy of a layer's state, to be tried on twins.
pub(super) struct Rehearsal {
    /// Models of the origin and of the BOPT.
    pub models: [Modelled; 2],
    /// The entries of the store.
    pub fork: Fork,
    /// Options of the layer.
    pub options: Options,
    /// Units of requests are `1 << granularity` pages.
    pub granularity: u32,
    /// How much of the plan is to be carried out.
    pub verdict: Verdict,
}

/// Busy time of the devices in a trial.
struct Trial {
    /// By the requests played.
    requests: Nanos,
    /// By the moves before.
    moves: Nanos,
}

/// Predicted effect of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prediction {
    /// Busy time by the requests without the plan.
    pub unplanned: Nanos,
    /// Busy time by the requests with the plan.
    pub planned: Nanos,
    /// Busy time by the moves of the plan.
    pub moves: Nanos,
    /// Requests that were played.
    pub requests: u64,
}

impl Prediction {
    /// Whether the plan gains more than it costs within `life` requests like those played.
    pub fn wins(&self, life: u64) -> bool {
        let gain = i128::from(self.unplanned.0) - i128::from(self.planned.0);
        gain * i128::from(life) > i128::from(self.moves.0) * i128::from(self.requests.max(1))
    }
}

/// Answers of a rehearsal are not counted one by one.
#[derive(Default)]
struct Uncounted;

impl Tally for Uncounted {
    fn answered(&mut self, _op: Op, _at: Extent, _took: Nanos) {}
    fn failed(&mut self) {}
}

impl Rehearsal {
    /// Plays `window` on the layer as it is and with `plan`; `None` without a result.
    pub fn predict(&self, plan: &Plan, window: &Window) -> Option<Prediction> {
        let unplanned = self.trial(None, window)?.requests;
        let Trial { requests: planned, moves } = self.trial(Some(plan), window)?;
        Some(Prediction { unplanned, planned, moves, requests: window.requests() })
    }

    fn trial(&self, plan: Option<&Plan>, window: &Window) -> Option<Trial> {
        // Any seed would do; the same one makes trials comparable.
        Runtime::new(1).run(self.play(plan, window)).ok()?.ok()?
    }

    async fn play(&self, plan: Option<&Plan>, window: &Window) -> Result<Option<Trial>, IoError> {
        let twins = Twins::new(&self.models);
        let [Some(origin), Some(bopt)] = &twins.devices[..] else { return Ok(None) };
        let borg = self.open(origin.clone(), bopt.clone());
        if let Some(plan) = plan {
            if let Some(mover) = Mover::start(&borg, MOVED, Throttle::Unthrottled).await? {
                borg.carry_out(&mover, plan, self.verdict, &mut Reconfigured::default()).await?;
            }
        }
        let before = twins.busy(PLAYED);
        let (records, total) = (self.records(window), window.requests());
        let pace = Pace::Open { speed: 1.0 };
        let mut account = OneAccount(PLAYED);
        let replayed = replay::<Uncounted>(records, total, borg, pace, &mut account, &mut |_| ()).await;
        if let Some(error) = replayed.failure {
            return Err(error);
        }
        let requests = twins.busy(PLAYED) - before;
        Ok(Some(Trial { requests, moves: twins.busy(MOVED) }))
    }

    /// The layer with its entries, over twins.
    fn open(&self, origin: Rc<dyn BlockDevice>, bopt: Rc<dyn BlockDevice>) -> Rc<Borg> {
        let fork = self.fork.clone();
        let devices = Devices::counted(origin, bopt);
        let store = Store::from_map(devices.origin.clone(), devices.bopt.clone(), fork);
        Borg::over(devices, store, self.options.clone(), true)
    }

    /// The requests of a window, from time zero on.
    fn records<'a>(&self, window: &'a Window) -> impl Iterator<Item = Record> + use<'a> {
        let (granularity, end) = (self.granularity, self.models[0].at.sectors);
        let begin = window.iter().next().map_or(Nanos::ZERO, |first| first.time);
        window.iter().filter_map(move |access| {
            let Access { time, process, name, first, pages, write } = access;
            let sectors = |units: u32| (u64::from(units) << granularity) * PAGE_SECTORS;
            // The last unit may reach past the end.
            let sectors_left = end.checked_sub(sectors(first))?;
            Some(Record {
                time: time - begin,
                device: 0,
                op: if write { Op::Write } else { Op::Read },
                extent: Extent::new(sectors(first), sectors(pages).min(sectors_left)),
                flags: Flags::default(),
                origin: Origin { process, name, ..Origin::default() },
                latency: Latency::UNKNOWN,
            })
        })
    }
}
