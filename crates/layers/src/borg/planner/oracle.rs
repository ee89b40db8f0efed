//! Section 4.3 step by step, in the order of its sentences and with no thought of speed: what the
//! planner is held against. It keeps nothing between steps but what is placed.

use std::collections::VecDeque;

use super::super::analyzer::{Graph, Vertex};

/// One direction or the other between the group and a vertex outside of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    After,
    Before,
}

struct Oracle<'a> {
    graph: &'a Graph,
    unplaced: Vec<u32>,
}

/// The order of at most `capacity` pages.
pub fn plan(graph: &Graph, threshold: u32, capacity: u64) -> Vec<Vertex> {
    let mut oracle = Oracle { graph, unplaced: (0..graph.vertices().len() as u32).collect() };
    let (mut order, mut left) = (Vec::new(), capacity);
    // "If the graph contains disconnected components, each of these are placed as separate groups."
    while let Some(start) = oracle.most_connected() {
        let (mut group, mut next) = (VecDeque::new(), Some((start, Side::After)));
        let mut full = false;
        while let Some((vertex, side)) = next {
            // "... or the read cache in the BOPT is fully occupied"
            let range = graph.vertices()[vertex as usize];
            let room = if range.is_read() { u64::from(range.pages) } else { 0 };
            full = room > left;
            if full {
                break;
            }
            left -= room;
            // "If v lies on the outgoing edge of u, it is placed after u and if it lies on the
            // incoming edge it is placed before."
            match side {
                Side::After => group.push_back(vertex),
                Side::Before => group.push_front(vertex),
            }
            oracle.unplaced.retain(|&other| other != vertex);
            // "... or the edges connecting to the unplaced vertices in the master graph have weight
            // below a chosen threshold"
            next = if oracle.heaviest_edge_from(&group) >= threshold.max(1) {
                oracle.most_connected_to(&group)
            } else {
                None
            };
        }
        let placed = group.iter().map(|&vertex| graph.vertices()[vertex as usize]);
        order.extend(placed.filter(Vertex::is_read));
        if full {
            break;
        }
    }
    order
}

impl Oracle<'_> {
    /// "the most connected vertex, u, i.e., with the maximum sum of incoming and outgoing edges"
    fn most_connected(&self) -> Option<u32> {
        let mut best: Option<(u64, u32)> = None;
        for &vertex in &self.unplaced {
            let sum = self.graph.edges_at(vertex).iter().map(|edge| u64::from(edge.weight)).sum();
            if best.is_none_or(|(most, _)| sum > most) {
                best = Some((sum, vertex));
            }
        }
        best.map(|(_, vertex)| vertex)
    }

    /// "the one most connected to the group", "in one direction only, either incoming or outgoing".
    /// Candidates come in order of addresses, after first: only a higher weight wins.
    fn most_connected_to(&self, group: &VecDeque<u32>) -> Option<(u32, Side)> {
        let mut best: Option<(u64, u32, Side)> = None;
        for &vertex in &self.unplaced {
            for side in [Side::After, Side::Before] {
                let weight = self.connection(group, vertex, side);
                if weight > 0 && best.is_none_or(|(most, ..)| weight > most) {
                    best = Some((weight, vertex, side));
                }
            }
        }
        best.map(|(_, vertex, side)| (vertex, side))
    }

    fn connection(&self, group: &VecDeque<u32>, vertex: u32, side: Side) -> u64 {
        let edges = group.iter().flat_map(|&member| self.graph.edges_at(member));
        let wanted = edges.filter(|edge| edge.other == vertex && edge.out == (side == Side::After));
        wanted.map(|edge| u64::from(edge.weight)).sum()
    }

    fn heaviest_edge_from(&self, group: &VecDeque<u32>) -> u32 {
        let edges = group.iter().flat_map(|&member| self.graph.edges_at(member));
        edges.filter(|edge| self.unplaced.contains(&edge.other)).map(|edge| edge.weight).max().unwrap_or(0)
    }
}
