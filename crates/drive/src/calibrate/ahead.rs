//! Read-ahead: how far the drive reads ahead after a read, and the size of a segment.
//!
//! A place is read, the drive is left idle for some revolutions, the head is sent far away, and then one block is read:
//! if it is cached, the answer is fast. Each trial uses a place of its own.

use schemars::JsonSchema;
use serde::Serialize;

use super::Unknown;
use super::cache::{Hits, all, most};
use super::map::Map;
use super::probe::Probe;
use crate::spec::ReadAhead;
use seekless_core::Nanos;

/// Idle time before a trial, in revolutions.
const REST_TURNS: f64 = 40.0;
/// The search limit, in blocks.
const MOST_BLOCKS: u64 = 1 << 16;
/// Where only a read's time tells whether it was a hit, a hit takes at most this many times the time of a known hit.
const AS_QUICK: f64 = 1.25;

/// Read-ahead as measured.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Ahead {
    /// Where read-ahead ends.
    pub kind: ReadAhead,
    /// Median number of blocks cached after a read of one block.
    pub blocks: u64,
    /// Size of a segment, in blocks.
    pub segment: u64,
    /// Whether read-ahead may overwrite the requested blocks.
    pub over_request: bool,
}

/// Measures read-ahead and the size of a segment.
pub async fn ahead(probe: &mut Probe<'_>, map: &Map, hits: &Hits) -> Result<Option<Ahead>, Unknown> {
    probe.stage("read-ahead");
    if hits.segments == 0 {
        return Ok(None);
    }
    let start_command = async |probe: &mut Probe<'_>, eighths: u64, behind: u64| {
        let trial = async |probe: &mut Probe<'_>| {
            let block = place(probe, map, eighths);
            probe.fresh(block).await?;
            let rest = REST_TURNS * probe.turn * (1.0 + probe.rng.below(1_000) as f64 / 1e3);
            probe.rest(Nanos(rest as u64)).await?;
            found(probe, hits, block + behind).await
        };
        if hits.segments == 1 { all(probe, trial).await } else { most(probe, trial).await }
    };
    let early = last_found(probe, async |probe, behind| start_command(probe, 1, behind).await).await?;
    let late = last_found(probe, async |probe, behind| start_command(probe, 5, behind).await).await?;
    let over_request = early > 0 && !start_command(probe, 1, 0).await?;
    let segment = if over_request {
        // The first block that is still cached.
        let (mut lost, mut there) = (0, early);
        while there - lost > 1 {
            let between = u64::midpoint(lost, there);
            if start_command(probe, 1, between).await? { there = between } else { lost = between }
        }
        early - there + 1
    } else {
        held(probe, map, hits).await?.max(early + 1)
    };
    // After a read half a track later, read-ahead is half a track less if it ends with the track.
    let per_track = map.parts[0].grid.per_track;
    let kind = match () {
        () if early == 0 => ReadAhead::None,
        () if early > late + per_track / 4 => ReadAhead::Track,
        () => ReadAhead::Segment,
    };
    Ok(Some(Ahead { kind, blocks: early, segment, over_request }))
}

/// A block of the first zone, `eighths` eighths of a track after a track's start.
fn place(probe: &mut Probe<'_>, map: &Map, eighths: u64) -> u64 {
    let mut block = 0;
    for _ in 0..50 {
        let Some(start) = map.first_zones_track(probe) else { continue };
        block = start + eighths * map.part(start).grid.per_track / 8;
        if !probe.may_be_cached(block) {
            break;
        }
    }
    block
}

/// Whether the cache has a block.
async fn found(probe: &mut Probe<'_>, hits: &Hits, block: u64) -> Result<bool, Unknown> {
    if block >= probe.blocks() {
        return Ok(false);
    }
    if hits.segments == 1 {
        // Another read would evict the block in question.
        return Ok(probe.read(block, 1).await?.took() <= AS_QUICK * hits.block);
    }
    let far = probe.far_from(block);
    probe.read(far, 1).await?;
    Ok(probe.read(block, 1).await?.took() <= hits.limit)
}

/// The largest number, up to a limit, for which the predicate holds.
async fn last_found(
    probe: &mut Probe<'_>,
    start_command: impl AsyncFn(&mut Probe<'_>, u64) -> Result<bool, Unknown>,
) -> Result<u64, Unknown> {
    let (mut there, mut lost) = (0, 1);
    while lost <= MOST_BLOCKS && start_command(probe, lost).await? {
        (there, lost) = (lost, 2 * lost);
    }
    while lost - there > 1 && lost <= MOST_BLOCKS {
        let between = u64::midpoint(there, lost);
        if start_command(probe, between).await? { there = between } else { lost = between }
    }
    Ok(there)
}

/// The largest read whose first block is still cached afterwards.
async fn held(probe: &mut Probe<'_>, map: &Map, hits: &Hits) -> Result<u64, Unknown> {
    last_found(probe, async |probe, blocks| {
        let trial = async |probe: &mut Probe<'_>| {
            let block = place(probe, map, 0);
            probe.read(block, blocks).await?;
            if hits.segments == 1 {
                let rest = probe.rng.below(probe.turn as u64);
                probe.rest(Nanos(rest)).await?;
            }
            found(probe, hits, block).await
        };
        if hits.segments == 1 { all(probe, trial).await } else { most(probe, trial).await }
    })
    .await
}
