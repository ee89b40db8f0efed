//! Command overheads: a read hit, the interface per block, and a read miss without a seek.

use schemars::JsonSchema;
use serde::Serialize;

use super::Unknown;
use super::ahead::Ahead;
use super::cache::Hits;
use super::map::Map;
use super::probe::Probe;
use super::stats::{Estimate, forward};
use crate::spec::ReadAhead;
use seekless_core::{Nanos, Op};

/// Reads per estimate.
const READS: usize = 15;
/// Size of the read hit that times the interface, in blocks.
const BLOCKS: u64 = 64;
/// Sizes of longer read misses, in blocks.
const LONGER: [u64; 5] = [2, 4, 8, 16, 32];
/// Bisection steps, from one turn.
const HALVINGS: usize = 13;
/// Idle time before a trial, in revolutions.
const REST_TURNS: f64 = 40.0;

/// Command overheads, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Overhead {
    /// A read hit of one block.
    pub hit_us: Estimate,
    /// Each further block of it.
    pub block_us: Estimate,
    /// A read miss of one block without a seek: without rotation and media transfer.
    pub media_us: Option<Estimate>,
    /// Longer read misses: size in blocks, and how much later their answers come than that of their first block.
    pub longer_us: [(u64, Estimate); LONGER.len()],
}

/// Measures the command overheads.
pub async fn overhead(
    probe: &mut Probe<'_>,
    map: &Map,
    hits: &Hits,
    ahead: Option<&Ahead>,
) -> Result<Overhead, Unknown> {
    probe.stage("command overhead");
    let most = ahead.map_or(1, |ahead| (ahead.segment / 2).clamp(1, BLOCKS));
    let (mut one, mut each) = (Vec::new(), Vec::new());
    for _ in 0..READS {
        let block = probe.rng.below(probe.blocks() - most);
        probe.read(block, most).await?;
        let first = probe.read(block, 1).await?.took();
        one.push(first / 1e3);
        if most > 1 {
            let all = probe.read(block, most).await?.took();
            each.push((all - first) / (most - 1) as f64 / 1e3);
        }
    }
    let hit_us = if hits.segments > 0 { Estimate::median(&one) } else { Estimate::default() };
    let media_us = media(probe, map, Op::Read, ahead).await?;
    let mut longer_us = [(0, Estimate::default()); LONGER.len()];
    for (longer, blocks) in longer_us.iter_mut().zip(LONGER) {
        *longer = (blocks, later(probe, map, blocks).await?);
    }
    Ok(Overhead { hit_us, block_us: Estimate::median(&each), media_us, longer_us })
}

/// How much later the answer to a read of `blocks` comes than that to a read of the first.
async fn later(probe: &mut Probe<'_>, map: &Map, blocks: u64) -> Result<Estimate, Unknown> {
    let mut later = Vec::new();
    for _ in 0..READS {
        let Some(start) = map.first_zones_track(probe) else { continue };
        let block = start + map.part(start).grid.per_track / 8;
        if probe.may_be_cached(block) || block + blocks > probe.blocks() {
            continue;
        }
        map.keep_in_step(probe).await?;
        let timed = probe.read(block, blocks).await?;
        later.push(forward(probe.angle_at(timed.done) - map.angle(block)) * probe.turn / 1e3);
    }
    Ok(Estimate::median(&later))
}

/// The shortest read or write of a block on the head's track, in microseconds.
pub async fn media(
    probe: &mut Probe<'_>,
    map: &Map,
    op: Op,
    ahead: Option<&Ahead>,
) -> Result<Option<Estimate>, Unknown> {
    let rest = match ahead {
        // The whole track is cached: there is nothing to read where the head rests.
        _ if probe.keeps_before => return Ok(None),
        Some(ahead) if ahead.kind == ReadAhead::Track => Rest::AtTracksEnd,
        Some(ahead) => Rest::Behind(ahead.blocks),
        None => Rest::Behind(0),
    };
    let (mut low, mut high) = (0.0, probe.turn);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        map.keep_in_step(probe).await?;
        let Some((from, target)) = resting(probe, map, rest) else { return Ok(None) };
        let held = if op == Op::Write { Some(probe.contents(target).await?) } else { None };
        let here = probe.fresh(from).await?;
        probe.rest_until(here.done + Nanos((REST_TURNS * probe.turn) as u64)).await?;
        // Time until the block passes after this delay.
        let now = probe.angle_at(seekless_core::runtime::now());
        let pass = 1.0 / map.part(target).grid.per_track as f64;
        let early = forward(map.angle(target) - pass - now - middle / probe.turn) * probe.turn;
        probe.rest(Nanos(early as u64)).await?;
        let there = match held {
            Some(held) => probe.write_back(held).await?,
            None => probe.read(target, 1).await?,
        };
        let wait = forward(map.angle(target) - probe.angle_at(there.submitted));
        let turns = (there.took() / probe.turn - wait).round().max(0.0);
        let took = (wait + turns - pass) * probe.turn;
        if took <= middle + 0.5 * probe.turn {
            high = took.min(high);
        } else {
            low = (took - probe.turn).max(low);
        }
    }
    let (low, high) = (low.min(high), low.max(high));
    Ok(Some(Estimate { value: f64::midpoint(low, high), low, high }.times(1e-3)))
}

/// Where the head rests after a read.
#[derive(Clone, Copy)]
enum Rest {
    /// This many blocks after it.
    Behind(u64),
    /// At the end of its track.
    AtTracksEnd,
}

/// A block after which the head rests on a track, and one of that track that is not cached.
fn resting(probe: &mut Probe<'_>, map: &Map, rest: Rest) -> Option<(u64, u64)> {
    (0..50).find_map(|_| {
        let start = map.first_zones_track(probe)?;
        let per_track = map.part(start).grid.per_track;
        let (early, late) = (start + per_track / 8, start + per_track * 3 / 4);
        let some = probe.rng.below(per_track / 8 + 1);
        let (from, target) = match rest {
            Rest::Behind(blocks) => (early.checked_sub(blocks)?, late + some),
            Rest::AtTracksEnd => (late, early + some),
        };
        (!probe.may_be_cached(from) && !probe.may_be_cached(target)).then_some((from, target))
    })
}
