//! Skews, and where cylinders begin: the angles of blocks that lie a track apart differ by the skew between their
//! tracks. The one between cylinders differs from those within, if the maker has made it so.

use super::Unknown;
use super::grid::Grid;
use super::probe::Probe;
use super::stats::{Estimate, around, forward, median, median_angle};
use super::tracks::Tracks;

/// More heads are not looked for.
pub const MOST_HEADS: u64 = 32;
/// So many blocks' worth of difference between two skews are told apart, and so many times the noise.
const APART_BLOCKS: f64 = 0.6;
const APART_NOISE: f64 = 2.5;
/// So many times the noise is a stray skew.
const STRAY_NOISE: f64 = 8.0;

/// The grid of some tracks, and how well it is met.
#[derive(Clone, Copy, Debug)]
pub struct Fitted {
    /// The tracks.
    pub grid: Grid,
    /// How far angles are from it, half of them: in turns.
    pub noise: f64,
    /// Each skew, in turns.
    pub track_skew: Estimate,
    /// The same.
    pub cylinder_skew: Estimate,
}

/// The skews of `tracks` and of those below; `heads` if they are known, 1 if they cannot be told by skews.
/// Of the skews, `strays` may be others.
pub async fn skews(
    probe: &mut Probe<'_>,
    tracks: Tracks,
    heads: Option<u64>,
    strays: f64,
) -> Result<Fitted, Unknown> {
    let count = heads.map_or(2 * MOST_HEADS + 6, |heads| 2 * heads + 8);
    let per_track = tracks.per_track;
    let middle = tracks.start - per_track / 2;
    let angles = probe.angles_down(middle, per_track, count + 1).await?;
    let skews: Vec<f64> = angles.windows(2).map(|pair| forward(pair[0] - pair[1])).collect();
    let candidates = heads.map_or(1..=MOST_HEADS, |heads| heads..=heads);
    let uniform = Pattern::of(&skews, 1, 0);
    let best = candidates
        .flat_map(|heads| (0..heads).map(move |first| (heads, first)))
        .map(|(heads, first)| Pattern::of(&skews, heads, first))
        .min_by(|a, b| a.off.total_cmp(&b.off));
    let Some(best) = best else { return probe.unclear("found no skews") };
    let noise = best.noise;
    let apart = around(best.within - best.between).abs();
    let told = best.heads > 1 && apart > (APART_BLOCKS / per_track as f64).max(APART_NOISE * noise);
    let pattern = if told || heads.is_some() { best } else { uniform };
    let limit = (APART_BLOCKS / per_track as f64).max(STRAY_NOISE * pattern.noise);
    let stray = skews.iter().enumerate().filter(|(index, skew)| {
        let centre = if pattern.is_between(*index) { pattern.between } else { pattern.within };
        around(**skew - centre).abs() > limit
    });
    if stray.count() as f64 > strays * skews.len() as f64 {
        return probe.unclear(format!("found no even skews in {count} tracks below block {middle}"));
    }
    // The boundary of index i is the start of the track that lies i + 1 tracks below the start.
    let anchor = tracks.start - (pattern.first + 1) * per_track;
    let estimate = |between: bool| {
        let picked = skews.iter().enumerate().filter(|(index, _)| pattern.is_between(*index) == between);
        let centre = if between { pattern.between } else { pattern.within };
        let near: Vec<f64> = picked.map(|(_, skew)| centre + around(skew - centre)).collect();
        Estimate::median(&near)
    };
    let cylinder_skew = estimate(true);
    let track_skew = if pattern.heads > 1 { estimate(false) } else { cylinder_skew };
    let mut grid = Grid {
        anchor,
        angle: 0.0,
        per_track,
        heads: pattern.heads,
        track_skew: track_skew.value,
        cylinder_skew: cylinder_skew.value,
        range: None,
    };
    let off: Vec<f64> = angles
        .iter()
        .enumerate()
        .map(|(index, angle)| around(angle - grid.angle(middle - index as u64 * per_track)))
        .collect();
    grid.angle = forward(median_angle(&off));
    Ok(Fitted { grid, noise: pattern.noise, track_skew, cylinder_skew })
}

/// Skews as they would be with so many heads.
struct Pattern {
    heads: u64,
    /// The index of the first skew between cylinders.
    first: u64,
    within: f64,
    between: f64,
    /// How far the skews are from these, in all; half of them at most.
    off: f64,
    noise: f64,
}

impl Pattern {
    fn of(skews: &[f64], heads: u64, first: u64) -> Pattern {
        let mut pattern = Pattern { heads, first, within: 0.0, between: 0.0, off: 0.0, noise: 0.0 };
        let (between, within): (Vec<_>, Vec<_>) =
            skews.iter().enumerate().partition(|(index, _)| pattern.is_between(*index));
        let angles = |part: &[(usize, &f64)]| part.iter().map(|(_, skew)| **skew).collect::<Vec<f64>>();
        let (between, within) = (angles(&between), angles(&within));
        (pattern.between, pattern.within) = (median_angle(&between), median_angle(&within));
        let off = |part: &[f64], centre: f64| {
            part.iter().map(|skew| around(skew - centre).abs()).collect::<Vec<f64>>()
        };
        let all = [off(&between, pattern.between), off(&within, pattern.within)].concat();
        pattern.off = all.iter().sum();
        pattern.noise = median(&all);
        pattern
    }

    fn is_between(&self, index: usize) -> bool {
        index as u64 % self.heads == self.first
    }
}
