//! Free data mining (freeblock paper, section 6): full scans of a disk in the rotational waits of a busy foreground.
//!
//! A scan registers every block of the disk at once, takes them as they come, and is followed by the next. The same run
//! without free work shows the cost to the foreground: the sum of its waits, and a hash of every request and every
//! answer with its time. Fault model: none of its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::hash::{Hash, Hasher};
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::join_all;
use rustc_hash::{FxHashMap, FxHasher};
use seekless_core::runtime::{self, Event, Runtime};
use seekless_core::{Account, Class, Extent, Hints, IoError, Nanos, Record, SECTOR_BYTES};
use seekless_drive::freeblock::{FreeOptions, FreeStats, Freeblock};
use seekless_drive::spec::BusSpec;
use seekless_drive::{Policy, QueueOptions, Spec, Work};
use seekless_layers::registry;
use seekless_layers::replay::{OneAccount, replay};

use crate::error::LabError;
use crate::setup::Pace;
use crate::workload;
use crate::workload::answers::Answers;
use crate::workload::client::{Limit, carry_out_with};
use seekless_volume::Component;
use seekless_volume::Volume;
use seekless_volume::description::{Description, Layer};

/// The foreground load.
#[derive(Clone, Debug)]
pub enum Foreground {
    /// A workload as typed by the user.
    Load(String),
    /// A recording; the run ends with it.
    Trace(Rc<[Record]>, Pace),
}

/// What to mine, and how.
#[derive(Clone, Debug)]
pub struct Mining {
    /// The drive as it is: its cache is not switched off here.
    pub drive: Spec,
    /// Scheduler of the foreground.
    pub policy: Policy,
    /// The foreground load.
    pub foreground: Foreground,
    /// Options of freeblock scheduling.
    pub free: FreeOptions,
    /// Size of a block, in sectors.
    pub block: u64,
    /// Number of scans, one after another.
    pub scans: u64,
    /// Passes of the layer `scrub` with these options, instead of such scans.
    pub scrub: Option<toml::Table>,
    /// Limit in virtual time, instead of the number of scans.
    pub time: Option<Nanos>,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Result of mining.
#[derive(Clone, Debug, Default)]
pub struct Mined {
    /// Virtual time.
    pub elapsed: Nanos,
    /// Requests of the foreground.
    pub requests: u64,
    /// Blocks read, of all scans.
    pub blocks: u64,
    /// Blocks among them that a scrub did not read for free.
    pub paid_blocks: u64,
    /// Sum of the response times of the foreground's requests to the drive.
    pub waited: Nanos,
    /// Hash of the foreground's requests and answers with their times.
    pub hash: u64,
    /// The drive's work for the foreground.
    pub work: Work,
    /// Results of free work.
    pub freed: FreeStats,
    /// Times, from the start of each scan, at which each hundredth of it was done.
    pub hundredths: Vec<Vec<Nanos>>,
    /// Results of free work at those times, from the scan's start.
    pub freed_at: Vec<Vec<FreeStats>>,
    /// Bias of what was read by then, as `bias` computes it.
    pub biases: Vec<Vec<f64>>,
}

impl Mined {
    /// Mean duration of a scan, in seconds.
    pub fn scan_s(&self) -> f64 {
        self.at(100)
    }

    /// Mean of a figure over the scans.
    pub fn mean(&self, of: impl Fn(usize) -> f64) -> f64 {
        let scans = self.hundredths.len();
        (0..scans).map(of).sum::<f64>() / scans.max(1) as f64
    }

