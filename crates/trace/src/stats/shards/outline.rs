//! The outline of a trace in shards: what one shard needs of the others.
//!
//! Invariant of an outline: its shards are in the order of their times, and none begins before the one before it ends.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use seekless_core::{Nanos, ProcessId, Record};
use serde::{Deserialize, Serialize};

use super::error::ShardError;
use crate::stats::depth::Depth;
use crate::stats::is_request;
use crate::stats::sample::mix;
use crate::stats::sequence::MAX_PROCESSES;
use crate::stats::survey::Survey;
use crate::volumes::{Naming, Volumes};

/// The outline of a trace, or of some of its shards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// In the order of their times.
    pub(super) shards: Vec<Shard>,
}

/// What others need of a shard. Times are in nanoseconds, from its first record except for `start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shard {
    /// The name of its files, for messages.
    pub name: String,
    /// The time of its first record, by the trace's clock.
    pub start: u64,
    /// The time of its last record.
    pub end: u64,
    pub records: u64,
    pub requests: u64,
    /// The [`hash`](hashed) of its records.
    pub hash: u64,
    pub naming: Naming,
    /// Volumes, by number; named ones in the order of their first requests.
    pub volumes: Vec<ShardVolume>,
    pub ends: Option<Ends>,
    /// The last request of each process.
    pub processes: Vec<(u32, Place)>,
    /// Names of processes that were given by events, at the end.
    pub names: Vec<(u32, String)>,
    /// The time of the last request of known latency, and the completion times of those in flight then.
    pub in_flight: Option<(u64, Vec<u64>)>,
}

/// A volume of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShardVolume {
    pub number: u32,
    pub name: String,
    /// The sector after the last accessed one.
    pub end: u64,
}

/// Sectors of a request, on a volume by its index in the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub volume: u32,
    pub start: u64,
    pub end: u64,
}

/// The first and the last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ends {
    pub first: Place,
    pub last: Place,
    /// The time of the last.
    pub latest: u64,
    /// When all requests are completed.
    pub busy_until: u64,
    /// Requests of the sequential run that it ends.
    pub run: u64,
    /// Whether the first request begins that run.
    pub is_one_run: bool,
}

/// The hash of the records so far and the next one: two shards with the same hash have the same requests.
pub(super) fn hashed(hash: u64, record: &Record) -> u64 {
    let Record { time, device, op, extent, flags, origin, latency } = *record;
    let small = u64::from(flags.0) << 8 | op as u64;
    // Odd numbers without a pattern, so that a change of one part is not made up for by a likely change of another.
    [time.0, extent.start.0, extent.sectors, latency.known().map_or(u64::MAX, |known| known.0), small]
        .into_iter()
        .chain([u64::from(device) << 32 | u64::from(origin.process.0)])
        .zip(ODD)
        .fold(mix(hash), |sum, (part, odd)| sum.wrapping_add(part.wrapping_mul(odd)))
}

const ODD: [u64; 6] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0xd6e8_feb8_6659_fd93,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
];

/// An outline in progress.
#[derive(Default)]
pub struct Outlining {
    survey: Survey,
    hash: u64,
    appeared: Vec<u32>,
    ends: Option<Ends>,
    processes: FxHashMap<ProcessId, Place>,
    names: Vec<(u32, String)>,
    depth: Depth,
}

impl Outlining {
    /// Adds the next record of a shard.
    pub fn note(&mut self, record: &Record) {
        let known = self.survey.volumes().len();
        self.survey.note(record);
        self.hash = hashed(self.hash, record);
        if self.survey.volumes().len() > known {
            self.appeared.push(record.device);
        }
        if !is_request(record) {
            return;
        }
        let (start, end, now) = (record.extent.start.0, record.extent.end().0, record.time.0);
        // The device for now: the index is known at the end.
        let here = Place { volume: record.device, start, end };
        let answered = now.saturating_add(record.latency.known().unwrap_or_default().0);
        let busy_until = self.ends.map_or(answered, |ends| ends.busy_until.max(answered));
        let ends = Ends { first: here, last: here, latest: now, busy_until, run: 1, is_one_run: true };
        self.ends = Some(match self.ends {
            None => ends,
            Some(before) if before.last.volume == here.volume && before.last.end == start => {
                Ends { first: before.first, run: before.run + 1, is_one_run: before.is_one_run, ..ends }
            }
            Some(before) => Ends { first: before.first, is_one_run: false, ..ends },
        });
        if self.processes.len() < MAX_PROCESSES {
            self.processes.insert(record.origin.process, here);
        } else if let Some(place) = self.processes.get_mut(&record.origin.process) {
            *place = here;
        }
        self.depth.follow(record);
    }

