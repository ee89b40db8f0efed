//! The crash explorer: runs a volume, cuts its power at every moment at which something new may be lost, and looks
//! at what a restart finds.
//!
//! A run is carried out once and logged. Then its log is followed: at each write and flush of a component, as it
//! begins and as it ends, [`choose`] says which of the writes that are not durable survive; what is then on the
//! components is a fork of their images; the volume is opened on it and judged ([`restart`]). Some restarts go on:
//! the volume is run again from there, its opening included, and loses power again, to a depth.
//!
//! A state counts once it was opened and judged; it is new if no state before had the same images. A state that
//! was seen is judged again only if less is allowed than when it was.

mod all;
pub mod campaign;
pub mod case;
pub mod choose;
pub mod component;
pub mod conditions;
pub mod faults;
pub mod image;
pub mod log;
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
use self::log::{Event, Log};
use self::power::{Crash, Power, Survivor};
use self::restart::{Judge, Opener, Wrong};
use self::run::Plan;
use self::script::Step;
use self::settling::Settling;
use self::spent::Part;
pub use self::tally::Tally;
use crate::check::Registers;
use crate::setup::Progress;
use seekless_volume::description::Description;
use seekless_volume::settings::{self, Setting};

/// How much is looked at.
#[derive(Clone, Debug)]
pub struct Options {
    /// New states, after which it ends.
    pub states: u64,
    /// States a moment of a run.
    pub each: u64,
    /// Of the moments of a run one in so many is looked at: the more, the more runs there are for as many states.
    pub one_in: u64,
    /// Crashes one after the other.
    pub depth: u64,
    /// One restart in so many goes on to the next crash.
    pub goes_on: u64,
    /// Whether every page is written first.
    pub fill: bool,
    /// Runs before all others in which the power does not go; if `None`, they take turns with those in which it does,
    /// and have half of the time.
    pub plain: Option<u64>,
    /// A run in which the power stays takes about as long as judging so many restarts.
    pub run_costs: u64,
    /// Within which every request is answered, in virtual time.
    pub bound: Nanos,
    /// From which all chance follows.
    pub seed: u64,
    /// By which [`Tally::spent`] is told, in nanoseconds; the default stands still.
    pub clock: fn() -> u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            states: 100_000,
            each: 64,
            one_in: 1,
            depth: 3,
            goes_on: 200,
            fill: false,
            plain: None,
            run_costs: RUN_COSTS,
            bound: Nanos::from_millis(10_000),
            seed: 1,
            clock: || 0,
        }
    }
}

/// Restarts that take about as long as a run in which the power stays.
const RUN_COSTS: u64 = 40;
/// Pages that small workloads, all of them, are about.
const ALL_PAGES: u64 = 2;
/// Requests between a restart and the next crash, at most.
const BETWEEN: usize = 12;
/// Moments right after a promise, such as an answered flush, are looked at this many times as often as others.
const PROMISED: u64 = 4;
/// Runs go on this many times as often from states with a torn write of metadata as from others.
const TORN: u64 = 8;
/// States a moment of a run that began after a crash.
const EACH_AFTER: u64 = 4;
/// Of the crashes that are gone on from, one in so many leaves the components their caches, or one of them.
const KILLS: u64 = 2;
/// Of the moments of a run in which one request fails, one in so many is looked at.
const FAULT_MOMENTS: u64 = 8;
/// Choices in a row that are nothing new, after which a moment is done.
const IN_VAIN: u32 = 16;
/// Of so many states one is judged once more with a rotten sector, where layers tell that from a torn one.
const ROTS: u64 = 8;

/// Something is wrong, and how it came to that.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What.
    pub wrong: String,
    /// How, crash by crash.
    pub case: Case,
}

/// What a new volume is asked for, and under which conditions.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it is asked for.
    pub steps: Rc<[Step]>,
    /// By whom, and what its components are like.
    pub conditions: Conditions,
    /// Its options that are other than in its file.
    pub settings: Vec<Setting>,
}

/// Looks for what is wrong.
pub struct Explorer<'a> {
    description: &'a Description,
    opener: Opener<'a>,
    /// What the opener's volume has otherwise than the description.
    settings: Vec<Setting>,
    options: Options,
    judge: Judge,
    /// Whether what layers keep is sealed.
    rots: bool,
    rng: Rng,
    seen: FxHashSet<u64>,
    metadata: FxHashSet<u64>,
    /// States judged since less was allowed.
    fresh: FxHashSet<u64>,
    segments: Vec<Segment>,
    tally: Tally,
    /// What runs begin with, by the settings of their volumes and what those count from, once it was made.
    begin: BTreeMap<(Vec<Setting>, u64), Begin>,
}

