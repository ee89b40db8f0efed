//! Scales of axes, and round values for their ticks.

/// The scale of an axis.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// Linear from 0.
    Linear {
        /// The largest value; above 0.
        to: f64,
    },
    /// Logarithmic.
    Log {
        /// The smallest value, a power of ten.
        from: f64,
        /// The largest value, a power of ten above `from`.
        to: f64,
    },
}

impl Scale {
    /// A linear scale up to a round value that covers `values`.
    pub fn linear(values: impl Iterator<Item = f64>) -> Scale {
        let largest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let step = round_step(largest);
        // A sum to a round value may be slightly above it.
        Scale::Linear { to: (largest / step - 1e-9).ceil() * step }
    }

    /// A logarithmic scale between the powers of ten that cover those of `values` that are above 0.
    pub fn log(values: impl Iterator<Item = f64>) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            low = low.min(value);
            high = high.max(value);
        }
        if high == 0.0 {
            return Scale::Log { from: 1.0, to: 10.0 };
        }
        let from = 10.0_f64.powf(low.log10().floor());
        let to = 10.0_f64.powf(high.log10().ceil());
        Scale::Log { from, to: if to > from { to } else { from * 10.0 } }
    }

    /// The values at its ends.
    pub fn ends(self) -> [f64; 2] {
        match self {
            Scale::Linear { to } => [0.0, to],
            Scale::Log { from, to } => [from, to],
        }
    }

    /// Position of `value`, from 0 to 1.
    pub fn at(self, value: f64) -> f64 {
        let place = match self {
            Scale::Linear { to } => value / to,
            Scale::Log { from, to } => (value.max(from) / from).log10() / (to / from).log10(),
        };
        place.clamp(0.0, 1.0)
    }

    /// Round values from end to end.
    pub fn ticks(self) -> Vec<f64> {
        match self {
            Scale::Linear { to } => {
                let step = round_step(to);
                let count = (to / step).round() as u32;
                (0..=count).map(|at| f64::from(at) * step).collect()
            }
            Scale::Log { from, to } => {
                let decades = (to / from).log10().round() as i32;
                (0..=decades).map(|at| from * 10.0_f64.powi(at)).collect()
            }
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides `largest` into four to ten.
fn round_step(largest: f64) -> f64 {
    let rough = largest / 5.0;
    let power = 10.0_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough).unwrap_or(10.0);
    step * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_are_round() {
        let scale = Scale::linear([37.0, f64::NAN, 12.0].into_iter());
        assert_eq!(scale.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert!((scale.at(20.0) - 0.5).abs() < 1e-9);
        assert_eq!(Scale::linear(std::iter::empty()).ticks().len(), 6);
    }

    #[test]
    fn log_axes_are_decades() {
        let scale = Scale::log([3.0, 0.0, 4500.0].into_iter());
        assert_eq!(scale.ticks().len(), 5);
        assert!((scale.at(100.0) - 0.5).abs() < 1e-9);
        assert!(scale.at(0.0) < 1e-9);
        assert_eq!(Scale::log([1.0].into_iter()).ticks(), [1.0, 10.0]);
    }
}
