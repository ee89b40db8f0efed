//! The master access graph as the planner walks it: vertices by number, edges by vertex.

/// A range of pages within which no request begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vertex {
    /// The first page.
    pub start: u32,
    /// How many.
    pub pages: u32,
    /// Requests that read it.
    pub reads: u32,
    /// Requests that wrote it.
    pub writes: u32,
    /// Number of the first request for it; less is earlier.
    pub touched: u32,
}

impl Vertex {
    /// Whether it was ever read.
    pub fn is_read(&self) -> bool {
        self.reads > 0
    }
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
