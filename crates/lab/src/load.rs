//! Runs a workload on a volume, in virtual time, and reports response times and the drives' work.
//!
//! Requests that fail are counted, and the run goes on.
//!
//! Invariant: the figures are those of the run up to the last answer; the final write-back of layers is not included.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use schemars::JsonSchema;
use seekless_core::runtime::{Runtime, Task};
use seekless_core::{Account, BlockDevice, Layer, Names, Nanos, Record, Size};
use seekless_drive::Work;
use seekless_layers::schedule::{Schedule, reconfigure_when};
use serde::Serialize;

use crate::error::LabError;
use crate::events::EventSink;
use crate::null_device::NullDevice;
use crate::outcome::HeadTime;
use crate::workload::Load;
use crate::workload::answers::{ResponseMs, Responses};
use crate::workload::client::{Limit, Observed, carry_out};
use seekless_volume::Volume;
use seekless_volume::description::Description;

/// Default number of requests of a workload that does not end by itself.
pub const REQUESTS: u64 = 10_000;

/// Results of a workload, and the work of its drives.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct LoadOutcome {
    /// Name of the workload.
    pub workload: String,
    /// The workload with its options, as given.
    pub options: String,
    /// Seed.
    pub seed: u64,
    /// Number of requests.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Flushes among them.
    pub flushes: u64,
    /// Requests that failed, which are in no other figure.
    pub failed: u64,
    /// Error of the first that failed; `None` if none did.
    pub first_failure: Option<String>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Virtual time in seconds, to the last answer.
    pub elapsed_s: f64,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Mean response time, in milliseconds.
    pub mean_response_ms: f64,
    /// Mean response time of reads, in milliseconds.
    pub mean_read_response_ms: f64,
    /// Distribution of response times.
    pub response_ms: ResponseMs,
    /// Distribution of response times by operation.
    pub responses_ms: Responses,
    /// Longest response time, in milliseconds.
    pub max_response_ms: f64,
    /// Head time per request, in milliseconds (the fields are named for seconds elsewhere).
    pub head_ms_per_request: HeadTimeMs,
    /// Head time of all drives.
    pub head: HeadTime,
    /// Virtual time in which no drive was busy, in seconds, per arm on average.
    pub idle_s: f64,
    /// Energy of all drives to the last answer, in joules; `None` if the description of one lacks it.
    pub energy_j: Option<f64>,
    /// Commands that woke a drive from a power state: one that had spun down, if it has such a state.
    pub drive_wakes: u64,
    /// Media accesses that moved an arm.
    pub seeks: u64,
    /// Share of pages served from the BOPT, in per cent; 0 without BORG.
    pub served_from_bopt_pct: f64,
    /// Number of reconfigurations.
    pub reconfigurations: u64,
    /// Reconfigurations that failed, which are not among those.
    pub reconfigurations_failed: u64,
    /// Error of the first of them.
    pub first_reconfiguration_failure: Option<String>,
    /// Counters of each layer of a volume, by its name.
    pub layers: BTreeMap<String, BTreeMap<String, u64>>,
    /// Hash of the run's event log, in hexadecimal.
    pub event_hash: String,
}

/// Head time of a request, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct HeadTimeMs {
    /// Seek.
    pub seek: f64,
    /// Rotation.
    pub rotation: f64,
    /// Transfer.
    pub transfer: f64,
    /// Command overhead.
    pub overhead: f64,
}

/// Options of a workload's run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// End of the run.
    pub limit: Limit,
    /// Seed of all random streams.
    pub seed: u64,
    /// Whether to record every request.
    pub keep: bool,
}

/// A workload as a trace.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Its requests in order of arrival, from time zero.
    pub records: Vec<Record>,
    /// Names of its processes.
    pub names: Names,
}

/// Runs a workload on a volume. Requests are returned with the outcome if [`Run::keep`] is set.
pub fn run_workload(
    load: &Load,
    volume: &Description,
    run: &Run,
    events: Option<EventSink>,
) -> Result<(LoadOutcome, Recorded), LabError> {
    load.fits(volume.check()?)?;
    let runtime = Runtime::new(run.seed);
    if let Some(sink) = events {
        runtime.watch_events(sink);
    }
    if let Some(schedule @ Schedule::Times(_)) = volume.layers.values().find_map(|layer| layer.reconfigure) {
        let expected = "every 10m or the like: the requests of a workload are not counted before".to_owned();
        return Err(LabError::Setting { setting: "reconfigure", found: schedule.to_string(), expected });
    }
    let every: Vec<(&String, Schedule)> =
        volume.layers.iter().filter_map(|(name, layer)| Some((name, layer.reconfigure?))).collect();
    let result: Result<_, LabError> = runtime.run(async {
        let volume = Volume::new(volume).await?;
        let done: Rc<RefCell<Reconfigurations>> = Rc::default();
        let adapted = every.iter().filter_map(|(name, every)| Some((volume.layers.get(*name)?, *every)));
        let movers: Vec<_> = adapted.map(|(layer, every)| reconfigure(layer, every, &done)).collect();
        let (top, limit) = (volume.top.clone(), limit(load, run));
        let observed = carry_out(load, top, limit, run.keep).await;
        drop(movers);
        let traffic = volume.downwards().find_map(|(_, layer)| layer.traffic(Account::default()));
        let traffic = traffic.unwrap_or_default();
        let (power, work) = ((volume.joules(), volume.wakes()), volume.all());
        // The work so far is that of the requests.
        for (_, layer) in volume.downwards() {
            layer.end_run(Account::default()).await?;
        }
        Ok((observed, work, traffic, done.take(), power, volume.arms(), volume.counted()))
    })?;
    let (observed, work, traffic, done, (energy_j, drive_wakes), arms, layers) = result?;
    let outcome = LoadOutcome {
        workload: load.name().to_owned(),
        seed: run.seed,
        served_from_bopt_pct: 100.0 * traffic.hits as f64 / (traffic.pages as f64).max(1.0),
        reconfigurations: done.ended,
        reconfigurations_failed: done.failed,
        first_reconfiguration_failure: done.first_failure,
        layers,
        energy_j,
        drive_wakes,
        idle_s: (observed.end.seconds() - work.occupied.seconds() / arms.max(1) as f64).max(0.0),
        event_hash: format!("{:016x}", runtime.event_hash()),
        ..outcome_of(&observed, &work)
    };
    Ok((outcome, Recorded { records: observed.records, names: observed.names }))
}

