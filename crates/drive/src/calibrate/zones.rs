//! Zones: the extent over which the grid of some tracks predicts the angles.
//!
//! A few tracks of a zone give a grid; the grid is compared with blocks twice as far away each time, and refined by
//! each. Where it fails, a bisection finds the cylinder. After that the next zone's grid is measured, and followed back
//! to its first cylinder.

use seekless_core::Nanos;
use seekless_core::runtime::now;

use super::Unknown;
use super::grid::{Grid, Range};
use super::probe::Probe;
use super::rotation::Turning;
use super::skews::{Fitted, PATTERN, skews};
use super::stats::{around, forward, median_angle};
use super::tracks::tracks;

/// Largest error of a grid, in blocks: slipped sectors.
const SLIPS: f64 = 3.5;
/// Most blocks slipped between two places that are considered the same zone.
const SLIPPED: f64 = 4.0;
/// Tolerance in multiples of the noise.
const NOISE: f64 = 10.0;
/// Reads of a cylinder that decide whether the grid holds there; more where angles are noisy.
const VOTES: [usize; 2] = [3, 4];
/// Skews are measured over more tracks where angles are this many blocks off.
const NOISY_BLOCKS: f64 = 0.3;
/// Random draws of a place that is not cached.
const DRAWS: usize = 8;
/// A skew is rounded to whole sectors if its error is at most this many blocks.
const SURE_BLOCKS: f64 = 0.4;
/// Places tried before tracks are reported as uneven.
const TRIALS: u32 = 8;
/// Distance of the nearby cylinders that are checked too.
const NEARBY: i64 = 12;
/// Cylinders that may fit the next zone by chance.
const BY_CHANCE: u64 = 3;
/// Such cylinders, where angles are noisier than this.
const MORE_BY_CHANCE: u64 = 12;
const CLEAR: f64 = 0.02;
/// This many pieces of equal length are ranges of cylinders.
const RANGES: usize = 3;
/// The most zones of a drive; more pieces are unrecognized defects.
const MOST_ZONES: usize = 256;

/// A zone.
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    /// First block.
    pub first: u64,
    /// One past the last block.
    pub end: u64,
    /// Tracks.
    pub fitted: Fitted,
    /// When the grid's angle was measured.
    pub at: Nanos,
}

/// Measures all zones.
pub async fn zones(probe: &mut Probe<'_>, turning: &Turning) -> Result<Vec<Zone>, Unknown> {
    probe.stage("zones");
    let mut zones: Vec<Zone> = Vec::new();
    let mut heads = None;
    loop {
        let before = zones.last().copied();
        let fitted = match before {
            None => first_tracks(probe, turning).await?,
            Some(zone) => next_tracks(probe, &zone, heads).await?,
        };
        heads = heads.or(Some(fitted.grid.heads));
        let mut zone = Zone { first: 0, end: probe.blocks(), fitted, at: now() };
        match before {
            Some(before) if goes_on(&before, &zone) && still_met(probe, &before).await? => {
                zone.first = before.first;
                zones.pop();
            }
            Some(before) => zone.first = first_block(probe, &before, &zone).await?,
            None => {}
        }
        zone.end = end(probe, &mut zone.fitted).await?;
        if let Some(last) = zones.last_mut() {
            last.end = zone.first;
        }
        zones.push(zone);
        if let Some(mut all) = ranges(&zones) {
            all.end = end(probe, &mut all.fitted).await?;
            zones.truncate(zones.len() - RANGES);
            // What the first tracks did not show of what lies before them.
            if let Some(before) = zones.last().filter(|before| goes_back(before, &all)).copied() {
                let lowest = all.fitted.grid.cylinder_of(before.first);
                if met(probe, &all.fitted, lowest).await?.is_some() {
                    zones.pop();
                    all.first = before.first;
                }
            }
            zones.push(all);
        }
        if zones.last().is_none_or(|zone| zone.end >= probe.blocks()) {
            return Ok(zones);
        }
        if zones.len() >= MOST_ZONES {
            return probe.unclear(format!("found more than {MOST_ZONES} zones up to block {}", zone.end));
        }
    }
}

