//! A sweep by volume: what each configuration gains over the volumes of a fleet, and what is best for each of them.
//!
//! Definitions: the gain of a configuration on a volume is the first objective, as a mean over seeds. It helps the
//! volume if it saves at least 3 % of the busy time, its own copying counted, and requests do not wait longer for it:
//! the rule of `advise`, without its standard error. The verdict on a volume is the configuration of the best gain
//! among those that help, or none. A percentile over volumes is the value of the volume at that rank, each volume
//! counting once.
//!
//! Invariant: volumes on which a task failed are counted as failed for that configuration, and not among its gains.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use seekless_core::names::interned;
use seekless_trace::stats::fleet::Spread;
use serde::Serialize;

use super::file::Sweep;
use super::report::{AVERAGED, Objective};
use super::row::{Figure, Row};
use super::task::Task;
use crate::advise::MIN_GAIN_PCT;

/// What a sweep says of the volumes of a fleet.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Fleet {
    /// Number of volumes.
    pub volumes: u64,
    /// Volumes that no configuration helps.
    pub not_helped: u64,
    /// The gains of each configuration, in the order of the tasks.
    pub configurations: Vec<Gains>,
    /// The verdict on each volume, in the order of the tasks: the busiest of a recording first.
    pub verdicts: Vec<Verdict>,
}

/// The gains of a configuration.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Gains {
    /// Its parameters.
    pub settings: BTreeMap<String, Figure>,
    /// Volumes that it helps.
    pub helped: u64,
    /// Volumes for which it is the verdict.
    pub best_for: u64,
    /// Volumes on which it failed.
    pub failed: u64,
    /// The distribution of its gain over the others; `None` if there are none.
    pub gain: Option<Spread>,
}

/// What helps a volume most.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Verdict {
    /// The recording.
    pub trace: String,
    /// The volume.
    pub volume: String,
    /// The configuration; `None` if none helps.
    pub settings: Option<BTreeMap<String, Figure>>,
    /// Its gain; if none helps, the best of all gains, if there is any.
    pub gain: Option<f64>,
}

/// Sums over the seeds of a configuration on a volume.
#[derive(Clone, Copy, Default)]
struct Runs {
    done: u64,
    failed: u64,
    gain: f64,
    saved_pct: f64,
    /// Milliseconds by which requests wait longer.
    longer_ms: f64,
}

impl Runs {
    fn add(&mut self, row: &Row, objective: &Objective) {
        let number = |name: &str| row.figures.get(name).and_then(Figure::number);
        let both = || Some(number("response_ms.all.mean")? - number("base.response_ms.all.mean")?);
        match (number(&objective.figure), number("net_reduction_pct"), both()) {
            (Some(gain), Some(saved), Some(longer)) => {
                self.done += 1;
                self.gain += gain;
                self.saved_pct += saved;
                self.longer_ms += longer;
            }
            _ => self.failed += 1,
        }
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.done.max(1) as f64
    }

    fn is_whole(&self) -> bool {
        self.done > 0 && self.failed == 0
    }

    fn helps(&self) -> bool {
        self.is_whole() && self.mean(self.saved_pct) >= MIN_GAIN_PCT && self.longer_ms <= 0.0
    }
}

/// Things in order of their first appearance.
struct InOrder<T>(Vec<T>, BTreeMap<String, usize>);

impl<T> InOrder<T> {
    fn place(&mut self, key: String, value: impl FnOnce() -> T) -> usize {
        let place = *self.1.entry(key).or_insert(self.0.len());
        if place == self.0.len() {
            self.0.push(value());
        }
        place
    }
}

impl Fleet {
    /// Of a sweep's rows; `None` if it is not by volume.
    pub fn of(sweep: &Sweep, tasks: &[Task], rows: &[Row]) -> Option<Fleet> {
        let objective = sweep.objectives.first()?;
        let mut volumes = InOrder(Vec::new(), BTreeMap::new());
        let mut configurations = InOrder(Vec::new(), BTreeMap::new());
        let mut runs: BTreeMap<(usize, usize), Runs> = BTreeMap::new();
        for (task, row) in tasks.iter().zip(rows) {
            let Some(volume) = &task.trace.volume else { continue };
            let of = (task.trace.name.clone(), volume.clone());
            let settings = || -> BTreeMap<String, Figure> {
                let own = task.settings.iter().filter(|(name, _)| !AVERAGED.contains(&name.as_str()));
                own.cloned().collect()
            };
            let place = (
                volumes.place(format!("{of:?}"), || of),
                configurations.place(format!("{:?}", settings()), settings),
            );
            runs.entry(place).or_default().add(row, objective);
        }
        if volumes.0.is_empty() {
            return None;
        }
        let verdicts: Vec<(Verdict, Option<usize>)> = (0..volumes.0.len())
            .map(|at| verdict(at, &volumes.0[at], &configurations.0, &runs, objective))
            .collect();
        let gains = |(at, settings): (usize, BTreeMap<String, Figure>)| {
            let own = || runs.iter().filter(|((_, of), _)| *of == at).map(|(_, runs)| runs);
            let whole = own().filter(|runs| runs.is_whole()).map(|runs| runs.mean(runs.gain));
            Gains {
                settings,
                helped: own().filter(|runs| runs.helps()).count() as u64,
                best_for: verdicts.iter().filter(|(_, best)| *best == Some(at)).count() as u64,
                failed: own().filter(|runs| !runs.is_whole()).count() as u64,
                gain: Spread::of(interned(&objective.figure), whole.collect()),
            }
        };
        Some(Fleet {
            volumes: volumes.0.len() as u64,
            not_helped: verdicts.iter().filter(|(_, best)| best.is_none()).count() as u64,
            configurations: configurations.0.clone().into_iter().enumerate().map(gains).collect(),
            verdicts: verdicts.into_iter().map(|(verdict, _)| verdict).collect(),
        })
    }
}

/// The verdict on a volume, and the place of its configuration.
fn verdict(
    at: usize,
    (trace, volume): &(String, String),
    configurations: &[BTreeMap<String, Figure>],
    runs: &BTreeMap<(usize, usize), Runs>,
    objective: &Objective,
) -> (Verdict, Option<usize>) {
    let best = |of: &dyn Fn(&Runs) -> bool| {
        let own = runs.range((at, 0)..=(at, usize::MAX)).filter(|(_, runs)| of(runs));
        let gains = own.map(|((_, configuration), runs)| (*configuration, runs.mean(runs.gain)));
        // The first of equal ones.
        gains.reduce(|best, next| if objective.is_better(next.1, best.1) { next } else { best })
    };
    let helping = best(&Runs::helps);
    let gain = helping.or_else(|| best(&Runs::is_whole)).map(|(_, gain)| gain);
    let helping = helping.map(|(configuration, _)| configuration);
    let settings = helping.map(|configuration| configurations[configuration].clone());
    (Verdict { trace: trace.clone(), volume: volume.clone(), settings, gain }, helping)
}
