//! `seekless lab`: a drive with a layer and without, on a trace or a random load, in virtual time.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use seekless_lab::outcome::Comparison;
use seekless_lab::{EventSink, Pace, RandomLoad, compare, event_lines, run_random, run_trace};
use seekless_trace::{Stats, StatsOptions, Trace};

use crate::Usage;
use crate::comparison;
use crate::output;
use crate::progress::Progress;
use crate::setup::{Setup, line, whole_sectors};
use crate::text::shell_word;
use crate::trace::{characterised, load};

/// What can be tried.
#[derive(Subcommand)]
pub enum Command {
    /// The same requests without a layer and with it, phase by phase
    #[command(after_help = "\
Examples:
  seekless lab compare --trace data/mail
  seekless lab compare --trace data/mail --over 100GiB --bopt 256MiB --json | jq .net_reduction_pct
  seekless lab compare --trace data/mail --reconfigure 8 --report mail.report.html")]
    Compare(Compare),
    /// One variant alone: a trace or a random load, with a layer or without
    #[command(after_help = "\
Examples:
  seekless lab run --trace data/mail --layer none
  seekless lab run --trace data/mail --events mail.events --page 3054577
  seekless lab run --workload random --layer none --outstanding 1 --requests 20000 --size 4KiB --reads 67")]
    Run(Box<Run>),
}

/// What is compared.
#[derive(Args)]
pub struct Compare {
    /// The files of one recording, or its name
    #[arg(long, value_name = "FILES", num_args = 1.., required = true)]
    trace: Vec<PathBuf>,
    #[command(flatten)]
    setup: Setup,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Write the comparison as one HTML file, too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// What is run.
#[derive(Args)]
#[group(id = "load", required = true)]
pub struct Load {
    /// Make up requests: `random` is uniform over the volume, --outstanding at a time
    #[arg(long, conflicts_with = "trace")]
    workload: Option<Workload>,
    /// The files of one recording, or its name
    #[arg(long, value_name = "FILES", num_args = 1..)]
    trace: Vec<PathBuf>,
}

/// How it is run.
#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    load: Load,
    /// Random load: requests in all [default: 10000]
    #[arg(long, value_name = "N", conflicts_with = "trace")]
    requests: Option<u64>,
    /// Random load: the size of each [default: 4KiB]
    #[arg(long, value_parser = whole_sectors, conflicts_with = "trace")]
    size: Option<u64>,
    /// Random load: reads among them, in per cent [default: 100]
    #[arg(long, value_name = "PCT", conflicts_with = "trace")]
    reads: Option<u64>,
    #[command(flatten)]
    setup: Setup,
    /// Write every event of the run to a file, one a line
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Of the events, only what a layer did to this 4 KiB page of the volume
    #[arg(long, value_name = "N", requires = "events")]
    page: Option<u64>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Requests that are made up.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Workload {
    Random,
}

/// Does what `command` says.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Compare(arguments) => run_compare(&arguments),
        Command::Run(arguments) => run_one(&arguments),
    }
}

fn run_compare(arguments: &Compare) -> anyhow::Result<()> {
    arguments.setup.needs_layer()?;
    // Before the trace is read: what is wrong with the arguments is told at once.
    arguments.setup.experiment()?;
    arguments.report.as_deref().map_or(Ok(()), output::expect_folder)?;
    let trace = load(&arguments.trace)?;
    output::warn(&trace.warnings);
    let compared = compared(&trace, &arguments.setup)?;
    if arguments.json {
        output::json(&compared)?;
    } else {
        output::print(&comparison::text(&compared))?;
    }
    if let Some(report) = &arguments.report {
        let stats = characterised(&trace, &StatsOptions::default());
        write_report(report, &stats, &compared)?;
        output::complain(&format!("report: {}", report.display()));
    }
    Ok(())
}

/// Compares, with a bar.
pub fn compared(trace: &Trace, setup: &Setup) -> anyhow::Result<Comparison> {
    let experiment = setup.experiment()?;
    let bar = Progress::measured();
    Ok(compare(trace, &experiment, &|now| bar.at(now.what, now.done, now.of))?)
}

/// Writes the page.
pub fn write_report(file: &Path, stats: &Stats, comparison: &Comparison) -> anyhow::Result<()> {
    output::file(file, &seekless_lab::report::html(stats, comparison, &command_line()))
}

/// How the program was called, as a shell reads it back.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy()));
    std::iter::once("seekless".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn run_one(arguments: &Run) -> anyhow::Result<()> {
    let mut experiment = arguments.setup.experiment()?;
    if arguments.load.trace.is_empty() {
        if !matches!(experiment.pace, Pace::Closed { .. }) {
            return Err(Usage("--pace: found open with a random load, expected closed".into()).into());
        }
        // A random load has nothing to learn from.
        experiment.reconfigure = 0;
    }
    let trace = if arguments.load.trace.is_empty() { None } else { Some(load(&arguments.load.trace)?) };
    let events = arguments.events.as_deref().map(EventFile::create).transpose()?;
    let sink = events.as_ref().map(|events| events.sink(arguments.page));
    let setup = line(&experiment);
    let told = if let Some(trace) = trace {
        output::warn(&trace.warnings);
        let bar = Progress::measured();
        let variant = run_trace(&trace, &experiment, sink, &|now| bar.at(now.what, now.done, now.of))?;
        drop(bar);
        told(arguments.json, &variant, || comparison::variant_text(&setup, &variant))
    } else {
        let random = RandomLoad {
            outstanding: arguments.setup.outstanding(),
            requests: arguments.requests.unwrap_or(10_000),
            sectors: arguments.size.unwrap_or(8),
            reads_pct: arguments.reads.unwrap_or(100),
        };
        let _progress = Progress::spinner("running the random load");
        let outcome = run_random(&random, &experiment, sink)?;
        told(arguments.json, &outcome, || comparison::random_text(&setup, &random, &outcome))
    };
    if let Some(events) = events {
        events.end()?;
    }
    output::print(&told?)
}

/// The outcome as JSON or as text.
fn told(json: bool, value: &impl serde::Serialize, text: impl FnOnce() -> String) -> anyhow::Result<String> {
    if json { Ok(serde_json::to_string(value)? + "\n") } else { Ok(text()) }
}

/// Events, a line each. The run goes on after a failed write; the failure is told at its end.
struct EventFile {
    path: PathBuf,
    lines: Rc<RefCell<Lines>>,
}

struct Lines {
    out: BufWriter<File>,
    failed: Option<io::Error>,
}

impl EventFile {
    fn create(path: &Path) -> anyhow::Result<EventFile> {
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
