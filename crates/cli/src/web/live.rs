//! Samples of a running volume: its status once a second, and its events, by the control socket.
//!
//! Fault model: the server may end, and another one may serve the file later; the page says so meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seekless_volume::live::{Question, Status};
use serde_json::json;

use super::hub::Hub;
use super::sample::{Kind, Layer, LayerNow, MAPS, Map, Now, PLACES, Place, Sample, State, letters, short};
use super::work::Works;
use crate::output;
use crate::top;
use crate::volume::status::{connect, parsed, status};

/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Puts a sample into the hub every second, from now on.
pub fn watch(volume: &Path, first: Status, hub: &Arc<Hub>) -> anyhow::Result<()> {
    let (path, events) = (volume.to_owned(), hub.clone());
    // The program waits here, not a volume.
    #[allow(clippy::disallowed_methods)]
    std::thread::Builder::new().name("events".to_owned()).spawn(move || follow(&path, &events))?;
    let mut file = first.file.clone();
    let (mut before, mut works) = (Some(first), Works::default());
    loop {
        pause();
        match status(volume).and_then(parsed) {
            Ok(now) => {
                let sampled = before.as_ref().map(|before| top::Sample::between(before, &now));
                let sample = sampled.as_ref().map(|rates| sample_of(before.as_ref(), &now, rates));
                let shown = now_of(&now, sampled, &mut works);
                hub.put(sample.as_ref(), &shown)?;
                file.clone_from(&now.file);
                before = Some(now);
            }
            Err(error) => {
                before = None;
                let (words, of) = (output::with_causes(&error), file.clone());
                hub.put(None, &Now { state: State::Gone, words, of, ..Now::default() })?;
            }
        }
    }
}

fn pause() {
    // The program waits here, not a volume.
    #[allow(clippy::disallowed_methods)]
    std::thread::sleep(INTERVAL);
}

/// Seconds since 1970.
fn clock() -> f64 {
    // For people, who have no other clock.
    #[allow(clippy::disallowed_methods)]
    let now = SystemTime::now();
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    (seconds * 1e3).round() / 1e3
}

/// Puts events into the hub, of one server after the other.
fn follow(volume: &Path, hub: &Hub) {
    loop {
        let lines = connect(volume, &Question::Subscribe, None);
        for line in lines.into_iter().flatten().map_while(Result::ok) {
            let event: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if hub.event(&json!({ "at": clock(), "event": event["event"] })).is_err() {
                break;
            }
        }
        pause();
    }
}

/// The figures that charts keep.
fn sample_of(before: Option<&Status>, now: &Status, rates: &top::Sample) -> Sample {
    let layers = rates.layers.iter().map(|layer| Layer {
        name: layer.name.clone(),
        hits: layer.hits.map(short),
        dirty: layer.dirty_bytes,
    });
    let layers = layers.take(PLACES).collect();
    let at = clock();
    let since = ((at - rates.seconds) * 1e3).round() / 1e3;
    Sample { since, at, places: places(&rates.rows), layers, maps: maps(before, now) }
}

/// Reads and writes of the first places.
pub fn places(rows: &[top::Row]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for row in rows {
        let name = format!("{} {}", row.at, row.name);
        if places.last().is_none_or(|last| last.name != name) {
            places.push(Place { name, queue: row.in_flight, ..Place::default() });
        }
        let kind = || {
            let figures = [row.requests_per_s, row.bytes_per_s, row.p50_ms, row.p99_ms].map(short);
            (figures[0] > 0.0).then_some(Kind(figures[0], figures[1], figures[2], figures[3]))
        };
        match (places.last_mut(), row.op) {
            (Some(place), "read") => place.read = kind(),
            (Some(place), "write") => place.write = kind(),
            _ => {}
        }
    }
    places.truncate(PLACES);
    places
}

/// What was accessed between two states of the first exports.
fn maps(before: Option<&Status>, now: &Status) -> Vec<Map> {
    let of_export = |export: &seekless_volume::live::ServedExport| {
        let earlier = before.filter(|before| before.process == now.process && before.up_s <= now.up_s);
        let earlier =
            earlier.and_then(|earlier| earlier.exports.iter().find(|other| other.name == export.name));
        let accesses = export.accesses.as_ref()?;
        let counts = accesses.since(earlier.and_then(|earlier| earlier.accesses.as_ref()));
        let name = format!("export {}", export.name);
        Some(Map { name, bytes: export.bytes, part: accesses.part_bytes, heat: letters(counts.into_iter()) })
    };
    now.exports.iter().filter_map(of_export).take(MAPS).collect()
}

/// What is now, beside the figures that charts keep.
fn now_of(status: &Status, rates: Option<top::Sample>, works: &mut Works) -> Now {
    let (rows, of_layers) = rates.map_or_else(Default::default, |rates| (rates.rows, rates.layers));
    let layers = status.layers.iter().map(|layer| {
        let rates = of_layers.iter().find(|other| other.name == layer.name);
        LayerNow {
            name: layer.name.clone(),
            is: layer.is.clone(),
            dirty: layer.dirty_bytes,
            hits: rates.and_then(|rates| rates.hits),
            background: rates.and_then(|rates| rates.background_bytes_per_s),
            counters: layer.counters.iter().map(|(name, count)| (name.clone(), *count)).collect(),
        }
    });
    let layers = layers.collect();
    let fact = |name: &str, words: String| (name.to_owned(), words);
    let mut facts = vec![
        fact(
            "up",
            seekless_core::Nanos((status.up_s.max(0.0) as u64).saturating_mul(1_000_000_000)).to_string(),
        ),
        fact("clients", status.clients.to_string()),
        fact("failed requests", status.failed.to_string()),
        fact("process", format!("{} ({})", status.process, status.io)),
    ];
    facts.extend(status.exports.iter().take(PLACES).map(|export| {
        let how = if export.read_only { ", read-only" } else { "" };
        let line = format!("{}{how}: {}", seekless_core::Size(export.bytes), export.made_of);
        (format!("export {}", export.name), line)
    }));
    let work = works.of(status);
    Now { state: State::Live, words: String::new(), of: status.file.clone(), facts, rows, layers, work }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_reads_and_writes_and_are_bounded() {
        let row = |name: &str, op, requests_per_s| top::Row {
            at: "device",
            name: name.to_owned(),
            op,
            requests_per_s,
            bytes_per_s: 4096.0,
            p50_ms: 1.0,
            p99_ms: 2.0,
            p999_ms: 3.0,
            failed: 0,
            in_flight: 5,
        };
        let mut rows = vec![row("a", "read", 2.0), row("a", "write", 0.0), row("a", "flush", 9.0)];
        rows.extend((0..99).map(|number| row(&format!("b{number}"), "write", 1.0)));
        let places = places(&rows);
        assert_eq!((places.len(), places[0].name.as_str(), places[0].queue), (PLACES, "device a", 5));
        assert!(places[0].read.is_some() && places[0].write.is_none() && places[1].write.is_some());
    }
}
