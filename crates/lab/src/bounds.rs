//! Bounds of a comparison: what a layer that plans could reach with knowledge that it cannot have, phase by phase.
//!
//! At each reconfiguration the layer foresees the requests until the next one, and plans from these alone; the trace
//! waits meanwhile, and no copy is counted. *Oracle*: it foresees all of them. *Oracle-seen*: only what they ask of
//! pages that were read or written before, since no layer can place others. Both are the best of all policies, phase by
//! phase. *Transfer-only*: the base's transfers, without a seek or a rotational wait.
//!
//! Invariant: a bound is never above what the layer or the base needed in the same phase: these are policies too. Fault
//! model: a run that fails ends the comparison.

use std::cell::RefCell;

use rustc_hash::FxHashSet;
use seekless_core::runtime::{Runtime, Stalled};
use seekless_core::{Account, Extent, Layer, Nanos, PAGE_SECTORS, Record};
use seekless_layers::replay::{Controller, replay};
use seekless_trace::Trace;
use seekless_volume::{Description, Volume};
use toml::Value;

use crate::error::LabError;
use crate::phased_answers::PhasedAnswers;
use crate::phases::Phase;
use crate::setup::{Candidate, Play, Progress, pace_of};

/// Orders that a plan may have, with the edges that it is made from.
const PLANNERS: [(&str, &str); 6] = [
    ("greedy", "process"),
    ("greedy", "global"),
    ("path-cover", "process"),
    ("path-cover", "global"),
    ("address", "process"),
    ("first-touch", "process"),
];

/// What is done in a run, apart from what is known.
#[derive(Clone, Copy, Debug)]
struct Policy {
    /// How pages to be read are placed; `None` if no page is.
    plan: Option<Placed>,
    /// Whether writes to pages without a copy go into the log.
    absorbs: bool,
    /// Whether the log is drained when a phase begins.
    drains: bool,
}

/// How a plan places pages.
#[derive(Clone, Copy, Debug)]
struct Placed {
    planner: &'static str,
    edges: &'static str,
    placement: &'static str,
}

/// The least busy time of a phase, and the policy that needed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// Head time for clients' requests.
    pub foreground: Nanos,
    /// What was done.
    pub policy: String,
}

/// Bounds of each phase before the final write-back.
#[derive(Clone, Debug)]
pub struct Bound {
    /// With all of the phase's requests known.
    pub oracle: Vec<Best>,
    /// With those known that ask for pages seen before.
    pub seen: Vec<Best>,
    /// Runs that these are the best of.
    pub runs: u64,
}

/// What the layer foresees of the requests to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foresight {
    All,
    Seen,
}

/// Whether a volume has bounds: the layer that its clients use has planners.
pub fn has_bounds(volume: &Description) -> bool {
    volume.layers.get(&volume.top).is_some_and(|layer| (layer.entry.defaults)().contains_key("planner"))
}

/// The bounds of a run in these phases, of which each that is named `R` begins with a reconfiguration.
pub fn bound(
    trace: &Trace,
    candidate: &Candidate,
    how: &Play,
    phases: &[Phase],
    progress: &dyn Fn(Progress),
) -> Result<Bound, LabError> {
    let policies = policies();
    let mut bound = Bound { oracle: Vec::new(), seen: Vec::new(), runs: 0 };
    let of = 2 * policies.len() as u64 * trace.records.len() as u64;
    for foresight in [Foresight::Seen, Foresight::All] {
        let futures = futures(trace, phases, foresight);
        for policy in &policies {
            let done = bound.runs * trace.records.len() as u64;
            let mut now = |at| progress(Progress { what: "bounds", done: done + at, of });
            let foreground =
                run(trace, &policy.of(&candidate.volume), how, phases, &futures, policy, &mut now)?;
            let each = if foresight == Foresight::All { &mut bound.oracle } else { &mut bound.seen };
            lower(each, &foreground, &policy.name());
            bound.runs += 1;
        }
    }
    let seen = bound.seen.clone();
    for (oracle, seen) in bound.oracle.iter_mut().zip(seen) {
        oracle.lower(&seen);
    }
    Ok(bound)
}

impl Bound {
    /// Counts one more run as a policy: what was needed in each phase.
    pub fn admit(&mut self, foreground: &[Nanos], policy: &str) {
        lower(&mut self.oracle, foreground, policy);
        lower(&mut self.seen, foreground, policy);
    }
}

impl Best {
    fn lower(&mut self, other: &Best) {
        if other.foreground < self.foreground {
            self.clone_from(other);
        }
    }
}

/// Lowers the best of each phase to what a run needed.
fn lower(best: &mut Vec<Best>, foreground: &[Nanos], policy: &str) {
    let each = foreground.iter().map(|&foreground| Best { foreground, policy: policy.to_owned() });
    if best.is_empty() {
        best.extend(each);
    } else {
        best.iter_mut().zip(each).for_each(|(best, other)| best.lower(&other));
    }
}

/// All policies: each planner and placement, or none, by what becomes of writes and the log.
fn policies() -> Vec<Policy> {
    let placed = PLANNERS.iter().flat_map(|&(planner, edges)| {
        ["planned", "kept"].map(|placement| Some(Placed { planner, edges, placement }))
    });
    let plans: Vec<Option<Placed>> = std::iter::once(None).chain(placed).collect();
    let logs = [(true, false), (true, true), (false, true)];
    logs.iter()
        .flat_map(|&(absorbs, drains)| plans.iter().map(move |&plan| Policy { plan, absorbs, drains }))
        .collect()
}

