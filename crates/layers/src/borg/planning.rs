//! Planning (sections 4.2 and 4.3), on a worker: from the profile to a plan, and its rehearsal.

use seekless_core::{Modelled, Nanos, Reconfigured, Stage, runtime};

use super::Borg;
use super::analyzer::{Analyzer, Graph};
use super::options::Placement;
use super::planner::{Plan, Scene};
use super::profiler::Window;
use super::rehearsal::{Prediction, Rehearsal};

/// Virtual time of analysis per request. An upper estimate, since it is to run on a low-priority thread: a whole
/// comparison of the shipped `appstart2`, with four reconfigurations, takes less than 2 microseconds of processor time
/// per request and reconfiguration.
const ANALYZE_NS: u64 = 2_000;
/// Virtual time of planning per vertex or edge.
const PLAN_NS: u64 = 2_000;
/// Virtual time of a rehearsal per request played or page moved.
const REHEARSE_NS: u64 = 10_000;
/// One part in this many of the requests is held out from planning, to judge the plan.
const HELD_OUT: u64 = 5;

/// A plan with its properties.
pub(super) struct Planning {
    pub plan: Plan,
    /// Pages that the profile knows: planned, or read, whichever is more.
    pub profiled_pages: u64,
    /// Whether it gains more than it costs, if it could be rehearsed.
    pub wins: Option<bool>,
}

impl Borg {
    /// Makes a plan. If both devices have models and the options ask for it, the last fifth of the requests is held
    /// out, and the plan is rehearsed with them.
    pub(super) async fn plan(&self, report: &mut Reconfigured) -> Planning {
        let (window, analyzer, last) = {
            let learned = &mut *self.learned.borrow_mut();
            let anew = self.plans_anew(learned.plans());
            learned.begin_plan(anew)
        };
        let models = self.models().filter(|_| self.options.rehearse);
        let window_requests = window.requests();
        let parts = match models {
            Some(_) => window.split(window_requests - window_requests / HELD_OUT),
            None => (window, Window::default()),
        };
        let (graph, (early, late)) = self.analyze(parts, analyzer, last.is_some(), report).await;
        let read = graph.vertices().iter().filter(|vertex| vertex.is_read());
        let seen: u64 = read.map(|vertex| u64::from(vertex.pages)).sum();
        let (begin, cost) = (runtime::now(), Nanos((report.vertices + report.edges) * PLAN_NS));
        let planner = self.options.planner.planner(self.options.threshold);
        let (fork, layout, granularity) = (self.store.fork(), self.store.layout(), self.granularity);
        let (shown, placed) = (models.clone(), self.options.placement == Placement::Planned);
        let planning = move || {
            let (window, last, models) = (&early, last.as_ref(), shown.as_ref());
            let scene = Scene { graph: &graph, window, last, held: fork.map(), layout, granularity, models };
            let plan = planner.plan(&scene);
            (if placed { plan.with_slots(granularity) } else { plan }, fork)
        };
        let (plan, fork) = runtime::offload(planning, |_| cost).await;
        self.learned.borrow_mut().planned(plan.clone());
        report.planned_pages = plan.pages() << self.granularity;
        report.stages.push(Stage { name: "plan", took: runtime::now() - begin, pages: report.planned_pages });
        let profiled_pages = report.planned_pages.max(seen << self.granularity);
        let prediction = match models {
            Some(models) if late.requests() > 0 => {
                let (options, verdict) = (self.options.clone(), self.judge(profiled_pages, None));
                let rehearsal = Rehearsal { models, fork, options, granularity, verdict };
                self.rehearse(rehearsal, plan.clone(), late, report).await
            }
            _ => None,
        };
        let wins = prediction.map(|prediction: Prediction| prediction.wins(window_requests));
        if let Some(prediction) = prediction {
            self.learned.borrow_mut().rehearsed(prediction, wins == Some(false));
        }
        Planning { plan, profiled_pages, wins }
    }

    /// The access graph to plan from: of all requests, or of those since the last plan. Requests held out from planning,
    /// the second part, are added to the profile all the same. Returns the parts too.
    async fn analyze(
        &self,
        (early, late): (Window, Window),
        mut analyzer: Analyzer,
        extends: bool,
        report: &mut Reconfigured,
    ) -> (Graph, (Window, Window)) {
        let (begin, training, edges) = (runtime::now(), self.options.training, self.options.edges);
        let requests = early.requests() + late.requests();
        let analysis = move || {
            analyzer.add(early.iter());
            let graph = if extends {
                let mut newer = analyzer.anew();
                newer.add(early.iter());
                newer.graph(edges)
            } else {
                analyzer.graph(edges)
            };
            analyzer.add(late.iter());
            analyzer.close(training);
            (graph, analyzer, (early, late))
        };
        let (graph, analyzer, parts) = runtime::offload(analysis, |_| Nanos(requests * ANALYZE_NS)).await;
        self.learned.borrow_mut().analyzed(analyzer);
        report.stages.push(Stage { name: "analyse", took: runtime::now() - begin, pages: requests });
        (report.vertices, report.edges) = (graph.vertices().len() as u64, graph.edge_count() as u64);
        (graph, parts)
    }

    /// Tries a plan in virtual time, on a worker.
    async fn rehearse(
        &self,
        rehearsal: Rehearsal,
        plan: Plan,
        late: Window,
        report: &mut Reconfigured,
    ) -> Option<Prediction> {
        let (begin, requests) = (runtime::now(), late.requests());
        let cost = Nanos((2 * requests + report.planned_pages) * REHEARSE_NS);
        let prediction = runtime::offload(move || rehearsal.predict(&plan, &late), |_| cost).await;
        report.stages.push(Stage { name: "rehearse", took: runtime::now() - begin, pages: requests });
        prediction
    }

    /// Models of the origin and of the BOPT, where both have one.
    fn models(&self) -> Option<[Modelled; 2]> {
        Some([self.origin.model()?, self.bopt.model()?])
    }
}
