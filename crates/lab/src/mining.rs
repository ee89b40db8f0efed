//! Free data mining (freeblock paper, section 6): full scans of a disk in the waits of a busy foreground.
//!
//! A scan registers every block of the disk at once, takes them as they come, and is followed by the next. The
//! same run without free work tells what the foreground paid: the sum of its waits, and a hash of every request and
//! every answer with its time. Fault model: none of its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::hash::{Hash, Hasher};
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::join_all;
use rustc_hash::{FxHashMap, FxHasher};
use seekless_core::runtime::{self, Event, Runtime};
use seekless_core::{Class, Extent, Hints, IoError, Nanos, Record, SECTOR_BYTES};
use seekless_drive::freeblock::{FreeOptions, FreeStats, Freeblock};
use seekless_drive::spec::BusSpec;
use seekless_drive::{Policy, QueueOptions, Spec, Work};
use seekless_layers::registry;

use crate::error::LabError;
use crate::phases::OneAccount;
use crate::replay::replay;
use crate::setup::Pace;
use crate::workload;
use crate::workload::client::{Limit, carry_out_beside};
use seekless_volume::Component;
use seekless_volume::Volume;
use seekless_volume::description::{Description, Layer};

/// Who asks for what is served at once.
#[derive(Clone, Debug)]
pub enum Foreground {
    /// A workload as a person types it.
    Load(String),
    /// A recording, which is over when it ends.
    Trace(Rc<[Record]>, Pace),
}

/// What is mined, and how.
#[derive(Clone, Debug)]
pub struct Mining {
    /// The drive, as it is: its cache is not switched off here.
    pub drive: Spec,
    /// The foreground's scheduler.
    pub policy: Policy,
    /// What is served at once.
    pub foreground: Foreground,
    /// How gaps are filled.
    pub free: FreeOptions,
    /// The size of a block, in sectors.
    pub block: u64,
    /// How many scans, one after another.
    pub scans: u64,
    /// Instead of such scans: passes of the layer `scrub` with these options.
    pub scrub: Option<toml::Table>,
    /// Or until so much virtual time has passed.
    pub time: Option<Nanos>,
    /// All randomness follows from it.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Mined {
    /// Virtual time.
    pub elapsed: Nanos,
    /// The foreground's requests.
    pub requests: u64,
    /// Blocks that came, of all scans.
    pub blocks: u64,
    /// Those of them that a scrub did not read for free.
    pub paid_blocks: u64,
    /// The sum of the response times of the foreground's requests to the drive.
    pub waited: Nanos,
    /// A hash of the foreground's requests and answers with their times.
    pub hash: u64,
    /// What the drive did for the foreground.
    pub work: Work,
    /// What free work came to.
    pub freed: FreeStats,
    /// Of each scan, when so many hundredths of it were done, from its begin.
    pub hundredths: Vec<Vec<Nanos>>,
    /// What free work had come to at those times, from the scan's begin.
    pub freed_at: Vec<Vec<FreeStats>>,
    /// How biased what was read by then was: see [`bias`].
    pub biases: Vec<Vec<f64>>,
}

impl Mined {
    /// How long a scan took, on average, in seconds.
    pub fn scan_s(&self) -> f64 {
        self.at(100)
    }

    /// The mean of a figure of the scans.
    pub fn mean(&self, of: impl Fn(usize) -> f64) -> f64 {
        let scans = self.hundredths.len();
        (0..scans).map(of).sum::<f64>() / scans.max(1) as f64
    }

    /// When so many hundredths of a scan were done, on average, in seconds.
    pub fn at(&self, hundredth: usize) -> f64 {
        self.mean(|scan| self.hundredths[scan][hundredth].seconds())
    }
}

/// The disk is looked at in so many parts of equal length.
const PARTS: usize = 100;

