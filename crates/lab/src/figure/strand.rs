//! Strands: small requests near each other that are sent to a drive together (proximal paper, section 2.3), as a client
//! of a block device in virtual time.
//!
//! Before each strand the drive gets one request at a random place; the strand arrives while that one is in service, as
//! the paper demands ("issued to a non-empty disk queue", section 2.5), and its time counts from the end of that
//! request. The write cache is off: a write is answered when it is on the media. Invariant: requests of one strand do
//! not overlap. Fault model: a drive that is too small for the strands is refused; an error of the device ends the run.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use seekless_core::runtime::{self, Rng, Runtime};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, Lba, Nanos, Op};

use seekless_drive::disk::Drive;
use seekless_drive::disk::mechanics::{Head, nanos};
use seekless_drive::{Policy, QueueOptions, Spec, simulated};

use crate::error::LabError;

/// Sectors of a request: 4 KiB, the paper's block (section 3).
const SECTORS: u64 = 8;

/// Placement of a strand's requests (section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On consecutive tracks, each where the head can just reach it in time.
    SemiSequential,
    /// At random within 1,024 sectors, about a track.
    TrackApproximate,
    /// At random within 100,000 sectors.
    Proximal,
}

impl Kind {
    /// The range of sectors for random placement.
    fn span(self) -> u64 {
        match self {
            Kind::TrackApproximate => 1_024,
            Kind::SemiSequential | Kind::Proximal => 100_000,
        }
    }
}

/// Order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By ascending address.
    Sorted,
    /// As drawn.
    Unsorted,
}

/// Arrival of a strand at the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Whether the drive is busy when it arrives.
    pub busy: bool,
    /// Interval between two of its requests.
    pub apart: Nanos,
}

/// A kind of strand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strand {
    /// Placement of its requests.
    pub kind: Kind,
    /// Number of requests.
    pub requests: usize,
    /// Reads or writes.
    pub op: Op,
    /// Order of submission.
    pub order: Order,
    /// Queue depth of the drive.
    pub depth: usize,
    /// Arrival.
    pub arrival: Arrival,
}

impl Strand {
    /// A strand as the paper sends it: all at once, sorted, to a busy drive.
    pub fn new(kind: Kind, requests: usize, op: Op) -> Strand {
        let arrival = Arrival { busy: true, apart: Nanos::ZERO };
        Strand { kind, requests, op, order: Order::Sorted, depth: requests, arrival }
    }
}

/// Response times of `strands` strands on a drive with SPTF, in milliseconds.
pub fn response_ms(spec: &Spec, strand: Strand, strands: u64, seed: u64) -> Result<Vec<f64>, LabError> {
    check(spec, strand)?;
    let mut spec = spec.clone();
    spec.set_write_cache(false);
    let spec = &spec;
    let queue = QueueOptions {
        policy: Policy::Sptf,
        merge: false,
        starvation_limit: Nanos::ZERO,
        ..QueueOptions::default()
    };
    let runtime = Runtime::new(seed);
    let times: Result<Vec<f64>, IoError> = runtime.run(async {
        let client = Client {
            device: simulated(0, &spec.clone().into(), queue).device(),
            known: Drive::new(spec),
            turn_round: nanos(spec.command.turn_round_us),
            strand,
        };
        let mut rng = runtime::rng("strands");
        let mut times = Vec::new();
        for _ in 0..strands {
            times.push(client.one(&mut rng).await?.0 as f64 / 1e6);
        }
        Ok(times)
    })?;
    Ok(times?)
}

/// Mean time to read `sectors` in one request at a random track's start, in milliseconds.
pub fn track_read_ms(spec: &Spec, requests: u64, seed: u64) -> Result<f64, LabError> {
    check(spec, Strand::new(Kind::Proximal, 1, Op::Read))?;
    let runtime = Runtime::new(seed);
    let sum: Result<Nanos, IoError> = runtime.run(async {
        let disk = simulated(0, &spec.clone().into(), QueueOptions::default()).device();
        let layout = Drive::new(spec).layout().clone();
        let (mut rng, mut sum) = (runtime::rng("tracks"), Nanos::ZERO);
        for _ in 0..requests {
            let track = layout.around(Lba(rng.below(layout.sectors())));
            let begin = runtime::now();
            disk.read(track, Buffer::hollow_sectors(track.sectors), Hints::default()).await?;
            sum += runtime::now() - begin;
        }
        Ok(sum)
    })?;
    Ok(sum?.0 as f64 / 1e6 / requests.max(1) as f64)
}

fn check(spec: &Spec, strand: Strand) -> Result<(), LabError> {
    let largest = spec.zone.iter().map(|zone| u64::from(zone.sectors_per_track)).max().unwrap_or(0);
    let needs = strand.kind.span() + (strand.requests as u64 + 2) * largest;
    if spec.sectors > needs {
        return Ok(());
    }
    let found = format!("{} of {} sectors", spec.name, spec.sectors);
    Err(LabError::Setting { setting: "drive", found, expected: format!("more than {needs} sectors") })
}

