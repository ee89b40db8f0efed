//! Random numbers that are not uniform. Transcendental functions come from `libm`, so that a seed gives the same
//! numbers on every machine; the remainder is addition and multiplication, which are exact.

use seekless_core::Nanos;
use seekless_core::runtime::Rng;

/// Uniform in (0, 1], 53 bits: never zero, so that it has a logarithm.
pub fn unit(rng: &mut Rng) -> f64 {
    ((rng.bits() >> 11) + 1) as f64 / 9_007_199_254_740_992.0
}

/// Exponential, of mean 1.
pub fn exponential(rng: &mut Rng) -> f64 {
    -libm::log(unit(rng))
}

/// An exponential time of this mean.
pub fn time(rng: &mut Rng, mean: Nanos) -> Nanos {
    Nanos((exponential(rng) * mean.0 as f64) as u64)
}

/// An exponential length in whole steps, at least one, whose mean is `mean` steps.
///
/// Rounding an exponential up to steps makes it geometric. Its mean after rounding is 1 / (1 - e^(-1/m))
/// for a mean of m before, so that one is chosen for which it is `mean`.
pub fn steps(rng: &mut Rng, mean: f64) -> u64 {
    if mean <= 1.0 {
        return 1;
    }
    let before = -1.0 / libm::log1p(-1.0 / mean);
    ((exponential(rng) * before).ceil() as u64).max(1)
}

/// Normal, of mean 0 and deviation 1 (Box and Muller).
pub fn normal(rng: &mut Rng) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(unit(rng)));
    radius * libm::cos(std::f64::consts::TAU * unit(rng))
}

/// Zipf: rank k of n with a chance in proportion to 1 / k^theta.
///
/// By rejection-inversion (Hoermann and Derflinger, *Rejection-inversion to generate variates from
/// monotone discrete distributions*, ACM TOMACS 6(3), 1996): constant memory and time, any n.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    ranks: f64,
    theta: f64,
    first: f64,
    last: f64,
    sure: f64,
}

impl Zipf {
    /// Over `ranks` ranks, at least one; `theta` of at least zero, where zero is uniform.
    pub fn new(ranks: u64, theta: f64) -> Zipf {
        let mut zipf = Zipf { ranks: ranks.max(1) as f64, theta, first: 0.0, last: 0.0, sure: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.ranks + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// A rank, from 0.
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let under = self.last + unit(rng) * (self.first - self.last);
            let x = self.inverse(under);
            let k = (x + 0.5).floor().clamp(1.0, self.ranks);
            if k - x <= self.sure || under >= self.integral(k + 0.5) - self.weight(k) {
                return k as u64 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// The integral of the weight from 1 to x: (x^(1-theta) - 1) / (1 - theta), or ln x.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let t = log * (1.0 - self.theta);
        if t.abs() < 1e-8 { log } else { libm::expm1(t) / t * log }
    }

    fn inverse(&self, area: f64) -> f64 {
        let t = (area * (1.0 - self.theta)).max(-1.0);
        libm::exp(if t.abs() < 1e-8 { area } else { libm::log1p(t) / t * area })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_deviations_are_those_that_were_asked_for() {
        let rng = &mut Rng::seeded(1);
        let mean = |of: &mut dyn FnMut() -> f64| (0..100_000).map(|_| of()).sum::<f64>() / 100_000.0;
        assert!((mean(&mut || exponential(rng)) - 1.0).abs() < 0.02);
        assert!((mean(&mut || steps(rng, 2.0) as f64) - 2.0).abs() < 0.03);
        assert!((mean(&mut || steps(rng, 1.0) as f64) - 1.0).abs() < 1e-9);
        assert!(mean(&mut || normal(rng)).abs() < 0.02);
        let square = mean(&mut || {
            let x = normal(rng);
            x * x
        });
        assert!((square - 1.0).abs() < 0.03);
    }

    #[test]
    fn ranks_follow_the_law() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.5] {
            let (zipf, rng) = (Zipf::new(100, theta), &mut Rng::seeded(2));
            let mut counts = [0_u64; 100];
            for _ in 0..200_000 {
                counts[zipf.rank(rng) as usize] += 1;
            }
            let weight = |k: usize| libm::pow(k as f64 + 1.0, -theta);
            let all: f64 = (0..100).map(weight).sum();
            for k in [0, 1, 9, 99] {
                let expected = 200_000.0 * weight(k) / all;
                let off = (counts[k] as f64 - expected).abs();
                assert!(
                    off < 5.0 * libm::sqrt(expected) + 1.0,
                    "theta {theta}, rank {k}: {} for {expected}",
                    counts[k]
                );
            }
        }
    }

    #[test]
    fn one_rank_is_always_drawn() {
        let rng = &mut Rng::seeded(3);
        assert!((0..100).all(|_| Zipf::new(1, 0.9).rank(rng) == 0));
    }
}
