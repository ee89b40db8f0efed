//! Paths along the heaviest edges: edges are taken from the heaviest to the lightest, each if it leads from the end of
//! a path to the start of another. Every path starts where the accesses are, not where a group happens to grow, so a
//! vertex that is tied to the middle of a path starts one of its own. The paths are placed in the order in which the
//! workload first touched them.
//!
//! Ties: the edge of the lower address. Edges are sorted once, and paths are joined by a union-find.

use std::cmp::Reverse;

use super::super::analyzer::Graph;
use super::chains::{Chain, fitting};
use super::{Order, Plan};

/// The heaviest-edge path cover.
#[derive(Clone, Copy, Debug)]
pub struct PathCover {
    /// Edges below this weight join no paths; 0 and 1 are the same.
    pub threshold: u32,
}

/// No vertex.
const NONE: u32 = u32::MAX;

impl Order for PathCover {
    fn order(&self, graph: &Graph, capacity: u64) -> Plan {
        let next = self.successors(graph);
        let mut is_first = vec![true; next.len()];
        for &vertex in next.iter().filter(|&&vertex| vertex != NONE) {
            is_first[vertex as usize] = false;
        }
        let path = |first: u32| {
            let follow = |&vertex: &u32| Some(next[vertex as usize]).filter(|&vertex| vertex != NONE);
            let vertices = std::iter::successors(Some(first), follow);
            Chain::new(vertices.map(|vertex| graph.vertices()[vertex as usize]))
        };
        let firsts = (0..next.len() as u32).filter(|&vertex| is_first[vertex as usize]);
        let mut chains: Vec<Chain> = firsts.map(path).collect();
        chains.sort_by_key(|chain| chain.touched);
        fitting(&chains, capacity)
    }
}

impl PathCover {
    /// The vertex after each one on its path.
    fn successors(self, graph: &Graph) -> Vec<u32> {
        let count = graph.vertices().len() as u32;
        let mut edges: Vec<(Reverse<u32>, u32, u32)> = Vec::with_capacity(graph.edge_count());
        for from in 0..count {
            let out = graph.edges_at(from).iter().filter(|edge| edge.out && edge.weight >= self.threshold);
            edges.extend(out.map(|edge| (Reverse(edge.weight), from, edge.other)));
        }
        edges.sort_unstable();
        let (mut next, mut follows) = (vec![NONE; count as usize], vec![false; count as usize]);
        let mut path_of: Vec<u32> = (0..count).collect();
        for (_, from, to) in edges {
            if next[from as usize] != NONE || follows[to as usize] {
                continue;
            }
            let (one, other) = (find(&mut path_of, from), find(&mut path_of, to));
            if one != other {
                path_of[other as usize] = one;
                (next[from as usize], follows[to as usize]) = (to, true);
            }
        }
        next
    }
}

/// The path of a vertex, by the number of one of its vertices.
fn find(path_of: &mut [u32], vertex: u32) -> u32 {
    let mut at = vertex;
    while path_of[at as usize] != at {
        path_of[at as usize] = path_of[path_of[at as usize] as usize];
        at = path_of[at as usize];
    }
    at
}
