//! The planner (section 4.3): from the access graph to an order of pages.
//!
//! Greedy: it starts with the most connected vertex, the one with the largest sum of edge weights.
//! Then the vertex most connected to the group in one direction is placed: behind the group if its
//! edges come from the group, before it if they lead there. When nothing that is left is connected
//! to the group by at least the threshold, the most connected of the rest starts a group of its own.
//! It ends when the read cache is full. Ties: higher weight, then lower address, then behind.
//!
//! Each edge is looked at when its first end is placed; a priority queue finds the next vertex.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::analyzer::{Graph, Vertex};

/// Where pages are to be: ranges in order of the read cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Ranges of pages, to lie one behind the other.
    pub ranges: Vec<Vertex>,
}

impl Plan {
    /// How many pages.
    pub fn pages(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.pages)).sum()
    }
}

/// How strongly a vertex that is not placed is connected to the group, by direction.
#[derive(Clone, Copy, Default)]
struct Pull {
    behind: u64,
    before: u64,
}

/// Greedy growth of one group after the other.
struct Growth<'a> {
    graph: &'a Graph,
    placed: Vec<bool>,
    pull: Vec<Pull>,
    /// Vertices with a pull to the present group.
    pulled: Vec<u32>,
    /// (weight, lower address first, behind first, vertex); stale entries have an older weight.
    next: BinaryHeap<(u64, Reverse<u32>, bool, u32)>,
    threshold: u64,
}

/// The order of at most `capacity` pages.
pub fn plan(graph: &Graph, threshold: u32, capacity: u64) -> Plan {
    let count = graph.vertices().len();
    let mut growth = Growth {
        graph,
        placed: vec![false; count],
        pull: vec![Pull::default(); count],
        pulled: Vec::new(),
        next: BinaryHeap::new(),
        threshold: u64::from(threshold.max(1)),
    };
    let connected =
        |vertex: &u32| graph.edges_at(*vertex).iter().map(|edge| u64::from(edge.weight)).sum::<u64>();
    let mut seeds: Vec<u32> = (0..count as u32).collect();
    seeds.sort_by_cached_key(|vertex| (Reverse(connected(vertex)), *vertex));
    let (mut plan, mut left) = (Plan::default(), capacity);
    for seed in seeds {
        if growth.placed[seed as usize] {
            continue;
        }
        let (group, full) = growth.group(seed, &mut left);
        let ranges = group.into_iter().map(|vertex| graph.vertices()[vertex as usize]);
        plan.ranges.extend(ranges.filter(|range| range.read));
        if full {
            break;
        }
    }
    plan
}