    /// Mean time at which this many hundredths of a scan were done, in seconds.
    pub fn at(&self, hundredth: usize) -> f64 {
        self.mean(|scan| self.hundredths[scan][hundredth].seconds())
    }
}

/// Parts of equal length that the disk is divided into for the bias.
const PARTS: usize = 100;

/// Deviation of a part of a scan from a fair sample of the disk, in per cent: the largest difference, over all places,
/// between the share of blocks before the place among those read and on the disk.
fn bias(by_part: &[u64; PARTS]) -> f64 {
    let all = by_part.iter().sum::<u64>().max(1) as f64;
    let (mut before, mut most) = (0, 0.0_f64);
    for (part, count) in by_part.iter().enumerate() {
        before += count;
        most = most.max((before as f64 / all - (part + 1) as f64 / PARTS as f64).abs());
    }
    100.0 * most
}

/// The drive as in the paper's experiments: no cache, no bus time, only the head.
pub fn head_alone(drive: &Spec) -> Spec {
    let mut drive = drive.clone();
    drive.set_write_cache(false);
    (drive.cache.enabled, drive.cache.read_on_arrival) = (false, false);
    (drive.cache.zero_latency_read, drive.cache.zero_latency_write) = (false, false);
    drive.bus = BusSpec { mb_s: Some(1e6), ..BusSpec::default() };
    drive
}

/// Mines; with `requests`, runs the same foreground alone for that number of them.
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
                found: format!("{}, which has no rotational waits to fill", mining.drive.name),
                expected: "a disk whose tracks do not overlap".to_owned(),
            });
        }
        let mined = RefCell::new(Mined::default());
        let miner = async {
            if arms.is_empty() && !volume.layers.contains_key(SCRUB) {
                pending::<()>().await;
            }
            for _ in 0..mining.scans {
                if let Some(scrub) = volume.layers.get(SCRUB) {
                    // Read errors are counted by the layer.
                    drop(scrub.command(SCRUB, Hints::default()).await);
                } else {
                    join_all(arms.iter().map(|arm| scan(arm, mining, arms.len() as u64, &mined))).await;
                }
            }
        };
        let limit = Limit { requests, time: mining.time.filter(|_| requests.is_none()) };
        let elapsed = match &mining.foreground {
            Foreground::Trace(records, pace) => play(records, *pace, &volume, miner).await?,
            Foreground::Load(text) => {
                let load = workload::parse(text)?;
                carry_out_with(&load, volume.top.clone(), limit, false, miner).await.whole()?.end
            }
        };
        let mut mined = mined.take();
        mined.elapsed = elapsed;
        count_scrubbed(&volume, mining.block, &mut mined);
        mined.work = volume.all();
        mined.freed = arms.iter().fold(FreeStats::default(), |freed, arm| freed.plus(&arm.stats()));
        Ok(mined)
    })?;
    let mut mined = result?;
    let schedule = schedule.borrow();
    (mined.requests, mined.waited) = (schedule.answers, Nanos((schedule.answered - schedule.issued) as u64));
    mined.hash = schedule.hasher.finish();
    Ok(mined)
}

/// Name of the scrub in the volume, and its command for a pass.
const SCRUB: &str = "scrub";

/// Puts a scrub over the whole drive.
fn scrub_over_all(volume: &mut Description, options: toml::Table) {
    let Some(entry) = registry::find(SCRUB) else { return };
    let over = std::mem::replace(&mut volume.top, SCRUB.to_owned());
    let layer = Layer { entry, over: vec![over], devices: BTreeMap::new(), reconfigure: None, options };
    volume.layers.insert(SCRUB.to_owned(), layer);
}

/// Counts the blocks that a scrub read, if there is one.
fn count_scrubbed(volume: &Volume, block: u64, mined: &mut Mined) {
    let Some(scrub) = volume.layers.get(SCRUB) else { return };
    let counters: BTreeMap<_, _> = scrub.counters().into_iter().collect();
    let blocks = |name| counters.get(name).map_or(0, |bytes| bytes / (block * SECTOR_BYTES));
    mined.blocks = blocks("bytes_scrubbed");
    mined.paid_blocks = mined.blocks - blocks("bytes_scrubbed_for_free");
}

/// Hashes each request of the foreground and each answer with its time.
#[derive(Default)]
struct Schedule {
    hasher: FxHasher,
    /// Index in the foreground of the requests in flight, by arm and number there.
    under_way: FxHashMap<(u32, u64), u64>,
    requests: u64,
    answers: u64,
    /// Sums of the times of requests and of answers, in nanoseconds.
    issued: u128,
    answered: u128,
}

impl Schedule {
    fn note(&mut self, now: Nanos, event: &Event) {
        match *event {
            Event::Request { device, id, extent, class, .. } if class <= Class::Foreground => {
                self.requests += 1;
                self.under_way.insert((device, id), self.requests);
                (now.0, self.requests, extent.start.0).hash(&mut self.hasher);
                self.issued += u128::from(now.0);
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

/// Plays a recording until it ends, along with everything else.
async fn play(
    records: &[Record],
    pace: Pace,
    volume: &Volume,
    concurrent: impl Future<Output = ()>,
) -> Result<Nanos, IoError> {
    let (mut one_account, mut silent) = (OneAccount(Account::default()), |_| ());
    let all = records.iter().map(|record| (*record, 0));
    let (total, top) = (records.len() as u64, volume.top.clone());
    let mut replay = pin!(replay::<Answers>(all, total, top, pace, &mut one_account, &mut silent));
    let mut concurrent = pin!(concurrent);
    let mut over = false;
    poll_fn(|context| {
        over = over || concurrent.as_mut().poll(context).is_ready();
        replay.as_mut().poll(context).map(|seen| seen.failure.map_or(Ok(seen.load.end), Err))
    })
    .await
}

async fn scan(arm: &Rc<Freeblock>, mining: &Mining, arms: u64, mined: &RefCell<Mined>) {
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
        mined.borrow_mut().blocks += 1;
        by_part[(block.at.start.0 * PARTS as u64 / sectors) as usize] += 1;
        let done = task.progress().done - task.ready();
        while times.len() as u64 <= 100 * done / all {
            times.push(runtime::now() - begin);
            freed.push(arm.stats().since(&before));
            biases.push(bias(&by_part));
        }
    }
    let mut mined = mined.borrow_mut();
    mined.hundredths.push(times);
    mined.freed_at.push(freed);
    mined.biases.push(biases);
}
