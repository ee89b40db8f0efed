//! Timed reads, with a model of what the drive's cache may hold.
//!
//! Addresses are *blocks*: the device's physical blocks, of one or more sectors. Angles are in turns. When a read miss
//! of one block is answered, the disk's angle is that of the block plus a constant.
//!
//! Invariants: one request at a time; none after the deadline. All are reads except [`Probe::write_back`], which can
//! write only data read from the same blocks. A block may be cached if it lies where one of the last `segments` reads,
//! or its read-ahead, can have been. Reading downwards never meets one.

use std::collections::VecDeque;

use seekless_core::runtime::{Rng, now, sleep_until};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, Nanos};

use super::stats::forward;
use super::{Progress, Unknown};

/// How long a drive may take to stop read-ahead when the next command arrives, in nanoseconds.
const SLACK: f64 = 1.5e6;
/// Before tracks are known: more blocks than any track has.
const LARGEST_TRACK: f64 = 16_384.0;
/// Before turns are known: the shortest, of 24,000 rpm, in nanoseconds.
const SHORTEST_TURN: f64 = 2.5e6;
/// Reads remembered if the cache's segments cannot be counted.
pub const MOST_SEGMENTS: usize = 512;

/// Reads between two progress reports.
const REPORT_AFTER: u64 = 64;

/// A timed read.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// When it was submitted.
    pub submitted: Nanos,
    /// When it was answered.
    pub done: Nanos,
}

impl Timed {
    /// Duration, in nanoseconds.
    pub fn took(&self) -> f64 {
        self.done.since(self.submitted).0 as f64
    }
}

/// Blocks that may be cached.
struct CachedRange {
    first: u64,
    end: u64,
}

/// The data of a block; they can only be written back to where they were read.
pub struct Contents {
    at: Extent,
    block: u64,
    bytes: Buffer,
}

/// A device under measurement.
pub struct Probe<'a> {
    device: &'a dyn BlockDevice,
    unit: u64,
    blocks: u64,
    deadline: Nanos,
    began: Nanos,
    stage: &'static str,
    progress: &'a mut Progress<'a>,
    recent: VecDeque<CachedRange>,
    last_done: Nanos,
    /// How far the clock is ahead of the disk, in turns, and when that was measured.
    ahead: f64,
    set_at: Nanos,
    sweep: u64,
    /// Reads after which an earlier one has left the cache.
    pub segments: usize,
    /// Whether the cache stores what passes before the requested block.
    pub keeps_before: bool,
    /// Time of a turn in nanoseconds.
    pub turn: f64,
    /// The most blocks that pass in a turn.
    pub per_turn: f64,
    /// Source of random places.
    pub rng: Rng,
    /// Reads so far, and at the last progress report.
    pub reads: u64,
    /// Writes so far.
    pub writes: u64,
    reported: u64,
}

impl<'a> Probe<'a> {
    /// Begins a calibration of at most `time`.
    pub fn new(device: &'a dyn BlockDevice, time: Nanos, seed: u64, progress: &'a mut Progress<'a>) -> Self {
        let geometry = device.geometry();
        let unit = geometry.physical_sectors.max(geometry.logical_sectors).max(1);
        let (blocks, began) = (geometry.sectors / unit, now());
        Probe {
            device,
            unit,
            blocks,
            deadline: began + time,
            began,
            stage: "",
            progress,
            recent: VecDeque::new(),
            last_done: began,
            ahead: 0.0,
            set_at: began,
            sweep: blocks / 5 * 4,
            segments: MOST_SEGMENTS,
            keeps_before: false,
            turn: SHORTEST_TURN,
            per_turn: LARGEST_TRACK,
            rng: Rng::seeded(seed),
            reads: 0,
            writes: 0,
            reported: 0,
        }
    }

    /// The device's size in blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Sectors of a block.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Sets the current stage.
    pub fn stage(&mut self, stage: &'static str) {
        self.stage = stage;
        self.report();
    }

    /// Reports progress now and then. Not between two reads whose distance matters: reporting takes time.
    pub fn report_sometimes(&mut self) {
        if self.reads >= self.reported + REPORT_AFTER {
            self.reported = self.reads;
            self.report();
        }
    }

    fn report(&mut self) {
        let part = |time: Nanos| time.0 as f64;
        (self.progress)(self.stage, part(now().since(self.began)) / part(self.deadline.since(self.began)));
    }

    /// Remaining time.
    pub fn left(&self) -> Nanos {
        self.deadline.since(now())
    }

    /// Seconds since the begin.
    pub fn spent(&self) -> f64 {
        now().since(self.began).seconds()
    }

    /// An error of the current stage.
    pub fn unclear<T>(&self, why: impl Into<String>) -> Result<T, Unknown> {
        Err(Unknown::Unclear { stage: self.stage, why: why.into() })
    }

    /// A random block.
    pub fn anywhere(&mut self) -> u64 {
        self.rng.below(self.blocks)
    }

    /// A random block at least half of the disk away.
    pub fn far_from(&mut self, block: u64) -> u64 {
        let quarter = self.blocks / 4;
        let into = self.rng.below(quarter.max(1));
        if block < self.blocks / 2 { self.blocks - 1 - into } else { into }
    }

