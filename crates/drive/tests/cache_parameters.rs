//! Each key of a drive's cache, bus and commands changes at least one service time on an imported drive, or its effect
//! is not modelled.

mod common;

use common::Lcg;
use seekless_core::{Extent, Nanos, Op};
use seekless_drive::disk::Drive;
use seekless_drive::spec::{Spec, find};
use toml::Value;

const DRIVES: [&str; 5] = [
    "quantum-atlas-10k-disksim",
    "seagate-cheetah-4lp-disksim",
    "seagate-cheetah-9lp-disksim",
    "hp-c2247a-disksim",
    "hp-c3323a-disksim",
];

/// Other values that a key depends on where the imported drives lack them, as `key=value` in the cache's table.
const SETTINGS: [&[(&str, &str)]; 7] = [
    &[],
    &[("write_back", "'none'"), ("read_ahead", "'segment'")],
    &[("write_back", "'all'"), ("read_ahead", "'segment'"), ("read_ahead_sectors", "64")],
    &[("read_water_mark", "0.5"), ("water_mark_by_request", "false"), ("read_ahead_on_hit", "true")],
    &[("separate_write_segment", "true"), ("partial_hit_at_once", "false"), ("segments", "4")],
    &[("read_ahead", "'segment'"), ("read_ahead_sectors", "0"), ("segment_sectors", "400")],
    &[("write_back", "'all'"), ("write_buffer_sectors", "600"), ("destage_after_ms", "1.0")],
];

/// Service times of requests anywhere, near by, in sequence, and again where one was before.
fn service_times(spec: &Spec) -> Vec<u64> {
    let mut drive = Drive::new(spec);
    let (mut rng, mut now, mut next) = (Lcg(1), Nanos(0), 0);
    let mut below = |end| rng.below(end);
    let end = drive.layout().sectors() - 1_024;
    let mut before: Vec<u64> = vec![0];
    (0..3_000)
        .map(|_| {
            let sectors = [1, 8, 8, 16, 64, 128, 300][below(7) as usize];
            let at = match below(6) {
                0 => below(end),
                1 => (next + below(600)).saturating_sub(300).min(end),
                2 => before[before.len().saturating_sub(1 + below(12) as usize)],
                _ => std::cmp::min(next, end),
            };
            let op = if below(3) == 0 { Op::Write } else { Op::Read };
            let took = drive.serve(op, Extent::new(at, sectors), now, false).total();
            now += took + Nanos(below(2) * below(6_000_000));
            next = at + sectors;
            before.push(at);
            took.0
        })
        .collect()
}

/// Alternative values of a key.
fn others(key: &str, value: &Value) -> Vec<Value> {
    let texts = |texts: &[&str]| texts.iter().map(|&text| Value::from(text)).collect();
    match (key, value) {
        ("read_ahead", _) => texts(&["none", "track", "cylinder", "segment", "next-track"]),
        ("write_back", _) => texts(&["none", "all"]),
        ("destage_order", _) => texts(&["fcfs", "sstf", "sptf"]),
        (_, Value::Boolean(is)) => vec![Value::from(!is)],
        (_, Value::Integer(n)) => vec![Value::from(1), Value::from(n + 3), Value::from(n + 200)],
        (_, Value::Float(part)) if key.ends_with("mark") || key.ends_with("threshold") => {
            vec![Value::from((part + 0.9) / 2.0)]
        }
        (_, Value::Float(time)) => vec![Value::from(time * 1.5 + 10.0), Value::from(time + 3_000.0)],
        _ => panic!("{key} = {value}: of what kind is that?"),
    }
}

/// The keys of a table and of the tables in it.
fn figures(path: &str, table: &Value) -> Vec<(String, Value)> {
    match table {
        Value::Table(inner) => {
            inner.iter().flat_map(|(key, value)| figures(&format!("{path}.{key}"), value)).collect()
        }
        figure => vec![(path.to_owned(), figure.clone())],
    }
}

/// The value at `path`, as in `cache.segments`.
fn at<'a>(drive: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(drive, |table, key| &mut table[key])
}

/// The keys of a drive's `table` that change no time on any of the drives in any of the settings.
fn without_effect(table: &str) -> Vec<String> {
    let mut found: Vec<(String, bool)> = Vec::new();
    for (name, settings) in DRIVES.iter().flat_map(|name| SETTINGS.map(|settings| (name, settings))) {
        let mut drive = Value::try_from(find(name).unwrap()).unwrap();
        for (key, value) in settings {
            drive["cache"][*key] =
                toml::from_str::<toml::Table>(&format!("v = {value}")).unwrap()["v"].clone();
        }
        let usual = service_times(&drive.clone().try_into().unwrap());
        for (path, value) in figures(table, &drive[table]) {
            let known = found.iter().position(|(known, _)| *known == path);
            let known = known.unwrap_or_else(|| {
                found.push((path.clone(), false));
                found.len() - 1
            });
            found[known].1 |= !found[known].1
                && others(path.rsplit('.').next().unwrap(), &value).into_iter().any(|other| {
                    let mut changed = drive.clone();
                    *at(&mut changed, &path) = other;
                    service_times(&changed.try_into().unwrap()) != usual
                });
        }
    }
    assert!(found.len() > 5, "{table} has figures");
    found.into_iter().filter(|(_, changes)| !changes).map(|(path, _)| path).collect()
}

#[test]
fn each_figure_of_the_cache_changes_a_time() {
    assert_eq!(without_effect("cache"), [""; 0]);
}

#[test]
fn each_way_to_read_ahead_has_times_of_its_own() {
    let ways = ["none", "track", "cylinder", "segment", "next-track"].map(|way| {
        let mut drive = Value::try_from(find("seagate-cheetah-4lp-disksim").unwrap()).unwrap();
        *at(&mut drive, "cache.read_ahead") = way.into();
        *at(&mut drive, "cache.read_ahead_sectors") = 100.into();
        *at(&mut drive, "cache.segment_sectors") = 400.into();
        service_times(&drive.try_into().unwrap())
    });
    for (i, times) in ways.iter().enumerate() {
        assert!(!ways[..i].contains(times), "the {i}th way is one before");
    }
}

#[test]
fn each_figure_of_the_bus_changes_a_time() {
    assert_eq!(without_effect("bus"), [""; 0]);
}

#[test]
fn each_figure_of_the_commands_changes_a_time() {
    assert_eq!(without_effect("command"), [""; 0]);
}
