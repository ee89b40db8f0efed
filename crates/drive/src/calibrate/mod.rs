//! Calibration of a drive by timed reads: turns, tracks, skews, zones, heads, seeks, cache.
//!
//! A client of a `BlockDevice`, in the device's own time: a simulated drive answers in virtual time, a real one in real
//! time. Principle: the time between two answers, in turns, is the angle between their blocks (Worthington and others,
//! "On-line extraction of SCSI disk drive parameters", 1995; Talagala and others, Skippy, 2000). So the angle of every
//! block can be measured; tracks are where the angle increases evenly, and skews are its steps.
//!
//! Fault model: answers may be late by a random time, a few by any time. What cannot be distinguished from noise is
//! reported as unknown. It writes only with [`Options::destructive`], and then only what it read.

#![allow(clippy::cast_possible_wrap)] // no disk has 2^63 blocks

mod ahead;
mod cache;
mod calibration;
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
pub use calibration::{Calibration, MeasuredZone};
pub use overhead::Overhead;
pub use seeks::Seek;
pub use stats::Estimate;
pub use truth::{Comparison, true_seek_us};

use probe::Probe;

/// Called with the current stage, and the part of the time that has passed.
pub type Progress<'a> = dyn FnMut(&'static str, f64) + 'a;

/// Errors of a calibration.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unknown {
    /// The device failed a read or a write.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The time was too short.
    #[error("{stage}: the time is over; a longer one may be enough")]
    OutOfTime {
        /// The stage.
        stage: &'static str,
    },
    /// The measurements fit no disk.
    #[error("{stage}: {why}")]
    Unclear {
        /// The stage.
        stage: &'static str,
        /// The values found and expected.
        why: String,
    },
}

/// Options of a calibration.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The longest duration, in the device's time.
    pub time: Nanos,
    /// Seed of random places.
    pub seed: u64,
    /// Whether to write too, only data just read from the same blocks, to measure writes. If the power fails within a
    /// write, its block may be lost.
    pub destructive: bool,
}

impl Default for Options {
    /// Ten minutes, without writes.
    fn default() -> Options {
        Options { time: Nanos::from_millis(600_000), seed: 1, destructive: false }
    }
}

/// Calibrates `device`.
pub async fn calibrate(
    device: &dyn BlockDevice,
    options: Options,
    progress: &mut Progress<'_>,
) -> Result<Calibration, Unknown> {
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
    let parts = calibration::Parts {
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
    Ok(Calibration::new(&probe, &map, parts))
}

/// With all tracks known the turn is known better, and with it the angles measured long before.
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
