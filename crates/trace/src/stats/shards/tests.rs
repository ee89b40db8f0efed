//! Traces cut into shards, characterised apart and merged, against one pass over the whole.

use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use seekless_core::record::Flags;
use seekless_core::{Extent, Latency, NameId, Names, Nanos, Op, Origin, ProcessId, Record, StreamId};

use super::*;
use crate::stats::{Intervals, Stats, StatsOptions, characterise};
use crate::volumes::{Naming, Volumes};

const SECOND: u64 = 1_000_000_000;
/// The time of the first record, by the trace's clock.
const ORIGIN: u64 = 1_700_000_000 * SECOND + 123_456_789;

/// A request in a property test: gap, operation, page, pages, latency, process, volume.
type Drawn = (u64, u8, u64, u64, Option<u64>, u32, u32);

fn drawn() -> impl Strategy<Value = Drawn> {
    let gap = prop_oneof![Just(0), 0..2_000_000_u64, 0..SECOND, 0..4 * SECOND];
    let latency = prop_oneof![Just(None), (0..20_000_000_u64).prop_map(Some), (0..9 * SECOND).prop_map(Some)];
    (gap, 0..8_u8, 0..60_u64, 1..4_u64, latency, 0..4_u32, 0..3_u32)
}

fn records(drawn: &[Drawn]) -> Vec<Record> {
    let mut now = 0;
    let make = |(number, &(gap, op, page, pages, latency, process, device)): (usize, &Drawn)| {
        now += if number == 0 { 0 } else { gap };
        let op =
            [Op::Read, Op::Read, Op::Read, Op::Write, Op::Write, Op::WriteZeroes, Op::Discard, Op::Flush]
                [usize::from(op)];
        let sectors = if op == Op::Flush { 0 } else { pages * 8 };
        Record {
            time: Nanos(now),
            device,
            op,
            extent: Extent::new(page * 8, sectors),
            flags: Flags::default(),
            origin: Origin {
                process: ProcessId(process),
                name: NameId(process),
                stream: StreamId::default(),
            },
            latency: latency.map_or(Latency::UNKNOWN, |nanos| Latency::of(Nanos(nanos))),
        }
    };
    drawn.iter().enumerate().map(make).collect()
}

fn names() -> Names {
    let mut names = Names::default();
    for name in ["git", "kworker/0:1", "kworker/u8:2"] {
        names.intern(name);
    }
    names
}

/// A shard as a reader gives it: times from its first record, volumes numbered as they come.
struct Shard {
    name: String,
    start: Nanos,
    records: Vec<Record>,
    volumes: Volumes,
}

/// The trace, and its shards.
fn cut(records: &[Record], naming: Naming, at: &[Index]) -> (Shard, Vec<Shard>) {
    let mut cuts: Vec<usize> =
        at.iter().map(|index| index.index(records.len())).chain([0, records.len()]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let of = |range: Range<usize>| {
        let (name, start) = (format!("shard-{}", range.start), records[range.start].time);
        let volumes = Volumes::new(naming);
        let numbered = |record: &Record| Record {
            time: record.time.since(start),
            device: match naming {
                Naming::Named => volumes.number(["sda", "web", "db"][record.device as usize]).unwrap(),
                Naming::Linux | Naming::Numbered => record.device,
            },
            ..*record
        };
        let records = records[range].iter().map(numbered).collect();
        Shard { name, start: Nanos(ORIGIN + start.0), records, volumes }
    };
    (of(0..records.len()), cuts.windows(2).map(|pair| of(pair[0]..pair[1])).collect())
}

fn outline(shard: &Shard) -> Outline {
    let mut outlining = Outlining::default();
    shard.records.iter().for_each(|record| outlining.note(record));
    outlining.finish(&shard.name, shard.start, &shard.volumes)
}

fn partial(
    shard: &Shard,
    outline: &Outline,
    options: &StatsOptions,
    halvings: u32,
) -> Result<Partial, ShardError> {
    let id = (shard.name.as_str(), shard.start);
    let mut analysis = PartAnalysis::new(outline, id, &shard.volumes, options, halvings)?;
    shard.records.iter().for_each(|record| analysis.follow(record));
    analysis.finish(&names())
}

/// What a file holds, after it was written and read again.
fn through_a_file<T: Kind>(value: &T) -> T {
    let mut bytes = Vec::new();
    write(value, &mut bytes).unwrap();
    read(&bytes[..]).unwrap()
}

fn partials(shards: &[Shard], options: &StatsOptions, halvings: u32) -> Vec<Partial> {
    let whole = Outline::merge(shards.iter().map(outline)).unwrap();
    let whole = through_a_file(&whole);
    shards.iter().map(|shard| through_a_file(&partial(shard, &whole, options, halvings).unwrap())).collect()
}

/// Merges neighbours, as drawn, until one is left.
fn merged(mut all: Vec<Partial>, mut order: impl Iterator<Item = Index>) -> Partial {
    while all.len() > 1 {
        let at = order.next().unwrap().index(all.len() - 1);
        let pair: Vec<Partial> = all.splice(at..at + 2, []).rev().collect();
        all.insert(at, Partial::merge(pair).unwrap());
    }
    all.pop().unwrap()
}

fn one_pass(whole: &Shard, options: &StatsOptions) -> Stats {
    characterise(&whole.records, &names(), &whole.volumes, options)
}

/// Compares all statistics; the error is the first that differs.
fn same(merged: &Stats, one_pass: &Stats) -> Result<(), TestCaseError> {
    let values = |stats: &Stats| match serde_json::to_value(stats) {
        Ok(serde_json::Value::Object(keys)) => keys,
        other => panic!("{other:?}"),
    };
    for ((key, merged), (_, one_pass)) in values(merged).into_iter().zip(values(one_pass)) {
        prop_assert_eq!(merged.to_string(), one_pass.to_string(), "{}", key);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn merged_shards_are_one_pass(
        drawn in vec(drawn(), 1..200),
        cuts in vec(any::<Index>(), 0..9),
        order in vec(any::<Index>(), 10),
        intervals in prop_oneof![
            (1..12_u32).prop_map(Intervals::Count),
            (SECOND..20 * SECOND).prop_map(|length| Intervals::Every(Nanos(length))),
        ],
        naming in prop_oneof![Just(Naming::Linux), Just(Naming::Named), Just(Naming::Numbered)],
    ) {
        let options = StatsOptions { intervals, ..StatsOptions::default() };
        let (whole, shards) = cut(&records(&drawn), naming, &cuts);
        let all = merged(partials(&shards, &options, 0), order.into_iter());
        same(&all.finish().unwrap(), &one_pass(&whole, &options))?;
    }

    #[test]
    fn the_shards_do_not_change_a_sample(
        drawn in vec(drawn(), 1..200),
        cuts in vec(any::<Index>(), 0..9),
        order in vec(any::<Index>(), 10),
        halvings in 1..4_u32,
    ) {
        let options = StatsOptions::default();
        let (whole, shards) = cut(&records(&drawn), Naming::Linux, &cuts);
        let all = merged(partials(&shards, &options, halvings), order.into_iter());
        let one = merged(partials(&[whole], &options, halvings), std::iter::empty());
        same(&all.finish().unwrap(), &one.finish().unwrap())?;
    }
}