impl Policy {
    /// The volume with a layer that does this.
    fn of(&self, volume: &Description) -> Description {
        let mut volume = volume.clone();
        if let Some(layer) = volume.layers.get_mut(&volume.top) {
            let options = &mut layer.options;
            let text = |value: &str| Value::String(value.to_owned());
            if let Some(Placed { planner, edges, placement }) = self.plan {
                for (key, value) in [("planner", planner), ("edges", edges), ("placement", placement)] {
                    options.insert(key.to_owned(), text(value));
                }
            }
            options.insert("rehearse".to_owned(), Value::Boolean(false));
            options.insert("absorb".to_owned(), Value::Boolean(self.absorbs));
            options.insert("training".to_owned(), text("partial"));
            options.insert("reconfigure_class".to_owned(), text("background"));
            layer.reconfigure = None;
        }
        volume
    }

    fn name(&self) -> String {
        let plan = self.plan.map_or_else(
            || "nothing placed".to_owned(),
            |Placed { planner, edges, placement }| match planner {
                "greedy" | "path-cover" => format!("{planner} by {edges}, {placement}"),
                _ => format!("{planner}, {placement}"),
            },
        );
        let log = match (self.absorbs, self.drains) {
            (false, _) => "no writes absorbed",
            (true, false) => "log kept",
            (true, true) => "log drained",
        };
        format!("{plan}; {log}")
    }
}

/// The requests to come from each reconfiguration to the next, as the layer foresees them.
fn futures(trace: &Trace, phases: &[Phase], foresight: Foresight) -> Vec<Vec<Record>> {
    let starts =
        phases.iter().filter(|phase| is_reconfiguration(phase)).map(|phase| phase.first_request as usize);
    let mut starts: Vec<usize> = starts.collect();
    starts.push(trace.records.len());
    let mut seen = FxHashSet::default();
    let mut noted = 0;
    let mut future = |from: usize, to: usize| {
        let coming = &trace.records[from..to];
        if foresight == Foresight::All {
            return coming.to_vec();
        }
        trace.records[noted..from].iter().for_each(|record| seen.extend(record.extent.pages()));
        noted = from;
        coming.iter().flat_map(|record| parts_seen(record, &seen)).collect()
    };
    starts.windows(2).map(|pair| future(pair[0], pair[1].max(pair[0]))).collect()
}

/// The parts of a request that ask for pages seen before.
fn parts_seen(record: &Record, seen: &FxHashSet<u64>) -> Vec<Record> {
    let mut parts: Vec<Extent> = Vec::new();
    for page in record.extent.pages().filter(|page| seen.contains(page)) {
        match parts.last_mut().filter(|last| last.end().page() == page) {
            Some(last) => last.sectors += PAGE_SECTORS,
            None => parts.push(Extent::of_pages(page, 1)),
        }
    }
    parts.into_iter().map(|extent| Record { extent, ..*record }).collect()
}

fn is_reconfiguration(phase: &Phase) -> bool {
    phase.name.starts_with('R')
}

/// Tells the layer what is to come, and has it reconfigured where a phase begins with that.
struct Prophet<'a> {
    layer: &'a dyn Layer,
    phases: &'a [Phase],
    /// What was not foreseen yet.
    futures: std::slice::Iter<'a, Vec<Record>>,
    policy: &'a Policy,
    /// Phases entered.
    entered: usize,
    failed: Result<(), LabError>,
}

impl Prophet<'_> {
    async fn reconfigure(&mut self) -> Result<(), LabError> {
        let Some(future) = self.futures.next() else { return Ok(()) };
        let copies = Account(self.phases.len() as u16);
        if self.policy.drains {
            self.layer.write_back(copies).await?;
        }
        self.layer.foresee(if self.policy.plan.is_some() { future } else { &[] });
        self.layer.reconfigure(copies).await?;
        Ok(())
    }
}

impl Controller for Prophet<'_> {
    async fn before(&mut self, index: u64) -> Account {
        while let Some(phase) = self.phases.get(self.entered).filter(|phase| phase.first_request <= index) {
            self.entered += 1;
            if is_reconfiguration(phase) && self.failed.is_ok() {
                self.failed = self.reconfigure().await;
            }
        }
        Account(self.entered.saturating_sub(1) as u16)
    }
}

/// Plays the trace; the head time for clients' requests in each phase.
fn run(
    trace: &Trace,
    volume: &Description,
    how: &Play,
    phases: &[Phase],
    futures: &[Vec<Record>],
    policy: &Policy,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Nanos>, LabError> {
    let runtime = Runtime::new(how.seed);
    let needed = RefCell::new(None);
    let result: Result<(), LabError> = runtime.run(async {
        let tree = Volume::new(volume).await?;
        let Some(layer) = tree.layers.get(&volume.top) else { return Ok(()) };
        let mut prophet =
            Prophet { layer: &**layer, phases, futures: futures.iter(), policy, entered: 0, failed: Ok(()) };
        let requests = trace.records.len() as u64;
        let records = trace.records.iter().map(|record| (*record, 0));
        let (top, pace) = (tree.top.clone(), pace_of(trace, how.pace));
        let replayed = replay::<PhasedAnswers>(records, requests, top, pace, &mut prophet, progress).await;
        prophet.failed?;
        if let Some(error) = replayed.failure {
            return Err(error.into());
        }
        let each = (0..phases.len() as u16).map(|phase| tree.account(Account(phase)).foreground);
        needed.replace(Some(each.collect()));
        Ok(())
    })?;
    result?;
    needed.into_inner().ok_or(LabError::Stalled(Stalled::new(runtime.now())))
}
