//! Who makes the requests, by the names of their processes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use seekless_core::{Names, Op, Record};
use serde::Serialize;

use super::{gib, is_request, percent};

/// So many names are told.
const TOP: usize = 20;

/// What all processes of one name did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessUse {
    /// The name, without what tells kernel threads of one kind apart (see [`family`]).
    pub name: String,
    /// Their requests.
    pub requests: u64,
    /// Of them, reads.
    pub reads: u64,
    /// Of them, writes.
    pub writes: u64,
    /// Read by them.
    pub read_gib: f64,
    /// Written by them.
    pub write_gib: f64,
    /// Their share in all requests.
    pub share_pct: f64,
}

/// A name without the numbers that the kernel gives to threads of one kind: `kworker/u8:2` and
/// `kworker/0:1H` are `kworker`, `jbd2/sda1-8` is `jbd2`. Programs have no slash in their names.
pub fn family(name: &str) -> &str {
    match name.split_once('/') {
        Some((family, _)) if !family.is_empty() => family,
        _ => name,
    }
}

#[derive(Default)]
struct Sums {
    requests: u64,
    reads: u64,
    writes: u64,
    read_bytes: u64,
    written_bytes: u64,
}

/// The names with the most requests, the most first; equals by name.
pub fn top_processes(records: &[Record], names: &Names) -> Vec<ProcessUse> {
    let mut by_name: BTreeMap<&str, Sums> = BTreeMap::new();
    for record in records.iter().filter(|record| is_request(record)) {
        let sums = by_name.entry(family(names.get(record.origin.name))).or_default();
        sums.requests += 1;
        match record.op {
            Op::Read => {
                sums.reads += 1;
                sums.read_bytes += record.extent.bytes();
            }
            Op::Write | Op::WriteZeroes => {
                sums.writes += 1;
                sums.written_bytes += record.extent.bytes();
            }
            Op::Discard | Op::Flush => {}
        }
    }
    let all = by_name.values().map(|sums| sums.requests).sum();
    let mut uses: Vec<(&str, Sums)> = by_name.into_iter().collect();
    uses.sort_by_key(|(name, sums)| (Reverse(sums.requests), *name));
    uses.truncate(TOP);
    let told = |(name, sums): (&str, Sums)| ProcessUse {
        name: name.to_owned(),
        requests: sums.requests,
        reads: sums.reads,
        writes: sums.writes,
        read_gib: gib(sums.read_bytes),
        write_gib: gib(sums.written_bytes),
        share_pct: percent(sums.requests, all),
    };
    uses.into_iter().map(told).collect()
}
