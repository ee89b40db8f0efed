//! Playing a trace on a volume, with the cost of each phase. Every run of a trace comes through here, whatever its
//! volume's layers.
//!
//! Invariants: the phases of a run cover its requests, and `final` is the write-back of what only layers hold after the
//! last one. Requests and reconfigurations that fail are counted, and the run goes on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::runtime::{Runtime, Stalled};
use seekless_core::{Account, Cost, Layer, LayerTraffic, Nanos};
use seekless_drive::Work;
use seekless_layers::replay::{Replayed, replay};
use seekless_layers::schedule::Schedule;
use seekless_trace::Trace;

use crate::error::LabError;
use crate::events::EventSink;
use crate::phased_answers::{PhasedAnswers, RoughTimes};
use crate::phases::{Done, Phase, Reconfigure, Stretch};
use crate::setup::{MOST, Play, pace_of};
use seekless_volume::Volume;
use seekless_volume::description::Description;

/// Name of the final write-back's phase.
pub const FINAL: &str = "final";

/// Result of a run.
pub struct Played {
    /// In order of the requests.
    pub phases: Vec<Phase>,
    stretches: Vec<Stretch>,
    /// Work of each stretch.
    work: Vec<Work>,
    /// The topmost layer that counts its traffic, and the traffic of each stretch.
    traffic: Option<(String, Vec<LayerTraffic>)>,
    /// Reconfigurations, in order of time.
    pub reconfigured: Vec<Done>,
    /// Reconfigurations that never started.
    pub missed: u64,
    /// Errors of reconfigurations and of the final write-back.
    pub errors: Vec<String>,
    /// Results of the clients.
    pub replayed: Replayed<PhasedAnswers>,
    /// Arms of all drives, at least one.
    pub arms: usize,
    /// Energy of all drives, the final write-back included, in joules; `None` if the description of one lacks it.
    pub energy_j: Option<f64>,
    /// Commands that woke a drive from a power state.
    pub wakes: u64,
    /// Costs of all layers together; the longest wait is that of one.
    pub cost: Cost,
    /// Counters of each layer.
    pub layers: BTreeMap<String, BTreeMap<String, u64>>,
    /// Hash of all events.
    pub event_hash: u64,
}

/// Work and traffic of a range of requests.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Work of the drives.
    pub work: Work,
    /// Traffic of the topmost layer that counts it.
    pub traffic: Option<LayerTraffic>,
    /// Response times of its requests.
    pub times: RoughTimes,
}

/// Plays the trace on a volume that it fits. Stretches also begin at `cuts`, which ascend; `progress` is called with
/// the number of a request from time to time.
pub fn play(
    trace: &Trace,
    volume: &Description,
    play: &Play,
    cuts: Vec<u64>,
    events: Option<EventSink>,
    progress: &mut dyn FnMut(u64),
) -> Result<Played, LabError> {
    // Accounts have 16 bits.
    let accounts = cuts.len() as u64 + 2 * MOST + 2;
    if accounts > u64::from(u16::MAX) {
        let found = format!("{} phases in all volumes", cuts.len());
        let expected = "fewer: fewer volumes at once, or fewer reconfigurations".to_owned();
        return Err(LabError::Setting { setting: "reconfigure", found, expected });
    }
    let runtime = Runtime::new(play.seed);
    if let Some(sink) = events {
        runtime.watch_events(sink);
    }
    let played = RefCell::new(None);
    let result: Result<(), LabError> = runtime.run(async {
        let tree = Volume::new(volume).await?;
        let adapts = |name: &str| volume.layers.get(name).is_some_and(|layer| layer.entry.reconfigures());
        let layers = tree.downwards().filter(|(name, _)| adapts(name));
        let layers: Vec<(String, Rc<dyn Layer>)> =
            layers.map(|(name, layer)| (name.to_owned(), layer.clone())).collect();
        let every = layers.iter().find_map(|(name, _)| volume.layers.get(name)?.reconfigure);
        let schedule = every.unwrap_or(Schedule::Times(play.reconfigure));
        let requests = trace.records.len() as u64;
        let mut control = Reconfigure::new(layers, requests, schedule, play.clock, cuts);
        let records = trace.records.iter().copied();
        let replayed = replay(
            records.map(|record| (record, 0)),
            requests,
            tree.top.clone(),
            pace_of(trace, play.pace),
            &mut control,
            progress,
        )
        .await;
        let account = control.finish(FINAL).await;
        let mut errors = Vec::new();
        for (name, layer) in tree.downwards() {
            if let Err(error) = layer.write_back(account).await {
                errors.push(format!("final write-back of {name}: {error}"));
            }
            if let Err(error) = layer.end_run(account).await {
                errors.push(format!("stop of {name}: {error}"));
            }
        }
        played.replace(Some(Played::of(&tree, control, replayed, errors)));
        Ok(())
    })?;
    result?;
    let event_hash = runtime.event_hash();
    let played = played.into_inner().map(|played| Played { event_hash, ..played });
    played.ok_or(LabError::Stalled(Stalled::new(runtime.now())))
}

