//! Seek times: the shortest time from an answer to that of a block elsewhere.
//!
//! The answer to a read elsewhere comes when its block passes: at the earliest when the head arrives, at the latest a
//! turn later. A block whose angle is in the middle of the possible range halves that range.

use schemars::JsonSchema;
use seekless_core::{Nanos, Op};
use serde::Serialize;

use super::Unknown;
use super::map::Map;
use super::probe::Probe;
use super::settle::write_trip;
use super::stats::{Estimate, forward, median};

/// Distances increase by one up to this, then by a factor.
const ONE_BY_ONE: u64 = 12;
const PART: f64 = 0.14;
/// Measurements per distance, from different places.
const REPEATS: usize = 3;
/// Searches repeated until the result holds.
const TRIALS: usize = 3;
/// Most bisection steps, and the precision in turns.
const HALVINGS: usize = 24;
const NEAR: f64 = 1.0 / 2048.0;
/// Wait before a seek is requested, in turns.
pub const TURN_ROUND: f64 = 0.2;
/// An answer sooner than this part of the time until its block passes came from the cache.
const SOONER: f64 = 0.7;
/// Share of the time for seeks; the rest is for later stages.
const SHARE: f64 = 0.6;

/// A seek time.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Seek {
    /// Distance in cylinders.
    pub cylinders: u64,
    /// Time with the handling of its command, in microseconds.
    pub us: Estimate,
}

