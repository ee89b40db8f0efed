//! `seekless lab figure`: figures of the papers, as text, JSON and SVG.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Args, Command};
use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use seekless_core::names::perhaps;
use seekless_drive::spec;
use seekless_lab::figure::shown::{Cell as Value, Grid, Shown, Statement, Within};
use seekless_lab::figure::{self, Entry, FIGURES, Options, Prices};
use seekless_lab::starts::{Start, parse};
use seekless_trace::{ReadOptions, Trace};
use serde::Serialize;

use crate::Usage;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::shipped;
use crate::table::Table;
use crate::text::{count, number};

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless lab figure                                    which there are
  seekless lab figure freeblock-5
  seekless lab figure freeblock-2 --svg usage.svg
  seekless lab figure freeblock-7 --points 80,90
  seekless lab figure borg-6 --trace data/svnserver2
  seekless lab figure proximal-table-1 --json | jq '.rows[].strand_ms'
  seekless lab figure proximal-1 --drive wd-re3-1tb --requests 500

What each shows, and how close it is to its paper: docs/book/figures.md.";

/// Arguments of `lab figure`.
#[derive(Args)]
pub struct Arguments {
    /// Name of the figure [default: list all]
    #[arg(value_name = "NAME", value_parser = FigureName, hide_possible_values = true)]
    name: Option<String>,
    /// List the figures instead
    #[arg(long, conflicts_with = "name")]
    list: bool,
    /// Use another drive than the paper's: a name or a TOML file
    #[arg(long, value_name = "NAME", requires = "name")]
    drive: Option<String>,
    /// Files of a recording, or its name, for a figure that replays one; for a figure of several, the name of each
    /// [default: those of the figure, in data/]
    #[arg(long, value_name = "FILES", num_args = 1.., requires = "name")]
    trace: Vec<PathBuf>,
    /// List of the starts in the recording, for a figure that needs one [default: that of the recording's name]
    #[arg(long, value_name = "FILE", requires = "name")]
    starts: Option<PathBuf>,
    /// Requests or strands per data point [default: as the figure says]
    #[arg(long, value_name = "N", requires = "name", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    requests: Option<u64>,
    /// Simulate these points only, for a figure that has such: --points 80,90; without the paper's statements
    #[arg(long, value_name = "LIST", requires = "name", value_delimiter = ',')]
    points: Vec<String>,
    /// Price of a disk, in dollars, for a figure of costs [default: the paper's, 130]
    #[arg(long, value_name = "DOLLARS", requires = "name", value_parser = crate::parse::positive)]
    disk_price: Option<f64>,
    /// Price of a gigabyte of flash, in dollars [default: the paper's, 3.13]
    #[arg(long, value_name = "DOLLARS", requires = "name", value_parser = crate::parse::positive)]
    flash_price: Option<f64>,
    /// Take the flash to wear out after this number of writes of all of it [default: 1825, once a day for five years]
    #[arg(long, value_name = "N", requires = "name", value_parser = crate::parse::positive)]
    flash_writes: Option<f64>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Draw the figure to this SVG file too
    #[arg(long, value_name = "FILE.svg", requires = "name")]
    svg: Option<PathBuf>,
    /// Overwrite the SVG file
    #[arg(long, requires = "svg")]
    force: bool,
    #[command(flatten)]
    form: Form,
}

/// The parser of a figure's name, which a shell completes.
#[derive(Clone)]
struct FigureName;

impl TypedValueParser for FigureName {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let name = StringValueParser::new().parse_ref(command, arg, value)?;
        if figure::find(&name).is_some() {
            return Ok(name);
        }
        let known = FIGURES.map(|entry| entry.name);
        let perhaps = perhaps(&name, known);
        let why = format!("found the figure '{name}', expected one of: {}{perhaps}\n", known.join(", "));
        Err(clap::Error::raw(ErrorKind::InvalidValue, why).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(FIGURES.iter().map(|entry| PossibleValue::new(entry.name))))
    }
}

/// Computes the figure, or lists all.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Some(entry) = arguments.entry() else { return list(&arguments.form) };
    if let Some(path) = &arguments.svg {
        output::expect_room(path, arguments.force)?;
    }
    let shown = arguments.drawn(entry)?;
    if let Some(path) = &arguments.svg {
        output::file(path, &shown.svg())?;
    }
    arguments.form.print(&shown.json(), shown.entry.rows, || text(&shown))
}

