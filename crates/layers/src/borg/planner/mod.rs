//! Planners (section 4.3): from a profile of the workload to the pages that the read cache should hold, and their
//! slots.
//!
//! A planner is a pure function of a [`Scene`]; the same scene gives the same plan. It is offloaded
//! ([`seekless_core::runtime::offload`]).

mod address;
mod chains;
mod first_touch;
mod greedy;
mod lru;
mod organ_pipe;
mod path_cover;
mod runs;
mod scene;
mod smq;

use serde::{Deserialize, Serialize};

use super::analyzer::{Graph, Vertex};
use super::store::Slot;
use lru::Lru;
use organ_pipe::{CYLINDER, OrganPipe};
use runs::Runs;
use smq::Smq;

pub use address::Address;
pub use first_touch::FirstTouch;
pub use greedy::Greedy;
pub use path_cover::PathCover;
pub use scene::Scene;

/// Decides the contents and order of the read cache.
pub trait Planner: Send {
    /// A plan of at most as many pages as the read cache has room for.
    fn plan(&self, scene: &Scene<'_>) -> Plan;
}

/// A planner that needs the access graph alone.
pub trait Order: Send {
    /// An order of at most `capacity` pages, in units of the access graph.
    fn order(&self, graph: &Graph, capacity: u64) -> Plan;
}

impl<T: Order> Planner for T {
    fn plan(&self, scene: &Scene<'_>) -> Plan {
        match scene.last {
            // It costs as much as the newer requests do, not as all that are known: the paper's section 7.
            Some(last) => last.extended(&self.order(scene.graph, u64::MAX), scene.capacity()),
            None => self.order(scene.graph, scene.capacity()),
        }
    }
}

/// The planners, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlannerName {
    /// The paper's: groups that grow from the most connected page.
    #[default]
    Greedy,
    /// Paths along the heaviest edges.
    PathCover,
    /// In order of address.
    Address,
    /// In the order in which pages were first used.
    FirstTouch,
    /// The most recently used pages; with `full_plan_every` above 1 those of the last plan too.
    Lru,
    /// The hottest pages in the middle, cooler ones to both sides.
    OrganPipe,
    /// Sequences of requests that came again, then the other pages, the hottest first.
    Runs,
    /// A queue in levels, up which pages move with each request; with `full_plan_every` above 1 it goes on from the
    /// last plan.
    Smq,
}

impl PlannerName {
    /// The planner, which ignores edges below `threshold`.
    pub fn planner(self, threshold: u32) -> Box<dyn Planner> {
        match self {
            PlannerName::Greedy => Box::new(Greedy { threshold }),
            PlannerName::PathCover => Box::new(PathCover { threshold }),
            PlannerName::Address => Box::new(Address),
            PlannerName::FirstTouch => Box::new(FirstTouch),
            PlannerName::Lru => Box::new(Lru),
            PlannerName::OrganPipe => Box::new(OrganPipe { step: CYLINDER }),
            PlannerName::Runs => Box::new(Runs { threshold }),
            PlannerName::Smq => Box::new(Smq),
        }
    }
}

/// A range of pages in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The pages, in units of `1 << granularity` pages as in the access graph.
    pub range: Vertex,
    /// The slot of the first page; `None` leaves the place open.
    pub slot: Option<Slot>,
}

impl Planned {
    /// A range without a slot.
    pub fn anywhere(range: Vertex) -> Planned {
        Planned { range, slot: None }
    }
}

/// The pages that the read cache should hold, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Ranges of pages, each after the one before.
    pub ranges: Vec<Planned>,
}

impl Plan {
    /// Number of pages, in units of the access graph.
    pub fn pages(&self) -> u64 {
        self.ranges.iter().map(|planned| u64::from(planned.range.pages)).sum()
    }

    /// The same plan with a slot for each range, one after the other from slot 0 (section 4.4).
    pub fn with_slots(mut self, granularity: u32) -> Plan {
        let mut next = 0;
        for planned in &mut self.ranges {
            planned.slot = Some(next);
            next += planned.range.pages << granularity;
        }
        self
    }

    /// The same plan without the ranges that were read less often than this.
    pub fn read_at_least(mut self, times: u32) -> Plan {
        self.ranges.retain(|planned| planned.range.reads >= times);
        self
    }

    /// This plan, followed by what `newer` adds, up to `capacity` pages.
    pub fn extended(&self, newer: &Plan, capacity: u64) -> Plan {
        let mut placed: Vec<Vertex> = self.ranges.iter().map(|planned| planned.range).collect();
        placed.sort_unstable_by_key(|range| range.start);
        let (mut plan, mut left) = (self.clone(), capacity.saturating_sub(self.pages()));
        for planned in &newer.ranges {
            for part in parts_outside(planned.range, &placed) {
                if u64::from(part.pages) > left {
                    return plan;
                }
                left -= u64::from(part.pages);
                plan.ranges.push(Planned::anywhere(part));
            }
        }
        plan
    }
}

/// The parts of a range that overlap none of `placed`, which are in order of pages.
fn parts_outside(range: Vertex, placed: &[Vertex]) -> Vec<Vertex> {
    let (mut parts, mut start, end) = (Vec::new(), range.start, range.start + range.pages);
    let from = placed.partition_point(|there| there.start + there.pages <= start);
    for there in placed[from..].iter().take_while(|there| there.start < end) {
        if there.start > start {
            parts.push(Vertex { start, pages: there.start - start, ..range });
        }
        start = there.start + there.pages;
    }
    if start < end {
        parts.push(Vertex { start, pages: end - start, ..range });
    }
    parts
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