/// The shortest time of a trip between blocks that `pick` gives, in nanoseconds, within `near` turns: from the
/// submission of a read or a write until the block begins to pass. `pick` gives a block to start from, and the first
/// block of a track to go to. Searches that a late answer may have misled are repeated.
pub async fn shortest(
    probe: &mut Probe<'_>,
    map: &Map,
    op: Op,
    near: f64,
    pick: &mut dyn FnMut(&mut Probe<'_>) -> Option<(u64, u64)>,
) -> Result<Option<Estimate>, Unknown> {
    let mut found = None;
    for _ in 0..TRIALS {
        found = halved(probe, map, op, near, pick).await?;
        let Some(Estimate { low, high, .. }) = found else { return Ok(None) };
        let (some, half) = (2.0 * near * probe.turn, 0.5 * probe.turn);
        let Some((from, to)) = pick(probe) else { return Ok(found) };
        let in_time = either(probe, map, op, (from, to), high + some).await? < high + half;
        let Some((from, to)) = pick(probe) else { return Ok(found) };
        let too_soon = low < some || either(probe, map, op, (from, to), low - some).await? > low + half;
        if in_time && too_soon {
            break;
        }
    }
    Ok(found)
}

/// As `shortest`, by bisection with one trip per step.
async fn halved(
    probe: &mut Probe<'_>,
    map: &Map,
    op: Op,
    near: f64,
    pick: &mut dyn FnMut(&mut Probe<'_>) -> Option<(u64, u64)>,
) -> Result<Option<Estimate>, Unknown> {
    let (mut low, mut high) = (0.0_f64, f64::INFINITY);
    for _ in 0..HALVINGS {
        let Some((from, to)) = pick(probe) else { return Ok(None) };
        let middle = if high.is_finite() { f64::midpoint(low, high) } else { 0.5 * probe.turn };
        let took = either(probe, map, op, (from, to), middle).await?;
        if took <= middle + 0.5 * probe.turn {
            high = high.min(took);
        } else {
            low = low.max(took - probe.turn);
            high = high.min(took);
        }
        if high - low < near * probe.turn {
            break;
        }
    }
    // Late answers can have swapped the ends.
    let (low, high) = (low.min(high), low.max(high));
    Ok(Some(Estimate { value: f64::midpoint(low, high), low, high }))
}

/// A trip that ends with a read or a write.
async fn either(
    probe: &mut Probe<'_>,
    map: &Map,
    op: Op,
    (from, to): (u64, u64),
    after: f64,
) -> Result<f64, Unknown> {
    match op {
        Op::Write => write_trip(probe, map, from, to, after).await,
        _ => trip(probe, map, from, to, after).await,
    }
}

/// Reads `from`, then a block of the track at `to` that begins to pass `after` nanoseconds after its submission, or
/// whole turns later. Returns how long until it does, in nanoseconds, by its angle, which is more precise than the
/// clock.
pub async fn trip(probe: &mut Probe<'_>, map: &Map, from: u64, to: u64, after: f64) -> Result<f64, Unknown> {
    map.keep_in_step(probe).await?;
    let mut again = 2;
    loop {
        let here = probe.fresh(from).await?;
        // Wait for the drive's turn-round after a command; the head stays on the track meanwhile.
        probe.rest(Nanos((TURN_ROUND * probe.turn) as u64)).await?;
        // An answer comes when all of the block has passed.
        let pass = 1.0 / map.part(to).grid.per_track as f64;
        let submitted = here.done + Nanos((TURN_ROUND * probe.turn) as u64);
        let target_angle = probe.angle_at(submitted) + after / probe.turn + pass;
        let target = map.at_angle(to, target_angle);
        // Angles of blocks are discrete: wait for less than one of them.
        let early = forward(map.angle(target) - target_angle) * probe.turn;
        probe.rest(Nanos(early as u64)).await?;
        let there = probe.read(target, 1).await?;
        let wait = forward(map.angle(target) - probe.angle_at(there.submitted));
        if there.took() < SOONER * wait * probe.turn && probe.segments > 0 && again > 0 {
            // Long before the block has passed: the cache had it.
            probe.evict(target).await?;
            again -= 1;
            continue;
        }
        let turns = (there.took() / probe.turn - wait).round().max(0.0);
        return Ok((wait + turns - pass) * probe.turn);
    }
}

/// The seek curve, from the shortest distance to the longest.
pub async fn curve(probe: &mut Probe<'_>, map: &Map) -> Result<Vec<Seek>, Unknown> {
    probe.stage("seeks");
    let farthest = map.cylinders().saturating_sub(1);
    let until = probe.left().0 as f64 * (1.0 - SHARE);
    let mut found = Vec::new();
    for distance in in_good_order(&distances(farthest)) {
        let mut each = Vec::new();
        for _ in 0..REPEATS {
            each.extend(over(probe, map, Op::Read, distance).await?);
        }
        if each.is_empty() {
            continue;
        }
        // The medians of three: one may have gone wrong.
        let of = |part: fn(&Estimate) -> f64| median(&each.iter().map(part).collect::<Vec<f64>>());
        let us = Estimate { value: of(|one| one.value), low: of(|one| one.low), high: of(|one| one.high) };
        found.push(Seek { cylinders: distance, us: us.times(1e-3) });
        if (probe.left().0 as f64) < until {
            break;
        }
    }
    found.sort_by_key(|seek| seek.cylinders);
    Ok(found)
}

/// The seek time of one distance, from random places, in nanoseconds.
pub async fn over(
    probe: &mut Probe<'_>,
    map: &Map,
    op: Op,
    distance: u64,
) -> Result<Option<Estimate>, Unknown> {
    let room = map.cylinders() - distance;
    shortest(probe, map, op, NEAR, &mut |probe| {
        (0..50).find_map(|_| {
            let cylinder = probe.rng.below(room);
            let inwards = probe.rng.chance(1, 2);
            let (from, to) =
                if inwards { (cylinder, cylinder + distance) } else { (cylinder + distance, cylinder) };
            let (head, block) = map.random_track(probe, from)?;
            Some((block, map.track(to, head)?))
        })
    })
    .await
}

/// The time of a head switch, in nanoseconds.
pub async fn head_switch(probe: &mut Probe<'_>, map: &Map) -> Result<Option<Estimate>, Unknown> {
    if map.heads == 1 {
        return Ok(None);
    }
    shortest(probe, map, Op::Read, NEAR, &mut |probe| {
        (0..50).find_map(|_| {
            let cylinder = probe.rng.below(map.cylinders());
            let (head, block) = map.random_track(probe, cylinder)?;
            let other = (head + 1 + probe.rng.below(map.heads - 1)) % map.heads;
            Some((block, map.track(cylinder, other)?))
        })
    })
    .await
}

/// Distances to measure: short ones one by one, longer ones ever farther apart, the longest.
fn distances(farthest: u64) -> Vec<u64> {
    let mut distances = Vec::new();
    let mut distance = 1;
    while distance < farthest {
        distances.push(distance);
        distance += if distance < ONE_BY_ONE { 1 } else { (distance as f64 * PART).ceil() as u64 };
    }
    if farthest > 0 {
        distances.push(farthest);
    }
    distances
}

/// Orders distances so that a curve that is cut short still covers all of them: the ends, the middle, the quarters and
/// so on.
fn in_good_order(distances: &[u64]) -> Vec<u64> {
    let mut order = Vec::new();
    let mut step = distances.len().next_power_of_two();
    while step > 0 {
        for (index, distance) in distances.iter().enumerate() {
            let rank = distances.len() - 1 - index;
            if rank % step == 0 && !order.contains(distance) || index == 0 && order.len() == 1 {
                order.push(*distance);
            }
        }
        step /= 2;
    }
    order
}
