//! A finding reduced to the few requests that it takes: what can be left out or made simpler is, as long as
//! something is still found. And a case replayed.
//!
//! Each attempt is a small exploration of its own, so the crash is found anew wherever it has moved to.

use seekless_core::{Extent, Op, PAGE_SECTORS};

use super::case::Case;
use super::image::Image;
use super::power::{Power, Survivor};
use super::restart::Wrong;
use super::run::Plan;
use super::script::Request;
use super::{Explorer, Finding, Options, faults, tell};
use crate::check::Registers;
use crate::description::Description;
use crate::experiment::Progress;

/// States that an attempt looks at, at most.
const ATTEMPT: u64 = 3_000;
/// Attempts, at most.
const ATTEMPTS: u64 = 400;

/// Reduces findings of one volume.
pub struct Shrinker<'a> {
    description: &'a Description,
    progress: &'a dyn Fn(Progress),
    attempts: u64,
}

/// What is left of a finding: requests, clients, and whether the faults loop finds it.
#[derive(Clone)]
struct Candidate {
    requests: Vec<Request>,
    clients: u64,
    seed: u64,
    depth: u64,
    faults: bool,
}

impl<'a> Shrinker<'a> {
    /// For a checked description.
    pub fn new(description: &'a Description, progress: &'a dyn Fn(Progress)) -> Shrinker<'a> {
        Shrinker { description, progress, attempts: 0 }
    }

    /// The smallest finding that comes of this one.
    pub fn shrink(&mut self, finding: Finding) -> Finding {
        let Some(first) = finding.case.0.first() else { return finding };
        let mut now = Candidate {
            requests: first.requests.clone(),
            clients: first.clients,
            seed: first.seed,
            depth: finding.case.0.len() as u64,
            faults: first.fault.is_some(),
        };
        let Some(mut best) = self.attempt(&now) else { return finding };
        for simpler in [Candidate { depth: 1, ..now.clone() }, Candidate { clients: 1, ..now.clone() }] {
            let depth = simpler.depth.min(now.depth);
            self.better(&mut now, Candidate { depth, ..simpler }, &mut best);
        }
        let single = Candidate { clients: 1, ..now.clone() };
        self.better(&mut now, single, &mut best);
        let mut length = now.requests.len();
        while length > 0 {
            let mut from = 0;
            while from < now.requests.len() {
                let mut fewer = now.clone();
                fewer.requests.drain(from..(from + length).min(now.requests.len()));
                if fewer.requests.is_empty() || !self.better(&mut now, fewer, &mut best) {
                    from += length;
                }
            }
            length /= 2;
        }
        for index in 0..now.requests.len() {
            for simpler in simpler(now.requests[index]) {
                let mut other = now.clone();
                other.requests[index] = simpler;
                self.better(&mut now, other, &mut best);
            }
        }
        best
    }

    /// Takes the other one, if something is still found.
    fn better(&mut self, now: &mut Candidate, other: Candidate, best: &mut Finding) -> bool {
        let Some(found) = self.attempt(&other) else { return false };
        (*now, *best) = (other, found);
        true
    }

    fn attempt(&mut self, candidate: &Candidate) -> Option<Finding> {
        self.attempts += 1;
        if self.attempts > ATTEMPTS {
            return None;
        }
        (self.progress)(Progress { what: "reducing", done: self.attempts, of: ATTEMPTS });
        let (clients, depth) = (candidate.clients, candidate.depth);
        let (each, goes_on) = if depth > 1 { (16, 8) } else { (48, u64::MAX) };
        let options = Options { states: ATTEMPT, each, depth, goes_on, clients, seed: candidate.seed };
        let mut explorer = Explorer::new(self.description, options);
        let requests = candidate.requests.clone().into();
        if candidate.faults {
            return explorer.faults(&requests, candidate.seed, &|_| ()).err();
        }
        explorer.explore(requests, candidate.seed).err()
    }
}

/// The same request with less to it.
fn simpler(request: Request) -> Vec<Request> {
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

/// Does again what a case says; an error if something is still wrong.
pub fn replay(description: &Description, case: &Case) -> Result<(), Finding> {
    let mut explorer = Explorer::new(description, Options::default());
    let (mut registers, mut first, mut images) = (Registers::new(), 1, None);
    for segment in &case.0 {
        explorer.options.clients = segment.clients;
        let mut plan = explorer.plan(segment.requests.clone().into(), segment.seed)?;
        plan.first = first;
        plan.images = images.unwrap_or(plan.images);
        plan.fault = segment.fault.map(faults::options);
        explorer.begin(&plan);
        images = Some(explorer.replay_segment(&plan, &mut registers, segment.crash.as_ref())?);
        first += segment.requests.len() as u64;
        registers.crash();
    }
    Ok(())
}

impl Explorer<'_> {
    /// One run, up to its crash; what survived.
    fn replay_segment(
        &mut self,
        plan: &Plan,
        registers: &mut Registers,
        crash: Option<&(usize, Vec<Survivor>)>,
    ) -> Result<Vec<Image>, Finding> {
        let run = plan.run(&self.opener);
        let mut power = Power::new(plan.images.clone());
        let events = crash.map_or(usize::MAX, |(events, _)| *events);
        for event in run.log.events.iter().take(events) {
            tell(registers, event).map_err(|violation| self.finding(&Wrong::Sector(violation), None))?;
            power.follow(&run.log, event);
        }
        if let (Some(stalled), None) = (run.stalled, crash) {
            return Err(self.finding(&Wrong::Stalled(stalled), None));
        }
        if let (Some(error), None, None) = (run.closed, crash, &plan.fault) {
            return Err(self.finding(&Wrong::Closed(error), None));
        }
        let images = power.cut(&run.log, crash.map_or(&[], |(_, survivors)| survivors));
        let judged = self.judge.judge_whole(&self.opener, &images, registers);
        judged.map_err(|wrong| self.finding(&wrong, crash.cloned()))?;
        Ok(images)
    }
}
