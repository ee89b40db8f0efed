//! The papers' figures: simulated here, and compared with the paper.
//!
//! One array lists them. Each is computed from a seed and a number of requests: equal ones give the same figure. Fault
//! model: a drive that does not suit a figure is refused, with what the figure needs.

mod appendix;
mod birthday;
mod borg;
mod cleaning;
mod copies;
mod cost;
mod engine;
mod freeblock;
mod iolab;
mod layout;
mod mining;
pub mod printed;
mod proximal;
pub mod shown;
pub mod strand;
mod usage;

use seekless_drive::{Spec, spec};
use seekless_trace::Trace;
use shown::{Cell, Grid, Picture, Shown, Statement};

pub use cost::Prices;

use crate::error::LabError;
use crate::setup::Progress;
use crate::starts::Start;

/// Description of a figure.
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// Title.
    pub title: &'static str,
    /// The paper, its section and its figure.
    pub source: &'static str,
    /// The paper's statements in numbers.
    pub says: &'static str,
    /// Names of its drives.
    pub drives: &'static [&'static str],
    /// What its number of requests counts.
    pub counted: &'static str,
    /// Default number of those.
    pub usual: u64,
    /// Names of the recordings that it is of: most are of none or of one.
    pub recordings: &'static [&'static str],
    /// Whether it needs the list of the starts in it.
    pub starts: bool,
    /// Whether prices are among its input.
    pub priced: bool,
    /// What its points are, if some of them can be left out; empty if not.
    pub points: &'static str,
    /// Key of its rows in JSON.
    pub rows: &'static str,
    draw: fn(&Job) -> Result<Shown, LabError>,
}

impl Entry {
    /// A figure of 10,000 of what is `counted`, by default.
    const fn new(
        counted: &'static str,
        name: &'static str,
        title: &'static str,
        source: &'static str,
        says: &'static str,
        drives: &'static [&'static str],
        draw: fn(&Job) -> Result<Shown, LabError>,
    ) -> Entry {
        Entry {
            name,
            title,
            source,
            says,
            drives,
            counted,
            usual: 10_000,
            recordings: &[],
            starts: false,
            priced: false,
            points: "",
            rows: "rows",
            draw,
        }
    }
}

/// All figures, in the order of the papers.
pub const FIGURES: [&Entry; 39] = [
    &borg::TABLE_1,
    &borg::FIGURE_6,
    &borg::FIGURE_7,
    &borg::FIGURE_8,
    &borg::FIGURE_9,
    &borg::FIGURE_10,
    &borg::BOOTS,
    &borg::FIGURE_11,
    &borg::TABLE_4,
    &borg::FIGURE_12,
    &borg::SEGMENTS,
    &borg::PLACES,
    &freeblock::FIGURE_2,
    &freeblock::FIGURE_3,
    &freeblock::FIGURE_4,
    &freeblock::FIGURE_5,
    &freeblock::FIGURE_6,
    &cleaning::FIGURE_7,
    &mining::FIGURE_8,
    &mining::FIGURE_9,
    &mining::FIGURE_10,
    &iolab::FIGURE_2,
    &iolab::FIGURE_3,
    &iolab::FIGURE_4,
    &iolab::FIGURE_5,
    &iolab::FIGURE_6,
    &iolab::TABLE_1,
    &iolab::TABLE_2,
    &proximal::FIGURE_1,
    &proximal::FIGURE_2,
    &proximal::FIGURE_3,
    &proximal::FIGURE_4,
    &proximal::TABLE_1,
    &layout::FIGURE_5,
    &engine::TABLE_2,
    &engine::TABLE_3,
    &engine::SNAPSHOTS,
    &copies::COPIES,
    &cost::COST,
];

/// Options of a figure.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Drive to use instead of the paper's.
    pub drive: Option<Spec>,
    /// Number of requests instead of the default.
    pub requests: Option<u64>,
    /// The recordings, for a figure of some.
    pub traces: Vec<Trace>,
    /// The starts in the first of them, for a figure that needs them; the recording has latencies then.
    pub starts: Option<Vec<Start>>,
    /// Points to simulate, for a figure that has some; all if empty.
    pub points: Vec<String>,
    /// Prices, for a figure of costs.
    pub prices: Prices,
    /// Reads the processor time of this thread, in seconds: nothing else here knows one. Without it figures have none.
    pub processor_s: Option<fn() -> f64>,
    /// Seed of all random choices.
    pub seed: u64,
}

/// The figure of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    FIGURES.into_iter().find(|entry| entry.name == name)
}

