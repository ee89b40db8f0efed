//! The scene: everything that a planner may consider.

use seekless_core::Modelled;

use super::super::analyzer::Graph;
use super::super::profiler::Window;
use super::super::store::{BorgMap, Layout};
use super::Plan;

/// The input of a plan. It owns nothing and can be sent to another thread.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The access graph; with `last`, of the requests since then.
    pub graph: &'a Graph,
    /// The requests since the last plan.
    pub window: &'a Window,
    /// The plan to extend, unless all is planned anew.
    pub last: Option<&'a Plan>,
    /// Contents of the BOPT, in pages, not units of the access graph.
    pub held: &'a BorgMap,
    /// Layout of the BOPT.
    pub layout: Layout,
    /// A unit of the access graph is `1 << granularity` pages.
    pub granularity: u32,
    /// Models of the origin and of the BOPT, where both have one.
    pub models: Option<&'a [Modelled; 2]>,
}

impl Scene<'_> {
    /// Capacity of the read cache, in units of the access graph.
    pub fn capacity(&self) -> u64 {
        u64::from(self.layout.cached_slots()) >> self.granularity
    }
}