/// How far a part of a scan is from being a fair sample of the disk, in per cent: the largest difference, over all
/// places, between the share of the blocks before the place among those that were read and on the disk.
fn bias(by_part: &[u64; PARTS]) -> f64 {
    let all = by_part.iter().sum::<u64>().max(1) as f64;
    let (mut before, mut most) = (0, 0.0_f64);
    for (part, count) in by_part.iter().enumerate() {
        before += count;
        most = most.max((before as f64 / all - (part + 1) as f64 / PARTS as f64).abs());
    }
    100.0 * most
}

/// The drive as the paper's experiments have it: no cache, no bus that takes time, nothing but the head.
pub fn head_alone(drive: &Spec) -> Spec {
    let mut drive = drive.clone();
    drive.set_write_cache(false);
    (drive.cache.enabled, drive.cache.read_on_arrival) = (false, false);
    (drive.cache.zero_latency_read, drive.cache.zero_latency_write) = (false, false);
    drive.bus = BusSpec { mb_s: Some(1e6), ..BusSpec::default() };
    drive
}

/// Mines; if `requests` are told, the same foreground alone for so many of them.
pub fn mine(mining: &Mining, requests: Option<u64>) -> Result<Mined, LabError> {
    let free = requests.is_none().then_some(mining.free);
    let queue = QueueOptions {
        policy: mining.policy,
        merge: false,
        starvation_limit: Nanos::ZERO,
        freeblock: free,
        ..QueueOptions::default()
    };
    let mut volume =
        Description::bare(Component::new(mining.drive.clone().into(), queue), mining.drive.sectors);
    if let Some(options) = mining.scrub.clone().filter(|_| requests.is_none()) {
        scrub_over_all(&mut volume, options);
    }
    let runtime = Runtime::new(mining.seed);
    let schedule = Rc::new(RefCell::new(Schedule::default()));
    let events = schedule.clone();
    runtime.watch_events(move |now, event| events.borrow_mut().note(now, event));
    let result: Result<_, LabError> = runtime.run(async {
        let volume = Volume::new(&volume).await?;
        let arms: Vec<Rc<Freeblock>> = volume.drives.values().flat_map(|drive| drive.freeblock()).collect();
        if arms.is_empty() && requests.is_none() && mining.scrub.is_none() {
            return Err(LabError::Setting {
                setting: "drive",
                found: format!("{}, which has no waits that could be filled", mining.drive.name),
                expected: "a disk whose tracks do not overlap".to_owned(),
            });
        }
        let told = RefCell::new(Mined::default());
        let miner = async {
            if arms.is_empty() && !volume.layers.contains_key(SCRUB) {
                pending::<()>().await;
            }
            for _ in 0..mining.scans {
                if let Some(scrub) = volume.layers.get(SCRUB) {
                    // What a drive cannot read is counted there.
                    drop(scrub.command(SCRUB, Hints::default()).await);
                } else {
                    join_all(arms.iter().map(|arm| scan(arm, mining, arms.len() as u64, &told))).await;
                }
            }
        };
        let limit = Limit { requests, time: mining.time.filter(|_| requests.is_none()) };
        let elapsed = match &mining.foreground {
            Foreground::Trace(records, pace) => play(records, *pace, &volume, miner).await?,
            Foreground::Load(text) => {
                let load = workload::parse(text)?;
                carry_out_beside(&load, volume.top.clone(), limit, false, miner).await.whole()?.end
            }
        };
        let mut told = told.take();
        told.elapsed = elapsed;
        count_scrubbed(&volume, mining.block, &mut told);
        told.work = volume.all();
        told.freed = arms.iter().fold(FreeStats::default(), |freed, arm| freed.plus(&arm.stats()));
        Ok(told)
    })?;
    let mut told = result?;
    let schedule = schedule.borrow();
    (told.requests, told.waited) = (schedule.answers, Nanos((schedule.answered - schedule.asked) as u64));
    told.hash = schedule.hasher.finish();
    Ok(told)
}

/// What it is called in the volume, and the command for a pass.
const SCRUB: &str = "scrub";

