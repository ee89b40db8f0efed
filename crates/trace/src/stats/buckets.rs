//! Histograms as the statistics print them.

use schemars::JsonSchema;
use seekless_core::Buckets;
use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Powers(#[serde(deserialize_with = "counted::pairs")] Vec<(u64, u64)>);

impl Powers {
    /// Adds `value`.
    pub fn add(&mut self, value: u64) {
        let power = value.checked_next_power_of_two().unwrap_or(1 << 63).ilog2() as usize;
        self.add_to(power, 1, value);
    }

    fn add_to(&mut self, power: usize, count: u64, sum: u64) {
        if self.0.len() <= power {
            self.0.resize(power + 1, (0, 0));
        }
        let here = &mut self.0[power];
        *here = (here.0 + count, here.1 + sum);
    }

    /// Adds the numbers of another.
    pub fn merge(&mut self, other: &Powers) {
        for (power, &(count, sum)) in other.0.iter().enumerate() {
            self.add_to(power, count, sum);
        }
    }

    /// Whether all its powers are those of a number.
    pub fn is_sound(&self) -> bool {
        self.0.len() <= 64
    }

    /// Each power that occurs, with the count and the sum of its numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let row = |(power, &(count, sum)): (usize, &(u64, u64))| (1 << power, count, sum);
        self.0.iter().enumerate().map(row).filter(|&(_, count, _)| count > 0)
    }
}

/// A histogram as the buckets that are not empty, for a file.
pub mod plain {
    use seekless_core::Buckets;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a histogram.
    pub fn serialize<S: Serializer>(buckets: &Buckets, to: S) -> Result<S::Ok, S::Error> {
        (buckets.bits(), buckets.counts().collect::<Vec<(usize, u64)>>()).serialize(to)
    }

    /// Reads a histogram.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Buckets, D::Error> {
        let (bits, counts) = <(u32, Vec<(usize, u64)>)>::deserialize(from)?;
        let buckets =
            Buckets::from_counts(bits, counts).filter(|buckets| buckets.total() <= super::counted::MOST);
        buckets.ok_or_else(|| D::Error::custom("a histogram that no values have"))
    }
}

/// Numbers of a file, none of which is so large that sums overflow.
pub mod counted {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer};

    /// The largest: bytes of 64 PiB.
    pub const MOST: u64 = 1 << 56;

    /// Reads a number.
    pub fn one<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        bounded(u64::deserialize(from)?)
    }

    /// Reads a list of numbers.
    pub fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let all = Vec::<u64>::deserialize(from)?;
        all.into_iter().map(bounded).collect()
    }

    /// Reads pairs of numbers.
    pub fn pairs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(u64, u64)>, D::Error> {
        let all = Vec::<(u64, u64)>::deserialize(from)?;
        all.into_iter().map(|(a, b)| Ok((bounded(a)?, bounded(b)?))).collect()
    }

    fn bounded<E: Error>(number: u64) -> Result<u64, E> {
        if number <= MOST { Ok(number) } else { Err(E::custom(format!("{number}, which no trace has"))) }
    }

    /// Ascending numbers as the first and the steps between them: shorter in a file.
    pub mod steps {
        use serde::de::Error;
        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        /// Writes ascending numbers.
        pub fn serialize<S: Serializer>(numbers: &[u64], to: S) -> Result<S::Ok, S::Error> {
            let before = std::iter::once(0).chain(numbers.iter().copied());
            let steps: Vec<u64> =
                numbers.iter().zip(before).map(|(now, before)| now.wrapping_sub(before)).collect();
            steps.serialize(to)
        }

        /// Reads ascending numbers.
        pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
            let mut numbers = Vec::<u64>::deserialize(from)?;
            let mut sum = 0_u64;
            for number in &mut numbers {
                sum =
                    sum.checked_add(*number).ok_or_else(|| D::Error::custom("numbers that do not ascend"))?;
                *number = sum;
            }
            Ok(numbers)
        }
    }
}
