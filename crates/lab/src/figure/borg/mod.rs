//! Figures and tables of the BORG paper (Bhadkamkar et al., FAST 2009, sections 2 and 6), from recordings and the
//! workload *postmark*, and two of what the paper leaves open: the size of segments and the place of the BOPT.
//!
//! Its layer: every plan is carried out (`rehearse = false`), pages are placed as planned, copies are overwritten in
//! place, and the log is written in order. Four reconfigurations after equal numbers of requests, during which the
//! recording waits: the paper replayed it 168 times as fast, but not during reconfigurations, in which clients did
//! little.

mod guests;
mod stages;
mod starts;
mod sweeps;
mod workloads;

use seekless_core::SECTOR_BYTES;
use seekless_drive::{Model, QueueOptions};
use seekless_layers::registry;
use seekless_trace::Trace;

use super::shown::{Cell, Column, Grid, Picture, Shown, Statement, Within, numbers, words};
use super::{Entry, Job};
use crate::compare::compare;
use crate::error::LabError;
use crate::experiment::{Experiment, LayerSetup, Partition};
use crate::outcome::{Comparison, Phase, Variant};
use crate::report::along::Along;
use crate::report::plot::{Form, Plot, Series};
use crate::setup::{Clock, Pace};

pub use guests::FIGURE_11;
pub use stages::FIGURE_9;
pub use starts::{BOOTS, TABLE_4};
pub use sweeps::{FIGURE_12, PLACES, SEGMENTS};
pub use workloads::TABLE_1;

/// A figure of a recording, as much of it as there is.
const fn of_recording(recordings: &'static [&'static str], entry: &Entry) -> Entry {
    Entry { usual: 10_000_000, recordings, ..*entry }
}

const COUNTED: &str = "requests of the recording";

/// Busy time by phase: Subversion server.
pub const FIGURE_6: Entry = of_recording(
    &["svnserver2"],
    &Entry::new(
        COUNTED,
        "borg-6",
        "busy time by phase, Subversion server",
        "BORG paper (FAST 2009), section 6.1.1, Figure 6",
        "less in all phases between reconfigurations, up to 45 %; seeks of 704 cylinders become 201",
        &["wd360gd"],
        figure_6,
    ),
);

/// Busy time by phase: developer.
pub const FIGURE_7: Entry = of_recording(
    &["developer"],
    &Entry::new(
        COUNTED,
        "borg-7",
        "busy time by phase, developer",
        "BORG paper (FAST 2009), section 6.1.2, Figure 7",
        "13 to 50 % less between reconfigurations, but 25 % more in N5; seeks of 1,203 cylinders become 782",
        &["wd2500aaks"],
        figure_7,
    ),
);

/// Busy time by phase: web server, cumulative and partial training.
pub const FIGURE_8: Entry = of_recording(
    &["webserver2"],
    &Entry::new(
        COUNTED,
        "borg-8",
        "busy time by phase, web server",
        "BORG paper (FAST 2009), section 6.2, Figure 8",
        "14 to 35 % less (cumulative; 6 % more in N5), 5 to 39 % (partial); over all 14 and 18 %",
        &["wd2500aaks"],
        figure_8,
    ),
);

/// Pages moved by reconfigurations: web server, cumulative and partial training.
pub const FIGURE_10: Entry = of_recording(
    &["webserver2"],
    &Entry::new(
        COUNTED,
        "borg-10",
        "pages moved by a reconfiguration, web server",
        "BORG paper (FAST 2009), section 6.2, Figure 10",
        "cumulative plans grow and mostly relocate; with partial training pages leave",
        &["wd2500aaks"],
        figure_10,
    ),
);