/// Computes a figure. `rows` is called after each row of a figure that takes long, with those so far.
pub fn draw(
    entry: &'static Entry,
    options: &Options,
    progress: &dyn Fn(Progress),
    rows: &dyn Fn(&Grid),
) -> Result<Shown, LabError> {
    if entry.points.is_empty() && !options.points.is_empty() {
        let with = FIGURES.iter().filter(|entry| !entry.points.is_empty()).map(|entry| entry.name);
        let expected = format!("one of: {}", with.collect::<Vec<_>>().join(", "));
        return Err(LabError::Setting { setting: "points", found: entry.name.to_owned(), expected });
    }
    let drives = match &options.drive {
        Some(drive) => vec![drive.clone()],
        None => entry.drives.iter().map(|name| spec::find(name)).collect::<Result<_, _>>()?,
    };
    let requests = options.requests.unwrap_or(entry.usual);
    let (others, traces, seed) = (options.drive.is_some(), &options.traces[..], options.seed);
    let (starts, processor_s) = (options.starts.as_deref(), options.processor_s);
    // A recording has as many requests as it has.
    let longest = traces.iter().map(|trace| trace.records.len() as u64).max();
    let requests = longest.map_or(requests, |most| requests.min(most));
    let prices = options.prices;
    (entry.draw)(&Job {
        entry,
        drives,
        others,
        requests,
        traces,
        starts,
        points: &options.points,
        prices,
        processor_s,
        seed,
        progress,
        rows,
    })
}

/// A figure in progress.
struct Job<'a> {
    entry: &'static Entry,
    /// At least one.
    drives: Vec<Spec>,
    /// Whether these are other drives than the paper's, which does not state anything about them.
    others: bool,
    requests: u64,
    traces: &'a [Trace],
    starts: Option<&'a [Start]>,
    points: &'a [String],
    prices: Prices,
    processor_s: Option<fn() -> f64>,
    seed: u64,
    progress: &'a dyn Fn(Progress),
    rows: &'a dyn Fn(&Grid),
}

impl Job<'_> {
    /// The first drive: the only one of most figures.
    fn drive(&self) -> &Spec {
        &self.drives[0]
    }

    /// The first requests of the recording, as many as the figure is of.
    fn recording(&self) -> Result<Trace, LabError> {
        let Some(trace) = self.traces.first() else {
            let (found, expected) = ("none".to_owned(), "files of a recording".to_owned());
            return Err(LabError::Setting { setting: "trace", found, expected });
        };
        Ok(self.first_of(trace))
    }

    /// The first requests of a recording, as many as the figure is of.
    fn first_of(&self, trace: &Trace) -> Trace {
        let many = usize::try_from(self.requests).unwrap_or(usize::MAX).min(trace.records.len());
        Trace { records: trace.records[..many].to_vec(), ..trace.clone() }
    }

    /// Reports that `done` of `of` points are simulated.
    fn progress(&self, done: usize, of: usize) {
        (self.progress)(Progress { what: self.entry.name, done: done as u64, of: of as u64 });
    }

    /// Adds a row to the main table, and reports it.
    fn row(&self, grid: &mut Grid, cells: impl IntoIterator<Item = Cell>) {
        grid.row(cells);
        (self.rows)(grid);
    }

    /// The points to simulate, of all that the figure has.
    fn points<T: Copy>(&self, all: &[T], name: impl Fn(T) -> String) -> Result<Vec<T>, LabError> {
        let names: Vec<String> = all.iter().map(|point| name(*point)).collect();
        if let Some(unknown) = self.points.iter().find(|point| !names.contains(point)) {
            let expected = format!("some of: {}", names.join(", "));
            return Err(LabError::Setting { setting: "points", found: unknown.clone(), expected });
        }
        let wanted = |point: &T| self.points.is_empty() || self.points.contains(&name(*point));
        Ok(all.iter().copied().filter(wanted).collect())
    }

    /// The paper's value, for its own drives.
    fn theirs(&self, value: Option<f64>) -> Cell {
        value.filter(|_| !self.others).into()
    }

    /// The complete figure.
    fn shown(
        &self,
        main: Grid,
        paper: Vec<Statement>,
        notes: &[&str],
        pictures: Vec<(String, Picture)>,
    ) -> Shown {
        Shown {
            entry: self.entry,
            drives: self.drives.iter().map(|drive| drive.name.clone()).collect(),
            requests: self.requests,
            seed: self.seed,
            main,
            more: Vec::new(),
            paper: if self.others || !self.points.is_empty() { Vec::new() } else { paper },
            notes: notes.iter().map(|&note| note.to_owned()).collect(),
            pictures,
        }
    }
}
