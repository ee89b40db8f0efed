//! `seekless lab`: simulates volumes, with a layer and without, on a trace or a workload, in virtual time.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
#[cfg(feature = "web")]
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context;
use clap::{Args, Subcommand};
use seekless_core::Nanos;
use seekless_lab::outcome::{Comparison, Variant};
use seekless_lab::{
    Candidate, EventSink, LoadOutcome, Play, compare_experiments, compare_volumes, event_lines, run_trace,
    run_volume, run_workload, workload,
};
use seekless_layers::schedule::Schedule;
use seekless_trace::{StatsOptions, Trace};
use seekless_volume::Description;

use crate::Usage;
use crate::comparison;
use crate::explore;
use crate::figure;
use crate::hits;
use crate::judge;
use crate::noted;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::scan;
use crate::setup::{Setup, line, pace_line};
use crate::shipped;
use crate::starts;
use crate::sweep;
use crate::trace::{characterised, load};
use crate::tune;
use crate::verdict::{Wanted, write_report};
use crate::volume::replay;
#[cfg(feature = "web")]
use crate::web;
use crate::workload::{Span, list, positive_time, text};

/// Subcommands of `lab`.
#[derive(Subcommand)]
pub enum Command {
    /// Compare volumes, or a drive without a layer and with it, on the same requests, phase by phase
    #[command(after_help = "\
Examples:
  seekless lab compare --trace data/mail
  seekless lab compare --trace data/mail --bopt 256MiB --json |
    jq .net_reduction_pct
  seekless lab compare --trace data/mail --reconfigure 8 --report mail.html
  seekless lab compare --trace data/mail --layer none,cache,borg \\
    --option cache.size=64MiB
  seekless lab compare plain.toml stack.toml --trace data/mail

Volume files may hold any layers, one over another; the first file is the base, the others are compared with it. \
What can be written in them: docs/book/workloads.md; the figures: docs/book/comparison.md.")]
    Compare(Box<Compare>),
    /// Run one variant: a trace or a workload, on any volume
    #[command(override_usage = RUN_USAGE, after_help = "\
Examples:
  seekless lab run --trace data/mail --layer none
  seekless lab run --trace data/mail --events mail.events --page 3054577
  seekless lab run --workloads
  seekless lab run --workload random --layer none --requests 20000 --reads 67
  seekless lab run --workload oltp:mpl=20 --layer none --for 10m
  seekless lab run VOLUME.toml --workload 'mix:3*oltp+1*seq:streams=2' --for 10m
  seekless lab run VOLUME.toml --trace data/mail

Volume files and their keys: docs/book/workloads.md.")]
    Run(Box<Run>),
    /// Search for lost data: cut a volume's power at critical moments
    #[command(after_help = explore::HELP)]
    Explore(explore::Arguments),
    /// Simulate a figure of a paper, and compare it with the paper's
    #[command(after_help = figure::HELP)]
    Figure(figure::Arguments),
    /// Scan a busy disk in full at no cost to the foreground
    #[command(after_help = scan::HELP)]
    Scan(scan::Arguments),
    /// Compare the hit ratios of eviction policies on a trace
    #[command(after_help = hits::HELP)]
    Hits(hits::Arguments),
    /// Time recorded starts of programs: cold, warm, and with layers that prefetch
    #[command(after_help = starts::HELP)]
    Starts(starts::Arguments),
    /// Check a recorded history of requests and answers for consistency
    #[command(after_help = judge::HELP)]
    Judge(judge::Arguments),
    /// Replay a live run from its recorded inputs, and check that the volume does the same
    #[command(after_help = replay::HELP)]
    Replay(replay::Arguments),
    /// Compare many volumes, drives and options on traces, on all cores
    #[command(after_help = sweep::HELP)]
    Sweep(sweep::Arguments),
    /// Search for the options of a layer that save most on a trace
    #[command(after_help = tune::HELP)]
    Tune(Box<tune::Arguments>),
}

/// That of clap has no line breaks.
const RUN_USAGE: &str = "\
seekless lab run [OPTIONS] --workload WORKLOAD [VOLUME.toml]
       seekless lab run [OPTIONS] --trace FILES... [VOLUME.toml]
       seekless lab run --workloads";

/// Arguments of `lab compare`.
#[derive(Args)]
pub struct Compare {
    /// Volume files to compare, instead of --drive, --layer and so on; the first is the base
    #[arg(value_name = "VOLUME.toml", conflicts_with_all = SAID_BY_A_FILE)]
    volumes: Vec<PathBuf>,
    /// Files of one recording, or its name
    #[arg(long, value_name = "FILES", num_args = 1.., required = true)]
    trace: Vec<PathBuf>,
    #[command(flatten)]
    setup: Setup,
    /// Find also what BORG could reach at most in each phase: planned from the phase's own future, from the part of it
    /// that asks for pages seen before, and with transfers alone. Plays the trace with every planner, placement and use
    /// of the log, some 80 times
    #[arg(long)]
    bounds: bool,
    #[command(flatten)]
    form: Form,
    /// Write the comparison to this HTML file too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Overwrite the HTML file
    #[arg(long, requires = "report")]
    force: bool,
    #[command(flatten)]
    verdict: Wanted,
}

