//! The paper's planner (section 4.3): groups that grow greedily from the most connected vertex.
//!
//! It starts with the most connected vertex, the one with the largest sum of edge weights. Then the vertex most
//! connected to the group in one direction is placed: after the group if its edges come from the group, before it if
//! they lead there. A group grows as long as an edge of at least the threshold connects it to an unplaced vertex. Then
//! the most connected unplaced vertex starts a group of its own. Planning ends when the next vertex does not fit into
//! the read cache. Ties: higher weight, then lower address, then after.
//!
//! Where the paper can be read in two ways: the threshold applies to single edges, and it ends a group, not the plan,
//! so that what it cuts off counts as a component of its own. A vertex that was never read joins its group, but takes
//! no room and is not in the plan.
//!
//! Each edge is looked at twice, when its ends are placed; a priority queue finds the next vertex.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::super::analyzer::{Graph, Vertex};
use super::{Order, Plan, Planned};

/// The paper's heuristic.
#[derive(Clone, Copy, Debug)]
pub struct Greedy {
    /// Edges below this weight let no group grow; 0 and 1 are the same.
    pub threshold: u32,
}

/// How strongly a vertex that is not placed is connected to the group, by direction.
#[derive(Clone, Copy, Default)]
struct Pull {
    after: u64,
    before: u64,
}

/// No vertex.
const NONE: u32 = u32::MAX;

/// Greedy growth of one group after the other.
struct Growth<'a> {
    graph: &'a Graph,
    /// The seed of the group that a vertex was placed in, or `NONE`.
    group_of: Vec<u32>,
    pull: Vec<Pull>,
    /// Vertices with a pull to the present group.
    pulled: Vec<u32>,
    /// (weight, lower address first, after first); stale entries have an older weight.
    next: BinaryHeap<(u64, Reverse<u32>, bool)>,
    threshold: u32,
    /// Edges of at least the threshold from the present group to what is not placed.
    strong: u64,
}

impl Order for Greedy {
    fn order(&self, graph: &Graph, capacity: u64) -> Plan {
        let count = graph.vertices().len();
        let mut growth = Growth {
            graph,
            group_of: vec![NONE; count],
            pull: vec![Pull::default(); count],
            pulled: Vec::new(),
            next: BinaryHeap::new(),
            threshold: self.threshold,
            strong: 0,
        };
        let connected =
            |vertex: u32| graph.edges_at(vertex).iter().map(|edge| u64::from(edge.weight)).sum::<u64>();
        // A heap, since a full read cache needs few of them.
        let mut seeds: BinaryHeap<_> =
            (0..count as u32).map(|vertex| (connected(vertex), Reverse(vertex))).collect();
        let (mut plan, mut left) = (Plan::default(), capacity);
        while let Some((_, Reverse(seed))) = seeds.pop() {
            if growth.group_of[seed as usize] != NONE {
                continue;
            }
            let (group, full) = growth.group(seed, &mut left);
            let ranges = group.into_iter().map(|vertex| graph.vertices()[vertex as usize]);
            plan.ranges.extend(ranges.filter(Vertex::is_read).map(Planned::anywhere));
            if full {
                break;
            }
        }
        plan
    }
}

impl Growth<'_> {
    /// Grows a group from `seed`; true with it when the next vertex would not fit any more.
    fn group(&mut self, seed: u32, left: &mut u64) -> (VecDeque<u32>, bool) {
        let mut group = VecDeque::new();
        self.next.clear();
        self.strong = 0;
        for vertex in self.pulled.drain(..) {
            self.pull[vertex as usize] = Pull::default();
        }
        let mut next = Some((seed, true));
        while let Some((placing, after)) = next {
            let vertex = self.graph.vertices()[placing as usize];
            let pages = if vertex.is_read() { u64::from(vertex.pages) } else { 0 };
            if pages > *left {
                return (group, true);
            }
            *left -= pages;
            if after {
                group.push_back(placing);
            } else {
                group.push_front(placing);
            }
            self.place(placing, seed);
            next = if self.strong > 0 { self.strongest() } else { None };
        }
        (group, false)
    }

    fn place(&mut self, vertex: u32, group: u32) {
        self.group_of[vertex as usize] = group;
        for edge in self.graph.edges_at(vertex) {
            let (there, strong) = (self.group_of[edge.other as usize], edge.weight >= self.threshold);
            if there == group {
                self.strong -= u64::from(strong);
            }
            if there != NONE {
                continue;
            }
            self.strong += u64::from(strong);
            let pull = &mut self.pull[edge.other as usize];
            if pull.after + pull.before == 0 {
                self.pulled.push(edge.other);
            }
            let sum = if edge.out { &mut pull.after } else { &mut pull.before };
            *sum += u64::from(edge.weight);
            self.next.push((*sum, Reverse(edge.other), edge.out));
        }
    }

    fn strongest(&mut self) -> Option<(u32, bool)> {
        while let Some((weight, Reverse(vertex), after)) = self.next.pop() {
            let pull = self.pull[vertex as usize];
            let now = if after { pull.after } else { pull.before };
            if self.group_of[vertex as usize] == NONE && now == weight {
                return Some((vertex, after));
            }
        }
        None
    }
}
