//! Samples of a run in the laboratory: what its drives do, by its events, in virtual time. A second of the wall clock
//! is a sample, of as much virtual time as passed meanwhile.
//!
//! The run goes on as it does without a page: it gives the same result.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seekless_core::runtime::Event;
use seekless_core::{Accesses, Buckets, Nanos, Op, SECTOR_BYTES};
use seekless_lab::EventSink;

use super::hub::{Clock, Hub};
use super::live::places;
use super::sample::{LayerNow, MAPS, Map, Now, PLACES, Sample, State, letters};
use crate::top::Row;

/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// Buckets of response times per doubling, as a power of two.
const BITS: u32 = 3;

/// Runs `work` with a listener for its events, and shows it on a page until a signal ends the process. `of` is what the
/// page is named after, and `names` are those of the drives by number.
pub fn watched(
    address: SocketAddr,
    of: &str,
    names: Vec<String>,
    work: impl FnOnce(EventSink) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    super::expect_loopback("--web", address)?;
    let hub = Arc::new(Hub::new(Clock::Virtual));
    let run = Arc::new(Watched { of: of.to_owned(), names, events: Mutex::default() });
    super::open(address, &hub)?;
    let (sampled, samples) = (run.clone(), hub.clone());
    // The program waits here, not a volume.
    #[allow(clippy::disallowed_methods)]
    std::thread::Builder::new().name("samples".to_owned()).spawn(move || {
        while sampled.put(&samples, State::Live).is_ok_and(|goes_on| goes_on) {
            std::thread::sleep(INTERVAL);
        }
    })?;
    let counted = run.clone();
    work(Box::new(move |at, event| counted.events().count(at, event)))?;
    run.events().ended = true;
    run.put(&hub, State::Ended)?;
    loop {
        std::thread::park();
    }
}

/// A run that is watched.
struct Watched {
    of: String,
    names: Vec<String>,
    events: Mutex<Events>,
}

/// What its events say.
#[derive(Default)]
struct Events {
    now: Nanos,
    /// When the interval began.
    since: Nanos,
    ended: bool,
    drives: BTreeMap<u32, Drive>,
    /// What layers did: how often, and to how many bytes.
    did: BTreeMap<&'static str, BTreeMap<&'static str, (u64, u64)>>,
}

/// A drive of the run.
struct Drive {
    /// Requests in flight: when they were submitted, whether they read, and their bytes.
    in_flight: BTreeMap<u64, (Nanos, Option<bool>, u64)>,
    /// Reads, writes and others since the interval began.
    kinds: [Counted; 3],
    /// Reads and writes since the interval began, by address.
    accesses: Accesses,
}

/// Completed requests of a kind.
struct Counted {
    requests: u64,
    failed: u64,
    bytes: u64,
    times: Buckets,
}

impl Default for Counted {
    fn default() -> Counted {
        Counted { requests: 0, failed: 0, bytes: 0, times: Buckets::new(BITS) }
    }
}

impl Default for Drive {
    fn default() -> Drive {
        Drive { in_flight: BTreeMap::new(), kinds: Default::default(), accesses: Accesses::new(0) }
    }
}

impl Events {
    fn count(&mut self, at: Nanos, event: &Event) {
        self.now = at;
        match *event {
            Event::Request { device, id, op, extent, .. } => {
                let reads = match op {
                    Op::Read => Some(true),
                    Op::Write => Some(false),
                    _ => None,
                };
                let bytes = extent.sectors * SECTOR_BYTES;
                let drive = self.drives.entry(device).or_default();
                drive.in_flight.insert(id, (at, reads, bytes));
                if let Some(is_read) = reads {
                    drive.accesses.count(is_read, extent.start.0 * SECTOR_BYTES, bytes);
                }
            }
            Event::Complete { device, id, ok } => {
                let drive = self.drives.entry(device).or_default();
                let Some((since, reads, bytes)) = drive.in_flight.remove(&id) else { return };
                let counted = &mut drive.kinds[match reads {
                    Some(true) => 0,
                    Some(false) => 1,
                    None => 2,
                }];
                counted.requests += 1;
                counted.failed += u64::from(!ok);
                counted.bytes += if ok { bytes } else { 0 };
                counted.times.add((at - since).0, 1);
            }
            Event::Did { layer, what, extent, .. } => {
                let (times, bytes) = self.did.entry(layer).or_default().entry(what).or_default();
                *times += 1;
                *bytes += extent.sectors * SECTOR_BYTES;
            }
            Event::Timer { .. } | Event::Offloaded { .. } => {}
        }
    }

