//! Skews, and where cylinders begin: the angles of blocks a track apart differ by the skew between their tracks. On
//! most drives the skew between cylinders differs from that within.

use super::Unknown;
use super::grid::Grid;
use super::probe::Probe;
use super::stats::{Estimate, around, forward, median, median_angle};
use super::tracks::Tracks;

/// The most heads searched.
pub const MOST_HEADS: u64 = 32;
/// Tracks that show a pattern of that many heads.
pub const PATTERN: u64 = 2 * MOST_HEADS + 6;
/// Two skews differ if they are this many blocks, and this many times the noise, apart.
const APART_BLOCKS: f64 = 0.6;
const APART_NOISE: f64 = 3.5;
/// Standard errors to each side of a 95 % interval (Student's t of a dozen tracks).
const TWO_SIDED: f64 = 2.2;
/// A skew this many times the noise away is a stray.
const STRAY_NOISE: f64 = 8.0;

/// The grid of some tracks, and its fit.
#[derive(Clone, Copy, Debug)]
pub struct Fitted {
    /// The tracks.
    pub grid: Grid,
    /// Median distance of angles from it, in turns.
    pub noise: f64,
    /// Skew of the next track, in turns.
    pub track_skew: Estimate,
    /// Skew of the next cylinder, in turns.
    pub cylinder_skew: Estimate,
    /// Error of the step from cylinder to cylinder, in turns.
    pub step_error: f64,
}

/// The skews of `tracks` and of those below; `heads` if known, 1 if skews cannot show them. Of the skews of `count`
/// tracks, the part `strays` may be strays.
pub async fn skews(
    probe: &mut Probe<'_>,
    tracks: Tracks,
    heads: Option<u64>,
    count: u64,
    strays: f64,
) -> Result<Fitted, Unknown> {
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
    let distinct = best.heads > 1 && apart > (APART_BLOCKS / per_track as f64).max(APART_NOISE * noise);
    let pattern = if distinct || heads.is_some() { best } else { uniform };
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
    let rough = Grid {
        anchor,
        angle: 0.0,
        per_track,
        heads: pattern.heads,
        track_skew: if pattern.heads > 1 { pattern.within } else { pattern.between },
        cylinder_skew: pattern.between,
        range: None,
    };
    let places: Vec<u64> = (0..=count).map(|index| middle - index * per_track).collect();
    Ok(fit(rough, &places, &angles))
}

/// The grid that fits the angles of some blocks best. Strays do not count.
fn fit(mut grid: Grid, places: &[u64], angles: &[f64]) -> Fitted {
    let off: Vec<f64> =
        places.iter().zip(angles).map(|(block, angle)| around(angle - grid.angle(*block))).collect();
    let middle = median_angle(&off);
    let off: Vec<f64> = off.iter().map(|off| around(off - middle)).collect();
    let usual = median(&off.iter().map(|off| off.abs()).collect::<Vec<f64>>());
    let limit = (STRAY_NOISE * usual).max(APART_BLOCKS / grid.per_track as f64);
    let mut sums = Sums::default();
    for (block, off) in places.iter().zip(&off).filter(|(_, off)| off.abs() <= limit) {
        let (within, between) = grid.steps_to(*block);
        sums.add([1.0, within as f64, between as f64], *off);
    }
    let (by, errors) = sums.solve(grid.heads > 1);
    grid.angle = forward(middle + by[0]);
    grid.cylinder_skew += by[2];
    grid.track_skew = if grid.heads > 1 { grid.track_skew + by[1] } else { grid.cylinder_skew };
    let left = |(block, off): (&u64, &f64)| {
        let (within, between) = grid.steps_to(*block);
        (off - by[0] - by[1] * within as f64 - by[2] * between as f64).abs()
    };
    let left: Vec<f64> = places.iter().zip(&off).map(left).collect();
    let estimate = |value: f64, error: f64| Estimate {
        value,
        low: value - TWO_SIDED * error,
        high: value + TWO_SIDED * error,
    };
    let within = (grid.heads - 1) as f64;
    Fitted {
        step_error: TWO_SIDED * (within * errors[1] + errors[2]),
        grid,
        noise: median(&left),
        track_skew: estimate(grid.track_skew, errors[if grid.heads > 1 { 1 } else { 2 }]),
        cylinder_skew: estimate(grid.cylinder_skew, errors[2]),
    }
}

/// Least squares in three unknowns.
#[derive(Default)]
struct Sums {
    squares: [[f64; 3]; 3],
    products: [f64; 3],
    off: f64,
    count: f64,
}

impl Sums {
    fn add(&mut self, by: [f64; 3], off: f64) {
        for (row, each) in self.squares.iter_mut().zip(by) {
            for (cell, other) in row.iter_mut().zip(by) {
                *cell += each * other;
            }
        }
        for (product, each) in self.products.iter_mut().zip(by) {
            *product += each * off;
        }
        self.off += off * off;
        self.count += 1.0;
    }

    /// The unknowns and their standard errors; the second is fixed at zero unless `second`.
    fn solve(mut self, second: bool) -> ([f64; 3], [f64; 3]) {
        if !second {
            for other in 0..3 {
                (self.squares[1][other], self.squares[other][1]) = (0.0, 0.0);
            }
            (self.squares[1][1], self.products[1]) = (1.0, 0.0);
        }
        let inverse = inverse(&self.squares);
        let times = |row: &[f64; 3]| row.iter().zip(self.products).map(|(a, b)| a * b).sum::<f64>();
        let by = [times(&inverse[0]), times(&inverse[1]), times(&inverse[2])];
        let explained: f64 = by.iter().zip(self.products).map(|(a, b)| a * b).sum();
        let each = ((self.off - explained) / (self.count - 3.0).max(1.0)).max(0.0);
        (by, [0, 1, 2].map(|index: usize| (each * inverse[index][index].max(0.0)).sqrt()))
    }
}

/// The inverse of a matrix by its cofactors; zero for a singular one.
fn inverse(of: &[[f64; 3]; 3]) -> [[f64; 3]; 3] {
    let cofactor = |row: usize, column: usize| {
        let (a, b) = ((row + 1) % 3, (row + 2) % 3);
        let (c, d) = ((column + 1) % 3, (column + 2) % 3);
        of[a][c] * of[b][d] - of[a][d] * of[b][c]
    };
    let determinant: f64 = (0..3).map(|column| of[0][column] * cofactor(0, column)).sum();
    let mut inverse = [[0.0; 3]; 3];
    for (row, cells) in inverse.iter_mut().enumerate() {
        for (column, cell) in cells.iter_mut().enumerate() {
            *cell = if determinant.abs() > 1e-9 { cofactor(column, row) / determinant } else { 0.0 };
        }
    }
    inverse
}

/// Skews as they would be with a number of heads.
struct Pattern {
    heads: u64,
    /// The index of the first skew between cylinders.
    first: u64,
    within: f64,
    between: f64,
    /// Total distance of the skews from these; at most half of them.
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
