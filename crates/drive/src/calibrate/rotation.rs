//! Time of a revolution: the time between two reads of a place is a whole number of turns.
//!
//! Places are read in rounds, a block lower each time, so that no cache can answer. First the longest time is found of
//! which all times between rounds are multiples; then longer and longer waits make it exact.

use seekless_core::Nanos;

use super::Unknown;
use super::probe::Probe;
use super::stats::{Estimate, around, median};

/// Search range of the turn, in nanoseconds: 25,000 to 2,300 rpm.
const SHORTEST: f64 = 2.4e6;
const LONGEST: f64 = 26e6;
/// Relative step of the search.
const STEP: f64 = 1.5e-4;
/// Least number of places per round.
const PLACES: usize = 16;
/// Consecutive rounds, and waits before the further ones, in milliseconds.
const AT_ONCE: usize = 5;
const RESTS: [u64; 4] = [300, 1_200, 5_000, 18_000];
/// Least duration of a round, in turns.
const LEAST_TURNS: f64 = 5.0;
/// A turn fits if times are on average at most this far from multiples of it; at random it is a quarter.
const FITS: f64 = 0.12;

/// Times at which places were under the head: of each, its first block and when that and the ones below were read.
pub struct Turning {
    places: Vec<(u64, Vec<Nanos>)>,
}

/// Reads places in rounds.
pub async fn watch(probe: &mut Probe<'_>) -> Result<Turning, Unknown> {
    probe.stage("rotation");
    let places = if probe.keeps_before { PLACES.max(probe.segments + 4) } else { PLACES };
    let part = probe.blocks() / (places as u64 + 1);
    let mut turning = Turning { places: Vec::new() };
    for place in 1..=places as u64 {
        let jitter = probe.rng.below((part / 2).max(1));
        turning.places.push((place * part + jitter, Vec::new()));
    }
    for _ in 0..AT_ONCE {
        turning.again(probe).await?;
    }
    let Some(rough) = turning.rough() else {
        return probe
            .unclear("the times between reads of a place are no multiples of one time, as a turn is");
    };
    for rest in RESTS {
        probe.rest(Nanos::from_millis(rest)).await?;
        turning.again(probe).await?;
    }
    probe.turn = rough;
    probe.turn = turning.turn(rough, &|_| 0.0).value;
    Ok(turning)
}

impl Turning {
    /// Reads another round.
    pub async fn again(&mut self, probe: &mut Probe<'_>) -> Result<(), Unknown> {
        // In another order each time, so that the times between differ.
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        while let Some(last) = order.len().checked_sub(1) {
            let picked = order.swap_remove(probe.rng.below(last as u64 + 1) as usize);
            let (first, times) = &mut self.places[picked];
            let block = first.saturating_sub(times.len() as u64);
            times.push(probe.fresh(block).await?.done);
        }
        Ok(())
    }

    /// The longest turn of which the times between the first rounds are multiples.
    fn rough(&self) -> Option<f64> {
        let between: Vec<f64> = self
            .places
            .iter()
            .flat_map(|(_, times)| times.windows(2).map(|pair| pair[1].since(pair[0]).0 as f64))
            .collect();
        let off = |turn: f64| {
            between.iter().map(|time| around(time / turn).abs()).sum::<f64>() / between.len() as f64
        };
        // A round of reads takes many turns; a device that takes less is not a disk.
        let mean = between.iter().sum::<f64>() / between.len() as f64;
        let mut turn = LONGEST.min(mean / LEAST_TURNS);
        while turn > SHORTEST {
            if off(turn) < FITS {
                // The best nearby: its neighbours fit as well.
                let mut best = (off(turn), turn);
                for _ in 0..400 {
                    turn *= 1.0 - STEP / 10.0;
                    let here = off(turn);
                    best = if here < best.0 { (here, turn) } else { best };
                }
                return Some(best.1);
            }
            turn *= 1.0 - STEP;
        }
        None
    }

    /// The exact turn near `rough`; `slope` gives the turns per block at a place. All reads of a round can be late
    /// alike: the interval holds those of the last two rounds.
    pub fn turn(&self, rough: f64, slope: &dyn Fn(u64) -> f64) -> Estimate {
        let (mut best, mut before) = (Estimate::exact(rough), Estimate::exact(rough));
        for round in 1..self.places[0].1.len() {
            let each = self.places.iter().map(|(first, times)| {
                let time = times[round].since(times[0]).0 as f64;
                let below = round as f64 * slope(*first);
                time / ((time / best.value + below).round() - below)
            });
            let each: Vec<f64> = each.collect();
            // A stray answer is late by more than the error of the turn.
            let near = median(&each);
            let each: Vec<f64> = each.into_iter().filter(|turn| (turn / near - 1.0).abs() < 1e-3).collect();
            (before, best) = (best, Estimate::median(&each));
        }
        Estimate { low: best.low.min(before.low), high: best.high.max(before.high), ..best }
    }
}