/// The layer of a figure.
#[derive(Clone)]
struct Setting {
    bopt: u64,
    write_buffer: f64,
    training: &'static str,
    reconfigure: u32,
    /// Options of the layer besides.
    more: Vec<(&'static str, toml::Value)>,
    /// First byte of the BOPT, if not behind the clients' volume.
    at: Option<u64>,
    /// Whether it is on a drive of its own, of the same kind.
    beside: bool,
}

impl Setting {
    /// Four reconfigurations that learn from all requests.
    const fn new(bopt: u64, write_buffer: f64) -> Setting {
        let (training, reconfigure) = ("cumulative", 4);
        Setting { bopt, write_buffer, training, reconfigure, more: Vec::new(), at: None, beside: false }
    }
}

const GIB: u64 = 1 << 30;
const TRAINING: Column = words("training", "training");
/// Rows by phase.
const PHASES: [Column; 10] = [
    words("phase", "phase"),
    numbers("requests", "requests", 0),
    numbers("vanilla_busy_s", "vanilla, s", 2),
    numbers("borg_busy_s", "BORG, s", 2),
    numbers("saved_pct", "saved, %", 1),
    numbers("vanilla_nonsequential_pct", "non-seq., %", 2),
    numbers("borg_nonsequential_pct", "BORG, %", 2),
    numbers("vanilla_mean_seek_cylinders", "mean seek, cyl", 0),
    numbers("borg_mean_seek_cylinders", "BORG, cyl", 0),
    numbers("from_bopt_pct", "from BOPT, %", 1),
];

fn figure_6(job: &Job) -> Result<Shown, LabError> {
    let compared = replayed(job, &Setting::new(2 * GIB, 0.2))?;
    let best = saved(&compared).into_iter().fold(f64::MIN, f64::max);
    let [vanilla, borg] = between(&compared);
    let paper = vec![
        about("best phase: busy time saved", "%", 45.0, best, Within::Points(15.0)),
        about("vanilla: non-sequential", "%", 1.70, vanilla.0, Within::Points(2.0)),
        about("BORG: non-sequential", "%", 1.15, borg.0, Within::Points(2.0)),
        about("vanilla: mean seek", "cylinders", 704.0, vanilla.1, Within::Percent(50.0)),
        about("BORG: mean seek", "cylinders", 201.0, borg.1, Within::Percent(50.0)),
    ];
    Ok(by_phase(job, TRAINING, &[("cumulative", compared)], paper, &NOTES))
}

fn figure_7(job: &Job) -> Result<Shown, LabError> {
    let compared = replayed(job, &Setting::new(GIB, 0.4))?;
    let each = saved(&compared);
    let [vanilla, borg] = between(&compared);
    let best = each.iter().copied().fold(f64::MIN, f64::max);
    let paper = vec![
        about("best phase: busy time saved", "%", 50.0, best, Within::Points(15.0)),
        about("N5: busy time saved", "%", -25.0, each.last().copied().unwrap_or(0.0), Within::Points(15.0)),
        about("vanilla: non-sequential", "%", 3.93, vanilla.0, Within::Points(2.0)),
        about("BORG: non-sequential", "%", 3.30, borg.0, Within::Points(2.0)),
        about("vanilla: mean seek", "cylinders", 1203.0, vanilla.1, Within::Percent(50.0)),
        about("BORG: mean seek", "cylinders", 782.0, borg.1, Within::Percent(50.0)),
    ];
    Ok(by_phase(job, TRAINING, &[("cumulative", compared)], paper, &NOTES))
}

fn figure_8(job: &Job) -> Result<Shown, LabError> {
    let both = trained(job)?;
    let paper = [14.0, 18.0]
        .iter()
        .zip(["cumulative, over all: busy time saved", "partial, over all: busy time saved"])
        .zip(&both)
        .map(|((theirs, says), (_, ours))| {
            about(says, "%", *theirs, ours.net_reduction_pct, Within::Points(10.0))
        });
    let paper = paper.collect();
    Ok(by_phase(job, TRAINING, &both, paper, &NOTES))
}

/// With cumulative and with partial training.
fn trained(job: &Job) -> Result<[(&'static str, Comparison); 2], LabError> {
    let setting = Setting::new(8 * GIB, 0.4);
    let cumulative = replayed(job, &setting)?;
    let partial = replayed(job, &Setting { training: "partial", ..setting })?;
    Ok([("cumulative", cumulative), ("partial", partial)])
}

fn figure_10(job: &Job) -> Result<Shown, LabError> {
    const MOVES: [&str; 3] = ["outgoing", "relocate", "incoming"];
    let both = trained(job)?;
    let mut grid = Grid::new(
        "",
        &[
            TRAINING,
            words("reconfiguration", "reconfiguration"),
            numbers("outgoing_pages", "outgoing", 0),
            numbers("relocate_pages", "relocate", 0),
            numbers("incoming_pages", "incoming", 0),
        ],
    );
    let mut series = MOVES.map(|name| Series { name: name.to_owned(), values: Vec::new() });
    let mut along = Vec::new();
    for (training, compared) in &both {
        for one in &compared.variants[1].reconfigurations {
            let pages = MOVES.map(|name| {
                one.stages.iter().filter(|stage| stage.name == name).map(|stage| stage.pages).sum::<u64>()
            });
            for (series, pages) in series.iter_mut().zip(pages) {
                series.values.push(Some(pages as f64));
            }
            along.push((along.len() as f64, format!("{} {}", &training[..1], one.name)));
            let moved = pages.map(Cell::from);
            grid.row([Cell::from(*training), one.name.as_str().into()].into_iter().chain(moved));
        }
    }
    let bars = bars(along, "pages", series.into());
    Ok(job.shown(grid, Vec::new(), &NOTES, vec![("pages moved".to_owned(), bars)]))
}

const NOTES: [&str; 2] = [
    "The paper's layer: no plan is rehearsed, pages are placed as planned, copies are overwritten in place. Four \
     reconfigurations, unless varied, after equal numbers of requests; the recording waits meanwhile.",
    "The recording is not the paper's: minutes on a machine of today, replayed with eight requests outstanding. Only \
     the kind of result can be compared.",
];

/// The recording without the layer and with it.
fn replayed(job: &Job, setting: &Setting) -> Result<Comparison, LabError> {
    compared(job, &job.recording()?, setting)
}

/// A trace without the layer and with it.
fn compared(job: &Job, trace: &Trace, setting: &Setting) -> Result<Comparison, LabError> {
    compare(trace, &setting.experiment(job)?, job.progress)
}

impl Setting {
    /// The experiment of this layer.
    fn experiment(&self, job: &Job) -> Result<Experiment, LabError> {
        let options: toml::Table = toml::toml! {
            rehearse = false
            placement = "planned"
            overwrite = "in-place"
            eager = false
        };
        let more = self.more.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        let own = [("write_buffer", self.write_buffer.into()), ("training", self.training.into())];
        let own = own.map(|(key, value): (&str, toml::Value)| (key.to_owned(), value));
        let options = options.into_iter().chain(own).chain(more).collect();
        let entry = registry::find("borg").ok_or_else(|| LabError::Setting {
            setting: "layer",
            found: "no borg".to_owned(),
            expected: "it in the registry".to_owned(),
        })?;
        let drive = Model::from(job.drive().clone());
        let partition = Partition {
            sectors: self.bopt / SECTOR_BYTES,
            at_sector: self.at.map(|at| at / SECTOR_BYTES),
            drive: self.beside.then(|| drive.clone()),
        };
        Ok(Experiment {
            drive,
            over_sectors: None,
            layer: Some(LayerSetup { entry, options, partition: Some(partition) }),
            queue: QueueOptions::default(),
            pace: Pace::Closed { outstanding: 8 },
            reconfigure: self.reconfigure,
            schedule: None,
            clock: Clock::Stop,
            seed: job.seed,
            bounds: false,
            accesses: false,
        })
    }
}

/// Busy time by phase, of runs that differ in what the first column says.
fn by_phase(
    job: &Job,
    varied: Column,
    each: &[(&'static str, Comparison)],
    paper: Vec<Statement>,
    notes: &[&str],
) -> Shown {
    let columns: Vec<Column> = std::iter::once(varied).chain(PHASES).collect();
    let (mut grid, mut pictures) = (Grid::new("", &columns), Vec::new());
    for (value, compared) in each {
        let [vanilla, borg] = &compared.variants[..] else { continue };
        let (mut names, mut busy) = (Vec::new(), [Vec::new(), Vec::new()]);
        for (base, phase) in vanilla.phases.iter().zip(&borg.phases) {
            names.push((names.len() as f64, phase.name.clone()));
            for (busy, phase) in busy.iter_mut().zip([base, phase]) {
                busy.push(Some(phase.work.head.busy_s));
            }
            let saved = Some(phase.reduction_pct).filter(|_| phase.vanilla_busy_s > 0.0);
            grid.row([
                Cell::from(*value),
                phase.name.as_str().into(),
                phase.requests.into(),
                base.work.head.busy_s.into(),
                phase.work.head.busy_s.into(),
                saved.into(),
                base.work.nonsequential_pct.into(),
                phase.work.nonsequential_pct.into(),
                base.work.mean_seek_cylinders.into(),
                phase.work.mean_seek_cylinders.into(),
                phase.served_from_bopt_pct.into(),
            ]);
        }
        let series = ["vanilla", "BORG"].into_iter().zip(busy);
        let series = series.map(|(name, values)| Series { name: name.to_owned(), values }).collect();
        pictures.push(((*value).to_owned(), bars(names, "busy time, s", series)));
    }
    job.shown(grid, paper, notes, pictures)
}

/// Bars side by side.
fn bars(along: Vec<(f64, String)>, value_label: &'static str, series: Vec<Series>) -> Picture {
    let along = Along::names(along.into_iter());
    Picture::Lines(Plot { along, value_label, form: Form::Bars, series, ..Plot::default() })
}

fn about(says: &'static str, unit: &'static str, theirs: f64, ours: f64, within: Within) -> Statement {
    Statement::about("section 6", says, unit, theirs, ours, within)
}

/// The phases between reconfigurations, after the first one.
fn settled(variant: &Variant) -> impl Iterator<Item = &Phase> {
    variant.phases.iter().skip(1).filter(|phase| phase.name.starts_with('N'))
}

/// Busy time saved in these, in per cent.
fn saved(compared: &Comparison) -> Vec<f64> {
    settled(&compared.variants[1]).map(|phase| phase.reduction_pct).collect()
}

/// The paper's two metrics over these, without the layer and with it: seeks per block read in per cent, and the mean
/// seek in cylinders.
fn between(compared: &Comparison) -> [(f64, f64); 2] {
    [0, 1].map(|variant| {
        let (mut seeks, mut blocks, mut cylinders) = (0, 0, 0.0);
        for phase in settled(&compared.variants[variant]) {
            seeks += phase.work.seeks;
            blocks += phase.work.blocks_read;
            cylinders += phase.work.mean_seek_cylinders * phase.work.seeks as f64;
        }
        let per = |all: u64| all.max(1) as f64;
        (100.0 * seeks as f64 / per(blocks), cylinders / per(seeks))
    })
}