/// If the last pieces are ranges of cylinders of one zone, equally long, with spares between: that zone.
fn ranges(zones: &[Zone]) -> Option<Zone> {
    let pieces: &[Zone; RANGES] = zones.last_chunk()?;
    let (first, grid) = (pieces[0].first, pieces[0].fitted.grid);
    let blocks = pieces[1].first - first;
    let near = 0.3 / grid.per_track as f64;
    let alike = |piece: &Zone| {
        let same = piece.fitted.grid;
        same.per_track == grid.per_track
            && around(same.step() - grid.step()).abs() < near
            && around(same.track_skew - grid.track_skew).abs() < near
    };
    let even = pieces.windows(2).all(|pair| pair[1].first - pair[0].first == blocks);
    let spares = blocks % grid.cylinder() != 0;
    if !even
        || !spares
        || !pieces.iter().all(alike)
        || pieces.iter().any(|piece| piece.fitted.grid.range.is_some())
    {
        return None;
    }
    let cylinders = blocks.div_ceil(grid.cylinder());
    let begin = grid.angle(first);
    let later = pieces[1].fitted.grid.angle(pieces[1].first) - begin;
    let skew = around(later - cylinders as f64 * grid.step());
    let whole = (skew * grid.per_track as f64).round() / grid.per_track as f64;
    let skew = if (skew - whole).abs() < near { whole } else { skew };
    let mut all = pieces[0];
    all.fitted.grid =
        Grid { anchor: first, angle: begin, range: Some(Range { cylinders, blocks, skew }), ..grid };
    Some(all)
}

/// Whether tracks continue those of the zone before, but for some slipped blocks.
fn goes_on(before: &Zone, zone: &Zone) -> bool {
    let (old, new) = (before.fitted.grid, zone.fitted.grid);
    let near = SLIPPED / old.per_track as f64 + tolerance(&before.fitted);
    let track = around(old.track_skew - new.track_skew).abs() < 0.5 / old.per_track as f64;
    let same = old.per_track == new.per_track && old.heads == new.heads && old.range.is_none();
    // Cylinders begin where they did, too.
    let apart = (new.anchor as f64 - old.anchor as f64) / old.cylinder() as f64;
    let begins = around(apart).abs() * old.cylinder() as f64 <= SLIPPED;
    same && track && begins && around(new.angle - old.angle(new.anchor)).abs() < near
}

/// Where angles are too noisy to show slipped blocks: whether a zone's grid holds after its apparent end.
async fn still_met(probe: &mut Probe<'_>, zone: &Zone) -> Result<bool, Unknown> {
    let fitted = &zone.fitted;
    if NOISE * fitted.noise < SLIPS / fitted.grid.per_track as f64 {
        return Ok(true);
    }
    let end = fitted.grid.cylinder_of(zone.end);
    Ok(met(probe, fitted, end + 3).await?.is_some() && met(probe, fitted, end + 10).await?.is_some())
}

/// Whether a piece can be whole ranges of the zone after it.
fn goes_back(piece: &Zone, zone: &Zone) -> bool {
    let (grid, blocks) = (zone.fitted.grid, zone.first - piece.first);
    let whole = grid.range.is_some_and(|range| blocks % range.blocks == 0);
    whole && piece.fitted.grid.per_track == grid.per_track
}

/// The first zone's tracks, which also refine the turn.
async fn first_tracks(probe: &mut Probe<'_>, turning: &Turning) -> Result<Fitted, Unknown> {
    let (mut top, mut trial) = (probe.blocks() / 64, 0);
    loop {
        trial += 1;
        match first_tracks_below(probe, turning, top, strays(trial)).await {
            Err(Unknown::Unclear { .. }) if trial < TRIALS => top += top / 9,
            result => return result,
        }
    }
}