    /// Notes the names that events have given to processes, after all records: they hold in later shards.
    pub fn note_names<'a>(&mut self, named: impl Iterator<Item = (ProcessId, &'a str)>) {
        self.names = named.take(MAX_PROCESSES).map(|(process, name)| (process.0, name.to_owned())).collect();
        self.names.sort_unstable();
    }

    /// The outline of the shard, whose first record has the time `start` by the trace's clock; `name` is that of its
    /// files.
    pub fn finish(self, name: &str, start: Nanos, volumes: &Volumes) -> Outline {
        let naming = volumes.naming();
        let ends: BTreeMap<u32, u64> = self.survey.volumes().collect();
        let order = if naming == Naming::Named { self.appeared } else { ends.keys().copied().collect() };
        let volume = |&number: &u32| ShardVolume {
            number,
            name: volumes.name(number),
            end: ends.get(&number).copied().unwrap_or(0),
        };
        let index: FxHashMap<u32, u32> = order.iter().copied().zip(0..).collect();
        let at = |place: Place| Place { volume: index.get(&place.volume).copied().unwrap_or(0), ..place };
        let mut processes: Vec<(u32, Place)> =
            self.processes.into_iter().map(|(process, place)| (process.0, at(place))).collect();
        processes.sort_unstable_by_key(|(process, _)| *process);
        let shard = Shard {
            name: name.to_owned(),
            start: start.0,
            end: self.survey.end.0,
            records: self.survey.records,
            requests: self.survey.requests,
            hash: self.hash,
            naming,
            volumes: order.iter().map(volume).collect(),
            ends: self.ends.map(|ends| Ends { first: at(ends.first), last: at(ends.last), ..ends }),
            processes,
            names: self.names,
            in_flight: self.depth.in_flight(),
        };
        Outline { shards: vec![shard] }
    }
}

impl Outline {
    /// The outline of all shards of these. Shards that begin and end at one time are in the order of their names.
    pub fn merge(all: impl IntoIterator<Item = Outline>) -> Result<Outline, ShardError> {
        let mut shards: Vec<Shard> = all.into_iter().flat_map(|outline| outline.shards).collect();
        shards.sort_by(|a, b| (a.start, a.end, &a.name).cmp(&(b.start, b.end, &b.name)));
        let outline = Outline { shards };
        outline.check()?;
        Ok(outline)
    }

