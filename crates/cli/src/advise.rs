//! `seekless advise`: whether anything would help a disk, by a recording of it.

use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use seekless_drive::Model;
use seekless_lab::advise::{self, Advice, Measured, Remedy, Trial};
use seekless_trace::{Trace, TraceError};

use crate::auto::{self, AUTO, USUAL};
use crate::input::Input;
use crate::noted::{self, Noted};
use crate::output::{self, Form};
use crate::parse::speed;
use crate::progress::Progress;
use crate::table::Table;
use crate::text::{count, number, percent, seconds, span};
use crate::trace;

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless advise data/mail
  seekless advise sdb.parquet --drive wd-re3-1tb
  seekless advise data/mail --json | jq -r '.verdict'

The recording is played on a model of the disk at its own pace, as it is and with each remedy. A remedy is recommended \
if it saves at least 3 % of the disk's busy time, its own copying counted, at least twice the standard error of that, \
and if requests do not wait longer for it. docs/book/advise.md explains the figures.";

/// The format of `trace record`.
const RECORDED: &str = "blktrace";

/// Arguments of `advise`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Name of a drive, or a TOML file; auto: wd2500aaks, or the smallest disk that fits
    #[arg(long, value_name = "NAME", default_value = "auto")]
    drive: String,
    /// Speed-up over the recorded times
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    speed: f64,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    form: Form,
}

/// Plays the trace with each remedy, and prints the verdict.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let trace = trace::load_as(&arguments.input).or_else(idle)?;
    output::warn(&trace.warnings);
    let told = |note: &str| output::complain(&format!("note: {note}"));
    let advice = on(&trace, &arguments.drive, arguments.speed, arguments.seed, &told)?;
    arguments.form.print(&advice, "remedies", || text(&advice))
}

/// A recording without requests, if it has events of which none is one: that of a disk that rested.
fn idle(error: anyhow::Error) -> anyhow::Result<Trace> {
    match error.downcast_ref() {
        Some(TraceError::NoRequests { file, format: RECORDED, clean: true, .. }) => {
            Ok(Trace { sources: vec![file.clone()], format: RECORDED, ..Trace::default() })
        }
        _ => Err(error),
    }
}

/// The advice for a recording, on the drive of this name. `told` is called before the runs if these have another pace
/// than the recording.
pub fn on(trace: &Trace, drive: &str, speed: f64, seed: u64, told: &dyn Fn(&str)) -> anyhow::Result<Advice> {
    let noted = noted::of(trace)?;
    let model = model(drive, trace, noted.as_ref())?;
    let length_s = noted.as_ref().map(|noted| noted.seconds);
    let mut advice = if let Some(advice) = advise::not_known(trace, &model, speed) {
        advice
    } else {
        advise::check(trace, &model)?;
        advised(trace, &model, (speed, length_s), seed, told)?
    };
    if noted.as_ref().is_some_and(|noted| noted.disk.rotational == Some(false)) {
        advice.notes.push("The recorded disk does not turn: the runs are on one that does.".to_owned());
    }
    let because = auto::because(drive, &model, trace, noted.as_ref());
    Ok(Advice { drive_chosen_because: because, ..advice })
}

/// Plays the trace as it is, and then with all remedies at once, as far as there are cores.
fn advised(
    trace: &Trace,
    drive: &Model,
    (speed, length_s): (f64, Option<f64>),
    seed: u64,
    told: &dyn Fn(&str),
) -> anyhow::Result<Advice> {
    let progress = Progress::measured();
    let shown = |now: seekless_lab::Progress| progress.at(now.what, now.done, now.of);
    let behind = |note: &str| progress.above(|| told(note));
    let trial = Trial::begin(trace, drive, speed, length_s, seed, &shown, behind)?;
    let requests = trace.records.len() as u64;
    let requests_in_all = requests * trial.runs() as u64;
    let done: Vec<AtomicU64> = (0..trial.runs()).map(|_| AtomicU64::new(0)).collect();
    let run = |index: usize| {
        let at = |requests| {
            done[index].store(requests, Ordering::Relaxed);
            let sum = done.iter().map(|one| one.load(Ordering::Relaxed)).sum();
            progress.at("what could be done", sum, requests_in_all);
        };
        let ran = trial.run(index, &|now| at(now.done));
        at(requests);
        ran
    };
    // In the order of the runs, whichever ends first.
    let runs = (0..trial.runs()).into_par_iter().map(run).collect::<Result<Vec<_>, _>>()?;
    Ok(trial.advice(runs))
}