/// A scrub of all of a drive.
fn scrub_over_all(volume: &mut Description, options: toml::Table) {
    let Some(entry) = registry::find(SCRUB) else { return };
    let over = std::mem::replace(&mut volume.top, SCRUB.to_owned());
    let layer = Layer { entry, over, devices: BTreeMap::new(), reconfigure: None, options };
    volume.layers.insert(SCRUB.to_owned(), layer);
}

/// The blocks that a scrub read, if there is one.
fn count_scrubbed(volume: &Volume, block: u64, told: &mut Mined) {
    let Some(scrub) = volume.layers.get(SCRUB) else { return };
    let counters: BTreeMap<_, _> = scrub.counters().into_iter().collect();
    let blocks = |name| counters.get(name).map_or(0, |bytes| bytes / (block * SECTOR_BYTES));
    told.blocks = blocks("bytes_scrubbed");
    told.paid_blocks = told.blocks - blocks("bytes_scrubbed_for_free");
}

/// Each request of the foreground and each answer with its time.
#[derive(Default)]
struct Schedule {
    hasher: FxHasher,
    /// Requests under way, by their arm and number there: the how-many-th of the foreground each is.
    under_way: FxHashMap<(u32, u64), u64>,
    requests: u64,
    answers: u64,
    /// The sums of the times of requests and of answers, in nanoseconds.
    asked: u128,
    answered: u128,
}

impl Schedule {
    fn note(&mut self, now: Nanos, event: &Event) {
        match *event {
            Event::Request { device, id, extent, class, .. } if class <= Class::Foreground => {
                self.requests += 1;
                self.under_way.insert((device, id), self.requests);
                (now.0, self.requests, extent.start.0).hash(&mut self.hasher);
                self.asked += u128::from(now.0);
            }
            Event::Complete { device, id, ok } => {
                let Some(number) = self.under_way.remove(&(device, id)) else { return };
                (now.0, number, ok).hash(&mut self.hasher);
                self.answered += u128::from(now.0);
                self.answers += 1;
            }
            _ => {}
        }
    }
}

/// Plays a recording until it ends, and the rest with it.
async fn play(
    records: &[Record],
    pace: Pace,
    volume: &Volume,
    beside: impl Future<Output = ()>,
) -> Result<Nanos, IoError> {
    let (mut one_account, mut silent) = (OneAccount, |_| ());
    let mut replay = pin!(replay(records, volume.top.clone(), pace, &mut one_account, &mut silent));
    let mut beside = pin!(beside);
    let mut over = false;
    poll_fn(|context| {
        over = over || beside.as_mut().poll(context).is_ready();
        replay.as_mut().poll(context).map(|seen| seen.failure.map_or(Ok(seen.load.end), Err))
    })
    .await
}

async fn scan(arm: &Rc<Freeblock>, mining: &Mining, arms: u64, told: &RefCell<Mined>) {
    let block = mining.block;
    let sectors = mining.drive.sectors / arms / block * block;
    let Ok(task) = arm.reader(block) else { return };
    let (begin, before) = (runtime::now(), arm.stats());
    if task.read(Extent::new(0, sectors)).is_err() {
        return;
    }
    let all = sectors / block;
    let (mut times, mut freed) = (vec![Nanos::ZERO], vec![FreeStats::default()]);
    let (mut by_part, mut biases) = ([0; PARTS], vec![0.0]);
    while let Some(block) = task.next().await {
        told.borrow_mut().blocks += 1;
        by_part[(block.at.start.0 * PARTS as u64 / sectors) as usize] += 1;
        let done = task.progress().done - task.ready();
        while times.len() as u64 <= 100 * done / all {
            times.push(runtime::now() - begin);
            freed.push(arm.stats().since(&before));
            biases.push(bias(&by_part));
        }
    }
    let mut told = told.borrow_mut();
    told.hundredths.push(times);
    told.freed_at.push(freed);
    told.biases.push(biases);
}
