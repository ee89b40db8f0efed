//! Processor time of the stages of a reconfiguration: Figure 9.
//!
//! Analyser and planner are pure functions: they are called here with the requests of the recording, as the layer calls
//! them, and the caller of the figure has its own clock read around each. Without one those columns are empty, so that
//! equal arguments give equal figures.

use seekless_core::{Op, PAGE_BYTES, PAGE_SECTORS, Record};
use seekless_layers::borg::{
    Access, Analyzer, Arrival, BorgMap, Edges, Layout, Options, PlannerName, Profiler, Scene, Training,
    Window,
};

use super::{COUNTED, GIB, NOTES, Setting, TRAINING, bars, of_recording, trained};
use crate::error::LabError;
use crate::figure::shown::{Cell, Grid, Shown, numbers, words};
use crate::figure::{Entry, Job};
use crate::report::plot::Series;

/// Processor time by stage: web server, cumulative and partial training.
pub const FIGURE_9: Entry = of_recording(
    &["webserver2"],
    &Entry::new(
        COUNTED,
        "borg-9",
        "processor time of a reconfiguration by stage, web server",
        "BORG paper (FAST 2009), section 6.2, Figure 9",
        "grows linearly with cumulative training; with partial it falls after the second reconfiguration",
        &["wd2500aaks"],
        figure_9,
    ),
);

/// The stages before a reconfiguration's moves.
struct Stages {
    vertices: u64,
    edges: u64,
    planned_pages: u64,
    analyse_s: Option<f64>,
    plan_s: Option<f64>,
}

pub(super) fn figure_9(job: &Job) -> Result<Shown, LabError> {
    const MOVES: [&str; 3] = ["outgoing", "relocate", "incoming"];
    let trace = job.recording()?;
    let columns = [
        TRAINING,
        words("reconfiguration", "reconfiguration"),
        numbers("requests", "new requests", 0),
        numbers("vertices", "vertices", 0),
        numbers("edges", "edges", 0),
        numbers("planned_pages", "planned pages", 0),
        numbers("analyse_cpu_s", "analyse, CPU s", 3),
        numbers("plan_cpu_s", "plan, CPU s", 3),
        numbers("move_s", "move, s", 1),
        numbers("moved_pages", "moved pages", 0),
    ];
    let (mut grid, mut along) = (Grid::new("", &columns), Vec::new());
    let mut series = ["analyse, CPU s", "plan, CPU s", "move, s"]
        .map(|name| Series { name: name.to_owned(), values: Vec::new() });
    for (training, compared) in &trained(job)? {
        let borg = &compared.variants[1];
        let starts = borg.phases.iter().filter(|phase| phase.name.starts_with('R'));
        let mut planning = Planning::new(job, training, compared.settings.bopt_bytes, trace.end_sector());
        let mut from = 0;
        for (phase, report) in starts.zip(&borg.reconfigurations) {
            let until = usize::try_from(phase.first_request).unwrap_or(usize::MAX).min(trace.records.len());
            let stages = planning.next(&trace.records[from..until]);
            let moves = report.stages.iter().filter(|stage| MOVES.contains(&stage.name.as_str()));
            let (move_s, pages) =
                moves.fold((0.0, 0), |(time, pages), stage| (time + stage.seconds, pages + stage.pages));
            grid.row([
                Cell::from(*training),
                report.name.as_str().into(),
                ((until - from) as u64).into(),
                stages.vertices.into(),
                stages.edges.into(),
                stages.planned_pages.into(),
                stages.analyse_s.into(),
                stages.plan_s.into(),
                move_s.into(),
                pages.into(),
            ]);
            let times = [stages.analyse_s, stages.plan_s, Some(move_s)];
            series.iter_mut().zip(times).for_each(|(series, time)| series.values.push(time));
            along.push((along.len() as f64, format!("{} {}", &training[..1], report.name)));
            from = until;
        }
    }
    let notes = [
        "Analyser and planner: processor time of this machine, measured as the figure is drawn; it differs from run to run. \
         Moves: simulated time, in which the disk copies pages and clients wait; they need hardly any processor time.",
        "With cumulative training the paper's analyser starts from all requests each time; here it adds those since the last \
         reconfiguration to its graph (section 7), and plans anew from all of it.",
        NOTES[0],
        NOTES[1],
    ];
    Ok(job.shown(
        grid,
        Vec::new(),
        &notes,
        vec![("stages".to_owned(), bars(along, "seconds", series.into()))],
    ))
}

/// The analyser and the planner of the figure's layer.
struct Planning {
    processor_s: Option<fn() -> f64>,
    training: Training,
    analyzer: Analyzer,
    layout: Option<Layout>,
    map: BorgMap,
}

impl Planning {
    fn new(job: &Job, training: &str, bopt_bytes: u64, sectors: u64) -> Planning {
        let (options, setting) = (Options::default(), Setting::new(8 * GIB, 0.4));
        let layout =
            Layout::new(bopt_bytes / PAGE_BYTES, options.segment.0 / PAGE_BYTES, setting.write_buffer);
        Planning {
            processor_s: job.processor_s,
            training: if training == "partial" { Training::Partial } else { Training::Cumulative },
            analyzer: Analyzer::bounded(options.profile_memory.0 / 2),
            layout,
            map: BorgMap::new(sectors.div_ceil(PAGE_SECTORS), layout.map_or(0, Layout::slots)),
        }
    }

    /// Analyses these requests, and plans.
    fn next(&mut self, records: &[Record]) -> Stages {
        let window = profiled(records);
        let now = || self.processor_s.map(|read| read());
        let since = |begin: Option<f64>| Some(now()? - begin?);
        let begin = now();
        self.analyzer.add(window.iter());
        let graph = self.analyzer.graph(Edges::Process);
        self.analyzer.close(self.training);
        let (analyse_s, begin) = (since(begin), now());
        let planned_pages = self.layout.map_or(0, |layout| {
            let (graph, window, held) = (&graph, &window, &self.map);
            let scene = Scene { graph, window, last: None, held, layout, granularity: 0, models: None };
            PlannerName::Greedy.planner(1).plan(&scene).with_slots(0).pages()
        });
        let (vertices, edges) = (graph.vertices().len() as u64, graph.edge_count() as u64);
        Stages { vertices, edges, planned_pages, analyse_s, plan_s: since(begin) }
    }
}

/// The profile of these requests.
fn profiled(records: &[Record]) -> Window {
    let mut profiler = Profiler::default();
    for record in records {
        let (at, write) = (record.extent, record.op == Op::Write);
        if at.sectors > 0 && (write || record.op == Op::Read) {
            profiler.note(&Access::new(Arrival::default(), record.origin, at, write));
        }
    }
    profiler.take()
}
