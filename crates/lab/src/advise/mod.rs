//! A verdict on a recording: what the disk waits for, who causes it, and what would help. It rests on runs of the
//! recording at its own pace, one without and one with each remedy, and on nothing else.

mod causes;
mod remedies;
mod verdict;

use schemars::JsonSchema;
use seekless_drive::{Model, Policy, QueueOptions};
use seekless_trace::Trace;
use serde::Serialize;

pub use causes::{Cause, causes};
pub use verdict::{Judgement, MIN_GAIN_PCT};

use crate::compare::in_parts;
use crate::error::LabError;
use crate::experiment::{Experiment, sources};
use crate::outcome::{DriveWork, Variant};
use crate::setup::{Clock, Pace, Progress};

/// Number of parts of a recording, by requests, in which a gain is measured: what differs between them is its error.
pub const PARTS: u64 = 8;
/// Outstanding requests at closed pace: more than a drive's queue holds, so that it never lacks work.
const OUTSTANDING: usize = 32;
/// Reconfigurations of a layer in the recording.
const RECONFIGURATIONS: u32 = 4;

/// What is advised for a recording.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Advice {
    /// Files of the trace.
    pub trace: Vec<String>,
    /// The drive's name.
    pub drive: String,
    /// Why it was taken, where none was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive_chosen_because: Option<String>,
    /// Requests of the recording.
    pub requests: u64,
    /// Its length in seconds: recorded, at the speed of the runs; at closed pace that of the disk as it is.
    pub length_s: f64,
    /// `open`: requests come at their recorded times; `closed`: the model cannot keep up with these, so that a
    /// process's next read waits for its previous one.
    pub pace: String,
    /// Speed of the runs, relative to the recording; nothing at closed pace.
    pub speed: Option<f64>,
    /// The disk as it is.
    pub base: Measured,
    /// Who causes the disk's work, most first; the rest is summed up.
    pub causes: Vec<Cause>,
    /// What could be done, the best first.
    pub remedies: Vec<Remedy>,
    /// Names of the remedies that were not tried, since the drive has no room beside the recording.
    pub not_tried: Vec<&'static str>,
    /// The name of the remedy that is advised; `null`: nothing helps, or it is not known.
    pub advised: Option<String>,
    /// What to do, in a sentence.
    pub verdict: String,
    /// Caveats.
    pub notes: Vec<String>,
}

/// Figures of a run.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Measured {
    /// Head time of the whole run, copying included.
    pub work: DriveWork,
    /// From the first request to the last answer, in seconds.
    pub elapsed_s: f64,
    /// Median of all response times, in milliseconds.
    pub p50_ms: f64,
    /// Their 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// Their mean, in milliseconds.
    pub mean_ms: f64,
}

/// A remedy, and its run.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Remedy {
    /// A short name.
    pub name: String,
    /// What it is.
    pub what: String,
    /// Its run.
    pub run: Measured,
    /// Busy time that it saves, copying included, in per cent of the base's.
    pub net_gain_pct: f64,
    /// Standard error of that, from the parts of the recording, in per cent.
    pub error_pct: f64,
    /// What is to be thought of it.
    pub judgement: Judgement,
}

impl Measured {
    /// Share of the time in which the disk is busy, in per cent.
    pub fn busy_pct(&self) -> f64 {
        100.0 * self.work.head.busy_s / self.elapsed_s.max(1e-9)
    }

    fn of(variant: &Variant) -> Measured {
        let all = &variant.response_ms.all;
        Measured {
            work: variant.work.clone(),
            elapsed_s: variant.elapsed_s,
            p50_ms: all.spread.p50,
            p99_ms: all.spread.p99,
            mean_ms: all.mean,
        }
    }
}

/// Runs the recording on `drive` without and with each remedy, at `speed` times its pace.
pub fn advise(
    trace: &Trace,
    drive: &Model,
    speed: f64,
    seed: u64,
    progress: &dyn Fn(Progress),
) -> Result<Advice, LabError> {
    let mut plain = as_it_is(drive, speed, seed);
    let run = |name: &str, experiment: &Experiment| in_parts(trace, name, experiment, PARTS, progress);
    let mut base = run("as it is", &plain)?;
    if base.only_grows {
        plain.pace = Pace::Closed { outstanding: OUTSTANDING };
        base = run("as it is", &plain)?;
    }
    let open = plain.pace.is_open();
    let (remedies, not_tried) = remedies::all(&plain, trace);
    let others = remedies.iter().map(|remedy| run(remedy.name, &remedy.experiment));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    let of_base = Measured::of(&base.variant);
    let recorded_s = trace.records.last().map_or(0.0, |last| last.time.seconds());
    let length_s = if open { recorded_s / speed } else { of_base.elapsed_s };
    let mut judged: Vec<Remedy> = Vec::new();
    for (remedy, run) in remedies.iter().zip(&others) {
        let gain = verdict::Gain::of(&base.busy, &run.busy);
        let measured = Measured::of(&run.variant);
        let judgement = verdict::judge(&gain, &of_base, &measured);
        let (net_gain_pct, error_pct) = (gain.net_pct, gain.error_pct);
        let (name, what) = (remedy.name.to_owned(), remedy.what.clone());
        judged.push(Remedy { name, what, run: measured, net_gain_pct, error_pct, judgement });
    }
    judged.sort_by(|one, other| other.net_gain_pct.total_cmp(&one.net_gain_pct));
    let advised = judged.iter().find(|remedy| remedy.judgement == Judgement::Recommended);
    let verdict = verdict::sentence(&of_base, &judged, length_s);
    let mut notes = base.variant.notes.clone();
    if !open {
        notes.push(
            "The model cannot keep up with the recorded times: the disk that was recorded is faster. So each process's \
             next read waits for its previous one here, and the lengths are the model's."
                .to_owned(),
        );
    }
    if drive.disk().is_none() {
        notes.push("The drive does not turn: nothing here is about such drives.".to_owned());
    }
    Ok(Advice {
        trace: trace.sources.iter().map(|path| path.display().to_string()).collect(),
        drive: drive.name().to_owned(),
        drive_chosen_because: None,
        requests: trace.records.len() as u64,
        length_s,
        pace: if open { "open" } else { "closed" }.to_owned(),
        speed: open.then_some(speed),
        causes: causes(trace, &plain)?,
        advised: advised.map(|remedy| remedy.name.clone()),
        base: of_base,
        remedies: judged,
        not_tried,
        verdict,
        notes,
    })
}

/// The disk as it is.
fn as_it_is(drive: &Model, speed: f64, seed: u64) -> Experiment {
    Experiment {
        drive: drive.clone(),
        over_sectors: None,
        layer: None,
        queue: QueueOptions { policy: Policy::CLook, ..QueueOptions::default() },
        pace: Pace::Open { speed },
        reconfigure: RECONFIGURATIONS,
        schedule: None,
        clock: Clock::Run,
        seed,
        bounds: false,
    }
}

/// Checks that the drive has room for the trace; the error names those that have.
pub fn check(trace: &Trace, drive: &Model) -> Result<(), LabError> {
    as_it_is(drive, 1.0, 1).places(&sources(trace), trace.end_sector()).map(drop)
}

/// The shipped drives that have room for the trace; `like` is any drive.
pub fn fitting(trace: &Trace, like: &Model) -> Vec<(&'static str, Model)> {
    as_it_is(like, 1.0, 1).fitting(trace.end_sector())
}
