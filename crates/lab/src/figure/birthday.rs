//! Appendix A of the proximal paper: the number of revolutions of a strand, as a birthday problem.
//!
//! A revolution has as many *bins* as requests fit into it one after the other. The requests of a strand fall into bins
//! at random; those in one bin need a revolution each, so that a strand takes as many revolutions as its fullest bin
//! holds requests. The paper adds half a revolution, until the first bin comes by.
//!
//! The probabilities are exact: numbers of ways, counted by adding one bin after the other, and divided by all ways at
//! the end. The paper prints a recurrence instead, in which an index is missing: its inner sum goes over j and has no j
//! in it. With the probability of j there, of the remaining requests and bins, it gives the same (a test).

/// Limits of requests and bins: with these, the ways are less than 2^63.
pub const MOST: (usize, u32) = (16, 15);

/// The probabilities that the fullest of `bins` bins holds exactly 1, 2, ... `requests` requests.
///
/// # Panics
/// If there are more than [`MOST`], or no bins.
pub fn fullest(requests: usize, bins: u32) -> Vec<f64> {
    assert!(requests <= MOST.0 && (1..=MOST.1).contains(&bins), "{requests} requests, {bins} bins");
    let all = u64::from(bins).pow(requests as u32) as f64;
    let ways: Vec<u64> = (0..=requests).map(|most| at_most(requests, bins, most)).collect();
    ways.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / all).collect()
}

/// Number of ways in which requests fall into bins with at most `most` of them in one.
fn at_most(requests: usize, bins: u32, most: usize) -> u64 {
    // Ways, by the number of requests in the bins so far.
    let mut ways = vec![0; requests + 1];
    ways[0] = 1;
    for _ in 0..bins {
        let with = |so_far: usize| {
            (0..=most.min(so_far)).map(|here| binomial(so_far, here) * ways[so_far - here]).sum()
        };
        ways = (0..=requests).map(with).collect();
    }
    ways[requests]
}

fn binomial(n: usize, k: usize) -> u64 {
    (0..k as u64).fold(1, |product, i| product * (n as u64 - i) / (i + 1))
}

/// Mean and variance of the fullest bin.
pub fn moments(chances: &[f64]) -> (f64, f64) {
    let mean: f64 = chances.iter().zip(1_u32..).map(|(chance, k)| chance * f64::from(k)).sum();
    let square: f64 = chances.iter().zip(1_u32..).map(|(chance, k)| chance * f64::from(k * k)).sum();
    (mean, square - mean * mean)
}

/// The paper's expected revolutions of a strand: E\[Revs\].
pub fn expected_revolutions(requests: usize, bins: u32) -> f64 {
    0.5 + moments(&fullest(requests, bins)).0
}

/// Bins of a revolution: the number of requests this far apart that it holds; both times in the same unit.
pub fn bins(revolution: f64, apart: f64) -> u32 {
    (revolution / apart) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts every way in which requests fall into bins, by enumeration.
    fn counted(requests: usize, bins: usize) -> Vec<u64> {
        let mut ways = vec![0; requests];
        for mut way in 0..bins.pow(requests as u32) {
            let mut in_bin = vec![0; bins];
            for _ in 0..requests {
                in_bin[way % bins] += 1;
                way /= bins;
            }
            ways[in_bin.into_iter().max().unwrap() - 1] += 1;
        }
        ways
    }

    #[test]
    fn chances_are_those_of_all_ways_counted() {
        for (requests, bins) in [(1, 1), (2, 15), (4, 6), (6, 6), (8, 6), (5, 8), (6, 3)] {
            let ways = counted(requests, bins);
            let all = (bins as f64).powi(requests.try_into().unwrap());
            let found = fullest(requests, bins as u32);
            assert_eq!(found.len(), requests);
            for (ways, chance) in ways.into_iter().zip(found) {
                assert!((ways as f64 / all - chance).abs() < 1e-15, "{requests} in {bins}");
            }
        }
    }

    #[test]
    fn no_two_in_one_bin_is_the_birthday_problem() {
        // b! / ((b - n)! b^n)
        assert!((fullest(8, 8)[0] - 40_320.0 / 16_777_216.0).abs() < 1e-15);
        assert!(fullest(8, 6)[0].abs() < 1e-15, "eight do not fit into six");
        for (requests, bins) in [(8, 8), (8, 6), (16, 15), (3, 2)] {
            assert!((fullest(requests, bins).iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }

    /// The paper's recurrence, corrected.
    fn recurrence(k: usize, n: usize, b: usize) -> f64 {
        let factorial = |n: usize| (1..=n).map(|i| i as f64).product::<f64>();
        let power = |base: usize, to: usize| (base as f64).powi(to.try_into().unwrap());
        let term = |i: usize| {
            let left = n - i * k;
            let rest = |j| recurrence(j, left, b - i);
            let inner = if left == 0 { 1.0 } else { (1..k).map(rest).sum::<f64>() * power(b - i, left) };
            factorial(n) * factorial(b) / power(b, n) * inner
                / (factorial(i) * power(factorial(k) as usize, i) * factorial(left) * factorial(b - i))
        };
        (1..=n / k).filter(|&i| i <= b).map(term).sum()
    }

    #[test]
    fn chances_are_those_of_the_recurrence() {
        for (requests, bins) in [(8, 8), (8, 6), (6, 6), (5, 3)] {
            for (chance, k) in fullest(requests, bins).into_iter().zip(1..) {
                let found = recurrence(k, requests, bins as usize);
                assert!((chance - found).abs() < 1e-12, "{k} of {requests} in {bins}: {chance}, {found}");
            }
        }
    }

    /// The appendix's results, and the numbers of bins that they are for.
    #[test]
    fn its_inputs_give_8_bins_and_its_results_are_those_of_6() {
        assert_eq!(bins(4.0, 0.475), 8);
        assert!((expected_revolutions(8, 8) - 3.10).abs() < 0.005);
        assert!((expected_revolutions(8, 6) - 3.4).abs() < 0.05);
        assert!((fullest(6, 6)[0] - 0.02).abs() < 0.005);
        assert!((fullest(6, 8)[0] - 0.08).abs() < 0.005);
    }
}
