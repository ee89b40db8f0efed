//! The choice of a course: candidates are tried in virtual time on requests that came after those that they were
//! planned from, twice.
//!
//! A window of requests is divided: plans made from its first three fifths are judged on the fourth, plans made from
//! four fifths on the last. A course is chosen if it costs less than the present one in both, and least in their sum.
//!
//! Cost of a course: the busy time of its moves; of the requests, over the life that it is expected to have; and of
//! draining what they leave dirty.

use std::cell::RefCell;

use seekless_core::Nanos;
use seekless_core::history::Predicted;

use super::analyzer::Edges;
use super::budget::Budget;
use super::course::{Course, ERROR, ERROR_OF_ABSORBING, LogFate, Reads, Recipe, Writes, wins};
use super::options::Placement;
use super::planner::{Plan, Scene};
use super::profiler::Window;
use super::rehearsal::{Answers, Known, Part, Rehearsal, Trial};

/// Predicted busy times of the chosen course and of the present one: over the requests of both parts, or for
/// [`Course::FREE`] over all requests since the last choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prediction {
    /// By the requests with the present course, and draining.
    pub present: Nanos,
    /// By the requests with the chosen course, and draining.
    pub chosen: Nanos,
    /// By the moves of the chosen course.
    pub moves: Nanos,
    /// Requests that were played.
    pub requests: u64,
}

impl Prediction {
    /// For a report.
    pub fn predicted(&self) -> Predicted {
        let Prediction { present, chosen, moves, requests } = *self;
        Predicted { requests, present, chosen, moves }
    }
}

/// What a plan that overdraws the budget has to save of the disk time of the requests, moves not counted, in
/// thousandths.
const SAVES_MUCH: i128 = 150;

/// The result of a choice.
pub(super) struct Chosen {
    /// The best course.
    pub course: Course,
    pub prediction: Prediction,
    /// What is left when it was carried out.
    pub budget: Budget,
    /// The best course with a plan of all that was read, whether it was chosen or not.
    pub best_with_plan: Option<Course>,
    /// Answers of the present course in both parts.
    pub answers: Answers,
}

/// A course with its trials, one for each part.
struct Tried {
    course: Course,
    trials: Vec<Trial>,
}

impl Tried {
    /// Busy time of the requests of all parts, and of draining.
    fn busy(&self) -> Nanos {
        self.trials.iter().map(Trial::busy).sum()
    }

    /// Busy time of its moves, with the latest plan.
    fn moves(&self) -> Nanos {
        self.trials.last().map_or(Nanos::ZERO, |trial| trial.moves)
    }
}

/// The choice among courses.
pub(super) struct Choice<'a> {
    rehearsal: &'a Rehearsal,
    parts: &'a [Part],
    /// The requests since the last choice.
    whole: &'a Window,
    /// Requests profiled in total, `whole` included.
    past: u64,
    /// Requests that a course is expected to last.
    life: u64,
    /// Busy time of draining what is dirty now: every course has to drain it, unless it is overwritten before.
    drain_backlog: Nanos,
    /// What courses may cost.
    budget: Budget,
    tried: Vec<Tried>,
    /// Courses without a plan that were tried on `whole`.
    on_whole: RefCell<Vec<(Course, Trial)>>,
}

