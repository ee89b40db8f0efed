//! What was learnt of the workload: requests profiled and analysed, heat, the last plan (sections 4.1 to 4.3).
//!
//! Invariant: requests that do not fit into the memory of the profiler are analysed, none is forgotten; while the
//! analyzer is at work elsewhere they stay.

use seekless_core::Extent;

use super::analyzer::Analyzer;
use super::heat::Heat;
use super::planner::Plan;
use super::profiler::{Access, Profiler, Window};
use super::rehearsal::Prediction;

/// What was learnt of the workload.
pub(super) struct Learned {
    profiler: Profiler,
    /// How often parts were asked for.
    pub heat: Heat,
    /// What was seen before; `None` while it is at work.
    analyzer: Option<Analyzer>,
    last_plan: Plan,
    plans: u32,
    /// The last rehearsal, and how many of them declined a plan.
    rehearsal: (Prediction, u64),
    /// Bytes that profiler and analyzer may take each.
    memory: u64,
}

impl Learned {
    /// Nothing yet of a volume of so many pages; profiler and analyzer take `memory` bytes at most each, about.
    pub fn new(pages: u64, memory: u64) -> Learned {
        Learned {
            profiler: Profiler::default(),
            heat: Heat::new(pages),
            analyzer: Some(Analyzer::bounded(memory)),
            last_plan: Plan::default(),
            plans: 0,
            rehearsal: Default::default(),
            memory,
        }
    }

    /// A request for `at`; `access` is what is profiled of it.
    pub fn note(&mut self, at: Extent, access: &Access) {
        self.heat.note(at);
        self.profiler.note(access);
        if let Some(analyzer) = &mut self.analyzer {
            let spilled = self.profiler.spill(self.memory);
            if !spilled.is_empty() {
                analyzer.add(spilled.iter());
            }
        }
    }

    /// Number of plans that were begun.
    pub fn plans(&self) -> u32 {
        self.plans
    }

    /// Takes what a plan is made of: the requests since the last one, the analyzer, and the last plan unless it is made
    /// anew.
    pub fn begin_plan(&mut self, anew: bool) -> (Window, Analyzer, Option<Plan>) {
        self.plans += 1;
        self.heat.age();
        let last = (!anew).then(|| self.last_plan.clone());
        let analyzer = self.analyzer.take().unwrap_or_else(|| Analyzer::bounded(self.memory));
        (self.profiler.take(), analyzer, last)
    }

    /// The analyzer is back.
    pub fn analyzed(&mut self, analyzer: Analyzer) {
        self.analyzer = Some(analyzer);
    }

    /// A plan was made.
    pub fn planned(&mut self, plan: Plan) {
        self.last_plan = plan;
    }

    /// A plan was rehearsed, and perhaps declined.
    pub fn rehearsed(&mut self, prediction: Prediction, declined: bool) {
        self.rehearsal = (prediction, self.rehearsal.1 + u64::from(declined));
    }

    /// What the last rehearsal predicted, and how many plans were declined.
    pub fn rehearsal(&self) -> (Prediction, u64) {
        self.rehearsal
    }

    /// Number of requests that were profiled, ever.
    pub fn requests(&self) -> u64 {
        self.profiler.requests()
    }

    /// Memory of the requests that are profiled, in bytes.
    pub fn profile_bytes(&self) -> u64 {
        self.profiler.bytes()
    }

    /// Memory of the graph, in bytes; 0 while it is at work.
    pub fn graph_bytes(&self) -> u64 {
        self.analyzer.as_ref().map_or(0, Analyzer::bytes)
    }
}
