//! Reduction of a finding to the few requests that it takes: leaves out or simplifies as much as possible, as long as
//! something is still found.
//!
//! Each attempt is a small exploration of its own, so the crash is found again wherever it has moved to.

use std::collections::BTreeMap;

use seekless_core::{Extent, Op, PAGE_SECTORS};

use super::case::{Case, Segment};
use super::conditions::Conditions;
use super::named::Change;
use super::replay::{Line, replay};
use super::script::{self, Request, Step};
use super::{Explorer, Finding, Options, Script};
use crate::check::history;
use crate::setup::Progress;
use seekless_volume::description::Description;
use seekless_volume::settings::Setting;

/// States of one attempt, at most, after one crash and after several.
const ATTEMPT: [u64; 2] = [3_000, 40_000];
/// States of all attempts together, at most.
const ALL: u64 = 400_000;

/// Reduces findings of one volume.
pub struct Shrinker<'a> {
    description: &'a Description,
    progress: &'a dyn Fn(Progress),
    /// States examined so far.
    states: u64,
}

/// The remainder of a finding.
#[derive(Clone)]
struct Candidate {
    steps: Vec<Step>,
    conditions: Conditions,
    settings: Vec<Setting>,
    /// Crashes in a row.
    depth: u64,
    /// Whether it needs a failing request to a component.
    faults: bool,
    /// Whether it needs no crash.
    plain: bool,
    /// Whether every page is written first.
    fill: bool,
}

impl<'a> Shrinker<'a> {
    /// A shrinker for a checked description.
    pub fn new(description: &'a Description, progress: &'a dyn Fn(Progress)) -> Shrinker<'a> {
        Shrinker { description, progress, states: 0 }
    }

    /// The smallest finding derived from this one.
    pub fn shrink(&mut self, finding: Finding) -> Finding {
        let finding = self.with_own_extents(finding);
        let Some(mut now) = self.first(&finding.case) else {
            return self.fewer_survivors(self.only_issued(finding));
        };
        let Some(mut best) = self.attempt(&now) else { return finding };
        let usual = Conditions::usual(now.conditions.clients, now.conditions.seed);
        let usual = Candidate { conditions: usual, ..now.clone() };
        self.better(&mut now, usual, &mut best);
        let as_in_the_file = Candidate { settings: Vec::new(), ..now.clone() };
        self.better(&mut now, as_in_the_file, &mut best);
        let single = Conditions { clients: 1, ..now.conditions };
        let single = Candidate { conditions: single, ..now.clone() };
        self.better(&mut now, single, &mut best);
        let empty = Candidate { fill: false, ..now.clone() };
        self.better(&mut now, empty, &mut best);
        let mut length = now.steps.len().next_power_of_two();
        while length > 0 {
            let mut from = 0;
            while from < now.steps.len() {
                let mut fewer = now.clone();
                fewer.steps.drain(from..(from + length).min(now.steps.len()));
                if fewer.steps.is_empty() || !self.better(&mut now, fewer, &mut best) {
                    from += length;
                }
            }
            length /= 2;
        }
        for index in 0..now.steps.len() {
            for simpler in simpler(now.steps[index]) {
                let mut other = now.clone();
                other.steps[index] = simpler;
                self.better(&mut now, other, &mut best);
            }
        }
        self.fewer_survivors(best)
    }

    /// The first candidate: only issued requests; without the crashes before the last, if those are not needed.
    fn first(&mut self, case: &Case) -> Option<Candidate> {
        let first = case.0.first()?;
        let issued: Vec<Step> = case.0.iter().flat_map(Self::issued).collect();
        let faults = first.fault.is_some();
        let plain = case.0.len() == 1 && first.crash.is_none();
        let all = Candidate {
            steps: issued,
            conditions: first.conditions,
            settings: first.settings.clone(),
            depth: 1,
            faults,
            plain,
            fill: first.fill,
        };
        let first_run = Candidate { steps: Self::issued(first), depth: case.0.len() as u64, ..all.clone() };
        let whole = Candidate { steps: first.steps.clone(), ..first_run.clone() };
        let seeds = |candidate: Candidate| {
            (0..4).map(move |more| {
                let seed = candidate.conditions.seed.wrapping_add(more);
                let conditions = Conditions { seed, ..candidate.conditions };
                Candidate { conditions, ..candidate.clone() }
            })
        };
        let mut candidates = seeds(all).chain(seeds(first_run)).chain([whole]);
        candidates.find(|candidate| self.attempt(candidate).is_some())
    }

    /// The requests that had been issued at the crash: an event each at least, and in order.
    fn issued(segment: &Segment) -> Vec<Step> {
        let events = segment.crash.as_ref().map_or(usize::MAX, |crash| crash.events);
        segment.steps.iter().take(events).copied().collect()
    }

    /// Takes the other candidate, if something is still found.
    fn better(&mut self, now: &mut Candidate, other: Candidate, best: &mut Finding) -> bool {
        let Some(found) = self.attempt(&other) else { return false };
        (*now, *best) = (other, found);
        true
    }

    fn attempt(&mut self, candidate: &Candidate) -> Option<Finding> {
        if self.states > ALL {
            return None;
        }
        (self.progress)(Progress { what: "reducing", done: self.states, of: ALL });
        let (depth, fill) = (candidate.depth, candidate.fill);
        let (states, each, goes_on) = if depth > 1 { (ATTEMPT[1], 3, 2) } else { (ATTEMPT[0], 48, u64::MAX) };
        let seed = candidate.conditions.seed;
        let options = Options { states, each, depth, goes_on, fill, seed, ..Options::default() };
        let mut explorer = Explorer::new(self.description, options);
        let (steps, settings) = (candidate.steps.clone().into(), candidate.settings.clone());
        let script = Script { steps, conditions: candidate.conditions, settings };
        let found = if candidate.faults {
            explorer.faults(&script, &|_| ()).err()
        } else if candidate.plain {
            explorer.plain(&script).err()
        } else {
            explorer.explore(&script).err()
        };
        // A run costs about as much as this many states.
        let tally = explorer.tally();
        self.states += tally.judged + 20 * tally.carried_out.max(1);
        found
    }

    /// Leaves out what had not been issued at the crash: it cannot matter.
    fn only_issued(&self, finding: Finding) -> Finding {
        let mut case = finding.case.clone();
        for index in 0..case.0.len() {
            while let Some(last) = case.0[index].steps.pop() {
                if replay(self.description, &case).finding.is_none() {
                    case.0[index].steps.push(last);
                    break;
                }
            }
        }
        replay(self.description, &case).finding.unwrap_or(finding)
    }

    /// With requests that went where the volume was at work replaced by the same requests to the same sectors.
    fn with_own_extents(&self, finding: Finding) -> Finding {
        let replayed = replay(self.description, &finding.case);
        let issued = |line: &Line| match line {
            Line::Event(history::Event::Issue { id, at, .. }) => Some((*id, *at)),
            _ => None,
        };
        let issued: BTreeMap<u64, Extent> = replayed.history.iter().filter_map(issued).collect();
        let filled = finding.case.0.first().is_some_and(|segment| segment.fill);
        let sectors = self.description.check().unwrap_or(0);
        let first = 1 + if filled { script::fill(sectors).len() as u64 } else { 0 };
        let mut case = finding.case.clone();
        let steps = case.0.iter_mut().flat_map(|segment| &mut segment.steps);
        for (id, step) in (first..).zip(steps) {
            if let Step::Meet(request) = *step {
                let at = issued.get(&id).copied().unwrap_or(request.at);
                *step = Step::Ask(Request { at, ..request });
            }
        }
        replay(self.description, &case).finding.unwrap_or(finding)
    }

    /// Leaves out of the last crash what need not survive.
    fn fewer_survivors(&self, mut finding: Finding) -> Finding {
        let mut index = 0;
        loop {
            let mut case = finding.case.clone();
            let crash = case.0.last_mut().and_then(|segment| segment.crash.as_mut());
            let Some(crash) = crash.filter(|crash| index < crash.survivors.len()) else {
                return finding;
            };
            crash.survivors.remove(index);
            match replay(self.description, &case).finding {
                Some(found) => finding = Finding { wrong: found.wrong, case },
                None => index += 1,
            }
        }
    }
}

