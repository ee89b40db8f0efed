//! Sizes of requests.

use schemars::JsonSchema;
use seekless_core::{Op, Record};
use serde::{Deserialize, Serialize};

use super::buckets::counted;
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sizes(#[serde(deserialize_with = "counted::pairs")] Vec<(u64, u64)>);

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes(vec![(0, 0); CLASSES])
    }
}

/// Number of classes: powers of two.
const CLASSES: usize = 64;

impl Sizes {
    /// Adds the next request.
    pub fn follow(&mut self, record: &Record) {
        if moves_data(record) {
            let class = record.extent.sectors.div_ceil(2).next_power_of_two().ilog2() as usize;
            let (reads, writes) = &mut self.0[class];
            *(if record.op == Op::Read { reads } else { writes }) += 1;
        }
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Sizes) {
        for (here, other) in self.0.iter_mut().zip(&other.0) {
            *here = (here.0 + other.0, here.1 + other.1);
        }
    }

    /// Whether it has a count for each class.
    pub fn is_sound(&self) -> bool {
        self.0.len() == CLASSES
    }

    /// The classes that occur, the smallest first.
    pub fn buckets(&self) -> Vec<SizeBucket> {
        let used = self.0.iter().enumerate().filter(|(_, counts)| **counts != (0, 0));
        used.map(|(class, &(reads, writes))| SizeBucket { up_to_kib: 1 << class, reads, writes }).collect()
    }
}
