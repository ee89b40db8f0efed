//! Replaying a case, to see whether it still fails, with its clients' history.

use std::rc::Rc;

use seekless_core::{Extent, Op};

use super::case::Case;
use super::conditions::Conditions;
use super::image::Image;
use super::log::{Event, Log, Write};
use super::named::Known;
use super::power::{Crash, Power};
use super::restart::Failure;
use super::run::Plan;
use super::script::{self, Request, Step};
use super::settling::Settling;
use super::{Explorer, Finding, Options, Script, edited, faults};
use crate::check::history;
use seekless_volume::description::Description;

/// Sectors of a read when everything is read.
const AT_ONCE: u64 = 2_048;

/// Result of replaying a case.
pub struct Replayed {
    /// History of the clients, and after the last crash the content of everything.
    pub history: Vec<Line>,
    /// The violation, if any.
    pub finding: Option<Finding>,
}

/// A line of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// An event.
    Event(history::Event),
    /// A comment for people.
    Remark(String),
}

/// Replays a case.
pub fn replay(description: &Description, case: &Case) -> Replayed {
    let mut explorer = Explorer::new(description, Options::default());
    let mut history = Vec::new();
    let finding = explorer.replay(case, &mut history).err();
    Replayed { history, finding }
}

impl Explorer<'_> {
    fn replay(&mut self, case: &Case, history: &mut Vec<Line>) -> Result<(), Finding> {
        self.options.fill = case.0.first().is_some_and(|segment| segment.fill);
        let settings = case.0.first().map(|segment| segment.settings.clone()).unwrap_or_default();
        let first = case.0.first().map(|segment| segment.conditions).unwrap_or_default();
        let conditions = Conditions::usual(1, 0).of_volume(first);
        let nothing = Script { steps: Rc::new([]), conditions, settings };
        let (mut before, mut registers) = self.plan(&nothing)?;
        if self.options.fill {
            let sectors = self.opener.description.check().unwrap_or(0);
            let ids = (1..).zip(script::fill(sectors));
            history.extend(ids.flat_map(|(id, Request { op, at, fua })| {
                [history::Event::Issue { id, op, at, fua }, history::Event::Done { id }].map(Line::Event)
            }));
        }
        for segment in &case.0 {
            let (steps, conditions) = (segment.steps.clone().into(), segment.conditions);
            let mut plan = Plan { steps, conditions, ..before.clone() };
            plan.fault = segment.fault.map(faults::options);
            self.begin(&plan);
            let (images, cached) =
                self.replay_segment(&plan, &mut registers, segment.crash.as_ref(), history)?;
            if segment.crash.is_none() {
                return Ok(());
            }
            registers.crash();
            history.push(Line::Event(history::Event::Crash));
            before = Plan { images, cached, first: plan.first + segment.steps.len() as u64, ..before };
        }
        Ok(())
    }

    /// Replays one run, up to its crash; returns what survived.
    fn replay_segment(
        &mut self,
        plan: &Plan,
        registers: &mut Known,
        crash: Option<&Crash>,
        history: &mut Vec<Line>,
    ) -> Result<(Vec<Image>, Vec<Write>), Finding> {
        let run = plan.run(&self.opener);
        let mut power = Power::new(plan.images.clone());
        let events = crash.map_or(usize::MAX, |crash| crash.events);
        let mut settling = Settling::new(plan);
        for event in run.log.events.iter().take(events) {
            power.follow(&run.log, event);
            history.extend(remark(&run.log, event).map(Line::Remark));
            if let Event::Client(event) = event {
                history.push(Line::Event(settling.effective(event).into_owned()));
            }
            let judged = registers.event(event, &mut settling);
            judged.map_err(|failure| self.finding(&failure, None))?;
        }
        if let (Some(stalled), None) = (run.stalled, crash) {
            return Err(self.finding(&Failure::Stalled(stalled), None));
        }
        if let (Some(error), None, false) = (run.closed, crash, plan.fails()) {
            return Err(self.finding(&Failure::Closed(error), None));
        }
        if let (Some(failure), None, false) = (self.opener.failure(&run.log), crash, plan.fails()) {
            return Err(self.finding(&failure, None));
        }
        let mut images = power.cut(&run.log, crash.map_or(&[], |crash| &crash.survivors));
        let judged = match crash.and_then(|crash| crash.rot) {
            Some(rot) => {
                rot.apply(&mut images);
                self.judge.forget();
                self.judge.judge_rotten(&self.opener, &images, registers).map(drop)
            }
            None => match crash.and_then(|crash| crash.gone) {
                Some(gone) => self.judge.judge_without(&self.opener, &images, registers, gone),
                None => self.judge.judge_whole(&self.opener, &images, registers),
            },
        };
        let edited = crash.and_then(|crash| crash.edited);
        let judged = judged.and_then(|()| match edited {
            Some(seed) => edited::judge(&self.opener, &images, seed, registers).map(drop),
            None => Ok(()),
        });
        judged.map_err(|failure| {
            history.push(Line::Event(history::Event::Crash));
            let everything = self.everything(&images, plan.first + plan.steps.len() as u64);
            history.extend(everything.into_iter().map(Line::Event));
            self.finding(&failure, crash.cloned())
        })?;
        Ok(power.restart(&run.log, crash.unwrap_or(&Crash::default())))
    }

    /// History of a client that reads everything.
    fn everything(&self, images: &[Image], first: u64) -> Vec<history::Event> {
        let sectors = self.opener.description.check().unwrap_or(0);
        let starts = (0..sectors).step_by(AT_ONCE as usize);
        let reads = starts.map(|start| {
            let at = Extent::new(start, AT_ONCE.min(sectors - start));
            Step::Ask(Request { op: Op::Read, at, fua: false })
        });
        let plan = Plan::new(images.to_vec(), reads.collect(), first);
        let events = plan.run(&self.opener).log.events.into_iter();
        let client = events.filter_map(|event| match event {
            Event::Client(event) => Some(event),
            _ => None,
        });
        client.collect()
    }
}

/// A comment about a command, for people; the checker ignores it.
fn remark(log: &Log, event: &Event) -> Option<String> {
    match event {
        Event::Within(number, event) => Some(format!("in {number}: {event:?}")),
        Event::Changed(changed) => Some(format!("{changed:?}")),
        Event::Command(command) => Some(format!("do {command}")),
        Event::CommandDone(number) => {
            let command = &log.commands[*number];
            Some(match &command.error {
                None => format!("done: {}, after {}", command.name, command.took),
                Some(error) => format!("failed: {}, after {}: {error}", command.name, command.took),
            })
        }
        _ => None,
    }
}
