//! The cache: number of segments, and what each stores.
//!
//! A read hit is fast, however far the head is.

use seekless_core::Nanos;

use super::Unknown;
use super::probe::{MOST_SEGMENTS, Probe};
use super::stats::median;

/// Reads per estimate.
const READS: usize = 9;
/// Longest time between the two reads of a place, in nanoseconds: read-ahead must not overwrite the first.
const MOST_REST: u64 = 2_000_000;
/// Read hits take at most this part of the time of misses, and vary by at most this part of it.
const AS_QUICK: f64 = 0.3;
const AS_EVEN: f64 = 0.02;
/// Trials of a question; the majority decides.
const TRIALS: usize = 3;

/// Thresholds that tell hits from misses.
#[derive(Clone, Copy, Debug)]
pub struct Hits {
    /// The longest time of a read hit, in nanoseconds.
    pub limit: f64,
    /// Time of a hit of one block.
    pub block: f64,
    /// Segments usable by reads; 0: nothing is cached.
    pub segments: usize,
}

/// Measures the number of segments, and whether they store what passes before a block.
pub async fn segments(probe: &mut Probe<'_>) -> Result<Hits, Unknown> {
    probe.stage("cache segments");
    let (mut again, mut far) = (Vec::new(), Vec::new());
    let mut last = 0;
    for _ in 0..READS {
        let block = probe.far_from(last);
        far.push(probe.read(block, 1).await?.took());
        // Not in step with the disk: without a cache the second read takes any part of a revolution.
        let some = probe.rng.below(MOST_REST);
        probe.rest(Nanos(some)).await?;
        again.push(probe.read(block, 1).await?.took());
        last = block;
    }
    let (block, least) = (median(&again), far.iter().copied().fold(f64::INFINITY, f64::min));
    let mut hits = Hits { limit: f64::midpoint(block, least), block, segments: 0 };
    again.sort_by(f64::total_cmp);
    let spread = again[READS * 3 / 4] - again[READS / 4];
    if block > AS_QUICK * least || spread > AS_EVEN * least {
        probe.segments = 0;
        return Ok(hits);
    }
    let (mut held, mut lost) = (1, 2);
    while lost <= MOST_SEGMENTS && holds(probe, &hits, lost).await? {
        (held, lost) = (lost, 2 * lost);
    }
    while lost - held > 1 && lost <= MOST_SEGMENTS {
        let between = usize::midpoint(held, lost);
        if holds(probe, &hits, between).await? {
            held = between;
        } else {
            lost = between;
        }
    }
    hits.segments = held;
    probe.segments = held;
    if held > 1 {
        probe.keeps_before = keeps_before(probe, &hits).await?;
    }
    Ok(hits)
}

/// Whether the first of `streams` streams is still cached after the others.
async fn holds(probe: &mut Probe<'_>, hits: &Hits, streams: usize) -> Result<bool, Unknown> {
    most(probe, async |probe| {
        let first = probe.rng.below(probe.blocks() / 4);
        probe.read(first, 1).await?;
        // Downwards, a little apart, far from the first.
        let part = probe.blocks() / 4 / (MOST_SEGMENTS as u64 + 1);
        let top = probe.blocks() - 1 - probe.rng.below(probe.blocks() / 8);
        for stream in 1..streams as u64 {
            probe.read(top - stream * part, 1).await?;
        }
        Ok(probe.read(first, 1).await?.took() <= hits.limit)
    })
    .await
}

/// Whether the cache stores what passes before a block.
async fn keeps_before(probe: &mut Probe<'_>, hits: &Hits) -> Result<bool, Unknown> {
    most(probe, async |probe| {
        let block = probe.anywhere().max(8);
        let far = probe.far_from(block);
        probe.read(block, 1).await?;
        probe.read(far, 1).await?;
        Ok(probe.read(block - 3, 1).await?.took() <= hits.limit)
    })
    .await
}

/// The answer of most trials.
pub async fn most(
    probe: &mut Probe<'_>,
    trial: impl AsyncFn(&mut Probe<'_>) -> Result<bool, Unknown>,
) -> Result<bool, Unknown> {
    decide(probe, trial, TRIALS / 2 + 1, TRIALS / 2 + 1).await
}

/// Whether all trials agree: where a no can look like a yes by chance.
pub async fn all(
    probe: &mut Probe<'_>,
    trial: impl AsyncFn(&mut Probe<'_>) -> Result<bool, Unknown>,
) -> Result<bool, Unknown> {
    decide(probe, trial, TRIALS, 1).await
}

async fn decide(
    probe: &mut Probe<'_>,
    trial: impl AsyncFn(&mut Probe<'_>) -> Result<bool, Unknown>,
    for_yes: usize,
    for_no: usize,
) -> Result<bool, Unknown> {
    let (mut yes, mut no) = (0, 0);
    while yes < for_yes && no < for_no {
        probe.report_sometimes();
        if trial(probe).await? {
            yes += 1;
        } else {
            no += 1;
        }
    }
    Ok(yes == for_yes)
}
