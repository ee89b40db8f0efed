//! A whole exploration: every request to a component fails once, then runs of a workload with a seed each lose power,
//! until there are enough states; a finding is reduced; and the named edges of the layers are counted.

use seekless_core::switch;
use seekless_layers::topmost;

use super::conditions::Conditions;
use super::faults::FaultTally;
use super::shrink::Shrinker;
use super::swarm::read_back;
use super::{Explorer, Finding, Options, Script, Tally};
use crate::LabError;
use crate::setup::Progress;
use crate::workload::Load;
use seekless_volume::description::Description;

/// Factor of the rate of commands in the run whose requests to components fail: it is short, and there is only one.
const DENSER: u64 = 5;

/// Consecutive runs without a new state after which the exploration ends: a run whose components fail may have none.
const BARREN: u32 = 32;

/// What to explore, and how.
pub struct Campaign<'a> {
    /// A checked volume.
    pub description: &'a Description,
    /// Its workload; if `None`, each run draws its own requests.
    pub load: Option<&'a Load>,
    /// Requests a run.
    pub requests: u64,
    /// One in this many steps of a run is a command to the topmost layer, if it has any; 0 for none. Drawn by each run
    /// if `None`.
    pub commands: Option<u64>,
    /// Concurrent clients; drawn by each run if `None`.
    pub clients: Option<u64>,
    /// Requests of the run in which each request to a component fails; 0 for none.
    pub fault_requests: u64,
    /// Limits of the exploration.
    pub options: Options,
    /// Whether to reduce a finding to the few requests that it takes.
    pub reduces: bool,
}

/// Result of an exploration.
pub struct Explored {
    /// What was examined.
    pub tally: Tally,
    /// What was tried with faults.
    pub faults: FaultTally,
    /// Layers and their edges that were never reached.
    pub unreached: Vec<(String, &'static str)>,
    /// The first violation, which ends the exploration.
    pub finding: Option<Finding>,
    /// The finding, reduced.
    pub reduced: Option<Finding>,
}

impl Campaign<'_> {
    /// Explores runs of the workload.
    pub fn explore(&self, progress: &dyn Fn(Progress)) -> Result<Explored, LabError> {
        self.description.check()?;
        let mut explorer = Explorer::new(self.description, self.options.clone());
        let (mut faults, mut finding) = (FaultTally::default(), None);
        if self.fault_requests > 0 {
            let script = self.drawn(self.options.seed, self.fault_requests, DENSER)?;
            let usual = Conditions::usual(script.conditions.clients, script.conditions.seed);
            match explorer.faults(&Script { conditions: usual, ..script }, progress) {
                Ok(tally) => faults = tally,
                Err(found) => finding = Some(found),
            }
        }
        let mut seeds = self.options.seed..;
        let plain = self.options.plain.unwrap_or(0);
        for (run, seed) in (0..plain).zip(&mut seeds) {
            if finding.is_none() {
                finding = explorer.plain(&read_back(self.drawn(seed, self.requests, 1)?)).err();
                progress(Progress { what: "runs with power", done: run, of: plain });
            }
        }
        let (mut restarts_due, mut barren) = (0, 0);
        for seed in seeds {
            // Runs with power that are due are still made.
            if finding.is_some() || explorer.is_done() && restarts_due < self.options.run_costs {
                break;
            }
            let script = self.drawn(seed, self.requests, 1)?;
            if restarts_due >= self.options.run_costs {
                restarts_due -= self.options.run_costs;
                finding = explorer.plain(&read_back(script)).err();
                continue;
            }
            let before = explorer.tally();
            finding = explorer.explore(&script).err();
            let tally = explorer.tally();
            let (done, of) = (explorer.counted().min(self.options.states), self.options.states);
            progress(Progress { what: "crash states", done, of });
            if self.options.plain.is_none() {
                restarts_due += tally.judged - before.judged;
            }
            // A workload that does not depend on its seed yields no new states.
            barren = if tally.states == before.states { barren + 1 } else { 0 };
            if barren == BARREN {
                break;
            }
        }
        Ok(self.explored(&explorer, faults, finding, progress))
    }

    /// Explores all workloads of up to `requests` requests.
    pub fn explore_all(&self, requests: usize, progress: &dyn Fn(Progress)) -> Result<Explored, LabError> {
        self.description.check()?;
        let mut explorer = Explorer::new(self.description, self.options.clone());
        let finding = (1..=requests).find_map(|requests| explorer.explore_all(requests, progress).err());
        Ok(self.explored(&explorer, FaultTally::default(), finding, progress))
    }

    /// Commands of the topmost layer.
    pub(super) fn known_commands(&self) -> Vec<&'static str> {
        let layer = self.description.layers.get(&self.description.top);
        layer.map(|layer| topmost::commands(layer.entry)).unwrap_or_default()
    }

    fn explored(
        &self,
        explorer: &Explorer,
        faults: FaultTally,
        finding: Option<Finding>,
        progress: &dyn Fn(Progress),
    ) -> Explored {
        let tally = explorer.tally();
        let layers = self.description.layers.iter();
        let edges = layers.flat_map(|(name, layer)| {
            let of_snapshots = if self.options.snapshots > 0 { layer.entry.edges_of_snapshots } else { &[] };
            let edges = layer.entry.edges.iter().chain(of_snapshots);
            edges.map(move |edge| (name.clone(), *edge))
        });
        let changes = self.commands != Some(0) && self.known_commands().contains(&"remove");
        let above = switch::EDGES.iter().filter(|_| changes).map(|edge| ("switch".to_owned(), *edge));
        let unreached = edges.chain(above).filter(|(_, edge)| !tally.edges.contains_key(edge)).collect();
        let shrink = |finding: Finding| Shrinker::new(self.description, progress).shrink(finding);
        let reduced = finding.clone().filter(|_| self.reduces).map(shrink);
        Explored { tally, faults, unreached, finding, reduced }
    }
}
