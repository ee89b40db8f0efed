//! Comparison of a calibration with the description of a simulated drive, the ground truth.

use schemars::JsonSchema;
use seekless_core::runtime::Rng;
use seekless_core::{Extent, Lba, Nanos, Op};
use serde::Serialize;

use super::calibration::Calibration;
use crate::disk::Drive;
use crate::disk::layout::Layout;
use crate::spec::Spec;
use crate::validate::{Fidelity, Measured, Think, compare, drive_as_measured};

/// Reads of the replay, their size in sectors, and the longest time between them.
const READS: usize = 1_000;
const SECTORS: u64 = 8;
const THINK: u64 = 20_000_000;

/// Differences between a calibration and the truth.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Comparison {
    /// Error of the turn, in parts per million.
    pub turn_ppm: f64,
    /// Number of zones.
    pub zones: usize,
    /// Zones found; more if defects split them.
    pub zones_found: usize,
    /// Zones whose sectors per track were found.
    pub tracks_right: usize,
    /// Zones of which both skews were found, within a sector.
    pub skews_right: usize,
    /// Largest error of a zone's begin, in tracks.
    pub begins_off_tracks: f64,
    /// Tracks per cylinder.
    pub heads: u32,
    /// Tracks per cylinder as found.
    pub heads_found: Option<u64>,
    /// Median error of the seek times measured, in milliseconds.
    pub seek_off_ms: f64,
    /// Largest error of the seek times measured, in milliseconds.
    pub seek_off_most_ms: f64,
    /// Cache segments usable by reads.
    pub segments: u32,
    /// Cache segments as found.
    pub segments_found: usize,
    /// Sectors cached after a read of one in the first zone.
    pub ahead: u64,
    /// The same as found.
    pub ahead_found: u64,
    /// Number of intervals of the turn and of skews, and how many of them hold the truth.
    pub intervals: (usize, usize),
    /// Random reads on the calibrated drive, compared with the true one.
    pub replay: Fidelity,
}

impl Comparison {
    /// Compares a calibration with the drive.
    pub fn new(found: &Calibration, truth: &Spec) -> Comparison {
        let drive = Drive::new(truth);
        let starts = zone_starts(drive.layout(), truth);
        let turn_us = drive.mechanics().revolution().0 as f64 / 1e3;
        let mut intervals = (1, usize::from(found.turn_us.holds(turn_us)));
        let (mut tracks_right, mut skews_right, mut begins_off_tracks) = (0, 0, 0.0_f64);
        for (index, (zone, &start)) in truth.zone.iter().zip(&starts).enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(truth.sectors);
            let middle = u64::midpoint(start, end);
            let Some(here) = found.zones.iter().find(|found| (found.first..found.end).contains(&middle))
            else {
                continue;
            };
            let right = here.sectors_per_track == u64::from(zone.sectors_per_track);
            tracks_right += usize::from(right);
            let near = |found: f64, is: f64| {
                let turn = f64::from(zone.sectors_per_track);
                let off = (found - is).rem_euclid(turn);
                off.min(turn - off) <= 1.0
            };
            let known = here.track_skew.value;
            let both = near(known, zone.track_skew) && near(here.cylinder_skew.value, zone.cylinder_skew);
            skews_right += usize::from(right && both);
            if right && found.heads == Some(u64::from(truth.heads)) {
                let hold = [(&here.cylinder_skew, zone.cylinder_skew), (&here.track_skew, zone.track_skew)];
                let hold = if truth.heads == 1 { &hold[..1] } else { &hold[..] };
                intervals.0 += hold.len();
                intervals.1 += hold.iter().filter(|(skew, is)| skew.holds(*is)).count();
            }
            let off = found.zones.iter().map(|found| found.first.abs_diff(start)).min().unwrap_or(0);
            begins_off_tracks = begins_off_tracks.max(off as f64 / f64::from(zone.sectors_per_track));
        }
        let mut off: Vec<f64> = found
            .seeks
            .iter()
            .filter_map(|seek| {
                let is = true_seek_us(&drive, truth, found, seek.cylinders)?;
                Some((seek.us.value - found.handling_us() - is).abs() / 1e3)
            })
            .collect();
        off.sort_by(f64::total_cmp);
        Comparison {
            turn_ppm: (found.turn_us.value / turn_us - 1.0) * 1e6,
            zones: truth.zone.len(),
            zones_found: found.zones.len(),
            tracks_right,
            skews_right,
            begins_off_tracks,
            heads: truth.heads,
            heads_found: found.heads,
            seek_off_ms: off.get(off.len() / 2).copied().unwrap_or(0.0),
            seek_off_most_ms: off.last().copied().unwrap_or(0.0),
            segments: segments(truth),
            segments_found: found.segments,
            ahead: read_ahead(truth, found),
            ahead_found: found.ahead.map_or(0, |ahead| ahead.blocks),
            intervals,
            replay: replay(&found.spec("found", "as it was found"), truth),
        }
    }
}

