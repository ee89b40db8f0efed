//! Tracks per cylinder, where skews do not show them: the time to a track at some distance increases in steps, which
//! are a cylinder apart.

use seekless_core::Op;

use super::Unknown;
use super::grid::Grid;
use super::map::Map;
use super::probe::Probe;
use super::seeks::{shortest, trip};
use super::skews::MOST_HEADS;
use super::zones::Zone;

/// The farthest track at which a step is searched.
const FARTHEST: u64 = 1 << 14;
/// Precision of a time, in turns.
const NEAR: f64 = 1.0 / 8192.0;
/// A step is at least this many times that, or it may be noise.
const CLEARLY: f64 = 3.0;
/// Starting points of the two searches, in tenths of a zone.
const FROM: [u64; 2] = [2, 5];
/// Most steps searched until two consecutive distances are equal.
const STEPS: usize = 6;

/// Measures the number of tracks per cylinder. The zones' grids have cylinders of one track.
pub async fn heads(probe: &mut Probe<'_>, zones: &[Zone]) -> Result<Option<u64>, Unknown> {
    probe.stage("heads");
    // Late answers hide finer steps.
    if zones.iter().all(|zone| zone.fitted.noise > NEAR) {
        return Ok(None);
    }
    let map = Map::new(zones);
    let Some(zone) = zones.iter().max_by_key(|zone| (zone.end - zone.first) / zone.fitted.grid.per_track)
    else {
        return Ok(None);
    };
    let mut seen = Vec::new();
    for part in FROM {
        let stairs = Stairs { map: &map, grid: zone.fitted.grid, origin: origin(zone, part), end: zone.end };
        seen.push(stairs.heads(probe).await?);
    }
    let heads = seen[0].filter(|_| seen.iter().all(|other| *other == seen[0]));
    let whole = |heads: &u64| {
        zones[..zones.len() - 1].iter().all(|zone| {
            let tracks = (zone.end - zone.first).div_ceil(zone.fitted.grid.per_track);
            tracks % heads == 0
        })
    };
    Ok(heads.filter(whole).filter(|heads| *heads <= MOST_HEADS))
}

/// A track at this many tenths of a zone.
fn origin(zone: &Zone, tenths: u64) -> u64 {
    let grid = &zone.fitted.grid;
    let tracks = (zone.end - zone.first) / grid.per_track;
    zone.first + tenths * tracks / 10 * grid.per_track
}

/// Times from one track to later ones.
struct Stairs<'a> {
    map: &'a Map,
    grid: Grid,
    origin: u64,
    end: u64,
}

impl Stairs<'_> {
    fn track(&self, away: u64) -> u64 {
        self.origin + away * self.grid.per_track
    }

    /// The distance between equal steps of the time, if there are any.
    async fn heads(&self, probe: &mut Probe<'_>) -> Result<Option<u64>, Unknown> {
        let (mut edges, mut at, mut before): (Vec<u64>, _, Option<f64>) = (Vec::new(), 1, None);
        while edges.len() < STEPS {
            let Some((level, edge)) = self.next_edge(probe, at).await? else { return Ok(None) };
            if before.is_some_and(|before| level < before + CLEARLY * NEAR * probe.turn) {
                return Ok(None);
            }
            (before, at) = (Some(level), edge);
            edges.push(edge);
            if let [.., one, two, three] = edges[..] {
                if three - two == two - one {
                    return Ok(Some(two - one));
                }
            }
        }
        Ok(None)
    }

    /// The time of the track at `at`, and the first later one that takes longer.
    async fn next_edge(&self, probe: &mut Probe<'_>, at: u64) -> Result<Option<(f64, u64)>, Unknown> {
        let pick = |probe: &mut Probe<'_>| Some((self.from(probe), self.track(at)));
        let Some(level) = shortest(probe, self.map, Op::Read, NEAR, &mut { pick }).await? else {
            return Ok(None);
        };
        let limit = level.high + NEAR * probe.turn;
        let (mut near, mut step) = (at, 1);
        let mut far = loop {
            let away = at + step;
            if away > FARTHEST || self.track(away + 1) > self.end {
                return Ok(None);
            }
            if !self.within(probe, away, limit).await? {
                break away;
            }
            (near, step) = (away, step * 2);
        };
        while far - near > 1 {
            let between = u64::midpoint(near, far);
            if self.within(probe, between, limit).await? {
                near = between;
            } else {
                far = between;
            }
        }
        Ok(Some((level.value, far)))
    }

    /// Whether a track can be reached within a time, by majority of three.
    async fn within(&self, probe: &mut Probe<'_>, away: u64, limit: f64) -> Result<bool, Unknown> {
        let mut votes = 0_i32;
        while votes.abs() < 2 {
            let from = self.from(probe);
            let took = trip(probe, self.map, from, self.track(away), limit).await?;
            votes += if took < limit + 0.5 * probe.turn { 1 } else { -1 };
        }
        Ok(votes > 0)
    }

    /// A block in the first half of the first track.
    fn from(&self, probe: &mut Probe<'_>) -> u64 {
        let half = self.grid.per_track / 2;
        let mut block = self.origin;
        for _ in 0..50 {
            block = self.origin + probe.rng.below(half);
            if !probe.may_be_cached(block) {
                break;
            }
        }
        block
    }
}

/// Regroups the zones' tracks into cylinders of `heads` tracks, each zone beginning with one.
pub fn with_heads(zones: &mut [Zone], heads: u64) {
    for zone in zones {
        let grid = &mut zone.fitted.grid;
        grid.angle = grid.angle(zone.first);
        grid.anchor = zone.first;
        grid.heads = heads;
    }
}
