//! What a sweep shows: the best configurations, those that no other is better than in every respect (the Pareto front),
//! how much each parameter matters, and which matter only together.
//!
//! A configuration is the values of all parameters but trace, its volume and seed; its figures are means over these.
//! Only configurations with equally many successful tasks are compared.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use seekless_core::names::perhaps;
use serde::Serialize;

use super::effects::{self, Factor};
use super::expand::TRACE_VOLUME;
use super::file::Sweep;
use super::fleet::Fleet;
use super::row::{Figure, Row};
use super::task::Task;

/// Number of best configurations in the report.
const BEST: usize = 10;
/// Prefixes of figures that depend on the layers, and so are not known before a run.
const OF_LAYERS: [&str; 2] = ["layers.", "sides."];
/// Parameters over which a configuration's figures are means.
pub(super) const AVERAGED: [&str; 3] = ["trace", TRACE_VOLUME, "seed"];

/// A figure to be as large or as small as possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// Name of the figure.
    pub figure: String,
    /// Whether more is better.
    pub more: bool,
}

impl Objective {
    /// The objectives of a file without any.
    pub fn defaults() -> Vec<Objective> {
        let objective = |figure: &str, more| Objective { figure: figure.to_owned(), more };
        vec![objective("net_reduction_pct", true), objective("response_ms.all.p99", false)]
    }

    /// Whether `one` is better than `other`.
    pub(super) fn is_better(&self, one: f64, other: f64) -> bool {
        if self.more { one > other } else { one < other }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.more { "max" } else { "min" }, self.figure)
    }
}

impl FromStr for Objective {
    type Err = String;

    /// `max FIGURE` or `min FIGURE`; the error is what was expected.
    fn from_str(text: &str) -> Result<Objective, String> {
        let more = match text.split_once(' ') {
            Some(("max", figure)) => Some((true, figure)),
            Some(("min", figure)) => Some((false, figure)),
            _ => None,
        };
        let (more, figure) = more.ok_or("min or max and the name of a figure, as in 'min busy_s'")?;
        let known = Row::common_figures();
        if known.iter().any(|known| known == figure)
            || OF_LAYERS.iter().any(|prefix| figure.starts_with(prefix))
        {
            return Ok(Objective { figure: figure.to_owned(), more });
        }
        let perhaps = perhaps(figure, known.iter().map(|name| &**name));
        Err(format!("one of: {}, or layers.NAME.COUNTER{perhaps}", known.join(", ")))
    }
}

/// A configuration, with the means of its figures.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Point {
    /// Its parameters.
    pub settings: BTreeMap<String, Figure>,
    /// Number of its tasks.
    pub tasks: u64,
    /// Means of the objectives.
    pub means: Vec<f64>,
    /// Smallest and largest value of the first objective.
    pub span: [f64; 2],
}

/// The best configuration of a trace.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct BestOfTrace {
    /// The trace.
    pub trace: String,
    /// The configuration.
    #[serde(flatten)]
    pub point: Point,
}

/// How much a parameter matters for the first objective.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Effect {
    /// The parameter.
    pub parameter: String,
    /// Share of the variance that it explains alone, in per cent.
    pub share_pct: f64,
    /// Its values.
    pub levels: Vec<Level>,
}

/// One value of a parameter.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Level {
    /// The value; `null` for tasks without the parameter.
    pub value: Option<Figure>,
    /// Number of tasks with it.
    pub tasks: u64,
    /// Mean of the first objective.
    pub mean: f64,
}

/// How much two parameters matter together, beyond each alone.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Interaction {
    /// The parameters.
    pub parameters: [String; 2],
    /// Share of the variance, in per cent; `null` if their combinations have unequal numbers of tasks.
    pub share_pct: Option<f64>,
}

/// An error, and the number of tasks that failed with it.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Failure {
    /// The error.
    pub error: String,
    /// Number of tasks.
    pub tasks: u64,
}

/// A report.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Report {
    /// The sweep's file.
    pub file: String,
    /// Number of tasks.
    pub tasks: u64,
    /// Number of tasks that failed.
    pub failed: u64,
    /// The errors, the most frequent first.
    pub failures: Vec<Failure>,
    /// Parameters with several values, in the order of the table's columns.
    pub parameters: Vec<String>,
    /// What is best, most important first.
    pub objectives: Vec<String>,
    /// The best configurations by the first objective.
    pub best: Vec<Point>,
    /// The best configuration for each trace; empty if there is one trace.
    pub best_of_trace: Vec<BestOfTrace>,
    /// Configurations that no other is better than in every objective; the best by the first objective first.
    pub front: Vec<Point>,
    /// Parameters by the share of the first objective's variance that they explain.
    pub sensitivity: Vec<Effect>,
    /// Pairs of parameters by what they explain together.
    pub interactions: Vec<Interaction>,
    /// The volumes of the recordings, in a sweep by volume.
    pub fleet: Option<Fleet>,
    /// Caveats.
    pub notes: Vec<String>,
}