/// The true time of a seek over this many found cylinders, in microseconds. Where heads are unknown, those are tracks.
pub fn true_seek_us(drive: &Drive, truth: &Spec, found: &Calibration, cylinders: u64) -> Option<f64> {
    let distance = cylinders * found.heads.unwrap_or(1) / u64::from(truth.heads);
    (distance < truth.cylinders()).then(|| drive.mechanics().seek(distance).0 as f64 / 1e3)
}

/// The first sector of each zone.
fn zone_starts(layout: &Layout, truth: &Spec) -> Vec<u64> {
    let zone_of = |lba: u64| layout.steps(Lba(lba)).zone;
    (0..truth.zone.len())
        .map(|zone| {
            let (mut low, mut high) = (0, truth.sectors);
            while low < high {
                let middle = u64::midpoint(low, high);
                if zone_of(middle) < zone { low = middle + 1 } else { high = middle }
            }
            low
        })
        .collect()
}

fn segments(truth: &Spec) -> u32 {
    let cached = truth.cache.enabled && truth.cache.segment_sectors > 0;
    let all = if cached { truth.cache.segments } else { 0 };
    all.saturating_sub(u32::from(truth.cache.separate_write_segment))
}

/// How many sectors the drive caches after one that was read when it is left idle, at the calibration's place: computed
/// by the drive's model.
fn read_ahead(truth: &Spec, found: &Calibration) -> u64 {
    let Some(zone) = found.zones.first() else { return 0 };
    let at = 40 * zone.sectors_per_track + zone.sectors_per_track / 8;
    let cached = |behind: u64| {
        let mut drive = Drive::new(truth);
        let first = drive.serve(Op::Read, Extent::new(at, 1), Nanos(0), false).total();
        let later = first + Nanos::from_millis(2_000);
        let access = drive.serve(Op::Read, Extent::new(at + behind, 1), later, false);
        access.seek == Nanos::ZERO && access.rotation == Nanos::ZERO
    };
    let (mut there, mut lost) = (0, 1 << 16);
    while lost - there > 1 {
        let between = u64::midpoint(there, lost);
        if cached(between) { there = between } else { lost = between }
    }
    there
}

/// The same random reads on both.
fn replay(found: &Spec, truth: &Spec) -> Fidelity {
    let mut rng = Rng::seeded(11);
    let mut measured: Vec<Measured> = (0..READS)
        .map(|_| Measured {
            op: Op::Read,
            at: Extent::new(rng.below(truth.sectors / SECTORS) * SECTORS, SECTORS),
            service: Nanos::ZERO,
            think: Nanos(rng.below(THINK)),
        })
        .collect();
    let times = drive_as_measured(&mut Drive::new(truth), &measured, Think::After);
    for (request, time) in measured.iter_mut().zip(times) {
        request.service = time;
    }
    compare(&drive_as_measured(&mut Drive::new(found), &measured, Think::After), &measured)
}
