//! Counts of values in buckets that widen with the value: 2^`bits` buckets per doubling.
//!
//! Invariant: values below 2^`bits` have a bucket each, and a value is at most 2^-`bits` above the start of its bucket.
//! Counts are integers, hence sums are exact.

/// A histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    bits: u32,
    counts: Vec<u64>,
    total: u64,
}

impl Buckets {
    /// An empty histogram; `bits` is 0 to 16.
    pub fn new(bits: u32) -> Buckets {
        Buckets { bits, counts: Vec::new(), total: 0 }
    }

    /// Adds `value`, `times` times.
    pub fn add(&mut self, value: u64, times: u64) {
        let index = self.index(value);
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += times;
        self.total += times;
    }

    /// A histogram of these counts by bucket; `None` if no value has one of the buckets, or the counts are too large.
    pub fn from_counts(bits: u32, counts: impl IntoIterator<Item = (usize, u64)>) -> Option<Buckets> {
        let mut buckets = Buckets::new(bits);
        let last = if bits <= 16 { buckets.index(u64::MAX) } else { return None };
        for (index, count) in counts {
            if index > last {
                return None;
            }
            if buckets.counts.len() <= index {
                buckets.counts.resize(index + 1, 0);
            }
            buckets.counts[index] = buckets.counts[index].checked_add(count)?;
            buckets.total = buckets.total.checked_add(count)?;
        }
        Some(buckets)
    }

    /// The number of buckets per doubling, as a power of two.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The buckets that are not empty: their number and count.
    pub fn counts(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// Adds the counts of a histogram with as many buckets per doubling.
    pub fn merge(&mut self, other: &Buckets) {
        for (start, count) in other.iter().filter(|&(_, count)| count > 0) {
            self.add(start, count);
        }
    }

    /// Number of values.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn index(&self, value: u64) -> usize {
        let octave = (value >> self.bits).checked_ilog2().map_or(0, |octave| octave + 1);
        if octave == 0 {
            return value as usize;
        }
        // Within its octave the leading bit is always set: the bits after it give the bucket.
        ((u64::from(octave - 1) << self.bits) + (value >> (octave - 1))) as usize
    }

    /// The least value of a bucket.
    fn start(&self, index: usize) -> u64 {
        let width = 1_usize << self.bits;
        if index < 2 * width {
            return index as u64;
        }
        let shift = index / width - 1;
        ((index % width + width) as u64) << shift
    }

    /// The buckets in order: their least value and count.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().map(|(index, &count)| (self.start(index), count))
    }

    /// The quantile `share` (0 to 1), to a bucket's width; zero if empty.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (share * self.total as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        let reaches = |&(_, count): &(u64, u64)| {
            sum += count;
            sum >= wanted
        };
        let found = self.iter().find(reaches);
        found.map_or(0, |(start, _)| start)
    }

    /// The counts by doublings, from the first to the last that is not empty: each doubling's upper end, exclusive, but
    /// for the last that a number can have, which ends at the largest.
    pub fn doublings(&self) -> Vec<(u64, u64)> {
        let mut doublings: Vec<(u64, u64)> = Vec::new();
        for (start, count) in self.iter().filter(|&(_, count)| count > 0) {
            let up_to = start.saturating_add(1).checked_next_power_of_two().unwrap_or(u64::MAX);
            loop {
                match doublings.last_mut() {
                    Some(last) if last.0 == up_to => break last.1 += count,
                    Some(last) => {
                        let next = last.0.saturating_mul(2);
                        doublings.push((next, 0));
                    }
                    None => doublings.push((up_to, 0)),
                }
            }
        }
        doublings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_bucket_that_starts_below_it() {
        let buckets = Buckets::new(4);
        for value in (0..5_000).chain([1 << 40, (1 << 40) + 12_345, u64::MAX / 3]) {
            let index = buckets.index(value);
            assert!(buckets.start(index) <= value && value < buckets.start(index + 1), "{value}");
            assert!(value - buckets.start(index) <= value >> 4, "{value}");
        }
    }

    #[test]
    fn the_largest_values_are_in_the_last_doubling() {
        let mut buckets = Buckets::new(4);
        for value in [1 << 61, 1 << 63, u64::MAX] {
            buckets.add(value, 1);
        }
        assert_eq!(buckets.doublings(), [(1 << 62, 1), (1 << 63, 0), (u64::MAX, 2)]);
    }

    #[test]
    fn quantiles_and_doublings_match_the_values_added() {
        let mut buckets = Buckets::new(6);
        (1..=100).for_each(|value| buckets.add(value, 1));
        assert_eq!([buckets.quantile(0.0), buckets.quantile(0.5), buckets.quantile(1.0)], [1, 50, 100]);
        assert_eq!(buckets.doublings()[..4], [(2, 1), (4, 2), (8, 4), (16, 8)]);
        assert_eq!(Buckets::new(6).quantile(0.5), 0);
    }
}
