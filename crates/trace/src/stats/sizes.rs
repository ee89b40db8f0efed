//! How large requests are.

use std::collections::BTreeMap;

use seekless_core::{Op, Record};
use serde::Serialize;

use super::moves_data;

/// Requests of one size class: above half of `up_to_kib`, and up to it. The first class has whatever
/// is smaller too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeBucket {
    /// Its upper end, a power of two.
    pub up_to_kib: u64,
    /// Reads of that size.
    pub reads: u64,
    /// Writes of that size.
    pub writes: u64,
}

/// The size classes that occur, the smallest first.
pub fn request_sizes(records: &[Record]) -> Vec<SizeBucket> {
    let mut buckets: BTreeMap<u64, SizeBucket> = BTreeMap::new();
    let requests = records.iter().filter(|record| record.extent.sectors > 0 && moves_data(record));
    for record in requests {
        let up_to_kib = record.extent.sectors.div_ceil(2).next_power_of_two();
        let bucket = buckets.entry(up_to_kib).or_insert(SizeBucket { up_to_kib, reads: 0, writes: 0 });
        let one = if record.op == Op::Read { &mut bucket.reads } else { &mut bucket.writes };
        *one += 1;
    }
    buckets.into_values().collect()
}
