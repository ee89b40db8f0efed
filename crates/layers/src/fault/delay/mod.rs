//! Slow requests: by a fixed time, by random times of three distributions, or by a factor.
//!
//! The distributions use only integer comparisons and sums, so that they are the same on every machine.

use seekless_core::runtime::Rng;
use seekless_core::{Extent, Nanos, Op};
use serde::{Deserialize, Serialize};

use super::which::{OpName, When};
use super::{Act, Fault, Which};
use crate::Refused;
use crate::units::{Bytes, time, time_in_ns};

/// Options.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Fixed delay before a request begins.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub time: Nanos,
    /// Additional delay, uniformly distributed up to this.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub random: Nanos,
    /// Additional delay, exponentially distributed with this mean.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub exponential: Nanos,
    /// Additional delay, normally distributed with this mean; the deviation is a quarter of it.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub normal: Nanos,
    /// Instead of delays: factor by which requests take longer, 1 or more.
    pub times: f64,
    /// Share of the requests that is delayed, in per cent.
    pub rate_pct: Option<f64>,
    /// Kinds of requests; default: all.
    pub ops: Vec<OpName>,
    /// Only requests that touch the sectors from this offset on.
    pub at: Option<Bytes>,
    /// Size of that range.
    pub size: Option<Bytes>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            time: Nanos::ZERO,
            random: Nanos::ZERO,
            exponential: Nanos::ZERO,
            normal: Nanos::ZERO,
            times: 1.0,
            rate_pct: None,
            ops: Vec::new(),
            at: None,
            size: None,
        }
    }
}

impl Options {
    /// Checks the options.
    pub fn check(&self) -> Result<(), Refused> {
        if !(1.0..=1e6).contains(&self.times) {
            return Err(Refused::new("times", self.times.to_string(), "1 to 1000000"));
        }
        When::of(1, false, self.rate_pct)?;
        let waits =
            [self.time, self.random, self.exponential, self.normal].iter().any(|time| *time > Nanos::ZERO);
        if waits == (self.times > 1.0) {
            let found = if waits { "it with a time" } else { "no delay" };
            return Err(Refused::new(
                "times",
                found,
                "times above 1, or time, random, exponential or normal",
            ));
        }
        Ok(())
    }
}

/// The fault.
pub struct Delay {
    options: Options,
    which: Which,
}

impl Delay {
    /// A fault with these (checked) options.
    pub fn new(options: Options) -> Delay {
        let rate = options.rate_pct.and_then(|rate| When::of(1, false, Some(rate)).ok());
        let when = rate.unwrap_or(When::Always);
        let which = Which::new(&options.ops, options.at, options.size, when, "delay");
        Delay { options, which }
    }
}

/// An exponentially distributed time with this mean, by J. von Neumann's method: the length of a falling run of uniform
/// numbers is odd with the probability e^-x if x is the first.
fn exponential(mean: Nanos, rng: &mut Rng) -> Nanos {
    const ONE: u64 = 1 << 32;
    let mut whole = 0;
    loop {
        let first = rng.below(ONE);
        let (mut last, mut odd) = (first, true);
        loop {
            let next = rng.below(ONE);
            if next >= last {
                break;
            }
            (last, odd) = (next, !odd);
        }
        if odd {
            let time = u128::from(mean.0) * u128::from(whole * ONE + first) / u128::from(ONE);
            return Nanos(time as u64);
        }
        whole += 1;
    }
}

/// A normally distributed time with this mean and a deviation of a quarter of it, never negative: the sum of twelve
/// uniform numbers has twelve times the variance of one.
fn normal(mean: Nanos, rng: &mut Rng) -> Nanos {
    let deviation = mean.0 / 4;
    let sum: u64 = (0..12).map(|_| rng.below(deviation + 1)).sum();
    Nanos((mean.0 + sum).saturating_sub(6 * deviation))
}

impl Fault for Delay {
    fn meet(&self, op: Op, at: Extent, _sectors: u64) -> Act {
        if !self.which.strikes(op, at) {
            return Act::Pass;
        }
        if self.options.times > 1.0 {
            return Act::Slow(self.options.times);
        }
        let Options { time, random, exponential: mean, normal: middle, .. } = self.options;
        let mut rng = self.which.rng();
        let random = if random > Nanos::ZERO { Nanos(rng.below(random.0 + 1)) } else { random };
        let mean = if mean > Nanos::ZERO { exponential(mean, &mut rng) } else { mean };
        let middle = if middle > Nanos::ZERO { normal(middle, &mut rng) } else { middle };
        Act::Wait(time + random + mean + middle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean, and the shares of times that are below these percentages of the requested mean.
    fn drawn(draw: fn(Nanos, &mut Rng) -> Nanos, below_pct: &[u64]) -> (f64, Vec<f64>) {
        const TIMES: u64 = 100_000;
        let (asked, mut rng) = (Nanos::from_millis(8), Rng::seeded(1));
        let drawn: Vec<Nanos> = (0..TIMES).map(|_| draw(asked, &mut rng)).collect();
        let share = |pct: &u64| {
            drawn.iter().filter(|time| time.0 * 100 < asked.0 * pct).count() as f64 / TIMES as f64
        };
        let mean = drawn.iter().map(|time| time.0).sum::<u64>() as f64 / TIMES as f64;
        (mean / asked.0 as f64, below_pct.iter().map(share).collect())
    }

    fn are_near(found: &[f64], expected: &[f64]) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 0.01, "{found} for {expected}");
        }
    }

    #[test]
    fn times_are_distributed_as_their_names_say() {
        let (mean, shares) = drawn(exponential, &[10, 69, 100, 300]);
        are_near(&[&[mean], &shares[..]].concat(), &[1.0, 0.095, 0.498, 0.632, 0.950]);
        let (mean, shares) = drawn(normal, &[50, 75, 100, 125, 150]);
        are_near(&[&[mean], &shares[..]].concat(), &[1.0, 0.023, 0.159, 0.5, 0.841, 0.977]);
    }
}
