//! Extra settle time of a write after a seek or a head switch.
//!
//! Seek times before writes are measured as those before reads ([`super::seeks`]), at some of the same distances. The
//! difference in handling is subtracted: it shows where the head is on the track already. Writes go through to the
//! media (FUA), so that no write cache answers early.
//!
//! Invariants: a block is only overwritten with what was read from it just before; nothing else may write meanwhile.
//! Fault model: if the power fails within a write, its block may be torn.

use seekless_core::runtime::now;
use seekless_core::{Nanos, Op};

use super::Unknown;
use super::ahead::Ahead;
use super::map::Map;
use super::overhead::media;
use super::probe::Probe;
use super::seeks::{Seek, TURN_ROUND, over};
use super::stats::{Estimate, forward, median};

/// Distances measured before writes, and measurements of each, and of the handling.
const DISTANCES: usize = 5;
const REPEATS: usize = 3;
/// An answer may be late by this part of a turn without a turn being lost.
const LATE: f64 = 0.05;

/// Times of writes, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Settle {
    /// Extra time over a read after the head has moved; may be negative.
    pub settle_us: Estimate,
    /// Handling: all but seek, rotation and media transfer, measured where the head is on the track already.
    pub handling_us: Estimate,
}

/// Measures the extra settle time; `None` if handling cannot be separated from seeks. A block takes `block_us` over the
/// interface.
pub async fn settle(
    probe: &mut Probe<'_>,
    map: &Map,
    ahead: Option<&Ahead>,
    block_us: Estimate,
    seeks: &[Seek],
) -> Result<Option<Settle>, Unknown> {
    probe.stage("write settle");
    let (mut handled, mut handled_longer) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let Some(read) = media(probe, map, Op::Read, ahead).await? else { return Ok(None) };
        let Some(write) = media(probe, map, Op::Write, ahead).await? else { return Ok(None) };
        handled.push(write);
        handled_longer.push(less(write, read));
    }
    let mut longer = Vec::new();
    for read in some_of(seeks) {
        for _ in 0..REPEATS {
            let write = over(probe, map, Op::Write, read.cylinders).await?;
            longer.extend(write.map(|write| less(write.times(1e-3), read.us)));
        }
    }
    if longer.is_empty() {
        return Ok(None);
    }
    let longer = middle(&longer);
    // Without a seek a write waits for its data to arrive over the interface; a seek takes longer than that.
    let handled_longer = less(middle(&handled_longer), block_us);
    Ok(Some(Settle { settle_us: less(longer, handled_longer), handling_us: middle(&handled) }))
}

/// Some of the seeks, evenly from the shortest to the longest.
fn some_of(seeks: &[Seek]) -> impl Iterator<Item = &Seek> {
    let last = seeks.len().saturating_sub(1);
    let count = DISTANCES.min(seeks.len());
    (0..count).map(move |index| &seeks[index * last / (count - 1).max(1)])
}

/// The median; its interval is as wide as most of theirs and as their spread.
fn middle(each: &[Estimate]) -> Estimate {
    let of = |part: fn(&Estimate) -> f64| each.iter().map(part).collect::<Vec<f64>>();
    let spread = Estimate::median(&of(|one| one.value));
    let (low, high) = (median(&of(|one| one.low)), median(&of(|one| one.high)));
    Estimate { value: spread.value, low: spread.low.min(low), high: spread.high.max(high) }
}

/// The difference of two estimates.
fn less(from: Estimate, what: Estimate) -> Estimate {
    Estimate { value: from.value - what.value, low: from.low - what.high, high: from.high - what.low }
}

/// As [`super::seeks::trip`], with a write: the block's data have to be read before, so it is chosen by the expected
/// angle of the disk.
pub async fn write_trip(
    probe: &mut Probe<'_>,
    map: &Map,
    from: u64,
    to: u64,
    after: f64,
) -> Result<f64, Unknown> {
    map.keep_in_step(probe).await?;
    let pass = 1.0 / map.part(to).grid.per_track as f64;
    let target_angle = map.angle(from) + TURN_ROUND + LATE + after / probe.turn + pass;
    let target = map.at_angle(to, target_angle);
    let held = probe.contents(target).await?;
    let here = probe.fresh(from).await?;
    probe.rest_until(here.done + Nanos((TURN_ROUND * probe.turn) as u64)).await?;
    let early = forward(map.angle(target) - pass - probe.angle_at(now()) - after / probe.turn);
    probe.rest(Nanos((early * probe.turn) as u64)).await?;
    let there = probe.write_back(held).await?;
    let wait = forward(map.angle(target) - probe.angle_at(there.submitted));
    let turns = (there.took() / probe.turn - wait).round().max(0.0);
    Ok((wait + turns - pass) * probe.turn)
}
