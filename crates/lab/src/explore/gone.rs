//! A component that is gone after a power cut, under a layer that can be started without any one of its devices.
//!
//! Fault model: any one of them fails every request. Everything that was durable has to be read, as if it were there.
//! The volume may only refuse to open before its creation has ended; these cases are counted. Runs in which another
//! component fails do not count: that may be one failure too many.
//!
//! A layer that needs a further device for that after a crash, and does not have it, is started without a component
//! after a stop only. It may refuse that: a stop does not wait until what a crash cut short is consistent.

use std::collections::BTreeSet;
use std::rc::Rc;

use seekless_volume::description::Description;

use super::case::Segment;
use super::image::Image;
use super::named::Known;
use super::power::{Crash, Power};
use super::restart::Failure;
use super::script::Step;
use super::{Explorer, Finding, Followed};

/// Requests between a restart and the next crash, at most.
const BETWEEN: usize = 12;
/// One in this many states is checked once more.
const ONE_IN: u64 = 4;

/// Numbers of the components that a volume can be started without, one at a time: after a crash, or only after a stop.
pub fn spare(description: &Description, stopped: bool) -> Vec<u32> {
    let mut spare = BTreeSet::new();
    for layer in description.layers.values() {
        for key in layer.entry.spares.iter().filter(|_| !stopped) {
            let names = if *key == "over" { Some(&layer.over) } else { layer.devices.get(*key) };
            let several = names.into_iter().filter(|names| names.len() > 1).flatten();
            spare.extend(several.flat_map(|name| description.leaves(name)));
        }
        let Some(key) = layer.entry.survives_with else { continue };
        if layer.devices.contains_key(key) == stopped {
            continue;
        }
        let others = layer.devices.iter().filter(|(other, _)| *other != key).flat_map(|(_, names)| names);
        let leaves = layer.over.iter().chain(others).flat_map(|name| description.leaves(name));
        spare.extend(leaves);
    }
    (0..)
        .zip(description.components.keys())
        .filter(|(_, name)| spare.contains(*name))
        .map(|(number, _)| number)
        .collect()
}

impl Explorer<'_> {
    /// Checks some states once more, without one of the components that the volume can do without.
    pub(super) fn without_one(
        &mut self,
        crash: &Crash,
        images: &dyn Fn() -> Vec<Image>,
        registers: &Known,
    ) -> Result<(), Finding> {
        if self.spare.is_empty() || !self.rng.chance(1, ONE_IN) {
            return Ok(());
        }
        let gone = self.spare[self.rng.below(self.spare.len() as u64) as usize];
        self.without(gone, crash, &images(), registers, !registers.has_succeeded())
    }

    /// Steps after a crash: some of those before. Half of them end with a stop, where a layer can then do without a
    /// component.
    pub(super) fn steps_after(&mut self, before: &[Step]) -> Rc<[Step]> {
        let from = self.rng.below(before.len().max(1) as u64) as usize;
        let stops = !self.spare_stopped.is_empty() && self.rng.chance(1, 2);
        let some = before.iter().copied().cycle().skip(from).take(BETWEEN.min(before.len()));
        some.chain(stops.then_some(Step::Do("stop"))).collect()
    }

    /// After a run that ended with a stop, checks the volume without each component that it can then do without.
    pub(super) fn stopped_without_one(
        &mut self,
        followed: &Followed,
        power: &Power,
        registers: &Known,
    ) -> Result<(), Finding> {
        let stopped =
            followed.log.commands.last().is_some_and(|last| last.name == "stop" && last.error.is_none());
        if !stopped || followed.plan.steps.last() != Some(&Step::Do("stop")) {
            return Ok(());
        }
        let crash = Crash { events: followed.log.events.len(), ..Crash::default() };
        let images = power.cut(followed.log, &[]);
        for gone in self.spare_stopped.clone() {
            self.without(gone, &crash, &images, registers, true)?;
        }
        Ok(())
    }

    fn without(
        &mut self,
        gone: u32,
        crash: &Crash,
        images: &[Image],
        registers: &Known,
        may_refuse: bool,
    ) -> Result<(), Finding> {
        // A component that failed before the crash may be the one that the volume did without.
        if self.segments.iter().any(Segment::fails) {
            return Ok(());
        }
        let last = self.judge.remember();
        let judged = self.judge.judge_without(&self.opener, images, registers, gone);
        self.judge.recall(last);
        self.tally.gone.0 += 1;
        if may_refuse && matches!(judged, Err(Failure::Closed(_))) {
            self.tally.gone.1 += 1;
            return Ok(());
        }
        judged.map_err(|failure| self.finding(&failure, Some(Crash { gone: Some(gone), ..crash.clone() })))
    }
}