    /// Requests since the interval began, which ends now.
    fn rows(&mut self, name: impl Fn(u32) -> String) -> (Vec<Row>, Vec<Map>) {
        let seconds = (self.now - self.since).seconds();
        self.since = self.now;
        let (mut rows, mut maps) = (Vec::new(), Vec::new());
        for (&number, drive) in &mut self.drives {
            let name = name(number);
            let in_flight = drive.in_flight.len() as u64;
            for (op, counted) in ["read", "write", "other"].into_iter().zip(std::mem::take(&mut drive.kinds))
            {
                let ms = |share| counted.times.quantile(share) as f64 / 1e6;
                let per_s = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
                if op != "other" || counted.requests > 0 {
                    rows.push(Row {
                        at: "device",
                        name: name.clone(),
                        op,
                        requests_per_s: per_s(counted.requests),
                        bytes_per_s: per_s(counted.bytes),
                        p50_ms: ms(0.5),
                        p99_ms: ms(0.99),
                        p999_ms: ms(0.999),
                        failed: counted.failed,
                        in_flight,
                    });
                }
            }
            let counts = std::mem::replace(&mut drive.accesses, Accesses::new(0)).counts();
            let parts = 0..counts.reads.len().max(counts.writes.len());
            let at = |parts: &[u64], part: usize| parts.get(part).copied().unwrap_or(0);
            let heat = letters(parts.map(|part| at(&counts.reads, part) + at(&counts.writes, part)));
            maps.push(Map { name: format!("device {name}"), bytes: 0, part: counts.part_bytes, heat });
        }
        maps.truncate(MAPS);
        (rows, maps)
    }

    /// What layers did so far.
    fn layers(&self) -> Vec<LayerNow> {
        let each = |(layer, did): (&&str, &BTreeMap<&str, (u64, u64)>)| LayerNow {
            name: (*layer).to_owned(),
            is: "so far".to_owned(),
            dirty: 0,
            hits: None,
            background: None,
            counters: did
                .iter()
                .flat_map(|(what, (times, bytes))| {
                    [((*what).to_owned(), *times), (format!("{what}, bytes"), *bytes)]
                })
                .collect(),
        };
        self.did.iter().map(each).take(PLACES).collect()
    }
}

impl Watched {
    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a sample into the hub; false after the end.
    fn put(&self, hub: &Hub, state: State) -> anyhow::Result<bool> {
        let mut events = self.events();
        if events.ended && matches!(state, State::Live) {
            return Ok(false);
        }
        let has_moved = events.now > events.since;
        let (since, at) = (events.since.seconds(), events.now.seconds());
        let (rows, maps) = events
            .rows(|number| self.names.get(number as usize).cloned().unwrap_or_else(|| number.to_string()));
        let layers = events.layers();
        drop(events);
        let sample = Sample { since, at, places: places(&rows), layers: Vec::new(), maps };
        let facts = vec![("virtual time".to_owned(), Nanos((at * 1e9) as u64).to_string())];
        let words = "its results are where seekless was started".to_owned();
        let words = if matches!(state, State::Ended) { words } else { String::new() };
        let now = Now { state, words, of: self.of.clone(), facts, rows, layers, work: Vec::new() };
        hub.put(has_moved.then_some(&sample), &now)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use seekless_core::{Class, Extent};

    use super::*;

    #[test]
    fn events_are_rates_in_virtual_time() {
        let mut events = Events::default();
        let request = |id, op, start| {
            let extent = Extent::new(start, 8);
            Event::Request { device: 1, id, op, extent, class: Class::Foreground }
        };
        events.count(Nanos::ZERO, &request(1, Op::Read, 0));
        events.count(Nanos::ZERO, &request(2, Op::Write, 1 << 20));
        events.count(Nanos::from_millis(8), &Event::Complete { device: 1, id: 1, ok: true });
        let did = Event::Did { layer: "borg", what: "copied", extent: Extent::new(0, 8), at: 0 };
        events.count(Nanos::from_millis(2_000), &did);
        let (rows, maps) = events.rows(|number| format!("d{number}"));
        assert_eq!((rows[0].name.as_str(), rows[0].op, rows[0].requests_per_s), ("d1", "read", 0.5));
        assert_eq!((rows[0].bytes_per_s, rows[0].p50_ms > 7.0, rows[0].in_flight), (2048.0, true, 1));
        assert_eq!((rows[1].op, rows[1].requests_per_s, rows.len()), ("write", 0.0, 2));
        assert_eq!((maps[0].heat.matches('1').count(), maps[0].part), (2, 4 << 20));
        assert_eq!(
            events.layers()[0].counters,
            [("copied".to_owned(), 1), ("copied, bytes".to_owned(), 4096)]
        );
        events.count(Nanos::from_millis(3_000), &Event::Complete { device: 1, id: 2, ok: false });
        let (rows, _) = events.rows(|number| format!("d{number}"));
        assert_eq!((rows[1].failed, rows[1].bytes_per_s, rows[1].requests_per_s), (1, 0.0, 1.0));
    }
}