/// The arrivals of an open workload, which do not depend on a device: response times are unknown.
pub fn arrivals(load: &Load, sectors: u64, run: &Run) -> Result<(LoadOutcome, Recorded), LabError> {
    if !load.is_open() {
        return Err(LabError::Setting {
            setting: "drive",
            found: format!("none for {}, which waits for answers", load.name()),
            expected: "a drive to answer, or a workload that does not wait (such as random:rate=100/s)"
                .to_owned(),
        });
    }
    if sectors == 0 || sectors > 1 << 40 {
        let found = Size(sectors.saturating_mul(512)).to_string();
        return Err(LabError::Setting { setting: "over", found, expected: "1 sector to 512 TiB".to_owned() });
    }
    load.fits(sectors)?;
    let runtime = Runtime::new(run.seed);
    let device: Rc<dyn BlockDevice> = Rc::new(NullDevice { sectors });
    let observed = runtime.run(carry_out(load, device, limit(load, run), true))?.whole()?;
    let mut recorded = Recorded { names: observed.names.clone(), ..Recorded::default() };
    let latency = seekless_core::Latency::UNKNOWN;
    recorded.records = observed.records.iter().map(|record| Record { latency, ..*record }).collect();
    let event_hash = format!("{:016x}", runtime.event_hash());
    let outcome = outcome_of(&observed, &Work::default());
    Ok((LoadOutcome { workload: load.name().to_owned(), seed: run.seed, event_hash, ..outcome }, recorded))
}

/// Reconfigurations of a run.
#[derive(Debug, Default)]
struct Reconfigurations {
    ended: u64,
    failed: u64,
    first_failure: Option<String>,
}

/// Reconfigures a layer by its schedule; counts successes and failures.
fn reconfigure(layer: &Rc<dyn Layer>, schedule: Schedule, done: &Rc<RefCell<Reconfigurations>>) -> Task<()> {
    let done = done.clone();
    reconfigure_when(layer.clone(), schedule, move |result| {
        let mut done = done.borrow_mut();
        match result {
            Ok(_) => done.ended += 1,
            Err(error) => {
                done.failed += 1;
                done.first_failure.get_or_insert_with(|| error.to_string());
            }
        }
    })
}

/// The effective limit: a default one for a workload that would never end.
fn limit(load: &Load, run: &Run) -> Limit {
    let endless = run.limit == Limit::default() && !load.ends();
    if endless { Limit { requests: Some(REQUESTS), time: None } } else { run.limit }
}

fn outcome_of(observed: &Observed, work: &Work) -> LoadOutcome {
    let answers = &observed.answers;
    let requests = answers.requests();
    let per_request = |time: Nanos| time.seconds() * 1e3 / requests.max(1) as f64;
    LoadOutcome {
        requests,
        reads: answers.reads,
        writes: answers.writes,
        flushes: answers.flushes,
        failed: answers.failed,
        bytes_read: answers.bytes_read,
        bytes_written: answers.bytes_written,
        elapsed_s: observed.end.seconds(),
        requests_per_s: requests as f64 / observed.end.seconds().max(1e-9),
        first_failure: observed.failure.as_ref().map(ToString::to_string),
        mean_response_ms: answers.all.mean_ms(),
        mean_read_response_ms: answers.of_reads.mean_ms(),
        response_ms: answers.all.spread_ms(),
        responses_ms: answers.responses(),
        max_response_ms: answers.all.longest.seconds() * 1e3,
        head_ms_per_request: HeadTimeMs {
            seek: per_request(work.seek),
            rotation: per_request(work.rotation),
            transfer: per_request(work.transfer),
            overhead: per_request(work.overhead),
        },
        head: HeadTime::of(work),
        seeks: work.seeks,
        ..LoadOutcome::default()
    }
}
