//! The analyzer (section 4.2): from requests to the master access graph.
//!
//! Each process has a directed graph: its vertices are ranges of pages, its edges lead from each
//! request to the process's next one, weighted by how often that happened. All are merged into one
//! in which each page is in exactly one vertex: overlapping ranges are split (Figure 4). A request
//! over several vertices passes along them.
//!
//! Incremental (the paper's section 7): requests become small graphs, and graphs are merged. Merging
//! is exact and in any order, so what came in pieces equals what came at once. It is linear in the
//! sizes of both, and only graphs of like size meet, as in a log-structured merge tree: n requests
//! cost O(n log n), nearly all of it sequential passes.
//!
//! Edges can also lead from each request to the next of any process: which of the two gives the better layout depends
//! on the workload.
//!
//! Bounded: graphs that have more ranges and jumps together than they may are merged and aged. All weights are halved
//! and zero weights removed, so the lightest go first, and equal ones together. The last request is remembered of the
//! `PROCESSES` most recent processes only.

mod access;
mod access_code;
mod code;
mod graph;

use std::sync::Arc;

use rustc_hash::FxHashMap;
use seekless_core::ProcessId;
use serde::{Deserialize, Serialize};

use super::profiler::Access;
use access::AccessGraph;
pub use graph::{Edge, Graph, Vertex};

/// Requests that become a graph of their own, at most.
const PER_GRAPH: usize = if cfg!(test) { 5 } else { 1 << 17 };

/// The memory of a range or jump at most, in bytes.
const ENTRY_BYTES: u64 = 24;
/// Minimum limit of ranges and jumps.
const FEWEST: u64 = 4_096;

/// Processes whose last request is remembered at most.
const PROCESSES: usize = 1 << 16;

/// Where a process was last.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// The last page of its last request.
    page: u32,
    /// When that was, in requests.
    at: u64,
}

/// The training window (section 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Training {
    /// All requests.
    #[default]
    Cumulative,
    /// Requests since the last reconfiguration.
    Partial,
    /// All requests, but each reconfiguration halves the weight of earlier ones.
    Decayed,
}

/// Which requests follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edges {
    /// Those of a process, as in the paper.
    #[default]
    Process,
    /// All.
    Global,
}

/// Turns requests into the master access graph.
#[derive(Clone, Debug)]
pub struct Analyzer {
    /// Ranges and jumps at most.
    limit: usize,
    /// Each at least twice as large as the next. A copy of the analyzer shares them.
    graphs: Vec<Arc<AccessGraph>>,
    last: FxHashMap<ProcessId, Last>,
    /// Whether jumps between all requests are analysed too, and the last page of the last of them.
    global: bool,
    last_of_all: Option<u32>,
    requests: u64,
}

impl Analyzer {
    /// An analyzer that holds `bytes` at most, and as much again while it merges; but always some thousand ranges
    /// and jumps.
    pub fn bounded(bytes: u64) -> Analyzer {
        let limit = (bytes / ENTRY_BYTES).max(FEWEST) as usize;
        Analyzer {
            limit,
            graphs: Vec::new(),
            last: FxHashMap::default(),
            global: false,
            last_of_all: None,
            requests: 0,
        }
    }

    /// With jumps between all requests too, not only between those of a process.
    pub fn with_global(self, global: bool) -> Analyzer {
        Analyzer { global, ..self }
    }

    /// An empty analyzer with the same limit and jumps.
    pub fn anew(&self) -> Analyzer {
        Analyzer { limit: self.limit, ..Analyzer::bounded(0) }.with_global(self.global)
    }

    /// The memory of its graphs, in bytes.
    pub fn bytes(&self) -> u64 {
        self.graphs.iter().map(|graph| graph.bytes()).sum()
    }

    /// Adds requests, in the order in which they came.
    pub fn add(&mut self, requests: impl IntoIterator<Item = Access>) {
        let mut requests = requests.into_iter().filter(|access| access.pages > 0).peekable();
        while requests.peek().is_some() {
            // A request adds about two ranges and a jump.
            let some: Vec<Access> = requests.by_ref().take(PER_GRAPH.min(self.limit / 4)).collect();
            let number = self.requests.min(u64::from(u32::MAX) - PER_GRAPH as u64) as u32;
            let jumps = some.iter().filter_map(|access| self.jump(access)).collect();
            let global = some.iter().filter_map(|access| self.global_jump(access)).collect();
            self.graphs.push(AccessGraph::new(&some, number, jumps, global).into());
            self.merge_last(|above, top| above < top * 2);
            if self.size() > self.limit {
                self.merge_last(|_, _| true);
                self.fit();
            }
            self.forget_processes();
        }
    }

    /// The master access graph of all that was added.
    pub fn graph(&mut self, edges: Edges) -> Graph {
        self.merge_last(|_, _| true);
        self.fit();
        self.graphs.first().map(|graph| graph.numbered(edges)).unwrap_or_default()
    }

    /// Halves what was seen so far against what is to come.
    pub fn age(&mut self) {
        self.merge_last(|_, _| true);
        self.age_graphs();
    }

    /// Applies the training window to the requests so far.
    pub fn close(&mut self, training: Training) {
        match training {
            Training::Cumulative => {}
            Training::Partial => *self = self.anew(),
            Training::Decayed => self.age(),
        }
    }

    /// The jump from the process's last request to this one.
    fn jump(&mut self, access: &Access) -> Option<(u32, u32)> {
        self.requests += 1;
        let now = Last { page: access.first + access.pages - 1, at: self.requests };
        self.last.insert(access.process, now).map(|last| (last.page, access.first))
    }

    /// The jump from the last request of any process to this one.
    fn global_jump(&mut self, access: &Access) -> Option<(u32, u32)> {
        let last = self.last_of_all.replace(access.first + access.pages - 1).filter(|_| self.global);
        last.map(|last| (last, access.first))
    }

    /// Merges the last two graphs for as long as `together(size, size of the last)`.
    fn merge_last(&mut self, together: impl Fn(usize, usize) -> bool) {
        while let [.., above, top] = &self.graphs[..] {
            if !together(above.size(), top.size()) {
                return;
            }
            let merged = above.merge(top);
            self.graphs.truncate(self.graphs.len() - 2);
            self.graphs.push(merged.into());
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// Ranges and jumps.
    fn size(&self) -> usize {
        self.graphs.iter().map(|graph| graph.size()).sum()
    }

    /// Ages the graphs until they fit the limit.
    fn fit(&mut self) {
        while self.size() > self.limit {
            self.age_graphs();
        }
    }

    fn age_graphs(&mut self) {
        self.graphs.iter_mut().for_each(|graph| Arc::make_mut(graph).age());
    }

    fn forget_processes(&mut self) {
        if self.last.len() > PROCESSES {
            let mut times: Vec<u64> = self.last.values().map(|last| last.at).collect();
            let (_, &mut oldest, _) = times.select_nth_unstable(self.last.len() - PROCESSES);
            self.last.retain(|_, last| last.at >= oldest);
        }
    }
}

#[cfg(test)]
mod tests;
