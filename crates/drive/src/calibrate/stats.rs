//! Medians and their intervals, and angles in turns. Only operations that are the same on every machine.

use schemars::JsonSchema;
use serde::Serialize;

/// A value with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Estimate {
    /// A value without error: a count.
    pub fn exact(value: f64) -> Estimate {
        Estimate { value, low: value, high: value }
    }

    /// The median of some measurements, and its interval by their order: between the two ranks around the middle that
    /// hold the true median with 95 % (normal approximation of the binomial). Of fewer than six, all.
    pub fn median(values: &[f64]) -> Estimate {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        if count == 0 {
            return Estimate::default();
        }
        let reach = if count < 6 { count } else { (0.98 * (count as f64).sqrt()).ceil() as usize };
        let low = (count / 2).saturating_sub(reach);
        let high = (count / 2 + reach).min(count - 1);
        Estimate { value: middle(&sorted), low: sorted[low], high: sorted[high] }
    }

    /// The estimate in another unit.
    pub fn times(self, factor: f64) -> Estimate {
        Estimate { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// Whether the interval holds a value, but for rounding.
    pub fn holds(&self, value: f64) -> bool {
        let slack = 1e-9 * value.abs();
        self.low - slack <= value && value <= self.high + slack
    }
}

/// The middle of sorted values.
fn middle(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// The median.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted)
}

/// An angle in turns, from -1/2 to 1/2.
pub fn around(turns: f64) -> f64 {
    turns - turns.round()
}

/// An angle in turns, from 0 to less than 1.
pub fn forward(turns: f64) -> f64 {
    let rest = turns - turns.floor();
    if rest >= 1.0 { 0.0 } else { rest }
}

/// The median of angles that lie near each other.
pub fn median_angle(turns: &[f64]) -> f64 {
    let Some(&first) = turns.first() else { return 0.0 };
    let off: Vec<f64> = turns.iter().map(|angle| around(angle - first)).collect();
    // Once more from near the middle, in case the first lies half a turn off.
    let near = first + median(&off);
    let off: Vec<f64> = turns.iter().map(|angle| around(angle - near)).collect();
    near + median(&off)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_core::runtime::Rng;

    #[test]
    fn intervals_of_the_median_hold_it_as_often_as_they_say() {
        let mut rng = Rng::seeded(3);
        let mut held = 0;
        for _ in 0..2_000 {
            let values: Vec<f64> = (0..31).map(|_| (rng.below(1 << 20) as f64).sqrt()).collect();
            held += u32::from(Estimate::median(&values).holds((0.5 * f64::from(1 << 20)).sqrt()));
        }
        assert!((1_860..1_990).contains(&held), "{held} of 2,000");
    }

    #[test]
    fn angles_go_round() {
        assert!((median_angle(&[0.99, 0.01, 0.98]) - 0.99).abs() < 1e-12);
        assert!((around(0.9) + 0.1).abs() < 1e-12 && (forward(-0.1) - 0.9).abs() < 1e-12);
        assert!(forward(-1e-18) < 1.0);
    }
}