async fn first_tracks_below(
    probe: &mut Probe<'_>,
    turning: &Turning,
    top: u64,
    strays: f64,
) -> Result<Fitted, Unknown> {
    let found = tracks(probe, top, None).await?;
    // Inner tracks have about half as many blocks.
    let (blocks, outer) = (probe.blocks() as f64, found.per_track as f64);
    let slope = |block: u64| 1.0 / (outer * (1.0 - 0.5 * block as f64 / blocks));
    probe.turn = turning.turn(probe.turn, &slope).value;
    skews(probe, found, None, PATTERN, strays).await
}

/// The part of the skews that may be strays: few at first, more where no place does better.
fn strays(trial: u32) -> f64 {
    if trial <= TRIALS / 2 { 0.03 } else { 0.25 }
}

/// Some tracks after a zone that has ended.
async fn next_tracks(probe: &mut Probe<'_>, zone: &Zone, heads: Option<u64>) -> Result<Fitted, Unknown> {
    let per_track = zone.fitted.grid.per_track;
    let heads_or = heads.unwrap_or(1);
    // Five for the slope, a few for each finer look, those of the skews.
    let noisy = zone.fitted.noise * per_track as f64 > NOISY_BLOCKS;
    let count = if noisy { PATTERN } else { 2 * heads_or + 8 };
    let mut room = 20 + heads_or + count;
    let mut trial = 0;
    loop {
        trial += 1;
        // At a different place on its track each time.
        let into = u64::from(trial) * per_track / 5;
        let top = (zone.end + room * per_track + into).min(probe.blocks() - 1);
        let fitted = match tracks(probe, top, Some(per_track as f64 * 0.97)).await {
            Ok(found) => skews(probe, found, heads, count, strays(trial)).await,
            Err(error) => Err(error),
        };
        match fitted {
            Err(Unknown::Unclear { .. }) if trial < TRIALS => room += 11 + 2 * heads_or,
            result => return result,
        }
    }
}

/// The largest distance of a block from the grid.
fn tolerance(fitted: &Fitted) -> f64 {
    (SLIPS / fitted.grid.per_track as f64).max(NOISE * fitted.noise).min(0.1)
}

/// Distance of a cylinder from the grid, in turns; `None` if the grid does not hold there.
async fn met(probe: &mut Probe<'_>, fitted: &Fitted, cylinder: i64) -> Result<Option<f64>, Unknown> {
    let grid = &fitted.grid;
    let (start, limit) = (grid.start_of(cylinder), tolerance(fitted));
    let room = grid.start_of(cylinder + 1).min(probe.blocks()).saturating_sub(start);
    if room == 0 {
        return Ok(None);
    }
    let votes = VOTES[usize::from(limit > CLEAR)];
    let (mut near, mut far) = (Vec::new(), 0);
    let mut places = Vec::with_capacity(2 * votes);
    while places.len() < 2 * votes - 1 {
        // Where the cache cannot answer, if there is such a place.
        let mut draws = (0..DRAWS).map(|_| start + probe.rng.below(room)).collect::<Vec<u64>>().into_iter();
        let fallback = draws.next();
        places.extend(draws.find(|block| !probe.may_be_cached(*block)).or(fallback));
    }
    places.sort_unstable();
    for &block in places.iter().rev() {
        let off = around(probe.angle(block).await? - grid.angle(block));
        if off.abs() <= limit {
            near.push(off);
        } else {
            far += 1;
        }
        if near.len() == votes || far == votes {
            break;
        }
    }
    Ok((near.len() == votes).then(|| median_angle(&near)))
}

/// As `met`, for a cylinder after one where the grid holds. A track of another zone may fit by chance, but hardly those
/// nearby as well, which have other skews.
async fn met_up_to(
    probe: &mut Probe<'_>,
    fitted: &Fitted,
    good: i64,
    cylinder: i64,
) -> Result<Option<f64>, Unknown> {
    let off = met(probe, fitted, cylinder).await?;
    let between = (cylinder - good - 1).min(NEARBY);
    if off.is_some() && between > 0 {
        let near = cylinder - 1 - probe.rng.below(between as u64) as i64;
        if met(probe, fitted, near).await?.is_none() {
            return Ok(None);
        }
    }
    Ok(off)
}

