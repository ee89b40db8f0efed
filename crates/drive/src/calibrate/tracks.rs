//! Where tracks begin, and how many blocks they have: between two skews the angle increases evenly.
//!
//! All reads go downwards, a track lower for each finer look, so that no cache can answer.

use super::Unknown;
use super::probe::Probe;
use super::stats::{around, median};

/// Points of a look at a range of blocks.
const POINTS: u64 = 14;
/// Points on either side of where a step may be.
const MARGIN_POINTS: u64 = 3;
/// Up to this many blocks are examined one by one.
const ONE_BY_ONE: u64 = 48;
/// Points of the look that gives the slope: five tracks, eight points each.
const SLOPE_POINTS: u64 = 40;
const A_TRACK: f64 = 8.0;

/// Tracks somewhere on the disk.
#[derive(Clone, Copy, Debug)]
pub struct Tracks {
    /// Blocks per track.
    pub per_track: u64,
    /// The first block of the lowest track examined.
    pub start: u64,
}

/// A slope and where the look ended.
struct SlopeLook {
    per_track: f64,
    /// Error of the above, in blocks.
    off: f64,
    /// A step of the angle is somewhere in between.
    low: u64,
    high: u64,
    floor: u64,
}

/// Measures the tracks below `top`, which have about `guess` blocks if that is known.
pub async fn tracks(probe: &mut Probe<'_>, top: u64, guess: Option<f64>) -> Result<Tracks, Unknown> {
    let (top, guess) = match guess {
        Some(guess) => (top, guess),
        None => roughly(probe, top).await?,
    };
    let look = slope(probe, top, guess).await?;
    probe.per_turn = 1.25 * look.per_track + 8.0;
    // As far as it may be off, and at least a few blocks, so that there is something on both sides.
    let mut margin = (look.off.ceil() as u64).clamp(4, look.per_track as u64 / 6 + 4);
    let mut step = look.per_track.round() as u64;
    let (mut low, mut high, mut floor) = (look.low, look.high, look.floor);
    let mut starts = Vec::new();
    while starts.len() < 3 {
        let width = high - low + 2 * margin;
        let gap = if width <= ONE_BY_ONE { 1 } else { width / POINTS };
        // Some points on both sides; and below all earlier reads: else a track lower.
        let (above, below) = (high + margin + MARGIN_POINTS * gap, margin + MARGIN_POINTS * gap);
        let tracks = if above >= floor + step { 2 } else { 1 };
        let (top, bottom) = (above.saturating_sub(tracks * step), low.saturating_sub(tracks * step + below));
        if low < 3 * step || top >= floor || top < bottom + 3 {
            return probe.unclear(format!("found no room below block {low} for another track"));
        }
        let count = (top - bottom) / gap + 2;
        let angles = probe.angles_down(top, gap, count).await?;
        let slope = gap as f64 / look.per_track;
        let flat: Vec<f64> =
            angles.iter().enumerate().map(|(index, angle)| around(angle + index as f64 * slope)).collect();
        let Some(change) = change(&flat) else {
            return probe.unclear(format!("found no track's start between blocks {bottom} and {top}"));
        };
        floor = top - (count - 1) * gap;
        let (before, unsure) = (high, 2 * (high - low + gap) + 3);
        high = top - (change as u64 - 1) * gap;
        low = high - gap;
        // Two starts give the length of a track; soon better than the slope did.
        if unsure < margin {
            (margin, step) = (unsure, (before - high) / tracks);
        }
        if gap == 1 {
            starts.push((high, tracks));
        }
    }
    let apart = |above: usize| (starts[above].0 - starts[above + 1].0, starts[above + 1].1);
    let (first, second) = (apart(0), apart(1));
    if first.0 * second.1 != second.0 * first.1 || first.0 % first.1 != 0 {
        let (first, second) = (first.0, second.0);
        return probe.unclear(format!("found tracks of {first} and of {second} blocks beside each other"));
    }
    Ok(Tracks { per_track: first.0 / first.1, start: starts[2].0 })
}

/// Roughly measures the blocks per track below `top`; returns them and where the look ended.
async fn roughly(probe: &mut Probe<'_>, top: u64) -> Result<(u64, f64), Unknown> {
    let (mut top, mut gap) = (top, 8);
    while top > 64 * gap {
        let angles = probe.angles_down(top, gap, 24).await?;
        top -= 24 * gap;
        let step = median(&steps(&angles));
        if step > 0.045 {
            return Ok((top, gap as f64 / step));
        }
        gap *= 4;
    }
    probe.unclear("the angle does not go up with the address")
}

/// Angles from the lower block of each pair to the other, from -1/2 to 1/2 turn.
fn steps(angles: &[f64]) -> Vec<f64> {
    angles.windows(2).map(|pair| around(pair[0] - pair[1])).collect()
}

/// The blocks per track, within a few.
async fn slope(probe: &mut Probe<'_>, top: u64, guess: f64) -> Result<SlopeLook, Unknown> {
    let gap = ((guess / A_TRACK).round() as u64).max(1);
    let angles = probe.angles_down(top, gap, SLOPE_POINTS).await?;
    let steps = steps(&angles);
    let usual = median(&steps);
    let off: Vec<f64> = steps.iter().map(|step| around(step - usual).abs()).collect();
    let limit = (6.0 * median(&off)).max(0.008);
    let jumps: Vec<usize> = (0..steps.len()).filter(|&index| off[index] > limit).collect();
    let Some(&last) = jumps.last() else {
        return probe.unclear(format!("found no step of the angle in the {SLOPE_POINTS} blocks below {top}"));
    };
    // Ranges without a step, each a slope; long ones have more weight.
    let mut runs: Vec<(f64, f64)> = Vec::new();
    for run in steps.split(|step| around(step - usual).abs() > limit) {
        let count = run.len() as f64;
        if run.len() >= 2 {
            runs.push((run.iter().sum::<f64>() / count, count * count));
        }
    }
    let weight: f64 = runs.iter().map(|(_, weight)| weight).sum();
    let slope = runs.iter().map(|(slope, weight)| slope * weight).sum::<f64>() / weight;
    if weight == 0.0 || slope <= 0.0 {
        return probe.unclear(format!("the angle does not go up evenly below block {top}"));
    }
    let spread = runs.iter().map(|(each, weight)| (each - slope).powi(2) * weight).sum::<f64>() / weight;
    let per_track = gap as f64 / slope;
    Ok(SlopeLook {
        per_track,
        off: 3.0 * per_track * spread.sqrt() / slope / (runs.len() as f64).sqrt(),
        low: top - (last as u64 + 1) * gap,
        high: top - last as u64 * gap,
        floor: top - (SLOPE_POINTS - 1) * gap,
    })
}

/// Where a run of angles steps from one value to another: the index of the first after the step.
fn change(angles: &[f64]) -> Option<usize> {
    let near = |part: &[f64]| {
        let middle = super::stats::median_angle(part);
        (middle, part.iter().map(|angle| around(angle - middle).abs()).sum::<f64>())
    };
    let split = |index: usize| {
        let ((before, off_before), (behind, off_behind)) = (near(&angles[..index]), near(&angles[index..]));
        (off_before + off_behind, around(before - behind).abs())
    };
    let best = (2..angles.len().saturating_sub(1)).min_by(|&a, &b| split(a).0.total_cmp(&split(b).0))?;
    let (off, step) = split(best);
    (step > 3.0 * off / angles.len() as f64 && step > 0.008).then_some(best)
}
