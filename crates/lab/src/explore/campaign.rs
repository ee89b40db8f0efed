//! A whole exploration: runs of a workload, each with a seed of its own, until there are enough states.

use std::rc::Rc;

use super::script::{self, Request};
use super::{Explorer, Finding, Options, Tally};
use crate::LabError;
use crate::description::Description;
use crate::experiment::Progress;
use crate::workload::Load;

/// What is explored, and how.
pub struct Campaign<'a> {
    /// A checked volume.
    pub description: &'a Description,
    /// What is asked of it.
    pub load: &'a Load,
    /// Requests a run.
    pub requests: u64,
    /// How much is looked at.
    pub options: Options,
}

/// What came of it.
pub struct Explored {
    /// What was looked at.
    pub tally: Tally,
    /// What is wrong, if anything was found; it ends there.
    pub finding: Option<Finding>,
}

impl Campaign<'_> {
    /// Explores.
    pub fn explore(&self, progress: &dyn Fn(Progress)) -> Result<Explored, LabError> {
        let sectors = self.description.check()?;
        let mut explorer = Explorer::new(self.description, self.options.clone());
        let mut finding = None;
        for seed in self.options.seed.. {
            let requests: Rc<[Request]> =
                script::of_workload(self.load, sectors, seed, self.requests)?.into();
            let before = explorer.tally().states;
            finding = explorer.explore(requests, seed).err();
            let states = explorer.tally().states;
            progress(Progress {
                what: "crash states",
                done: states.min(self.options.states),
                of: self.options.states,
            });
            // A workload that is the same whatever its seed has no more to give.
            if finding.is_some() || explorer.is_done() || states == before {
                break;
            }
        }
        Ok(Explored { tally: explorer.tally(), finding })
    }
}