impl<'a> Choice<'a> {
    /// A choice after the requests `whole` since the last one, `past` in all; `None` if nothing can be tried.
    pub fn new(
        rehearsal: &'a Rehearsal,
        parts: &'a [Part],
        whole: &'a Window,
        past: u64,
        budget: Budget,
    ) -> Option<Choice<'a>> {
        let (drain_backlog, life) = (rehearsal.drain()?, whole.requests());
        let (tried, on_whole) = Default::default();
        Some(Choice { rehearsal, parts, whole, past, life, drain_backlog, budget, tried, on_whole })
    }

    /// The best course; `None` if one could not be tried. `last` is the best plan of the last choice.
    pub fn choose(mut self, last: Option<&Plan>) -> Option<Chosen> {
        let now = Course::as_it_is(self.rehearsal.writes);
        self.add(now)?;
        self.add(Course::OFF)?;
        self.pay()?;
        if self.budget.is_overdrawn() {
            if let Some(chosen) = self.less()? {
                return Some(chosen);
            }
        }
        for (absorbs, log) in [(true, LogFate::Kept), (true, LogFate::Drained), (false, LogFate::Drained)] {
            self.add(Course { reads: Reads::Kept, absorbs, log, drains: false })?;
        }
        let without_plan = self.best().course;
        for recipe in Recipe::tried(&self.rehearsal.options) {
            self.add(Course { reads: Reads::Planned(recipe), ..without_plan })?;
        }
        let best_with_plan = self.best_with_plan();
        if let Some((last, with_plan)) = last.zip(best_with_plan) {
            self.expect_to_last(last, with_plan, without_plan)?;
        }
        if let Some(best @ Course { reads: Reads::Planned(recipe), .. }) = self.best_with_plan() {
            for least_reads in [2, 3, 5] {
                self.add(Course { reads: Reads::Planned(Recipe { least_reads, ..recipe }), ..best })?;
            }
        }
        if let best @ Course { reads: Reads::Planned(recipe), .. } = self.best().course {
            let other = if best.log == LogFate::Kept { LogFate::Drained } else { LogFate::Kept };
            self.add(Course { log: other, ..best })?;
            self.add(Course { absorbs: !best.absorbs, ..best })?;
            let reads = Reads::Planned(Recipe { placement: Placement::Planned, ..recipe });
            self.add(Course { reads, ..self.best().course })?;
        }
        if let Some(chosen) = self.drained_for_free(best_with_plan, without_plan)? {
            return Some(chosen);
        }
        let best = self.best_of_all(without_plan);
        let (course, prediction, mut budget) = (best.course, self.prediction(best), self.budget);
        if matches!(course.reads, Reads::Planned(_)) {
            budget.moved(prediction.moves);
        }
        Some(Chosen { course, prediction, budget, best_with_plan, answers: self.answers() })
    }

    /// The best course without a plan that moves nothing; `None` if one could not be tried.
    pub fn choose_without_plan(mut self) -> Option<Course> {
        let now = Course::as_it_is(self.rehearsal.writes);
        self.add(now)?;
        self.add(Course::as_it_is(Writes { absorbs: !now.absorbs, drains: false }))?;
        let best = self.best().course;
        // To stand aside again, less is asked for than to absorb.
        let passes = Course::as_it_is(Writes::default());
        if now.absorbs && wins(self.whole_cost(passes)?, self.whole_cost(now)?, ERROR) {
            return Some(passes);
        }
        Some(self.drained_for_free(None, best)?.map_or(best, |free| free.course))
    }

    /// The choice of [`Course::FREE`], if it wins; inner `None` if not. It is compared only if the best course so far
    /// has no plan. It is tried on all requests since the last choice, not on the two parts: a course without a plan
    /// was made from none of them, and what draining saves shows only over a long time.
    #[allow(clippy::option_option)] // none could be tried, or it does not win
    fn drained_for_free(
        &self,
        best_with_plan: Option<Course>,
        without_plan: Course,
    ) -> Option<Option<Chosen>> {
        let best = self.best_of_all(without_plan).course;
        let has_plan = matches!(best.reads, Reads::Planned(_));
        if has_plan || !self.rehearsal.can_drain_for_free() {
            return Some(None);
        }
        let [now, best, free] = [self.tried[0].course, best, Course::FREE];
        let [as_it_is, least, with] = [self.whole_cost(now)?, self.whole_cost(best)?, self.whole_cost(free)?];
        if free == now
            || !self.affords(free, as_it_is - with)
            || !wins(with, as_it_is.min(least), self.error(free))
        {
            return Some(None);
        }
        Some(Some(Chosen { best_with_plan, ..self.chosen_on_whole(free)? }))
    }

    /// The trial of a course without a plan on all requests since the last choice; `None` without a result.
    fn on_whole(&self, course: Course) -> Option<Trial> {
        let known =
            self.on_whole.borrow().iter().find(|(tried, _)| *tried == course).map(|(_, trial)| *trial);
        if known.is_some() {
            return known;
        }
        let trial = self.rehearsal.trial(course, None, self.whole)?;
        self.on_whole.borrow_mut().push((course, trial));
        Some(trial)
    }

    /// The choice of a course by its trial on all requests since the last choice.
    fn chosen_on_whole(&self, course: Course) -> Option<Chosen> {
        let (now, trial) = (self.on_whole(self.tried[0].course)?, self.on_whole(course)?);
        let prediction = Prediction {
            present: now.busy(),
            chosen: trial.busy(),
            moves: trial.moves,
            requests: self.whole.requests(),
        };
        let (budget, answers) = (self.budget, self.answers());
        Some(Chosen { course, prediction, budget, best_with_plan: None, answers })
    }

    /// Cost of a course without a plan over all requests since the last choice, in nanoseconds.
    fn whole_cost(&self, course: Course) -> Option<i128> {
        let trial = self.on_whole(course)?;
        Some(i128::from((trial.busy() + trial.moves).0) - self.saved(&trial))
    }

    /// The part of the backlog's cost that a trial saved: pages that it overwrote need not be drained any more.
    fn saved(&self, trial: &Trial) -> i128 {
        let dirty = self.rehearsal.fork.map().dirty().max(1) as i128;
        i128::from(self.drain_backlog.0) * i128::from(trial.overwritten_pages) / dirty
    }

    /// Sets how long a course is expected to last: as long as plans have lasted so far. If a plan gains a part p of
    /// what a new one does, one window later, then p, its square and so on are expected of the next windows: p / (1 -
    /// p) in all. But nothing is expected to last longer than all that is known.
    fn expect_to_last(&mut self, last: &Plan, with_plan: Course, without_plan: Course) -> Option<()> {
        let emptied = self.normal(Course { reads: Reads::Emptied, ..without_plan });
        self.add(emptied)?;
        let requests = |tried: &[Trial]| tried.iter().map(|trial| trial.requests.0 as f64).sum::<f64>();
        let aged = |part: &Part| self.rehearsal.trial(with_plan, Some(last), &part.later);
        let aged = requests(&self.parts.iter().map(aged).collect::<Option<Vec<Trial>>>()?);
        let (off, new) = (requests(&self.of(emptied)?.trials), requests(&self.of(with_plan)?.trials));
        let lasting = if new < off { ((off - aged) / (off - new)).clamp(0.0, 1.0) } else { 0.0 };
        let windows = lasting / (1.0 - lasting).max(1e-3);
        let windows = windows.min(self.past as f64 / self.whole.requests().max(1) as f64);
        self.life = (self.whole.requests() as f64 * windows) as u64;
        Some(())
    }

    /// The course that costs least among those with a plan.
    fn best_with_plan(&self) -> Option<Course> {
        let with_plan = self.tried.iter().filter(|tried| matches!(tried.course.reads, Reads::Planned(_)));
        with_plan.min_by_key(|tried| self.sum(tried)).map(|tried| tried.course)
    }

    /// Cost on all parts.
    fn sum(&self, tried: &Tried) -> i128 {
        tried.trials.iter().zip(self.parts).map(|(trial, part)| self.cost(trial, part)).sum()
    }

    /// Tries a course, unless it was tried.
    fn add(&mut self, course: Course) -> Option<()> {
        let course = self.normal(course);
        if self.of(course).is_some() {
            return Some(());
        }
        let trial = |part: &Part| {
            let plan = plan(self.rehearsal, course, &part.known);
            self.rehearsal.trial(course, plan.as_ref(), &part.later)
        };
        let trials = self.parts.iter().map(trial).collect::<Option<Vec<Trial>>>()?;
        self.tried.push(Tried { course, trials });
        Some(())
    }

    /// The course that does the same and moves nothing, where there is nothing to move; and absorbs nothing, if the
    /// options say so.
    fn normal(&self, course: Course) -> Course {
        let course = Course { absorbs: course.absorbs && self.rehearsal.options.absorb, ..course };
        let is_empty = self.rehearsal.fork.map().mapped() == 0;
        let reads = if is_empty && course.reads == Reads::Emptied { Reads::Kept } else { course.reads };
        Course { reads, log: if is_empty { LogFate::Kept } else { course.log }, ..course }
    }

    /// Counts what the present course has saved, over all requests since the last choice.
    fn pay(&mut self) -> Option<()> {
        let [now, off] = [self.tried[0].course, self.normal(Course::OFF)].map(|course| self.on_whole(course));
        self.budget.served(now?.busy(), off?.busy());
        Some(())
    }

    /// While more was lost than may be: the course that does less than the present one and costs least over all
    /// requests since the last choice, if it wins; inner `None` if not.
    #[allow(clippy::option_option)] // none could be tried, or none wins
    fn less(&self) -> Option<Option<Chosen>> {
        let now = self.tried[0].course;
        let passes = Course { absorbs: false, log: LogFate::Drained, drains: false, ..now };
        let [passes, off] = [passes, Course::OFF].map(|course| self.normal(course));
        let best = if self.whole_cost(off)? < self.whole_cost(passes)? { off } else { passes };
        if !wins(self.whole_cost(best)?, self.whole_cost(now)?, ERROR) {
            return Some(None);
        }
        self.chosen_on_whole(best).map(Some)
    }

    /// Whether a course may be chosen that is predicted to save this much disk time, less its moves, in as many
    /// requests as there were since the last choice.
    fn affords(&self, course: Course, saves: i128) -> bool {
        let now = self.tried[0].course;
        let does_more = matches!(course.reads, Reads::Planned(_)) || (course.absorbs && !now.absorbs);
        !(does_more && self.budget.is_overdrawn()) || self.budget.left() + saves / 2 >= 0
    }

    /// How much less than the present course this one must cost, in thousandths.
    fn error(&self, course: Course) -> i128 {
        if course.absorbs && !self.tried[0].course.absorbs { ERROR_OF_ABSORBING } else { ERROR }
    }

    /// Whether a plan that costs more than the budget has left saves much in each part: then it pays soon, also if the
    /// requests to come are not quite like those that it was judged on.
    fn is_sure_of(&self, tried: &Tried) -> bool {
        let is_planned = matches!(tried.course.reads, Reads::Planned(_));
        if !is_planned || i128::from(tried.moves().0) <= self.budget.left() {
            return true;
        }
        let busy = |trial: &Trial| i128::from(trial.busy().0);
        let mut each = tried.trials.iter().zip(&self.tried[0].trials);
        each.all(|(trial, now)| wins(busy(trial), busy(now), SAVES_MUCH))
    }

    /// Disk time that a course saves, less its moves, in as many requests as there were since the last choice.
    fn saves(&self, tried: &Tried) -> i128 {
        let saved = i128::from(self.tried[0].busy().0) - i128::from(tried.busy().0);
        let (all, played) = (i128::from(self.whole.requests()), i128::from(self.played().max(1)));
        saved * all / played - i128::from(tried.moves().0)
    }

    /// What was tried of a course.
    fn of(&self, course: Course) -> Option<&Tried> {
        self.tried.iter().find(|tried| tried.course == course)
    }

    /// Requests that a trial of all parts plays.
    fn played(&self) -> u64 {
        self.parts.iter().map(|part| part.later.requests()).sum()
    }

    /// The first is the present course; another one has to win in each part.
    fn best(&self) -> &Tried {
        let now = &self.tried[0];
        let wins = |tried: &&Tried| {
            if !self.affords(tried.course, self.saves(tried)) || !self.is_sure_of(tried) {
                return false;
            }
            let error = self.error(tried.course);
            let mut each = tried.trials.iter().zip(&now.trials).zip(self.parts);
            each.all(|((trial, now), part)| wins(self.cost(trial, part), self.cost(now, part), error))
        };
        self.tried.iter().filter(wins).min_by_key(|tried| self.sum(tried)).unwrap_or(now)
    }

    /// The best course, where `without_plan` was the best one without a plan over as many requests as there were since
    /// the last choice. That plans do not last so long says nothing against it.
    fn best_of_all(&self, without_plan: Course) -> &Tried {
        let best = self.best();
        let has_plan = matches!(best.course.reads, Reads::Planned(_));
        let is_too_short = self.life < self.whole.requests();
        if has_plan || !is_too_short { best } else { self.of(without_plan).unwrap_or(best) }
    }

    /// Cost of a course over its expected life, in nanoseconds, without the backlog that every course has to drain.
    fn cost(&self, trial: &Trial, part: &Part) -> i128 {
        let lasts = |nanos: Nanos| {
            i128::from(nanos.0) * i128::from(self.life) / i128::from(part.later.requests().max(1))
        };
        lasts(trial.requests) + lasts(trial.draining) + i128::from(trial.moves.0) - self.saved(trial)
    }

    /// Answers of the present course in both parts.
    fn answers(&self) -> Answers {
        let each = self.tried[0].trials.iter().map(|trial| trial.answers);
        each.fold(Answers::default(), Answers::with)
    }

    fn prediction(&self, tried: &Tried) -> Prediction {
        Prediction {
            present: self.tried[0].busy(),
            chosen: tried.busy(),
            moves: tried.moves(),
            requests: self.played(),
        }
    }
}

/// The plan of a course, if it has one.
pub(super) fn plan(rehearsal: &Rehearsal, course: Course, known: &Known) -> Option<Plan> {
    let Reads::Planned(recipe) = course.reads else { return None };
    let granularity = rehearsal.granularity;
    let scene = Scene {
        graph: match recipe.edges {
            Edges::Process => &known.process,
            Edges::Global => &known.global,
        },
        window: &known.window,
        last: None,
        held: rehearsal.fork.map(),
        layout: rehearsal.fork.layout(),
        granularity,
        models: Some(&rehearsal.models),
    };
    let plan = recipe.planner.planner(rehearsal.options.threshold).plan(&scene);
    let plan = plan.read_at_least(recipe.least_reads);
    Some(if recipe.placement == Placement::Planned { plan.with_slots(granularity) } else { plan })
}
