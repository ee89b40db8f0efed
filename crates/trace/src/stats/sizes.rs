//! Sizes of requests.

use schemars::JsonSchema;
use seekless_core::{Op, Record};
use serde::Serialize;

use super::moves_data;

/// Requests of one size class: above half of `up_to_kib`, and up to it. The first class includes all smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SizeBucket {
    /// Upper end, a power of two.
    pub up_to_kib: u64,
    /// Reads of that size.
    pub reads: u64,
    /// Writes of that size.
    pub writes: u64,
}

/// Counts requests by size.
pub(super) struct Sizes([(u64, u64); 64]);

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes([(0, 0); 64])
    }
}

impl Sizes {
    /// Adds the next request.
    pub fn follow(&mut self, record: &Record) {
        if moves_data(record) {
            let class = record.extent.sectors.div_ceil(2).next_power_of_two().ilog2() as usize;
            let (reads, writes) = &mut self.0[class];
            *(if record.op == Op::Read { reads } else { writes }) += 1;
        }
    }

    /// The classes that occur, the smallest first.
    pub fn buckets(&self) -> Vec<SizeBucket> {
        let used = self.0.iter().enumerate().filter(|(_, counts)| **counts != (0, 0));
        used.map(|(class, &(reads, writes))| SizeBucket { up_to_kib: 1 << class, reads, writes }).collect()
    }
}
