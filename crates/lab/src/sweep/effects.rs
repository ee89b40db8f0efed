//! How much of a figure's variance each parameter explains, and each pair beyond its two parameters.
//!
//! The share of a parameter is the sum of squares between the means of its values, divided by the total sum of squares
//! (a main effect of the analysis of variance). That of a pair is the same for the combinations of both, minus the two
//! shares. In a full grid the shares of all parameters and interactions sum up to 1. With unequal numbers of tasks the
//! share of one parameter contains some of another's, and that of a pair means nothing, so it is left out.

use std::collections::BTreeMap;

/// Values of one figure, and for each of them the level of one parameter.
pub struct Factor {
    /// Levels, counted from zero; each occurs.
    pub levels: Vec<usize>,
    /// Number of levels.
    pub count: usize,
}

/// The share that a parameter explains, from 0 to 1; zero if all values are equal.
pub fn share(factor: &Factor, values: &[f64]) -> f64 {
    between(factor.levels.iter().copied(), values) / total(values)
}

/// Whether each level has equally many values.
pub fn is_balanced(factor: &Factor) -> bool {
    equal_counts(factor.levels.iter().copied(), factor.count)
}

/// The share that two parameters explain together beyond each of them; `None` unless each combination of their levels
/// has equally many values.
pub fn interaction(one: &Factor, other: &Factor, values: &[f64]) -> Option<f64> {
    let cells = || one.levels.iter().zip(&other.levels).map(|(a, b)| a * other.count + b);
    if !equal_counts(cells(), one.count * other.count) {
        return None;
    }
    let beyond = between(cells(), values) / total(values) - share(one, values) - share(other, values);
    Some(beyond.max(0.0))
}

/// Mean of each level, and its number of values.
pub fn means(factor: &Factor, values: &[f64]) -> Vec<(f64, u64)> {
    let mut levels = vec![Vec::new(); factor.count];
    factor.levels.iter().zip(values).for_each(|(level, value)| levels[*level].push(*value));
    levels.iter().map(|values| (mean(values), values.len() as u64)).collect()
}

fn equal_counts(cells: impl Iterator<Item = usize>, count: usize) -> bool {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    cells.for_each(|cell| *counts.entry(cell).or_default() += 1);
    let first = counts.values().next();
    counts.len() == count && counts.values().all(|count| Some(count) == first)
}

/// Sum of squares between the means of the cells.
fn between(cells: impl Iterator<Item = usize>, values: &[f64]) -> f64 {
    let mean = mean(values);
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (cell, value) in cells.zip(values) {
        let sum = sums.entry(cell).or_default();
        *sum = (sum.0 + value - mean, sum.1 + 1.0);
    }
    sums.values().map(|(sum, count)| sum * sum / count).sum()
}

/// Total sum of squares; infinite if all values are equal, so that shares are zero.
fn total(values: &[f64]) -> f64 {
    let mean = mean(values);
    let total: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    if total > f64::EPSILON * mean * mean { total } else { f64::INFINITY }
}

/// Mean; exactly the value that all have, if all are equal.
pub fn mean(values: &[f64]) -> f64 {
    let first = values.first().copied().unwrap_or_default();
    first + values.iter().map(|value| value - first).sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels of two parameters with two and three values, each combination twice.
    fn grid() -> (Vec<usize>, Vec<usize>) {
        (0..12).map(|index| (index / 6, index % 3)).unzip()
    }

    fn values(of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let (one, other) = grid();
        one.iter().zip(&other).map(|(a, b)| of(*a as f64, *b as f64)).collect()
    }

    /// In millionths.
    fn shares(values: &[f64]) -> [i64; 3] {
        let (one, other) = grid();
        let (one, other) = (Factor { levels: one, count: 2 }, Factor { levels: other, count: 3 });
        [share(&one, values), share(&other, values), interaction(&one, &other, values).unwrap()]
            .map(|share| (share * 1e6).round() as i64)
    }

    #[test]
    fn shares_are_those_of_the_analysis_of_variance() {
        assert_eq!(shares(&values(|a, _| a)), [1_000_000, 0, 0]);
        assert_eq!(shares(&values(|_, b| b)), [0, 1_000_000, 0]);
        // Variances of 1/4 and 2/3: 3/11 and 8/11 of the sum.
        assert_eq!(shares(&values(|a, b| a + b)), [272_727, 727_273, 0]);
        assert_eq!(shares(&values(|a, b| (a - 0.5) * (b - 1.0))), [0, 0, 1_000_000]);
        assert_eq!(shares(&values(|_, _| 0.1)), [0; 3]);
        assert_eq!((mean(&[30.565; 250]), mean(&[1.0, 2.0])), (30.565, 1.5));
    }

    #[test]
    fn unequal_numbers_are_found() {
        let one = Factor { levels: vec![0, 0, 1], count: 2 };
        let other = Factor { levels: vec![0, 1, 0], count: 2 };
        assert!(!is_balanced(&one) && is_balanced(&Factor { levels: vec![0, 1, 1, 0], count: 2 }));
        assert_eq!(interaction(&one, &other, &[1.0, 2.0, 3.0]), None);
        // A combination that does not occur, although all others are equal.
        let (one, other) = (Factor { levels: vec![0, 1], count: 2 }, Factor { levels: vec![0, 1], count: 2 });
        assert_eq!(interaction(&one, &other, &[1.0, 2.0]), None);
        assert_eq!(means(&one, &[1.0, 2.0]), [(1.0, 1), (2.0, 1)]);
    }
}