    /// Sleeps.
    pub async fn rest(&mut self, time: Nanos) -> Result<(), Unknown> {
        self.rest_until(now() + time).await
    }

    /// Sleeps until a time.
    pub async fn rest_until(&mut self, at: Nanos) -> Result<(), Unknown> {
        if at > self.deadline {
            return Err(Unknown::OutOfTime { stage: self.stage });
        }
        sleep_until(at).await;
        Ok(())
    }

    /// Reads `blocks` blocks, cached or not.
    pub async fn read(&mut self, block: u64, blocks: u64) -> Result<Timed, Unknown> {
        let submitted = self.start_command()?;
        let at = Extent::new(block * self.unit, blocks * self.unit);
        self.device.read(at, Buffer::hollow(at.bytes()), Hints::default()).await?;
        self.reads += 1;
        Ok(self.answered(submitted, block, blocks))
    }

    /// Reads the data of a block.
    pub async fn contents(&mut self, block: u64) -> Result<Contents, Unknown> {
        let submitted = self.start_command()?;
        let at = Extent::new(block * self.unit, self.unit);
        let bytes = self.device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await?;
        self.reads += 1;
        self.answered(submitted, block, 1);
        Ok(Contents { at, block, bytes })
    }

    /// Writes a block's own data back to it, through to the media (FUA).
    pub async fn write_back(&mut self, what: Contents) -> Result<Timed, Unknown> {
        let submitted = self.start_command()?;
        self.device.write(what.at, what.bytes, Hints { fua: true, ..Hints::default() }).await?;
        self.writes += 1;
        Ok(self.answered(submitted, what.block, 1))
    }

    /// Starts a command, unless the time is over.
    fn start_command(&mut self) -> Result<Nanos, Unknown> {
        let submitted = now();
        if submitted > self.deadline {
            return Err(Unknown::OutOfTime { stage: self.stage });
        }
        self.close_last(submitted);
        Ok(submitted)
    }

    /// Completes a command; the cache may have its blocks.
    fn answered(&mut self, submitted: Nanos, block: u64, blocks: u64) -> Timed {
        let done = now();
        let before = if self.keeps_before { self.per_turn as u64 } else { 0 };
        self.recent.push_back(CachedRange { first: block.saturating_sub(before), end: block + blocks });
        self.last_done = done;
        while self.recent.len() > self.segments.max(1) {
            self.recent.pop_front();
        }
        Timed { submitted, done }
    }

    /// The read-ahead of the last read ended at `submitted`.
    fn close_last(&mut self, submitted: Nanos) {
        let passed = (submitted.since(self.last_done).0 as f64 + SLACK) / self.turn * self.per_turn;
        if let Some(last) = self.recent.back_mut() {
            last.end += passed.min(1e9) as u64;
        }
    }

    /// Whether the cache may have a block.
    pub fn may_be_cached(&self, block: u64) -> bool {
        self.segments > 0 && self.recent.iter().any(|cached| cached.first <= block && block < cached.end)
    }

    /// Reads a block from the media: if the cache may have it, it is evicted first.
    pub async fn fresh(&mut self, block: u64) -> Result<Timed, Unknown> {
        self.report_sometimes();
        self.close_last(now());
        if self.may_be_cached(block) && self.segments < MOST_SEGMENTS {
            self.evict(block).await?;
        }
        self.read(block, 1).await
    }

    /// Evicts all earlier reads by reading elsewhere, downwards.
    pub async fn evict(&mut self, block: u64) -> Result<(), Unknown> {
        let step = 2 * self.per_turn.min(LARGEST_TRACK) as u64 + 1;
        for _ in 0..self.segments + 2 {
            let reach = step * (self.segments as u64 + 4);
            let near = self.sweep < block + reach && block < self.sweep + reach;
            if self.sweep < step || near {
                self.sweep = self.far_from(block).max(step);
            }
            self.sweep -= step;
            self.read(self.sweep, 1).await?;
        }
        Ok(())
    }

    /// Nanoseconds since the begin.
    pub fn since_began(&self, time: Nanos) -> f64 {
        time.since(self.began).0 as f64
    }

    /// The disk's angle at a time, in turns.
    pub fn angle_at(&self, time: Nanos) -> f64 {
        forward(self.since_began(time) / self.turn - self.ahead)
    }

    /// Corrects the clock: the disk is `turns` behind the expected angle.
    pub fn set_back(&mut self, turns: f64) {
        self.ahead += turns;
        self.set_at = now();
    }

    /// Time since the clock was last set.
    pub fn since_set(&self) -> Nanos {
        now().since(self.set_at)
    }

    /// The angle of a block: of the disk when a read of it is answered.
    pub async fn angle(&mut self, block: u64) -> Result<f64, Unknown> {
        let timed = self.fresh(block).await?;
        Ok(self.angle_at(timed.done))
    }

    /// The angles of blocks that lie `gap` apart, downwards from `top`.
    pub async fn angles_down(&mut self, top: u64, gap: u64, count: u64) -> Result<Vec<f64>, Unknown> {
        if top < gap * count {
            return self.unclear(format!("found block {top}, expected {count} blocks {gap} apart below it"));
        }
        let mut angles = Vec::with_capacity(count as usize);
        for index in 0..count {
            angles.push(self.angle(top - index * gap).await?);
        }
        Ok(angles)
    }
}
