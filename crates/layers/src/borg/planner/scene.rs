//! The scene: everything that a planner may consider.

use seekless_core::Modelled;

use super::super::analyzer::Graph;
use super::super::profiler::Window;
use super::super::store::{BorgMap, Layout};
use super::Plan;

/// What is known when a plan is made. It owns nothing and can be sent to another thread.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The access graph; where `last` is there, that of the requests since then.
    pub graph: &'a Graph,
    /// The requests to plan from that came since the last plan.
    pub window: &'a Window,
    /// The plan to extend, unless all is planned anew.
    pub last: Option<&'a Plan>,
    /// What the BOPT holds: pages, not units of the access graph.
    pub held: &'a BorgMap,
    /// How the BOPT is divided.
    pub layout: Layout,
    /// A unit of the access graph is `1 << grain` pages.
    pub granularity: u32,
    /// Models of the origin and of the BOPT, where both have one.
    pub models: Option<&'a [Modelled; 2]>,
}

impl Scene<'_> {
    /// Units of the access graph that the read cache has room for.
    pub fn capacity(&self) -> u64 {
        u64::from(self.layout.cached_slots()) >> self.granularity
    }
}
