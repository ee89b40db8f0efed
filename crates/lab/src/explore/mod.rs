//! The crash explorer: runs a volume, cuts its power wherever something new may be lost, and checks each restart.
//!
//! A run is carried out once and logged. Then its log is replayed: at each write and flush of a component, as it begins
//! and as it ends, [`choose`] selects which of the non-durable writes survive; the resulting content of the components
//! is a fork of their images; the volume is opened on it and checked ([`restart`]). Some restarts continue: the volume
//! is run again from there, its opening included, and loses power again, to a depth.
//!
//! A state counts once it was opened and checked; it is new if none before had the same images. A known one is checked
//! again only if less is allowed than before.

mod all;
pub mod campaign;
pub mod case;
pub mod choose;
pub mod component;
pub mod conditions;
mod edited;
pub mod faults;
mod gone;
pub mod image;
mod last;
pub mod log;
mod meeting;
pub mod named;
mod options;
pub mod power;
pub mod replay;
pub mod restart;
pub mod rot;
pub mod run;
pub mod script;
mod settling;
pub mod shrink;
pub mod spent;
pub mod stream;
mod swarm;
mod tally;
mod weak;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use rustc_hash::FxHashSet;
use seekless_core::Nanos;
use seekless_core::runtime::Rng;

use self::all::All;
use self::case::{Case, Segment};
use self::choose::Choices;
use self::conditions::Conditions;
use self::image::{Image, mixed};
use self::log::Log;
use self::named::Known;
use self::options::COMMAND_BOUND;
pub use self::options::Options;
use self::power::{Crash, Power, Survivor};
use self::restart::{Failure, Judge, Opener};
use self::rot::Rots;
use self::run::Plan;
use self::script::Step;
use self::settling::Settling;
use self::spent::Part;
pub use self::tally::Tally;
use crate::setup::Progress;
use seekless_volume::description::Description;
use seekless_volume::settings::{self, Setting};

/// Pages of exhaustive small workloads.
const ALL_PAGES: u64 = 2;
/// Factor by which moments right after a guarantee, such as an answered flush, are examined more often.
const PROMISED: u64 = 4;
/// Factor by which runs continue more often from states with a torn write of metadata.
const TORN: u64 = 8;
/// States at a moment of a run that began after a crash.
const EACH_AFTER: u64 = 4;
/// Where only some moments are examined: one in this many of a run that began after a crash.
const ONE_IN_AFTER: u64 = 3;
/// One in this many of the crashes that are continued from leaves the components their caches, or one of them.
const KILLS: u64 = 2;
/// In a run in which one request fails, one in this many moments is examined.
const FAULT_MOMENTS: u64 = 8;
/// Consecutive choices without a new state after which a moment is done.
const IN_VAIN: u32 = 16;
/// One in this many states is checked once more with a rotten sector, where layers distinguish that from a torn one.
const ROTS: u64 = 8;

/// A violation, and how to reproduce it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Description.
    pub wrong: String,
    /// Runs and crashes that lead to it.
    pub case: Case,
}

/// Requests to a new volume, and their conditions.
#[derive(Clone, Debug)]
pub struct Script {
    /// Requests and commands.
    pub steps: Rc<[Step]>,
    /// Clients, and the behaviour of components.
    pub conditions: Conditions,
    /// Options of the volume that differ from its file.
    pub settings: Vec<Setting>,
}

/// Explores a volume.
pub struct Explorer<'a> {
    description: &'a Description,
    opener: Opener<'a>,
    /// Options of the opener's volume that differ from the description.
    settings: Vec<Setting>,
    options: Options,
    judge: Judge,
    /// Whether layers' metadata is sealed.
    rots: Rots,
    /// Draws edits of the origin, if the topmost layer lies on one that can be edited.
    edits: Option<Rng>,
    /// States that were examined before the ones that the limit is for.
    uncounted: u64,
    /// Components of which one may be missing: after a crash, or only after a stop.
    spare: Vec<u32>,
    spare_stopped: Vec<u32>,
    rng: Rng,
    seen: FxHashSet<u64>,
    metadata: FxHashSet<u64>,
    /// States checked since less was allowed.
    fresh: FxHashSet<u64>,
    segments: Vec<Segment>,
    tally: Tally,
    /// Initial states of runs, by the settings of their volumes and their start values, once created.
    begin: BTreeMap<(Vec<Setting>, u64), Begin>,
}

/// Initial state of a run: components of zeroes, or a volume that was filled.
#[derive(Clone)]
struct Begin {
    images: Vec<Image>,
    registers: Known,
    /// Number of the next request.
    first: u64,
}

/// A run whose log is replayed, and its depth.
#[derive(Clone, Copy)]
struct Followed<'a> {
    plan: &'a Plan,
    log: &'a Log,
    depth: usize,
    each: u64,
    /// Whether every set of survivors is examined.
    all: bool,
}