/// A task that succeeded, and its objectives.
struct Sample<'a> {
    task: &'a Task,
    values: Vec<f64>,
}

impl Sample<'_> {
    fn setting(&self, name: &str) -> Option<&Figure> {
        self.task.settings.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

impl Report {
    /// The report of a sweep's rows.
    pub fn of(sweep: &Sweep, tasks: &[Task], rows: &[Row]) -> Report {
        let objectives = &sweep.objectives;
        let values = |row: &Row| -> Option<Vec<f64>> {
            objectives.iter().map(|objective| row.figures.get(&objective.figure)?.number()).collect()
        };
        let both = tasks.iter().zip(rows);
        let samples: Vec<Sample> =
            both.filter_map(|(task, row)| Some(Sample { task, values: values(row)? })).collect();
        let failed = rows.iter().filter(|row| row.error.is_some()).count();
        let mut notes = Vec::new();
        let without = rows.len() - failed - samples.len();
        if without > 0 {
            let of = rows.len();
            notes.push(format!("Left out: {without} of {of} tasks, whose runs do not have every objective."));
        }
        let (mut points, all) = points(&samples.iter().collect::<Vec<_>>());
        if points.len() < all {
            let left_out = all - points.len();
            notes.push(format!(
                "Left out of the best and the front: {left_out} of {all} configurations, with fewer successful tasks \
                 than others."
            ));
        }
        sort(&mut points, objectives);
        let parameters = varying(sweep, &samples);
        let (sensitivity, interactions) = sensitivity(&parameters, &samples, &mut notes);
        Report {
            file: sweep.file.display().to_string(),
            tasks: tasks.len() as u64,
            failed: failed as u64,
            failures: failures(rows),
            objectives: objectives.iter().map(ToString::to_string).collect(),
            best: points.iter().take(BEST).cloned().collect(),
            best_of_trace: best_of_trace(&samples, objectives),
            front: front(&points, objectives),
            sensitivity,
            interactions,
            parameters,
            fleet: Fleet::of(sweep, tasks, rows),
            notes,
        }
    }
}

fn failures(rows: &[Row]) -> Vec<Failure> {
    let mut counts: BTreeMap<&String, u64> = BTreeMap::new();
    rows.iter().filter_map(|row| row.error.as_ref()).for_each(|error| *counts.entry(error).or_default() += 1);
    let failure = |(error, tasks): (&String, u64)| Failure { error: error.clone(), tasks };
    let mut failures: Vec<Failure> = counts.into_iter().map(failure).collect();
    failures.sort_by_key(|failure| std::cmp::Reverse(failure.tasks));
    failures
}

/// The configurations with as many tasks as any, in order of their first tasks, and the number of all.
fn points(samples: &[&Sample]) -> (Vec<Point>, usize) {
    let mut groups: Vec<(BTreeMap<String, Figure>, Vec<&Sample>)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for sample in samples {
        let own = sample.task.settings.iter().filter(|(name, _)| !AVERAGED.contains(&name.as_str()));
        let settings: BTreeMap<String, Figure> = own.cloned().collect();
        let place = *places.entry(format!("{settings:?}")).or_insert(groups.len());
        if place == groups.len() {
            groups.push((settings, Vec::new()));
        }
        groups[place].1.push(sample);
    }
    let most = groups.iter().map(|(_, samples)| samples.len()).max().unwrap_or(0);
    let all = groups.len();
    groups.retain(|(_, samples)| samples.len() == most);
    let points = groups.into_iter().map(|(settings, samples)| point(settings, &samples)).collect();
    (points, all)
}

fn point(settings: BTreeMap<String, Figure>, samples: &[&Sample]) -> Point {
    let objectives = samples.first().map_or(0, |sample| sample.values.len());
    let mean = |at: usize| effects::mean(&samples.iter().map(|sample| sample.values[at]).collect::<Vec<_>>());
    let first = || samples.iter().map(|sample| sample.values[0]);
    Point {
        settings,
        tasks: samples.len() as u64,
        means: (0..objectives).map(mean).collect(),
        span: [first().fold(f64::INFINITY, f64::min), first().fold(f64::NEG_INFINITY, f64::max)],
    }
}

/// Sorts by the first objective, then by the others; equal ones keep their order.
fn sort(points: &mut [Point], objectives: &[Objective]) {
    points.sort_by(|one, other| {
        let pairs = objectives.iter().zip(one.means.iter().zip(&other.means));
        let each =
            pairs.map(|(objective, (a, b))| if objective.more { b.total_cmp(a) } else { a.total_cmp(b) });
        each.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
}

fn best_of_trace(samples: &[Sample], objectives: &[Objective]) -> Vec<BestOfTrace> {
    let mut traces: Vec<&Figure> = Vec::new();
    for trace in samples.iter().filter_map(|sample| sample.setting("trace")) {
        if !traces.contains(&trace) {
            traces.push(trace);
        }
    }
    if traces.len() < 2 {
        return Vec::new();
    }
    let best = |trace: &Figure| {
        let of_trace: Vec<&Sample> =
            samples.iter().filter(|sample| sample.setting("trace") == Some(trace)).collect();
        let (mut points, _) = points(&of_trace);
        sort(&mut points, objectives);
        let point = points.into_iter().next()?;
        Some(BestOfTrace { trace: trace.to_string(), point })
    };
    traces.into_iter().filter_map(best).collect()
}

/// The sorted points that no other dominates. A point that dominates another is before it, and if it is itself
/// dominated, so is the other by a point of the front.
fn front(points: &[Point], objectives: &[Objective]) -> Vec<Point> {
    let better = |a: &Point, b: &Point, at: usize| objectives[at].is_better(a.means[at], b.means[at]);
    let all = || 0..objectives.len();
    let dominates = |one: &Point, other: &Point| {
        all().any(|at| better(one, other, at)) && !all().any(|at| better(other, one, at))
    };
    let mut front: Vec<Point> = Vec::new();
    for point in points {
        if !front.iter().any(|other| dominates(other, point)) {
            front.push(point.clone());
        }
    }
    front
}

/// The parameters with several values among the samples.
fn varying(sweep: &Sweep, samples: &[Sample]) -> Vec<String> {
    let several = |name: &String| {
        let first = samples.first().map(|sample| sample.setting(name));
        samples.iter().any(|sample| Some(sample.setting(name)) != first)
    };
    sweep.parameters().into_iter().filter(several).collect()
}

/// The values of a parameter among the samples, in order of appearance.
struct Values<'a> {
    name: &'a str,
    known: Vec<Option<&'a Figure>>,
    factor: Factor,
}

impl<'a> Values<'a> {
    fn of(name: &'a str, samples: &'a [Sample]) -> Values<'a> {
        let (mut known, mut levels) = (Vec::new(), Vec::new());
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for value in samples.iter().map(|sample| sample.setting(name)) {
            let level = *places.entry(format!("{value:?}")).or_insert(known.len());
            if level == known.len() {
                known.push(value);
            }
            levels.push(level);
        }
        let factor = Factor { levels, count: known.len() };
        Values { name, known, factor }
    }
}

fn sensitivity(
    parameters: &[String],
    samples: &[Sample],
    notes: &mut Vec<String>,
) -> (Vec<Effect>, Vec<Interaction>) {
    let values: Vec<f64> = samples.iter().filter_map(|sample| sample.values.first().copied()).collect();
    let columns: Vec<Values> = parameters.iter().map(|name| Values::of(name, samples)).collect();
    let (mut effects, mut interactions) = (Vec::new(), Vec::new());
    for (at, Values { name, known, factor }) in columns.iter().enumerate() {
        let means = effects::means(factor, &values).into_iter().zip(known);
        let levels = means.map(|((mean, tasks), value)| Level { value: value.cloned(), tasks, mean });
        effects.push(Effect {
            parameter: (*name).to_owned(),
            share_pct: percent(effects::share(factor, &values)),
            levels: levels.collect(),
        });
        for other in &columns[at + 1..] {
            interactions.push(Interaction {
                parameters: [name, other.name].map(str::to_owned),
                share_pct: effects::interaction(factor, &other.factor, &values).map(percent),
            });
        }
    }
    if columns.iter().any(|column| !effects::is_balanced(&column.factor)) {
        notes.push(
            "Not all values of a parameter have equally many tasks: its share contains some of others'."
                .to_owned(),
        );
    }
    if interactions.iter().any(|pair| pair.share_pct.is_none()) {
        notes.push(
            "Pairs of parameters whose combinations have unequal numbers of tasks have no share: only a full grid has \
             all of them."
                .to_owned(),
        );
    }
    effects.sort_by(|one, other| other.share_pct.total_cmp(&one.share_pct));
    let order = |pair: &Interaction| pair.share_pct.unwrap_or(-1.0);
    interactions.sort_by(|one, other| order(other).total_cmp(&order(one)));
    (effects, interactions)
}

/// A share in per cent, to three digits.
fn percent(share: f64) -> f64 {
    (share * 1e5).round() / 1e3
}