impl Arguments {
    /// The figure; `None` if all are to be listed.
    pub fn entry(&self) -> Option<&'static Entry> {
        self.name.as_deref().and_then(figure::find)
    }

    /// Computes the figure, with a progress bar.
    pub fn drawn(&self, entry: &'static Entry) -> anyhow::Result<Shown> {
        let drive = self.drive.as_deref().map(spec::find).transpose()?;
        let (traces, starts) = (self.recordings(entry)?, self.listed(entry)?);
        let (requests, processor_s) = (self.requests, Some(processor_s as fn() -> f64));
        let (prices, seed) = (self.prices(entry)?, self.seed);
        let points = self.points.clone();
        let options = Options { drive, requests, traces, starts, points, prices, processor_s, seed };
        let bar = Progress::measured();
        let coming = Coming { bar: &bar, printed: Cell::new(0), is_text: self.form.is_text() };
        let progress = |now: seekless_lab::Progress| bar.at(now.what, now.done, now.of);
        Ok(figure::draw(entry, &options, &progress, &|grid| coming.rows(grid))?)
    }

    /// Prices, for a figure that needs them.
    fn prices(&self, entry: &Entry) -> anyhow::Result<Prices> {
        let given = [
            ("disk-price", self.disk_price),
            ("flash-price", self.flash_price),
            ("flash-writes", self.flash_writes),
        ];
        let usual = Prices::default();
        if let Some((name, _)) = given.iter().find(|(_, given)| given.is_some() && !entry.priced) {
            return Err(Usage(format!("--{name}: {} is no figure of costs", entry.name)).into());
        }
        Ok(Prices {
            disk: self.disk_price.unwrap_or(usual.disk),
            flash_gb: self.flash_price.unwrap_or(usual.flash_gb),
            flash_writes: self.flash_writes.unwrap_or(usual.flash_writes),
        })
    }

    /// The recordings that the figure is of.
    fn recordings(&self, entry: &Entry) -> anyhow::Result<Vec<Trace>> {
        if entry.recordings.is_empty() && !self.trace.is_empty() {
            return Err(Usage(format!("--trace: {} replays no recording", entry.name)).into());
        }
        // The time between an answer and the next request is that of the program.
        let options = ReadOptions { latencies: entry.starts, ..ReadOptions::default() };
        let load = |files: &[PathBuf]| {
            let trace = seekless_trace::load(&shipped::traces(files)?, &options)?;
            output::warn(&trace.warnings);
            Ok::<Trace, anyhow::Error>(trace)
        };
        match (&self.trace[..], entry.recordings) {
            ([], usual) => usual
                .iter()
                .map(|name| {
                    let usual = Path::new("data").join(name);
                    load(std::slice::from_ref(&usual)).with_context(|| {
                        let (figure, usual) = (entry.name, usual.display());
                        format!(
                            "{figure} is of {usual}, which is not here: give another recording by --trace"
                        )
                    })
                })
                .collect(),
            (files, [_]) => Ok(vec![load(files)?]),
            (files, _) => files.iter().map(|file| load(std::slice::from_ref(file))).collect(),
        }
    }

    /// The starts in that recording, if the figure needs them.
    fn listed(&self, entry: &Entry) -> anyhow::Result<Option<Vec<Start>>> {
        let Some(recording) = entry.recordings.first().filter(|_| entry.starts) else {
            if self.starts.is_some() {
                return Err(Usage(format!("--starts: {} has none", entry.name)).into());
            }
            return Ok(None);
        };
        let usual = match self.trace.first() {
            Some(given) => given.with_extension("starts"),
            None => Path::new("data").join(recording).with_extension("starts"),
        };
        let path = self.starts.as_ref().unwrap_or(&usual);
        let name = path.display().to_string();
        let text = std::fs::read_to_string(shipped::find(path)).with_context(|| name.clone())?;
        let starts = parse(&text).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        Ok(Some(starts))
    }
}

/// Processor time of this thread, in seconds.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A figure in the list.
#[derive(JsonSchema, Serialize)]
pub struct Known {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    paper_says: &'static str,
    drives: &'static [&'static str],
    counted: &'static str,
    requests: u64,
    /// What `--points` selects; empty if nothing.
    points: &'static str,
}

fn list(form: &Form) -> anyhow::Result<()> {
    let known = FIGURES.map(|entry| Known {
        name: entry.name,
        title: entry.title,
        source: entry.source,
        paper_says: entry.says,
        drives: entry.drives,
        counted: entry.counted,
        requests: entry.usual,
        points: entry.points,
    });
    form.print_list(&known, || {
        let mut table = Table::new(&["name", "shows", "the paper says"]);
        for figure in &known {
            table.row([figure.name, figure.title, figure.paper_says]);
        }
        table.text()
    })
}

