//! Planning (sections 4.2 and 4.3), on a worker: from the profile to a plan, and its rehearsal.

use std::cell::OnceCell;

use seekless_core::history::{Checked, Predicted};
use seekless_core::{Modelled, Nanos, Reconfigured, Stage, runtime};

use super::Borg;
use super::analyzer::{Analyzer, Edges, Graph};
use super::choice::{self, Choice};
use super::course::{Course, Reads};
use super::history::Decided;
use super::options::Placement;
use super::planner::{Plan, Scene};
use super::policy::Verdict;
use super::profiler::Window;
use super::rehearsal::{Answers, Known, Part, Rehearsal};

/// Virtual time of analysis per request. An upper estimate, since it is to run on a low-priority thread: a whole
/// comparison of the shipped `appstart2`, with four reconfigurations, takes less than 2 microseconds of processor time
/// per request and reconfiguration.
const ANALYZE_NS: u64 = 2_000;
/// Virtual time of planning per vertex or edge.
const PLAN_NS: u64 = 2_000;
/// Virtual time of a rehearsal per request played or page moved.
pub(super) const REHEARSE_NS: u64 = 10_000;
/// After fewer requests nothing is chosen, and they are kept for the next choice: of parts with fewer than 300 requests
/// chance decides. On 117 requests of a guest's boot a plan seemed to save 96 %; it cost 30 % of all disk time.
pub(super) const FEWEST_TO_JUDGE_ON: u64 = 1_500;

/// A course, and its plan if it has one.
pub(super) struct Planning {
    pub course: Course,
    pub plan: Option<Plan>,
    pub verdict: Verdict,
    /// What a rehearsal predicted of the course.
    predicted: Option<Predicted>,
    /// How well the model predicted the requests so far.
    model: Option<Checked>,
    /// Reason for leaving all as it is, if it is another than that nothing gains enough.
    because: Option<&'static str>,
}

impl Planning {
    /// A course, and its plan if it has one.
    fn new(course: Course, plan: Option<Plan>, verdict: Verdict) -> Planning {
        Planning { course, plan, verdict, predicted: None, model: None, because: None }
    }

    /// What was decided, of `pages` planned pages.
    pub fn decided(&self, pages: u64) -> Decided {
        let what = match (self.verdict, self.because) {
            (Verdict::Decline, Some(why)) => format!("left as it is: {why}"),
            (Verdict::Decline, None) => "left as it is: nothing else saves enough".to_owned(),
            _ => self.course.described(pages),
        };
        Decided { what, predicted: self.predicted, model: self.model }
    }
}

impl Borg {
    /// Chooses a course. If the options ask for it and both devices have models, candidates are rehearsed; otherwise
    /// the plan of the options is carried out.
    pub(super) async fn plan(&self, report: &mut Reconfigured) -> Planning {
        let models = self.models().filter(|_| self.options.rehearse);
        let requests = self.learned.borrow().window_requests();
        if models.is_some() && requests < FEWEST_TO_JUDGE_ON {
            report.stages.push(Stage { name: "too few requests", took: Nanos::ZERO, pages: requests });
            let because = Some("there were too few requests to judge on");
            return Planning { because, ..self.as_it_is() };
        }
        let anew;
        let (window, analyzer, last) = {
            let learned = &mut *self.learned.borrow_mut();
            anew = self.plans_anew(learned.plans());
            learned.begin_plan()
        };
        match models {
            Some(models) => self.rehearsed(models, window, analyzer, last, report).await,
            None => self.unrehearsed(window, analyzer, last.filter(|_| !anew), report).await,
        }
    }

    /// The choice to leave all as it is.
    fn as_it_is(&self) -> Planning {
        Planning::new(Course::as_it_is(self.writes.get()), None, Verdict::Decline)
    }

