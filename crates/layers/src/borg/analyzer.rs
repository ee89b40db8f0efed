//! The analyzer (section 4.2): from requests to the master access graph.
//!
//! Each process has a directed graph: its vertices are ranges of pages, its edges lead from each
//! request to the process's next one, weighted by how often that happened. All are merged into one
//! in which each page is in exactly one vertex: overlapping ranges are split (Figure 4). A request
//! over several vertices passes along them.
//!
//! Near-linear: the range boundaries are sorted once, then each request finds its vertices by them.

use rustc_hash::FxHashMap;
use seekless_core::ProcessId;

use super::profiler::Access;

/// A range of pages that is always accessed from the same boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vertex {
    /// The first page.
    pub start: u32,
    /// How many.
    pub pages: u32,
    /// Whether it was ever read.
    pub read: bool,
}

/// An edge of the graph, seen from one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The vertex at the other end.
    pub other: u32,
    /// How often it was passed.
    pub weight: u32,
    /// Whether it leads to the other end (else it comes from there).
    pub out: bool,
}

/// The master access graph. Vertices are in order of their start.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    vertices: Vec<Vertex>,
    /// `edges[first[v]..first[v + 1]]` are those of vertex v, both directions.
    first: Vec<u32>,
    edges: Vec<Edge>,
}

impl Graph {
    /// A graph of these vertices, in order of their start, and edges (from, to, weight).
    pub fn new(vertices: Vec<Vertex>, mut list: Vec<(u32, u32, u32)>) -> Graph {
        list.sort_unstable();
        let mut first = vec![0_u32; vertices.len() + 1];
        for &(from, to, _) in &list {
            first[from as usize + 1] += 1;
            first[to as usize + 1] += 1;
        }
        for v in 1..first.len() {
            first[v] += first[v - 1];
        }
        let mut next = first.clone();
        let mut edges = vec![Edge { other: 0, weight: 0, out: false }; list.len() * 2];
        for (from, to, weight) in list {
            for (end, other, out) in [(from, to, true), (to, from, false)] {
                edges[next[end as usize] as usize] = Edge { other, weight, out };
                next[end as usize] += 1;
            }
        }
        Graph { vertices, first, edges }
    }

    /// Its vertices.
    pub fn vertices(&self) -> &[Vertex] {
        &self.vertices
    }

    /// The edges at a vertex.
    pub fn edges_at(&self, vertex: u32) -> &[Edge] {
        &self.edges[self.first[vertex as usize] as usize..self.first[vertex as usize + 1] as usize]
    }

    /// How many edges there are, each counted once.
    pub fn edge_count(&self) -> usize {
        self.edges.len() / 2
    }
}

/// Builds the master access graph of a training window.
pub fn analyze(window: &[Access]) -> Graph {
    let mut vertices = split(window);
    let mut last: FxHashMap<ProcessId, u32> = FxHashMap::default();
    let mut weights: FxHashMap<(u32, u32), u32> = FxHashMap::default();
    for access in window.iter().filter(|access| access.pages > 0) {
        let end = access.first + access.pages;
        let mut vertex = vertices.partition_point(|v| v.start < access.first);
        let mut from = last.get(&access.process).copied();
        while vertex < vertices.len() && vertices[vertex].start < end {
            if let Some(from) = from.filter(|&from| from as usize != vertex) {
                *weights.entry((from, vertex as u32)).or_default() += 1;
            }
            from = Some(vertex as u32);
            vertices[vertex].read |= !access.write;
            vertex += 1;
        }
        if let Some(from) = from {
            last.insert(access.process, from);
        }
    }
    Graph::new(vertices, weights.into_iter().map(|((from, to), weight)| (from, to, weight)).collect())
}

/// The ranges between all boundaries that some request covers.
fn split(window: &[Access]) -> Vec<Vertex> {
    // (page, +1 where a request starts, -1 where one ends): a sweep that counts who covers.
    let mut bounds: Vec<(u32, i32)> = Vec::with_capacity(window.len() * 2);
    for access in window.iter().filter(|access| access.pages > 0) {
        bounds.push((access.first, 1));
        bounds.push((access.first + access.pages, -1));
    }
    bounds.sort_unstable();
    let (mut vertices, mut covering, mut start) = (Vec::new(), 0, 0);
    for (page, change) in bounds {
        if covering > 0 && page > start {
            vertices.push(Vertex { start, pages: page - start, read: false });
        }
        covering += change;
        start = page;
    }
    vertices
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seekless_core::Nanos;

    pub fn access(process: u32, first: u32, pages: u32) -> Access {
        Access { time: Nanos(0), process: ProcessId(process), first, pages, write: false }
    }

    fn edges(graph: &Graph) -> Vec<(u32, u32, u32)> {
        let vertices = 0..graph.vertices().len() as u32;
        let out = |v: u32| graph.edges_at(v).iter().filter(|e| e.out).map(move |e| (v, e.other, e.weight));
        vertices.flat_map(out).collect()
    }

    /// Figure 4: r1 = (start 0, size 3) and s1 = (1, 2) give (0, 1) and (1, 2).
    #[test]
    fn figure_4_overlapping_vertices_are_split() {
        let window = [access(1, 0, 3), access(1, 10, 1), access(2, 1, 2), access(2, 20, 2)];
        let graph = analyze(&window);
        let ranges: Vec<_> = graph.vertices().iter().map(|v| (v.start, v.pages)).collect();
        assert_eq!(ranges, [(0, 1), (1, 2), (10, 1), (20, 2)]);
        // r1 passes along its two parts, then to (10, 1); s1 leads to (20, 2).
        assert_eq!(edges(&graph), [(0, 1, 1), (1, 2, 1), (1, 3, 1)]);
    }

    #[test]
    fn edges_belong_to_processes_and_add_up() {
        let window = [
            access(1, 0, 1),
            access(2, 5, 1),
            access(1, 9, 1),
            access(2, 0, 1),
            access(1, 0, 1),
            access(1, 9, 1),
        ];
        let graph = analyze(&window);
        // Vertices 0, 5, 9. Process 1: 0 9 0 9. Process 2: 5 0.
        assert_eq!(edges(&graph), [(0, 2, 2), (1, 0, 1), (2, 0, 1)]);
    }

    proptest! {
        /// Every page that was accessed is in exactly one vertex, no other page is in any, and no
        /// request starts or ends inside a vertex.
        #[test]
        fn vertices_partition_what_was_accessed(asked in prop::collection::vec((0..4_u32, 0..60_u32, 1..9_u32), 1..40)) {
            let window: Vec<_> = asked.iter().map(|&(process, first, pages)| access(process, first, pages)).collect();
            let graph = analyze(&window);
            for page in 0..70 {
                let holders = graph.vertices().iter().filter(|v| (v.start..v.start + v.pages).contains(&page)).count();
                let accessed = window.iter().any(|a| (a.first..a.first + a.pages).contains(&page));
                prop_assert_eq!(holders, usize::from(accessed));
            }
            for v in graph.vertices() {
                let cuts = |page: u32| v.start < page && page < v.start + v.pages;
                prop_assert!(!window.iter().any(|a| cuts(a.first) || cuts(a.first + a.pages)));
            }
        }
    }
}
