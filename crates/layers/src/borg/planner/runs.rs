//! Run clustering and heat clustering, as in ALIS (Hsu, Smith and Young, *The Automatic Improvement of Locality in
//! Storage Systems*, 2005): sequences of requests that came again (runs) are kept together, then follow the other
//! pages, the hottest first.
//!
//! A run starts with the heaviest edge between two ranges that are in no run, and grows at the end that the heavier
//! edge leads on from, as long as there is one of at least the threshold. Unlike in ALIS a page has one copy, so it is
//! in one run at most. Runs are placed the hottest first, by reads per page. Ranges that were never read take no part.
//!
//! Ties: the lower address, then the end of a run before its start.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::super::analyzer::{Graph, Vertex};
use super::chains::{Chain, fitting};
use super::{Order, Plan};

/// Run clustering and heat clustering.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// Edges below this weight join no runs; 0 and 1 are the same.
    pub threshold: u32,
}

/// Growth of one run after the other.
struct Growth<'a> {
    graph: &'a Graph,
    threshold: u32,
    /// Whether a vertex may join a run: it was read, and is in none.
    free: Vec<bool>,
}

impl Order for Runs {
    fn order(&self, graph: &Graph, capacity: u64) -> Plan {
        let free = graph.vertices().iter().map(Vertex::is_read).collect();
        let mut growth = Growth { graph, threshold: self.threshold, free };
        let mut runs: Vec<Chain> = Vec::new();
        for (_, from, to) in growth.heaviest_edges() {
            if growth.free[from as usize] && growth.free[to as usize] {
                let run = growth.run(from, to);
                runs.push(Chain::new(run.into_iter().map(|vertex| graph.vertices()[vertex as usize])));
            }
        }
        let alone = graph.vertices().iter().zip(&growth.free).filter(|(_, free)| **free);
        let mut alone: Vec<Chain> = alone.map(|(&range, _)| Chain::new(std::iter::once(range))).collect();
        runs.sort_by_key(|run| Reverse(run.density()));
        alone.sort_by_key(|range| Reverse(range.density()));
        runs.append(&mut alone);
        fitting(&runs, capacity)
    }
}

impl Growth<'_> {
    /// Edges of at least the threshold, the heaviest first.
    fn heaviest_edges(&self) -> Vec<(Reverse<u32>, u32, u32)> {
        let mut edges = Vec::new();
        for from in 0..self.free.len() as u32 {
            let out = self.graph.edges_at(from).iter();
            let out = out.filter(|edge| edge.out && edge.weight >= self.threshold);
            edges.extend(out.map(|edge| (Reverse(edge.weight), from, edge.other)));
        }
        edges.sort_unstable();
        edges
    }

    /// The run that grows from an edge.
    fn run(&mut self, from: u32, to: u32) -> VecDeque<u32> {
        let mut run = VecDeque::from([from, to]);
        let (mut first, mut last) = (from, to);
        (self.free[from as usize], self.free[to as usize]) = (false, false);
        loop {
            let (after, before) = (self.heaviest(last, true), self.heaviest(first, false));
            let Some((_, Reverse(next))) = after.max(before) else { return run };
            self.free[next as usize] = false;
            if after >= before {
                last = next;
                run.push_back(next);
            } else {
                first = next;
                run.push_front(next);
            }
        }
    }

    /// The heaviest edge of at least the threshold that leads from a vertex to one in no run, or from one to it.
    fn heaviest(&self, vertex: u32, out: bool) -> Option<(u32, Reverse<u32>)> {
        let edges = self.graph.edges_at(vertex).iter();
        let edges = edges.filter(|edge| edge.out == out && edge.weight >= self.threshold);
        let edges = edges.filter(|edge| self.free[edge.other as usize]);
        edges.map(|edge| (edge.weight, Reverse(edge.other))).max()
    }
}