    /// The plan of the options.
    async fn unrehearsed(
        &self,
        window: Window,
        analyzer: Analyzer,
        last: Option<Plan>,
        report: &mut Reconfigured,
    ) -> Planning {
        let (graph, window) = self.analyze(window, analyzer, last.is_some(), report).await;
        let profiled = profiled_pages(&graph) << self.granularity;
        let (begin, cost) = (runtime::now(), Nanos((report.vertices + report.edges) * PLAN_NS));
        let planner = self.options.planner.planner(self.options.threshold);
        let (fork, layout, granularity) = (self.store.fork(), self.store.layout(), self.granularity);
        let (placed, models) = (self.options.placement == Placement::Planned, self.models());
        let planning = move || {
            let (window, last, models) = (&window, last.as_ref(), models.as_ref());
            let scene = Scene { graph: &graph, window, last, held: fork.map(), layout, granularity, models };
            let plan = planner.plan(&scene);
            if placed { plan.with_slots(granularity) } else { plan }
        };
        let plan = runtime::offload(planning, |_| cost).await;
        self.learned.borrow_mut().set_last_plan(plan.clone());
        report.planned_pages = plan.pages() << self.granularity;
        report.stages.push(Stage { name: "plan", took: runtime::now() - begin, pages: report.planned_pages });
        let verdict = self.judge(report.planned_pages.max(profiled));
        Planning::new(Course::unrehearsed(&self.options), Some(plan), verdict)
    }

    /// The course that wins a rehearsal.
    async fn rehearsed(
        &self,
        models: [Modelled; 2],
        window: Window,
        analyzer: Analyzer,
        last: Option<Plan>,
        report: &mut Reconfigured,
    ) -> Planning {
        let requests = window.requests();
        let begin = runtime::now();
        let (parts, now) = self.divide(window, analyzer).await;
        report.stages.push(Stage { name: "analyse", took: runtime::now() - begin, pages: requests });
        (report.vertices, report.edges) =
            (now.process.vertices().len() as u64, now.process.edge_count() as u64);
        let begin = runtime::now();
        let as_it_is = self.as_it_is();
        let present = as_it_is.course;
        let profiled = profiled_pages(&now.process) << self.granularity;
        let recent = self.copy_on_read.take_recent();
        let rehearsal = Rehearsal { recent, ..self.rehearsal(models, self.judge(profiled)) };
        let cost = Nanos(requests * REHEARSE_NS);
        let (past, budget) = (self.learned.borrow().requests(), self.learned.borrow().budget);
        let choosing = move || {
            let benefit = rehearsal.benefit_of_copies(&parts)?;
            let chosen = Choice::new(&rehearsal, &parts, &now.window, past, budget)?.choose(last.as_ref())?;
            let answers = chosen.answers;
            let plan = |course: Course| choice::plan(&rehearsal, course, &now);
            Some((
                chosen.course,
                plan(chosen.course),
                chosen.best_with_plan.and_then(plan),
                (chosen.prediction, chosen.budget, answers),
                benefit,
            ))
        };
        let chosen = runtime::offload(choosing, |_| cost).await;
        report.stages.push(Stage { name: "rehearse", took: runtime::now() - begin, pages: requests });
        let Some((course, plan, best_plan, (prediction, budget, answers), benefit)) = chosen else {
            return Planning { because: Some("the rehearsal had no result"), ..as_it_is };
        };
        let model = self.check_model(answers);
        if self.accuracy.is_off() {
            self.learned.borrow_mut().set_rehearsal(prediction, true);
            let because = Some("predictions have been wrong by more than a quarter for a day");
            return Planning { model, because, ..as_it_is };
        }
        let empties = self.copy_on_read.decided(benefit, course == present);
        let course = if empties { Course { reads: Reads::Emptied, ..present } } else { course };
        self.learned.borrow_mut().set_last_plan(best_plan.unwrap_or_default());
        report.planned_pages = plan.as_ref().map_or(0, Plan::pages) << self.granularity;
        self.learned.borrow_mut().set_rehearsal(prediction, course == present);
        self.learned.borrow_mut().budget = budget;
        // Judged after all waiting.
        let verdict = if course == present { Verdict::Decline } else { self.judge(profiled) };
        let predicted = Some(prediction.predicted());
        Planning { predicted, model, ..Planning::new(course, plan, verdict) }
    }