impl<'a> Explorer<'a> {
    /// An explorer of a checked description.
    pub fn new(description: &'a Description, options: Options) -> Explorer<'a> {
        let by_depth = vec![0; options.depth as usize];
        let opener = Opener::new(Cow::Borrowed(description));
        Explorer {
            description,
            edits: Explorer::can_be_edited(&opener).then(|| Rng::seeded(!options.seed)),
            opener,
            settings: Vec::new(),
            rng: Rng::seeded(options.seed),
            judge: Judge::new(options.clock),
            rots: Rots::of(description),
            uncounted: 0,
            spare: gone::spare(description, false),
            spare_stopped: gone::spare(description, true),
            options,
            seen: FxHashSet::default(),
            metadata: FxHashSet::default(),
            fresh: FxHashSet::default(),
            segments: Vec::new(),
            tally: Tally { by_depth, ..Tally::default() },
            begin: BTreeMap::new(),
        }
    }

    /// What was examined so far.
    pub fn tally(&self) -> Tally {
        let mut tally = self.tally.clone();
        (tally.judged, tally.whole, tally.sectors) =
            (self.judge.judged, self.judge.whole, self.judge.sectors);
        tally.spent = self.judge.spent.clone();
        for (edge, times) in &self.judge.edges {
            *tally.edges.entry(edge).or_default() += times;
        }
        tally
    }

    /// States that count towards the limit: not those of runs in which one request fails, which all belong to one
    /// script.
    pub fn counted(&self) -> u64 {
        self.tally.states - self.uncounted
    }

    /// Whether the limit is reached.
    pub fn is_done(&self) -> bool {
        self.counted() >= self.options.states
    }

    /// Runs a script on a new volume, and cuts its power wherever possible.
    pub fn explore(&mut self, script: &Script) -> Result<(), Finding> {
        let (plan, registers) = self.plan(script)?;
        self.run(&plan, registers, 0, self.options.each)
    }

    /// Runs a script on a new volume to its end, without a power cut.
    pub fn plain(&mut self, script: &Script) -> Result<(), Finding> {
        let (plan, registers) = self.plan(script)?;
        self.run(&plan, registers, 0, 0)
    }

    /// Explores every sequence of `requests` requests to a few pages, with every set of survivors.
    pub fn explore_all(&mut self, requests: usize, progress: &dyn Fn(Progress)) -> Result<(), Finding> {
        let sectors = self.opener.description.check().unwrap_or(0);
        let scripts = all::scripts(requests, ALL_PAGES, sectors);
        for (done, steps) in (0..).zip(&scripts) {
            let conditions = Conditions::usual(1, self.options.seed);
            let script = Script { steps: steps.clone(), conditions, settings: Vec::new() };
            let (plan, registers) = self.plan(&script)?;
            self.run(&plan, registers, 0, u64::MAX)?;
            progress(Progress { what: "sequences of requests", done, of: scripts.len() as u64 });
        }
        Ok(())
    }

    /// The plan of a script's run on a new volume.
    fn plan(&mut self, script: &Script) -> Result<(Plan, Known), Finding> {
        self.set(&script.settings, script.conditions.marks);
        let numbers = script.conditions.numbers;
        let kind = (self.settings.clone(), numbers);
        let begin = match self.begin.remove(&kind) {
            Some(begin) => begin,
            None => self.begin_anew(numbers)?,
        };
        self.begin.insert(kind, begin.clone());
        let Begin { images, registers, first } = begin;
        let (steps, conditions) = (script.steps.clone(), script.conditions);
        Ok((Plan { conditions, ..Plan::new(images, steps, first) }, registers))
    }

    /// Sets the options of the volume from now on, and whether its components have marks.
    fn set(&mut self, settings: &[Setting], marks: bool) {
        if self.settings != settings || self.opener.marks != marks {
            self.settings = settings.to_vec();
            self.opener = Opener { marks, ..Opener::new(settings::applied(self.description, settings)) };
            // Results for another volume do not apply.
            self.judge.forget();
            self.fresh.clear();
        }
    }

    fn begin_anew(&mut self, numbers: u64) -> Result<Begin, Finding> {
        let images = self.opener.sectors.iter().map(|sectors| Image::new(*sectors)).collect();
        let begin = Begin { images, registers: Known::default(), first: 1 };
        if self.options.fill { self.filled(begin, numbers) } else { Ok(begin) }
    }

    /// Writes every page, and flushes.
    fn filled(&mut self, mut begin: Begin, numbers: u64) -> Result<Begin, Finding> {
        let sectors = self.opener.description.check().unwrap_or(0);
        let steps = script::fill(sectors).into_iter().map(Step::Ask).collect();
        let conditions = Conditions { numbers, ..Conditions::usual(1, 0) };
        let plan = Plan { conditions, ..Plan::new(begin.images, steps, begin.first) };
        let run = plan.run(&self.opener);
        self.reached(&run.edges);
        let mut power = Power::new(plan.images);
        for event in &run.log.events {
            power.follow(&run.log, event);
            let judged = begin.registers.event(event, &mut Settling::default());
            judged.map_err(|failure| self.finding(&failure, None))?;
        }
        begin.registers.narrowed();
        Ok(Begin { images: power.durable, first: plan.first + plan.steps.len() as u64, ..begin })
    }

    fn run(&mut self, plan: &Plan, registers: Known, depth: usize, each: u64) -> Result<(), Finding> {
        let run = plan.run(&self.opener);
        self.tally.runs += 1;
        self.tally.carried_out += 1;
        self.tally.longest = self.tally.longest.max(run.log.longest);
        self.tally.commands += run.log.commands.len() as u64;
        self.tally.longest_command = self.tally.longest_command.max(run.log.longest_command());
        self.reached(&run.edges);
        self.begin(plan);
        let followed = Followed { plan, log: &run.log, depth, each, all: each == u64::MAX };
        let result = self.follow(&followed, registers).and_then(|()| match (run.closed, run.stalled) {
            // With a fault, a volume may fail to open, and a command may fail.
            (Some(error), _) if !plan.fails() => Err(self.finding(&Failure::Closed(error), None)),
            (_, Some(stalled)) => Err(self.finding(&Failure::Stalled(stalled), None)),
            _ => match self.opener.failure(&run.log) {
                Some(failure) if !plan.fails() => Err(self.finding(&failure, None)),
                _ => self.in_time(&run.log),
            },
        });
        self.segments.pop();
        result
    }

    fn in_time(&self, log: &Log) -> Result<(), Finding> {
        let bound = self.options.bound;
        let limits = [
            ("request was answered", log.longest, bound),
            ("command ended", log.longest_command(), Nanos(bound.0.saturating_mul(COMMAND_BOUND))),
        ];
        match limits.into_iter().find(|(_, longest, bound)| longest > bound) {
            Some((what, longest, bound)) => Err(self.finding(&Failure::Late { what, longest, bound }, None)),
            None => Ok(()),
        }
    }

    fn begin(&mut self, plan: &Plan) {
        let fault =
            plan.fault.as_ref().map(|(component, options)| (*component, options.nth, options.for_ever));
        let (steps, conditions) = (plan.steps.to_vec(), plan.conditions);
        let first = self.segments.is_empty();
        let settings = if first { self.settings.clone() } else { Vec::new() };
        let fill = self.options.fill && first;
        self.segments.push(Segment { steps, conditions, settings, fill, fault, crash: None });
        // Results for another volume do not apply.
        self.fresh.clear();
    }

    fn reached(&mut self, edges: &[(&'static str, u64)]) {
        for (edge, times) in edges {
            *self.tally.edges.entry(edge).or_default() += times;
        }
    }

    /// Replays a log, and cuts power wherever something changes on a component.
    fn follow(&mut self, followed: &Followed, mut registers: Known) -> Result<(), Finding> {
        let mut power = Power::new(followed.plan.images.clone());
        let mut settling = Settling::new(followed.plan);
        let part = if followed.each == 0 { Part::Powered } else { Part::Runs };
        for (index, event) in followed.log.events.iter().enumerate() {
            let judged = registers.event(event, &mut settling);
            judged.map_err(|failure| self.finding(&failure, None))?;
            let (narrowed, of_named) = registers.narrowed();
            let less = of_named || !narrowed.is_empty();
            if less {
                self.fresh.clear();
                self.judge.narrow(narrowed);
            }
            // An answer after which less is allowed may be violated by the state before it.
            let changed = power.follow(followed.log, event) || less;
            // Runs in which one request fails are many, and all alike up to it.
            let last = index + 1 == followed.log.events.len();
            let few = !followed.all && self.options.one_in > 1;
            let one_in = if followed.depth == 0 { self.options.one_in } else { ONE_IN_AFTER };
            let promised = less || Power::has_repaired(followed.log, event);
            // What was just guaranteed may depend on something that is not durable yet.
            let one_in = if promised { one_in.div_ceil(PROMISED) } else { one_in };
            let looks = !few || last || self.rng.chance(1, one_in);
            let one = followed.plan.fault.is_some();
            let looks = looks && (!one || last || self.rng.chance(1, FAULT_MOMENTS));
            // The first state of a moment has only what is durable.
            let each =
                if looks { followed.each } else { u64::from(few && promised && !one).min(followed.each) };
            // A run in which requests fail is followed to its end, but no more states are judged than asked for.
            let enough = self.is_done() && !one;
            // What was in the caches before belongs to the previous run.
            if changed && each > 0 && !enough && index >= 2 * followed.plan.cached.len() {
                self.judge.spent.on(part);
                self.tally.moments += 1;
                self.moment(&Followed { each, ..*followed }, index + 1, &power, &registers)?;
                // A run without crashes, or with a fault, is checked to its end.
                if self.is_done() && followed.each > 0 && !followed.plan.fails() {
                    break;
                }
            }
        }
        self.judge.spent.on(part);
        self.stopped_without_one(followed, &power, &registers)
    }

    /// Examines the states of one moment.
    fn moment(
        &mut self,
        followed: &Followed,
        happened: usize,
        power: &Power,
        registers: &Known,
    ) -> Result<(), Finding> {
        let by_chance =
            Choices::new(&power.pending, followed.log, self.rng.bits()).with_torn(followed.plan.torn.clone());
        let systematic = if followed.all { usize::MAX } else { by_chance.systematic() };
        let choices: Box<dyn Iterator<Item = Vec<Survivor>>> =
            if followed.all { Box::new(All::new(&power.pending, followed.log)) } else { Box::new(by_chance) };
        let mut in_vain = 0;
        for (turn, survivors) in (0..followed.each as usize).zip(choices) {
            let crash = Crash { events: happened, survivors, keeps: 0, ..Crash::default() };
            let images = power.cut(followed.log, &crash.survivors);
            let hash = images.iter().fold(0, |hash, image| mixed(hash, image.hash()));
            self.judge.spent.on(Part::Cuts);
            if !self.fresh.insert(hash) {
                in_vain += 1;
                if in_vain > IN_VAIN && turn >= systematic {
                    break;
                }
                continue;
            }
            in_vain = 0;
            if let Err(failure) = self.judge.judge(&self.opener, &images, registers) {
                return Err(self.finding(&failure, Some(crash)));
            }
            if self.seen.insert(hash) {
                self.tally.states += 1;
                self.tally.by_depth[followed.depth] += 1;
                let metadata = images.iter().fold(0, |hash, image| mixed(hash, image.metadata()));
                self.tally.metadata_states += u64::from(self.metadata.insert(metadata));
            }
            if self.rots != Rots::Nothing && self.rng.chance(1, ROTS) {
                self.rotten(followed.log, &crash, images, registers)?;
            }
            self.edited(&crash, &|| power.cut(followed.log, &crash.survivors), registers)?;
            self.without_one(&crash, &|| power.cut(followed.log, &crash.survivors), registers)?;
            let torn = power::torn(followed.log, &crash.survivors).next().is_some();
            let one_in = if torn { self.options.goes_on.div_ceil(TORN) } else { self.options.goes_on };
            if followed.depth + 1 < self.options.depth as usize && self.rng.chance(1, one_in) {
                let keeps = self.keeps();
                self.go_on(followed, Crash { keeps, ..crash }, power, registers)?;
            }
        }
        Ok(())
    }

    /// Draws the components that keep their caches in a crash that is continued from.
    fn keeps(&mut self) -> u64 {
        if !self.rng.chance(1, KILLS) {
            return 0;
        }
        let only = 1 << self.rng.below(self.opener.sectors.len().max(1) as u64);
        if self.rng.chance(1, 2) { u64::MAX } else { only }
    }

    /// Runs the volume again after a crash, and crashes it again.
    fn go_on(
        &mut self,
        followed: &Followed,
        crash: Crash,
        power: &Power,
        registers: &Known,
    ) -> Result<(), Finding> {
        let last = self.judge.remember();
        let mut registers = registers.clone();
        registers.crash();
        let count = followed.plan.steps.len();
        let steps = self.steps_after(&followed.plan.steps);
        let first = followed.plan.first + count as u64;
        let (images, cached) = power.restart(followed.log, &crash);
        let torn = power::torn(followed.log, &crash.survivors).collect();
        let conditions = Conditions { seed: self.rng.bits(), ..followed.plan.conditions };
        let plan = Plan { images, cached, steps, first, conditions, torn, ..followed.plan.clone() };
        if let Some(segment) = self.segments.last_mut() {
            segment.crash = Some(crash);
        }
        self.run(&plan, registers, followed.depth + 1, EACH_AFTER)?;
        if let Some(segment) = self.segments.last_mut() {
            segment.crash = None;
        }
        self.fresh.clear();
        self.judge.recall(last);
        Ok(())
    }

    fn finding(&self, failure: &Failure, crash: Option<Crash>) -> Finding {
        let mut segments = self.segments.clone();
        if let (Some(segment), true) = (segments.last_mut(), crash.is_some()) {
            segment.crash = crash;
        }
        Finding { wrong: failure.to_string(), case: Case(segments) }
    }
}