/// What a run begins with: components of zeroes, or a volume that was filled.
#[derive(Clone)]
struct Begin {
    images: Vec<Image>,
    registers: Registers,
    /// The number of the next request.
    first: u64,
}

/// Of which run the log is followed, and how deep it is.
struct Followed<'a> {
    plan: &'a Plan,
    log: &'a Log,
    depth: usize,
    each: u64,
    /// Whether every set of survivors is looked at.
    all: bool,
}

impl<'a> Explorer<'a> {
    /// For a checked description.
    pub fn new(description: &'a Description, options: Options) -> Explorer<'a> {
        let by_depth = vec![0; options.depth as usize];
        Explorer {
            description,
            opener: Opener::new(Cow::Borrowed(description)),
            settings: Vec::new(),
            rng: Rng::seeded(options.seed),
            judge: Judge::new(options.clock),
            rots: description.layers.values().any(|layer| layer.entry.sealed),
            options,
            seen: FxHashSet::default(),
            metadata: FxHashSet::default(),
            fresh: FxHashSet::default(),
            segments: Vec::new(),
            tally: Tally { by_depth, ..Tally::default() },
            begin: BTreeMap::new(),
        }
    }

    /// What was looked at so far.
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

    /// Whether there is enough.
    pub fn is_done(&self) -> bool {
        self.tally.states >= self.options.states
    }

    /// A new volume is asked for what a script says, and loses power wherever it may.
    pub fn explore(&mut self, script: &Script) -> Result<(), Finding> {
        let (plan, registers) = self.plan(script)?;
        self.run(&plan, registers, 0, self.options.each)
    }

    /// A new volume is asked for what a script says, and keeps its power to the end.
    pub fn plain(&mut self, script: &Script) -> Result<(), Finding> {
        let (plan, registers) = self.plan(script)?;
        self.run(&plan, registers, 0, 0)
    }

    /// Every sequence of this many requests to a few pages, with every set of survivors.
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

    /// A new volume that is to be asked for what a script says.
    fn plan(&mut self, script: &Script) -> Result<(Plan, Registers), Finding> {
        self.set(&script.settings);
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

    /// From now on the volume has these settings.
    fn set(&mut self, settings: &[Setting]) {
        if self.settings != settings {
            self.settings = settings.to_vec();
            self.opener = Opener::new(settings::applied(self.description, settings));
            // What was judged of another volume says nothing.
            self.judge.forget();
            self.fresh.clear();
        }
    }

    fn begin_anew(&mut self, numbers: u64) -> Result<Begin, Finding> {
        let images = self.opener.sectors.iter().map(|sectors| Image::new(*sectors)).collect();
        let begin = Begin { images, registers: Registers::new(), first: 1 };
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
            if let Event::Client(event) = event {
                let told = begin.registers.event(event);
                told.map_err(|violation| self.finding(&Wrong::Sector(violation), None))?;
            }
        }
        begin.registers.narrowed();
        Ok(Begin { images: power.durable, first: plan.first + plan.steps.len() as u64, ..begin })
    }

    fn run(&mut self, plan: &Plan, registers: Registers, depth: usize, each: u64) -> Result<(), Finding> {
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
            // With a fault, not to open is an answer, and so is not to do as told.
            (Some(error), _) if !plan.fails() => Err(self.finding(&Wrong::Closed(error), None)),
            (_, Some(stalled)) => Err(self.finding(&Wrong::Stalled(stalled), None)),
            _ => match Wrong::command(&run.log) {
                Some(wrong) if !plan.fails() => Err(self.finding(&wrong, None)),
                _ => self.in_time(&run.log),
            },
        });
        self.segments.pop();
        result
    }

    fn in_time(&self, log: &Log) -> Result<(), Finding> {
        let (longest, bound) = (log.longest.max(log.longest_command()), self.options.bound);
        if longest > bound { Err(self.finding(&Wrong::Late { longest, bound }, None)) } else { Ok(()) }
    }

    fn begin(&mut self, plan: &Plan) {
        let fault =
            plan.fault.as_ref().map(|(component, options)| (*component, options.nth, options.for_ever));
        let (steps, conditions) = (plan.steps.to_vec(), plan.conditions);
        let first = self.segments.is_empty();
        let settings = if first { self.settings.clone() } else { Vec::new() };
        let fill = self.options.fill && first;
        self.segments.push(Segment { steps, conditions, settings, fill, fault, crash: None });
        // What was allowed elsewhere says nothing here.
        self.fresh.clear();
    }

    fn reached(&mut self, edges: &[(&'static str, u64)]) {
        for (edge, times) in edges {
            *self.tally.edges.entry(edge).or_default() += times;
        }
    }

    /// Follows a log, and cuts the power wherever something changes on a component.
    fn follow(&mut self, followed: &Followed, mut registers: Registers) -> Result<(), Finding> {
        let mut power = Power::new(followed.plan.images.clone());
        let mut settling = Settling::new(followed.plan);
        let part = if followed.each == 0 { Part::Powered } else { Part::Runs };
        for (index, event) in followed.log.events.iter().enumerate() {
            if let Event::Client(event) = event {
                let told = registers.event(&settling.told(event));
                told.map_err(|violation| self.finding(&Wrong::Sector(violation), None))?;
            }
            let narrowed = registers.narrowed();
            let less = !narrowed.is_empty();
            if less {
                self.fresh.clear();
                self.judge.narrow(narrowed);
            }
            // An answer after which less is allowed may be broken by what was there before it.
            let changed = power.follow(followed.log, event) || less;
            // Runs in which one request fails are many, and all alike up to it.
            let last = index + 1 == followed.log.events.len();
            let few = followed.depth == 0 && !followed.all && self.options.one_in > 1;
            // What was just promised may rest on something that is not durable yet.
            let one_in = if less { self.options.one_in.div_ceil(PROMISED) } else { self.options.one_in };
            let looks = !few || last || self.rng.chance(1, one_in);
            let one = followed.plan.fault.is_some();
            let looks = looks && (!one || last || self.rng.chance(1, FAULT_MOMENTS));
            // What was in the caches before belongs to the run before.
            let looks = looks && followed.each > 0 && index >= 2 * followed.plan.cached.len();
            if changed && looks {
                self.judge.spent.on(part);
                self.tally.moments += 1;
                self.moment(followed, index + 1, &power, &registers)?;
                // A run without crashes, or with a fault, is judged to its end.
                if self.is_done() && followed.each > 0 && !followed.plan.fails() {
                    break;
                }
            }
        }
        self.judge.spent.on(part);
        Ok(())
    }

    /// The states of one moment.
    fn moment(
        &mut self,
        followed: &Followed,
        happened: usize,
        power: &Power,
        registers: &Registers,
    ) -> Result<(), Finding> {
        let by_chance =
            Choices::new(&power.pending, followed.log, self.rng.bits()).beside(followed.plan.torn.clone());
        let systematic = if followed.all { usize::MAX } else { by_chance.systematic() };
        let choices: Box<dyn Iterator<Item = Vec<Survivor>>> =
            if followed.all { Box::new(All::new(&power.pending, followed.log)) } else { Box::new(by_chance) };
        let mut in_vain = 0;
        for (turn, survivors) in (0..followed.each as usize).zip(choices) {
            let crash = Crash { events: happened, survivors, keeps: 0, rot: None };
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
            if let Err(wrong) = self.judge.judge(&self.opener, &images, registers) {
                return Err(self.finding(&wrong, Some(crash)));
            }
            if self.seen.insert(hash) {
                self.tally.states += 1;
                self.tally.by_depth[followed.depth] += 1;
                let metadata = images.iter().fold(0, |hash, image| mixed(hash, image.metadata()));
                self.tally.metadata_states += u64::from(self.metadata.insert(metadata));
            }
            if self.rots && self.rng.chance(1, ROTS) {
                self.rotten(followed.log, &crash, images, registers)?;
            }
            let torn = power::torn(followed.log, &crash.survivors).next().is_some();
            let one_in = if torn { self.options.goes_on.div_ceil(TORN) } else { self.options.goes_on };
            if followed.depth + 1 < self.options.depth as usize && self.rng.chance(1, one_in) {
                let keeps = self.keeps();
                self.go_on(followed, Crash { keeps, ..crash }, power, registers)?;
            }
        }
        Ok(())
    }

    /// The components that keep their caches in a crash that is gone on from.
    fn keeps(&mut self) -> u64 {
        if !self.rng.chance(1, KILLS) {
            return 0;
        }
        let only = 1 << self.rng.below(self.opener.sectors.len().max(1) as u64);
        if self.rng.chance(1, 2) { u64::MAX } else { only }
    }

    /// The volume is used again after a crash, and crashes again.
    fn go_on(
        &mut self,
        followed: &Followed,
        crash: Crash,
        power: &Power,
        registers: &Registers,
    ) -> Result<(), Finding> {
        let last = self.judge.remember();
        let mut registers = registers.clone();
        registers.crash();
        let count = followed.plan.steps.len();
        let from = self.rng.below(count.max(1) as u64) as usize;
        let steps = followed.plan.steps.iter().cycle().skip(from).take(BETWEEN.min(count)).copied().collect();
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

    fn finding(&self, wrong: &Wrong, crash: Option<Crash>) -> Finding {
        let mut segments = self.segments.clone();
        if let (Some(segment), true) = (segments.last_mut(), crash.is_some()) {
            segment.crash = crash;
        }
        Finding { wrong: wrong.to_string(), case: Case(segments) }
    }
}
