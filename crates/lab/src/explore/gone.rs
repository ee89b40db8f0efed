//! A component that is gone after a power cut, under a layer that can be started without any one of its devices.
//!
//! Fault model: any one of them fails every request. Everything that was durable has to be read, as if it were there.
//! The volume may only refuse to open before its creation has ended; these cases are counted. Runs in which another component
//! fails do not count: that may be one failure too many.

use std::collections::BTreeSet;

use seekless_volume::description::Description;

use super::case::Segment;
use super::image::Image;
use super::power::Crash;
use super::restart::Failure;
use super::{Explorer, Finding};
use crate::check::Registers;

/// One in this many states is checked once more.
const ONE_IN: u64 = 4;

/// Numbers of the components that a volume can be started without, one at a time.
pub fn spare(description: &Description) -> Vec<u32> {
    let mut spare = BTreeSet::new();
    for layer in description.layers.values() {
        let Some(key) = layer.entry.survives_with.filter(|key| layer.devices.contains_key(*key)) else {
            continue;
        };
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
        registers: &Registers,
    ) -> Result<(), Finding> {
        // A component that failed before the crash may be the one that the volume did without.
        if self.spare.is_empty() || self.segments.iter().any(Segment::fails) || !self.rng.chance(1, ONE_IN) {
            return Ok(());
        }
        let gone = self.spare[self.rng.below(self.spare.len() as u64) as usize];
        let last = self.judge.remember();
        let judged = self.judge.judge_without(&self.opener, &images(), registers, gone);
        self.judge.recall(last);
        self.tally.gone.0 += 1;
        if matches!(judged, Err(Failure::Closed(_))) && !registers.has_succeeded() {
            self.tally.gone.1 += 1;
            return Ok(());
        }
        judged.map_err(|failure| self.finding(&failure, Some(Crash { gone: Some(gone), ..crash.clone() })))
    }
}
