//! Requests by process name.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use seekless_core::{NameId, Names, Op, Record};
use serde::{Deserialize, Serialize};

use super::buckets::counted;
use super::{gib, percent};

/// Most names listed.
const TOP: usize = 20;

/// Use by all processes of one name.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ProcessUse {
    /// The name, without the numbers of kernel threads of one kind (see [`family`]).
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Data read.
    pub read_gib: f64,
    /// Data written.
    pub write_gib: f64,
    /// Share of all requests.
    pub share_pct: f64,
}

/// A name without the numbers that the kernel gives to threads of one kind: `kworker/u8:2` and `kworker/0:1H` are
/// `kworker`, `jbd2/sda1-8` is `jbd2`. Programs have no slash in their names.
pub fn family(name: &str) -> &str {
    match name.split_once('/') {
        Some((family, _)) if !family.is_empty() => family,
        _ => name,
    }
}

/// Totals of a process, or of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sums {
    #[serde(deserialize_with = "counted::one")]
    pub requests: u64,
    #[serde(deserialize_with = "counted::one")]
    pub reads: u64,
    #[serde(deserialize_with = "counted::one")]
    pub writes: u64,
    #[serde(deserialize_with = "counted::one")]
    pub read_bytes: u64,
    #[serde(deserialize_with = "counted::one")]
    pub written_bytes: u64,
}

impl Sums {
    /// Adds a request.
    pub fn add(&mut self, record: &Record) {
        self.requests += 1;
        match record.op {
            Op::Read => {
                self.reads += 1;
                self.read_bytes += record.extent.bytes();
            }
            Op::Write | Op::WriteZeroes => {
                self.writes += 1;
                self.written_bytes += record.extent.bytes();
            }
            Op::Discard | Op::Flush => {}
        }
    }

    /// The rest, if those of another are left out.
    fn without(self, other: &Sums) -> Sums {
        Sums {
            requests: self.requests.saturating_sub(other.requests),
            reads: self.reads.saturating_sub(other.reads),
            writes: self.writes.saturating_sub(other.writes),
            read_bytes: self.read_bytes.saturating_sub(other.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(other.written_bytes),
        }
    }

    /// The sum of both.
    pub fn and(self, other: &Sums) -> Sums {
        Sums {
            requests: self.requests + other.requests,
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
        }
    }
}

/// Counts requests by process name.
#[derive(Default)]
pub(super) struct Processes(Vec<Sums>);

impl Processes {
    /// Adds the next request.
    pub fn follow(&mut self, record: &Record) {
        let name = record.origin.name.0 as usize;
        if self.0.len() <= name {
            self.0.resize(name + 1, Sums::default());
        }
        self.0[name].add(record);
    }

    /// The sums by name.
    pub fn by_name(&self, names: &Names) -> ByName {
        let mut by_name = ByName::default();
        for (number, sums) in (0..).zip(&self.0).filter(|(_, sums)| sums.requests > 0) {
            by_name.add(family(names.get(NameId(number))), sums);
        }
        by_name
    }
}

/// Sums by the name of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ByName(BTreeMap<String, Sums>);

impl ByName {
    fn add(&mut self, name: &str, sums: &Sums) {
        match self.0.get_mut(name) {
            Some(all) => *all = all.and(sums),
            None => drop(self.0.insert(name.to_owned(), *sums)),
        }
    }

    /// Takes the requests of a process without a name for those of one with this name.
    pub fn rename(&mut self, name: &str, sums: &Sums) {
        let unknown = family(Names::default().get(NameId::default())).to_owned();
        if let Some(left) = self.0.get_mut(&unknown) {
            *left = left.without(sums);
            if left.requests == 0 {
                self.0.remove(&unknown);
            }
        }
        self.add(family(name), sums);
    }

    /// Adds the sums of another.
    pub fn merge(&mut self, other: &ByName) {
        other.0.iter().for_each(|(name, sums)| self.add(name, sums));
    }

    /// All names and the bytes that were read and written for each, the most first, equals by name; and their sum.
    pub fn by_bytes(&self) -> (Vec<(&str, u64)>, u64) {
        let bytes = |sums: &Sums| sums.read_bytes + sums.written_bytes;
        let mut all: Vec<(&str, u64)> =
            self.0.iter().map(|(name, sums)| (name.as_str(), bytes(sums))).collect();
        all.sort_by_key(|&(name, bytes)| (Reverse(bytes), name));
        (all, self.0.values().map(bytes).sum())
    }

    /// The names with the most requests, the most first; equals by name.
    pub fn top(&self) -> Vec<ProcessUse> {
        let all = self.0.values().map(|sums| sums.requests).sum();
        let mut uses: Vec<(&String, &Sums)> = self.0.iter().collect();
        uses.sort_by_key(|&(name, sums)| (Reverse(sums.requests), name));
        uses.truncate(TOP);
        let row = |(name, sums): (&String, &Sums)| ProcessUse {
            name: name.clone(),
            requests: sums.requests,
            reads: sums.reads,
            writes: sums.writes,
            read_gib: gib(sums.read_bytes),
            write_gib: gib(sums.written_bytes),
            share_pct: percent(sums.requests, all),
        };
        uses.into_iter().map(row).collect()
    }
}
