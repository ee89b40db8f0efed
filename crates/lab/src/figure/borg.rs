//! Figures of the BORG paper that a recording is replayed for (Bhadkamkar et al., FAST 2009, sections 6.1, 6.2 and 6.5).
//!
//! Its layer: every plan is carried out (`rehearse = false`), pages are placed as planned, copies are overwritten in
//! place, and the log is written in order. Four reconfigurations after equal numbers of requests, during which the
//! recording waits: the paper replayed it 168 times as fast, but not during reconfigurations, in which clients did little.

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

/// A figure of a recording, as much of it as there is.
const fn of_recording(recording: &'static str, entry: &Entry) -> Entry {
    Entry { usual: 10_000_000, recording: Some(recording), ..*entry }
}

const COUNTED: &str = "requests of the recording";

/// Busy time by phase: Subversion server.
pub const FIGURE_6: Entry = of_recording(
    "svnserver2",
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
    "developer",
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
    "webserver2",
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
    "webserver2",
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

/// Sensitivity to number of reconfigurations, size of the BOPT and share of the write buffer.
pub const FIGURE_12: Entry = of_recording(
    "svnserver2",
    &Entry::new(
        COUNTED,
        "borg-12",
        "sensitivity to interval, size and write buffer",
        "BORG paper (FAST 2009), section 6.5, Figure 12",
        "Subversion: worse with longer intervals, the same from 256 MB on, better with more write buffer",
        &["wd2500aaks"],
        figure_12,
    ),
);

/// The layer of a figure.
#[derive(Clone, Copy)]
struct Setting {
    bopt: u64,
    write_buffer: f64,
    training: &'static str,
    reconfigure: u32,
}

impl Setting {
    /// Four reconfigurations that learn from all requests.
    const fn new(bopt: u64, write_buffer: f64) -> Setting {
        Setting { bopt, write_buffer, training: "cumulative", reconfigure: 4 }
    }
}

const GIB: u64 = 1 << 30;
/// Rows by phase.
const PHASES: [Column; 11] = [
    words("training", "training"),
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
    let compared = replayed(job, Setting::new(2 * GIB, 0.2))?;
    let best = saved(&compared).into_iter().fold(f64::MIN, f64::max);
    let [vanilla, borg] = between(&compared);
    let paper = vec![
        about("best phase: busy time saved", "%", 45.0, best, Within::Points(15.0)),
        about("vanilla: non-sequential", "%", 1.70, vanilla.0, Within::Points(2.0)),
        about("BORG: non-sequential", "%", 1.15, borg.0, Within::Points(2.0)),
        about("vanilla: mean seek", "cylinders", 704.0, vanilla.1, Within::Percent(50.0)),
        about("BORG: mean seek", "cylinders", 201.0, borg.1, Within::Percent(50.0)),
    ];
    Ok(by_phase(job, &[("cumulative", compared)], paper))
}

fn figure_7(job: &Job) -> Result<Shown, LabError> {
    let compared = replayed(job, Setting::new(GIB, 0.4))?;
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
    Ok(by_phase(job, &[("cumulative", compared)], paper))
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
    Ok(by_phase(job, &both, paper))
}

/// With cumulative and with partial training.
fn trained(job: &Job) -> Result<[(&'static str, Comparison); 2], LabError> {
    let setting = Setting::new(8 * GIB, 0.4);
    let cumulative = replayed(job, setting)?;
    let partial = replayed(job, Setting { training: "partial", ..setting })?;
    Ok([("cumulative", cumulative), ("partial", partial)])
}

fn figure_10(job: &Job) -> Result<Shown, LabError> {
    const MOVES: [&str; 3] = ["outgoing", "relocate", "incoming"];
    let both = trained(job)?;
    let mut grid = Grid::new(
        "",
        &[
            words("training", "training"),
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

fn figure_12(job: &Job) -> Result<Shown, LabError> {
    let columns = [
        words("varied", "varied"),
        words("value", "value"),
        numbers("reduction_pct", "saved between, %", 1),
        numbers("net_reduction_pct", "net, %", 1),
    ];
    let half = |bopt| Setting::new(bopt, 0.5);
    let intervals =
        [18, 9, 6, 3, 1].map(|times| (format!("{times}"), Setting { reconfigure: times, ..half(GIB) }));
    let sizes = [GIB / 4, GIB / 2, GIB, 2 * GIB, 4 * GIB, 8 * GIB];
    let sizes = sizes.map(|bopt| (format!("{} MiB", bopt >> 20), half(bopt)));
    let shares = [0_u8, 20, 40, 50, 60, 80, 100];
    let shares = shares.map(|share| (format!("{share} %"), Setting::new(4 * GIB, f64::from(share) / 100.0)));
    let sweeps: [(&str, Vec<(String, Setting)>); 3] = [
        ("reconfigurations", intervals.to_vec()),
        ("BOPT", sizes.to_vec()),
        ("write buffer", shares.to_vec()),
    ];
    let (mut grid, mut pictures) = (Grid::new("", &columns), Vec::new());
    let all = sweeps.iter().map(|(_, settings)| settings.len()).sum();
    for (varied, settings) in sweeps {
        let [mut saved, mut net] = [Vec::new(), Vec::new()];
        for (value, setting) in &settings {
            job.progress(grid.rows.len(), all);
            let compared = replayed(job, *setting)?;
            let [one, other] = [compared.reduction_pct, compared.net_reduction_pct];
            saved.push(Some(one));
            net.push(Some(other));
            grid.row([varied.into(), value.as_str().into(), one.into(), other.into()]);
        }
        let along = settings.iter().enumerate().map(|(at, (value, _))| (at as f64, value.clone())).collect();
        let series = [("between reconfigurations", saved), ("net", net)];
        let series = series.map(|(name, values)| Series { name: name.to_owned(), values });
        pictures.push((varied.to_owned(), bars(along, "busy time saved, %", series.into())));
    }
    Ok(job.shown(grid, Vec::new(), &NOTES, pictures))
}

const NOTES: [&str; 2] = [
    "The paper's layer: no plan is rehearsed, pages are placed as planned, copies are overwritten in place. Four \
     reconfigurations, unless varied, after equal numbers of requests; the recording waits meanwhile.",
    "The recording is not the paper's: minutes on a machine of today, replayed with eight requests outstanding. Only \
     the kind of result can be compared.",
];

/// The recording without the layer and with it.
fn replayed(job: &Job, setting: Setting) -> Result<Comparison, LabError> {
    let Some(trace) = job.trace else {
        let (found, expected) = ("none".to_owned(), "files of a recording".to_owned());
        return Err(LabError::Setting { setting: "trace", found, expected });
    };
    let many = usize::try_from(job.requests).unwrap_or(usize::MAX).min(trace.records.len());
    let trace = Trace { records: trace.records[..many].to_vec(), ..trace.clone() };
    let options = toml::toml! {
        rehearse = false
        placement = "planned"
        overwrite = "in-place"
        eager = false
    };
    let mut options: toml::Table = options;
    options.insert("write_buffer".to_owned(), setting.write_buffer.into());
    options.insert("training".to_owned(), setting.training.into());
    let entry = registry::find("borg").ok_or_else(|| LabError::Setting {
        setting: "layer",
        found: "no borg".to_owned(),
        expected: "it in the registry".to_owned(),
    })?;
    let partition = Some(Partition { sectors: setting.bopt / seekless_core::SECTOR_BYTES, at_sector: None });
    let experiment = Experiment {
        drive: Model::from(job.drive().clone()),
        over_sectors: None,
        layer: Some(LayerSetup { entry, options, partition }),
        queue: QueueOptions::default(),
        pace: Pace::Closed { outstanding: 8 },
        reconfigure: setting.reconfigure,
        schedule: None,
        clock: Clock::Stop,
        seed: job.seed,
        bounds: false,
    };
    compare(&trace, &experiment, job.progress)
}

/// Busy time by phase.
fn by_phase(job: &Job, each: &[(&'static str, Comparison)], paper: Vec<Statement>) -> Shown {
    let (mut grid, mut pictures) = (Grid::new("", &PHASES), Vec::new());
    for (training, compared) in each {
        let [vanilla, borg] = &compared.variants[..] else { continue };
        let (mut names, mut busy) = (Vec::new(), [Vec::new(), Vec::new()]);
        for (base, phase) in vanilla.phases.iter().zip(&borg.phases) {
            names.push((names.len() as f64, phase.name.clone()));
            for (busy, phase) in busy.iter_mut().zip([base, phase]) {
                busy.push(Some(phase.work.head.busy_s));
            }
            let saved = Some(phase.reduction_pct).filter(|_| phase.vanilla_busy_s > 0.0);
            grid.row([
                Cell::from(*training),
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
        pictures.push(((*training).to_owned(), bars(names, "busy time, s", series)));
    }
    job.shown(grid, paper, &NOTES, pictures)
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
