//! Histograms as the statistics print them.

use schemars::JsonSchema;
use seekless_core::Buckets;
use serde::Serialize;

/// Values of one doubling: half of `up_to` or more, and below it.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Doubling {
    /// The upper end, in the unit documented at the field.
    pub up_to: f64,
    /// Number of values.
    pub count: u64,
}

/// The counts by doublings, from the first to the last that is not empty, in units of `unit`.
pub fn doublings(buckets: &Buckets, unit: f64) -> Vec<Doubling> {
    let doubling = |(up_to, count): (u64, u64)| Doubling { up_to: up_to as f64 / unit, count };
    buckets.doublings().into_iter().map(doubling).collect()
}

/// Counts and sums of numbers from one on, by powers of two: up to 1, 2, 4, 8 and so on.
#[derive(Clone, Debug, Default)]
pub struct Powers(Vec<(u64, u64)>);

impl Powers {
    /// Adds `value`.
    pub fn add(&mut self, value: u64) {
        let power = value.checked_next_power_of_two().unwrap_or(1 << 63).ilog2() as usize;
        if self.0.len() <= power {
            self.0.resize(power + 1, (0, 0));
        }
        let (count, sum) = &mut self.0[power];
        *count += 1;
        *sum += value;
    }

    /// Each power that occurs, with the count and the sum of its numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let row = |(power, &(count, sum)): (usize, &(u64, u64))| (1 << power, count, sum);
        self.0.iter().enumerate().map(row).filter(|&(_, count, _)| count > 0)
    }
}