/// The drive of this name; `auto`: the usual one if it fits, else the smallest disk that does.
fn model(name: &str, trace: &Trace, noted: Option<&Noted>) -> anyhow::Result<Model> {
    if name != AUTO {
        return Ok(Model::find(name)?);
    }
    let usual = Model::find(USUAL)?;
    if advise::has_room(trace, &usual) && usual.sectors() >= auto::sectors(noted) {
        return Ok(usual);
    }
    let mut drives = advise::fitting(trace, &usual);
    if drives.iter().any(|(_, drive)| advise::has_room(trace, drive)) {
        drives.retain(|(_, drive)| advise::has_room(trace, drive));
    }
    let drives = auto::as_large(drives, noted);
    Ok(auto::smallest(drives).map_or(usual, |(_, drive)| drive))
}

fn text(advice: &Advice) -> String {
    let mut out = format!("{}\n\n", advice.verdict);
    out.push_str(&about(advice));
    let Some(base) = &advice.base else { return out };
    if !advice.causes.is_empty() {
        let mut causes = Table::new(&["process", ">requests", ">head time", ">of all", ">mean ms"]);
        for one in &advice.causes {
            causes.row([
                one.process.clone(),
                count(one.requests),
                seconds(one.busy_s),
                percent(one.busy_pct),
                ms(1e3 * one.waited_s / one.requests.max(1) as f64),
            ]);
        }
        out.extend(["\n", &causes.text()]);
    }
    out.extend(["\n", &remedies(&advice.remedies, base)]);
    let mut meanings = Table::new(&["", ""]);
    advice.remedies.iter().for_each(|remedy| meanings.row([&remedy.name, &remedy.what]));
    out.extend(["\n", &meanings.text()]);
    if !advice.not_tried.is_empty() {
        let names = advice.not_tried.join(", ");
        out.extend(["\nNot tried, since the drive has no room beside the recording: ", &names, ".\n"]);
    }
    for note in &advice.notes {
        out.extend(["\n", note, "\n"]);
    }
    out
}

/// The recording, the drive, and how it went.
fn about(advice: &Advice) -> String {
    let mut table = Table::new(&["", ""]);
    let pace = advice.pace_in_words();
    table.row([
        "recording",
        &format!("{} requests in {}, {pace}", count(advice.requests), span(advice.length_s)),
    ]);
    table.row(["drive", &format!("{}, a model", advice.drive)]);
    if let Some(why) = &advice.drive_chosen_because {
        table.row(["", why]);
    }
    let Some(base) = &advice.base else { return table.text() };
    table.row(["busy", &format!("{} of the time: {}", percent(base.busy_pct()), waits(base))]);
    table.row([
        "requests wait",
        &format!("{} ms at the median, 99 % within {} ms", ms(base.p50_ms), ms(base.p99_ms)),
    ]);
    table.text()
}

/// The parts of the busy time, in words.
fn waits(base: &Measured) -> String {
    let head = &base.work.head;
    let share = |part: f64| percent(100.0 * part / head.busy_s.max(1e-9));
    format!(
        "{} seeks, {} rotation, {} transfers",
        share(head.seek_s),
        share(head.rotation_s),
        share(head.transfer_s)
    )
}

fn remedies(remedies: &[Remedy], base: &Measured) -> String {
    let mut table = Table::new(&["remedy", ">saves", ">error", ">median ms", ">99 % ms", "verdict"]);
    table.row(["as it is", "", "", &ms(base.p50_ms), &ms(base.p99_ms), ""]);
    for remedy in remedies {
        table.row([
            remedy.name.as_str(),
            &percent(remedy.net_gain_pct),
            &percent(remedy.error_pct),
            &ms(remedy.run.p50_ms),
            &ms(remedy.run.p99_ms),
            &remedy.judged(),
        ]);
    }
    table.text()
}

fn ms(value: f64) -> String {
    number(value, 2)
}
