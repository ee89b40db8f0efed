//! What a drive is like, out of timed reads: turns, tracks, skews, zones, heads, seeks, cache.
//!
//! The client of a `BlockDevice`, in whatever time that device lives: a simulated drive answers in virtual time,
//! a real one takes its own. What it rests on: the time from one answer to another, in turns, is the angle
//! between their blocks (Worthington and others, "On-line extraction of SCSI disk drive parameters", 1995;
//! Talagala and others, Skippy, 2000). So the angle of every block can be read, tracks are where the angle goes up evenly, and
//! skews are its steps.
//!
//! Fault model: answers may be late by a random time; a few may be late by any time. What cannot be told apart
//! from noise is said to be unknown. It writes only if [`Options::destructive`] says so, and then what it read.

#![allow(clippy::cast_possible_wrap)] // no disk has 2^63 blocks

mod ahead;
mod cache;
mod found;
mod grid;
mod heads;
mod into_spec;
mod map;

mod overhead;
mod probe;
mod rotation;
mod seeks;
mod settle;
mod skews;
mod stats;
mod tracks;
mod truth;
mod zones;

use seekless_core::{BlockDevice, IoError, Nanos};

pub use ahead::Ahead;
pub use found::{Found, FoundZone};
pub use overhead::Overhead;
pub use seeks::Seek;
pub use stats::Estimate;
pub use truth::{Comparison, true_seek_us};

use probe::Probe;

/// Told what is looked for now, and which part of the time is gone.
pub type Progress<'a> = dyn FnMut(&'static str, f64) + 'a;

/// Why a drive could not be calibrated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unknown {
    /// The device did not answer a read or a write.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The time was not enough.
    #[error("{stage}: the time is over; a longer one may be enough")]
    OutOfTime {
        /// What was being looked for.
        stage: &'static str,
    },
    /// What was measured fits no disk.
    #[error("{stage}: {why}")]
    Unclear {
        /// What was being looked for.
        stage: &'static str,
        /// What was found, what was expected.
        why: String,
    },
}

/// How long, and from which random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Of the device's time, at most.
    pub time: Nanos,
    /// Random places follow from this.
    pub seed: u64,
    /// Write too, what was read from the same blocks: to find what writes take. If the power fails within a write,
    /// its block may be lost.
    pub destructive: bool,
}

impl Default for Options {
    /// Ten minutes, without writes.
    fn default() -> Options {
        Options { time: Nanos::from_millis(600_000), seed: 1, destructive: false }
    }
}

/// Finds out what `device` is like.
pub async fn calibrate(
    device: &dyn BlockDevice,
    options: Options,
    progress: &mut Progress<'_>,
) -> Result<Found, Unknown> {
    let mut probe = Probe::new(device, options.time, options.seed, progress);
    let hits = cache::segments(&mut probe).await?;
    let mut turning = rotation::watch(&mut probe).await?;
    let mut zones = zones::zones(&mut probe, &turning).await?;
    turning.again(&mut probe).await?;
    let turn = settle_clock(&mut probe, &turning, &mut zones);
    let mut heads = Some(zones[0].fitted.grid.heads).filter(|heads| *heads > 1);
    if heads.is_none() {
        heads = heads::heads(&mut probe, &zones).await?;
        heads::with_heads(&mut zones, heads.unwrap_or(1));
    }
    let map = map::Map::new(&zones);
    let ahead = ahead::ahead(&mut probe, &map, &hits).await?;
    let overhead = overhead::overhead(&mut probe, &map, &hits, ahead.as_ref()).await?;
    let switch = seeks::head_switch(&mut probe, &map).await?;
    let seeks = seeks::curve(&mut probe, &map).await?;
    let destructive = options.destructive;
    let settle = if destructive {
        settle::settle(&mut probe, &map, ahead.as_ref(), overhead.block_us, &seeks).await?
    } else {
        None
    };
    let (segments, more_segments) = (hits.segments, 2 * hits.segments > probe::MOST_SEGMENTS);
    let parts = found::Parts {
        turn,
        zones,
        heads,
        switch,
        seeks,
        destructive,
        settle,
        overhead,
        segments,
        more_segments,
        ahead,
    };
    Ok(Found::new(&probe, &map, parts))
}

/// With all tracks known the turn is known better, and with it the angles that were measured long before.
fn settle_clock(probe: &mut Probe<'_>, turning: &rotation::Turning, zones: &mut [zones::Zone]) -> Estimate {
    let slope = |block: u64| {
        let zone = zones.iter().find(|zone| block < zone.end);
        zone.map_or(0.0, |zone| 1.0 / zone.fitted.grid.per_track as f64)
    };
    let turn = turning.turn(probe.turn, &slope);
    for zone in zones {
        let more = probe.since_began(zone.at) * (1.0 / turn.value - 1.0 / probe.turn);
        zone.fitted.grid.angle = stats::forward(zone.fitted.grid.angle + more);
    }
    probe.turn = turn.value;
    turn
}