/// The end of a zone: the first cylinder where its grid does not hold. The grid is refined on the way.
async fn end(probe: &mut Probe<'_>, fitted: &mut Fitted) -> Result<u64, Unknown> {
    let last = fitted.grid.cylinder_of(probe.blocks() - 1);
    let (mut good, mut ahead) = (0, 1);
    let mut bad = loop {
        let cylinder = (good + ahead).min(last);
        let Some(off) = met_up_to(probe, fitted, good, cylinder).await? else { break cylinder };
        if cylinder > 0 {
            refine(fitted, off, cylinder);
        }
        good = cylinder;
        if good == last {
            return Ok(probe.blocks());
        }
        ahead *= 2;
    };
    while bad - good > 1 {
        let cylinder = good + (bad - good) / 2;
        match met_up_to(probe, fitted, good, cylinder).await? {
            Some(_) => good = cylinder,
            None => bad = cylinder,
        }
    }
    Ok(fitted.grid.start_of(bad))
}

/// Refines the skews by an error at a cylinder; or, if that is more than skews can be off, a few blocks have slipped
/// before this one. Drives count skews in whole sectors: skews within the error of one are rounded.
fn refine(fitted: &mut Fitted, off: f64, cylinder: i64) {
    let error = 2.0 * tolerance(fitted) / cylinder as f64;
    let track_error = fitted.track_skew.high - fitted.track_skew.value;
    let unsure = NOISE * fitted.noise + 2.0 * cylinder as f64 * fitted.step_error;
    if off.abs() > unsure.max(0.5 / fitted.grid.per_track as f64) {
        fitted.grid.angle = forward(fitted.grid.angle + off);
        return;
    }
    fitted.step_error = fitted.step_error.min(NOISE * fitted.noise / cylinder as f64);
    let grid = &mut fitted.grid;
    let blocks = grid.per_track as f64;
    grid.cylinder_skew += off / cylinder as f64;
    let whole = |turns: f64, error: f64| {
        let near = (turns * blocks).round();
        ((turns * blocks - near).abs() <= error * blocks).then_some(near / blocks)
    };
    if grid.heads > 1 {
        let Some(track_skew) = whole(grid.track_skew, track_error.max(0.01 / blocks)) else { return };
        if track_error * blocks > SURE_BLOCKS {
            return;
        }
        // The step from cylinder to cylinder is known better than its parts.
        grid.cylinder_skew += (grid.heads - 1) as f64 * (grid.track_skew - track_skew);
        grid.track_skew = track_skew;
    }
    if let Some(cylinder_skew) = whole(grid.cylinder_skew, error.min(0.1 / blocks)) {
        grid.cylinder_skew = cylinder_skew;
    }
    if grid.heads == 1 {
        grid.track_skew = grid.cylinder_skew;
    }
}

/// The first block of a zone whose grid was measured after the end of the one before.
async fn first_block(probe: &mut Probe<'_>, before: &Zone, zone: &Zone) -> Result<u64, Unknown> {
    let fitted = &zone.fitted;
    let mut cylinder = fitted.grid.cylinder_of(before.end + fitted.grid.cylinder() / 2);
    while cylinder < 0 && met(probe, fitted, cylinder).await?.is_none() {
        cylinder += 1;
    }
    let lowest = fitted.grid.cylinder_of(before.first);
    while cylinder - 1 > lowest && met(probe, fitted, cylinder - 1).await?.is_some() {
        cylinder -= 1;
    }
    let first = fitted.grid.start_of(cylinder);
    // Where the last tracks of a zone fit the next one by chance, the zone's own track length gives its end.
    let whole = |block: u64| (block - before.first) % before.fitted.grid.per_track == 0;
    if before.fitted.grid.range.is_some() {
        return Ok(first);
    }
    let by_chance = if tolerance(fitted) > CLEAR { MORE_BY_CHANCE } else { BY_CHANCE };
    let candidates = (0..=by_chance).map(|more| first + more * fitted.grid.cylinder());
    Ok(candidates.into_iter().find(|block| whole(*block)).unwrap_or(first))
}
