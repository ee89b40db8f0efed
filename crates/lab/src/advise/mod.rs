//! A verdict on a recording: what the disk waits for, who causes it, and what would help. It rests on runs of the
//! recording at its own pace, one without and one with each remedy, and on nothing else.

mod causes;
mod remedies;
mod verdict;

use schemars::JsonSchema;
use seekless_core::SECTOR_BYTES;
use seekless_drive::{Model, Policy, QueueOptions};
use seekless_trace::Trace;
use serde::Serialize;

pub use causes::{Cause, causes};
pub use verdict::{Judgement, MIN_GAIN_PCT, rounded};

use crate::compare::{InParts, in_parts};
use crate::error::LabError;
use crate::experiment::{Experiment, sources};
use crate::outcome::{DriveWork, Variant};
use crate::setup::{self, Clock, Pace, Progress, has_processes};

/// Number of parts of a recording, by requests, in which a gain is measured: what differs between them is its error.
pub const PARTS: u64 = 8;
/// Outstanding requests at closed pace: more than a drive's queue holds, so that it never lacks work.
const OUTSTANDING: usize = 32;
/// Reconfigurations of a layer in the recording.
const RECONFIGURATIONS: u32 = 4;

/// Of this number of records, one may have a time that the disorder of its file changed.
const MOST_LATE: u64 = 100;

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
    /// process's next read waits for its previous one, or at most eight requests are in flight if none are named.
    pub pace: String,
    /// Speed of the runs, relative to the recording; nothing at closed pace.
    pub speed: Option<f64>,
    /// Whether the recording names processes.
    pub processes: bool,
    /// The disk as it is; nothing if the recording cannot be judged.
    pub base: Option<Measured>,
    /// Who causes the disk's work, most first; the rest is summed up.
    pub causes: Vec<Cause>,
    /// What could be done, the best first.
    pub remedies: Vec<Remedy>,
    /// Names of the remedies that were not tried, since the drive has no room beside the recording.
    pub not_tried: Vec<&'static str>,
    /// The name of the remedy that is advised; `null`: nothing helps, or it is not known.
    pub advised: Option<String>,
    /// How long a recording should be, in seconds, if this one is too short to tell; nothing if two weeks are too
    /// short.
    pub record_s: Option<f64>,
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
    /// Where the recording is too short to judge it: how long one should be, in seconds; nothing if two weeks are too
    /// short.
    pub record_s: Option<f64>,
}

impl Advice {
    /// When requests came in the runs, in words.
    pub fn pace_in_words(&self) -> String {
        match self.speed {
            None if self.processes => "each process waiting for its answers".to_owned(),
            None => "eight requests in flight".to_owned(),
            Some(speed) if (speed - 1.0).abs() < 1e-9 => "at its own pace".to_owned(),
            Some(speed) => format!("at {speed} times its pace"),
        }
    }
}

impl Remedy {
    /// What is to be thought of it, in words.
    pub fn judged(&self) -> String {
        match (self.judgement, self.record_s) {
            (Judgement::Recommended, _) => "recommended".to_owned(),
            (Judgement::NotWorthIt, _) => "not worth it".to_owned(),
            (Judgement::TooShort, Some(needed)) => format!("record {}", rounded(needed)),
            (Judgement::TooShort, None) => "record for weeks".to_owned(),
        }
    }
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

/// A recording that is being judged: the disk as it is has been run, what could be done is to be run.
pub struct Trial<'a> {
    trace: &'a Trace,
    drive: &'a Model,
    speed: f64,
    /// Recorded seconds.
    length_s: f64,
    /// The disk as it is, at the pace that was found to fit.
    plain: Experiment,
    base: InParts,
    /// Why it is another pace than the recorded one.
    note: Option<&'static str>,
    remedies: Vec<remedies::Remedy>,
    not_tried: Vec<&'static str>,
}

/// The result of a run of a trial.
pub struct Ran(Kind);

enum Kind {
    Causes(Vec<Cause>),
    Remedy(Box<InParts>),
}

/// What is known of a recording that cannot be judged, of too few requests or of rows in disorder; `None` if it can be.
pub fn not_known(trace: &Trace, drive: &Model, speed: f64) -> Option<Advice> {
    let requests = trace.records.len() as u64;
    let length_s = recorded_s(trace) / speed;
    let (verdict, record_s) = if trace.late > requests / MOST_LATE {
        (verdict::unsorted(trace.late, requests), None)
    } else if requests < verdict::LEAST_REQUESTS {
        let record_s = verdict::enough_for_few_s(requests, length_s).filter(|_| requests > 0);
        (verdict::too_few(requests, record_s), record_s)
    } else {
        return None;
    };
    Some(Advice {
        trace: trace.sources.iter().map(|path| path.display().to_string()).collect(),
        drive: drive.name().to_owned(),
        drive_chosen_because: None,
        requests,
        length_s,
        pace: "open".to_owned(),
        speed: Some(speed),
        processes: has_processes(trace),
        base: None,
        causes: Vec::new(),
        remedies: Vec::new(),
        not_tried: Vec::new(),
        advised: None,
        record_s,
        verdict,
        notes: Vec::new(),
    })
}

fn recorded_s(trace: &Trace) -> f64 {
    trace.records.last().map_or(0.0, |last| last.time.seconds())
}