/// What to run.
#[derive(Args)]
#[group(id = "load", required = true)]
pub struct Load {
    /// Run a synthetic workload with its options, such as random or oltp:mpl=20,think=10ms
    #[arg(long, value_name = "WORKLOAD", conflicts_with_all = OF_A_TRACE)]
    workload: Option<String>,
    /// Files of one recording, or its name
    #[arg(long, value_name = "FILES", num_args = 1.., conflicts_with_all = ["time", "requests"])]
    trace: Vec<PathBuf>,
    /// List the workloads with their options and defaults instead
    #[arg(long, conflicts_with_all = ["workload", "trace", "volume"])]
    workloads: bool,
}

/// Options that do not apply to a workload, which defines its own arrivals.
const OF_A_TRACE: [&str; 4] = ["trace", "speed", "reconfigure", "reconfigure_clock"];

/// Options that a volume file replaces.
const SAID_BY_A_FILE: [&str; 23] = [
    "drive",
    "layer",
    "bopt",
    "write_buffer",
    "options",
    "threshold",
    "training",
    "over",
    "bopt_at",
    "bopt_drive",
    "scheduler",
    "starvation_limit",
    "no_merge",
    "background_share",
    "depth",
    "write_cache",
    "freeblock",
    "freeblock_policy",
    "guard",
    "decision_us",
    "idle_delay_limit",
    "model_error",
    "reconfigure_class",
];

/// Arguments of `lab run`.
#[derive(Args)]
pub struct Run {
    /// Volume file to run on, instead of --drive, --layer and so on
    #[arg(value_name = "VOLUME.toml", conflicts_with_all = SAID_BY_A_FILE)]
    volume: Option<PathBuf>,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    span: Span,
    /// For a workload: its option size=
    #[arg(long, value_name = "SIZE", conflicts_with = "trace")]
    size: Option<String>,
    /// For a workload: its option reads=, the percentage of reads
    #[arg(long, value_name = "PCT", conflicts_with = "trace")]
    reads: Option<String>,
    /// For a workload: interval of reconfigurations [default: never]
    #[arg(long, value_name = "TIME", value_parser = positive_time, conflicts_with_all = ["trace", "volume"])]
    reconfigure_every: Option<Nanos>,
    #[command(flatten)]
    setup: Setup,
    /// Write every event of the run to this file, one a line
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Write only those events in which a layer did something to this 4 KiB page of the volume
    #[arg(long, value_name = "N", requires = "events")]
    page: Option<u64>,
    /// Overwrite the file of events
    #[arg(long, requires = "events")]
    force: bool,
    /// Show the run live in a browser, at the address that is printed, until Ctrl-C: at this one, or at any free port
    #[cfg(feature = "web")]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = web::ANY_PORT, conflicts_with = "workloads")]
    web: Option<SocketAddr>,
    #[command(flatten)]
    form: Form,
}

/// Runs the subcommand.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Compare(arguments) => run_compare(&arguments),
        Command::Run(arguments) => run_one(&arguments),
        Command::Explore(arguments) => explore::run(&arguments),
        Command::Figure(arguments) => figure::run(&arguments),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Hits(arguments) => hits::run(&arguments),
        Command::Starts(arguments) => starts::run(&arguments),
        Command::Judge(arguments) => judge::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments),
    }
}

fn run_compare(arguments: &Compare) -> anyhow::Result<()> {
    // Before the trace is read: errors in the arguments are reported immediately.
    let candidates = arguments.candidates()?;
    if candidates.is_empty() {
        arguments.setup.experiments()?;
    }
    arguments.setup.play()?;
    if arguments.verdict.is_told() && arguments.report.is_none() {
        return Err(Usage("--verdict: found no --report, expected one".to_owned()).into());
    }
    arguments.report.as_deref().map_or(Ok(()), |file| output::expect_room(file, arguments.force))?;
    let trace = recording(&arguments.trace)?;
    output::warn(&trace.warnings);
    let compared = arguments.on(&trace, &candidates, arguments.report.is_some())?;
    arguments.form.print(&compared, "variants", || comparison::text(&compared))?;
    if let Some(report) = &arguments.report {
        let stats = characterised(&trace, &StatsOptions::default());
        let verdict = arguments.verdict.on(&trace, arguments.setup.drive(), arguments.setup.seed());
        write_report(report, &stats, &compared, verdict.as_ref())?;
        output::complain(&format!("report: {}", report.display()));
    }
    Ok(())
}

