//! The choice of a course: candidates are tried in virtual time on requests that came after those that they were planned
//! from, twice.
//!
//! A window of requests is divided: plans made from its first three fifths are judged on the fourth, plans made from
//! four fifths on the last. A course is chosen if it costs less than the present one in both, and least in their sum.
//!
//! Cost of a course: the busy time of its moves; of the requests, over the life that it is expected to have; and of
//! draining what they leave dirty.

use seekless_core::Nanos;

use super::analyzer::Graph;
use super::course::{Course, Log, Reads, Recipe};
use super::options::Placement;
use super::planner::{Plan, Scene};
use super::profiler::Window;
use super::rehearsal::{Rehearsal, Trial};

/// A course must cost less than this many thousandths of the present one's cost.
const WINS_BELOW: i128 = 990;

/// What was known at a time, and the requests after it.
pub(super) struct Part {
    /// Graphs by process, and of all.
    pub graphs: Graphs,
    /// The requests to judge on.
    pub later: Window,
}

/// Access graphs with either kind of edges.
pub(super) struct Graphs {
    /// Of the requests of each process.
    pub process: Graph,
    /// Of all requests.
    pub global: Graph,
}

/// Predicted busy times of a course and of the present one, over the requests of both parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prediction {
    /// By the requests as it is, and draining.
    pub unplanned: Nanos,
    /// By the requests with the course, and draining.
    pub planned: Nanos,
    /// By the moves of the course.
    pub moves: Nanos,
    /// Requests that were played.
    pub requests: u64,
}

/// A course with its trials, one for each part.
struct Tried {
    course: Course,
    trials: Vec<Trial>,
}

/// The choice among courses.
pub(super) struct Choice<'a> {
    rehearsal: &'a Rehearsal,
    parts: &'a [Part],
    /// Requests that a course is expected to last.
    life: u64,
    /// Busy time of draining what is dirty now.
    owed: Nanos,
    tried: Vec<Tried>,
}

impl<'a> Choice<'a> {
    /// A choice for the next `life` requests; `None` if nothing can be tried.
    pub fn new(rehearsal: &'a Rehearsal, parts: &'a [Part], life: u64) -> Option<Choice<'a>> {
        let owed = rehearsal.drain()?;
        Some(Choice { rehearsal, parts, life, owed, tried: Vec::new() })
    }

    /// The best course; `None` if one could not be tried.
    pub fn choose(mut self) -> Option<(Course, Prediction)> {
        let now = Course::as_it_is(self.rehearsal.absorbs);
        self.add(now)?;
        self.add(Course::OFF)?;
        for (absorbs, log) in [(true, Log::Kept), (true, Log::Drained), (false, Log::Drained)] {
            self.add(Course { reads: Reads::Kept, absorbs, log })?;
        }
        let without_plan = self.best().course;
        for recipe in Recipe::tried(&self.rehearsal.options) {
            self.add(Course { reads: Reads::Planned(recipe), ..without_plan })?;
        }
        if let best @ Course { reads: Reads::Planned(recipe), .. } = self.best().course {
            let other = if best.log == Log::Kept { Log::Drained } else { Log::Kept };
            self.add(Course { log: other, ..best })?;
            self.add(Course { absorbs: !best.absorbs, ..best })?;
            let reads = Reads::Planned(Recipe { placement: Placement::Planned, ..recipe });
            self.add(Course { reads, ..self.best().course })?;
        }
        let best = self.best();
        Some((best.course, self.prediction(best)))
    }

    /// Tries a course, unless it was tried.
    fn add(&mut self, course: Course) -> Option<()> {
        if self.tried.iter().any(|tried| tried.course == course) {
            return Some(());
        }
        let trial = |part: &Part| {
            let plan = plan(self.rehearsal, course, &part.graphs);
            self.rehearsal.trial(course, plan.as_ref(), &part.later)
        };
        let trials = self.parts.iter().map(trial).collect::<Option<Vec<Trial>>>()?;
        if std::env::var("DBG").is_ok() {
            let costs: Vec<String> = trials.iter().zip(self.parts).map(|(t, p)| format!("m{:.2} r{:.2} d{:.2} o{} c{:.2}", t.moves.seconds(), t.requests.seconds(), t.draining.seconds(), t.owed_pages, self.cost(t, p) as f64 / 1e9)).collect();
            eprintln!("{:?} {:?}", costs, course);
        }
        self.tried.push(Tried { course, trials });
        Some(())
    }

    /// The first is the present course; another one has to win in each part.
    fn best(&self) -> &Tried {
        let now = &self.tried[0];
        let wins = |tried: &&Tried| {
            let mut each = tried.trials.iter().zip(&now.trials).zip(self.parts);
            each.all(|((trial, now), part)| {
                self.cost(trial, part) * 1_000 < self.cost(now, part) * WINS_BELOW
            })
        };
        let all = |tried: &&Tried| -> i128 {
            tried.trials.iter().zip(self.parts).map(|(trial, part)| self.cost(trial, part)).sum()
        };
        self.tried.iter().filter(wins).min_by_key(all).unwrap_or(now)
    }

    /// Cost of a course over its expected life, in nanoseconds, without what is owed whatever the course.
    fn cost(&self, trial: &Trial, part: &Part) -> i128 {
        let lasts = |nanos: Nanos| {
            i128::from(nanos.0) * i128::from(self.life) / i128::from(part.later.requests().max(1))
        };
        // What was overwritten need not be drained any more.
        let dirty = self.rehearsal.fork.map().dirty() as i128;
        let saved = match trial.owed_pages {
            0 => 0,
            left => i128::from(self.owed.0) * (dirty - i128::from(left)) / dirty.max(1),
        };
        lasts(trial.requests) + lasts(trial.draining) + i128::from(trial.moves.0) - saved
    }

    fn prediction(&self, tried: &Tried) -> Prediction {
        let busy = |tried: &Tried| tried.trials.iter().map(|trial| trial.requests + trial.draining).sum();
        Prediction {
            unplanned: busy(&self.tried[0]),
            planned: busy(tried),
            moves: tried.trials.last().map_or(Nanos::ZERO, |trial| trial.moves),
            requests: self.parts.iter().map(|part| part.later.requests()).sum(),
        }
    }
}

/// The plan of a course, if it has one.
pub(super) fn plan(rehearsal: &Rehearsal, course: Course, graphs: &Graphs) -> Option<Plan> {
    let Reads::Planned(recipe) = course.reads else { return None };
    let granularity = rehearsal.granularity;
    let scene = Scene {
        graph: graphs.with(recipe),
        last: None,
        held: rehearsal.fork.map(),
        layout: rehearsal.fork.layout(),
        granularity,
        models: Some(&rehearsal.models),
    };
    let plan = recipe.planner.planner(rehearsal.options.threshold).plan(&scene);
    Some(if recipe.placement == Placement::Planned { plan.with_slots(granularity) } else { plan })
}

impl Graphs {
    /// That of a recipe.
    fn with(&self, recipe: Recipe) -> &Graph {
        match recipe.edges {
            super::analyzer::Edges::Process => &self.process,
            super::analyzer::Edges::Global => &self.global,
        }
    }
}