impl Played {
    fn of(
        tree: &Volume,
        control: Reconfigure,
        replayed: Replayed<PhasedAnswers>,
        write_back: Vec<String>,
    ) -> Played {
        let missed = control.missed();
        let (phases, stretches, reconfigured, mut errors) = control.into_parts();
        errors.extend(write_back);
        let trouble =
            |(name, layer): (&str, &Rc<dyn Layer>)| Some(format!("layer.{name}: {}", layer.trouble()?));
        errors.extend(tree.downwards().filter_map(trouble));
        let accounts = || (0..stretches.len()).map(|index| Account(index as u16));
        let counts = tree.downwards().find(|(_, layer)| layer.traffic(Account::default()).is_some());
        let traffic = counts.map(|(name, layer)| {
            let each = accounts().map(|account| layer.traffic(account).unwrap_or_default());
            (name.to_owned(), each.collect())
        });
        let mut cost = Cost::default();
        for (_, layer) in tree.downwards() {
            let one = layer.cost();
            cost.map_bytes += one.map_bytes;
            cost.longest_wait = cost.longest_wait.max(one.longest_wait);
        }
        Played {
            work: accounts().map(|account| tree.account(account)).collect(),
            traffic,
            arms: tree.arms().max(1),
            energy_j: tree.joules(),
            wakes: tree.wakes(),
            cost,
            layers: tree.counted(),
            event_hash: 0,
            phases,
            stretches,
            reconfigured,
            missed,
            errors,
            replayed,
        }
    }

    /// The layer that counted its traffic, if any.
    pub fn counting_layer(&self) -> Option<&str> {
        self.traffic.as_ref().map(|(name, _)| name.as_str())
    }

    /// The whole run.
    pub fn whole(&self) -> Part {
        self.gather(1, |_| 0).swap_remove(0)
    }

    /// Each of its own phases.
    pub fn own(&self) -> Vec<Part> {
        self.gather(self.phases.len(), |stretch| stretch.phase)
    }

    /// The ranges of requests that are the phases of another run, the first of which begins with the first request.
    pub fn along(&self, phases: &[Phase]) -> Vec<Part> {
        self.gather(phases.len(), |stretch| {
            phases.partition_point(|phase| phase.first_request <= stretch.first_request) - 1
        })
    }

    /// Adds stretches up into `count` parts.
    fn gather(&self, count: usize, place: impl Fn(&Stretch) -> usize) -> Vec<Part> {
        let none =
            Part { traffic: self.traffic.as_ref().map(|_| LayerTraffic::default()), ..Part::default() };
        let mut parts = vec![none; count];
        for (index, stretch) in self.stretches.iter().enumerate() {
            let part = &mut parts[place(stretch)];
            part.work.add(&self.work[index]);
            if let Some(times) = self.replayed.answers.of(Account(index as u16)) {
                part.times.add_all(times);
            }
            if let (Some(sum), Some((_, each))) = (&mut part.traffic, &self.traffic) {
                sum.add(&each[index]);
            }
        }
        parts
    }

    /// Busy time of its arms up to the last answer.
    pub fn occupied_until_the_end(&self) -> Nanos {
        let parts = self.phases.iter().zip(self.own());
        parts.filter(|(phase, _)| phase.name != FINAL).map(|(_, part)| part.work.occupied).sum()
    }
}