impl Compare {
    /// The volumes of the files, if files are compared.
    pub fn candidates(&self) -> anyhow::Result<Vec<Candidate>> {
        candidates(&self.volumes)
    }

    /// The comparison on a trace of these volumes, or without any of layers; with what the drives did, if a report may
    /// show it.
    pub fn on(&self, trace: &Trace, candidates: &[Candidate], accesses: bool) -> anyhow::Result<Comparison> {
        let bounds = self.bounds;
        if candidates.is_empty() {
            return compared(trace, &self.setup, bounds, accesses);
        }
        let play = Play { bounds, accesses, ..self.setup.play()? };
        let bar = Progress::measured();
        Ok(compare_volumes(trace, candidates, &play, &|now| bar.at(now.what, now.done, now.of))?)
    }
}

/// Runs the comparison, with a progress bar.
pub fn compared(trace: &Trace, setup: &Setup, bounds: bool, accesses: bool) -> anyhow::Result<Comparison> {
    let mut experiments = setup.experiments_for(trace)?;
    for (_, experiment) in &mut experiments {
        (experiment.bounds, experiment.accesses) = (bounds, accesses);
    }
    let bar = Progress::measured();
    let mut compared = compare_experiments(trace, &experiments, &|now| bar.at(now.what, now.done, now.of))?;
    let first = experiments.first();
    let noted = noted::of(trace)?;
    compared.settings.drive_chosen_because =
        first.and_then(|(_, one)| setup.because(one, trace, noted.as_ref()));
    Ok(compared)
}

/// The volumes of these files, each with its name: that of the file, or its whole path where two names are equal.
fn candidates(files: &[PathBuf]) -> anyhow::Result<Vec<Candidate>> {
    let stem = |file: &Path| file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut candidates = Vec::new();
    for file in files {
        let same = files.iter().filter(|other| stem(other) == stem(file)).count();
        let name = stem(file).filter(|_| same == 1).unwrap_or_else(|| file.display().to_string());
        candidates.push(Candidate { name, volume: shipped::volume(file)? });
    }
    Ok(candidates)
}

/// Reads the trace; an error if a volume file is given in its place.
fn recording(files: &[PathBuf]) -> anyhow::Result<Trace> {
    let volume = files.iter().find(|file| file.extension().is_some_and(|extension| extension == "toml"));
    if let Some(volume) = volume {
        let found = volume.display();
        return Err(
            Usage(format!("--trace: found {found}, expected a recording: volume files come first")).into()
        );
    }
    load(files)
}

fn run_one(arguments: &Run) -> anyhow::Result<()> {
    if arguments.load.workloads {
        return list(&arguments.form);
    }
    let run = |page: Option<EventSink>| {
        let render = match &arguments.load.workload {
            Some(_) => run_load(arguments, page)?,
            None => run_recording(arguments, page)?,
        };
        output::print(&render)
    };
    #[cfg(feature = "web")]
    if let Some(address) = arguments.web {
        let (of, names) = (output::command_line(), arguments.names_of_drives()?);
        return web::run::watched(address, &of, names, |page| run(Some(page)));
    }
    run(None)
}

/// A listener of events that calls both.
fn both(one: Option<EventSink>, other: Option<EventSink>) -> Option<EventSink> {
    match (one, other) {
        (Some(mut one), Some(mut other)) => Some(Box::new(move |at, event| {
            one(at, event);
            other(at, event);
        })),
        (one, other) => one.or(other),
    }
}

fn run_recording(arguments: &Run, page: Option<EventSink>) -> anyhow::Result<String> {
    // Before the trace is read: errors in the arguments are reported immediately.
    let candidate = arguments.candidate()?;
    if candidate.is_none() {
        arguments.setup.experiment()?;
    }
    arguments.setup.play()?;
    let trace = recording(&arguments.load.trace)?;
    let events = arguments.events()?;
    let sink = both(events.as_ref().map(|events| events.sink(arguments.page)), page);
    output::warn(&trace.warnings);
    let (setup, variant) = arguments.recording_on(&trace, candidate.as_ref(), sink)?;
    events.map_or(Ok(()), EventFile::end)?;
    arguments.form.of(&variant, "phases", || comparison::variant_text(&setup, &variant))
}

fn run_load(arguments: &Run, page: Option<EventSink>) -> anyhow::Result<String> {
    // Before the file of events is made: errors in the arguments are reported immediately.
    workload::parse(&arguments.workload()?)?;
    let events = arguments.events()?;
    let sink = both(events.as_ref().map(|events| events.sink(arguments.page)), page);
    let (volume, outcome) = arguments.workload_on(None, sink)?;
    events.map_or(Ok(()), EventFile::end)?;
    arguments.form.of(&outcome, "", || text(&volume.line(), &outcome.options, &outcome))
}