    /// A rehearsal on what the layer holds now.
    pub(super) fn rehearsal(&self, models: [Modelled; 2], verdict: Verdict) -> Rehearsal {
        Rehearsal {
            models,
            fork: self.store.fork(),
            recent: Vec::new(),
            drained: OnceCell::new(),
            options: self.options.clone(),
            granularity: self.granularity,
            verdict,
            writes: self.writes.get(),
        }
    }

    /// Compares the response times of a trial of the present course with those of as many of the latest requests;
    /// `None` if fewer were answered since the last time.
    fn check_model(&self, answers: Answers) -> Option<Checked> {
        let measured = self.accuracy.take(answers.count)?;
        let checked = Checked { predicted: answers.mean(), measured };
        self.accuracy.check(checked);
        Some(checked)
    }

    /// Divides a window into fifths. Returns two parts, and what is known after the whole window: the first part has
    /// what is known after three fifths, to be judged on the fourth fifth; the second what is known after four fifths,
    /// to be judged on the last one.
    async fn divide(&self, window: Window, mut analyzer: Analyzer) -> ([Part; 2], Known) {
        let (training, requests) = (self.options.training, window.requests());
        let analysis = move || {
            let (early, rest) = window.split(requests * 3 / 5);
            let (fourth, last) = rest.split(requests / 5);
            let (before_last, _) = window.split(early.requests() + fourth.requests());
            let mut known = |added: &Window, window| {
                analyzer.add(added.iter());
                let (process, global) = (analyzer.graph(Edges::Process), analyzer.graph(Edges::Global));
                Known { process, global, window }
            };
            let first = known(&early, early.clone());
            let second = known(&fourth, before_last);
            let all = known(&last, window);
            analyzer.close(training);
            let parts = [Part { known: first, later: fourth }, Part { known: second, later: last }];
            (parts, all, analyzer)
        };
        let (parts, all, analyzer) = runtime::offload(analysis, |_| Nanos(requests * ANALYZE_NS)).await;
        self.learned.borrow_mut().set_analyzer(analyzer);
        (parts, all)
    }

    /// The access graph to plan from: of all requests, or of those since the last plan. Returns these too.
    async fn analyze(
        &self,
        window: Window,
        mut analyzer: Analyzer,
        extends: bool,
        report: &mut Reconfigured,
    ) -> (Graph, Window) {
        let (begin, training, edges) = (runtime::now(), self.options.training, self.options.edges);
        let requests = window.requests();
        let analysis = move || {
            analyzer.add(window.iter());
            let graph = if extends {
                let mut newer = analyzer.anew();
                newer.add(window.iter());
                newer.graph(edges)
            } else {
                analyzer.graph(edges)
            };
            analyzer.close(training);
            (graph, window, analyzer)
        };
        let (graph, window, analyzer) = runtime::offload(analysis, |_| Nanos(requests * ANALYZE_NS)).await;
        self.learned.borrow_mut().set_analyzer(analyzer);
        report.stages.push(Stage { name: "analyse", took: runtime::now() - begin, pages: requests });
        (report.vertices, report.edges) = (graph.vertices().len() as u64, graph.edge_count() as u64);
        (graph, window)
    }

    /// Models of the origin and of the BOPT, where both have one.
    pub(super) fn models(&self) -> Option<[Modelled; 2]> {
        Some([self.origin.model()?, self.bopt.model()?])
    }
}

/// Pages of a graph that were read, in its units.
fn profiled_pages(graph: &Graph) -> u64 {
    graph.vertices().iter().filter(|vertex| vertex.is_read()).map(|vertex| u64::from(vertex.pages)).sum()
}