    /// Checks that its shards follow each other, and belong together.
    pub(super) fn check(&self) -> Result<(), ShardError> {
        for pair in self.shards.windows(2) {
            let [first, second] = pair else { continue };
            if second.start < first.stop() {
                return Err(ShardError::Overlap {
                    first: first.name.clone(),
                    end: seconds(first.stop()),
                    second: second.name.clone(),
                    begin: seconds(second.start),
                });
            }
            if first.naming != second.naming {
                let word = |naming| match naming {
                    Naming::Linux => "numbered as Linux does",
                    Naming::Numbered => "numbered",
                    Naming::Named => "named",
                };
                let (found, expected) = (word(second.naming).to_owned(), word(first.naming).to_owned());
                return Err(ShardError::Differs { what: "volumes that are", found, expected });
            }
        }
        let whole = self.shards.last().map_or(0, |last| last.stop() - self.origin());
        let requests = self.shards.iter().fold(0_u64, |sum, shard| sum.saturating_add(shard.records));
        let are_sound = self.shards.iter().all(Shard::is_sound);
        if are_sound && whole < MOST_COUNTED && requests < MOST_COUNTED { Ok(()) } else { Err(damaged()) }
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Requests of all shards.
    pub fn requests(&self) -> u64 {
        self.shards.iter().map(|shard| shard.requests).sum()
    }

    /// The time of the first record of the trace, by its clock, in nanoseconds.
    pub(super) fn origin(&self) -> u64 {
        self.shards.first().map_or(0, |shard| shard.start)
    }

    /// The number in the whole trace of each volume of each shard.
    pub(super) fn numbers(&self) -> Vec<Vec<u32>> {
        let mut known: BTreeMap<&str, u32> = BTreeMap::new();
        let mut numbers = Vec::with_capacity(self.shards.len());
        for shard in &self.shards {
            let named = shard.volumes.iter().map(|volume| {
                let next = known.len() as u32;
                *known.entry(&volume.name).or_insert(next)
            });
            numbers.push(match shard.naming {
                Naming::Named => named.collect(),
                Naming::Linux | Naming::Numbered => {
                    shard.volumes.iter().map(|volume| volume.number).collect()
                }
            });
        }
        numbers
    }

    /// The names of processes before the shard of this index.
    pub(super) fn names_before(&self, index: usize) -> FxHashMap<ProcessId, String> {
        let all = self.shards.iter().take(index).flat_map(|shard| &shard.names);
        all.map(|(process, name)| (ProcessId(*process), name.clone())).collect()
    }

    /// What the statistics of the whole trace need to know of it.
    pub(super) fn whole(&self) -> Whole {
        let mut volumes: BTreeMap<u32, (String, u64)> = BTreeMap::new();
        for (shard, numbers) in self.shards.iter().zip(self.numbers()) {
            for (volume, number) in shard.volumes.iter().zip(numbers) {
                let (_, end) = volumes.entry(number).or_insert_with(|| (volume.name.clone(), 0));
                *end = volume.end.max(*end);
            }
        }
        let row = |(number, (name, end)): (u32, (String, u64))| ShardVolume { number, name, end };
        let mut id = 0;
        for shard in &self.shards {
            id = [shard.start, shard.end, shard.records, shard.requests, shard.hash]
                .into_iter()
                .fold(id, |id, part| mix(id ^ part));
        }
        Whole {
            id,
            shards: self.shards.iter().map(|shard| shard.name.clone()).collect(),
            records: self.shards.iter().map(|shard| shard.records).sum(),
            requests: self.requests(),
            end: self.shards.last().map_or(0, |last| last.stop() - self.origin()),
            naming: self.shards.first().map_or(Naming::default(), |shard| shard.naming),
            volumes: volumes.into_iter().map(row).collect(),
        }
    }
}

impl Shard {
    /// The time of its last record, by the trace's clock.
    fn stop(&self) -> u64 {
        self.start.saturating_add(self.end)
    }

    fn is_sound(&self) -> bool {
        let is_there = |place: &Place| (place.volume as usize) < self.volumes.len();
        let mut places = self.processes.iter().map(|(_, place)| place);
        self.ends.iter().all(|ends| is_there(&ends.first) && is_there(&ends.last))
            && places.all(is_there)
            && self.requests <= self.records
            && self.ends.is_none_or(|ends| ends.run <= self.requests)
            && !self.volumes.is_empty()
    }
}

/// More than any trace has: sums of smaller numbers do not overflow.
pub(super) const MOST_COUNTED: u64 = 1 << 63;

/// A time in seconds, with all its digits.
fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

pub(super) fn damaged() -> ShardError {
    ShardError::File { found: "numbers that no trace has".into(), expected: "what seekless wrote".into() }
}

/// A whole trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Whole {
    /// Differs between outlines.
    pub id: u64,
    /// The names of all shards.
    pub shards: Vec<String>,
    pub records: u64,
    pub requests: u64,
    /// The time of the last record, from the first.
    pub end: u64,
    pub naming: Naming,
    /// All volumes, by number.
    pub volumes: Vec<ShardVolume>,
}

impl Whole {
    pub fn survey(&self) -> Survey {
        let ends = self.volumes.iter().map(|volume| (volume.number, volume.end)).collect();
        Survey::known(self.requests, self.records, Nanos(self.end), ends)
    }

    /// The names of its volumes.
    pub fn names(&self) -> Volumes {
        let volumes = Volumes::new(self.naming);
        if self.naming == Naming::Named {
            for volume in &self.volumes {
                // Names in the order of their numbers get these numbers.
                volumes.number(&volume.name);
            }
        }
        volumes
    }
}
