//! Fails the n-th request to a component, once and permanently, on every component, for every n.
//!
//! Whatever fails, no read may return wrong content, every request is answered, and after a crash at any moment, with
//! the fault gone, the volume opens and holds what was durable.

use std::rc::Rc;

use seekless_core::Nanos;
use seekless_layers::fault::error;

use super::choose::Choices;
use super::log::Event;
use super::named::Known;
use super::power::{Crash, Power};
use super::restart::Failure;
use super::run::Plan;
use super::settling::Settling;
use super::{Explorer, Finding, Followed, Script};
use crate::check::history;
use crate::setup::Progress;

/// Crashes of a run after which each request of the next opening fails: the most, and the fewest where an opening has
/// too many requests: more would take more runs than [`OPENING_RUNS`].
const OPENINGS: u64 = 50;
const FEWEST_OPENINGS: u64 = 4;
/// Runs of openings.
const OPENING_RUNS: u64 = 3_000;
/// States at a moment of a run with a fault.
const EACH: u64 = 3;

/// What was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultTally {
    /// Runs with a fault.
    pub runs: u64,
    /// Most requests to a component in one of them.
    pub most: u64,
    /// Requests of clients that failed.
    pub errors: u64,
    /// Commands that failed.
    pub failed_commands: u64,
    /// Longest response time.
    pub longest: Nanos,
}

/// Options of the layer that fails the n-th request to a component, and possibly all from then on.
pub fn options((component, nth, for_ever): (u32, u64, bool)) -> (u32, error::Options) {
    (component, error::Options { nth, for_ever, ..error::Options::default() })
}

impl Explorer<'_> {
    /// Runs a script on a new volume, once for each request to a component that may fail.
    pub fn faults(&mut self, script: &Script, progress: &dyn Fn(Progress)) -> Result<FaultTally, Finding> {
        let mut tally = FaultTally::default();
        let (plan, registers) = self.plan(script)?;
        self.each_fault(&plan, &registers, &mut tally, progress)?;
        self.faults_of_openings(&plan, registers, &mut tally, progress)?;
        self.uncounted = self.tally.states;
        Ok(tally)
    }

    /// A run for each request to each component that fails, once and permanently.
    fn each_fault(
        &mut self,
        plan: &Plan,
        registers: &Known,
        tally: &mut FaultTally,
        progress: &dyn Fn(Progress),
    ) -> Result<(), Finding> {
        for component in 0..self.opener.sectors.len() as u32 {
            for for_ever in [false, true] {
                for nth in 1.. {
                    let plan = Plan { fault: Some(options((component, nth, for_ever))), ..plan.clone() };
                    if !self.fault(&plan, registers.clone(), nth, tally)? {
                        break;
                    }
                    progress(Progress { what: "requests that fail", done: nth, of: tally.most.max(nth) });
                }
            }
        }
        Ok(())
    }

    /// As `each_fault`, for each request of an opening, after some of the crashes of a run.
    fn faults_of_openings(
        &mut self,
        plan: &Plan,
        mut registers: Known,
        tally: &mut FaultTally,
        progress: &dyn Fn(Progress),
    ) -> Result<(), Finding> {
        let run = plan.run(&self.opener);
        let (mut power, mut settling) = (Power::new(plan.images.clone()), Settling::new(plan));
        self.begin(plan);
        let every = |openings: u64| (run.log.events.len() / openings as usize).max(1);
        let (mut next, mut openings, before) = (0, 0, tally.runs);
        for (index, event) in run.log.events.iter().enumerate() {
            let judged = registers.event(event, &mut settling);
            judged.map_err(|failure| self.finding(&failure, None))?;
            power.follow(&run.log, event);
            if index < next {
                continue;
            }
            // The second choice is the first random one.
            let chosen = Choices::new(&power.pending, &run.log, self.rng.bits()).nth(1);
            let survivors = chosen.unwrap_or_default();
            let crash = Crash { events: index + 1, survivors, keeps: 0, ..Crash::default() };
            let (images, cached) = power.restart(&run.log, &crash);
            if let Some(segment) = self.segments.last_mut() {
                segment.crash = Some(crash);
            }
            let mut registers = registers.clone();
            registers.crash();
            let first = plan.first + plan.steps.len() as u64;
            let opening = Plan { images, cached, steps: Rc::new([]), first, ..plan.clone() };
            self.each_fault(&opening, &registers, tally, progress)?;
            openings += 1;
            let runs_each = (tally.runs - before).div_ceil(openings).max(1);
            next = index + every((OPENING_RUNS / runs_each).clamp(FEWEST_OPENINGS, OPENINGS));
        }
        self.segments.pop();
        Ok(())
    }

    /// One run with a fault; returns whether the fault occurred.
    fn fault(
        &mut self,
        plan: &Plan,
        registers: Known,
        nth: u64,
        tally: &mut FaultTally,
    ) -> Result<bool, Finding> {
        let run = plan.run(&self.opener);
        self.tally.carried_out += 1;
        self.reached(&run.edges);
        if run.met < nth && run.stalled.is_none() {
            return Ok(false);
        }
        tally.runs += 1;
        tally.most = tally.most.max(run.met);
        tally.longest = tally.longest.max(run.log.longest);
        tally.failed_commands +=
            run.log.commands.iter().filter(|command| command.error.is_some()).count() as u64;
        let failed = |event: &&Event| matches!(event, Event::Client(history::Event::Failed { .. }));
        tally.errors += run.log.events.iter().filter(failed).count() as u64;
        self.begin(plan);
        // An opening follows a crash, even where one is the depth of the exploration.
        let depth = (self.segments.len() - 1).min(self.tally.by_depth.len() - 1);
        let followed = Followed { plan, log: &run.log, depth, each: EACH, all: false };
        self.follow(&followed, registers)?;
        if let Some(stalled) = run.stalled {
            return Err(self.finding(&Failure::Stalled(stalled), None));
        }
        self.in_time(&run.log)?;
        self.segments.pop();
        Ok(true)
    }
}
