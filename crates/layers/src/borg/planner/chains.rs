//! Chains: ranges of pages that a planner keeps together, and the choice of those that fit.

use std::cmp::Reverse;

use super::super::analyzer::Vertex;
use super::{Plan, Planned};

/// Ranges that are placed one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// Those that were read.
    ranges: Vec<Vertex>,
    pages: u64,
    /// Reads of pages.
    reads: u64,
    /// Number of the first request for any of them.
    pub touched: u32,
}

impl Chain {
    /// A chain of these vertices, of which those that were never read are left out.
    pub fn new(vertices: impl Iterator<Item = Vertex>) -> Chain {
        let ranges: Vec<Vertex> = vertices.filter(Vertex::is_read).collect();
        let pages = ranges.iter().map(|range| u64::from(range.pages)).sum();
        let reads = ranges.iter().map(|range| u64::from(range.pages) * u64::from(range.reads)).sum();
        let touched = ranges.iter().map(|range| range.touched).min().unwrap_or(u32::MAX);
        Chain { ranges, pages, reads, touched }
    }

    /// Reads per page, times 2^32.
    pub fn density(&self) -> u128 {
        (u128::from(self.reads) << 32) / u128::from(self.pages.max(1))
    }
}

/// The chains that fit into `capacity` pages, those with most reads per page first; they keep their order.
pub fn fitting(chains: &[Chain], capacity: u64) -> Plan {
    let mut by_density: Vec<usize> = (0..chains.len()).collect();
    if chains.iter().map(|chain| chain.pages).sum::<u64>() > capacity {
        by_density.sort_by_key(|&index| Reverse(chains[index].density()));
    }
    let mut left = capacity;
    let mut chosen: Vec<usize> = Vec::new();
    for index in by_density {
        if let Some(rest) = left.checked_sub(chains[index].pages) {
            left = rest;
            chosen.push(index);
        }
    }
    chosen.sort_unstable();
    let ranges = chosen.into_iter().flat_map(|index| chains[index].ranges.iter().copied());
    Plan { ranges: ranges.map(Planned::anywhere).collect() }
}