/// Simpler variants of a step.
fn simpler(step: Step) -> Vec<Step> {
    match step {
        Step::Ask(request) => simpler_request(request).into_iter().map(Step::Ask).collect(),
        Step::Meet(request) => {
            let own = std::iter::once(Step::Ask(request));
            own.chain(simpler_request(request).into_iter().map(Step::Meet)).collect()
        }
        Step::Within(number, request) => {
            let simpler = simpler_request(request).into_iter();
            simpler.map(|request| Step::Within(number, request)).collect()
        }
        Step::Change(Change::Clone(number, Some(_))) => vec![Step::Change(Change::Clone(number, None))],
        Step::Do(_) | Step::Change(_) => Vec::new(),
    }
}

/// Simpler variants of a request.
fn simpler_request(request: Request) -> Vec<Request> {
    let Request { op, at, fua } = request;
    if op == Op::Flush {
        return Vec::new();
    }
    let page = Extent::of_pages(at.start.page(), 1);
    let mut all = vec![
        Request { at: Extent::of_pages(0, 1), ..request },
        Request { at: Extent::of_pages(1, 1), ..request },
        Request { at: page, ..request },
        Request { at: Extent { sectors: at.sectors.min(PAGE_SECTORS), ..at }, ..request },
    ];
    if fua {
        all.push(Request { fua: false, ..request });
    }
    if matches!(op, Op::WriteZeroes | Op::Discard) {
        all.push(Request { op: Op::Write, ..request });
    }
    all.retain(|other| *other != request && other.at.sectors <= at.sectors);
    all
}
