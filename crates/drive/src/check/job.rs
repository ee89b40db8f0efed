//! The work of a measurement, done by a model in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::runtime::{self, Rng, Runtime, now, spawn};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, Nanos, PAGE_SECTORS, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

use super::{CheckError, Figure};
use crate::queue::QueueOptions;
use crate::simulated::simulated;
use crate::spec::Model;

/// Sectors of a request in a stream: 1 MiB.
const LARGE: u64 = 2048;
/// A stream is measured at this many places, equally far apart, over this many requests each.
const PLACES: u64 = 32;
const RUN: u64 = 64;
/// Random reads, enough for the 99.9th percentile.
const READS: u32 = 40_000;
/// Flushes whose times are averaged.
const FLUSHES: u32 = 100;

/// What a drive did while it was measured. Random requests are of 4 KiB, over the whole drive; writes are with the
/// write cache on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Job {
    /// Random reads, this many at a time in the drive.
    Reads {
        /// Number in the drive.
        outstanding: u32,
    },
    /// Random writes, one at a time, from an empty cache on.
    Writes {
        /// For this time.
        seconds: u32,
    },
    /// Random writes, then a flush, whose time counts.
    Flush {
        /// Number of writes before each flush.
        after: u32,
        /// Number of further ones that a file system adds.
        #[serde(default)]
        further: u32,
    },
    /// Random writes, each with a flush behind it; the time of both counts.
    SyncedWrites,
    /// Reads in sequence.
    StreamOfReads,
    /// Writes in sequence, until they are on the media.
    StreamOfWrites,
}

/// What a job gave.
#[derive(Clone, Debug, Default)]
pub struct Did {
    /// Response times, in ascending order.
    times: Vec<Nanos>,
    bytes: u64,
    elapsed: Nanos,
}

impl Did {
    /// A figure of it.
    pub fn figure(&self, figure: Figure) -> f64 {
        let seconds = self.elapsed.seconds().max(1e-9);
        match figure {
            Figure::MeanMs => {
                let sum: u64 = self.times.iter().map(|time| time.0).sum();
                sum as f64 / self.times.len().max(1) as f64 / 1e6
            }
            Figure::P50Ms => self.percentile(500),
            Figure::P99Ms => self.percentile(990),
            Figure::P999Ms => self.percentile(999),
            Figure::PerS => self.times.len() as f64 / seconds,
            Figure::MbS => self.bytes as f64 / seconds / 1e6,
        }
    }

    /// The response time that this many of a thousand do not exceed, in milliseconds.
    fn percentile(&self, thousandths: usize) -> f64 {
        let at = (self.times.len() * thousandths).div_ceil(1_000).saturating_sub(1);
        self.times.get(at).map_or(0.0, |time| time.seconds() * 1e3)
    }
}

/// A drive at work.
struct Working {
    device: Rc<dyn BlockDevice>,
    did: RefCell<Did>,
    rng: RefCell<Rng>,
}

impl Job {
    /// Has a drive of this model do the job.
    pub fn on(self, model: &Model) -> Result<Did, CheckError> {
        let mut model = model.clone();
        if let Model::Disk(spec) = &mut model {
            spec.set_write_cache(!matches!(self, Job::Reads { .. } | Job::StreamOfReads));
        }
        let depth = match self {
            Job::Reads { outstanding } if outstanding > 1 => Some(outstanding),
            _ => None,
        };
        let did = Runtime::new(1).run(async {
            let drive = simulated(0, &model, QueueOptions { depth, ..QueueOptions::default() });
            let rng = RefCell::new(runtime::rng("measured"));
            let working = Rc::new(Working { device: drive.device(), did: RefCell::default(), rng });
            self.work(&working).await?;
            let mut did = working.did.take();
            did.times.sort_unstable();
            Ok(did)
        })?;
        did.map_err(|error: IoError| CheckError::Failed { drive: model.name().to_owned(), error })
    }

    async fn work(self, working: &Rc<Working>) -> Result<(), IoError> {
        let begin = now();
        match self {
            Job::Reads { outstanding } => {
                let each = READS / outstanding.max(1);
                let clients: Vec<_> =
                    (0..outstanding).map(|_| spawn(working.clone().random_reads(each))).collect();
                for client in clients {
                    client.await?;
                }
            }
            Job::Writes { seconds } => {
                while now().since(begin) < Nanos::from_millis(u64::from(seconds) * 1_000) {
                    let time = working.write(working.somewhere()).await?;
                    working.answered(time);
                }
            }
            Job::Flush { after, further } => {
                for _ in 0..FLUSHES {
                    for _ in 0..after + further {
                        working.write(working.somewhere()).await?;
                    }
                    let time = working.flush().await?;
                    working.answered(time);
                }
            }
            Job::SyncedWrites => {
                for _ in 0..FLUSHES * 10 {
                    let time = working.write(working.somewhere()).await? + working.flush().await?;
                    working.answered(time);
                }
            }
            Job::StreamOfReads => return working.stream(false).await,
            Job::StreamOfWrites => return working.stream(true).await,
        }
        working.did.borrow_mut().elapsed = now().since(begin);
        Ok(())
    }
}

impl Working {
    /// 4 KiB somewhere on the drive.
    fn somewhere(&self) -> Extent {
        let pages = self.device.geometry().sectors / PAGE_SECTORS;
        Extent::new(self.rng.borrow_mut().below(pages) * PAGE_SECTORS, PAGE_SECTORS)
    }

    fn answered(&self, time: Nanos) {
        self.did.borrow_mut().times.push(time);
    }

    async fn random_reads(self: Rc<Self>, requests: u32) -> Result<(), IoError> {
        for _ in 0..requests {
            let time = self.read(self.somewhere()).await?;
            self.answered(time);
        }
        Ok(())
    }

    async fn read(&self, at: Extent) -> Result<Nanos, IoError> {
        let begin = now();
        self.device.read(at, Buffer::hollow_sectors(at.sectors), Hints::default()).await?;
        Ok(now().since(begin))
    }

    async fn write(&self, at: Extent) -> Result<Nanos, IoError> {
        let begin = now();
        self.device.write(at, Buffer::hollow_sectors(at.sectors), Hints::default()).await?;
        Ok(now().since(begin))
    }

    async fn flush(&self) -> Result<Nanos, IoError> {
        let begin = now();
        self.device.flush(Hints::default()).await?;
        Ok(now().since(begin))
    }

    /// Sequences at places over the whole drive; the first request at each, which moves the head there, does not count.
    async fn stream(&self, write: bool) -> Result<(), IoError> {
        let apart = self.device.geometry().sectors / PLACES / LARGE * LARGE;
        let run = RUN.min(apart / LARGE).max(2);
        for place in 0..PLACES {
            let at = |number: u64| Extent::new(place * apart + number * LARGE, LARGE);
            let mut begin = now();
            for number in 0..run {
                if write {
                    self.write(at(number)).await?
                } else {
                    self.read(at(number)).await?
                };
                if number == 0 {
                    if write {
                        self.flush().await?;
                    }
                    begin = now();
                }
            }
            if write {
                self.flush().await?;
            }
            let mut did = self.did.borrow_mut();
            did.elapsed += now().since(begin);
            did.bytes += (run - 1) * LARGE * SECTOR_BYTES;
        }
        Ok(())
    }
}