/// A client that sends strands.
struct Client {
    device: Rc<dyn BlockDevice>,
    /// The drive's parameters, as if extracted.
    known: Drive,
    turn_round: u64,
    strand: Strand,
}

impl Client {
    /// Sends one strand; returns its response time.
    async fn one(&self, rng: &mut Rng) -> Result<Nanos, IoError> {
        let sectors = self.known.layout().sectors();
        let elsewhere = Extent::new(rng.below(sectors - SECTORS), SECTORS);
        let mut requests = match self.strand.kind {
            Kind::SemiSequential => self.semi_sequential(rng),
            Kind::TrackApproximate | Kind::Proximal => self.random(rng),
        };
        if self.strand.order == Order::Sorted {
            requests.sort_unstable_by_key(|at| at.start);
        }
        let before = runtime::spawn(ask(self.device.clone(), Op::Read, elsewhere));
        let begin = if self.strand.arrival.busy {
            // So that it is in service when the strand arrives.
            runtime::sleep(Nanos(1)).await;
            let answered = runtime::spawn(async move { before.await.map(|()| runtime::now()) });
            let sent = self.send(requests);
            let begin = answered.await?;
            sent.await?;
            begin
        } else {
            before.await?;
            let begin = runtime::now();
            self.send(requests).await?;
            begin
        };
        Ok(runtime::now() - begin)
    }

    /// Sends requests within the queue depth; done when all are answered.
    fn send(&self, requests: Vec<Extent>) -> impl Future<Output = Result<(), IoError>> + use<> {
        let Strand { op, depth, arrival, .. } = self.strand;
        let left = Rc::new(RefCell::new(VecDeque::from(requests)));
        let slots: Vec<_> = (0..depth)
            .map(|slot| {
                let (device, left) = (self.device.clone(), left.clone());
                runtime::spawn(async move {
                    if arrival.apart > Nanos::ZERO {
                        runtime::sleep(Nanos(arrival.apart.0 * slot as u64)).await;
                    }
                    loop {
                        let Some(at) = left.borrow_mut().pop_front() else { return Ok(()) };
                        ask(device.clone(), op, at).await?;
                    }
                })
            })
            .collect();
        async move {
            for slot in slots {
                slot.await?;
            }
            Ok(())
        }
    }

    /// Random requests within the span, at a random place, without overlap.
    fn random(&self, rng: &mut Rng) -> Vec<Extent> {
        let span = self.strand.kind.span();
        let start = rng.below(self.known.layout().sectors() - span);
        let (mut taken, mut requests) = (BTreeSet::new(), Vec::new());
        while requests.len() < self.strand.requests {
            let block = rng.below(span / SECTORS);
            if taken.insert(block) {
                requests.push(Extent::new(start + block * SECTORS, SECTORS));
            }
        }
        requests
    }

    /// One request a track from a random place on, each where the head can just reach it in time (reference 30 of the
    /// paper).
    fn semi_sequential(&self, rng: &mut Rng) -> Vec<Extent> {
        let (layout, mechanics) = (self.known.layout(), self.known.mechanics());
        let start = rng.below(layout.sectors() - self.strand.kind.span());
        let first = layout.around(Lba(start));
        let within = start.min(first.end().0.saturating_sub(SECTORS)).max(first.start.0);
        let mut requests = vec![Extent::new(within, SECTORS)];
        while let Some(&last) = requests.last().filter(|_| requests.len() < self.strand.requests) {
            let from = layout.piece(last);
            let track = layout.around(layout.around(last.start).end());
            let to = layout.piece(track);
            let head = Head { cylinder: from.cylinder, head: from.head };
            let write = self.strand.op == Op::Write;
            let reach = mechanics.reach_after(self.turn_round, head, &to, write);
            let there = from.angle + self.known.passing_to_answer(SECTORS, from.per_track).0 + reach;
            // The first sector that passes after that, or the track's first.
            let passed = mechanics.revolution().0 - mechanics.wait(to.angle, there);
            let sector = (passed * to.per_track).div_ceil(mechanics.revolution().0);
            let sector = if sector + SECTORS > track.sectors { 0 } else { sector };
            requests.push(Extent::new(track.start.0 + sector, SECTORS));
        }
        requests
    }
}

async fn ask(device: Rc<dyn BlockDevice>, op: Op, at: Extent) -> Result<(), IoError> {
    let buffer = Buffer::hollow_sectors(at.sectors);
    match op {
        Op::Write => device.write(at, buffer, Hints::default()).await,
        _ => device.read(at, buffer, Hints::default()).await.map(drop),
    }
}

/// The mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