impl<'a> Trial<'a> {
    /// Runs the recording on `drive` as it is, at `speed` times its pace; its length counts from its first request to
    /// its last, or is `length_s` if that is known and longer; where the drive falls ever further behind, anew
    /// at closed pace. `behind` is called then, before that.
    pub fn begin(
        trace: &'a Trace,
        drive: &'a Model,
        speed: f64,
        length_s: Option<f64>,
        seed: u64,
        progress: &dyn Fn(Progress),
        behind: impl FnOnce(&'static str),
    ) -> Result<Trial<'a>, LabError> {
        let mut plain = as_it_is(drive, speed, seed);
        let run = |experiment: &Experiment| in_parts(trace, "as it is", experiment, PARTS, progress);
        let mut note = None;
        let mut base = run(&plain)?;
        if base.only_grows {
            let (why, outstanding) = if has_processes(trace) {
                (BEHIND, OUTSTANDING)
            } else {
                (BEHIND_WITHOUT_PROCESSES, setup::OUTSTANDING as usize)
            };
            behind(why);
            note = Some(why);
            plain.pace = Pace::Closed { outstanding };
            base = run(&plain)?;
        }
        let (remedies, not_tried) = remedies::all(&plain, trace);
        let length_s = length_s.unwrap_or(0.0).max(recorded_s(trace));
        Ok(Trial { trace, drive, speed, length_s, plain, base, note, remedies, not_tried })
    }

    /// Number of runs, which are independent of each other.
    pub fn runs(&self) -> usize {
        1 + self.remedies.len()
    }

    /// Carries out a run.
    pub fn run(&self, index: usize, progress: &dyn Fn(Progress)) -> Result<Ran, LabError> {
        let kind = match index.checked_sub(1).map(|index| &self.remedies[index]) {
            None => Kind::Causes(causes(self.trace, &self.plain)?),
            Some(one) => {
                let run = in_parts(self.trace, one.name, &one.experiment, PARTS, progress)?;
                Kind::Remedy(Box::new(run))
            }
        };
        Ok(Ran(kind))
    }

    /// The advice, by the results of all runs in their order.
    pub fn advice(self, runs: Vec<Ran>) -> Advice {
        let (mut causes, mut others) = (Vec::new(), Vec::new());
        for run in runs {
            match run.0 {
                Kind::Causes(found) => causes = found,
                Kind::Remedy(run) => others.push(*run),
            }
        }
        let open = self.plain.pace.is_open();
        let mut base = Measured::of(&self.base.variant);
        let length_s = if open { self.length_s / self.speed } else { base.elapsed_s };
        // Idle before the first request and after the last one.
        base.elapsed_s = base.elapsed_s.max(length_s);
        let judged = self.judged(&others, &base, length_s);
        let of = |judgement| judged.iter().find(move |remedy| remedy.judgement == judgement);
        let advised = of(Judgement::Recommended).map(|remedy| remedy.name.clone());
        let unknown = of(Judgement::TooShort).filter(|_| advised.is_none());
        Advice {
            trace: self.trace.sources.iter().map(|path| path.display().to_string()).collect(),
            drive: self.drive.name().to_owned(),
            drive_chosen_because: None,
            requests: self.trace.records.len() as u64,
            length_s,
            pace: if open { "open" } else { "closed" }.to_owned(),
            speed: open.then_some(self.speed),
            processes: has_processes(self.trace),
            causes,
            record_s: unknown.and_then(|remedy| remedy.record_s),
            advised,
            verdict: verdict::sentence(&base, &judged),
            notes: self.notes(),
            base: Some(base),
            remedies: judged,
            not_tried: self.not_tried,
        }
    }

    /// The remedies, the best first.
    fn judged(&self, runs: &[InParts], base: &Measured, length_s: f64) -> Vec<Remedy> {
        let mut judged: Vec<Remedy> = Vec::new();
        for (remedy, run) in self.remedies.iter().zip(runs) {
            let gain = verdict::Gain::of(&self.base.busy, &run.busy);
            let measured = Measured::of(&run.variant);
            let judgement = verdict::judge(&gain, base, &measured);
            let (net_gain_pct, error_pct) = (gain.net_pct, gain.error_pct);
            let short = judgement == Judgement::TooShort;
            let record_s = gain.enough_s(length_s).filter(|_| short);
            let (name, what) = (remedy.name.to_owned(), remedy.what.clone());
            judged.push(Remedy { name, what, run: measured, net_gain_pct, error_pct, judgement, record_s });
        }
        judged.sort_by(|one, other| other.net_gain_pct.total_cmp(&one.net_gain_pct));
        judged
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.base.variant.notes.clone();
        notes.extend(self.note.map(str::to_owned));
        notes.extend(self.trace.warnings.iter().cloned());
        if self.drive.disk().is_none() {
            notes.push("The drive does not turn: nothing here is about such drives.".to_owned());
        }
        notes
    }
}

/// What is said where the drive falls ever further behind, and no process is named.
const BEHIND_WITHOUT_PROCESSES: &str = "The model cannot keep up with the recorded times: the disk that was recorded is faster. So at most eight \
     requests are in flight here, since the recording does not name processes, and the lengths are the model's.";

/// What is said where the drive falls ever further behind.
const BEHIND: &str = "The model cannot keep up with the recorded times: the disk that was recorded is faster. So each \
                          process's next read waits for its previous one here, and the lengths are the model's.";

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
        accesses: false,
    }
}

/// Checks that the drive has room for the trace; the error names those that have.
pub fn check(trace: &Trace, drive: &Model) -> Result<(), LabError> {
    as_it_is(drive, 1.0, 1).places(&sources(trace), trace.end_sector()).map(drop)
}

/// Whether the drive has room for the trace, and beside it for whatever could be done.
pub fn has_room(trace: &Trace, drive: &Model) -> bool {
    remedies::room(&as_it_is(drive, 1.0, 1), trace) >= remedies::PARTITION.1 / SECTOR_BYTES
}

/// The shipped drives that have room for the trace; `like` is any drive.
pub fn fitting(trace: &Trace, like: &Model) -> Vec<(&'static str, Model)> {
    as_it_is(like, 1.0, 1).fitting(trace.end_sector())
}