fn text(shown: &Shown) -> String {
    let entry = shown.entry;
    let mut out = format!("{}: {}\n{}\n", entry.name, entry.title, entry.source);
    let _ = writeln!(
        out,
        "{}; {} {}, seed {}\n",
        output::plain(&shown.drives.join(", ")),
        count(shown.requests),
        entry.counted,
        shown.seed
    );
    out.push_str(&grid(&shown.main));
    for more in &shown.more {
        out.extend(["\n", more.title, "\n", &grid(more)]);
    }
    if !shown.paper.is_empty() {
        out.extend(["\nWhat the paper says\n", &statements(&shown.paper)]);
    }
    for note in &shown.notes {
        let mut table = Table::new(&[""]);
        table.row([note.as_str()]);
        out.extend(["\n", &table.text()]);
    }
    out
}

/// Rows of a figure that takes long, as they come.
struct Coming<'a> {
    bar: &'a Progress,
    /// Number of rows that were printed.
    printed: Cell<usize>,
    is_text: bool,
}

/// Seconds after which rows are printed: the table of a shorter figure is soon there.
const LONG_S: u64 = 10;

impl Coming<'_> {
    /// Prints the rows that are new to stderr, if the figure takes long.
    fn rows(&self, grid: &Grid) {
        if !self.is_text || self.bar.elapsed_s() < LONG_S {
            return;
        }
        let title = |column: &figure::shown::Column| column.title.to_owned();
        let width = |column: &figure::shown::Column| column.title.chars().count().max(LEAST_WIDTH);
        let line = |cells: Vec<String>| {
            let each =
                grid.columns.iter().zip(cells).map(|(column, cell)| format!("{cell:>0$}", width(column)));
            self.bar.print(each.collect::<Vec<_>>().join("  ").trim_end());
        };
        if self.printed.get() == 0 {
            line(grid.columns.iter().map(title).collect());
        }
        for row in &grid.rows[self.printed.get()..] {
            line(grid.columns.iter().zip(row).map(|(column, cell)| cell_text(column, cell)).collect());
        }
        self.printed.set(grid.rows.len());
    }
}

/// Least width of a column whose rows are still to come.
const LEAST_WIDTH: usize = 8;

fn cell_text(column: &figure::shown::Column, cell: &Value) -> String {
    match cell {
        Value::Word(word) => word.clone(),
        Value::Count(many) => count(*many),
        Value::Number(value) => number(*value, column.decimals.unwrap_or(0)),
        Value::Nothing => "-".to_owned(),
    }
}

fn grid(grid: &Grid) -> String {
    let title = |column: &figure::shown::Column| {
        if column.decimals.is_some() { format!(">{}", column.title) } else { column.title.to_owned() }
    };
    let titles: Vec<String> = grid.columns.iter().map(title).collect();
    let mut table = Table::new(&titles.iter().map(String::as_str).collect::<Vec<_>>());
    for row in &grid.rows {
        table.row(grid.columns.iter().zip(row).map(|(column, cell)| cell_text(column, cell)));
    }
    table.text()
}

fn statements(all: &[Statement]) -> String {
    let mut table = Table::new(&["where", "what", ">theirs", ">ours", ">off by", "near enough"]);
    for each in all {
        let decimals = if each.unit == "%" { 0 } else { 2 };
        let theirs = match (each.from, each.to) {
            (Some(from), Some(to)) if from < to => {
                format!("{} to {}", number(from, decimals), number(to, decimals))
            }
            (None, Some(to)) => format!("< {}", number(to, decimals)),
            (from, to) => from.or(to).map_or_else(String::new, |value| number(value, decimals)),
        };
        let (off, most) = match each.within {
            Within::Points(most) => {
                ("", format!("{most} {}", if each.unit == "%" { "points" } else { each.unit }))
            }
            Within::Percent(most) => (" %", format!("{most} %")),
        };
        let near = format!("{} (within {most})", if each.holds() { "yes" } else { "no" });
        table.row([
            each.place.to_owned(),
            each.says.to_owned(),
            format!("{theirs} {}", each.unit),
            format!("{} {}", number(each.ours, decimals.max(1)), each.unit),
            number(each.off(), 1) + off,
            near,
        ]);
    }
    table.text()
}
