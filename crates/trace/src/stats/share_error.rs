//! The error of a share that a sample of keys gives, such as that of accesses to the pages accessed most.
//!
//! The sampled keys are divided into groups by their hashes, and the share is computed without one group at a time (the
//! jackknife): how much these shares differ is what the share owes to the choice of its keys. Few keys with much of the
//! weight give a large error, as they should; one that the sample lacks is unknown to it.

/// Groups of keys.
const GROUPS: usize = 16;
/// Quantile of Student's distribution for this number of groups, for 95 % confidence.
const CONFIDENT: f64 = 2.131;

/// The group of a key with this hash: by the lowest bits, since the highest ones decide the sampling.
pub fn group(hash: u64) -> usize {
    hash as usize % GROUPS
}

/// Error in percentage points of a share in per cent, at 95 % confidence, where one of `2^halvings` keys is kept;
/// `without` gives the share without a group.
fn error(halvings: u32, without: impl Fn(usize) -> f64) -> f64 {
    if halvings == 0 {
        return 0.0;
    }
    let shares: Vec<f64> = (0..GROUPS).map(without).collect();
    let groups = GROUPS as f64;
    let mean = shares.iter().sum::<f64>() / groups;
    let squares = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>();
    let left_out = 1.0 - 1.0 / (1_u64 << halvings.min(63)) as f64;
    CONFIDENT * (squares * (groups - 1.0) / groups * left_out).sqrt()
}

/// Parts and wholes of each group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    groups: [(u64, u64); GROUPS],
}

impl Parts {
    /// Adds a key with this hash and weight, which is of the part or not.
    pub fn add(&mut self, hash: u64, weight: u64, is_part: bool) {
        let group = &mut self.groups[group(hash)];
        group.1 += weight;
        group.0 += if is_part { weight } else { 0 };
    }

    /// The error of the share of the part.
    pub fn error(&self, halvings: u32) -> f64 {
        let sum = |without: usize, of: fn(&(u64, u64)) -> u64| -> u64 {
            let others = self.groups.iter().enumerate().filter(|(group, _)| *group != without);
            others.map(|(_, group)| of(group)).sum()
        };
        error(halvings, |without| {
            super::percent(sum(without, |group| group.0), sum(without, |group| group.1))
        })
    }
}

/// Counts of keys with their groups, the highest first.
pub struct Ranked(Vec<u64>);

impl Ranked {
    /// Of keys with their hashes; counts are less than 2^60.
    pub fn of(keys: impl Iterator<Item = (u64, u64)>) -> Ranked {
        let mut all: Vec<u64> =
            keys.map(|(hash, count)| count * GROUPS as u64 + group(hash) as u64).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        Ranked(all)
    }

    /// The error of the share of the highest counts, of which there are `top(n)` among `n` keys.
    pub fn error(&self, halvings: u32, top: impl Fn(usize) -> usize) -> f64 {
        error(halvings, |without| {
            let others = || self.0.iter().filter(|&&one| one as usize % GROUPS != without);
            let count = |one: &u64| one / GROUPS as u64;
            let highest = others().take(top(others().count())).map(count).sum();
            super::percent(highest, others().map(count).sum())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::mix;
    use super::*;

    /// Keys of which some weigh much: the shares of all of them, and of each sample with its error.
    fn off(halvings: u32, share: impl Fn(&[(u64, u64)]) -> (f64, f64)) -> Vec<(f64, f64)> {
        let weight = |key: u64| 1 + 20_000 / (50 + mix(key ^ 0x51) % 5_000);
        let all = |seed: u64| (0..20_000).map(move |key| (mix(key ^ seed << 32), weight(key)));
        let of_seed = |seed: u64| {
            let sampled: Vec<(u64, u64)> =
                all(seed).filter(|(hash, _)| *hash <= u64::MAX >> halvings).collect();
            let (found, error) = share(&sampled);
            (found - share(&all(seed).collect::<Vec<_>>()).0, error)
        };
        (1..=60).map(of_seed).collect()
    }

    fn assert_confident(found: &[(f64, f64)]) {
        let within = found.iter().filter(|(off, error)| off.abs() <= *error).count();
        assert!(within * 100 >= found.len() * 85, "{within} of {}: {found:?}", found.len());
        let mean = |of: fn(&(f64, f64)) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
        assert!(mean(|one| one.1) < 6.0 * mean(|one| one.0.abs()), "{found:?}");
    }

    #[test]
    fn shares_of_a_sample_are_within_their_errors() {
        let parts = |keys: &[(u64, u64)]| {
            let mut parts = Parts::default();
            for &(hash, weight) in keys {
                parts.add(hash, weight, weight > 12);
            }
            let sum = |of: &dyn Fn(u64) -> bool| -> u64 {
                keys.iter().map(|key| key.1).filter(|weight| of(*weight)).sum()
            };
            (super::super::percent(sum(&|weight| weight > 12), sum(&|_| true)), parts.error(4))
        };
        assert_confident(&off(4, parts));
        let ranked = |keys: &[(u64, u64)]| {
            let mut counts: Vec<u64> = keys.iter().map(|key| key.1).collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let highest = counts[..counts.len() / 5].iter().sum();
            let share = super::super::percent(highest, counts.iter().sum());
            (share, Ranked::of(keys.iter().copied()).error(4, |keys| keys / 5))
        };
        assert_confident(&off(4, ranked));
        assert!(Parts::default().error(0) == 0.0 && Parts::default().error(3) == 0.0);
    }
}
