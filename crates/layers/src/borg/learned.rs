//! Knowledge of the workload: profiled and analysed requests, heat, the last plan (sections 4.1 to 4.3).
//!
//! Invariant: requests that do not fit into the profiler's memory are analysed, none is lost; while the analyzer is in
//! use elsewhere they stay in the profiler.

use seekless_core::{Extent, Nanos};

use super::analyzer::Analyzer;
use super::budget::Budget;
use super::choice::Prediction;
use super::heat::Heat;
use super::planner::Plan;
use super::profiler::{Access, Profiler, Window};
use super::saved::Saved;

/// Knowledge of the workload.
pub(super) struct Learned {
    profiler: Profiler,
    /// Heat of the parts of the volume.
    pub heat: Heat,
    /// Analyzer of earlier requests; `None` while it is in use elsewhere.
    analyzer: Option<Analyzer>,
    last_plan: Plan,
    plans: u32,
    /// The last rehearsal, and the number of plans declined.
    rehearsal: (Prediction, u64),
    pub budget: Budget,
    /// Maximum memory of profiler and analyzer each, in bytes.
    memory: u64,
    global: bool,
    /// Grows with everything that is learned.
    changes: u64,
}

impl Learned {
    /// Nothing yet, for a volume of `pages` pages; profiler and analyzer use about `memory` bytes each at most. With
    /// `global`, jumps between all requests are analysed too.
    pub fn new(pages: u64, memory: u64, global: bool) -> Learned {
        Learned {
            profiler: Profiler::default(),
            heat: Heat::new(pages),
            analyzer: Some(Analyzer::bounded(memory).with_global(global)),
            global,
            last_plan: Plan::default(),
            plans: 0,
            rehearsal: Default::default(),
            budget: Budget::default(),
            memory,
            changes: 0,
        }
    }

    /// Records a request for `at`; `access` is its profile.
    pub fn note(&mut self, at: Extent, access: &Access) {
        self.changes += 1;
        self.heat.note(at);
        self.profiler.note(access);
        if let Some(analyzer) = &mut self.analyzer {
            let spilled = self.profiler.spill(self.memory);
            if !spilled.is_empty() {
                analyzer.add(spilled.iter());
            }
        }
    }

    /// Forgets all requests, whether they are analysed or not.
    pub fn forget(&mut self) {
        self.profiler.take();
        self.analyzer = Some(Analyzer::bounded(self.memory).with_global(self.global));
    }

    /// Number of plans that were begun.
    pub fn plans(&self) -> u32 {
        self.plans
    }

    /// Takes the input of a plan: the requests since the last one, the analyzer, and the last plan, if there was one.
    /// Heat ages with each plan.
    pub fn begin_plan(&mut self) -> (Window, Analyzer, Option<Plan>) {
        self.plans += 1;
        self.changes += 1;
        self.heat.age();
        let last = (self.plans > 1).then(|| self.last_plan.clone());
        let analyzer =
            self.analyzer.take().unwrap_or_else(|| Analyzer::bounded(self.memory).with_global(self.global));
        (self.profiler.take(), analyzer, last)
    }

    /// Puts the analyzer back after its use elsewhere.
    pub fn set_analyzer(&mut self, analyzer: Analyzer) {
        self.analyzer = Some(analyzer);
        self.changes += 1;
    }

    /// Number of requests since the last plan that are not analysed yet.
    pub fn window_requests(&self) -> u64 {
        self.profiler.window().requests()
    }

    /// The requests since the last plan that are not analysed yet.
    pub fn window(&self) -> Window {
        self.profiler.window().clone()
    }

    /// Records a new plan.
    pub fn set_last_plan(&mut self, plan: Plan) {
        self.last_plan = plan;
        self.changes += 1;
    }

    /// Records a rehearsal, and whether its plan was declined.
    pub fn set_rehearsal(&mut self, prediction: Prediction, declined: bool) {
        self.rehearsal = (prediction, self.rehearsal.1 + u64::from(declined));
        self.changes += 1;
    }

    /// A number that grows with everything that is learned.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The analyzer of earlier requests; `None` while in use elsewhere.
    pub fn analyzer(&self) -> Option<&Analyzer> {
        self.analyzer.as_ref()
    }

    /// What can be saved, without the state of others; `None` while the analyzer is in use elsewhere.
    pub fn saved(&self) -> Option<Saved> {
        Some(Saved {
            writes: None,
            watch: (0, 0),
            paused: Nanos::ZERO,
            requests: self.profiler.requests(),
            plans: self.plans,
            rehearsal: self.rehearsal,
            budget: self.budget,
            analyzer: self.analyzer.clone()?,
            window: self.profiler.window().clone(),
            last_plan: self.last_plan.clone(),
        })
    }

    /// Goes on from what was saved.
    pub fn restore(&mut self, saved: Saved) {
        self.changes += 1;
        self.profiler.restore(saved.window, saved.requests);
        (self.plans, self.rehearsal, self.last_plan) = (saved.plans, saved.rehearsal, saved.last_plan);
        self.budget = saved.budget;
        self.analyzer = Some(saved.analyzer);
    }

    /// The last prediction, and the number of plans declined.
    pub fn rehearsal(&self) -> (Prediction, u64) {
        self.rehearsal
    }

    /// Number of requests profiled in total.
    pub fn requests(&self) -> u64 {
        self.profiler.requests()
    }

    /// Memory of the requests that are profiled, in bytes.
    pub fn profile_bytes(&self) -> u64 {
        self.profiler.bytes()
    }

    /// Memory of the graph, in bytes; 0 while in use elsewhere.
    pub fn graph_bytes(&self) -> u64 {
        self.analyzer.as_ref().map_or(0, Analyzer::bytes)
    }
}
