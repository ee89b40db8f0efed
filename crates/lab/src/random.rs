//! The *random* workload: N clients, each with one request outstanding, uniformly over the volume.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::runtime::{self, Runtime};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, Nanos, Origin, PAGE_SECTORS, ProcessId};
use serde::Serialize;

use crate::compare::EventSink;
use crate::experiment::{Experiment, LabError};
use crate::outcome::HeadTime;
use crate::volume::Volume;

/// A random load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomLoad {
    /// Clients, each with one request outstanding.
    pub outstanding: u64,
    /// Requests in all.
    pub requests: u64,
    /// Sectors of each.
    pub sectors: u64,
    /// Reads among them, in per cent.
    pub reads_pct: u64,
}

/// What a random load saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RandomOutcome {
    /// Requests.
    pub requests: u64,
    /// Virtual time in seconds.
    pub elapsed_s: f64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// From issue to answer, in milliseconds.
    pub mean_response_ms: f64,
    /// The longest, in milliseconds.
    pub max_response_ms: f64,
    /// Head time a request, in milliseconds (the fields are named for seconds elsewhere).
    pub head_ms_per_request: HeadTimeMs,
    /// Head time in all.
    pub head: HeadTime,
    /// Media accesses that moved the arm.
    pub seeks: u64,
    /// The hash of the run's event log, in hexadecimal.
    pub event_hash: String,
}

/// Where a request's time goes, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeadTimeMs {
    /// The arm.
    pub seek: f64,
    /// The disk.
    pub rotation: f64,
    /// The media.
    pub transfer: f64,
    /// Commands.
    pub overhead: f64,
}

#[derive(Default)]
struct Answers {
    count: u64,
    sum: Nanos,
    longest: Nanos,
}

/// Runs a random load on an experiment's volume. The layer, if any, is not reconfigured.
pub fn run_random(
    load: &RandomLoad,
    experiment: &Experiment,
    events: Option<EventSink>,
) -> Result<RandomOutcome, LabError> {
    experiment.check(None)?;
    let over = experiment.over_sectors.unwrap_or_else(|| {
        let bopt = experiment.layer.as_ref().map_or(0, |layer| layer.bopt_sectors);
        experiment.drive.sectors.saturating_sub(bopt) / PAGE_SECTORS * PAGE_SECTORS
    });
    let experiment = &Experiment { over_sectors: Some(over), ..experiment.clone() };
    let places = experiment.places("random", 0)?;
    check(load, over)?;
    let runtime = Runtime::new(experiment.seed);
    if let Some(sink) = events {
        runtime.watch_events(sink);
    }
    let (answers, work) = runtime.run(async {
        let volume = Volume::new(experiment, &places)?;
        let answers: Rc<RefCell<Answers>> = Rc::default();
        let left = Rc::new(RefCell::new(load.requests));
        let clients: Vec<_> = (0..load.outstanding)
            .map(|client| {
                let (top, answers, left) = (volume.top.clone(), answers.clone(), left.clone());
                let load = *load;
                runtime::spawn(async move { one_client(client, &load, over, &*top, &left, &answers).await })
            })
            .collect();
        for client in clients {
            client.await?;
        }
        let answers = answers.take();
        Ok::<_, IoError>((answers, volume.disk.all()))
    })??;
    let per_request = |time: Nanos| time.seconds() * 1e3 / answers.count.max(1) as f64;
    Ok(RandomOutcome {
        requests: answers.count,
        elapsed_s: runtime.now().seconds(),
        requests_per_s: answers.count as f64 / runtime.now().seconds().max(1e-9),
        mean_response_ms: per_request(answers.sum),
        max_response_ms: answers.longest.seconds() * 1e3,
        head_ms_per_request: HeadTimeMs {
            seek: per_request(work.seek),
            rotation: per_request(work.rotation),
            transfer: per_request(work.transfer),
            overhead: per_request(work.overhead),
        },
        head: HeadTime::of(&work),
        seeks: work.seeks,
        event_hash: format!("{:016x}", runtime.event_hash()),
    })
}

fn check(load: &RandomLoad, over: u64) -> Result<(), LabError> {
    let setting = |setting, found: u64, expected: String| {
        Err(LabError::Setting { setting, found: found.to_string(), expected })
    };
    if load.outstanding == 0 || load.outstanding > 100_000 {
        return setting("outstanding", load.outstanding, "1 to 100000".to_owned());
    }
    if load.requests == 0 {
        return setting("requests", 0, "at least 1".to_owned());
    }
    if load.sectors == 0 || load.sectors > seekless_core::device::LARGEST_REQUEST_SECTORS.min(over) {
        return setting(
            "size",
            load.sectors * 512,
            "one sector to 32 MiB, and no more than the volume".to_owned(),
        );
    }
    if load.reads_pct > 100 {
        return setting("reads", load.reads_pct, "0 to 100".to_owned());
    }
    Ok(())
}

async fn one_client(
    client: u64,
    load: &RandomLoad,
    over: u64,
    top: &dyn BlockDevice,
    left: &RefCell<u64>,
    answers: &RefCell<Answers>,
) -> Result<(), IoError> {
    let mut rng = runtime::rng("random client");
    let process = ProcessId(client as u32 + 1);
    let how = Hints { origin: Origin { process, ..Origin::default() }, ..Hints::default() };
    // Aligned to pages where requests are, as file systems do.
    let step = if load.sectors % PAGE_SECTORS == 0 { PAGE_SECTORS } else { 1 };
    loop {
        {
            let mut left = left.borrow_mut();
            if *left == 0 {
                return Ok(());
            }
            *left -= 1;
        }
        let start = rng.below((over - load.sectors) / step + 1) * step;
        let at = Extent::new(start, load.sectors);
        let begin = runtime::now();
        if rng.chance(load.reads_pct, 100) {
            top.read(at, Buffer::hollow_sectors(at.sectors), how.clone()).await?;
        } else {
            top.write(at, Buffer::hollow_sectors(at.sectors), how.clone()).await?;
        }
        let took = runtime::now() - begin;
        let mut answers = answers.borrow_mut();
        answers.count += 1;
        answers.sum += took;
        answers.longest = answers.longest.max(took);
    }
}