impl Growth<'_> {
    /// Grows a group from `seed`; true with it when the next vertex would not fit any more.
    fn group(&mut self, seed: u32, left: &mut u64) -> (VecDeque<u32>, bool) {
        let mut group = VecDeque::new();
        self.next.clear();
        for vertex in self.pulled.drain(..) {
            self.pull[vertex as usize] = Pull::default();
        }
        let mut next = Some((seed, true));
        while let Some((placing, behind)) = next {
            let vertex = self.graph.vertices()[placing as usize];
            let pages = if vertex.read { u64::from(vertex.pages) } else { 0 };
            if pages > *left {
                return (group, true);
            }
            *left -= pages;
            if behind {
                group.push_back(placing);
            } else {
                group.push_front(placing);
            }
            self.place(placing);
            next = self.strongest();
        }
        (group, false)
    }

    fn place(&mut self, vertex: u32) {
        self.placed[vertex as usize] = true;
        for edge in self.graph.edges_at(vertex) {
            if self.placed[edge.other as usize] {
                continue;
            }
            let pull = &mut self.pull[edge.other as usize];
            let sum = if edge.out { &mut pull.behind } else { &mut pull.before };
            *sum += u64::from(edge.weight);
            self.pulled.push(edge.other);
            if *sum >= self.threshold {
                self.next.push((*sum, Reverse(edge.other), edge.out, edge.other));
            }
        }
    }

    fn strongest(&mut self) -> Option<(u32, bool)> {
        while let Some((weight, _, behind, vertex)) = self.next.pop() {
            let pull = self.pull[vertex as usize];
            let now = if behind { pull.behind } else { pull.before };
            if !self.placed[vertex as usize] && now == weight {
                return Some((vertex, behind));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One-page vertices 0..count, far apart.
    fn graph(count: u32, edges: &[(u32, u32, u32)]) -> Graph {
        Graph::new(
            (0..count).map(|v| Vertex { start: v * 10, pages: 1, read: true }).collect(),
            edges.to_vec(),
        )
    }

    fn order(graph: &Graph, threshold: u32, capacity: u64) -> Vec<u32> {
        plan(graph, threshold, capacity).ranges.iter().map(|range| range.start / 10).collect()
    }

    /// The weights of Figure 5 are not in the paper's text; these are ours, made so that every step
    /// of its caption holds: C is the most connected; B follows it; G goes before the group; the
    /// final order is F H J A G C B E D.
    #[test]
    fn figure_5_grows_from_the_most_connected_vertex() {
        const NAMES: &str = "ABCDEFGHJ";
        let edges = ["CB9", "GC8", "BE4", "AG7", "CE2", "JA5", "ED4", "HJ3", "FH2", "CD1"].map(|edge| {
            let vertex = |at: usize| NAMES.find(&edge[at..=at]).unwrap() as u32;
            (vertex(0), vertex(1), edge[2..].parse().unwrap())
        });
        let graph = graph(9, &edges);
        let named: Vec<_> =
            order(&graph, 1, 100).into_iter().map(|v| &NAMES[v as usize..=v as usize]).collect();
        assert_eq!(named.concat(), "FHJAGCBED");
        let first_steps: Vec<_> =
            order(&graph, 1, 3).into_iter().map(|v| &NAMES[v as usize..=v as usize]).collect();
        assert_eq!(first_steps.concat(), "GCB", "C, then B behind it, then G before both");
    }

    #[test]
    fn components_are_groups_and_weak_edges_place_nothing() {
        let graph = graph(6, &[(0, 1, 5), (1, 2, 1), (3, 4, 9)]);
        assert_eq!(order(&graph, 1, 100), [3, 4, 0, 1, 2, 5]);
        assert_eq!(order(&graph, 2, 100), [3, 4, 0, 1, 2, 5], "2 now stands alone");
        assert_eq!(order(&graph, 1, 3), [3, 4, 1], "the rest starts with 1, the most connected, and is full");
    }

    /// Section 4.3 word by word, in O(n^2): the oracle for the fast planner.
    fn literal(graph: &Graph, threshold: u32, capacity: u64) -> Vec<u32> {
        let count = graph.vertices().len() as u32;
        let degree = |v: u32| graph.edges_at(v).iter().map(|e| u64::from(e.weight)).sum::<u64>();
        let (mut placed, mut order) = (vec![false; count as usize], Vec::new());
        while let Some(seed) =
            (0..count).filter(|&v| !placed[v as usize]).max_by_key(|&v| (degree(v), Reverse(v)))
        {
            let mut group: VecDeque<u32> = VecDeque::from([seed]);
            if order.len() as u64 + 1 > capacity {
                return order;
            }
            placed[seed as usize] = true;
            loop {
                let pull = |v: u32, out: bool| {
                    let edges = graph.edges_at(v).iter().filter(|e| e.out != out && group.contains(&e.other));
                    edges.map(|e| u64::from(e.weight)).sum::<u64>()
                };
                let left = (0..count).filter(|&v| !placed[v as usize]);
                let candidates = left
                    .flat_map(|v| [(pull(v, true), Reverse(v), true), (pull(v, false), Reverse(v), false)]);
                let best = candidates.filter(|c| c.0 >= u64::from(threshold.max(1))).max();
                let Some((_, Reverse(vertex), behind)) = best else { break };
                if (order.len() + group.len()) as u64 + 1 > capacity {
                    order.extend(group);
                    return order;
                }
                placed[vertex as usize] = true;
                if behind { group.push_back(vertex) } else { group.push_front(vertex) }
            }
            order.extend(group);
        }
        order
    }

    proptest! {
        #[test]
        fn the_fast_planner_agrees_with_the_paper(
            count in 1..14_u32,
            raw in prop::collection::btree_map((0..14_u32, 0..14_u32), 1..6_u32, 0..40),
            threshold in 1..4_u32,
            capacity in 1..16_u64,
        ) {
            let edges: Vec<_> = raw
                .into_iter()
                .filter(|((from, to), _)| from != to && *from < count && *to < count)
                .map(|((from, to), weight)| (from, to, weight))
                .collect();
            let graph = graph(count, &edges);
            prop_assert_eq!(order(&graph, threshold, capacity), literal(&graph, threshold, capacity));
        }
    }
}
