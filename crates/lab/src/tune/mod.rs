//! Tuning: the options of a layer with which it saves most on a trace.
//!
//! Section 8 of the BORG paper expects that "simple iterative algorithms can be quite effective in identifying the
//! right parameter combination", and leaves it to future work; section 6.5 varies one parameter at a time. Here each
//! parameter is varied in turn, the others at their best so far ([`search`]), and the plane of the first two is the
//! surface.
//!
//! What is best for a recording may be so by chance. So the saving is also reported for each half of the requests.

pub mod search;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use seekless_trace::Trace;
use serde::Serialize;

pub use search::{Point, Search, Step};

use crate::compare::{InParts, in_parts};
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::setup::Progress;

/// A parameter and its values.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Parameter {
    /// Its name: a key of the layer, `bopt`, or `reconfigure`.
    pub name: String,
    /// Its values, as they are written on the command line.
    pub values: Vec<String>,
}

/// A combination of values that was tried.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Tried {
    /// Value of each parameter, by name.
    pub settings: BTreeMap<String, String>,
    /// Busy time of the drives, copies and the final write-back included, in seconds.
    pub busy_s: f64,
    /// Share of the busy time without the layer that it saves, in per cent; below zero if it loses.
    pub saved_pct: f64,
    /// Saving in the first half of the requests, in per cent.
    pub first_half_pct: f64,
    /// Saving in the second half, in per cent.
    pub second_half_pct: f64,
    /// 99th percentile of response times, in milliseconds.
    pub p99_ms: f64,
    /// Why it could not be tried, if it could not; then there are no figures.
    pub error: Option<String>,
}

/// How the saving depends on one parameter, the others at their best.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Line {
    /// The parameter.
    pub parameter: String,
    /// Saving with each of its values, in per cent; `null` where that could not be tried.
    pub saved_pct: Vec<Option<f64>>,
}

/// How the saving depends on two parameters, the others at their best.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Surface {
    /// Parameter of the rows.
    pub rows: Parameter,
    /// Parameter of the columns.
    pub columns: Parameter,
    /// Saving in per cent, row by row; `null` where that could not be tried.
    pub saved_pct: Vec<Vec<Option<f64>>>,
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Tuned {
    /// Files of the recording.
    pub trace: Vec<String>,
    /// Drive, scheduler, layer and pace, in a line.
    pub setup: String,
    /// Busy time without the layer, in seconds.
    pub base_busy_s: f64,
    /// The parameters that were varied.
    pub parameters: Vec<Parameter>,
    /// What the search started from.
    pub start: Tried,
    /// The best combination.
    pub best: Tried,
    /// Each parameter through the best combination.
    pub lines: Vec<Line>,
    /// The first two parameters; `null` with one.
    pub surface: Option<Surface>,
    /// All that was tried, in the order of the values.
    pub tried: Vec<Tried>,
    /// The command that compares the best combination with the bare drive.
    pub command: String,
}

/// A trace and the run without the layer, to compare others with.
pub struct Base<'a> {
    trace: &'a Trace,
    run: InParts,
}

/// Parts in which a run is measured.
const HALVES: u64 = 2;

impl<'a> Base<'a> {
    /// Plays the trace without the experiment's layer.
    pub fn measure(
        trace: &'a Trace,
        experiment: &Experiment,
        progress: &dyn Fn(Progress),
    ) -> Result<Base<'a>, LabError> {
        let run = in_parts(trace, "vanilla", &experiment.vanilla(), HALVES, progress)?;
        Ok(Base { trace, run })
    }

    /// Busy time without the layer, in seconds.
    pub fn busy_s(&self) -> f64 {
        self.run.busy.iter().sum()
    }

    /// Plays the trace with an experiment, which has these settings.
    pub fn compared(
        &self,
        settings: BTreeMap<String, String>,
        experiment: &Experiment,
    ) -> Result<Tried, LabError> {
        let run = in_parts(self.trace, experiment.name(), experiment, HALVES, &|_| ())?;
        let saved = |ours: f64, base: f64| if base > 0.0 { 100.0 * (1.0 - ours / base) } else { 0.0 };
        let half = |half: usize| {
            let of = |run: &InParts| run.busy.get(half).copied().unwrap_or(0.0);
            saved(of(&run), of(&self.run))
        };
        let busy_s = run.busy.iter().sum();
        Ok(Tried {
            settings,
            busy_s,
            saved_pct: saved(busy_s, self.busy_s()),
            first_half_pct: half(0),
            second_half_pct: half(1),
            p99_ms: run.variant.response_ms.all.spread.p99,
            error: None,
        })
    }
}

/// What was tried, by its point.
pub type All = BTreeMap<Point, Tried>;

/// The lines through a point.
pub fn lines(search: &Search, parameters: &[Parameter], best: &Point, all: &All) -> Vec<Line> {
    let line = |(at, parameter): (usize, &Parameter)| Line {
        parameter: parameter.name.clone(),
        saved_pct: search.line(best, at).iter().map(|point| saved(all, point)).collect(),
    };
    parameters.iter().enumerate().map(line).collect()
}

/// The surface through a point; `None` with one parameter.
pub fn surface(search: &Search, parameters: &[Parameter], best: &Point, all: &All) -> Option<Surface> {
    let [rows, columns, ..] = parameters else { return None };
    let plane = search.plane(best);
    let row = |row: &Vec<Point>| row.iter().map(|point| saved(all, point)).collect();
    let saved_pct = plane.iter().map(row).collect();
    Some(Surface { rows: rows.clone(), columns: columns.clone(), saved_pct })
}

fn saved(all: &All, point: &Point) -> Option<f64> {
    all.get(point).filter(|tried| tried.error.is_none()).map(|tried| tried.saved_pct)
}