fn reconfigure_every(volume: &mut Description, every: Nanos) -> anyhow::Result<()> {
    let Some(layer) = volume.layers.get_mut(&volume.top).filter(|layer| layer.entry.reconfigures()) else {
        let why = "--reconfigure-every: found no layer that can be reconfigured, expected --layer borg";
        return Err(Usage(why.into()).into());
    };
    layer.reconfigure = Some(Schedule::Every(every));
    Ok(())
}

impl Run {
    /// The volume of the file, if one is given.
    pub fn candidate(&self) -> anyhow::Result<Option<Candidate>> {
        match &self.volume {
            Some(file) => Ok(candidates(std::slice::from_ref(file))?.pop()),
            None => Ok(None),
        }
    }

    /// Plays a trace on this volume, or without one on a drive with a layer; a line that describes it, and the results.
    pub fn recording_on(
        &self,
        trace: &Trace,
        candidate: Option<&Candidate>,
        sink: Option<EventSink>,
    ) -> anyhow::Result<(String, Variant)> {
        let bar = Progress::measured();
        let progress = |now: seekless_lab::Progress| bar.at(now.what, now.done, now.of);
        if let Some(candidate) = candidate {
            let play = self.setup.play()?;
            let setup = format!("{}; {}", candidate.volume.line(), pace_line(play.pace));
            return Ok((setup, run_volume(trace, candidate, &play, sink, &progress)?));
        }
        let experiment = self.setup.experiment_for(trace)?;
        Ok((line(&experiment), run_trace(trace, &experiment, sink, &progress)?))
    }

    /// Names of the drives of the volume, in the order of their numbers, as far as they are known before the run.
    #[cfg(feature = "web")]
    fn names_of_drives(&self) -> anyhow::Result<Vec<String>> {
        let named = self.candidate()?.map(|candidate| candidate.volume);
        let volume = named.or_else(|| self.setup.volume().ok());
        Ok(volume.map_or_else(Vec::new, |volume| volume.components.keys().cloned().collect()))
    }

    /// The workload with its options.
    fn workload(&self) -> anyhow::Result<String> {
        let outstanding = self.setup.outstanding().map(|number| number.to_string());
        let flags =
            [("size", self.size.clone()), ("reads", self.reads.clone()), ("outstanding", outstanding)];
        let flags: Vec<_> = flags.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        Ok(workload::defaulted(self.load.workload.as_deref().unwrap_or_default(), &flags)?)
    }

    /// Runs the workload on this volume, or without one on that of the file or a drive; the volume, and the results.
    pub fn workload_on(
        &self,
        volume: Option<Description>,
        sink: Option<EventSink>,
    ) -> anyhow::Result<(Description, LoadOutcome)> {
        let spec = self.workload()?;
        let load = workload::parse(&spec)?;
        let mut volume = match (volume, &self.volume) {
            (None, None) => self.setup.volume()?,
            (given, file) => {
                self.setup.expect_closed()?;
                given.map_or_else(|| shipped::volume(file.as_deref().unwrap_or(Path::new(""))), Ok)?
            }
        };
        if let Some(every) = self.reconfigure_every {
            reconfigure_every(&mut volume, every)?;
        }
        let _progress = Progress::spinner("running the workload");
        let run = self.span.run(self.setup.seed(), false);
        let (mut outcome, _) = run_workload(&load, &volume, &run, sink)?;
        outcome.options = spec;
        Ok((volume, outcome))
    }

    fn events(&self) -> anyhow::Result<Option<EventFile>> {
        self.events.as_deref().map(|path| EventFile::create(path, self.force)).transpose()
    }
}

/// Writes events, a line each. The run goes on after a failed write; the error is reported at its end.
struct EventFile {
    path: PathBuf,
    lines: Rc<RefCell<Lines>>,
}

struct Lines {
    out: BufWriter<File>,
    failed: Option<io::Error>,
}

impl EventFile {
    fn create(path: &Path, force: bool) -> anyhow::Result<EventFile> {
        output::expect_room(path, force)?;
        let file = File::create(path).with_context(|| path.display().to_string())?;
        let lines = Rc::new(RefCell::new(Lines { out: BufWriter::new(file), failed: None }));
        Ok(EventFile { path: path.to_owned(), lines })
    }

    fn sink(&self, page: Option<u64>) -> EventSink {
        let lines = self.lines.clone();
        event_lines(page, move |line| {
            let mut lines = lines.borrow_mut();
            if lines.failed.is_none() {
                lines.failed = writeln!(lines.out, "{line}").err();
            }
        })
    }

    fn end(self) -> anyhow::Result<()> {
        let mut lines = self.lines.borrow_mut();
        let failed = lines.failed.take().or_else(|| lines.out.flush().err());
        failed.map_or(Ok(()), Err).with_context(|| self.path.display().to_string())
    }
}
